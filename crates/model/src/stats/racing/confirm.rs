//! The reported difference between winner and baseline, from fresh pairs only. A race's own data overstate its winner:
//! among 40 equal candidates they show a false gain in 17 % of runs, fresh pairs in 2.6 %.

use serde::{Deserialize, Serialize};

use super::interim::{deviation, mean, middle, variance};
use super::{Race, signed_log};
use crate::stats::statistics::{CONFIDENCE, Interval, RESAMPLES, Resampling, bca_interval, student_interval};
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
    /// Whether mean and median disagree: one of the placements has two modes, so check the single values.
    pub two_modes: bool,
    pub verdict: ConfirmResult,
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

impl Race {
    /// Returns the number of pairs for the confirmation: enough for a half-width of the indifference, or of a tenth of
    /// the effect, within the rest of the budget. Fixed before the first pair. 0 if the baseline leads.
    pub fn pairs(&self) -> u32 {
        self.planned().pairs
    }

    /// Returns [`Self::pairs`] with the planned half-width.
    pub fn planned(&self) -> ConfirmPlan {
        let half_width = self.rules.indifference;
        let Some(leader) = self.leader().filter(|leader| *leader != 0) else {
            return ConfirmPlan { pairs: 0, half_width };
        };
        let differences = self.differences(leader, 0, 0..self.rows.len());
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

fn planned(deviation: f64, half_width: f64) -> ConfirmPlan {
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

/// Compares the leader with the baseline by fresh pairs of their metric, in its unit. Pairs with a value that is not
/// finite or not above 0 do not count. `seed` is that of the bootstrap.
///
/// `None` with fewer than 2 pairs that count.
pub fn confirm(better: Better, pairs: &[(f64, f64)], planned: ConfirmPlan, seed: u64) -> Option<Confirmation> {
    let usable = |value: f64| signed_log(value, Better::Lower);
    let logs: Vec<(f64, f64)> =
        pairs.iter().filter_map(|(leader, kernel)| Some((usable(*leader)?, usable(*kernel)?))).collect();
    let ratios: Vec<f64> = logs.iter().map(|(leader, kernel)| leader - kernel).collect();
    let interval = student_interval(&ratios, CONFIDENCE)?;
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
        two_modes: outside(Some(interval), median) && outside(median_interval, mean),
        verdict: verdict(better, interval, planned),
    })
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
    fn number_of_pairs_is_bounded() {
        for (deviation, half_width, pairs) in
            [(0.05, 0.01, 100), (0.001, 0.01, 10), (1.0, 0.01, 250), (0.05, 0.02, 25), (0.05, 0.0, 250), (0.0, 0.0, 10)]
        {
            assert_eq!(planned(deviation, half_width).pairs, pairs, "{deviation} {half_width}");
        }
    }
}
