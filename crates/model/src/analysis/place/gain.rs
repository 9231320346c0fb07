//! The challenger's gain over the baseline, estimated from fresh pairs and from the trials of the search.

use super::RaceState;
use crate::stats::racing::Confirmation;
use crate::stats::search::{LIKELY_HALF_WIDTH, Prediction};
use crate::values::workload::Better;

/// Half-width of the pairs' 95 % interval in standard errors, approximately.
const ERRORS_OF_INTERVAL: f64 = 2.2;
/// Half-widths, in standard deviations, of the central 90 and 95 % of a normal distribution.
const NORMAL_90: f64 = 1.645;
const NORMAL_95: f64 = 1.96;
/// Smallest standard error that an estimate is trusted with.
const ERROR_MIN: f64 = 1e-4;

/// Estimates of the challenger's difference to the baseline.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    pairs: Estimate,
    /// Pairs and prediction, weighted by their precision. They are independent, because the pairs are fresh. Only the pairs
    /// if the two contradict each other.
    combined: Estimate,
    excluded_percent: f64,
}

/// Logarithm of the ratio of the challenger's metric to the baseline's. Negative is better.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    /// Standard error.
    error: f64,
}

impl Gain {
    /// Estimates the gain from fresh pairs and from the prediction of the challenger, if there was a search.
    pub fn new(confirmed: &Confirmation, better: Better, predicted: Option<&Prediction>) -> Self {
        let pairs = Estimate::of_pairs(confirmed, better);
        let Some(predicted) = predicted else {
            return Self { pairs, combined: pairs, excluded_percent: confirmed.excluded_gain_percent(better) };
        };
        let predicted = Estimate::of_prediction(predicted);
        // If the fresh pairs contradict the search, they count alone: a mean of both would exclude what they show.
        let combined = if pairs.agrees_with(predicted) { pairs.and(predicted) } else { pairs };
        let excluded = -100.0 * (combined.mean - NORMAL_95 * combined.error).exp_m1();
        Self { pairs, combined, excluded_percent: excluded.max(0.0) }
    }

    /// The gain of the challenger of a search or race.
    pub(super) fn of(state: &RaceState<'_>, confirmed: &Confirmation) -> Self {
        let search = state.search().zip(state.challenger());
        let predicted = search.map(|(search, challenger)| search.outlook().predictions[challenger]);
        Self::new(confirmed, state.metric().better, predicted.as_ref())
    }

    /// Whether the pairs show a gain, and the combined 99 % range excludes zero. The prediction was made by the trials
    /// that chose the challenger, so the pairs must agree by more than a standard error: of 1 300 simulated searches in
    /// which nothing differed, this called 2 % a gain.
    pub fn is_likely(&self) -> bool {
        self.pairs.mean < -self.pairs.error && self.combined.mean + LIKELY_HALF_WIDTH * self.combined.error < 0.0
    }

    /// A larger gain is excluded at 95 %, in percent of the baseline.
    pub fn excluded_percent(&self) -> f64 {
        self.excluded_percent
    }
}

impl Estimate {
    fn of_pairs(confirmed: &Confirmation, better: Better) -> Self {
        let log = |percent: f64| (percent / 100.0).ln_1p();
        let mean = log(confirmed.change_percent);
        let error = (log(confirmed.ci_high) - log(confirmed.ci_low)) / 2.0 / ERRORS_OF_INTERVAL;
        Self { mean: if better == Better::Lower { mean } else { -mean }, error }
    }

    fn of_prediction(prediction: &Prediction) -> Self {
        Self { mean: prediction.mean, error: (prediction.high - prediction.low) / 2.0 / NORMAL_90 }
    }

    /// Whether the difference of two independent estimates is within its 95 % range.
    fn agrees_with(self, other: Self) -> bool {
        (self.mean - other.mean).abs() <= NORMAL_95 * self.error.hypot(other.error).max(ERROR_MIN)
    }

    fn and(self, other: Self) -> Self {
        let precision = |one: Self| one.error.max(ERROR_MIN).powi(-2);
        let sum = precision(self) + precision(other);
        Self { mean: (precision(self) * self.mean + precision(other) * other.mean) / sum, error: sum.powf(-0.5) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::racing::{ConfirmPlan, confirm};

    /// Six pairs in which the challenger takes `ratio` of the baseline's time, with differences of `noise`.
    fn gain(ratio: f64, noise: f64, better: Better, predicted: Option<(f64, f64)>) -> Gain {
        let pairs: Vec<(f64, f64)> =
            [1.0, -0.4, 0.3, -1.0, 0.6, -0.5].iter().map(|part| (ratio * (noise * part).exp(), 1.0)).collect();
        let confirmed = confirm(better, &pairs, ConfirmPlan { pairs: 6, half_width: 0.01 }, 1).unwrap();
        let prediction = predicted.map(|(mean, error)| Prediction {
            mean,
            low: mean - NORMAL_90 * error,
            high: mean + NORMAL_90 * error,
            best: 0.5,
            near_best: 0.6,
        });
        Gain::new(&confirmed, better, prediction.as_ref())
    }

    #[test]
    fn gain_is_likely_if_search_and_pairs_agree() {
        let lower = |ratio, predicted| gain(ratio, 0.05, Better::Lower, predicted).is_likely();
        assert!(lower(0.97, Some((-0.03, 0.008))));
        assert!(!lower(0.97, None), "the pairs alone are too few");
        assert!(!lower(1.01, Some((-0.03, 0.008))), "the pairs show a loss");
        assert!(!lower(0.995, Some((-0.03, 0.008))), "the pairs show less than their error");
        assert!(!lower(0.97, Some((0.0, 0.008))), "the search shows none");
        assert!(gain(1.03, 0.05, Better::Higher, Some((-0.03, 0.008))).is_likely());
        assert!(!gain(0.97, 0.05, Better::Higher, Some((-0.03, 0.008))).is_likely());
    }

    #[test]
    fn excluded_gain_is_narrower_with_the_trials_of_the_search() {
        let excluded = |predicted| gain(1.0, 0.05, Better::Lower, predicted).excluded_percent();
        let pairs = excluded(None);
        assert!((3.0..6.0).contains(&pairs), "{pairs}");
        let combined = excluded(Some((0.0, 0.01)));
        assert!((1.0..2.0).contains(&combined), "{combined}");
        assert!(excluded(Some((-0.03, 0.001))) > 2.5, "a predicted gain is not excluded");
        assert!(excluded(Some((0.03, 0.001))).abs() < f64::EPSILON, "any gain is excluded");
    }

    /// `place` excluded any gain above 0.0 % next to an interval of the pairs that ended at 151 %.
    #[test]
    fn pairs_that_contradict_the_search_count_alone() {
        let excluded = |predicted| gain(0.65, 0.1, Better::Lower, predicted).excluded_percent();
        assert!(
            (excluded(Some((0.1, 0.01))) - excluded(None)).abs() < 2.0,
            "{} {}",
            excluded(None),
            excluded(Some((0.1, 0.01)))
        );
        assert!(excluded(Some((0.1, 0.01))) > 35.0, "{}", excluded(Some((0.1, 0.01))));
    }
}
