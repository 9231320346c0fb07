//! What has been stored of a run so far, and what follows from it: which cells to give up, whether it is
//! precise enough, how long a block takes. Everything follows from the stored trials alone, so that a run
//! that was cut off decides the same when it goes on.

use std::collections::{BTreeMap, BTreeSet};

use model::analysis::finding::summarise;
use model::stats::statistics::relative_half_width;
use model::values::plan::Plan;
use model::values::record::TrialRecord;
use model::values::trial::{Grade, Role, TrialId, TrialStatus};
use model::values::units::Nanos;

/// A cell whose first so many trials all came to nothing will not come to anything.
const FAILURES_TO_GIVE_UP: usize = 3;

/// The trials of a run in the order in which they ran, with what the run loop asks at every trial kept up to date.
#[derive(Debug, Default)]
pub struct History {
    records: Vec<TrialRecord>,
    ids: BTreeSet<TrialId>,
    spent_ns: u64,
    cells: BTreeMap<usize, CellHistory>,
    blocks: BTreeMap<(Role, u32), BlockHistory>,
    /// Cells and time of the fullest block, the longest of several.
    fullest: Option<(usize, u64)>,
}

#[derive(Debug, Default)]
struct CellHistory {
    /// How many invalid trials it began with; it stops counting at the first that is not.
    failures: usize,
    has_result: bool,
    abandon_reason: Option<String>,
    /// The last attempt in the newest block, and whether repeating it may help.
    last: Option<(Role, u32, u32, bool)>,
}

#[derive(Debug, Default)]
struct BlockHistory {
    took_ns: u64,
    cells: BTreeSet<usize>,
    /// Its trials, as positions in the history.
    trials: Vec<usize>,
}

impl History {
    /// From what the store has, in the order of positions.
    pub fn new(records: Vec<TrialRecord>) -> Self {
        let mut history = Self::default();
        for record in records {
            history.push(record);
        }
        history
    }

    /// Adds a trial that was stored.
    pub fn push(&mut self, record: TrialRecord) {
        let took = record.outcome.took.0;
        self.ids.insert(record.trial.id.clone());
        self.spent_ns += took;
        let block = self.blocks.entry((record.trial.role, record.trial.block)).or_default();
        block.took_ns += took;
        block.cells.insert(record.trial.cell);
        block.trials.push(self.records.len());
        self.fullest = self.fullest.max(Some((block.cells.len(), block.took_ns)));
        self.cells.entry(record.trial.cell).or_default().note(&record);
        self.records.push(record);
    }

    /// Whether this cell has a trial, of whatever worth.
    pub fn has_tried(&self, cell: usize) -> bool {
        self.cells.contains_key(&cell)
    }

    /// Whether this trial is stored.
    pub fn has(&self, id: &TrialId) -> bool {
        self.ids.contains(id)
    }

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
        Nanos(self.spent_ns)
    }

    /// Whether this block, or one after it, has begun.
    pub fn has_begun(&self, role: Role, block: u32) -> bool {
        self.blocks.range((role, block)..).any(|((of, _), _)| *of == role)
    }

    /// Why a cell will not come to anything: it cannot be measured here, or all that was tried of it was invalid.
    pub fn abandon_reason(&self, cell: usize) -> Option<&str> {
        self.cells.get(&cell)?.abandon_reason.as_deref()
    }

    /// How many cells are still worth a trial.
    pub fn live(&self, plan: &Plan) -> usize {
        (0..plan.cells.len()).filter(|cell| self.abandon_reason(*cell).is_none()).count()
    }

    /// The attempt with which a cell should be repeated in a block, when its last one there was invalid.
    pub fn retry(&self, cell: usize, role: Role, block: u32, attempts_max: u32) -> Option<u32> {
        let (_, _, attempt, may_pass) = self.cells.get(&cell)?.last.filter(|last| (last.0, last.1) == (role, block))?;
        (may_pass && attempt + 1 < attempts_max).then_some(attempt + 1)
    }

    /// Whether every cell's main metric is known as precisely as was asked. A cell that was given up does not count.
    pub fn is_precise(&self, plan: &Plan) -> bool {
        let finding = summarise(plan, &self.records);
        finding.cells.iter().enumerate().filter(|(cell, _)| self.abandon_reason(*cell).is_none()).all(|(_, cell)| {
            let samples = cell.metrics.first().map_or(&[][..], |metric| &metric.samples);
            relative_half_width(samples).is_some_and(|width| width <= plan.repeat.precision)
        })
    }

    /// The trials of one block, in the order in which they ran.
    pub fn of_block(&self, role: Role, block: u32) -> Vec<&TrialRecord> {
        let past = self.blocks.get(&(role, block));
        past.iter().flat_map(|past| &past.trials).map(|position| &self.records[*position]).collect()
    }

    /// How long a whole block took at most; while there is only a part of one, as much as is known of it.
    pub fn block_time(&self) -> Option<Nanos> {
        self.fullest.map(|(_, took_ns)| Nanos(took_ns))
    }
}

impl CellHistory {
    fn note(&mut self, record: &TrialRecord) {
        let invalid = record.verdict.grade == Grade::Invalid;
        let reason = || record.verdict.reasons.first().cloned().unwrap_or_default();
        self.last = Some((record.trial.role, record.trial.block, record.trial.attempt, record.is_retriable()));
        self.has_result |= !invalid;
        self.failures += usize::from(!self.has_result);
        let hopeless =
            matches!(record.outcome.status, TrialStatus::Unavailable(_)) || self.failures >= FAILURES_TO_GIVE_UP;
        if self.abandon_reason.is_none() && hopeless {
            self.abandon_reason = Some(reason());
        }
    }
}
