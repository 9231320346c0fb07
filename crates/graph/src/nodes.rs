//! Divides vertices and threads by memory node. A search splits the vertices between nodes, so that each thread scans
//! local memory; threads that have finished their own node's vertices help with those of other nodes.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use model::values::id_set::NodeId;

use crate::team;

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

/// Work queues of chunks, one per thread. A thread takes its own chunks in every level as long as there are any, because
/// their data is then in its caches, and only afterwards those of others.
pub(crate) struct Shares(Vec<ThreadQueue>);

/// Aligned so that queues share no cache lines.
#[repr(align(128))]
struct ThreadQueue {
    node: usize,
    chunks: Vec<Range<usize>>,
    /// Index of the next chunk, which may be past the last one.
    next: AtomicUsize,
}

impl Shares {
    /// Creates queues of these ranges, in order, split at the borders of the nodes and into chunks of a size. `owner` returns
    /// which thread of its node has a chunk, for the start of the chunk and the number of threads of the node.
    pub(crate) fn new(
        nodes: &Nodes,
        borders: &[usize],
        ranges: &[Range<usize>],
        size: usize,
        owner: impl Fn(usize, usize) -> usize,
    ) -> Self {
        let empty = |node: &usize| ThreadQueue { node: *node, chunks: Vec::new(), next: AtomicUsize::new(0) };
        let mut queues: Vec<ThreadQueue> = nodes.of.iter().map(empty).collect();
        for (node, border) in borders.windows(2).enumerate() {
            let threads: Vec<usize> = (0..nodes.threads()).filter(|thread| nodes.of(*thread) == node).collect();
            for range in ranges {
                let (start, end) = (range.start.max(border[0]), range.end.min(border[1]));
                for start in (start..end).step_by(size) {
                    queues[threads[owner(start, threads.len())]].chunks.push(start..(start + size).min(end));
                }
            }
        }
        Self(queues)
    }

    /// Returns the next chunk for a thread: its own, then those of the other threads of its node, then of other nodes.
    pub(crate) fn take(&self, thread: usize) -> Option<Range<usize>> {
        let (before, from) = self.0.split_at(thread);
        let node = from[0].node;
        let all = || from.iter().chain(before);
        let near = all().filter(|queue| queue.node == node);
        near.chain(all().filter(|queue| queue.node != node)).find_map(ThreadQueue::take)
    }

    /// Resets the queues. No thread may call `take` concurrently.
    pub(crate) fn again(&self) {
        self.0.iter().for_each(|queue| queue.next.store(0, Relaxed));
    }
}

impl ThreadQueue {
    fn take(&self) -> Option<Range<usize>> {
        // An empty queue is only read, because other threads ask for its chunks too.
        if self.next.load(Relaxed) >= self.chunks.len() {
            return None;
        }
        self.chunks.get(self.next.fetch_add(1, Relaxed)).cloned()
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
        let owner = |start: usize, threads: usize| start / 20 % threads;
        let shares = Shares::new(&nodes, &[0, 70, 100], &[10..100, 0..10], 20, owner);
        for _ in 0..2 {
            // Thread 1 has the other node; 10..30, 50..70 and 0..10 belong to thread 0.
            assert_eq!([shares.take(1), shares.take(1)], [Some(70..90), Some(90..100)]);
            assert_eq!(shares.take(1), Some(30..50), "the chunk of thread 2");
            assert_eq!([shares.take(2), shares.take(2)], [Some(50..70), Some(10..30)], "those of threads 3 and 0");
            assert_eq!([shares.take(0), shares.take(0), shares.take(1)], [Some(0..10), None, None]);
            shares.again();
        }
    }
}
