//! What is reported of the winner against the kernel's choice, from fresh pairs alone. A race's own data overstate
//! its winner: among 40 equal candidates they claim a false gain in 17 % of runs, fresh pairs in 2.6 %.

use serde::{Deserialize, Serialize};

use super::interim::{deviation, mean, middle, variance};
use super::{Race, signed_log};
use crate::stats::statistics::{CONFIDENCE, Interval, RESAMPLES, Resampling, bca_interval, student_interval};
use crate::values::workload::Better;

/// No fewer pairs than this make an interval worth reading, no more of them are worth their time.
const PAIRS_MIN: u32 = 10;
const PAIRS_MAX: u32 = 250;
/// A large change need not be known to 1 %: a tenth of it is enough.
const HALF_WIDTH_SHARE: f64 = 0.1;
/// The deviation that is assumed when the race says nothing of it.
const DEVIATION_GUESS: f64 = 0.05;
/// Deviations below this are luck.
const DEVIATION_MIN: f64 = 0.005;
/// What a deviation from the middle of the race counts against the plain one, in degrees of freedom.
const ROBUST_FREEDOM: f64 = 4.0;
/// An interval this many times wider than planned is wide: the number of pairs comes from a few blocks of the race, so
/// that widths up to there are chance.
const WIDE: f64 = 1.5;

/// What confirmation was planned to be, fixed before its first pair (two-stage procedures: Stein, Annals of
/// Mathematical Statistics 16, 1945).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfirmPlan {
    pub pairs: u32,
    /// Half of the width that the interval should have, as a part of the metric: 0.01 is 1 %.
    pub half_width: f64,
}

/// What fresh pairs of the leader and the kernel's choice say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    pub pairs: u32,
    pub planned: ConfirmPlan,
    /// By how much the leader's metric differs from the kernel's choice, in percent of the latter and in the metric's
    /// own direction: -10 is 10 % less time, or 10 % less throughput. From the mean of the logarithms of the ratios:
    /// what a user pays over many runs.
    pub change_percent: f64,
    /// The lower end of its 95 % interval (t), in percent.
    pub ci_low: f64,
    /// The upper end, in percent.
    pub ci_high: f64,
    /// The leader's median over that of the kernel's choice; without a unit.
    pub median_ratio: f64,
    /// Its 95 % interval (`BCa` bootstrap of pairs).
    pub median_interval: Option<Interval>,
    /// Mean and median disagree: one of the two runs in two modes, so look at its single values.
    pub two_modes: bool,
    pub verdict: ConfirmResult,
}

/// What may be said of the leader against the kernel's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfirmResult {
    /// The leader is better: the interval lies on that side of 0.
    Faster,
    Slower,
    /// The interval holds 0.
    NoDifferenceSeen {
        /// It is much wider than planned, so a difference may well be there (exit status 3).
        wide: bool,
    },
}

impl Race {
    /// How many pairs confirm the leader: as many as bring the interval to a half-width of the indifference, or a
    /// tenth of the effect, within what the budget has left. Fixed before the first of them. 0 where the kernel's
    /// choice leads.
    pub fn pairs(&self) -> u32 {
        self.planned().pairs
    }

    /// [`Self::pairs`] with the half-width that they are for.
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

/// The second confirmation that pairs too few to tell give way to: as many as they show to be needed. Its pairs are all
/// fresh, so its interval covers as well as the first's.
pub fn extend_plan(better: Better, pairs: &[(f64, f64)], before: ConfirmPlan) -> Option<ConfirmPlan> {
    // What the pairs say of their own deviation does not depend on the bootstrap's seed.
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

/// The standard deviation of pairs, which few blocks give badly: between a robust one and the plain one.
fn pair_deviation(differences: &[f64]) -> f64 {
    let count = differences.len() as f64;
    // `deviation` makes up for the smallness of few values; here the plain one does that.
    let robust = deviation(differences) / (1.0 + 0.8 / count);
    let plain = variance(differences).min((2.0 * robust + 0.01).powi(2));
    let freedom = count - 1.0;
    let robust = robust.max(DEVIATION_MIN).powi(2);
    ((ROBUST_FREEDOM * robust + freedom * plain) / (ROBUST_FREEDOM + freedom)).sqrt()
}

/// From fresh pairs, each of the leader's metric and that of the kernel's choice, in its unit. Pairs with a value
/// that is not above 0 and finite do not count. The seed is the bootstrap's.
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

/// A difference of logarithms as a change in percent.
pub(super) fn percent(log_ratio: f64) -> f64 {
    100.0 * log_ratio.exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANNED: ConfirmPlan = ConfirmPlan { pairs: 12, half_width: 0.01 };

    /// Pairs whose ratios scatter evenly by this much around one.
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
    fn the_interval_says_what_may_be_said() {
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
    fn pairs_without_two_numbers_do_not_count() {
        let mut some = pairs(0.9, 0.05, 12);
        let expected = confirm(Better::Lower, &some, PLANNED, 1).unwrap();
        some.extend([(f64::NAN, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, f64::INFINITY)]);
        assert_eq!(confirm(Better::Lower, &some, PLANNED, 1), Some(expected));
        assert_eq!(confirm(Better::Lower, &some[..1], PLANNED, 1), None);
        assert_eq!(confirm(Better::Lower, &[], PLANNED, 1), None);
    }

    #[test]
    fn the_number_of_pairs_is_bounded() {
        for (deviation, half_width, pairs) in
            [(0.05, 0.01, 100), (0.001, 0.01, 10), (1.0, 0.01, 250), (0.05, 0.02, 25), (0.05, 0.0, 250), (0.0, 0.0, 10)]
        {
            assert_eq!(planned(deviation, half_width).pairs, pairs, "{deviation} {half_width}");
        }
    }
}
