//! Places of which few are asked for often: rank k with a probability in proportion to 1 / k^theta.
//! Drawn by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996): exact for every theta, and needs no table however many places there are.

use crate::random::Random;

/// A distribution over places from 0.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    theta: f64,
    places: usize,
    /// The integral from the first rank's left border to the last rank's right one.
    lowest: f64,
    highest: f64,
    /// What is this close to a rank's middle is taken without a further look.
    sure: f64,
    /// How ranks are spread over the places, so that those asked for often are no neighbours.
    step: usize,
    first: usize,
}

impl Zipf {
    /// Over so many places; the seed decides which are asked for often.
    pub(super) fn new(theta: f64, places: usize, seed: u64) -> Self {
        let mut zipf = Self { theta, places, lowest: 0.0, highest: 0.0, sure: 0.0, step: 1, first: 0 };
        zipf.lowest = zipf.integral(1.5) - 1.0;
        zipf.highest = zipf.integral(places as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        // The golden section keeps successive ranks far from each other; without a common divisor every place has a rank.
        zipf.step = (places as f64 * 0.618_033_988_75) as usize | 1;
        while divisor(zipf.step, places) != 1 {
            zipf.step += 1;
        }
        zipf.first = Random::of_thread(seed, usize::MAX).below(places);
        zipf
    }

    /// A place, from 0.
    pub(super) fn next(&self, random: &mut Random) -> usize {
        let rank = self.rank(random) - 1;
        let place = rank as u128 * self.step as u128 + self.first as u128;
        (place % self.places as u128) as usize
    }

    /// A rank, from 1.
    fn rank(&self, random: &mut Random) -> usize {
        loop {
            // 53 bits from 0 to below 1.
            let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
            let area = self.highest + uniform * (self.lowest - self.highest);
            let at = self.inverse(area);
            let rank = (at + 0.5).floor().clamp(1.0, self.places as f64);
            if rank - at <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as usize;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of the density from 1 to x: (x^(1-theta) - 1) / (1-theta), which goes over into ln x at theta 1.
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
    fn ranks_come_as_often_as_the_law_says() {
        const DRAWN: usize = 200_000;
        for (theta, places) in [(0.5, 1000), (0.99, 1000), (1.0, 100), (1.2, 100_000), (2.0, 10)] {
            let zipf = Zipf::new(theta, places, 1);
            let mut random = Random::of_thread(3, 0);
            let mut counts = vec![0u32; places + 1];
            (0..DRAWN).for_each(|_| counts[zipf.rank(&mut random)] += 1);
            let weight = |rank: usize| (rank as f64).powf(-theta);
            let all: f64 = (1..=places).map(weight).sum();
            for rank in [1, 2, 3, 7, 10] {
                let expected = DRAWN as f64 * weight(rank) / all;
                // Five standard deviations of a count.
                let off = (f64::from(counts[rank]) - expected).abs();
                assert!(off <= 5.0 * expected.sqrt(), "{theta} {places} rank {rank}: {} {expected}", counts[rank]);
            }
            assert_eq!(counts[0], 0);
        }
    }

    #[test]
    fn every_place_has_one_rank() {
        for places in [1, 2, 3, 10, 4096, 5040] {
            let zipf = Zipf::new(1.1, places, 9);
            let mut seen = vec![false; places];
            for rank in 0..places {
                let place = (rank * zipf.step + zipf.first) % places;
                assert!(!std::mem::replace(&mut seen[place], true), "{places}: {place} twice");
            }
            let mut random = Random::of_thread(1, 1);
            assert!((0..100).all(|_| zipf.next(&mut random) < places));
        }
    }
}
