//! A test of paired differences that may be evaluated after every pair, and the confidence sequence that inverts it.
//!
//! The order within each pair is random, so if the true shift is zero, the sign of a difference is a fair coin whatever
//! its magnitude, also under drift, autocorrelation, outliers and unequal variances. A gambler who bets on the next sign
//! then cannot become rich: the probability that the wealth ever exceeds 1/α times the stake is at most α (Ville,
//! Étude critique de la notion de collectif, 1939; Ramdas et al., Statistical Science 38, 2023). The stake depends on
//! the magnitudes of the differences up to the current one, and never on its sign. Several gamblers who expect effects
//! of different sizes share the money.

use super::Interval;

/// Effects that the gamblers expect, in standard deviations of a difference. The smallest is detected after about a
/// thousand pairs; the largest bets almost everything.
const EFFECTS: [f64; 5] = [0.15, 0.3, 0.6, 1.2, 2.4];

/// Magnitude, in standard deviations, above which a difference is rather an outlier than information: the stake then
/// falls with the inverse of the magnitude, so that one outlier ruins no gambler.
const OUTLIER: f64 = 2.0;

/// Ratio of the standard deviation to the median magnitude of normal values.
const NORMAL_SCALE: f64 = 1.4826;

/// The side on which the true shift is claimed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Above,
    Below,
}

/// A confidence sequence: with the confidence `1 - 2 * error_rate`, the true shift was between the bounds after every
/// pair. A bound is `None` while the pairs exclude no value on its side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SequentialBounds {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl SequentialBounds {
    /// Returns the interval if both bounds are known.
    pub fn interval(self) -> Option<Interval> {
        Interval::between(self.low?, self.high?)
    }
}

/// Whether the differences prove at some pair that the true shift is on this side of `shift`: if it is not, the
/// probability of a proof after any number of pairs is at most `error_rate`. Differences must be finite and in the order
/// of measurement.
pub fn is_proven(differences: &[f64], shift: f64, side: Side, error_rate: f64) -> bool {
    let limit = -error_rate.ln();
    let mut magnitudes = Magnitudes::default();
    let mut log_wealth = [0.0_f64; EFFECTS.len()];
    differences.iter().any(|difference| {
        let claimed = match side {
            Side::Above => difference - shift,
            Side::Below => shift - difference,
        };
        let stake = magnitudes.push(claimed.abs()) * claimed.signum();
        for (wealth, effect) in log_wealth.iter_mut().zip(EFFECTS) {
            *wealth += (effect * stake).tanh().ln_1p();
        }
        log_mean(&log_wealth) >= limit
    })
}

/// Returns the shifts that the differences do not disprove, at the error rate on each side.
pub fn sequential_bounds(differences: &[f64], error_rate: f64) -> SequentialBounds {
    let (Some(least), Some(most)) = (extreme(differences, f64::min), extreme(differences, f64::max)) else {
        return SequentialBounds::default();
    };
    // Beyond all differences, all signs agree: if even that proves nothing, no shift is disproven.
    let margin = (most - least).max(MARGIN_OF_EQUAL * (most.abs() + least.abs())).max(f64::MIN_POSITIVE);
    SequentialBounds {
        low: last_proven(least - margin, most, |shift| is_proven(differences, shift, Side::Above, error_rate)),
        high: last_proven(most + margin, least, |shift| is_proven(differences, shift, Side::Below, error_rate)),
    }
}

fn extreme(values: &[f64], choose: fn(f64, f64) -> f64) -> Option<f64> {
    values.iter().copied().reduce(choose)
}

/// Relative distance of the first shift that is tried if all differences are equal.
const MARGIN_OF_EQUAL: f64 = 1e-6;

/// Halvings of the range: the bound is then exact to a millionth of the range of the differences.
const HALVINGS: usize = 20;

/// Returns the value next to `unproven` that is proven, starting from `proven`; `None` if that is not.
fn last_proven(mut proven: f64, mut unproven: f64, is_proven: impl Fn(f64) -> bool) -> Option<f64> {
    if !is_proven(proven) {
        return None;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(proven, unproven);
        if is_proven(middle) {
            proven = middle;
        } else {
            unproven = middle;
        }
    }
    Some(proven)
}

/// Logarithm of the mean of values that are given as logarithms.
fn log_mean(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| (log - most).exp()).sum();
    most + (sum / logs.len() as f64).ln()
}

/// The magnitudes so far, sorted.
#[derive(Default)]
struct Magnitudes(Vec<f64>);

impl Magnitudes {
    /// Adds a magnitude, and returns it in standard deviations, less for an outlier.
    fn push(&mut self, magnitude: f64) -> f64 {
        let at = self.0.partition_point(|smaller| *smaller < magnitude);
        self.0.insert(at, magnitude);
        let count = self.0.len();
        let scale = NORMAL_SCALE * f64::midpoint(self.0[(count - 1) / 2], self.0[count / 2]);
        // Most differences are equal to the shift that is tested: a stake would be out of proportion.
        if scale == 0.0 {
            return 0.0;
        }
        let scaled = magnitude / scale;
        scaled.min(OUTLIER * OUTLIER / scaled)
    }
}

#[cfg(test)]
mod tests;
