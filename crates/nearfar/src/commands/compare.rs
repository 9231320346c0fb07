//! `nearfar compare`: compares runs or columns with a baseline.

use std::process::ExitCode;

use model::analysis::compare::{compare, compare_table, index, index_table};
use model::import::unixbench::IndexTable;
use model::values::comparison::Comparison;
use model::values::record::ImportedTable;
use store::Store;

use crate::app::compare::Compared;
use crate::app::target_machine::existing_store;
use crate::cli::{CompareArgs, GlobalArgs, Suite, TableFormat};
use crate::error::{CliError, CommandResult};
use crate::output;

/// Compares stored or exported runs, or the columns of an imported table.
pub fn run(args: &CompareArgs, common: &GlobalArgs) -> CommandResult {
    if let Some(dir) = &args.parquet {
        if by_column(args) {
            return Err(CliError::usage(
                "--by column: imported tables are only in the results file, not in exported directories",
            ));
        }
        let compared = Compared::from_dir(args, dir)?;
        return match args.index {
            Some(Suite::Unixbench) => show_index(&compared.compare_with(args, index)?, args.format),
            None => show(&compared.compare_with(args, compare)?, args),
        };
    }
    let store = existing_store(common)?;
    match args.index {
        Some(Suite::Unixbench) => show_index(&indices(args, &store)?, args.format),
        None => show(&comparison(args, &store)?, args),
    }
}

fn show(comparison: &Comparison, args: &CompareArgs) -> CommandResult {
    let selected = || if args.all_metrics { comparison.clone() } else { comparison.clone().main_metrics() };
    let text = match args.format {
        TableFormat::Text => report::table::comparison(&selected(), &output::stdout_style()),
        TableFormat::Markdown => report::table::comparison_markdown(&selected()),
        TableFormat::Csv => report::table::comparison_csv(comparison),
        TableFormat::Json => {
            output::print_json(&report::json::comparison(comparison))?;
            return Ok(ExitCode::SUCCESS);
        }
        TableFormat::Svg => report::changes::svg(comparison).ok_or_else(no_change)?,
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Compares stored runs or the columns of an imported table.
pub fn comparison(args: &CompareArgs, store: &Store) -> Result<Comparison, CliError> {
    if by_column(args) { imported(args, store) } else { Compared::from_store(args, store)?.compare_with(args, compare) }
}

fn no_change() -> CliError {
    CliError::usage("no change to draw: the comparison has only one column, or no results")
        .hint("show the data with nearfar compare")
}

fn show_index(table: &IndexTable, format: TableFormat) -> CommandResult {
    match format {
        TableFormat::Text => output::print(&report::table::index(table, &output::stdout_style()))?,
        TableFormat::Markdown => output::print(&report::table::index_markdown(table))?,
        TableFormat::Csv => output::print(&report::table::index_csv(table))?,
        TableFormat::Json => output::print_json(&report::json::index(table))?,
        TableFormat::Svg => {
            return Err(CliError::usage("--format svg is not supported for an index")
                .hint("use --format text, or nearfar report"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn by_column(args: &CompareArgs) -> bool {
    args.by.as_deref().map_or(args.table.is_some(), |by| by == "column")
}

fn indices(args: &CompareArgs, store: &Store) -> Result<IndexTable, CliError> {
    if by_column(args) {
        return index_table(&table(args, store)?, args.baseline.as_deref()).map_err(CliError::usage);
    }
    Compared::from_store(args, store)?.compare_with(args, index)
}

fn imported(args: &CompareArgs, store: &Store) -> Result<Comparison, CliError> {
    compare_table(&table(args, store)?, args.baseline.as_deref()).map_err(CliError::usage)
}

fn table(args: &CompareArgs, store: &Store) -> Result<ImportedTable, CliError> {
    let names = store.tables().map_err(CliError::failure)?;
    let name = args.table.as_ref().or(names.last()).ok_or_else(|| {
        CliError::usage("the results file contains no imported table").hint("import one with nearfar import FILE")
    })?;
    store.table(name).map_err(CliError::usage)
}
