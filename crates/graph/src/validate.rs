//! Validates that parents form a breadth-first tree of the graph, by the five checks of the Graph500. Deliberately
//! simple: it knows the generated edges and the result, and nothing of layout or search. If the edge list does not fit
//! into memory, edges are generated again in batches.
//!
//! 1. Following parents from any vertex leads to the root, without a cycle.
//! 2. Tree edges join levels that differ by one.
//! 3. Every edge joins levels that differ by at most one, or has both ends outside the tree.
//! 4. The tree spans the root's component: no edge leads out of it, and vertices of other components have no parent.
//! 5. Every tree edge is an edge of the graph.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::edges::{BATCH, Edges, Tuples};
use crate::error::Error;
use crate::kronecker::Spec;
use crate::team::{Chunks, Team, TeamWorker, collect};

/// The parent of a vertex that was not reached.
pub const NONE: u32 = u32::MAX;

/// The level of a vertex that was not reached or not yet processed.
pub(crate) const OUTSIDE: u16 = u16::MAX;
const UNKNOWN: u16 = u16::MAX - 1;
/// Longer than any path of a Kronecker graph; longer paths are treated as cycles.
pub(crate) const LEVELS_MAX: usize = 60_000;
/// Vertices that a thread takes at a time.
const PIECE: usize = 1 << 14;

/// Error in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// The root is not its own parent.
    Root(u32),
    /// A parent is out of range.
    NoVertex(u32),
    /// Check 1: the parents form a cycle.
    Cycle(u32),
    /// Check 1: the parents lead to a vertex without a parent.
    Loose(u32),
    /// Check 2: a tree edge does not join adjacent levels.
    TreeLevels(u32),
    /// Check 3: an edge joins levels that differ by more than one.
    Levels(u32, u32),
    /// Check 4: an edge has only one end in the tree.
    Spanning(u32, u32),
    /// Check 5: a tree edge is not an edge of the graph.
    NoEdge(u32),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(root) => write!(f, "root {root} is not its own parent"),
            Self::NoVertex(vertex) => write!(f, "the parent of vertex {vertex} is out of range"),
            Self::Cycle(vertex) => write!(f, "the parents of vertex {vertex} form a cycle"),
            Self::Loose(vertex) => write!(f, "the parents of vertex {vertex} do not lead to the root"),
            Self::TreeLevels(vertex) => write!(f, "vertex {vertex} and its parent are not on adjacent levels"),
            Self::Levels(a, b) => write!(f, "edge {a} {b} joins levels that differ by more than one"),
            Self::Spanning(a, b) => write!(f, "edge {a} {b} has one end that was not reached"),
            Self::NoEdge(vertex) => write!(f, "there is no edge between vertex {vertex} and its parent"),
        }
    }
}

/// Size of a valid tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    pub vertices: u64,
    /// Number of levels, including the root's.
    pub levels: u64,
    /// Number of generated edges in its component, multi-edges and self-loops included, as the specification counts.
    pub tuples: u64,
    /// The same without self-loops, as the reference code counts.
    pub tuples_without_loops: u64,
}

/// Reason why a check ends early.
#[derive(Clone, Debug)]
enum CheckAbort {
    Wrong(TreeError),
    /// The edges cannot be read.
    Edges(String),
}

impl From<TreeError> for CheckAbort {
    fn from(wrong: TreeError) -> Self {
        Self::Wrong(wrong)
    }
}

/// Source of the edges.
#[derive(Clone, Copy)]
enum EdgeSource<'t> {
    List(&'t Tuples),
    /// This many edges, read again in batches for each tree.
    Generated(&'t dyn Edges, u64),
}

/// Checks trees against the edges of a graph.
pub struct Validator<'t> {
    source: EdgeSource<'t>,
    levels: Vec<AtomicU16>,
    /// Vertices whose tree edge was found among the edges.
    proven: Vec<AtomicBool>,
}

impl<'t> Validator<'t> {
    /// Creates a validator with an edge list in memory.
    pub fn new(tuples: &'t Tuples) -> Self {
        Self::over(tuples.spec(), EdgeSource::List(tuples))
    }

    /// Creates a validator that reads the edges again for each tree.
    pub fn streaming(spec: &Spec, edges: &'t dyn Edges) -> Self {
        Self::over(spec, EdgeSource::Generated(edges, spec.edges()))
    }

    fn over(spec: &Spec, source: EdgeSource<'t>) -> Self {
        let vertices = spec.vertices() as usize;
        Self {
            source,
            levels: (0..vertices).map(|_| AtomicU16::new(0)).collect(),
            proven: (0..vertices).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Makes all checks, with all threads. The inner result is the first error in the tree; failure to read the edges
    /// is an outer error.
    pub fn check<C: Team>(
        &self,
        team: &C,
        root: u32,
        parents: &[u32],
    ) -> Result<Result<TreeStats, TreeError>, C::Error> {
        assert_eq!(parents.len(), self.levels.len(), "one parent per vertex");
        if parents.get(root as usize) != Some(&root) {
            return Ok(Err(TreeError::Root(root)));
        }
        let wrong = Mutex::new(None);
        let failed = || wrong.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let note = |result: Result<(), CheckAbort>| {
            if let Err(one) = result {
                wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(one);
            }
        };
        let (levels, after) = (Chunks::new(parents.len(), PIECE), Chunks::new(parents.len(), PIECE));
        let parts = collect(team, |worker| {
            for vertex in worker.share(parents.len()) {
                self.levels[vertex].store(UNKNOWN, Relaxed);
                self.proven[vertex].store(false, Relaxed);
            }
            worker.barrier()?;
            if worker.index == 0 {
                self.levels[root as usize].store(0, Relaxed);
            }
            worker.barrier()?;
            while let Some(mut piece) = levels.take() {
                note(piece.try_for_each(|vertex| Ok(self.find_level(parents, vertex)?)));
            }
            worker.barrier()?;
            let mut reached = TreeStats::default();
            // Every thread sees the same value: errors were recorded before the barrier.
            if failed().is_none() {
                worker.barrier()?;
                note(self.check_edges(worker, parents, &mut reached));
                worker.barrier()?;
                while let Some(mut piece) = after.take() {
                    note(piece.try_for_each(|vertex| Ok(self.check_vertex(root, parents, vertex, &mut reached)?)));
                }
            }
            Ok(reached)
        })?;
        match failed() {
            None => Ok(Ok(parts.into_iter().fold(TreeStats::default(), TreeStats::and))),
            Some(CheckAbort::Wrong(wrong)) => Ok(Err(wrong)),
            Some(CheckAbort::Edges(why)) => Err(Error::Edges(why).into()),
        }
    }

    /// Computes the level of a vertex and of its ancestors up to one whose level is known.
    fn find_level(&self, parents: &[u32], vertex: usize) -> Result<(), TreeError> {
        if parents[vertex] == NONE {
            self.levels[vertex].store(OUTSIDE, Relaxed);
            return Ok(());
        }
        let (mut path, mut at) = (Vec::new(), vertex);
        let mut level = loop {
            let known = self.levels[at].load(Relaxed);
            if known != UNKNOWN && known != OUTSIDE {
                break known;
            }
            let parent = parents[at] as usize;
            if parents[at] == NONE {
                return Err(TreeError::Loose(vertex as u32));
            }
            if parent >= parents.len() {
                return Err(TreeError::NoVertex(at as u32));
            }
            path.push(at);
            if parent == at || path.len() > LEVELS_MAX.min(parents.len()) {
                return Err(TreeError::Cycle(vertex as u32));
            }
            at = parent;
        };
        if usize::from(level) + path.len() > LEVELS_MAX {
            return Err(TreeError::Cycle(vertex as u32));
        }
        for vertex in path.into_iter().rev() {
            level += 1;
            self.levels[vertex].store(level, Relaxed);
        }
        Ok(())
    }

    /// Makes checks 3 and 4 on a share of the edges, and records which tree edges are among them.
    fn check_edges(&self, worker: &TeamWorker<'_>, parents: &[u32], reached: &mut TreeStats) -> Result<(), CheckAbort> {
        let mut check = |a: u32, b: u32| -> Result<(), CheckAbort> {
            let (here, there) = (self.levels[a as usize].load(Relaxed), self.levels[b as usize].load(Relaxed));
            if let Some((upper, lower)) = check_edge((a, here), (b, there), reached)?
                && parents[lower as usize] == upper
            {
                self.proven[lower as usize].store(true, Relaxed);
            }
            Ok(())
        };
        let (edges, count) = match self.source {
            EdgeSource::List(tuples) => return tuples.part(worker).try_for_each(|(a, b)| check(a, b)),
            EdgeSource::Generated(edges, count) => (edges, count),
        };
        let own = worker.share(count as usize);
        let mut batch = vec![[0; 2]; BATCH.min(own.len())];
        for first in own.clone().step_by(BATCH) {
            let batch = &mut batch[..(own.end - first).min(BATCH)];
            edges.fill(first as u64, batch).map_err(CheckAbort::Edges)?;
            batch.iter().try_for_each(|[a, b]| check(*a as u32, *b as u32))?;
        }
        Ok(())
    }

    /// Makes checks 2 and 5 on a vertex.
    fn check_vertex(
        &self,
        root: u32,
        parents: &[u32],
        vertex: usize,
        reached: &mut TreeStats,
    ) -> Result<(), TreeError> {
        let parent = parents[vertex];
        if parent == NONE {
            return Ok(());
        }
        let level = self.levels[vertex].load(Relaxed);
        reached.vertices += 1;
        reached.levels = reached.levels.max(u64::from(level) + 1);
        if vertex as u32 == root {
            return Ok(());
        }
        if self.levels[parent as usize].load(Relaxed) + 1 != level {
            return Err(TreeError::TreeLevels(vertex as u32));
        }
        if !self.proven[vertex].load(Relaxed) {
            return Err(TreeError::NoEdge(vertex as u32));
        }
        Ok(())
    }
}

/// Makes checks 3 and 4 on one edge, both of whose ends have their levels, and counts it. Returns the upper and the
/// lower end if the levels differ, because such an edge may be a tree edge.
#[inline(always)]
pub(crate) fn check_edge(
    (a, level_a): (u32, u16),
    (b, level_b): (u32, u16),
    reached: &mut TreeStats,
) -> Result<Option<(u32, u32)>, TreeError> {
    if (level_a == OUTSIDE) != (level_b == OUTSIDE) {
        return Err(TreeError::Spanning(a, b));
    }
    if level_a == OUTSIDE {
        return Ok(None);
    }
    reached.tuples += 1;
    reached.tuples_without_loops += u64::from(a != b);
    match level_a.abs_diff(level_b) {
        0 => Ok(None),
        1 => Ok(Some(if level_a < level_b { (a, b) } else { (b, a) })),
        _ => Err(TreeError::Levels(a, b)),
    }
}

impl TreeStats {
    /// Adds the counts of two threads.
    fn and(self, other: Self) -> Self {
        Self {
            vertices: self.vertices + other.vertices,
            levels: self.levels.max(other.levels),
            tuples: self.tuples + other.tuples,
            tuples_without_loops: self.tuples_without_loops + other.tuples_without_loops,
        }
    }
}

#[cfg(test)]
mod tests;
