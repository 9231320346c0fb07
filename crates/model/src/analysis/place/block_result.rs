//! The outcome of a candidate in a block, from its stored trials.

use crate::analysis::finding::metric_value;
use crate::stats::racing::BlockResult;
use crate::values::plan::NextBlock;
use crate::values::record::TrialRecord;
use crate::values::trial::{Grade, TrialStatus};
use crate::values::units::Nanos;
use crate::values::workload::MetricSpec;

/// Whether every cell of a block has its last attempt, or the time of the block is over.
pub(super) fn is_whole(block: &NextBlock, records: &[&TrialRecord]) -> bool {
    let spent = Nanos(records.iter().map(|record| record.outcome.took.0).sum());
    block.cells.iter().all(|cell| {
        let last = records.iter().filter(|record| record.trial.cell == *cell).max_by_key(|record| record.trial.attempt);
        let has_ended = last.is_some_and(|last| last.trial.attempt + 1 >= block.attempts_max || !last.is_retriable());
        has_ended || block.time_limit_after(*cell, spent).is_none()
    })
}

/// Returns the outcomes of the cells of a block. Cells that did not run, or that the end of the budget interrupted, have
/// none.
pub(super) fn results(metric: &MetricSpec, block: &NextBlock, records: &[&TrialRecord]) -> Vec<(usize, BlockResult)> {
    block.cells.iter().filter_map(|cell| Some((*cell, result(metric, block, *cell, records)?))).collect()
}

/// Whether the metric is the time of a trial, so that a killed trial has a lower bound.
pub(super) fn is_time(metric: &MetricSpec) -> bool {
    metric.series == "wall"
}

/// Returns the value of a trial; `None` if its output has none.
pub(super) fn value(metric: &MetricSpec, record: &TrialRecord) -> Option<f64> {
    metric_value(metric, &record.outcome.samples)
}

/// Returns the outcome of the last attempt. If neither attempt has a result, the reason is that of the first, because
/// the second may be a consequence of it.
fn result(metric: &MetricSpec, block: &NextBlock, cell: usize, records: &[&TrialRecord]) -> Option<BlockResult> {
    let attempts = || records.iter().filter(|record| record.trial.cell == cell);
    let last = attempts().max_by_key(|record| record.trial.attempt)?;
    let first = attempts().min_by_key(|record| record.trial.attempt)?;
    Some(match (&last.outcome.status, &first.outcome.status) {
        (TrialStatus::Completed, _) if last.verdict.grade != Grade::Invalid => match value(metric, last) {
            Some(value) => BlockResult::Value(value),
            None => BlockResult::Failed(format!("the output has no {}", metric.name)),
        },
        // The budget ended, which is not a result of the candidate.
        (TrialStatus::TimedOut(_), _) if last.trial.time_limit < block.time_limit_for(cell) => return None,
        // The baseline has the whole time limit, so a timeout means that the command does not end.
        (TrialStatus::TimedOut(_), _) if is_time(metric) && cell != 0 => {
            BlockResult::TooSlow { at_least: last.trial.time_limit.seconds() }
        }
        (_, TrialStatus::Completed) => {
            BlockResult::NotProven(first.verdict.reasons.first().cloned().unwrap_or_default())
        }
        (_, TrialStatus::Failed(reason) | TrialStatus::TimedOut(reason) | TrialStatus::Unavailable(reason)) => {
            BlockResult::Failed(reason.clone())
        }
    })
}
