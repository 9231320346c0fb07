//! Checks a plan, resumes or begins its run, and executes it with a progress display: the part that all measuring
//! commands share.

use std::sync::atomic::Ordering;

use lab::progress::{RunEnd, RunEvent};
use model::analysis::finding::{RunFinding, summarise};
use model::values::plan::Plan;
use model::values::record::RunRecord;
use model::values::settings::FactValue;
use model::values::trial::Role;
use model::values::workload::Parameters;
use store::{FileIdentity, Store, StoreError};
use workloads::{Runner, TrialContext};

use crate::app::results_file::ResultsFile;
use crate::app::run_guard::{GuardRequest, RunGuard};
use crate::app::target_machine::{MachineRequest, TargetMachine};
use crate::error::{CliError, CliStatus};
use crate::progress::Progress;

/// The request of a run, without its plan.
pub struct SessionRequest {
    pub machine: MachineRequest,
    pub guard: GuardRequest,
    pub results: ResultsFile,
    /// The arguments that reproduce the plan.
    pub argv: Vec<String>,
}

impl SessionRequest {
    /// Acquires the machine for a run, as in [`RunGuard::acquire`].
    pub fn acquire<T>(&self, prepare: impl Fn() -> Result<T, CliError>) -> Result<(RunGuard, T), CliError> {
        RunGuard::acquire(&self.guard, self.machine.sim.is_some(), prepare)
    }

    pub fn quiet(&self) -> bool {
        self.guard.quiet
    }
}

/// A run with its findings.
pub struct RunResult {
    pub store: Store,
    pub record: RunRecord,
    pub finding: RunFinding,
    pub end: RunEnd,
}

/// Which stored run is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumeRule {
    /// The newest unfinished run of the plan in the same state of the machine.
    Newest,
    /// None: a new run begins.
    Fresh,
    /// This unfinished run of the plan, also if the machine has changed.
    Run(String),
}

impl ResumeRule {
    pub fn new(fresh: bool, run: Option<&str>) -> Self {
        match run {
            Some(run) => Self::Run(run.into()),
            None if fresh => Self::Fresh,
            None => Self::Newest,
        }
    }
}

/// Executes a plan, or the rest of an unfinished run of it. Then releases the machine.
/// The returned record is that of the beginning of the run.
pub fn complete(
    request: &SessionRequest,
    guard: RunGuard,
    target: &TargetMachine,
    plan: Plan,
    resume: &ResumeRule,
) -> Result<RunResult, CliError> {
    let mut store = target.open_store(&request.results)?;
    let record = resume_or_begin(&mut store, target, plan, resume, request.quiet())?;
    let end = execute(&mut store, &record, target, &guard, request.quiet())?;
    guard.release();
    let finding = summarise(&record.plan, &store.trials(&record.id).map_err(CliError::failure)?);
    Ok(RunResult { store, record, finding, end })
}

/// Checks what the description of a workload cannot express: that regular expressions compile and programs exist.
pub fn check(plan: &Plan, target: &TargetMachine) -> Result<(), CliError> {
    // Placements do not matter here, so each set of parameters is checked once.
    let mut seen: Vec<(&str, &Parameters)> = Vec::new();
    for (index, cell) in plan.cells.iter().enumerate() {
        let Some(workload) = workloads::find(&cell.workload) else { continue };
        if seen.contains(&(&cell.workload, &cell.parameters)) {
            continue;
        }
        seen.push((&cell.workload, &cell.parameters));
        let invalid = |error: &dyn std::fmt::Display| CliError::usage(format!("workload {}: {error}", cell.workload));
        (workload.check)(&cell.parameters).map_err(|error| invalid(&error))?;
        if let (Runner::Tool { recipe, .. }, None) = (&workload.runner, &target.simulated) {
            let context = TrialContext::of(&plan.trial("", 0, index, Role::Measured, 0, 0));
            let recipe = recipe(&context).map_err(|error| invalid(&error))?;
            for program in recipe.programs() {
                machine::child::find_program(program).map_err(CliError::usage)?;
            }
        }
    }
    Ok(())
}

/// Returns the unfinished run that the rule selects, or begins a new run.
pub fn resume_or_begin(
    store: &mut Store,
    target: &TargetMachine,
    plan: Plan,
    resume: &ResumeRule,
    quiet: bool,
) -> Result<RunRecord, CliError> {
    let resumed = match resume {
        ResumeRule::Fresh => None,
        ResumeRule::Newest => unfinished(store, target, &plan, quiet)?,
        ResumeRule::Run(name) => Some(announced(named_run(store, target, &plan, name)?, quiet)),
    };
    if let Some(record) = resumed {
        return Ok(record);
    }
    if *resume == ResumeRule::Newest && !quiet {
        explain_new_run(store, target, &plan)?;
    }
    begin(store, target, plan)
}

/// Returns the unfinished run of this plan on this machine in the same state, if any.
pub fn unfinished(
    store: &Store,
    target: &TargetMachine,
    plan: &Plan,
    quiet: bool,
) -> Result<Option<RunRecord>, CliError> {
    let found = store.find_unfinished(&plan.key(), &target.machine.settings, target.simulated.as_deref());
    Ok(found.map_err(CliError::failure)?.map(|record| announced(record, quiet)))
}

/// Prints that a run is resumed, and returns it.
fn announced(record: RunRecord, quiet: bool) -> RunRecord {
    if !quiet {
        message!("resuming run {}; to start a new run, use --fresh", record.id);
    }
    record
}

/// Returns the run of `--resume`, which must be an unfinished run of this plan.
fn named_run(store: &Store, target: &TargetMachine, plan: &Plan, name: &str) -> Result<RunRecord, CliError> {
    let record = store.run(name).map_err(|error| CliError::store(&error, CliStatus::Usage))?;
    let refused =
        |why: &str| Err(CliError::usage(format!("--resume {name}: {why}")).hint("nearfar show --runs lists the runs"));
    if record.ended.is_some() {
        return refused("the run has ended");
    }
    if record.plan.key() != plan.key() {
        return refused("the run has another plan than this command line");
    }
    if record.simulated != target.simulated {
        return refused("the run is of another simulated machine, or only one of them is simulated");
    }
    Ok(record)
}

/// Maximum number of changed facts that are printed.
const CHANGES_MAX: usize = 5;

/// If the plan has an unfinished run on this machine in another state, prints which facts differ.
fn explain_new_run(store: &Store, target: &TargetMachine, plan: &Plan) -> Result<(), CliError> {
    let found = store.newest_unfinished(&plan.key(), target.simulated.as_deref()).map_err(CliError::failure)?;
    let Some(record) = found else { return Ok(()) };
    let changes = record.machine.settings.identity_changes(&target.machine.settings);
    // Another machine, whose results were collected or are on the same server; or another program executes the run.
    if changes.is_empty() || changes.iter().any(|(key, ..)| *key == "cpu.model") {
        return Ok(());
    }
    let shown = |value: Option<&FactValue>| value.map_or("not recorded".into(), ToString::to_string);
    message!("run {} of this plan is unfinished, but the machine has changed, so a new run begins:", record.id);
    for (key, before, now) in changes.iter().take(CHANGES_MAX) {
        message!("  {key}: {} then, {} now", shown(*before), shown(*now));
    }
    if changes.len() > CHANGES_MAX {
        message!("  and {} more", changes.len() - CHANGES_MAX);
    }
    message!("hint: to resume it in spite of the changes, use --resume {}", record.id);
    Ok(())
}

/// Maximum number of clients that may begin the same simulated run concurrently.
const BEGIN_RETRIES_MAX: usize = 1000;

fn begin(store: &mut Store, target: &TargetMachine, plan: Plan) -> Result<RunRecord, CliError> {
    let first = store.extent().map_err(CliError::failure)?.runs as usize;
    // On a server, other clients begin runs concurrently; the ids of simulated runs differ only in the ordinal.
    let mut record = target.begin(plan, first);
    for ordinal in first + 1..first + BEGIN_RETRIES_MAX {
        match store.begin_run(&record) {
            Err(StoreError::RunAlreadyStored { .. }) if store.is_on_server() => {
                record = target.begin(record.plan, ordinal);
            }
            result => return result.map(|()| record).map_err(|error| CliError::store(&error, CliStatus::Failure)),
        }
    }
    Err(CliError::failure("cannot begin a run: other clients keep beginning the same run").hint("rerun the command"))
}

/// Executes the remaining trials of a run.
pub fn execute(
    store: &mut Store,
    record: &RunRecord,
    target: &TargetMachine,
    guard: &RunGuard,
    quiet: bool,
) -> Result<RunEnd, CliError> {
    let stop = &guard.stop;
    let routes = guard.routes(&record.plan)?;
    let mut executor = target.executor(&record.plan, stop.clone(), routes, quiet)?;
    let mut progress = Progress::new(record, quiet);
    let file = store.identity();
    let is_in_place = || file.as_ref().is_none_or(FileIdentity::is_in_place);
    let end = lab::run::run(store, record, executor.as_mut(), stop, &mut |event| {
        progress.show(&event);
        // SQLite keeps writing to a file that has no name any more.
        if matches!(event, RunEvent::Stored { .. }) && !is_in_place() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    progress.finish();
    if !is_in_place() {
        let path = store.path().display();
        return Err(CliError::failure(format!("{path} was removed or replaced during the run; its trials are lost"))
            .hint("rerun the command, and leave the file and its -wal in place until it ends"));
    }
    end.map_err(|error| CliError::store(&error, CliStatus::Failure))
}
