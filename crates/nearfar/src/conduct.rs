//! What every command that measures does: looks whether the plan can run at all, goes on with an unfinished run or
//! begins one, and runs it to its end while a person watches.

use lab::run::Ended;
use model::plan::Plan;
use model::record::{Ending, RunRecord};
use model::trial::Role;
use model::workload::Parameters;
use store::{Store, StoreError};
use workloads::{Job, Runner};

use crate::failure::{Failure, Status};
use crate::hold::Hold;
use crate::progress::Progress;
use crate::subject::Subject;

/// What descriptions alone cannot say of parameters: a regex that does not compile, a program that is not there.
pub fn check(plan: &Plan, subject: &Subject) -> Result<(), Failure> {
    // Cells differ mostly in their placement, which is not what is looked at here.
    let mut seen: Vec<(&str, &Parameters)> = Vec::new();
    for (index, cell) in plan.cells.iter().enumerate() {
        let Some(workload) = workloads::find(&cell.workload) else { continue };
        if seen.contains(&(&cell.workload, &cell.parameters)) {
            continue;
        }
        seen.push((&cell.workload, &cell.parameters));
        let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("workload {}: {why}", cell.workload));
        (workload.check)(&cell.parameters).map_err(|why| wrong(&why))?;
        if let (Runner::Tool { recipe, .. }, None) = (&workload.runner, &subject.simulated) {
            let job = Job::of(&plan.trial("", 0, index, Role::Measured, 0, 0));
            let recipe = recipe(&job).map_err(|why| wrong(&why))?;
            for program in recipe.programs() {
                machine::child::find_program(program).map_err(|error| Failure::usage(&error).hint_of(error.hint()))?;
            }
        }
    }
    Ok(())
}

/// The unfinished run of the same plan in the same state of the machine, else a new one.
pub fn resume_or_begin(
    store: &mut Store,
    subject: &Subject,
    plan: Plan,
    fresh: bool,
    quiet: bool,
) -> Result<RunRecord, Failure> {
    let fingerprint = subject.machine.settings.fingerprint();
    if !fresh {
        let unfinished = store.find_unfinished(&plan.key(), &fingerprint, subject.simulated.as_deref());
        if let Some(record) = unfinished.map_err(Failure::of)? {
            if !quiet {
                eprintln!("going on with run {}; --fresh would begin a new one", record.id);
            }
            return Ok(record);
        }
    }
    begin(store, subject, plan)
}

/// As many may begin the same simulated run at the same moment.
const BEGINNINGS: usize = 1000;

/// A new run.
pub fn begin(store: &mut Store, subject: &Subject, plan: Plan) -> Result<RunRecord, Failure> {
    let first = store.runs().map_err(Failure::of)?.len();
    // On a server others begin runs at this moment too, and simulated ones have nothing else that tells them apart.
    let mut record = subject.begin(plan, first);
    for ordinal in first + 1..first + BEGINNINGS {
        match store.begin_run(&record) {
            Err(StoreError::RunAlreadyStored { .. }) if store.is_on_server() => {
                record = subject.begin(record.plan, ordinal);
            }
            begun => return begun.map(|()| record).map_err(|error| Failure::store(&error, Status::Failure)),
        }
    }
    Err(Failure::of("cannot begin a run: others begin the same one all the time").hint("repeat the command"))
}

/// Runs what is left of a run.
pub fn conduct(
    store: &mut Store,
    record: &RunRecord,
    subject: &Subject,
    hold: &Hold,
    quiet: bool,
) -> Result<Ended, Failure> {
    let stop = &hold.stop;
    let routes = hold.routes(&record.plan)?;
    let mut executor = subject.executor(&record.plan, stop.clone(), routes)?;
    let mut progress = Progress::new(record, quiet);
    let ended = lab::run::run(store, record, executor.as_mut(), stop, &mut |event| progress.show(&event));
    progress.finish();
    ended.map_err(|error| Failure::store(&error, Status::Failure))
}

/// How it ended, for stderr.
pub fn closing_words(ended: Ended, record: &RunRecord) -> String {
    let id = &record.id;
    match ended {
        Ended::Over(Ending::Precise) => format!("run {id}: every cell is as precise as was asked"),
        Ended::Over(Ending::AllBlocks) => format!("run {id}: all blocks are measured"),
        Ended::Over(Ending::Budget) => format!("run {id}: the budget of {} is spent", record.plan.repeat.budget),
        Ended::Over(Ending::Resolved) => format!("run {id}: resolved"),
        Ended::Over(Ending::NoReference) => format!("run {id}: the kernel's choice came to nothing"),
        Ended::Interrupted => format!("run {id} was interrupted; the same command goes on with it"),
    }
}
