//! Runs a plan to its end: warm-up blocks, then measured blocks until it is precise enough or the budget is
//! spent. Every trial is stored before the next begins, so a run that is cut off goes on where it was.

use std::sync::atomic::{AtomicBool, Ordering};

use model::plan::{Cell, Plan};
use model::record::{Ending, RunRecord, TrialRecord};
use model::trial::{Role, Trial, judge};
use model::units::Nanos;
use store::{Store, StoreError};

use crate::executor::Executor;
use crate::history::History;

/// What a watcher is told. Times are of the machine that runs, real or simulated.
#[derive(Debug)]
pub enum Event<'a> {
    /// A trial begins.
    Begins {
        /// Which.
        trial: &'a Trial,
        /// How far the run is.
        forecast: Forecast,
    },
    /// A trial is stored.
    Stored {
        /// What is stored.
        record: &'a TrialRecord,
        /// How far the run is.
        forecast: Forecast,
    },
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Trials stored.
    pub done: usize,
    /// Trials expected in all, at most; it may end earlier when it is precise enough.
    pub expected: usize,
    /// Time left at most.
    pub left: Nanos,
}

/// How [`run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The run is over.
    Over(Ending),
    /// The user stopped it; the same command goes on with it.
    Interrupted,
}

/// Runs what is left of a run. `stop` is set by Ctrl-C. An error of the store ends it; what was stored stays.
pub fn run(
    store: &mut Store,
    record: &RunRecord,
    executor: &mut dyn Executor,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Ended, StoreError> {
    let history = History::new(store.trials(&record.id)?);
    let mut runner = Runner { store, record, plan: &record.plan, executor, stop, watch, history };
    let ended = runner.run_blocks()?;
    if let Ended::Over(ending) = ended {
        runner.store.end_run(&record.id, ending)?;
    }
    Ok(ended)
}

struct Runner<'a> {
    store: &'a mut Store,
    record: &'a RunRecord,
    plan: &'a Plan,
    executor: &'a mut dyn Executor,
    stop: &'a AtomicBool,
    watch: &'a mut dyn FnMut(Event<'_>),
    history: History,
}

impl Runner<'_> {
    fn run_blocks(&mut self) -> Result<Ended, StoreError> {
        for block in 0..self.plan.repeat.warmup {
            if !self.run_block(Role::Warmup, block)? {
                return Ok(Ended::Interrupted);
            }
        }
        for block in 0..self.plan.repeat.max {
            if let Some(ending) = self.ending(block) {
                return Ok(Ended::Over(ending));
            }
            if !self.run_block(Role::Measured, block)? {
                return Ok(Ended::Interrupted);
            }
        }
        Ok(Ended::Over(Ending::AllBlocks))
    }

    /// Whether the run is over before this block. A block that is already begun is finished, so that the
    /// decision does not depend on where a run was cut off.
    fn ending(&self, block: u32) -> Option<Ending> {
        if block == 0 || self.history.has_begun(Role::Measured, block) {
            return None;
        }
        if block >= self.plan.repeat.min && self.history.is_precise(self.plan) {
            return Some(Ending::Precise);
        }
        let next = self.history.block_time().unwrap_or_default();
        (self.history.spent().0 + next.0 > self.plan.repeat.budget.0).then_some(Ending::Budget)
    }

    /// Runs what is missing of a block; false when the user stopped it.
    fn run_block(&mut self, role: Role, block: u32) -> Result<bool, StoreError> {
        let (run, seed) = (self.record.id.0.clone(), self.record.seed);
        for trial in self.plan.block(&run, seed, role, block) {
            let wanted = !self.history.has(&trial.id) && self.history.given_up(trial.cell).is_none();
            if wanted && !self.run_trial(&trial)? {
                return Ok(false);
            }
        }
        if role == Role::Warmup {
            return Ok(true);
        }
        for cell in 0..self.plan.cells.len() {
            while let Some(attempt) = self.history.retry(cell, role, block) {
                if !self.run_trial(&self.plan.trial(&run, seed, cell, role, block, attempt))? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn run_trial(&mut self, trial: &Trial) -> Result<bool, StoreError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let forecast = self.forecast();
        (self.watch)(Event::Begins { trial, forecast });
        let position = self.history.len() as u32;
        let Some(outcome) = self.executor.run(position, trial) else { return Ok(false) };
        let verdict = judge(trial, &outcome.status, &outcome.evidence);
        let record = TrialRecord { position, trial: trial.clone(), outcome, verdict };
        self.store.add_trial(&self.record.id, &record)?;
        self.history.push(record.clone());
        let forecast = self.forecast();
        (self.watch)(Event::Stored { record: &record, forecast });
        Ok(true)
    }

    fn forecast(&self) -> Forecast {
        forecast(self.plan, &self.history)
    }
}

/// How far a run is, from its plan and what is stored of it.
pub fn forecast(plan: &Plan, history: &History) -> Forecast {
    let live = history.live(plan).max(1);
    let guess = |cell: &Cell| plan.spec(&cell.workload).map(|spec| spec.guess(&cell.parameters).0);
    let guess = Nanos(plan.cells.iter().filter_map(guess).sum());
    let block_time = if history.len() < plan.cells.len() { guess } else { history.block_time().unwrap_or(guess) };
    let affordable = plan.repeat.budget.0 / block_time.0.max(1);
    let blocks = affordable.clamp(1, u64::from(plan.repeat.max) + u64::from(plan.repeat.warmup));
    let expected = (blocks as usize * live).max(history.len());
    let left = (expected - history.len()) as u64 * (block_time.0 / live as u64);
    Forecast { done: history.len(), expected, left: Nanos(left) }
}
