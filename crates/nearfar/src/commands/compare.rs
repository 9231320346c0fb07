//! `nearfar compare`: compares runs or columns with a baseline.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use model::analysis::compare::{FailCheck, FailRule};
use model::import::unixbench::IndexTable;
use model::values::comparison::Comparison;
use report::number::Digits;
use report::{FigureStyle, Theme};

use crate::app::compare::{CompareRequest, Compared, column_table, table_comparison, table_index};
use crate::cli::{CompareArgs, GlobalArgs, Suite, TableFormat};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::png::png;
use crate::requests::{existing_store, theme};

/// Compares stored or exported runs, or the columns of an imported table.
pub fn run(args: &CompareArgs, common: &GlobalArgs) -> CommandResult {
    let request = request(args);
    check_output(args)?;
    if let Some(dir) = &args.parquet {
        if request.is_by_column() {
            return Err(CliError::usage(
                "--by column: imported tables are only in the results file, not in exported directories",
            ));
        }
        if !request.added_tables.is_empty() && args.index.is_some() {
            return Err(CliError::usage("--add-table: imported tables are only in the results file"));
        }
        return show_compared(&Compared::from_dir(&request, dir)?, &request, args);
    }
    let store = existing_store(common)?;
    if request.is_by_column() {
        let (table, request) = (column_table(&request, &store)?, &request);
        let source = report::source([], std::slice::from_ref(&table.name));
        return match args.index {
            Some(Suite::Unixbench) => show_index(&table_index(&table, request)?, args, source),
            None => show(&table_comparison(table, request)?, args, source),
        };
    }
    show_compared(&Compared::from_store(&request, &store)?, &request, args)
}

fn show_compared(compared: &Compared, request: &CompareRequest, args: &CompareArgs) -> CommandResult {
    let source = report::source(compared.records(), &request.added_tables);
    match args.index {
        Some(Suite::Unixbench) => show_index(&compared.index(request)?, args, source),
        None => show(&compared.comparison(request)?, args, source),
    }
}

/// Refuses binary output to a terminal, before anything is computed.
fn check_output(args: &CompareArgs) -> Result<(), CliError> {
    let is_terminal = args.output == Path::new("-") && std::io::stdout().is_terminal();
    if args.format == TableFormat::Png && is_terminal {
        return Err(CliError::usage("--format png: stdout is a terminal")
            .hint("name a file with --output FILE, or redirect stdout"));
    }
    Ok(())
}

fn show(comparison: &Comparison, args: &CompareArgs, source: String) -> CommandResult {
    let selected = || if args.all_metrics { comparison.clone() } else { comparison.clone().main_metrics() };
    let digits = args.digits.map_or_else(Digits::default, |digits| Digits::new(digits.into()));
    let picture = || report::changes::standalone(comparison, &figure_style(args, source)).ok_or_else(no_change);
    let text = match args.format {
        TableFormat::Text => report::table::comparison_with(&selected(), digits, &output::stdout_style()),
        TableFormat::Markdown => report::table::comparison_markdown_with(&selected(), digits),
        TableFormat::Html => report::table::comparison_html(&selected(), digits),
        TableFormat::Csv => report::table::comparison_csv(comparison),
        TableFormat::Json => pretty(&report::json::comparison(comparison))?,
        TableFormat::Svg | TableFormat::Png => picture()?,
    };
    write(args, &text)?;
    Ok(status(args.fail_if.as_ref(), comparison))
}

/// Writes a text, or the PNG of a picture.
fn write(args: &CompareArgs, text: &str) -> Result<(), CliError> {
    if args.format != TableFormat::Png {
        return output::write(&args.output, text);
    }
    let bytes = png(text)?;
    output::write_streamed(&args.output, |out| {
        out.write_all(&bytes).map_err(|error| output::cannot_write(&args.output, &error))
    })
}

fn pretty(value: &serde_json::Value) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map_err(CliError::failure)
}

fn figure_style(args: &CompareArgs, source: String) -> FigureStyle {
    let theme = match theme(args.theme) {
        // A PNG has fixed colours.
        Theme::Auto if args.format == TableFormat::Png => Theme::Light,
        theme => theme,
    };
    FigureStyle { theme, source }
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

fn show_index(table: &IndexTable, args: &CompareArgs, source: String) -> CommandResult {
    let no_index = || CliError::usage("no index to draw: no test of the index has a score");
    let text = match args.format {
        TableFormat::Text => report::table::index(table, &output::stdout_style()),
        TableFormat::Markdown => report::table::index_markdown(table),
        TableFormat::Html => report::table::index_html(table),
        TableFormat::Csv => report::table::index_csv(table),
        TableFormat::Json => pretty(&report::json::index(table))?,
        TableFormat::Svg | TableFormat::Png => {
            report::index_figure::svg(table, &figure_style(args, source)).ok_or_else(no_index)?
        }
    };
    write(args, &text)?;
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
