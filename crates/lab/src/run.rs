//! Runs a plan: warm-up blocks, then measured blocks until the result is precise enough or the budget is spent.

use std::sync::atomic::AtomicBool;

use model::analysis::place::RaceState;
use model::values::plan::{ATTEMPTS_MAX, Cell, NextBlock, Plan};
use model::values::record::{EndReason, RunRecord, TrialRecord};
use model::values::trial::{Role, Trial};
use model::values::units::Nanos;
use store::{Store, StoreError};

use crate::executor::Executor;
use crate::history::History;
use crate::race;
use crate::runner::Runner;

/// Progress of a run, reported to the caller. Times are those of the measured machine, real or simulated.
#[derive(Debug)]
pub enum RunEvent<'a> {
    Begins {
        trial: &'a Trial,
        forecast: Forecast,
    },
    Stored {
        record: &'a TrialRecord,
        forecast: Forecast,
    },
    /// A block of a race is complete.
    BlockCompleted {
        race: &'a RaceState<'a>,
    },
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    pub done: usize,
    /// Upper bound of the number of trials; a run that is precise enough ends earlier.
    pub expected: usize,
    pub left: Nanos,
}

/// The reason why [`run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    Over(EndReason),
    /// The user interrupted the run. Rerunning the command resumes it.
    Interrupted,
}

/// Runs the remaining trials of a run. `stop` is set by Ctrl-C.
///
/// # Errors
/// An error of the store ends the run; trials that are stored stay stored.
pub fn run(
    store: &mut Store,
    record: &RunRecord,
    executor: &mut dyn Executor,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(RunEvent<'_>),
) -> Result<RunEnd, StoreError> {
    let history = History::new(store.trials(&record.id)?);
    let mut runner = Runner { store, record, executor, stop, watch, history };
    let ended = match &record.plan.race {
        Some(_) => race::run_race(&mut runner)?,
        None => run_blocks(&mut runner)?,
    };
    if let RunEnd::Over(ending) = ended {
        runner.store.end_run(&record.id, ending)?;
    }
    Ok(ended)
}

fn run_blocks(runner: &mut Runner<'_>) -> Result<RunEnd, StoreError> {
    let plan = &runner.record.plan;
    for number in 0..plan.repeat.warmup {
        if !run_block(runner, Role::Warmup, number)? {
            return Ok(RunEnd::Interrupted);
        }
    }
    for number in 0..plan.repeat.max {
        if let Some(ending) = ending(plan, &runner.history, number) {
            return Ok(RunEnd::Over(ending));
        }
        if !run_block(runner, Role::Measured, number)? {
            return Ok(RunEnd::Interrupted);
        }
    }
    Ok(RunEnd::Over(EndReason::AllBlocks))
}

/// Runs every cell that is not abandoned, once.
fn run_block(runner: &mut Runner<'_>, role: Role, number: u32) -> Result<bool, StoreError> {
    let plan = &runner.record.plan;
    let block = NextBlock {
        role,
        number,
        cells: (0..plan.cells.len()).collect(),
        skips_abandoned: true,
        // Warm-up trials are discarded, so a failed one is not retried.
        attempts_max: if role == Role::Warmup { 1 } else { ATTEMPTS_MAX },
        time_limit: plan.repeat.time_limit,
        kill_limit: None,
    };
    runner.run_block(&block, &|history| forecast(plan, history))
}

/// Returns the reason to end the run before this block. A block that was started is always completed, so that the
/// decision does not depend on the moment of an interruption.
fn ending(plan: &Plan, history: &History, block: u32) -> Option<EndReason> {
    if block == 0 || history.has_begun(Role::Measured, block) {
        return None;
    }
    if block >= plan.repeat.min && history.is_precise(plan) {
        return Some(EndReason::Precise);
    }
    let next = history.block_time().unwrap_or_default();
    (history.spent().0 + next.0 > plan.repeat.budget.0).then_some(EndReason::Budget)
}

/// Computes the progress of a run from its plan and its stored trials.
pub fn forecast(plan: &Plan, history: &History) -> Forecast {
    let live = history.live(plan).max(1);
    // Until every cell has run once, the estimate of a block is its time so far plus the workloads' own estimates.
    let guess = |cell: &Cell| plan.spec(&cell.workload).map_or(0, |spec| spec.guess(&cell.parameters).0);
    let untried = plan.cells.iter().enumerate().filter(|(cell, _)| !history.has_tried(*cell));
    let guessed: u64 = untried.map(|(_, cell)| guess(cell)).sum();
    let first = history.len() < plan.cells.len();
    let known = history.block_time().filter(|_| !first).map(|time| time.0);
    let block_time = known.unwrap_or(history.spent().0 + guessed);
    let affordable = plan.repeat.budget.0 / block_time.max(1);
    let blocks = affordable.clamp(1, u64::from(plan.repeat.max) + u64::from(plan.repeat.warmup));
    let expected = (blocks as usize * live).max(history.len());
    let left = match known {
        Some(block_time) => (expected - history.len()) as u64 * (block_time / live as u64),
        None => (blocks * block_time).saturating_sub(history.spent().0),
    };
    Forecast { done: history.len(), expected, left: Nanos(left) }
}
