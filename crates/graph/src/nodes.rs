//! Divides vertices and threads by memory node. A search splits the vertices between nodes, so that each thread scans
//! local memory; threads that have finished their own node's vertices help with those of other nodes.

use std::ops::Range;

use model::values::id_set::NodeId;

use crate::team::{self, Chunks};

/// The memory nodes of a team's threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The distinct nodes, in the order of their first threads.
    ids: Vec<NodeId>,
    /// For each thread, the index of its node in `ids`.
    of: Vec<usize>,
}

impl Nodes {
    /// Creates a single node for all threads, so that nothing is split. Also used if the topology is unknown.
    pub fn one(threads: usize) -> Self {
        Self { ids: vec![NodeId(0)], of: vec![0; threads] }
    }

    /// Creates the nodes from that of each thread.
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

    /// Returns the index of a thread's node.
    pub(crate) fn of(&self, thread: usize) -> usize {
        self.of[thread]
    }

    /// Returns a thread's contiguous share of its node's range; shares differ by at most one.
    pub(crate) fn part(&self, thread: usize, of: Range<usize>) -> Range<usize> {
        let threads = |some: &[usize]| some.iter().filter(|node| **node == self.of[thread]).count();
        let (before, all) = (threads(&self.of[..thread]), threads(&self.of));
        team::share(of, before, all)
    }

    /// Returns the number of threads on the nodes before this one.
    pub(crate) fn threads_before(&self, node: usize) -> usize {
        self.of.iter().filter(|of| **of < node).count()
    }
}

/// Work queues of chunks, one per node.
pub(crate) struct Shares(Vec<Vec<Chunks>>);

impl Shares {
    /// Creates queues of these ranges, in order, split at the borders of the nodes.
    pub(crate) fn new(borders: &[usize], ranges: &[Range<usize>], size: usize) -> Self {
        let common = |pair: &[usize], range: &Range<usize>| range.start.max(pair[0])..range.end.min(pair[1]);
        let share =
            |pair: &[usize]| ranges.iter().map(|range| Chunks::of(common(pair, range), size)).collect::<Vec<_>>();
        Self(borders.windows(2).map(share).collect())
    }

    /// Returns the next chunk for a thread of this node, from its own node's vertices as long as there are any.
    pub(crate) fn take(&self, node: usize) -> Option<Range<usize>> {
        let (others, own) = self.0.split_at(node);
        own.iter().chain(others).flatten().find_map(Chunks::take)
    }

    /// Resets the queues. No thread may call `take` concurrently.
    pub(crate) fn again(&self) {
        self.0.iter().flatten().for_each(Chunks::again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_finish_their_own_node_then_help_others() {
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
