//! Output of the measuring commands: a plan, the findings of a run and how it ended; and their exit status.

use std::process::ExitCode;

use lab::progress::{RunEnd, forecast};
use model::analysis::compare::{ComparedRun, efficiencies, planned};
use model::analysis::finding::RunFinding;
use model::values::plan::Plan;
use model::values::record::{EndReason, RunRecord};
use report::table::Metrics;

use crate::app::session::RunResult;
use crate::cli::TextOrJson;
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;

/// Prints a plan and the estimate of its duration.
pub fn print_plan(plan: &Plan, format: TextOrJson) -> CommandResult {
    let estimate = forecast(plan, &lab::history::History::default());
    match format {
        TextOrJson::Json => output::print_json(&report::json::plan(plan, estimate.expected, estimate.left))?,
        TextOrJson::Text => {
            output::print(&report::table::plan(plan, estimate.expected, estimate.left, &output::stdout_style()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the findings of a run and how it ended.
pub fn print_run(result: &RunResult, format: TextOrJson, quiet: bool) -> CommandResult {
    let RunResult { record, finding, end, .. } = result;
    show(record, finding, format)?;
    if !quiet {
        message!("{}", end_message(*end, record));
    }
    Ok(status(finding, *end))
}

/// Prints the findings of a run, and its comparison if the plan has one.
fn show(record: &RunRecord, finding: &RunFinding, format: TextOrJson) -> Result<(), CliError> {
    let run = ComparedRun { record, finding };
    if format == TextOrJson::Json {
        return output::print_json(&report::json::run(record, finding, &efficiencies(run)));
    }
    let style = output::stdout_style();
    output::print(&report::table::run(record, finding, Metrics::Main, &style))?;
    if let Some(comparison) = planned(&[run], &record.plan) {
        output::print("")?;
        output::print(&report::table::comparison(&comparison.main_metrics(), &style))?;
    }
    Ok(())
}

/// Returns the exit status: `Invalid` if no trial of any cell has a verified placement and a result.
pub fn status(finding: &RunFinding, end: RunEnd) -> ExitCode {
    if end == RunEnd::Interrupted {
        return CliStatus::Interrupted.into();
    }
    let counted = finding.cells.iter().any(|cell| cell.verdicts.valid + cell.verdicts.suspect > 0);
    if counted { ExitCode::SUCCESS } else { CliStatus::Invalid.into() }
}

/// Describes how a run ended.
pub fn end_message(end: RunEnd, record: &RunRecord) -> String {
    let id = &record.id;
    match end {
        RunEnd::Over(EndReason::Precise) => format!("run {id}: all cells have the requested precision"),
        RunEnd::Over(EndReason::AllBlocks) => format!("run {id}: all blocks are complete"),
        RunEnd::Over(EndReason::Budget) => format!("run {id}: the budget of {} is used up", record.plan.repeat.budget),
        RunEnd::Over(EndReason::Resolved) => format!("run {id}: the race is decided"),
        RunEnd::Over(EndReason::NoReference) => format!("run {id}: the command fails without a placement"),
        RunEnd::Interrupted => format!("run {id} was interrupted; rerun the same command to resume"),
    }
}
