//! The Graph500's Kronecker graphs, bit for bit: edge e of a graph depends on the seeds and e alone, so any thread can
//! make any part in any order.
//!
//! A graph of scale S has 2^S vertices. For each edge the generator's state is skipped to (0, e, 0); each of the S levels takes
//! one draw, which chooses a quadrant with probabilities 0.57, 0.19, 0.19 and 0.05; while both ends are alike so far the
//! lower left one becomes the upper right; the ends are then scrambled.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays go side by side")]

mod wide;

use crate::error::Error;
use crate::mrg::{JumpMatrix, MODULUS, MrgState, next, reduce};

/// Edges per vertex of the benchmark.
pub const EDGE_FACTOR: u64 = 16;
/// Above it a count of edges would leave 63 bits at once, and no machine has the room.
pub const SCALE_MAX: u32 = 40;
const EDGE_FACTOR_MAX: u64 = 1 << 16;

/// Edges that are made at once: two vectors of eight numbers, so that one's latency hides behind the other's.
const LANES: usize = 16;
/// Probabilities are multiples of 1/10000. Draws below the remainder are drawn again, so that none is favoured.
const PARTS: u64 = 10_000;
const REDRAWN: u64 = MODULUS % PARTS;
/// One more than the last value of the quadrants in the order in which the definition asks for them.
const UPPER_RIGHT: u64 = 1_900;
const LOWER_LEFT: u64 = 3_800;
const UPPER_LEFT: u64 = 9_500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// 2^scale vertices.
    pub scale: u32,
    /// Edges per vertex.
    pub edge_factor: u64,
    /// The Graph500's two seeds.
    pub seed: (u64, u64),
}

impl Spec {
    /// The benchmark's graph of this scale: edge factor 16, seeds 2 and 3.
    pub fn graph500(scale: u32) -> Self {
        Self { scale, edge_factor: EDGE_FACTOR, seed: (2, 3) }
    }

    /// What is wrong with it.
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

    /// Edges as generated, with multi-edges and self-loops.
    pub fn edges(&self) -> u64 {
        self.edge_factor << self.scale
    }
}

/// Makes edges of one graph.
#[derive(Clone, Debug)]
pub struct Generator {
    scale: u32,
    start: MrgState,
    /// From one edge to the next: 2^64 steps.
    edge: JumpMatrix,
    /// From one group of edges to the next.
    group: JumpMatrix,
    scramble: Scramble,
}

/// Two odd factors and a sum.
#[derive(Clone, Copy, Debug)]
struct Scramble {
    sum: u64,
    factors: [u64; 2],
    /// How far reversed bits are moved down.
    down: u32,
}

/// The states of a group, number by number: `states[i][lane]`.
type StateLanes = [[u64; LANES]; 5];

impl Generator {
    /// For the graph of this spec.
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

    /// Writes the edges from `first` on, as pairs of vertices. The way to the first edge takes some microseconds, so ask for
    /// thousands at once.
    pub fn fill(&self, first: u64, edges: &mut [[u64; 2]]) {
        wide::fill(self, first, edges);
    }

    /// As [`Generator::fill`]; inlined where it is compiled for wider vectors.
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
                // Each product is folded to 32 bits and a few, so that five of them fit.
                let part = |at: usize| {
                    let product = row[at] * group[at][lane];
                    (product & MODULUS) + (product >> 31)
                };
                numbers[lane] = reduce(part(0) + part(1) + part(2) + part(3) + part(4));
            }
        }
        *group = after;
    }

    /// Makes a group of edges; true when a draw must be drawn again, which one in half a million must: the edges are wrong
    /// then.
    #[inline(always)]
    fn make(&self, group: &StateLanes, from: &mut [u64; LANES], to: &mut [u64; LANES]) -> bool {
        // A ring, the newest number at `newest` and the oldest after it.
        let mut ring = [group[0], group[4], group[3], group[2], group[1]];
        let mut newest = 0;
        let mut alike = [1; LANES];
        let mut redrawn = [0; LANES];
        for _ in 0..self.scale {
            let oldest = if newest == 4 { 0 } else { newest + 1 };
            for lane in 0..LANES {
                let draw = next(ring[newest][lane], ring[oldest][lane]);
                ring[oldest][lane] = draw;
                redrawn[lane] |= u64::from(draw < REDRAWN);
                let (down, right) = quadrant(remainder(draw), alike[lane]);
                alike[lane] &= 1 ^ down ^ right;
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

    /// As the definition says it, edge by edge.
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

/// The next bit of both ends. `alike` is 1 while both ends are: then the lower left quadrant is flipped.
#[inline(always)]
fn quadrant(part: u64, alike: u64) -> (u64, u64) {
    let upper_right = u64::from(part < UPPER_RIGHT);
    let lower_left = u64::from(part < LOWER_LEFT) - upper_right;
    let lower_right = u64::from(part >= UPPER_LEFT);
    (lower_right | (lower_left & (alike ^ 1)), lower_right | upper_right | (lower_left & alike))
}

/// A draw modulo 10000, without a division: exact below 2^32.
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

    /// SHA-256 of the edge list as pairs of little-endian u64.
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
    fn any_part_is_that_of_the_whole() {
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
    fn groups_with_a_draw_to_be_redrawn_are_made_slowly_and_others_alike() {
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
        // 9.6 million draws of which one in 590 000 is redrawn.
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
    fn impossible_graphs_are_refused() {
        let words = |spec: Spec| Generator::new(&spec).unwrap_err().to_string();
        assert!(words(Spec::graph500(0)).contains("scale 0"));
        assert!(words(Spec::graph500(41)).contains("scale 41"));
        assert!(words(Spec { edge_factor: 0, ..Spec::graph500(4) }).contains("edge factor 0"));
    }
}
