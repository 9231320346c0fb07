//! Zipf distribution: rank k has a probability proportional to 1 / k^theta. Drawn by rejection-inversion (Hörmann and
//! Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996),
//! which is exact for every theta and needs no table.

use crate::random::Random;

/// A distribution over block indices from 0.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    theta: f64,
    blocks: usize,
    /// Integrals of the density up to the left end of the first rank and up to the right end of the last one.
    lowest: f64,
    highest: f64,
    /// Values this close to the middle of a rank are accepted without a further test.
    sure: f64,
    /// Spreads the ranks over the blocks, so that frequent ones are not adjacent.
    step: usize,
    first: usize,
}

impl Zipf {
    /// Creates a distribution over this many blocks; the seed decides which of them are frequent.
    pub(super) fn new(theta: f64, blocks: usize, seed: u64) -> Self {
        let mut zipf = Self { theta, blocks, lowest: 0.0, highest: 0.0, sure: 0.0, step: 1, first: 0 };
        zipf.lowest = zipf.integral(1.5) - 1.0;
        zipf.highest = zipf.integral(blocks as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        // A step of the golden ratio keeps successive ranks far apart; without a common divisor every block has exactly
        // one rank.
        zipf.step = (blocks as f64 * 0.618_033_988_75) as usize | 1;
        while divisor(zipf.step, blocks) != 1 {
            zipf.step += 1;
        }
        zipf.first = Random::of_thread(seed, usize::MAX).below(blocks);
        zipf
    }

    /// Draws a block index, from 0.
    pub(super) fn next(&self, random: &mut Random) -> usize {
        let rank = self.rank(random) - 1;
        let block = rank as u128 * self.step as u128 + self.first as u128;
        (block % self.blocks as u128) as usize
    }

    /// Draws a rank, from 1.
    fn rank(&self, random: &mut Random) -> usize {
        loop {
            // 53 bits from 0 to below 1.
            let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
            let area = self.highest + uniform * (self.lowest - self.highest);
            let at = self.inverse(area);
            let rank = (at + 0.5).floor().clamp(1.0, self.blocks as f64);
            if rank - at <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as usize;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of the density from 1 to x: (x^(1-theta) - 1) / (1-theta), or ln x for theta 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        if power.abs() < 1e-8 { log } else { power.exp_m1() / power * log }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.theta)).max(-1.0);
        if power.abs() < 1e-8 { area.exp() } else { (power.ln_1p() / power * area).exp() }
    }
}

fn divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_zipf_law() {
        const DRAWN: usize = 200_000;
        for (theta, blocks) in [(0.5, 1000), (0.99, 1000), (1.0, 100), (1.2, 100_000), (2.0, 10)] {
            let zipf = Zipf::new(theta, blocks, 1);
            let mut random = Random::of_thread(3, 0);
            let mut counts = vec![0u32; blocks + 1];
            (0..DRAWN).for_each(|_| counts[zipf.rank(&mut random)] += 1);
            let weight = |rank: usize| (rank as f64).powf(-theta);
            let all: f64 = (1..=blocks).map(weight).sum();
            for rank in [1, 2, 3, 7, 10] {
                let expected = DRAWN as f64 * weight(rank) / all;
                // Five standard deviations of a count.
                let off = (f64::from(counts[rank]) - expected).abs();
                assert!(off <= 5.0 * expected.sqrt(), "{theta} {blocks} rank {rank}: {} {expected}", counts[rank]);
            }
            assert_eq!(counts[0], 0);
        }
    }

    #[test]
    fn every_block_has_one_rank() {
        for blocks in [1, 2, 3, 10, 4096, 5040] {
            let zipf = Zipf::new(1.1, blocks, 9);
            let mut seen = vec![false; blocks];
            for rank in 0..blocks {
                let block = (rank * zipf.step + zipf.first) % blocks;
                assert!(!std::mem::replace(&mut seen[block], true), "{blocks}: {block} twice");
            }
            let mut random = Random::of_thread(1, 1);
            assert!((0..100).all(|_| zipf.next(&mut random) < blocks));
        }
    }
}
