//! Missing and killed trials: a missing value is imputed for one interim analysis and drops no candidate; a candidate
//! that cannot be measured is dropped with the reason. Must not depend on which candidate leads.

use super::interim::middle;
use super::{BlockResult, signed_log};
use crate::values::workload::Better;

/// Number of missing values that is not chance. A trial is repeated in its block before its value counts as missing.
const HOLES_TO_LEAVE: u32 = 3;
/// In this number of first blocks; later, missing values must also exceed [`HOLES_SHARE`] of all.
const FIRST_BLOCKS: u32 = 5;
const HOLES_SHARE: f64 = 0.3;
/// A candidate with this many killed trials, which are more than half of its trials, has a median above the limit. A
/// single killed trial may be a disturbance of the machine.
const KILLED_TO_LEAVE: u32 = 2;

/// Outcomes of the trials of one candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::stats) struct AttemptCount {
    pub blocks: u32,
    pub not_proven: u32,
    pub failed: u32,
    pub killed: u32,
    /// Reason of the most recent missing value.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stats) enum DropReason {
    NotProven,
    Failed,
    TooSlow,
}

impl AttemptCount {
    /// Counts an outcome, and returns its logarithm for comparisons; `None` if it has no value.
    pub fn note(&mut self, result: &BlockResult, better: Better) -> Option<f64> {
        self.blocks += 1;
        match result {
            BlockResult::Value(value) => {
                let logarithm = signed_log(*value, better);
                if logarithm.is_none() {
                    self.failed += 1;
                    self.reason = format!("the metric was {value}, but only values above 0 can be compared");
                }
                logarithm
            }
            BlockResult::TooSlow { at_least } => {
                self.killed += 1;
                // A lower bound of metrics to minimise; for metrics to maximise there is no bound.
                Some(*at_least).filter(|_| better == Better::Lower).and_then(|value| signed_log(value, better))
            }
            BlockResult::NotProven(reason) => {
                self.not_proven += 1;
                self.reason.clone_from(reason);
                None
            }
            BlockResult::Failed(reason) => {
                self.failed += 1;
                self.reason.clone_from(reason);
                None
            }
        }
    }

    /// Whether it ran in one block, and failed in it.
    pub fn has_only_failed_once(&self) -> bool {
        self.blocks == 1 && self.failed == 1
    }

    /// Returns whether to drop this candidate. Of two kinds of missing values, the more frequent is the reason.
    pub fn leaves(&self) -> Option<DropReason> {
        let holes = self.not_proven + self.failed;
        if too_many_missing(holes, self.blocks) {
            return Some(if self.failed > self.not_proven { DropReason::Failed } else { DropReason::NotProven });
        }
        (self.killed >= KILLED_TO_LEAVE && 2 * self.killed > self.blocks).then_some(DropReason::TooSlow)
    }
}

/// Returns whether the attempts with a value cannot represent those without one: a disturbance that is
/// sometimes overlooked would otherwise select the trials in which it was.
pub fn too_many_missing(missing: u32, attempts: u32) -> bool {
    let among_first = attempts <= FIRST_BLOCKS;
    missing >= HOLES_TO_LEAVE && (among_first || f64::from(missing) > HOLES_SHARE * f64::from(attempts))
}

/// Returns the table by columns, with missing values imputed as the median of the row plus the usual difference of the
/// column. Every row and every column must have a value.
pub(super) fn complete(rows: &[Vec<Option<f64>>]) -> Vec<Vec<f64>> {
    let row_medians: Vec<f64> = rows.iter().map(|row| middle(row.iter().flatten().copied().collect())).collect();
    let column = |index: usize| -> Vec<f64> {
        let known = rows.iter().zip(&row_medians).filter_map(|(row, block)| row[index].map(|value| value - block));
        let known: Vec<f64> = known.collect();
        let usual = if known.len() < rows.len() { middle(known) } else { 0.0 };
        rows.iter().zip(&row_medians).map(|(row, block)| row[index].unwrap_or(block + usual)).collect()
    };
    (0..rows[0].len()).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(blocks: u32, not_proven: u32, failed: u32, killed: u32) -> Option<DropReason> {
        AttemptCount { blocks, not_proven, failed, killed, reason: String::new() }.leaves()
    }

    #[test]
    fn three_missing_of_the_first_five_drop_later_a_third_does() {
        for (blocks, not_proven, failed, expected) in [
            (1, 1, 0, None),
            (2, 2, 0, None),
            (3, 3, 0, Some(DropReason::NotProven)),
            (5, 2, 0, None),
            (5, 1, 2, Some(DropReason::Failed)),
            (5, 2, 1, Some(DropReason::NotProven)),
            (6, 2, 0, None),
            (9, 3, 0, Some(DropReason::NotProven)),
            (10, 3, 0, None),
            (10, 0, 4, Some(DropReason::Failed)),
            (40, 12, 0, None),
            (40, 13, 0, Some(DropReason::NotProven)),
        ] {
            assert_eq!(leaves(blocks, not_proven, failed, 0), expected, "{blocks} blocks, {not_proven} + {failed}");
        }
    }

    #[test]
    fn candidate_is_dropped_if_most_trials_are_killed() {
        for (blocks, killed, expected) in [
            (1, 1, None),
            (2, 1, None),
            (2, 2, Some(DropReason::TooSlow)),
            (3, 2, Some(DropReason::TooSlow)),
            (4, 2, None),
        ] {
            assert_eq!(leaves(blocks, 0, 0, killed), expected, "{killed} of {blocks}");
        }
    }

    #[test]
    fn missing_values_are_imputed_from_row_and_column() {
        let rows = [
            vec![Some(1.0), Some(2.0), Some(4.0)],
            vec![Some(11.0), Some(12.0), None],
            vec![Some(21.0), Some(22.0), Some(24.0)],
        ];
        // The median of 11 and 12 is 11.5; the last column is usually 2 above its row's median.
        assert_eq!(complete(&rows), [vec![1.0, 11.0, 21.0], vec![2.0, 12.0, 22.0], vec![4.0, 13.5, 24.0]]);
    }
}
