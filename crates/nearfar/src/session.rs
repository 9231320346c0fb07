//! What every command that measures does: looks whether the plan can run at all, goes on with an unfinished run or
//! begins one, and runs it to its end while a person watches.

use lab::run::RunEnd;
use model::values::plan::Plan;
use model::values::record::{EndReason, RunRecord};
use model::values::trial::Role;
use model::values::workload::Parameters;
use store::{Store, StoreError};
use workloads::{Runner, TrialContext};

use crate::error::{CliError, CliStatus};
use crate::progress::Progress;
use crate::run_guard::RunGuard;
use crate::target_machine::TargetMachine;

/// What descriptions alone cannot say of parameters: a regex that does not compile, a program that is not there.
pub fn check(plan: &Plan, subject: &TargetMachine) -> Result<(), CliError> {
    // Cells differ mostly in their placement, which is not what is looked at here.
    let mut seen: Vec<(&str, &Parameters)> = Vec::new();
    for (index, cell) in plan.cells.iter().enumerate() {
        let Some(workload) = workloads::find(&cell.workload) else { continue };
        if seen.contains(&(&cell.workload, &cell.parameters)) {
            continue;
        }
        seen.push((&cell.workload, &cell.parameters));
        let wrong = |why: &dyn std::fmt::Display| CliError::usage(format!("workload {}: {why}", cell.workload));
        (workload.check)(&cell.parameters).map_err(|why| wrong(&why))?;
        if let (Runner::Tool { recipe, .. }, None) = (&workload.runner, &subject.simulated) {
            let job = TrialContext::of(&plan.trial("", 0, index, Role::Measured, 0, 0));
            let recipe = recipe(&job).map_err(|why| wrong(&why))?;
            for program in recipe.programs() {
                machine::child::find_program(program).map_err(|error| CliError::usage(&error).hint_of(error.hint()))?;
            }
        }
    }
    Ok(())
}

/// The unfinished run of the same plan in the same state of the machine, else a new one.
pub fn resume_or_begin(
    store: &mut Store,
    subject: &TargetMachine,
    plan: Plan,
    fresh: bool,
    quiet: bool,
) -> Result<RunRecord, CliError> {
    let fingerprint = subject.machine.settings.fingerprint();
    if !fresh {
        let unfinished = store.find_unfinished(&plan.key(), &fingerprint, subject.simulated.as_deref());
        if let Some(record) = unfinished.map_err(CliError::of)? {
            if !quiet {
                eprintln!("going on with run {}; --fresh would begin a new one", record.id);
            }
            return Ok(record);
        }
    }
    begin(store, subject, plan)
}

/// As many may begin the same simulated run at the same moment.
const BEGIN_RETRIES_MAX: usize = 1000;

pub fn begin(store: &mut Store, subject: &TargetMachine, plan: Plan) -> Result<RunRecord, CliError> {
    let first = store.runs().map_err(CliError::of)?.len();
    // On a server others begin runs at this moment too, and simulated ones have nothing else that tells them apart.
    let mut record = subject.begin(plan, first);
    for ordinal in first + 1..first + BEGIN_RETRIES_MAX {
        match store.begin_run(&record) {
            Err(StoreError::RunAlreadyStored { .. }) if store.is_on_server() => {
                record = subject.begin(record.plan, ordinal);
            }
            begun => return begun.map(|()| record).map_err(|error| CliError::store(&error, CliStatus::Failure)),
        }
    }
    Err(CliError::of("cannot begin a run: others begin the same one all the time").hint("repeat the command"))
}

/// Runs what is left of a run.
pub fn execute(
    store: &mut Store,
    record: &RunRecord,
    subject: &TargetMachine,
    hold: &RunGuard,
    quiet: bool,
) -> Result<RunEnd, CliError> {
    let stop = &hold.stop;
    let routes = hold.routes(&record.plan)?;
    let mut executor = subject.executor(&record.plan, stop.clone(), routes)?;
    let mut progress = Progress::new(record, quiet);
    let ended = lab::run::run(store, record, executor.as_mut(), stop, &mut |event| progress.show(&event));
    progress.finish();
    ended.map_err(|error| CliError::store(&error, CliStatus::Failure))
}

/// How it ended, for stderr.
pub fn end_message(ended: RunEnd, record: &RunRecord) -> String {
    let id = &record.id;
    match ended {
        RunEnd::Over(EndReason::Precise) => format!("run {id}: every cell is as precise as was asked"),
        RunEnd::Over(EndReason::AllBlocks) => format!("run {id}: all blocks are measured"),
        RunEnd::Over(EndReason::Budget) => format!("run {id}: the budget of {} is spent", record.plan.repeat.budget),
        RunEnd::Over(EndReason::Resolved) => format!("run {id}: resolved"),
        RunEnd::Over(EndReason::NoReference) => format!("run {id}: the kernel's choice came to nothing"),
        RunEnd::Interrupted => format!("run {id} was interrupted; the same command goes on with it"),
    }
}
