//! Runs one block of trials: skips the stored ones, retries invalid ones that may pass, and stops when the time of the
//! block is over. Must not decide which block comes next or when the run ends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use model::values::plan::NextBlock;
use model::values::record::{RunRecord, TrialRecord};
use model::values::trial::{Trial, judge};
use model::values::units::Nanos;
use store::{Store, StoreError};

use crate::executor::Executor;
use crate::history::History;
use crate::progress::{Forecast, RunEvent};

/// The state of a run in progress.
pub(crate) struct Runner<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) record: &'a RunRecord,
    pub(crate) executor: &'a mut dyn Executor,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) watch: &'a mut dyn FnMut(RunEvent<'_>),
    pub(crate) history: History,
}

impl Runner<'_> {
    /// Runs the missing trials of a block, as far as its time allows. Returns false if the user interrupted it.
    pub(crate) fn run_block(
        &mut self,
        block: &NextBlock,
        forecast: &dyn Fn(&History) -> Forecast,
    ) -> Result<bool, StoreError> {
        let (run, plan) = (&self.record.id.0, &self.record.plan);
        let seed = self.record.seed;
        let cells: BTreeSet<usize> = block.cells.iter().copied().collect();
        for cell in plan.order(seed, block.role, block.number).into_iter().filter(|cell| cells.contains(cell)) {
            let Some(time_limit) = self.time_limit(block, cell) else { continue };
            let trial = plan.trial(run, seed, cell, block.role, block.number, 0);
            let trial = Trial { time_limit, ..trial };
            if !self.history.has(&trial.id) && !self.run_trial(trial, forecast)? {
                return Ok(false);
            }
        }
        for cell in &block.cells {
            while let Some((attempt, time_limit)) = self.retry(block, *cell) {
                let trial = plan.trial(run, seed, *cell, block.role, block.number, attempt);
                let trial = Trial { time_limit, ..trial };
                if !self.run_trial(trial, forecast)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns the next attempt of a cell with its time limit; `None` if it needs none.
    fn retry(&self, block: &NextBlock, cell: usize) -> Option<(u32, Nanos)> {
        let retry = self.history.retry(cell, block.role, block.number, block.attempts_max)?;
        Some((retry, self.time_limit(block, cell)?))
    }

    /// Returns the time limit of the next trial of a cell; `None` if the cell is abandoned or the time of the block is
    /// over.
    fn time_limit(&self, block: &NextBlock, cell: usize) -> Option<Nanos> {
        let is_live = !block.skips_abandoned || self.history.abandon_reason(cell).is_none();
        let spent = self.history.spent_in(block.role, block.number);
        block.time_limit_after(cell, spent).filter(|_| is_live)
    }

    fn run_trial(&mut self, trial: Trial, forecast: &dyn Fn(&History) -> Forecast) -> Result<bool, StoreError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        (self.watch)(RunEvent::Begins { trial: &trial, forecast: forecast(&self.history) });
        let position = self.history.len() as u32;
        let Some(outcome) = self.executor.run(position, &trial) else { return Ok(false) };
        let verdict = judge(&trial, &outcome.status, &outcome.evidence);
        let record = TrialRecord { position, trial, outcome, verdict };
        self.store.add_trial(&self.record.id, &record)?;
        self.history.push(record.clone());
        (self.watch)(RunEvent::Stored { record: &record, forecast: forecast(&self.history) });
        Ok(true)
    }
}
