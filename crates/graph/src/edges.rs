//! The edges of a graph as generated: a list in memory, a share of one, or batches generated on demand. Input of
//! construction and validation.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arrays::{Array, ArrayPlacement};
use crate::error::Error;
use crate::kronecker::{Generator, Spec};
use crate::team::{Team, TeamWorker};

/// Edges that a thread generates per batch: enough to amortise the skip to the first one, few enough to fit into a
/// cache.
pub(crate) const BATCH: usize = 1 << 12;
/// Vertices and ranks are 32 bits wide, and the largest value is reserved for `NONE`.
pub(crate) const SCALE_MAX_IN_CORE: u32 = 31;

/// Edges of a graph in a fixed order, any range of which can be read repeatedly.
pub trait Edges: Sync {
    /// Fills in the edges from `first` on.
    ///
    /// # Errors
    /// The reason why the edges cannot be read.
    fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String>;
}

impl Edges for Generator {
    fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String> {
        Self::fill(self, first, edges);
        Ok(())
    }
}

/// For tests, which compare both sources of edges.
#[cfg(test)]
impl Edges for Tuples {
    fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String> {
        let pairs = &self.pairs[first as usize..][..edges.len()];
        edges.iter_mut().zip(pairs).for_each(|(edge, pair)| {
            let (a, b) = ends(*pair);
            *edge = [a.into(), b.into()];
        });
        Ok(())
    }
}

/// The edges in the generator's order, multi-edges and self-loops included.
pub struct Tuples {
    spec: Spec,
    /// Both ends in one number, the first in the lower half.
    pairs: Array<u64>,
}

impl Tuples {
    /// Generates the edges with all threads, each a contiguous range.
    pub fn generate<C: Team>(team: &C, spec: &Spec, placement: &ArrayPlacement) -> Result<Self, C::Error> {
        Self::generate_share(team, spec, 0..spec.edges(), placement)
    }

    /// Generates a range of the edges.
    pub(crate) fn generate_share<C: Team>(
        team: &C,
        spec: &Spec,
        share: Range<u64>,
        placement: &ArrayPlacement,
    ) -> Result<Self, C::Error> {
        let generator = Generator::new(spec)?;
        if spec.scale > SCALE_MAX_IN_CORE {
            return Err(Error::Scale { scale: spec.scale, max: SCALE_MAX_IN_CORE }.into());
        }
        let mut pairs: Array<u64> =
            placement.for_temporaries().array((share.end - share.start) as usize).map_err(Error::Memory)?;
        let slots: &[AtomicU64] = pairs.as_mut();
        team.run(&|worker| {
            let mut edges = vec![[0; 2]; BATCH];
            let own = worker.share(slots.len());
            for first in own.clone().step_by(BATCH) {
                let part = &slots[first..own.end.min(first + BATCH)];
                generator.fill(share.start + first as u64, &mut edges[..part.len()]);
                part.iter().zip(&edges).for_each(|(slot, [a, b])| slot.store(a | b << 32, Ordering::Relaxed));
            }
            Ok(())
        })?;
        Ok(Self { spec: *spec, pairs })
    }

    /// The given edges, for tests; the graph has 2^scale vertices. The edge factor of the spec is the ratio of edges to
    /// vertices, at least 1.
    #[cfg(test)]
    pub(crate) fn of(scale: u32, edges: &[(u32, u32)]) -> Self {
        let mut pairs: Array<u64> = ArrayPlacement::kernel_default().array(edges.len()).unwrap();
        pairs.iter_mut().zip(edges).for_each(|(pair, (a, b))| *pair = u64::from(*a) | u64::from(*b) << 32);
        let edge_factor = (edges.len() as u64 >> scale).max(1);
        Self { spec: Spec { scale, edge_factor, seed: (2, 3) }, pairs }
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn count(&self) -> u64 {
        self.pairs.len() as u64
    }

    /// Returns all edges, as pairs of vertices.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        self.pairs.iter().copied().map(ends)
    }

    /// Returns a thread's share of the edges, as pairs of vertices.
    pub(crate) fn part(&self, worker: &TeamWorker<'_>) -> impl Iterator<Item = (u32, u32)> + Clone {
        self.pairs[worker.share(self.pairs.len())].iter().copied().map(ends)
    }
}

fn ends(pair: u64) -> (u32, u32) {
    (pair as u32, (pair >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::PlainTeam;

    #[test]
    fn edges_do_not_depend_on_the_number_of_threads() {
        let spec = Spec { scale: 13, edge_factor: 5, seed: (2, 3) };
        let one = Tuples::generate(&PlainTeam(1), &spec, &ArrayPlacement::kernel_default()).unwrap();
        let mut edges = vec![[0; 2]; spec.edges() as usize];
        Generator::new(&spec).unwrap().fill(0, &mut edges);
        assert!(one.pairs.iter().zip(&edges).all(|(pair, [a, b])| *pair == a | b << 32));
        for threads in [2, 3, 7] {
            let many = Tuples::generate(&PlainTeam(threads), &spec, &ArrayPlacement::kernel_default()).unwrap();
            assert!(one.pairs[..] == many.pairs[..], "{threads}");
            let border = |part: u64| spec.edges() * part / 3;
            for part in 0..3 {
                let share = border(part)..border(part + 1);
                let expected = &one.pairs[share.start as usize..share.end as usize];
                let made = Tuples::generate_share(&PlainTeam(threads), &spec, share, &ArrayPlacement::kernel_default())
                    .unwrap();
                assert!(made.pairs[..] == *expected, "{threads} {part}");
            }
        }
    }
}
