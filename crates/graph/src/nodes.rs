//! Which threads share the memory of a node, and which vertices are whose. A search splits the vertices between nodes, so that each
//! thread scans what is near; who has done the part of his own node helps with the others'.

use std::ops::Range;

use model::values::id_set::NodeId;

use crate::layout::Layout;
use crate::team::{self, Chunks};

/// The nodes of a crew's threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Each once, in the order of their first threads.
    ids: Vec<NodeId>,
    /// Of each thread, which of them.
    of: Vec<usize>,
}

impl Nodes {
    /// One for all threads, which is also right where nobody knows: then nothing is split.
    pub fn one(threads: usize) -> Self {
        Self { ids: vec![NodeId(0)], of: vec![0; threads] }
    }

    /// From each thread's node.
    pub fn of_threads(threads: &[NodeId]) -> Self {
        let mut ids: Vec<NodeId> = Vec::new();
        let mut place = |node: &NodeId| {
            ids.iter().position(|known| known == node).unwrap_or_else(|| {
                ids.push(*node);
                ids.len() - 1
            })
        };
        let of = threads.iter().map(&mut place).collect();
        Self { ids, of }
    }

    pub fn count(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    pub(crate) fn threads(&self) -> usize {
        self.of.len()
    }

    /// A thread's node, by its place in [`Nodes::ids`].
    pub(crate) fn of(&self, thread: usize) -> usize {
        self.of[thread]
    }

    /// A thread's part of what its node has: neighbouring parts, alike to one.
    pub(crate) fn part(&self, thread: usize, of: Range<usize>) -> Range<usize> {
        let threads = |some: &[usize]| some.iter().filter(|node| **node == self.of[thread]).count();
        let (before, all) = (threads(&self.of[..thread]), threads(&self.of));
        team::share(of, before, all)
    }

    /// Where each node's vertices begin, in words of the maps, and the end of the last: the lowest ranks, which have the longest lists, are
    /// the first one's. Each has as much of HEAD as it has of the threads.
    pub(crate) fn borders(&self, layout: &Layout) -> Vec<usize> {
        let words = layout.words();
        let below = |word: usize| -> u64 {
            let rows = layout.rows[..layout.rows.len() - 1].iter();
            rows.map(|rows| u64::from(*rows).min(64 * word as u64)).sum()
        };
        let all = below(words);
        let border = |node: usize| {
            let threads = self.of.iter().filter(|of| **of < node).count() as u64;
            let share = u128::from(all) * u128::from(threads) / self.of.len() as u128;
            // The first word with so much before it.
            let (mut low, mut high) = (0, words);
            while low < high {
                let middle = low.midpoint(high);
                if u128::from(below(middle)) < share { low = middle + 1 } else { high = middle }
            }
            low
        };
        let mut borders: Vec<usize> = (0..self.ids.len()).map(border).collect();
        borders.push(words);
        borders
    }
}

/// Pieces of each node's vertices, to be handed out.
pub(crate) struct Shares(Vec<Vec<Chunks>>);

impl Shares {
    /// Of these ranges of all vertices, one after the other.
    pub(crate) fn new(borders: &[usize], ranges: &[Range<usize>], size: usize) -> Self {
        let common = |pair: &[usize], range: &Range<usize>| range.start.max(pair[0])..range.end.min(pair[1]);
        let share =
            |pair: &[usize]| ranges.iter().map(|range| Chunks::of(common(pair, range), size)).collect::<Vec<_>>();
        Self(borders.windows(2).map(share).collect())
    }

    /// The next piece for a thread of this node: of its own vertices as long as there are some.
    pub(crate) fn take(&self, node: usize) -> Option<Range<usize>> {
        let (others, own) = self.0.split_at(node);
        own.iter().chain(others).flatten().find_map(Chunks::take)
    }

    /// To be handed out once more; nobody may be taking meanwhile.
    pub(crate) fn again(&self) {
        self.0.iter().flatten().for_each(Chunks::again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_part_of_its_nodes_and_then_helps() {
        let nodes = Nodes::of_threads(&[3, 0, 3, 3].map(NodeId));
        assert_eq!((nodes.ids(), nodes.count(), nodes.threads()), (&[NodeId(3), NodeId(0)][..], 2, 4));
        assert_eq!([0, 1, 2, 3].map(|thread| nodes.of(thread)), [0, 1, 0, 0]);
        assert_eq!([0, 1, 2, 3].map(|thread| nodes.part(thread, 10..70)), [10..30, 10..70, 30..50, 50..70]);
        let shares = Shares::new(&[0, 70, 100], &[10..100, 0..10], 40);
        for _ in 0..2 {
            assert_eq!(shares.take(1), Some(70..100));
            assert_eq!(shares.take(1), Some(10..50));
            assert_eq!(shares.take(0), Some(50..70));
            assert_eq!(shares.take(0), Some(0..10));
            assert_eq!((shares.take(0), shares.take(1)), (None, None));
            shares.again();
        }
    }
}
