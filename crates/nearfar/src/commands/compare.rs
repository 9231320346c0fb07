//! `nearfar compare`: compares runs or columns with a baseline.

use std::process::ExitCode;

use model::analysis::compare::{FailCheck, FailRule, index};
use model::import::unixbench::IndexTable;
use model::values::comparison::Comparison;
use report::number::Digits;

use crate::app::compare::{CompareRequest, Compared, comparison, indices};
use crate::cli::{CompareArgs, GlobalArgs, Suite, TableFormat};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::existing_store;

/// Compares stored or exported runs, or the columns of an imported table.
pub fn run(args: &CompareArgs, common: &GlobalArgs) -> CommandResult {
    let request = request(args);
    if let Some(dir) = &args.parquet {
        if request.is_by_column() {
            return Err(CliError::usage(
                "--by column: imported tables are only in the results file, not in exported directories",
            ));
        }
        let compared = Compared::from_dir(&request, dir)?;
        return match args.index {
            Some(Suite::Unixbench) => show_index(&compared.compare_with(&request, index)?, args.format),
            None => show(&compared.comparison(&request)?, args),
        };
    }
    let store = existing_store(common)?;
    match args.index {
        Some(Suite::Unixbench) => show_index(&indices(&request, &store)?, args.format),
        None => show(&comparison(&request, &store)?, args),
    }
}

fn show(comparison: &Comparison, args: &CompareArgs) -> CommandResult {
    let selected = || if args.all_metrics { comparison.clone() } else { comparison.clone().main_metrics() };
    let digits = args.digits.map_or_else(Digits::default, |digits| Digits::new(digits.into()));
    let text = match args.format {
        TableFormat::Text => report::table::comparison_with(&selected(), digits, &output::stdout_style()),
        TableFormat::Markdown => report::table::comparison_markdown_with(&selected(), digits),
        TableFormat::Csv => report::table::comparison_csv(comparison),
        TableFormat::Json => {
            output::print_json(&report::json::comparison(comparison))?;
            return Ok(status(args.fail_if.as_ref(), comparison));
        }
        TableFormat::Svg => report::changes::svg(comparison).ok_or_else(no_change)?,
    };
    output::print(&text)?;
    Ok(status(args.fail_if.as_ref(), comparison))
}

/// Returns the exit status of `--fail-if`, and prints the changes behind it.
fn status(rule: Option<&FailRule>, comparison: &Comparison) -> ExitCode {
    let Some(FailCheck { failed, unknown }) = rule.map(|rule| rule.check(comparison)) else {
        return ExitCode::SUCCESS;
    };
    for (test, column) in &failed {
        message!("--fail-if: {test}, {column} is beyond the limit");
    }
    for (test, column) in &unknown {
        message!(
            "--fail-if: {test}, {column} has no interval that contains what differs between runs, so its change is unknown"
        );
    }
    match (failed.is_empty(), unknown.is_empty()) {
        (false, _) => CliStatus::Failure.into(),
        (true, false) => CliStatus::Inconclusive.into(),
        (true, true) => ExitCode::SUCCESS,
    }
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

fn request(args: &CompareArgs) -> CompareRequest {
    CompareRequest {
        runs: args.runs.clone(),
        by: args.by.clone(),
        baseline: args.baseline.clone(),
        table: args.table.clone(),
        metric: args.metric.clone(),
        added_tables: args.added_tables.clone(),
        tests: args.tests.clone(),
        strict: args.strict,
    }
}
