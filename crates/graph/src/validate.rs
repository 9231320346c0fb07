//! Validation: whether parents are a breadth-first tree of the graph, by the Graph500's five checks. Slow and plain: it knows the
//! edges as generated and the result, and nothing of layout or search. Who has no room for the list of edges has them go by in batches,
//! generated anew.
//!
//! 1. Following parents from any vertex comes to the root, without a cycle.
//! 2. Tree edges join levels that differ by one.
//! 3. Every edge joins levels that differ by one at most, or has both ends outside.
//! 4. The tree spans the root's component: no edge leads out of it, and vertices of others have no parent.
//! 5. Every tree edge is an edge.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::edges::{BATCH, Edges, Tuples};
use crate::error::Error;
use crate::kronecker::Spec;
use crate::team::{Chunks, Team, TeamWorker, collect};

/// The parent of a vertex that was not reached.
pub const NONE: u32 = u32::MAX;

/// The level of a vertex that was not reached, and of one not yet looked at.
pub(crate) const OUTSIDE: u16 = u16::MAX;
const UNKNOWN: u16 = u16::MAX - 1;
/// Longer than any path of a Kronecker graph; a longer one is taken for a cycle.
pub(crate) const LEVELS_MAX: usize = 60_000;
/// Vertices that a thread takes at a time.
const PIECE: usize = 1 << 14;

/// What is wrong with a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// The root is not its own parent.
    Root(u32),
    /// A parent that is no vertex.
    NoVertex(u32),
    /// 1: parents go in circles.
    Cycle(u32),
    /// 1: parents lead to a vertex that has none.
    Loose(u32),
    /// 2: a tree edge does not join neighbouring levels.
    TreeLevels(u32),
    /// 3: an edge joins levels that differ by more than one.
    Levels(u32, u32),
    /// 4: an edge has one end in the tree.
    Spanning(u32, u32),
    /// 5: a tree edge that is no edge of the graph.
    NoEdge(u32),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(root) => write!(f, "root {root} is not its own parent"),
            Self::NoVertex(vertex) => write!(f, "the parent of vertex {vertex} is no vertex"),
            Self::Cycle(vertex) => write!(f, "the parents of vertex {vertex} go in circles"),
            Self::Loose(vertex) => write!(f, "the parents of vertex {vertex} do not lead to the root"),
            Self::TreeLevels(vertex) => write!(f, "vertex {vertex} and its parent are not on neighbouring levels"),
            Self::Levels(a, b) => write!(f, "edge {a} {b} joins levels that differ by more than one"),
            Self::Spanning(a, b) => write!(f, "edge {a} {b} has one end that was not reached"),
            Self::NoEdge(vertex) => write!(f, "vertex {vertex} and its parent have no edge"),
        }
    }
}

/// What a valid tree spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    pub vertices: u64,
    /// Levels, the root's own included.
    pub levels: u64,
    /// Edges as generated in its component, multi-edges and self-loops included: what the specification counts.
    pub tuples: u64,
    /// Of these, those that are no self-loops: what the reference code counts.
    pub tuples_without_loops: u64,
}

/// Why a check ends early.
#[derive(Clone, Debug)]
enum CheckAbort {
    Wrong(TreeError),
    /// The edges could not be had.
    Edges(String),
}

impl From<TreeError> for CheckAbort {
    fn from(wrong: TreeError) -> Self {
        Self::Wrong(wrong)
    }
}

/// Where edges come from.
#[derive(Clone, Copy)]
enum EdgeSource<'t> {
    List(&'t Tuples),
    /// So many, in batches, for each tree anew.
    Anew(&'t dyn Edges, u64),
}

/// Holds trees against the edges of a graph.
pub struct Validator<'t> {
    source: EdgeSource<'t>,
    levels: Vec<AtomicU16>,
    /// Whose tree edge was found among the edges.
    proven: Vec<AtomicBool>,
}

impl<'t> Validator<'t> {
    /// For trees of the graph whose edge list is in memory.
    pub fn new(tuples: &'t Tuples) -> Self {
        Self::over(tuples.spec(), EdgeSource::List(tuples))
    }

    /// For trees of this graph, whose edges are had anew for each.
    pub fn streaming(spec: &Spec, edges: &'t dyn Edges) -> Self {
        Self::over(spec, EdgeSource::Anew(edges, spec.edges()))
    }

    fn over(spec: &Spec, source: EdgeSource<'t>) -> Self {
        let vertices = spec.vertices() as usize;
        Self {
            source,
            levels: (0..vertices).map(|_| AtomicU16::new(0)).collect(),
            proven: (0..vertices).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Makes all checks, with all threads. The inner result is the first thing found wrong; that edges cannot be had is an error.
    pub fn check<C: Team>(
        &self,
        crew: &C,
        root: u32,
        parents: &[u32],
    ) -> Result<Result<TreeStats, TreeError>, C::Error> {
        assert_eq!(parents.len(), self.levels.len(), "a parent for each vertex");
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
        let parts = collect(crew, |hand| {
            for vertex in hand.share(parents.len()) {
                self.levels[vertex].store(UNKNOWN, Relaxed);
                self.proven[vertex].store(false, Relaxed);
            }
            hand.barrier()?;
            if hand.index == 0 {
                self.levels[root as usize].store(0, Relaxed);
            }
            hand.barrier()?;
            while let Some(mut piece) = levels.take() {
                note(piece.try_for_each(|vertex| Ok(self.find_level(parents, vertex)?)));
            }
            hand.barrier()?;
            let mut reached = TreeStats::default();
            // Every thread sees the same: what was found wrong was noted before all met.
            if failed().is_none() {
                hand.barrier()?;
                note(self.look_at_edges(hand, parents, &mut reached));
                hand.barrier()?;
                while let Some(mut piece) = after.take() {
                    note(piece.try_for_each(|vertex| Ok(self.look_at_vertex(root, parents, vertex, &mut reached)?)));
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

    /// Finds the level of a vertex and of those between it and one whose level is known.
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

    /// Checks 3 and 4 on a part of the edges, and notes which tree edges are among them.
    fn look_at_edges(&self, hand: &TeamWorker<'_>, parents: &[u32], reached: &mut TreeStats) -> Result<(), CheckAbort> {
        let mut look = |a: u32, b: u32| -> Result<(), CheckAbort> {
            let (here, there) = (self.levels[a as usize].load(Relaxed), self.levels[b as usize].load(Relaxed));
            if let Some((upper, lower)) = look_at_edge((a, here), (b, there), reached)?
                && parents[lower as usize] == upper
            {
                self.proven[lower as usize].store(true, Relaxed);
            }
            Ok(())
        };
        let (edges, count) = match self.source {
            EdgeSource::List(tuples) => return tuples.part(hand).try_for_each(|(a, b)| look(a, b)),
            EdgeSource::Anew(edges, count) => (edges, count),
        };
        let own = hand.share(count as usize);
        let mut batch = vec![[0; 2]; BATCH.min(own.len())];
        for first in own.clone().step_by(BATCH) {
            let batch = &mut batch[..(own.end - first).min(BATCH)];
            edges.fill(first as u64, batch).map_err(CheckAbort::Edges)?;
            batch.iter().try_for_each(|[a, b]| look(*a as u32, *b as u32))?;
        }
        Ok(())
    }

    /// Checks 2 and 5 on a vertex.
    fn look_at_vertex(
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

/// Checks 3 and 4 on one edge, both of whose ends have their levels, and counts it. Gives the upper and the lower end where levels
/// differ: such an edge may be the tree's.
#[inline(always)]
pub(crate) fn look_at_edge(
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
    /// What two threads have counted.
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
