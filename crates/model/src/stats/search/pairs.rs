//! The number of trials that are kept for the pairs which confirm the leader: more pairs confirm a smaller gain, and a
//! longer search finds a larger one. Must not depend on times or prices.

use std::ops::RangeInclusive;

use super::Search;
use super::random::Random;
use crate::stats::statistics::normal_probability;

/// Number of draws of the leader's gain.
const DRAWS: usize = 80;
/// Half-width of a 99 % range in standard errors: if this range excludes zero, a gain is likely.
pub const LIKELY_HALF_WIDTH: f64 = 2.576;
/// A search recovers 63 % of what it still misses in this number of trials. Of 10, 25 and shares below 1 of the miss, this
/// lost no accuracy of the leader (`cargo bench -p lab --bench place -- --what few --first-seed 100`).
const RECOVERY_TRIALS: f64 = 10.0;
/// Pairs use at most this share of all trials, because a search that is cut shorter may have the wrong leader.
const PAIRS_SHARE_MAX: f64 = 0.4;
/// A pair more has to increase the expected gain by this.
const GAIN_MIN: f64 = 1e-5;

impl Search {
    /// Returns the number of pairs with which the expected gain of the answer is largest, if this number of trials is left
    /// for search and pairs together. At least `least`, also without a candidate to confirm.
    pub fn worthwhile_pairs(&self, trials_left: usize, least: u32) -> u32 {
        if !self.prior.rules.weighs_pairs {
            return least;
        }
        let leader = self.leader().filter(|leader| *leader != 0 && self.trials_of(*leader) > 0);
        let (Some(leader), Some(deviation)) = (leader, self.pair_deviation()) else { return least };
        let mut random = Random::new(self.prior.seed, &format!("pairs {}", self.blocks));
        let draws = self.posterior.draws(&self.prior, DRAWS, &mut random);
        let prospects: Vec<Prospect> = draws
            .iter()
            .map(|draw| Prospect { gain: draw[0] - draw[leader], missed: draw[leader] - self.lowest(draw) })
            .collect();
        let most = (PAIRS_SHARE_MAX * (self.trials + trials_left) as f64).min(trials_left as f64) / 2.0;
        best_pairs(&prospects, deviation, trials_left, least..=most as u32)
    }
}

/// The leader in one draw, in logarithms of times.
struct Prospect {
    /// Its gain over the baseline.
    gain: f64,
    /// Its distance from the best candidate.
    missed: f64,
}

/// Returns the smallest number of pairs of the largest expected gain within these limits. A pair has this standard deviation.
fn best_pairs(prospects: &[Prospect], deviation: f64, trials_left: usize, limits: RangeInclusive<u32>) -> u32 {
    let least = *limits.start();
    let value = |pairs: u32| {
        let search = trials_left.saturating_sub(2 * pairs as usize);
        expected_gain(prospects, deviation / f64::from(pairs).sqrt(), search as f64)
    };
    let valued = limits.map(|pairs| (pairs, value(pairs)));
    valued.reduce(|best, next| if next.1 > best.1 + GAIN_MIN { next } else { best }).map_or(least, |(pairs, _)| pairs)
}

/// Returns the expected gain of the answer after this number of further trials of the search, and pairs whose mean has this
/// standard error. The answer is the baseline, with a gain of zero, unless the pairs confirm the leader.
fn expected_gain(prospects: &[Prospect], error: f64, search: f64) -> f64 {
    let recovered = 1.0 - (-search / RECOVERY_TRIALS).exp();
    let gains: Vec<f64> = prospects.iter().map(|one| one.gain + recovered * one.missed).collect();
    let count = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / count;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / count;
    let least = confirmed_from(mean, variance, error);
    gains.iter().map(|gain| gain * normal_probability((gain - least) / error)).sum::<f64>() / count
}

/// Returns the smallest mean gain in the pairs that would confirm the predicted gain. It must exceed its standard error, and
/// the average of pairs and prediction, weighted by precision, must have a 99 % range above zero.
fn confirmed_from(mean: f64, variance: f64, error: f64) -> f64 {
    let (of_prediction, of_pairs) = (1.0 / variance.max(f64::MIN_POSITIVE), error.powi(-2));
    let combined = LIKELY_HALF_WIDTH * (of_prediction + of_pairs).sqrt() - mean * of_prediction;
    (combined / of_pairs).max(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the best number of pairs if 50 trials are left. The standard deviation is 5 % for a pair and 1.5 % for the
    /// prediction.
    fn pairs(gain: f64, missed: f64) -> u32 {
        let prospects: Vec<Prospect> =
            [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5].map(|step| Prospect { gain: gain + 0.015 * step, missed }).into();
        best_pairs(&prospects, 0.05, 50, 5..=25)
    }

    #[test]
    fn small_gain_is_worth_more_pairs_than_a_large_one() {
        assert_eq!(pairs(0.2, 0.0), 5, "five pairs show 20 %");
        assert!((12..=25).contains(&pairs(0.03, 0.0)), "{}", pairs(0.03, 0.0));
        assert!(pairs(0.06, 0.0) < pairs(0.03, 0.0));
    }

    #[test]
    fn search_that_may_miss_much_keeps_its_trials() {
        let (certain, uncertain) = (pairs(0.03, 0.0), pairs(0.03, 0.1));
        assert!(uncertain < certain, "{uncertain} {certain}");
        assert_eq!(pairs(0.03, 0.3), 5);
    }

    #[test]
    fn limits_of_the_pairs_are_kept() {
        let of_limits = |most| best_pairs(&[Prospect { gain: 0.03, missed: 0.0 }], 0.05, 50, 5..=most);
        assert_eq!((of_limits(0), of_limits(5), of_limits(8)), (5, 5, 8));
    }
}
