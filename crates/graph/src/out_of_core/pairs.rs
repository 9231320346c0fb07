//! The first half of construction: distributes each edge to a bucket, and counts the neighbours of each vertex from the
//! buckets.
//!
//! An edge is one number, with the lower vertex in the upper half. Multiplied by an odd number, its upper bits are
//! nearly random and select the bucket. Buckets are therefore of similar size for any graph, and duplicates of an edge
//! are in the same bucket.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::blocks::{BlockFormat, Blocks, BucketIndex, ReadBuffers, entry_bytes};
use super::checkpoint::BuildPhase;
use super::{Effort, Failures, Work};
use crate::arrays::Array;
use crate::error::Error;
use crate::storage::PartKind;
use crate::team::Team;

/// A bijection that spreads pairs of vertices evenly.
#[derive(Clone, Copy)]
struct MixedPairs {
    scale: u32,
    /// Number of bits that select the bucket.
    bits: u32,
    factor: u64,
    inverse: u64,
}

impl MixedPairs {
    fn new(scale: u32, bits: u32) -> Self {
        // The fraction of the golden ratio, whose multiples are spread evenly.
        let factor = 0x9E37_79B9_7F4A_7C15_u64 >> (64 - 2 * scale) | 1;
        // Newton's iteration: each step doubles the number of correct low bits, of which there are three at first.
        let inverse = (0..5)
            .fold(factor, |inverse: u64, _| inverse.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(inverse))));
        Self { scale, bits, factor, inverse }
    }

    fn mask(self) -> u64 {
        (1 << (2 * self.scale)) - 1
    }

    fn entry_bits(self) -> u32 {
        2 * self.scale - self.bits
    }

    /// Returns the bucket and the remaining bits of the number.
    #[inline]
    fn of(self, a: u32, b: u32) -> (usize, u64) {
        let pair = u64::from(a.min(b)) << self.scale | u64::from(a.max(b));
        let spread = pair.wrapping_mul(self.factor) & self.mask();
        ((spread >> self.entry_bits()) as usize, spread & ((1 << self.entry_bits()) - 1))
    }

    /// Returns both vertices in one number, the lower one in the upper half.
    #[inline]
    fn pair(self, bucket: usize, entry: u64) -> u64 {
        let spread = (bucket as u64) << self.entry_bits() | entry;
        spread.wrapping_mul(self.inverse) & self.mask()
    }
}

impl<C: Team> Work<'_, C> {
    /// Counts neighbours, or resumes counting.
    pub(super) fn pairs(&mut self, degrees: &mut Array<u32>) -> Result<(), C::Error> {
        let (edges, split) = (self.spec.edges(), self.note.split);
        let spread = MixedPairs::new(self.spec.scale, split.bits);
        let form = BlockFormat {
            part: PartKind::Pairs,
            stamp: self.note.stamp(),
            block: split.block(split.buckets()),
            buckets: split.buckets(),
            bits: spread.entry_bits(),
        };
        let dealt = match self.note.step {
            BuildPhase::Deal => {
                self.meter.add(Effort::Deal, self.note.done);
                let blocks = self.deal(form, (1, Effort::Deal), |dealer, a, b| {
                    let (bucket, entry) = spread.of(a, b);
                    dealer.put(bucket, entry)
                })?;
                self.note.next(BuildPhase::Count);
                self.save_note()?;
                blocks
            }
            BuildPhase::Count => {
                self.meter.add(Effort::Deal, edges);
                Blocks::open(form, self.storage, self.note.blocks, &self.buffers)?
            }
            _ => {
                self.meter.add(Effort::Deal, edges);
                self.meter.add(Effort::Count, edges);
                return Ok(());
            }
        };
        self.count(&dealt.sorted(), spread, degrees)?;
        self.note.next(BuildPhase::DealRanked);
        self.note.blocks = 0;
        self.save_note()?;
        self.storage.discard(PartKind::Pairs).map_err(Error::Storage)?;
        Ok(())
    }

    fn count(&mut self, pairs: &BucketIndex<'_>, spread: MixedPairs, degrees: &mut Array<u32>) -> Result<(), C::Error> {
        let buckets = pairs.form.buckets as u64;
        let edges = self.spec.edges() / buckets;
        self.meter.add(Effort::Count, self.note.done * edges);
        // A checkpoint writes all degrees, which should be little compared with the data read in between.
        let bytes = edges * u64::from(entry_bytes(pairs.form.bits));
        let together = self.buckets_per_checkpoint(bytes).max(64 * self.spec.vertices() / bytes.max(1));
        while self.note.done < buckets {
            let range = self.note.done..buckets.min(self.note.done + together);
            let (pieces, failures) = (super::split::pieces(&range, 1), Failures::default());
            let (buffers, meter, entries) = (&self.buffers, &self.meter, self.note.split.entries());
            let counts: &[AtomicU32] = degrees.as_mut();
            self.team.run(&|_| {
                failures.keep((|| {
                    let mut held = ReadBuffers::new(entries, &pairs.form, buffers)?;
                    while let Some(piece) = pieces.take().filter(|_| failures.none()) {
                        let bucket = range.start as usize + piece.start;
                        let count = pairs.read(bucket, &mut held, |entry| spread.pair(bucket, entry))?;
                        add(&held.entries[..count], spread.scale, counts);
                        meter.add(Effort::Count, edges);
                    }
                    Ok(())
                })());
                Ok(())
            })?;
            failures.first()?;
            self.note.done = range.end;
            self.save(degrees)?;
            self.save_note()?;
        }
        Ok(())
    }
}

/// Adds a neighbour to both ends of each pair; pairs are in ascending order.
fn add(pairs: &[u64], scale: u32, degrees: &[AtomicU32]) {
    for same_vertex in pairs.chunk_by(|one, other| one >> scale == other >> scale) {
        degrees[(same_vertex[0] >> scale) as usize].fetch_add(same_vertex.len() as u32, Relaxed);
        for pair in same_vertex {
            degrees[(pair & ((1 << scale) - 1)) as usize].fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_round_trip_and_buckets_are_balanced() {
        for (scale, bits) in [(1, 0), (4, 2), (12, 5), (20, 8), (31, 11)] {
            let spread = MixedPairs::new(scale, bits);
            let last = (1_u64 << scale) - 1;
            for (a, b) in [(0, last), (last, 0), (last / 2, last), (1, 0)] {
                let (bucket, entry) = spread.of(a as u32, b as u32);
                assert!(bucket < 1 << bits);
                assert_eq!(spread.pair(bucket, entry), a.min(b) << scale | a.max(b), "{scale} {a} {b}");
            }
        }
        // A star, a path and a grid, distributed to 64 buckets.
        let spread = MixedPairs::new(16, 6);
        let graphs: [fn(u32) -> (u32, u32); 3] =
            [|vertex| (0, vertex + 1), |vertex| (vertex, vertex + 1), |vertex| (vertex & !15, vertex)];
        for (index, graph) in graphs.iter().enumerate() {
            let mut counts = [0_u32; 64];
            (0..60_000).for_each(|vertex| counts[spread.of(graph(vertex).0, graph(vertex).1).0] += 1);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*least > 700 && *most < 1200, "graph {index}: {least} to {most}");
        }
    }
}
