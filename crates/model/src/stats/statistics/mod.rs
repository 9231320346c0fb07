//! Statistics of samples: medians, ratios, shifts and geometric means, each with its interval and its source.
//!
//! A NaN or infinite sample is not a measurement, and silently dropping it would bias the rest: every function returns
//! `None` if it gets one. No function returns NaN or infinity; a value outside the range of `f64` is `None`, too.
//! Values keep the unit of their samples. All randomness comes from the seed of the caller.

mod autocorrelation;
mod bootstrap;
#[cfg(test)]
mod coverage;
mod geomean;
#[cfg(test)]
pub(crate) mod golden;
mod rank;
mod rank_distribution;
mod ratio;
mod runs;
mod sequential;
mod shift;
mod spread;
mod student;
mod summary;

use serde::{Deserialize, Serialize};

pub use autocorrelation::autocorrelation;
pub use bootstrap::{Resampling, bca_interval, bca_interval_independent, percentile_interval};
pub use geomean::{geometric_mean, geometric_mean_of_ratios};
pub use rank::{RankMethod, RankTest, mann_whitney, wilcoxon_signed_rank};
pub use ratio::{RatioEstimate, ratio_of_medians, ratio_of_pairs};
pub use runs::ratio_of_runs;
pub use sequential::{SequentialBounds, Side, is_proven, sequential_bounds};
pub(crate) use shift::center_with_p_value;
pub use shift::{hodges_lehmann_center, hodges_lehmann_shift};
pub use spread::qn_scale;
pub(crate) use student::{Mean, chi_squared_median, mean_interval, normal_probability, t_probability};
pub use student::{student_interval, welch_interval};
pub use summary::{mad_noise, median, median_estimate, median_interval, quantile, relative_half_width};

/// Confidence of all intervals for which the caller cannot choose another: 95 %.
pub const CONFIDENCE: f64 = 0.95;

/// Default number of resamples: the ends of a `BCa` interval need at least 1000 (Efron and Tibshirani, An Introduction
/// to the Bootstrap, 1993, section 14.3), and twice that is still cheap.
pub const RESAMPLES: usize = 2000;

/// Minimum number of trials, or of pairs of trials, whose interval is reported. Two have a t interval with one degree
/// of freedom: its ends are often a factor of a thousand apart.
pub const TRIALS_MIN: usize = 3;

/// An interval that contains the true value with the requested confidence, including both ends, which are finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end, in the unit of the samples.
    pub low: f64,
    /// Upper end, in the unit of the samples.
    pub high: f64,
}

impl Interval {
    /// Returns the interval between two ends, in any order; `None` unless both are finite.
    pub fn between(one: f64, other: f64) -> Option<Self> {
        (one.is_finite() && other.is_finite()).then(|| Self { low: one.min(other), high: one.max(other) })
    }

    /// Whether a value is inside; the ends are included.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half of the width, in the unit of the samples.
    pub fn half_width(self) -> f64 {
        // Halved first, because the width between two huge ends of different sign would overflow.
        self.high / 2.0 - self.low / 2.0
    }

    /// Returns the smallest interval that contains this one and the value. An interval that is computed differently
    /// from its estimate (means of logarithms, resamples) can exclude it if there are few samples.
    pub(crate) fn widened_to(self, value: f64) -> Self {
        Self { low: self.low.min(value), high: self.high.max(value) }
    }
}

/// An estimate from samples, with its interval if there are enough of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate, finite, in the unit of the samples.
    pub value: f64,
    /// Interval of the true value; `None` if there are too few samples.
    pub interval: Option<Interval>,
}

/// Whether a confidence is valid: above 0 and below 1.
fn is_confidence(confidence: f64) -> bool {
    confidence > 0.0 && confidence < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_ends_are_sorted_and_must_be_finite() {
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
    fn estimates_are_unchanged_by_a_json_round_trip() {
        let estimate = Estimate { value: 1.5, interval: Interval::between(1.25, 2.0) };
        let text = serde_json::to_string(&estimate).unwrap();
        assert_eq!(text, r#"{"value":1.5,"interval":{"low":1.25,"high":2.0}}"#);
        assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), estimate);
    }
}
