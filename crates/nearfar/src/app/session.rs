//! Checks a plan, resumes or begins its run, and executes it with a progress display: the part that all measuring
//! commands share.

use lab::progress::RunEnd;
use model::analysis::finding::{RunFinding, summarise};
use model::values::plan::Plan;
use model::values::record::RunRecord;
use model::values::trial::Role;
use model::values::workload::Parameters;
use store::{Store, StoreError};
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

/// Executes a plan, or the rest of an unfinished run of it unless `fresh`. Then releases the machine.
/// The returned record is that of the beginning of the run.
pub fn complete(
    request: &SessionRequest,
    guard: RunGuard,
    target: &TargetMachine,
    plan: Plan,
    fresh: bool,
) -> Result<RunResult, CliError> {
    let mut store = target.open_store(&request.results)?;
    let record = resume_or_begin(&mut store, target, plan, fresh, request.quiet())?;
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

/// Returns the unfinished run of the same plan in the same state of the machine, or begins a new run.
pub fn resume_or_begin(
    store: &mut Store,
    target: &TargetMachine,
    plan: Plan,
    fresh: bool,
    quiet: bool,
) -> Result<RunRecord, CliError> {
    let fingerprint = target.machine.settings.fingerprint();
    if !fresh {
        let unfinished = store.find_unfinished(&plan.key(), &fingerprint, target.simulated.as_deref());
        if let Some(record) = unfinished.map_err(CliError::failure)? {
            if !quiet {
                eprintln!("resuming run {}; to start a new run, use --fresh", record.id);
            }
            return Ok(record);
        }
    }
    begin(store, target, plan)
}

/// Maximum number of clients that may begin the same simulated run concurrently.
const BEGIN_RETRIES_MAX: usize = 1000;

fn begin(store: &mut Store, target: &TargetMachine, plan: Plan) -> Result<RunRecord, CliError> {
    let first = store.runs().map_err(CliError::failure)?.len();
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
    let mut executor = target.executor(&record.plan, stop.clone(), routes)?;
    let mut progress = Progress::new(record, quiet);
    let end = lab::run::run(store, record, executor.as_mut(), stop, &mut |event| progress.show(&event));
    progress.finish();
    end.map_err(|error| CliError::store(&error, CliStatus::Failure))
}
