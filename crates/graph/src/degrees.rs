//! Degree distribution of the vertices, from which ranks, columns and buckets are derived.

use crate::layout::NO_LABEL;

/// For each degree that occurs, in descending order: the degree and the end of its range of ranks.
pub(crate) struct DegreeRuns(pub(crate) Vec<(u32, u32)>);

/// The next free rank of each degree.
pub(crate) struct RankCursor(Vec<u32>);

impl DegreeRuns {
    /// Computes the distribution of these degrees. Vertices without neighbours get no rank.
    pub(crate) fn of(degrees: &[u32]) -> (Self, RankCursor) {
        let most = degrees.iter().copied().max().unwrap_or(0) as usize;
        let mut of_degree = vec![0_u32; most + 1];
        degrees.iter().for_each(|degree| of_degree[*degree as usize] += 1);
        let (mut steps, mut ranks) = (Vec::new(), 0);
        // Converts counts to first ranks.
        for degree in (1..=most).rev() {
            let count = std::mem::replace(&mut of_degree[degree], ranks);
            if count > 0 {
                ranks += count;
                steps.push((degree as u32, ranks));
            }
        }
        (Self(steps), RankCursor(of_degree))
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

impl RankCursor {
    /// Returns the rank of the next vertex, in label order, with this degree.
    #[inline(always)]
    pub(crate) fn rank(&mut self, degree: u32) -> u32 {
        if degree == 0 {
            return NO_LABEL;
        }
        let next = &mut self.0[degree as usize];
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
        let (steps, mut next) = DegreeRuns::of(&degrees);
        assert_eq!(steps.0, [(7, 2), (3, 3), (1, 6)]);
        let ranks = degrees.map(|degree| next.rank(degree));
        assert_eq!(ranks, [3, NO_LABEL, 0, 4, 2, 1, NO_LABEL, 5]);
        assert_eq!((steps.ranks(), steps.neighbours()), (6, 20));
        assert_eq!(steps.rows_of(4), [6, 3, 3, 2, 2]);
        assert_eq!([0, 1, 2, 3, 5].map(|rank| steps.degree(rank)), [7, 7, 3, 1, 1]);
        assert!((0..6).all(|from| steps.degrees(from..6).eq((from..6).map(|rank| steps.degree(rank)))));
        let (none, _) = DegreeRuns::of(&[0, 0]);
        assert_eq!((none.ranks(), none.neighbours(), none.more_than(0)), (0, 0, 0));
    }
}
