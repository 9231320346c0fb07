//! What samples say: medians, ratios, shifts and geometric means, each with its interval and its source.
//!
//! A sample that is NaN or infinite is not a measurement, and dropping it in silence would bend what is left:
//! every function here answers `None` if it is given one. Nor does NaN or an infinity ever come out; a value
//! that leaves the range of `f64` is `None` as well. Values keep the unit of the samples they come from.
//! Randomness comes only from the seed that the caller gives.

mod bootstrap;
#[cfg(test)]
mod coverage;
mod geomean;
#[cfg(test)]
pub(crate) mod golden;
mod rank;
mod rank_distribution;
mod ratio;
mod shift;
mod spread;
mod student;
mod summary;

use serde::{Deserialize, Serialize};

pub use bootstrap::{Resampling, bca_interval, bca_interval_independent, percentile_interval};
pub use geomean::{geometric_mean, geometric_mean_of_ratios};
pub use rank::{RankMethod, RankTest, mann_whitney, wilcoxon_signed_rank};
pub use ratio::{Pairing, RatioEstimate, ratio_of_medians};
pub use shift::{hodges_lehmann_center, hodges_lehmann_shift};
pub use spread::qn_scale;
pub(crate) use student::{Mean, chi_squared_median, mean_interval, t_probability};
pub use student::{student_interval, welch_interval};
pub use summary::{mad_noise, median, median_estimate, median_interval, quantile, relative_half_width};

/// The confidence of every interval whose caller cannot choose another: 95 %.
pub const CONFIDENCE: f64 = 0.95;

/// How many resamples a bootstrap takes unless told: the ends of a `BCa` interval need at least 1000 (Efron and
/// Tibshirani, An Introduction to the Bootstrap, 1993, section 14.3), and twice that still costs little.
pub const RESAMPLES: usize = 2000;

/// Where a value lies with the confidence that was asked for, both ends included. Both ends are finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end, in the unit of the samples.
    pub low: f64,
    /// The upper end, in the unit of the samples.
    pub high: f64,
}

impl Interval {
    /// The interval between two ends, given in either order; `None` unless both are finite.
    pub fn between(one: f64, other: f64) -> Option<Self> {
        (one.is_finite() && other.is_finite()).then(|| Self { low: one.min(other), high: one.max(other) })
    }

    /// Whether a value lies inside, ends included.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half of the distance between the ends, in the unit of the samples.
    pub fn half_width(self) -> f64 {
        // Halved first: the distance between two huge ends of different sign would overflow.
        self.high / 2.0 - self.low / 2.0
    }

    /// The smallest interval that holds this one and the value. An interval made by another route than its
    /// estimate (means of logarithms, resamples) can miss it when samples are few, and would then read as absurd.
    fn widened_to(self, value: f64) -> Self {
        Self { low: self.low.min(value), high: self.high.max(value) }
    }
}

/// A value computed from samples, and its interval where there are enough of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value, finite, in the unit of the samples.
    pub value: f64,
    /// Where the true value lies; `None` if the samples are too few to say.
    pub interval: Option<Interval>,
}

/// Whether this is a confidence that an interval can have: above 0 and below 1.
fn is_confidence(confidence: f64) -> bool {
    confidence > 0.0 && confidence < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_order_their_ends_and_refuse_what_is_not_finite() {
        assert_eq!(Interval::between(2.0, 1.0), Some(Interval { low: 1.0, high: 2.0 }));
        for (one, other) in [(f64::NAN, 1.0), (1.0, f64::INFINITY), (f64::NEG_INFINITY, f64::NAN)] {
            assert_eq!(Interval::between(one, other), None);
        }
        let all = Interval { low: -f64::MAX, high: f64::MAX };
        assert!(all.contains(0.0) && all.contains(f64::MAX));
        assert!((all.half_width() / f64::MAX - 1.0).abs() < 1e-15);
        assert_eq!(Interval { low: 1.0, high: 2.0 }.widened_to(0.5), Interval { low: 0.5, high: 2.0 });
        assert_eq!(Interval { low: 1.0, high: 2.0 }.widened_to(3.0), Interval { low: 1.0, high: 3.0 });
    }

    #[test]
    fn estimates_survive_the_way_out_and_back() {
        let estimate = Estimate { value: 1.5, interval: Interval::between(1.25, 2.0) };
        let text = serde_json::to_string(&estimate).unwrap();
        assert_eq!(text, r#"{"value":1.5,"interval":{"low":1.25,"high":2.0}}"#);
        assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), estimate);
    }
}
