//! What has been stored of a run so far, and what follows from it: which cells to give up, whether it is
//! precise enough, how long a block takes. Everything follows from the stored trials alone, so that a run
//! that was cut off decides the same when it goes on.

use std::collections::{BTreeMap, BTreeSet};

use model::finding::summarise;
use model::plan::{ATTEMPTS_MAX, Plan};
use model::record::TrialRecord;
use model::statistics::relative_half_width;
use model::trial::{Grade, Role, Status, TrialId};
use model::units::Nanos;

/// A cell whose first so many trials all came to nothing will not come to anything.
const FAILURES_TO_GIVE_UP: usize = 3;

/// The trials of a run in the order in which they ran.
#[derive(Debug, Default)]
pub struct History {
    records: Vec<TrialRecord>,
    ids: BTreeSet<TrialId>,
}

impl History {
    /// From what the store has.
    pub fn new(records: Vec<TrialRecord>) -> Self {
        let ids = records.iter().map(|record| record.trial.id.clone()).collect();
        Self { records, ids }
    }

    /// Adds a trial that was stored.
    pub fn push(&mut self, record: TrialRecord) {
        self.ids.insert(record.trial.id.clone());
        self.records.push(record);
    }

    /// Whether this trial is stored.
    pub fn has(&self, id: &TrialId) -> bool {
        self.ids.contains(id)
    }

    /// All trials.
    pub fn records(&self) -> &[TrialRecord] {
        &self.records
    }

    /// How many trials are stored; also the position of the next.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none is stored.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Time that the trials took together.
    pub fn spent(&self) -> Nanos {
        Nanos(self.records.iter().map(|record| record.outcome.took.0).sum())
    }

    /// Cells that will not come to anything, each with the reason: they cannot be measured here, or all that
    /// was tried of them was invalid.
    pub fn given_up(&self) -> BTreeMap<usize, String> {
        let mut by_cell: BTreeMap<usize, Vec<&TrialRecord>> = BTreeMap::new();
        for record in &self.records {
            by_cell.entry(record.trial.cell).or_default().push(record);
        }
        by_cell.into_iter().filter_map(|(cell, records)| Some((cell, hopeless(&records)?))).collect()
    }

    /// The attempt with which a cell should be repeated in a block, when its last one there was invalid.
    pub fn retry(&self, cell: usize, role: Role, block: u32) -> Option<u32> {
        let here = |record: &&TrialRecord| {
            record.trial.cell == cell && record.trial.role == role && record.trial.block == block
        };
        let last = self.records.iter().filter(here).max_by_key(|record| record.trial.attempt)?;
        let next = last.trial.attempt + 1;
        (last.verdict.grade == Grade::Invalid && next < ATTEMPTS_MAX).then_some(next)
    }

    /// Whether every cell's main metric is known as precisely as was asked. A cell that was given up does not count.
    pub fn is_precise(&self, plan: &Plan) -> bool {
        let given_up = self.given_up();
        let finding = summarise(plan, &self.records);
        finding.cells.iter().enumerate().filter(|(cell, _)| !given_up.contains_key(cell)).all(|(_, cell)| {
            let samples = cell.metrics.first().map_or(&[][..], |metric| &metric.samples);
            relative_half_width(samples).is_some_and(|width| width <= plan.repeat.precision)
        })
    }

    /// How long the last whole block took; of the first, as much as is known of it.
    pub fn block_time(&self) -> Option<Nanos> {
        let mut by_block: BTreeMap<(Role, u32), (u64, BTreeSet<usize>)> = BTreeMap::new();
        for record in &self.records {
            let entry = by_block.entry((record.trial.role, record.trial.block)).or_default();
            entry.0 += record.outcome.took.0;
            entry.1.insert(record.trial.cell);
        }
        let most = by_block.values().map(|(_, cells)| cells.len()).max()?;
        let whole = by_block.values().filter(|(_, cells)| cells.len() == most).map(|(took, _)| *took);
        whole.max().map(Nanos)
    }
}

fn hopeless(records: &[&TrialRecord]) -> Option<String> {
    let reason = |record: &TrialRecord| record.verdict.reasons.first().cloned().unwrap_or_default();
    if let Some(record) = records.iter().find(|record| matches!(record.outcome.status, Status::Unavailable(_))) {
        return Some(reason(record));
    }
    let first = records.get(..FAILURES_TO_GIVE_UP)?;
    first.iter().all(|record| record.verdict.grade == Grade::Invalid).then(|| reason(first[0]))
}
