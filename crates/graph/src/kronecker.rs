//! Generates the Kronecker graphs of the Graph500, bit for bit. Edge e depends only on the seeds and e, so any thread
//! can generate any range in any order.
//!
//! A graph of scale S has 2^S vertices. For each edge, the generator's state skips to (0, e, 0). Each of the S levels
//! takes one draw, which chooses a quadrant with probabilities 0.57, 0.19, 0.19 and 0.05; as long as both ends are
//! equal, the lower left quadrant is replaced by the upper right one. The ends are then scrambled.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays go side by side")]

mod wide;

use crate::error::Error;
use crate::mrg::{JumpMatrix, MODULUS, MrgState, next, reduce};

/// Edges per vertex in the benchmark.
pub const EDGE_FACTOR: u64 = 16;
/// At larger scales the number of edges would soon exceed 63 bits, and no machine has the memory.
pub const SCALE_MAX: u32 = 40;
const EDGE_FACTOR_MAX: u64 = 1 << 16;

/// Edges generated together: two vectors of eight numbers, so that the latencies overlap.
const LANES: usize = 16;
/// Denominator of the probabilities. Draws below the remainder are repeated to avoid bias.
const PARTS: u64 = 10_000;
const REDRAWN: u64 = MODULUS % PARTS;
/// Upper bound (exclusive) of each quadrant's draws, in the order in which the specification tests them.
const UPPER_RIGHT: u64 = 1_900;
const LOWER_LEFT: u64 = 3_800;
const UPPER_LEFT: u64 = 9_500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Log2 of the number of vertices.
    pub scale: u32,
    /// Edges per vertex.
    pub edge_factor: u64,
    /// The two seeds of the Graph500.
    pub seed: (u64, u64),
}

impl Spec {
    /// Returns the benchmark's graph of this scale: edge factor 16, seeds 2 and 3.
    pub fn graph500(scale: u32) -> Self {
        Self { scale, edge_factor: EDGE_FACTOR, seed: (2, 3) }
    }

    /// Checks the ranges of scale and edge factor.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=SCALE_MAX).contains(&self.scale) {
            return Err(Error::Scale { scale: self.scale, max: SCALE_MAX });
        }
        if !(1..=EDGE_FACTOR_MAX).contains(&self.edge_factor) {
            return Err(Error::EdgeFactor { edge_factor: self.edge_factor, max: EDGE_FACTOR_MAX });
        }
        Ok(())
    }

    pub fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// Returns the number of generated edges, multi-edges and self-loops included.
    pub fn edges(&self) -> u64 {
        self.edge_factor << self.scale
    }
}

/// Generates the edges of one graph.
#[derive(Clone, Debug)]
pub struct Generator {
    scale: u32,
    start: MrgState,
    /// Jump from one edge to the next: 2^64 steps.
    edge: JumpMatrix,
    /// Jump from one group of edges to the next.
    group: JumpMatrix,
    scramble: Scramble,
}

/// The constants that scramble vertices: two odd factors and a summand.
#[derive(Clone, Copy, Debug)]
struct Scramble {
    sum: u64,
    factors: [u64; 2],
    /// Right shift of the reversed bits.
    down: u32,
}

/// The states of a group as structure of arrays: `states[i][lane]`.
type StateLanes = [[u64; LANES]; 5];

impl Generator {
    /// Creates a generator for the graph of this spec.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        spec.check()?;
        let start = MrgState::seeded(spec.seed);
        let mut state = start.skipped(50, 7, 0);
        let mut value = || {
            let high = state.draw() * 0xFFFF_FFFF;
            high + state.draw()
        };
        let (one, two) = (value(), value());
        let factors = [one | 0x4519_8402_1149_3211, two | 0x3050_8521_02C8_43A5];
        let scramble = Scramble { sum: one.wrapping_add(two), factors, down: 64 - spec.scale };
        let edge = JumpMatrix::one().squared(64);
        Ok(Self { scale: spec.scale, start, edge, group: edge.times(LANES as u64), scramble })
    }

    /// Writes the edges from `first` on, as pairs of vertices. Skipping to the first edge takes some microseconds, so
    /// request thousands at once.
    pub fn fill(&self, first: u64, edges: &mut [[u64; 2]]) {
        wide::fill(self, first, edges);
    }

    /// Implements [`Generator::fill`]; inlined into functions that are compiled for wider vectors.
    #[inline(always)]
    fn fill_here(&self, first: u64, edges: &mut [[u64; 2]]) {
        let mut group = self.group_at(first);
        for part in edges.chunks_mut(LANES) {
            let (mut from, mut to) = ([0; LANES], [0; LANES]);
            if self.make(&group, &mut from, &mut to) {
                self.make_slowly(&group, &mut from, &mut to);
            }
            for (edge, lane) in part.iter_mut().zip(0..) {
                *edge = [from[lane], to[lane]];
            }
            self.advance(&mut group);
        }
    }

    fn group_at(&self, first: u64) -> StateLanes {
        let mut state = self.edge.times(first).of(self.start);
        let mut group = [[0; LANES]; 5];
        for lane in 0..LANES {
            (0..5).for_each(|number| group[number][lane] = state.0[number]);
            state = self.edge.of(state);
        }
        group
    }

    #[inline(always)]
    fn advance(&self, group: &mut StateLanes) {
        let mut after = [[0; LANES]; 5];
        for (row, numbers) in self.group.0.iter().zip(&mut after) {
            for lane in 0..LANES {
                // Each product is reduced to slightly more than 32 bits, so that the sum of five does not overflow.
                let part = |at: usize| {
                    let product = row[at] * group[at][lane];
                    (product & MODULUS) + (product >> 31)
                };
                numbers[lane] = reduce(part(0) + part(1) + part(2) + part(3) + part(4));
            }
        }
        *group = after;
    }

    /// Generates a group of edges. Returns true if a draw must be repeated, which happens once in half a million draws;
    /// the edges are then invalid.
    #[inline(always)]
    fn make(&self, group: &StateLanes, from: &mut [u64; LANES], to: &mut [u64; LANES]) -> bool {
        // A ring buffer; the newest number is at `newest`, the oldest follows it.
        let mut ring = [group[0], group[4], group[3], group[2], group[1]];
        let mut newest = 0;
        let mut equal = [1; LANES];
        let mut redrawn = [0; LANES];
        for _ in 0..self.scale {
            let oldest = if newest == 4 { 0 } else { newest + 1 };
            for lane in 0..LANES {
                let draw = next(ring[newest][lane], ring[oldest][lane]);
                ring[oldest][lane] = draw;
                redrawn[lane] |= u64::from(draw < REDRAWN);
                let (down, right) = quadrant(remainder(draw), equal[lane]);
                equal[lane] &= 1 ^ down ^ right;
                from[lane] = from[lane] << 1 | down;
                to[lane] = to[lane] << 1 | right;
            }
            newest = oldest;
        }
        for lane in 0..LANES {
            from[lane] = self.scramble.of(from[lane]);
            to[lane] = self.scramble.of(to[lane]);
        }
        redrawn.iter().any(|lane| *lane != 0)
    }

    /// Generates one edge at a time, exactly as specified.
    #[cold]
    fn make_slowly(&self, group: &StateLanes, from: &mut [u64; LANES], to: &mut [u64; LANES]) {
        for lane in 0..LANES {
            let mut state = MrgState(std::array::from_fn(|number| group[number][lane]));
            let (mut source, mut target) = (0, 0);
            for _ in 0..self.scale {
                let mut draw = state.draw();
                while draw < REDRAWN {
                    draw = state.draw();
                }
                let (down, right) = quadrant(draw % PARTS, u64::from(source == target));
                (source, target) = (source << 1 | down, target << 1 | right);
            }
            from[lane] = self.scramble.of(source);
            to[lane] = self.scramble.of(target);
        }
    }
}

/// Returns the next bit of both ends. `equal` is 1 while both ends are equal; the lower left quadrant is then flipped.
#[inline(always)]
fn quadrant(part: u64, equal: u64) -> (u64, u64) {
    let upper_right = u64::from(part < UPPER_RIGHT);
    let lower_left = u64::from(part < LOWER_LEFT) - upper_right;
    let lower_right = u64::from(part >= UPPER_LEFT);
    (lower_right | (lower_left & (equal ^ 1)), lower_right | upper_right | (lower_left & equal))
}

/// Returns a draw modulo 10000 without a division; exact below 2^32.
#[inline(always)]
fn remainder(draw: u64) -> u64 {
    // 2^45 / 10000, rounded up.
    draw - ((draw * 3_518_437_209) >> 45) * PARTS
}

impl Scramble {
    #[inline(always)]
    fn of(self, vertex: u64) -> u64 {
        let once = vertex.wrapping_add(self.sum).wrapping_mul(self.factors[0]).reverse_bits() >> self.down;
        once.wrapping_mul(self.factors[1]).reverse_bits() >> self.down
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// Returns the SHA-256 of the edge list as pairs of little-endian u64.
    fn hash(scale: u32) -> String {
        let spec = Spec::graph500(scale);
        let generator = Generator::new(&spec).unwrap();
        let mut hash = Sha256::new();
        let mut edges = vec![[0; 2]; 1 << 16];
        for first in (0..spec.edges()).step_by(edges.len()) {
            let count = (spec.edges() - first).min(edges.len() as u64) as usize;
            generator.fill(first, &mut edges[..count]);
            edges[..count].iter().flatten().for_each(|end| hash.update(end.to_le_bytes()));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn edge_lists_are_those_of_the_reference() {
        let golden = [
            (4, "ff756676dda6000f7c82b773d83c7dea9cc6080b84aff952348b2ddda3cf991d"),
            (8, "7231d749e78d4f267fa0c688b8f703e021f80c074575ee2bbcf613c08dbf9edb"),
            (10, "959f7be6382c69afe8fbc4f78b0d1d86569a38ab429e02d9c26b968ede6255ec"),
            (14, "3625670bedd5a56dce03247f8198dbf33105e186ae0c0f605d4353f55eacfa3c"),
            (16, "60fdcae512298fef2cc2206e5c0816e769ad50378576cdfb2b1ec0df63acffe7"),
            (20, "ad04c9e3b7c5d92bc70e9d55f0e1d2801f5f099c92f38fe6225079863c39e2d0"),
        ];
        for (scale, expected) in golden {
            assert_eq!(hash(scale), expected, "scale {scale}");
        }
    }

    #[test]
    fn any_range_equals_that_of_the_whole_list() {
        let spec = Spec { scale: 12, edge_factor: 3, seed: (7, u64::MAX) };
        let generator = Generator::new(&spec).unwrap();
        let mut whole = vec![[0; 2]; spec.edges() as usize];
        generator.fill(0, &mut whole);
        for (first, count) in [(0, 1), (1, 17), (4095, 100), (12_287, 1), (5, 0)] {
            let mut part = vec![[0; 2]; count];
            generator.fill(first as u64, &mut part);
            assert_eq!(part, whole[first..first + count]);
        }
        assert!(whole.iter().flatten().all(|vertex| *vertex < spec.vertices()));
    }

    #[test]
    fn groups_with_repeated_draws_equal_the_scalar_result() {
        let generator = Generator::new(&Spec::graph500(30)).unwrap();
        let mut group = generator.group_at(0);
        let mut redrawn = 0;
        for _ in 0..20_000 {
            let (mut fast, mut slow) = ([[0; LANES]; 2], [[0; LANES]; 2]);
            let [from, to] = &mut fast;
            let again = generator.make(&group, from, to);
            let [from, to] = &mut slow;
            generator.make_slowly(&group, from, to);
            assert_eq!(again, fast != slow);
            redrawn += u32::from(again);
            generator.advance(&mut group);
        }
        // 9.6 million draws, of which one in 590 000 is repeated.
        assert!((4..60).contains(&redrawn), "{redrawn}");
    }

    #[test]
    fn remainders_are_exact() {
        for draw in (0..MODULUS).step_by(7919).chain([MODULUS - 1, 9_999, 10_000, 10_001, 2_147_480_000, 2_147_479_999])
        {
            assert_eq!(remainder(draw), draw % PARTS, "{draw}");
        }
    }

    #[test]
    fn specs_out_of_range_return_errors() {
        let words = |spec: Spec| Generator::new(&spec).unwrap_err().to_string();
        assert!(words(Spec::graph500(0)).contains("scale 0"));
        assert!(words(Spec::graph500(41)).contains("scale 41"));
        assert!(words(Spec { edge_factor: 0, ..Spec::graph500(4) }).contains("edge factor 0"));
    }
}
