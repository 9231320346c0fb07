//! A set of numbers as disjoint ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch: the end of each, by its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds a range and splits it into pieces in order, each with whether it was not in the set before.
    pub(super) fn add(&mut self, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        for old in self.touching(&range) {
            let (from, to) = (old.start.max(range.start), old.end.min(range.end));
            if at < from {
                pieces.push((at..from, true));
            }
            if from < to {
                pieces.push((from..to, false));
            }
            at = at.max(to);
        }
        if at < range.end {
            pieces.push((at..range.end, true));
        }
        self.merge(range);
        pieces
    }

    /// Returns the ranges that overlap or touch `range`, in order.
    fn touching(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let before = self.0.range(..range.start).next_back().filter(|(_, end)| **end >= range.start);
        let inside = self.0.range(range.start..=range.end);
        before.into_iter().chain(inside).map(|(start, end)| *start..*end).collect()
    }

    fn merge(&mut self, mut range: Range<u64>) {
        for old in self.touching(&range) {
            self.0.remove(&old.start);
            range = range.start.min(old.start)..range.end.max(old.end);
        }
        if range.start < range.end {
            self.0.insert(range.start, range.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_outside_the_set_are_new() {
        let mut set = RangeSet::default();
        assert_eq!(set.add(10..20), [(10..20, true)]);
        assert_eq!(set.add(5..12), [(5..10, true), (10..12, false)]);
        assert_eq!(set.add(30..40), [(30..40, true)]);
        assert_eq!(set.add(0..50), [(0..5, true), (5..20, false), (20..30, true), (30..40, false), (40..50, true)]);
        assert_eq!(set.add(7..9), [(7..9, false)]);
        assert_eq!(set.0, BTreeMap::from([(0, 50)]));
    }

    proptest! {
        #[test]
        fn every_number_is_new_once(ranges in proptest::collection::vec((0u64..60, 0u64..12), 0..20)) {
            let (mut set, mut seen) = (RangeSet::default(), BTreeSet::new());
            for (start, length) in ranges {
                let pieces = set.add(start..start + length);
                let numbers: Vec<u64> = pieces.iter().flat_map(|(piece, _)| piece.clone()).collect();
                prop_assert_eq!(numbers, (start..start + length).collect::<Vec<_>>());
                for (number, is_new) in pieces.iter().flat_map(|(piece, new)| piece.clone().map(move |n| (n, *new))) {
                    prop_assert_eq!(is_new, seen.insert(number), "{}", number);
                }
            }
        }
    }
}
