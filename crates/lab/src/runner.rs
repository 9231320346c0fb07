//! Runs one block of trials: skips the stored ones and retries invalid ones that may pass. Must not decide which block
//! comes next or when the run ends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use model::values::plan::NextBlock;
use model::values::record::{RunRecord, TrialRecord};
use model::values::trial::{Trial, judge};
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
    /// Runs the missing trials of a block. Returns false if the user interrupted it.
    pub(crate) fn run_block(
        &mut self,
        block: &NextBlock,
        forecast: &dyn Fn(&History) -> Forecast,
    ) -> Result<bool, StoreError> {
        let (run, plan) = (&self.record.id.0, &self.record.plan);
        let seed = self.record.seed;
        let cells: BTreeSet<usize> = block.cells.iter().copied().collect();
        for cell in plan.order(seed, block.role, block.number).into_iter().filter(|cell| cells.contains(cell)) {
            // Trials are built only for live cells: a race may have a thousand cells, of which few are in a block.
            if self.is_live(block, cell) {
                let trial = plan.trial(run, seed, cell, block.role, block.number, 0);
                if !self.history.has(&trial.id) && !self.run_trial(trial, block, forecast)? {
                    return Ok(false);
                }
            }
        }
        for cell in &block.cells {
            while let Some(attempt) = self.retry(block, *cell) {
                let trial = plan.trial(run, seed, *cell, block.role, block.number, attempt);
                if !self.run_trial(trial, block, forecast)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn retry(&self, block: &NextBlock, cell: usize) -> Option<u32> {
        let retry = self.history.retry(cell, block.role, block.number, block.attempts_max);
        retry.filter(|_| self.is_live(block, cell))
    }

    fn is_live(&self, block: &NextBlock, cell: usize) -> bool {
        !block.skips_abandoned || self.history.abandon_reason(cell).is_none()
    }

    fn run_trial(
        &mut self,
        trial: Trial,
        block: &NextBlock,
        forecast: &dyn Fn(&History) -> Forecast,
    ) -> Result<bool, StoreError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let trial = Trial { time_limit: block.time_limit_for(trial.cell), ..trial };
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
