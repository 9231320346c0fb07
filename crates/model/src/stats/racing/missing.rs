//! What missing and killed laps mean: a hole is guessed for one look and drops nobody; a candidate that cannot be
//! measured leaves with its reason. Must not know who leads.

use super::interim::middle;

/// So many laps that came to nothing are not chance: a lap is repeated within its block before it counts as one.
const HOLES_TO_LEAVE: u32 = 3;
/// Among this many first laps; later they must also be more than [`HOLES_SHARE`] of all.
const FIRST_LAPS: u32 = 5;
const HOLES_SHARE: f64 = 0.3;
/// Killed so often, and in more than half of its laps: the median lies beyond the limit. One killed lap may be a
/// hiccup of the machine.
const KILLED_TO_LEAVE: u32 = 2;

/// What the laps of one candidate came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AttemptCount {
    pub laps: u32,
    pub not_proven: u32,
    pub failed: u32,
    pub killed: u32,
    /// The newest reason for a hole.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    NotProven,
    Failed,
    TooSlow,
}

impl AttemptCount {
    /// Whether this candidate is not worth another lap. Of two kinds of holes the more frequent names it.
    pub fn leaves(&self) -> Option<DropReason> {
        let holes = self.not_proven + self.failed;
        let among_first = self.laps <= FIRST_LAPS;
        if holes >= HOLES_TO_LEAVE && (among_first || f64::from(holes) > HOLES_SHARE * f64::from(self.laps)) {
            return Some(if self.failed > self.not_proven { DropReason::Failed } else { DropReason::NotProven });
        }
        (self.killed >= KILLED_TO_LEAVE && 2 * self.killed > self.laps).then_some(DropReason::TooSlow)
    }
}

/// The table by columns, each hole filled with its row's median plus what its column usually differs from that.
/// Every row and every column must have a value.
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

    fn leaves(laps: u32, not_proven: u32, failed: u32, killed: u32) -> Option<DropReason> {
        AttemptCount { laps, not_proven, failed, killed, reason: String::new() }.leaves()
    }

    #[test]
    fn three_holes_of_the_first_five_are_enough_later_it_takes_a_third() {
        for (laps, not_proven, failed, expected) in [
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
            assert_eq!(leaves(laps, not_proven, failed, 0), expected, "{laps} laps, {not_proven} + {failed}");
        }
    }

    #[test]
    fn one_killed_lap_is_a_hiccup_and_most_of_them_are_not() {
        for (laps, killed, expected) in [
            (1, 1, None),
            (2, 1, None),
            (2, 2, Some(DropReason::TooSlow)),
            (3, 2, Some(DropReason::TooSlow)),
            (4, 2, None),
        ] {
            assert_eq!(leaves(laps, 0, 0, killed), expected, "{killed} of {laps}");
        }
    }

    #[test]
    fn a_hole_is_filled_with_what_its_row_and_its_column_say() {
        let rows = [
            vec![Some(1.0), Some(2.0), Some(4.0)],
            vec![Some(11.0), Some(12.0), None],
            vec![Some(21.0), Some(22.0), Some(24.0)],
        ];
        // The row's median of 11 and 12 is 11.5; the last column is usually 2 above its row's.
        assert_eq!(complete(&rows), [vec![1.0, 11.0, 21.0], vec![2.0, 12.0, 22.0], vec![4.0, 13.5, 24.0]]);
    }
}
