//! The reported difference between winner and baseline, from fresh pairs only. A race's own data overstate its winner:
//! among 40 equal candidates they show a false gain in 17 % of runs, fresh pairs in 2.6 %.

use serde::{Deserialize, Serialize};

use super::interim::{deviation, mean, middle, variance};
use super::{Race, signed_log};
use crate::stats::statistics::{
    CONFIDENCE, Interval, Mean, RESAMPLES, Resampling, bca_interval, mean_interval, student_interval,
};
use crate::values::workload::Better;

/// Minimum and maximum number of pairs: fewer give too wide an interval, more are not worth their time.
const PAIRS_MIN: u32 = 10;
const PAIRS_MAX: u32 = 250;
/// Relative precision that is sufficient for large differences: a tenth.
const HALF_WIDTH_SHARE: f64 = 0.1;
/// Assumed deviation if the race provides no estimate.
const DEVIATION_GUESS: f64 = 0.05;
/// Minimum deviation; smaller estimates are chance.
const DEVIATION_MIN: f64 = 0.005;
/// Weight of the robust deviation of the race against the plain one, in degrees of freedom.
const ROBUST_FREEDOM: f64 = 4.0;
/// Weight of the deviation that a search estimates, in degrees of freedom.
const SEARCH_FREEDOM: f64 = 4.0;
/// An interval is wide if it exceeds the planned width by this factor. The number of pairs is estimated from few blocks
/// of the race, so smaller excesses are chance.
const WIDE: f64 = 1.5;

/// The plan of a confirmation, fixed before its first pair (two-stage procedures: Stein, Annals of Mathematical
/// Statistics 16, 1945).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfirmPlan {
    pub pairs: u32,
    /// Planned half-width of the interval, relative to the metric: 0.01 is 1 %.
    pub half_width: f64,
}

/// Comparison of the leader with the baseline by fresh pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    pub pairs: u32,
    pub planned: ConfirmPlan,
    /// Difference of the leader's metric to the baseline, in percent of the baseline and in the direction of the
    /// metric: -10 is 10 % less time, or 10 % less throughput. Computed from the mean of the logarithms of the ratios,
    /// which is relevant for the cost of many runs.
    pub change_percent: f64,
    /// Lower end of the 95 % interval (t), in percent.
    pub ci_low: f64,
    /// Upper end of the 95 % interval (t), in percent.
    pub ci_high: f64,
    /// Median of the leader divided by the median of the baseline.
    pub median_ratio: f64,
    /// 95 % interval of the ratio (`BCa` bootstrap of pairs).
    pub median_interval: Option<Interval>,
    /// Geometric means of the metric in these pairs. Their ratio is the reported change.
    #[serde(default)]
    pub values: Option<PairValues>,
    /// Whether mean and median disagree: one of the placements has two modes, so check the single values.
    pub two_modes: bool,
    pub verdict: ConfirmResult,
}

/// Geometric means of the fresh pairs, in the unit of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairValues {
    pub leader: f64,
    pub baseline: f64,
}

/// Conclusion from the comparison of the leader with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfirmResult {
    /// The leader is better: the interval is on that side of 0.
    Faster,
    Slower,
    /// The interval contains 0.
    NoDifferenceSeen {
        /// The interval is much wider than planned, so there may be a difference (exit status 3).
        wide: bool,
    },
}

impl Confirmation {
    /// Returns the gain, in percent of the baseline, that the 95 % interval excludes: larger ones are not in it.
    pub fn excluded_gain_percent(&self, better: Better) -> f64 {
        if better == Better::Lower { (-self.ci_low).max(0.0) } else { self.ci_high.max(0.0) }
    }
}

impl Race {
    /// Returns the number of pairs for the confirmation: enough for a half-width of the indifference, or of a tenth of
    /// the effect, within the rest of the budget. Fixed before the first pair. 0 if the baseline leads.
    pub fn pairs(&self) -> u32 {
        self.planned().pairs
    }

    /// Returns [`Self::pairs`] with the planned half-width.
    pub fn planned(&self) -> ConfirmPlan {
        self.planned_for(self.leader().unwrap_or(0))
    }

    /// As [`Self::planned`], for this candidate instead of the leader.
    pub fn planned_for(&self, challenger: usize) -> ConfirmPlan {
        let half_width = self.rules.indifference;
        if challenger == 0 {
            return ConfirmPlan { pairs: 0, half_width };
        }
        let differences = self.differences(challenger, 0, 0..self.rows.len());
        let mut planned = if differences.len() < 2 {
            planned(DEVIATION_GUESS, half_width)
        } else {
            let wide = HALF_WIDTH_SHARE * middle(differences.clone()).abs();
            planned(pair_deviation(&differences), half_width.max(wide))
        };
        if let Some(budget) = self.rules.max_trials {
            planned.pairs = planned.pairs.min((budget.saturating_sub(self.trials) / 2) as u32);
        }
        planned
    }
}

/// Returns the second confirmation if the pairs were too few for a conclusion, with the number of pairs that they
/// require. It uses only fresh pairs, so its interval has the same coverage as the first.
pub fn extend_plan(better: Better, pairs: &[(f64, f64)], before: ConfirmPlan) -> Option<ConfirmPlan> {
    // The deviation of the pairs does not depend on the seed of the bootstrap.
    let confirmed = confirm(better, pairs, before, 0)?;
    let usable = |value: f64| signed_log(value, Better::Lower);
    let ratios: Vec<f64> =
        pairs.iter().filter_map(|(leader, kernel)| Some(usable(*leader)? - usable(*kernel)?)).collect();
    let again = planned(pair_deviation(&ratios), before.half_width);
    let unclear = confirmed.verdict == ConfirmResult::NoDifferenceSeen { wide: true };
    (unclear && again.pairs > before.pairs).then_some(again)
}

/// Returns the number of pairs for an interval of this half-width if each pair has this standard deviation.
pub fn planned(deviation: f64, half_width: f64) -> ConfirmPlan {
    let pairs = (2.0 * deviation / half_width.max(f64::MIN_POSITIVE)).powi(2).ceil();
    ConfirmPlan { pairs: pairs.clamp(f64::from(PAIRS_MIN), f64::from(PAIRS_MAX)) as u32, half_width }
}

/// Estimates the standard deviation of pairs from few blocks, as a compromise between a robust and the plain estimate.
fn pair_deviation(differences: &[f64]) -> f64 {
    let count = differences.len() as f64;
    // `deviation` corrects for small samples; here the plain estimate does.
    let robust = deviation(differences) / (1.0 + 0.8 / count);
    let plain = variance(differences).min((2.0 * robust + 0.01).powi(2));
    let freedom = count - 1.0;
    let robust = robust.max(DEVIATION_MIN).powi(2);
    ((ROBUST_FREEDOM * robust + freedom * plain) / (ROBUST_FREEDOM + freedom)).sqrt()
}

/// Returns the t interval of the mean of at least two values, whose deviation is also known from elsewhere.
fn moderated_interval(values: &[f64], deviation: f64) -> Option<Interval> {
    let (count, value) = (values.len() as f64, mean(values));
    let freedom = SEARCH_FREEDOM + count - 1.0;
    let variance = (SEARCH_FREEDOM * deviation * deviation + (count - 1.0) * variance(values)) / freedom;
    mean_interval(value, &[Mean { value, variance: variance / count, freedom }], CONFIDENCE)
}

/// Compares the leader with the baseline by fresh pairs of their metric, in its unit. Pairs with a value that is not
/// finite or not above 0 do not count. `seed` is that of the bootstrap.
///
/// `None` with fewer than 2 pairs that count.
pub fn confirm(better: Better, pairs: &[(f64, f64)], planned: ConfirmPlan, seed: u64) -> Option<Confirmation> {
    confirm_moderated(better, pairs, planned, seed, None)
}

/// Like [`confirm`], for few pairs after a search: `deviation` is that of one pair according to the trials of the search,
/// which counts like `SEARCH_FREEDOM` further pairs (moderated t: Smyth, Statistical Applications in Genetics and
/// Molecular Biology 3, 2004). The difference still comes from the pairs only.
pub fn confirm_moderated(
    better: Better,
    pairs: &[(f64, f64)],
    planned: ConfirmPlan,
    seed: u64,
    deviation: Option<f64>,
) -> Option<Confirmation> {
    let usable = |value: f64| signed_log(value, Better::Lower);
    let logs: Vec<(f64, f64)> =
        pairs.iter().filter_map(|(leader, kernel)| Some((usable(*leader)?, usable(*kernel)?))).collect();
    let ratios: Vec<f64> = logs.iter().map(|(leader, kernel)| leader - kernel).collect();
    let plain = student_interval(&ratios, CONFIDENCE)?;
    let interval = deviation.and_then(|deviation| moderated_interval(&ratios, deviation)).unwrap_or(plain);
    let mean = mean(&ratios);
    let median_of = |drawn: &mut [(f64, f64)]| {
        middle(drawn.iter().map(|pair| pair.0).collect()) - middle(drawn.iter().map(|pair| pair.1).collect())
    };
    let median = median_of(&mut logs.clone());
    let resampling = Resampling { seed, resamples: RESAMPLES, confidence: CONFIDENCE };
    let median_interval = bca_interval(&logs, median_of, &resampling);
    let outside = |interval: Option<Interval>, value: f64| interval.is_some_and(|interval| !interval.contains(value));
    Some(Confirmation {
        pairs: logs.len() as u32,
        planned,
        change_percent: percent(mean),
        ci_low: percent(interval.low),
        ci_high: percent(interval.high),
        median_ratio: median.exp(),
        median_interval: median_interval
            .and_then(|interval| Interval::between(interval.low.exp(), interval.high.exp())),
        values: Some(pair_values(&logs)),
        two_modes: outside(Some(interval), median) && outside(median_interval, mean),
        verdict: verdict(better, interval, planned),
    })
}

fn pair_values(logs: &[(f64, f64)]) -> PairValues {
    let geometric = |of: fn(&(f64, f64)) -> f64| mean(&logs.iter().map(of).collect::<Vec<_>>()).exp();
    PairValues { leader: geometric(|pair| pair.0), baseline: geometric(|pair| pair.1) }
}

fn verdict(better: Better, interval: Interval, planned: ConfirmPlan) -> ConfirmResult {
    if interval.contains(0.0) {
        return ConfirmResult::NoDifferenceSeen { wide: interval.half_width() > WIDE * planned.half_width };
    }
    if (interval.high < 0.0) == (better == Better::Lower) { ConfirmResult::Faster } else { ConfirmResult::Slower }
}

/// Converts a difference of logarithms to a change in percent.
pub(super) fn percent(log_ratio: f64) -> f64 {
    100.0 * log_ratio.exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANNED: ConfirmPlan = ConfirmPlan { pairs: 12, half_width: 0.01 };

    /// Returns pairs whose ratios are spread evenly by `scatter` around `ratio`.
    fn pairs(ratio: f64, scatter: f64, count: u32) -> Vec<(f64, f64)> {
        let at = |index: u32| (f64::from(index) + 0.5) / f64::from(count) - 0.5;
        (0..count).map(|index| (ratio * 3.0 * (scatter * at(index)).exp(), 3.0)).collect()
    }

    fn check(better: Better, pairs: &[(f64, f64)], expected: ConfirmResult) -> Confirmation {
        let confirmed = confirm(better, pairs, PLANNED, 1).unwrap();
        assert_eq!(confirmed.verdict, expected, "{confirmed:?}");
        assert!(confirmed.ci_low <= confirmed.change_percent && confirmed.change_percent <= confirmed.ci_high);
        confirmed
    }

    #[test]
    fn interval_position_determines_the_result() {
        let faster = check(Better::Lower, &pairs(0.9, 0.05, 12), ConfirmResult::Faster);
        assert!((faster.change_percent + 10.0).abs() < 1e-6 && (faster.median_ratio - 0.9).abs() < 1e-6, "{faster:?}");
        assert!(faster.median_interval.unwrap().contains(0.9));
        check(Better::Higher, &pairs(0.9, 0.05, 12), ConfirmResult::Slower);
        check(Better::Higher, &pairs(1.1, 0.05, 12), ConfirmResult::Faster);
        check(Better::Lower, &pairs(1.1, 0.05, 12), ConfirmResult::Slower);
        check(Better::Lower, &pairs(1.002, 0.03, 12), ConfirmResult::NoDifferenceSeen { wide: false });
        check(Better::Lower, &pairs(1.002, 0.3, 12), ConfirmResult::NoDifferenceSeen { wide: true });
    }

    #[test]
    fn pairs_without_two_valid_values_do_not_count() {
        let mut some = pairs(0.9, 0.05, 12);
        let expected = confirm(Better::Lower, &some, PLANNED, 1).unwrap();
        some.extend([(f64::NAN, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, f64::INFINITY)]);
        assert_eq!(confirm(Better::Lower, &some, PLANNED, 1), Some(expected));
        assert_eq!(confirm(Better::Lower, &some[..1], PLANNED, 1), None);
        assert_eq!(confirm(Better::Lower, &[], PLANNED, 1), None);
    }

    #[test]
    fn values_of_pairs_have_the_ratio_of_the_change() {
        let confirmed = check(Better::Lower, &pairs(0.9, 0.05, 12), ConfirmResult::Faster);
        let values = confirmed.values.unwrap();
        assert!((100.0 * (values.leader / values.baseline - 1.0) - confirmed.change_percent).abs() < 1e-9);
        assert!((values.baseline - 3.0).abs() < 1e-9, "{values:?}");
    }

    #[test]
    fn excluded_gain_is_the_far_end_of_the_interval() {
        let confirmed = check(Better::Lower, &pairs(1.002, 0.03, 12), ConfirmResult::NoDifferenceSeen { wide: false });
        assert!((confirmed.excluded_gain_percent(Better::Lower) + confirmed.ci_low).abs() < 1e-9);
        assert!((confirmed.excluded_gain_percent(Better::Higher) - confirmed.ci_high).abs() < 1e-9);
        let slower = check(Better::Lower, &pairs(1.1, 0.03, 12), ConfirmResult::Slower);
        assert!(slower.excluded_gain_percent(Better::Lower).abs() < f64::MIN_POSITIVE, "no gain at all");
    }

    #[test]
    fn known_deviation_narrows_intervals_of_few_pairs() {
        let few = pairs(0.9, 0.06, 3);
        let half = |deviation| {
            let confirmed = confirm_moderated(Better::Lower, &few, PLANNED, 1, deviation).unwrap();
            (confirmed.change_percent, confirmed.ci_high - confirmed.ci_low)
        };
        let (plain, known, noisy) = (half(None), half(Some(0.02)), half(Some(0.2)));
        assert_eq!(plain, half(None));
        assert!(
            plain.0.total_cmp(&known.0).is_eq() && plain.0.total_cmp(&noisy.0).is_eq(),
            "only pairs give the change"
        );
        assert!(known.1 < 0.7 * plain.1 && noisy.1 > 2.0 * plain.1, "{plain:?} {known:?} {noisy:?}");
        // s^2 = (4 * 0.02^2 + 2 * 0.02^2) / 6 with 6 degrees of freedom, if both deviations agree.
        let expected = 2.0 * 2.446_911_9 * 0.02 / 3f64.sqrt();
        let spread = half(Some(0.02)).1 / 100.0 / 0.9;
        assert!((spread - expected).abs() < 0.01 * expected, "{spread} {expected}");
    }

    #[test]
    fn number_of_pairs_is_bounded() {
        for (deviation, half_width, pairs) in
            [(0.05, 0.01, 100), (0.001, 0.01, 10), (1.0, 0.01, 250), (0.05, 0.02, 25), (0.05, 0.0, 250), (0.0, 0.0, 10)]
        {
            assert_eq!(planned(deviation, half_width).pairs, pairs, "{deviation} {half_width}");
        }
    }
}
