//! The stored trials of a run and the decisions that follow from them: which cells to abandon, whether the run is
//! precise enough, how long a block takes. They depend on nothing else, so a resumed run decides as an uninterrupted
//! one.

use std::collections::{BTreeMap, BTreeSet};

use model::analysis::finding::summarise;
use model::stats::racing::too_many_missing;
use model::stats::statistics::{TRIALS_MIN, relative_half_width};
use model::values::plan::Plan;
use model::values::record::TrialRecord;
use model::values::trial::{Grade, Role, TrialId, TrialStatus};
use model::values::units::Nanos;

/// A cell is abandoned when its first trials, this many, are all invalid.
const FAILURES_TO_GIVE_UP: usize = 3;

/// The trials of a run in execution order, with indexes for the queries that the run loop makes at every trial.
#[derive(Debug, Default)]
pub struct History {
    records: Vec<TrialRecord>,
    ids: BTreeSet<TrialId>,
    spent_ns: u64,
    cells: BTreeMap<usize, CellHistory>,
    blocks: BTreeMap<(Role, u32), BlockHistory>,
    /// Number of cells and nanoseconds of the block with the most cells; of several, the longest.
    fullest: Option<(usize, u64)>,
}

#[derive(Debug, Default)]
struct CellHistory {
    /// Number of invalid trials before the first that is not invalid.
    failures: usize,
    has_result: bool,
    /// Number of measured trials, and of those whose placement was violated.
    measured: u32,
    violated: u32,
    abandon_reason: Option<String>,
    /// Role, block and attempt of the last trial, and whether a retry may succeed.
    last: Option<(Role, u32, u32, bool)>,
}

#[derive(Debug, Default)]
struct BlockHistory {
    took_ns: u64,
    cells: BTreeSet<usize>,
    /// Indexes of its trials in `History::records`.
    trials: Vec<usize>,
}

impl History {
    /// Builds the history from stored trials, ordered by position.
    pub fn new(records: Vec<TrialRecord>) -> Self {
        let mut history = Self::default();
        for record in records {
            history.push(record);
        }
        history
    }

    /// Appends a stored trial.
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

    /// Returns true if this cell has a trial, of any verdict.
    pub fn has_tried(&self, cell: usize) -> bool {
        self.cells.contains_key(&cell)
    }

    pub fn has(&self, id: &TrialId) -> bool {
        self.ids.contains(id)
    }

    pub fn records(&self) -> &[TrialRecord] {
        &self.records
    }

    /// Number of stored trials; also the position of the next one.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Total time of all trials.
    pub fn spent(&self) -> Nanos {
        Nanos(self.spent_ns)
    }

    /// Returns true if this block or a later one of the role was started.
    pub fn has_begun(&self, role: Role, block: u32) -> bool {
        self.blocks.range((role, block)..).any(|((of, _), _)| *of == role)
    }

    /// Returns the reason why a cell is abandoned: it cannot be measured here, its first trials were all invalid, or its
    /// placement was violated too often for a result.
    pub fn abandon_reason(&self, cell: usize) -> Option<&str> {
        self.cells.get(&cell)?.abandon_reason.as_deref()
    }

    /// Number of cells that are not abandoned.
    pub fn live(&self, plan: &Plan) -> usize {
        (0..plan.cells.len()).filter(|cell| self.abandon_reason(*cell).is_none()).count()
    }

    /// Returns the next attempt of a cell in a block if its last one there was invalid and may pass.
    pub fn retry(&self, cell: usize, role: Role, block: u32, attempts_max: u32) -> Option<u32> {
        let (_, _, attempt, may_pass) = self.cells.get(&cell)?.last.filter(|last| (last.0, last.1) == (role, block))?;
        (may_pass && attempt + 1 < attempts_max).then_some(attempt + 1)
    }

    /// Returns true if the interval of every cell's main metric is as narrow as the plan requires. Abandoned cells are
    /// ignored.
    pub fn is_precise(&self, plan: &Plan) -> bool {
        let finding = summarise(plan, &self.records);
        finding.cells.iter().enumerate().filter(|(cell, _)| self.abandon_reason(*cell).is_none()).all(|(_, cell)| {
            let samples = cell.metrics.first().map_or(&[][..], |metric| &metric.samples);
            samples.len() >= TRIALS_MIN
                && relative_half_width(samples).is_some_and(|width| width <= plan.repeat.precision)
        })
    }

    /// Returns the trials of one block in execution order.
    pub fn of_block(&self, role: Role, block: u32) -> Vec<&TrialRecord> {
        let past = self.blocks.get(&(role, block));
        past.iter().flat_map(|past| &past.trials).map(|position| &self.records[*position]).collect()
    }

    /// Total time of the trials of one block.
    pub fn spent_in(&self, role: Role, block: u32) -> Nanos {
        Nanos(self.blocks.get(&(role, block)).map_or(0, |past| past.took_ns))
    }

    /// Time of the longest complete block; of an incomplete one while no block is complete. `None` without trials.
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
        if record.trial.role == Role::Measured {
            self.measured += 1;
            self.violated += u32::from(record.is_violated());
        }
        let is_abandoned = matches!(record.outcome.status, TrialStatus::Unavailable(_))
            || self.failures >= FAILURES_TO_GIVE_UP
            || too_many_missing(self.violated, self.measured);
        if self.abandon_reason.is_none() && is_abandoned {
            self.abandon_reason = Some(reason());
        }
    }
}
