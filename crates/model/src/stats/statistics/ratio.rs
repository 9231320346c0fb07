//! The ratio of candidate and baseline within runs, its interval, and the matching test for a difference: of pairs that
//! share a block, or of independent samples.

use std::cmp::Ordering;

use super::bootstrap::{Resampling, bca_test_independent};
use super::shift::center_with_p_value;
use super::student::{Mean, exp, logarithms, mean_p_value, welch_interval};
use super::summary::{median_of_sorted, sorted};
use super::{CONFIDENCE, Interval};

/// Minimum number of samples for a bootstrap; with fewer it has too few different draws and is too narrow.
const RANKS_FROM: usize = 6;

/// A logarithm farther from 0 than this differs from 0 by more than a rounding error. There may be millions of logarithms,
/// and `exp` is slow.
const ROUNDING_MAX: f64 = 1e-12;

/// The ratio of candidate and baseline. Without a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioEstimate {
    /// The candidate divided by the baseline: 2 is twice the baseline.
    pub ratio: f64,
    /// 95 % interval, which contains the ratio; `None` with fewer than 2 samples (or pairs) on a side.
    pub interval: Option<Interval>,
    /// Two-sided p value of the test that the interval inverts: it is at most 0.05 if and only if the interval excludes
    /// 1.
    pub p_value: f64,
}

impl RatioEstimate {
    /// Widens the interval to the ratio, which an interval of few samples can exclude, and keeps the p value consistent
    /// with it. `None` if the ratio is outside the range of `f64`.
    pub(super) fn new(ratio: f64, interval: Option<Interval>, p_value: f64) -> Option<Self> {
        let widened = interval.map(|interval| interval.widened_to(ratio));
        let is_claim_lost =
            widened.is_some_and(|wide| wide.contains(1.0)) && interval.is_some_and(|interval| !interval.contains(1.0));
        let p_value = if is_claim_lost { p_value.max(1.0 - CONFIDENCE) } else { p_value };
        (ratio.is_finite() && ratio > 0.0).then_some(Self { ratio, interval: widened, p_value })
    }
}

/// Returns the typical ratio of pairs, whose i-th samples are from the same block and share its drift: the
/// Hodges-Lehmann centre of the logarithms of the pairs' ratios. Interval and p value are those of the same test:
/// Wilcoxon's signed ranks, or Student's t with fewer than 6 pairs.
///
/// Unlike the ratio of the sides' medians, which are mostly from different blocks, it is not affected by what a block
/// has in common: docs/results/claims.md compares both. The seed is only used to reduce more than 2800 pairs.
///
/// `None` without samples, if the sides differ in length, with a sample that is not finite or not above 0, or if the
/// ratio is outside the range of `f64`.
pub fn ratio_of_pairs(baseline: &[f64], candidate: &[f64], seed: u64) -> Option<RatioEstimate> {
    let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
    if baseline.len() != candidate.len() || !baseline.iter().chain(candidate).all(is_positive) {
        return None;
    }
    // The ratio is computed first: equal ratios then have equal logarithms, and are ties in the rank test.
    let logarithms: Vec<f64> =
        baseline.iter().zip(candidate).map(|(baseline, candidate)| (candidate / baseline).ln()).collect();
    let (center, p_value) = center_with_p_value(&logarithms, CONFIDENCE, seed, compare_with_one)?;
    RatioEstimate::new(center.value.exp(), center.interval.and_then(exp), p_value)
}

/// Compares a ratio with 1, given its logarithm. Near 0 the ratio itself decides, because the logarithm of a ratio of 1 may
/// differ from 0 by a rounding error.
fn compare_with_one(log: f64) -> Ordering {
    if log.abs() > ROUNDING_MAX { log.total_cmp(&0.0) } else { log.exp().total_cmp(&1.0) }
}

/// Returns the candidate's median divided by the baseline's, for independent samples. From 6 samples a side, the interval
/// is that of the `BCa` bootstrap ([`super::bca_interval_independent`]), with fewer Welch's t interval of the logarithms.
/// The p value inverts this interval. Equal samples give an interval of width 0.
///
/// `None` if a side has no samples, a sample that is not finite or not above 0 (see [`super::hodges_lehmann_shift`]), or
/// if the ratio is outside the range of `f64`.
pub fn ratio_of_medians(baseline: &[f64], candidate: &[f64], seed: u64, resamples: usize) -> Option<RatioEstimate> {
    let (ranked_baseline, ranked_candidate) = (RankedSample::new(baseline)?, RankedSample::new(candidate)?);
    let ratio = ranked_candidate.median() / ranked_baseline.median();
    let (interval, p_value) = if baseline.len().min(candidate.len()) < RANKS_FROM {
        welch_test(&logarithms(baseline), &logarithms(candidate))
    } else {
        let resampling = Resampling { seed, resamples, confidence: CONFIDENCE };
        let test = independent_test(ranked_baseline, ranked_candidate, &resampling);
        test.map_or((None, 1.0), |(interval, p_value)| (Some(interval), p_value))
    };
    RatioEstimate::new(ratio, interval, p_value)
}

/// Returns Welch's t interval of the ratio and the p value of its test, from the logarithms of the samples.
fn welch_test(baseline: &[f64], candidate: &[f64]) -> (Option<Interval>, f64) {
    let means = Mean::of(baseline).zip(Mean::of(candidate));
    let p_value = means.map_or(1.0, |(own, other)| mean_p_value(other.value - own.value, &[own, other]));
    (welch_interval(baseline, candidate, CONFIDENCE).and_then(exp), p_value)
}

fn independent_test(
    mut baseline: RankedSample,
    mut candidate: RankedSample,
    resampling: &Resampling,
) -> Option<(Interval, f64)> {
    let (baseline_ranks, candidate_ranks) = (baseline.ranks.clone(), candidate.ranks.clone());
    let ratio = |from_baseline: &mut [u32], from_candidate: &mut [u32]| {
        let above = candidate.median_of_draw(from_candidate.iter().copied());
        above / baseline.median_of_draw(from_baseline.iter().copied())
    };
    bca_test_independent(&baseline_ranks, &candidate_ranks, ratio, 1.0, resampling)
}

/// A sample that is sorted once, so that the median of a draw is found by counting instead of comparing: this makes
/// thousands of bootstraps affordable.
struct RankedSample {
    sorted: Vec<f64>,
    /// Position in `sorted` of each sample, in the original order.
    ranks: Vec<u32>,
    /// Number of times each position was drawn; all 0 between draws.
    counts: Vec<u32>,
}

impl RankedSample {
    /// Sorts a sample; `None` if it is empty, or a value is not finite or not above 0.
    fn new(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values).filter(|sorted| sorted[0] > 0.0)?;
        let mut order: Vec<u32> = (0..u32::try_from(values.len()).ok()?).collect();
        order.sort_unstable_by(|one, other| values[*one as usize].total_cmp(&values[*other as usize]));
        let mut ranks = vec![0; values.len()];
        for (rank, index) in order.iter().enumerate() {
            ranks[*index as usize] = rank as u32;
        }
        Some(Self { counts: vec![0; sorted.len()], sorted, ranks })
    }

    fn median(&self) -> f64 {
        median_of_sorted(&self.sorted)
    }

    /// Returns the median of the samples at these ranks, of which there must be at least one.
    fn median_of_draw(&mut self, ranks: impl ExactSizeIterator<Item = u32>) -> f64 {
        let drawn = ranks.len();
        for rank in ranks {
            self.counts[rank as usize] += 1;
        }
        let (below, middle_low) = place(&self.counts, 0, 0, (drawn - 1) / 2);
        let (_, middle_high) = place(&self.counts, below, middle_low, drawn / 2);
        self.counts.fill(0);
        f64::midpoint(self.sorted[middle_low], self.sorted[middle_high])
    }
}

/// Returns the position at which the sample of this index (from 0, in order) was drawn, searching from `from`, before
/// which `below` were drawn; and the number drawn before that position.
fn place(counts: &[u32], mut below: usize, from: usize, index: usize) -> (usize, usize) {
    let mut at = from;
    while below + (counts[at] as usize) <= index {
        below += counts[at] as usize;
        at += 1;
    }
    (below, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::statistics::RESAMPLES;
    use crate::stats::statistics::golden::{assert_close, assert_interval, cases, number, numbers};
    use crate::stats::statistics::summary::median;

    fn pairs(baseline: &[f64], candidate: &[f64]) -> Option<RatioEstimate> {
        ratio_of_pairs(baseline, candidate, 11)
    }

    fn medians(baseline: &[f64], candidate: &[f64]) -> Option<RatioEstimate> {
        ratio_of_medians(baseline, candidate, 11, RESAMPLES)
    }

    type Estimator = fn(&[f64], &[f64]) -> Option<RatioEstimate>;

    const BOTH: [Estimator; 2] = [pairs, medians];

    #[test]
    fn ratios_of_medians_agree_with_scipy() {
        for case in cases("ratio") {
            let name = case["name"].as_str().unwrap();
            let (baseline, candidate) = (numbers(&case["baseline"]), numbers(&case["candidate"]));
            let expected = &case["apart"];
            let estimate = medians(&baseline, &candidate).unwrap();
            assert_close(estimate.ratio, number(&expected["ratio"]), name);
            if expected["exact"].as_bool().unwrap() {
                assert_interval(estimate.interval, &expected["interval"], name);
            } else {
                let (interval, expected) = (estimate.interval.unwrap(), numbers(&expected["interval"]));
                // Two bootstraps with different draws: the ends of a median's interval differ by whole samples.
                let allowed = 0.15 * (expected[1] - expected[0]);
                assert!((interval.low - expected[0]).abs() < allowed, "{name} {interval:?} {expected:?}");
                assert!((interval.high - expected[1]).abs() < allowed, "{name} {interval:?} {expected:?}");
            }
        }
    }

    #[test]
    fn ratios_of_pairs_are_those_of_the_inverted_test() {
        for case in cases("differences") {
            let differences = numbers(&case["values"]);
            let name = case["name"].as_str().unwrap();
            let baseline: Vec<f64> = (0..differences.len()).map(|block| 1.0 + block as f64).collect();
            let scale = 0.01 / differences.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
            let candidate: Vec<f64> =
                baseline.iter().zip(&differences).map(|(baseline, value)| baseline * (scale * value).exp()).collect();
            let estimate = pairs(&baseline, &candidate).unwrap();
            let close = |actual: f64, expected: f64| assert!((actual - expected).abs() < 1e-12, "{name} {actual}");
            close(estimate.ratio.ln(), scale * number(&case["center"]));
            if let Some(interval) = estimate.interval {
                let expected = numbers(&case["center_interval"]);
                close(interval.low.ln(), scale * expected[0]);
                close(interval.high.ln(), scale * expected[1]);
            }
        }
    }

    #[test]
    fn claim_and_p_value_of_pairs_agree() {
        for count in 3..30_u32 {
            for shift in 0..40_u32 {
                let baseline: Vec<f64> = (0..count).map(|i| 1.0 + f64::from(i)).collect();
                let noise = |i: u32| 0.001 * (f64::from(i * 7 % 13) + 0.01 * f64::from(i * i % 7));
                let ratio = |i: u32| (noise(i) - 0.0003 * f64::from(shift)).exp();
                let candidate: Vec<f64> = baseline.iter().zip(0..).map(|(baseline, i)| baseline * ratio(i)).collect();
                let estimate = pairs(&baseline, &candidate).unwrap();
                let is_claimed = !estimate.interval.unwrap().contains(1.0);
                assert_eq!(is_claimed, estimate.p_value < 0.05, "{count} {shift} {estimate:?}");
            }
        }
    }

    fn samples() -> impl Strategy<Value = Vec<f64>> {
        // Few distinct values give ties; both sides overlap, so that many cases are near the limit of a claim.
        proptest::collection::vec((20..32_u32).prop_map(f64::from), 2..24)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn interval_and_p_value_never_contradict(baseline in samples(), candidate in samples(), shift in 0..8_u32) {
            let candidate: Vec<f64> = candidate.iter().map(|value| value + f64::from(shift)).collect();
            let count = baseline.len().min(candidate.len());
            let paired = pairs(&baseline[..count], &candidate[..count]).unwrap();
            for estimate in [paired, medians(&baseline, &candidate).unwrap()] {
                let is_claimed = !estimate.interval.unwrap().contains(1.0);
                let is_unlikely = estimate.p_value < 0.05;
                prop_assert_eq!(is_claimed, is_unlikely, "{:?}", estimate);
            }
        }
    }

    #[test]
    fn median_by_counting_equals_the_plain_median() {
        let values = [3.0, 1.0, 2.0, 2.0, 9.0, 4.0, 1.0];
        let mut ranked = RankedSample::new(&values).unwrap();
        for draw in [vec![0], vec![0, 1], vec![4, 4, 4], vec![0, 1, 2, 3, 4, 5, 6], vec![4, 1, 1, 4], vec![5, 0, 3, 4]]
        {
            let plain: Vec<f64> = draw.iter().map(|index| values[*index]).collect();
            let ranks: Vec<u32> = draw.iter().map(|index| ranked.ranks[*index]).collect();
            assert_eq!(Some(ranked.median_of_draw(ranks.iter().copied())), median(&plain), "{draw:?}");
        }
    }

    #[test]
    fn paired_intervals_are_narrower_if_drift_is_common() {
        let drift: Vec<f64> = (0..12).map(|i| 10.0 + f64::from(i * i)).collect();
        let candidate: Vec<f64> = drift.iter().enumerate().map(|(i, d)| d * (1.1 + 0.001 * i as f64)).collect();
        let paired = pairs(&drift, &candidate).unwrap();
        let apart = medians(&drift, &candidate).unwrap();
        assert!(paired.interval.unwrap().half_width() < 0.1 * apart.interval.unwrap().half_width());
        assert!(paired.p_value < 0.001 && apart.p_value > 0.3);
    }

    #[test]
    fn few_and_equal_samples_have_ratios() {
        for ratio in BOTH {
            let one = ratio(&[2.0], &[3.0]).unwrap();
            assert!((one.ratio - 1.5).abs() < 1e-15 && one.interval.is_none());
            assert!((one.p_value - 1.0).abs() < 1e-15);
            for count in [2, 5, 6, 30] {
                let equal = ratio(&vec![2.0; count], &vec![3.0; count]).unwrap();
                let interval = equal.interval.unwrap();
                assert!((interval.low - 1.5).abs() < 1e-15 && interval.half_width() < 1e-15, "{count} {interval:?}");
            }
            let same = ratio(&[4.0; 8], &[4.0; 8]).unwrap();
            assert_eq!((same.ratio, same.interval, same.p_value), (1.0, Interval::between(1.0, 1.0), 1.0));
        }
        assert_eq!(medians(&[1.0], &[1.0, 2.0, 3.0]).unwrap().interval, None);
    }

    #[test]
    fn invalid_samples_have_no_ratio() {
        let good = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut values = good;
            values[3] = bad;
            for ratio in BOTH {
                assert_eq!(ratio(&values, &good), None);
                assert_eq!(ratio(&good, &values), None);
            }
        }
        assert_eq!(pairs(&[], &[]), None);
        assert_eq!(pairs(&good, &good[1..]), None, "not pairs");
        assert_eq!(medians(&[1e-300; 7], &[1e300; 7]), None, "beyond f64");
        assert_eq!(pairs(&[1e-300; 7], &[1e300; 7]), None, "beyond f64");
        assert!(pairs(&[1e300; 7], &good.map(|value| value * 1e300)).unwrap().interval.is_some());
    }

    #[test]
    fn ratio_intervals_contain_the_ratio() {
        for count in 2..12_u32 {
            let baseline: Vec<f64> = (0..count).map(|i| 1.0 + f64::from(i * 7 % 11)).collect();
            let candidate: Vec<f64> = (0..count).map(|i| 1.0 + f64::from(i * i * 5 % 13).exp()).collect();
            for ratio in BOTH {
                let estimate = ratio(&baseline, &candidate).unwrap();
                assert!(estimate.interval.unwrap().contains(estimate.ratio), "{count} {estimate:?}");
            }
        }
    }
}
