//! Random variates from a seed: the same on every machine. Must not depend on what they are used for.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::values::plan::stream;

/// A stream of random variates for one purpose.
#[derive(Clone, Debug)]
pub struct Random {
    source: ChaCha8Rng,
    /// The second variate of the last pair.
    spare: Option<f64>,
}

impl Random {
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self { source: ChaCha8Rng::seed_from_u64(stream(seed, purpose)), spare: None }
    }

    /// Returns a uniform variate on (0, 1).
    pub fn unit(&mut self) -> f64 {
        (f64::from(self.source.next_u32()) + 0.5) / 4_294_967_296.0
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns a variate whose logarithm is uniform.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub fn below(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }

    /// Returns a standard normal variate (Box and Muller, Annals of Mathematical Statistics 29, 1958).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.unit()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }

    /// Returns a variate of the gamma distribution with scale 1 (Marsaglia and Tsang, ACM TOMS 26, 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.gamma(shape + 1.0) * self.unit().powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let normal = self.normal();
            let cubed = (1.0 + c * normal).powi(3);
            if cubed > 0.0 && self.unit().ln() < 0.5 * normal * normal + d - d * cubed + d * cubed.ln() {
                return d * cubed;
            }
        }
    }

    /// Returns shares that add up to 1 (Dirichlet distribution).
    pub fn shares<const N: usize>(&mut self, shapes: [f64; N]) -> [f64; N] {
        let parts = shapes.map(|shape| self.gamma(shape));
        let total: f64 = parts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        parts.map(|part| part / total)
    }

    /// Returns an index by relative weights, whose sum is above 0.
    pub fn index(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        chosen.unwrap_or(weights.len().saturating_sub(1))
    }

    pub fn normals(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let values: Vec<f64> = (0..20_000).map(|_| draw()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
    }

    #[test]
    fn variates_have_the_moments_of_their_distribution() {
        let mut random = Random::new(7, "moments");
        for (name, (mean, variance), expected) in [
            ("uniform", moments(|| random.uniform(1.0, 3.0)), (2.0, 1.0 / 3.0)),
            ("normal", moments(|| random.normal()), (0.0, 1.0)),
            ("gamma 0.7", moments(|| random.gamma(0.7)), (0.7, 0.7)),
            ("gamma 3", moments(|| random.gamma(3.0)), (3.0, 3.0)),
        ] {
            assert!((mean - expected.0).abs() < 0.06, "{name}: {mean}");
            assert!((variance - expected.1).abs() < 0.15, "{name}: {variance}");
        }
    }

    #[test]
    fn shares_add_up_and_indices_follow_their_weights() {
        let mut random = Random::new(7, "shares");
        let shares = random.shares([0.6, 0.3, 0.3]);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{shares:?}");
        let mut counts = [0; 3];
        (0..4000).for_each(|_| counts[random.index(&[1.0, 0.0, 3.0])] += 1);
        assert!(counts[1] == 0 && (counts[0] - 1000i32).abs() < 120, "{counts:?}");
    }

    #[test]
    fn purposes_have_different_streams() {
        let of = |seed, purpose| Random::new(seed, purpose).unit();
        assert!((of(1, "a") - of(1, "a")).abs() < f64::MIN_POSITIVE);
        assert!((of(1, "a") - of(1, "b")).abs() > 0.0 && (of(1, "a") - of(2, "a")).abs() > 0.0);
    }
}
