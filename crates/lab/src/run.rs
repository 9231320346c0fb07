//! Runs a plan: warm-up blocks, then measured blocks until the result is precise enough or the budget is spent.

use std::sync::atomic::AtomicBool;

use model::analysis::finding::summarise;
use model::analysis::gate::GateVerdict;
use model::values::plan::{ATTEMPTS_MAX, NextBlock, Plan};
use model::values::record::{EndReason, RunRecord};
use model::values::trial::Role;
use store::{Store, StoreError};

use crate::executor::Executor;
use crate::history::History;
use crate::progress::{RunEnd, RunEvent, forecast};
use crate::race;
use crate::runner::Runner;

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
        time_left: None,
    };
    runner.run_block(&block, &|history| forecast(plan, history))
}

/// Returns the reason to end the run before this block. A block that was started is always completed, so that the
/// decision does not depend on the moment of an interruption.
fn ending(plan: &Plan, history: &History, block: u32) -> Option<EndReason> {
    if block == 0 || history.has_begun(Role::Measured, block) {
        return None;
    }
    let verdict = plan.gate.and_then(|_| GateVerdict::of(plan, &summarise(plan, history.records())));
    if verdict.is_some_and(|verdict| !verdict.is_open()) {
        return Some(EndReason::Resolved);
    }
    if block < plan.repeat.min && !plan.budget_wins {
        return None;
    }
    if block >= plan.repeat.min && history.is_precise(plan) {
        return Some(EndReason::Precise);
    }
    let next = history.block_time().unwrap_or_default();
    (history.spent().0 + next.0 > plan.repeat.budget.0).then_some(EndReason::Budget)
}
