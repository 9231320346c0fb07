//! Degree distribution of the vertices, from which ranks, columns and buckets are derived.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::layout::NO_LABEL;

/// Number of levels of [`NeighbourLevels`]. More of them save little more.
const LEVELS: usize = 4;

/// For each degree that occurs, in descending order: the degree and the end of its range of ranks.
pub(crate) struct DegreeRuns(pub(crate) Vec<(u32, u32)>);

/// The order of vertices with the same degree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TieOrder {
    Label,
    /// By [`NeighbourLevels`], then by label. Vertices without a large neighbour are found late, when few others still need
    /// their lists: these are then close to each other in a file.
    Neighbour,
}

/// Size of the largest neighbour of each vertex: level 0 if its degree is more than half of the largest one, 1 if more than a
/// quarter, and so on.
pub(crate) struct NeighbourLevels {
    /// Largest degrees of the levels from 1 on.
    bounds: [u32; LEVELS - 1],
    levels: Vec<AtomicU8>,
}

/// The next free rank of each degree and level.
pub(crate) struct RankCursor<'l> {
    next: Vec<u32>,
    /// Number of levels per degree.
    count: usize,
    levels: Option<&'l NeighbourLevels>,
}

impl NeighbourLevels {
    /// Starts with the lowest level for each vertex, because no neighbours are known yet.
    pub(crate) fn new(degrees: &[u32]) -> Self {
        let most = degrees.iter().copied().max().unwrap_or(0);
        let lowest = || AtomicU8::new(LEVELS as u8 - 1);
        Self {
            bounds: std::array::from_fn(|level| most >> (level + 1)),
            levels: std::iter::repeat_with(lowest).take(degrees.len()).collect(),
        }
    }

    /// Adds a vertex and a neighbour of this degree.
    #[inline(always)]
    pub(crate) fn add(&self, vertex: u32, degree: u32) {
        let own = self.bounds.iter().map(|bound| u8::from(degree <= *bound)).sum();
        let level = &self.levels[vertex as usize];
        // Most neighbours change nothing.
        if level.load(Relaxed) > own {
            level.fetch_min(own, Relaxed);
        }
    }

    fn of(&self, vertex: usize) -> usize {
        usize::from(self.levels[vertex].load(Relaxed))
    }
}

impl DegreeRuns {
    /// Computes the distribution of these degrees. Vertices without neighbours get no rank; those with equal degree are ranked
    /// by level, if there are any.
    pub(crate) fn of<'l>(degrees: &[u32], levels: Option<&'l NeighbourLevels>) -> (Self, RankCursor<'l>) {
        let most = degrees.iter().copied().max().unwrap_or(0) as usize;
        let count = levels.map_or(1, |_| LEVELS);
        let mut cursor = RankCursor { next: vec![0; (most + 1) * count], count, levels };
        degrees.iter().enumerate().for_each(|(vertex, degree)| *cursor.class(vertex, *degree) += 1);
        let (mut steps, mut ranks) = (Vec::new(), 0);
        // Converts counts to first ranks.
        for degree in (1..=most).rev() {
            let before = ranks;
            for class in &mut cursor.next[degree * count..][..count] {
                ranks += std::mem::replace(class, ranks);
            }
            if ranks > before {
                steps.push((degree as u32, ranks));
            }
        }
        (Self(steps), cursor)
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.0.last().map_or(0, |step| step.1)
    }

    pub(crate) fn neighbours(&self) -> u64 {
        let mut from = 0;
        let mut of = |(degree, end): &(u32, u32)| {
            let ranks = end - std::mem::replace(&mut from, *end);
            u64::from(*degree) * u64::from(ranks)
        };
        self.0.iter().map(&mut of).sum()
    }

    /// Returns the number of ranks with more than this many neighbours.
    pub(crate) fn more_than(&self, neighbours: u32) -> u32 {
        self.0[..self.0.partition_point(|step| step.0 > neighbours)].last().map_or(0, |step| step.1)
    }

    /// Returns the number of rows of each of the columns, then of the tail lists.
    pub(crate) fn rows_of(&self, columns: u32) -> Vec<u32> {
        (0..=columns).map(|column| self.more_than(column)).collect()
    }

    pub(crate) fn degree(&self, rank: u32) -> u32 {
        self.0[self.0.partition_point(|step| step.1 <= rank)].0
    }

    pub(crate) fn degrees(&self, ranks: std::ops::Range<u32>) -> impl Iterator<Item = u32> {
        let mut step = self.0.partition_point(|step| step.1 <= ranks.start);
        ranks.map(move |rank| {
            while self.0[step].1 <= rank {
                step += 1;
            }
            self.0[step].0
        })
    }
}

impl RankCursor<'_> {
    #[inline(always)]
    fn class(&mut self, vertex: usize, degree: u32) -> &mut u32 {
        let level = self.levels.map_or(0, |levels| levels.of(vertex));
        &mut self.next[degree as usize * self.count + level]
    }

    /// Returns the rank of the next vertex in order of labels.
    #[inline(always)]
    pub(crate) fn rank(&mut self, vertex: usize, degree: u32) -> u32 {
        if degree == 0 {
            return NO_LABEL;
        }
        let next = self.class(vertex, degree);
        *next += 1;
        *next - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_sorted_by_degree_then_by_label() {
        let degrees = [1, 0, 7, 1, 3, 7, 0, 1];
        let (steps, mut next) = DegreeRuns::of(&degrees, None);
        assert_eq!(steps.0, [(7, 2), (3, 3), (1, 6)]);
        let mut label = 0..;
        let ranks = degrees.map(|degree| next.rank(label.next().unwrap(), degree));
        assert_eq!(ranks, [3, NO_LABEL, 0, 4, 2, 1, NO_LABEL, 5]);
        assert_eq!((steps.ranks(), steps.neighbours()), (6, 20));
        assert_eq!(steps.rows_of(4), [6, 3, 3, 2, 2]);
        assert_eq!([0, 1, 2, 3, 5].map(|rank| steps.degree(rank)), [7, 7, 3, 1, 1]);
        assert!((0..6).all(|from| steps.degrees(from..6).eq((from..6).map(|rank| steps.degree(rank)))));
        let (none, _) = DegreeRuns::of(&[0, 0], None);
        assert_eq!((none.ranks(), none.neighbours(), none.more_than(0)), (0, 0, 0));
    }

    #[test]
    fn ties_are_sorted_by_the_largest_neighbour_then_by_label() {
        let degrees = [2, 40, 2, 0, 2, 20, 11, 2, 1, 2];
        let levels = NeighbourLevels::new(&degrees);
        for (vertex, neighbour) in [(0, 6), (0, 8), (2, 1), (4, 5), (4, 0), (7, 4), (9, 1), (9, 8)] {
            levels.add(vertex, degrees[neighbour]);
        }
        // The bounds are 20, 10 and 5.
        let expected = [1, 3, 0, 3, 1, 3, 3, 3, 3, 0];
        assert_eq!(std::array::from_fn(|vertex| levels.of(vertex)), expected);
        let (steps, mut next) = DegreeRuns::of(&degrees, Some(&levels));
        assert_eq!(steps.0, [(40, 1), (20, 2), (11, 3), (2, 8), (1, 9)]);
        let mut label = 0..;
        let ranks = degrees.map(|degree| next.rank(label.next().unwrap(), degree));
        assert_eq!(ranks, [5, 0, 3, NO_LABEL, 6, 1, 2, 7, 8, 4]);
    }
}
