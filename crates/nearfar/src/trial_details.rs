//! Describes a trial for `--verbose`: its placement, and the command lines that it runs. Must not depend on the display of
//! progress.

use model::values::record::RunRecord;
use model::values::shell::quote_argv;
use model::values::trial::Trial;
use workloads::{Runner, TrialContext};

/// Returns a line for the trial, and one for each command of workload `command`.
pub fn lines(record: &RunRecord, trial: &Trial) -> Vec<String> {
    let (cell, placement) = (&record.plan.cells[trial.cell], &trial.placement);
    let cpus = if placement.is_pinned() { placement.cpus().to_string() } else { "any".into() };
    let threads = placement.threads;
    let about = format!("trial {}: {} @ {}, threads: {threads}, CPUs: {cpus}", trial.id, cell.test, placement.name);
    std::iter::once(about).chain(commands(record, trial)).collect()
}

/// The command lines of workload `command`. Those of other tools contain the path of a directory that exists only during
/// the trial.
fn commands(record: &RunRecord, trial: &Trial) -> Vec<String> {
    let workload = workloads::find(&trial.workload).filter(|_| trial.workload == "command");
    let is_real = record.simulated.is_none();
    let Some(Runner::Tool { recipe, .. }) = workload.filter(|_| is_real).map(|workload| &workload.runner) else {
        return Vec::new();
    };
    // An error is the result of the trial.
    let Ok(spec) = recipe(&TrialContext::of(trial)) else { return Vec::new() };
    let server = spec.server.map(|server| server.command);
    let named =
        [("prepare", spec.prepare), ("server", server), ("command", Some(spec.command)), ("cleanup", spec.cleanup)];
    let line =
        |(name, line): (&str, Option<workloads::CommandLine>)| Some(format!("  {name}: {}", quote_argv(&line?.argv)));
    named.into_iter().filter_map(line).collect()
}
