//! Hodges-Lehmann estimates: the shift between samples, in their unit, with the interval of the matching rank test.
//!
//! Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963; the intervals invert Wilcoxon's and Mann and
//! Whitney's tests. If there are too few samples for ranks to reach the confidence (6 differences, or 4 samples on each
//! side, reach 95 %), the interval is Student's or Welch's, extended to contain the shift.

use std::cmp::Ordering;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::rank_distribution::RankStatistic;
use super::student::{Mean, mean_p_value, student_interval, welch_interval};
use super::{Estimate, Interval};

/// Maximum number of averages or differences: 32 MB, a tenth of a second. Larger samples are reduced at random, and the
/// interval is that of the reduced samples, so it is wider than necessary.
const COMBINATIONS_MAX: usize = 4_000_000;
/// Number of samples with [`COMBINATIONS_MAX`] averages of two, and of samples per side with that many differences.
const AVERAGED_MAX: usize = 2_800;
const SIDE_MAX: usize = 2_000;
const _: () = assert!(AVERAGED_MAX * (AVERAGED_MAX + 1) / 2 <= COMBINATIONS_MAX);
const _: () = assert!(SIDE_MAX * SIDE_MAX <= COMBINATIONS_MAX);

/// Returns the centre of one sample, or of the differences of pairs: the median of the averages of any two, including
/// each with itself. In the unit of the samples. The seed is only used to reduce more than 2800 samples.
///
/// `None` without samples or with one that is not finite; the interval is `None` with fewer than 2, or with a
/// confidence outside (0, 1).
pub fn hodges_lehmann_center(values: &[f64], confidence: f64, seed: u64) -> Option<Estimate> {
    center_with_p_value(values, confidence, seed, |value| value.partial_cmp(&0.0).unwrap_or(Ordering::Equal))
        .map(|(center, _)| center)
}

/// Returns the centre of [`hodges_lehmann_center`], and the two-sided p value of the test that its interval inverts:
/// Wilcoxon's signed ranks, or Student's t if there are too few values for ranks.
///
/// `side` is the side of no difference on which an average is. Ties count as evidence against a difference, as they do in
/// the interval: with them, the p value is larger than that of [`super::wilcoxon_signed_rank`].
pub(crate) fn center_with_p_value(
    values: &[f64],
    confidence: f64,
    seed: u64,
    side: impl Fn(f64) -> Ordering,
) -> Option<(Estimate, f64)> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let values = drawn(values, AVERAGED_MAX, &mut ChaCha8Rng::seed_from_u64(seed));
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, one) in values.iter().enumerate() {
        averages.extend(values[..=index].iter().map(|other| f64::midpoint(*one, *other)));
    }
    let shape = RankStatistic::SignedRank(values.len());
    let depth = shape.depth(confidence);
    let p_value = if depth.is_some() {
        let count = |without: Ordering| averages.iter().filter(|value| side(**value) != without).count();
        shape.p_value(count(Ordering::Greater).min(count(Ordering::Less)))
    } else {
        Mean::of(&values).map_or(1.0, |mean| mean_p_value(mean.value, &[mean]))
    };
    Some((estimate(&mut averages, depth, || student_interval(&values, confidence))?, p_value))
}

/// Returns the difference of the candidate to the baseline: the median of all differences of one from each side. In the
/// unit of the samples. The seed is only used to reduce samples with more than 4 million differences.
///
/// `None` if a side has no samples or one that is not finite, or if the shift is outside the range of `f64`. The
/// interval is
/// `None` if a side has fewer than 2 and ranks do not reach the confidence, or with a confidence outside (0, 1).
pub fn hodges_lehmann_shift(baseline: &[f64], candidate: &[f64], confidence: f64, seed: u64) -> Option<Estimate> {
    if baseline.is_empty() || candidate.is_empty() {
        return None;
    }
    if !baseline.iter().chain(candidate).all(|value| value.is_finite()) {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let few_baseline = drawn(baseline, side_max(candidate.len()), &mut rng);
    let few_candidate = drawn(candidate, side_max(baseline.len()), &mut rng);
    let mut differences = Vec::with_capacity(few_baseline.len() * few_candidate.len());
    for one in &few_candidate {
        differences.extend(few_baseline.iter().map(|other| one - other));
    }
    let depth = RankStatistic::RankSum(few_baseline.len(), few_candidate.len()).depth(confidence);
    estimate(&mut differences, depth, || welch_interval(&few_baseline, &few_candidate, confidence))
}

/// Returns the number of samples of a side that may be used if the other has this many; at least one.
fn side_max(other: usize) -> usize {
    COMBINATIONS_MAX / other.min(SIDE_MAX)
}

/// Returns the median of the combinations, and the interval at this depth; without a depth, the interval for few
/// samples.
fn estimate(
    combinations: &mut [f64],
    depth: Option<usize>,
    of_few: impl FnOnce() -> Option<Interval>,
) -> Option<Estimate> {
    let count = combinations.len();
    let (below, low_middle, above) = combinations.select_nth_unstable_by((count - 1) / 2, f64::total_cmp);
    let low_middle = *low_middle;
    let high_middle = if count % 2 == 1 { low_middle } else { order_statistic(above, 0) };
    let value = f64::midpoint(low_middle, high_middle);
    let interval = match depth {
        // Each end is in the half that the selection of the median has left on its side.
        Some(depth) => {
            let low = if depth <= below.len() { order_statistic(below, depth - 1) } else { low_middle };
            let from_end = above.len().checked_sub(depth);
            let high = from_end.map_or(high_middle, |index| order_statistic(above, index));
            Interval::between(low, high)
        }
        None => of_few(),
    };
    let interval = interval.map(|interval| interval.widened_to(value));
    value.is_finite().then_some(Estimate { value, interval })
}

/// Returns the value that would be at this index after sorting.
fn order_statistic(values: &mut [f64], index: usize) -> f64 {
    *values.select_nth_unstable_by(index, f64::total_cmp).1
}

/// Returns all samples, or `count` of them without replacement.
fn drawn(values: &[f64], count_max: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut drawn = values.to_vec();
    if drawn.len() <= count_max {
        return drawn;
    }
    for index in 0..count_max {
        // Scaled without rejection: the bias is below the number of samples over 2^64.
        let other = (u128::from(rng.next_u64()) * (drawn.len() - index) as u128) >> 64;
        drawn.swap(index, index + other as usize);
    }
    drawn.truncate(count_max);
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::golden::{assert_close, assert_interval, cases, number, numbers};

    #[test]
    fn centers_agree_with_the_inverted_test() {
        for case in cases("differences") {
            let estimate = hodges_lehmann_center(&numbers(&case["values"]), 0.95, 1).unwrap();
            assert_close(estimate.value, number(&case["center"]), case["name"].as_str().unwrap());
            assert_interval(estimate.interval, &case["center_interval"], case["name"].as_str().unwrap());
        }
    }

    #[test]
    fn selected_values_are_those_of_a_sorted_sample() {
        for count in 1..10 {
            let shuffled: Vec<f64> = (0..count).map(|index| f64::from(index * 7 % 11)).collect();
            let mut sorted = shuffled.clone();
            sorted.sort_by(f64::total_cmp);
            for depth in 1..=sorted.len().div_ceil(2) {
                let found = estimate(&mut shuffled.clone(), Some(depth), || None).unwrap();
                let interval = Interval::between(sorted[depth - 1], sorted[sorted.len() - depth]);
                assert_eq!(found.interval, interval, "{count} {depth}");
                let value = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
                assert_eq!(found.value.to_bits(), value.to_bits(), "{count}");
            }
        }
    }

    #[test]
    fn shifts_agree_with_the_inverted_test() {
        for case in cases("two_samples") {
            let (baseline, candidate) = (numbers(&case["baseline"]), numbers(&case["candidate"]));
            let estimate = hodges_lehmann_shift(&baseline, &candidate, 0.95, 1).unwrap();
            assert_close(estimate.value, number(&case["shift"]), case["name"].as_str().unwrap());
            assert_interval(estimate.interval, &case["shift_interval"], case["name"].as_str().unwrap());
        }
    }

    #[test]
    fn invalid_samples_have_no_shift_or_a_finite_one() {
        assert_eq!(hodges_lehmann_center(&[], 0.95, 1), None);
        assert_eq!(hodges_lehmann_center(&[f64::NAN], 0.95, 1), None);
        assert_eq!(hodges_lehmann_center(&[2.0], 0.95, 1), Some(Estimate { value: 2.0, interval: None }));
        assert_eq!(hodges_lehmann_center(&[2.0; 4], 2.0, 1), Some(Estimate { value: 2.0, interval: None }));
        for count in [2, 5, 6, 60] {
            let zero_width = Some(Estimate { value: 2.0, interval: Interval::between(2.0, 2.0) });
            assert_eq!(hodges_lehmann_center(&vec![2.0; count], 0.95, 1), zero_width);
            assert_eq!(hodges_lehmann_shift(&vec![1.0; count], &vec![3.0; count], 0.95, 1), zero_width);
        }
        assert_eq!(hodges_lehmann_shift(&[1.0], &[], 0.95, 1), None);
        assert_eq!(hodges_lehmann_shift(&[], &[1.0], 0.95, 1), None);
        assert_eq!(hodges_lehmann_shift(&[f64::INFINITY], &[1.0], 0.95, 1), None);
        assert_eq!(
            hodges_lehmann_shift(&[1.0], &[4.0], 0.95, 1),
            Some(Estimate { value: 3.0, interval: None }),
            "one sample on each side"
        );
        assert_eq!(hodges_lehmann_shift(&[-f64::MAX], &[f64::MAX], 0.95, 1), None, "beyond f64");
        assert!(hodges_lehmann_center(&[f64::MAX; 8], 0.95, 1).unwrap().interval.is_some());
    }

    #[test]
    fn combinations_are_bounded_and_the_seed_decides() {
        let many: Vec<f64> = (0..30_000).map(|i| f64::from(i * 7919 % 30_011)).collect();
        let center = hodges_lehmann_center(&many, 0.95, 1).unwrap();
        assert_eq!(hodges_lehmann_center(&many, 0.95, 1).unwrap(), center);
        assert_ne!(hodges_lehmann_center(&many, 0.95, 2).unwrap(), center);
        assert!(center.interval.unwrap().contains(15_000.0), "{center:?}");
        for (one, other) in [(5, 30_000), (5, 5_000_000), (1999, 2001), (30_000, 30_000), (1, 9_000_000)] {
            let combinations = one.min(side_max(other)) * other.min(side_max(one));
            assert!(combinations <= COMBINATIONS_MAX, "{one} {other}");
            assert!(
                combinations == one * other || combinations > COMBINATIONS_MAX / 2,
                "no more samples are left out than necessary"
            );
        }
        let shifted: Vec<f64> = many.iter().map(|value| value + 500.0).collect();
        let shift = hodges_lehmann_shift(&many, &shifted, 0.95, 3).unwrap();
        assert!(shift.interval.unwrap().contains(500.0), "{shift:?}");
    }

    #[test]
    fn draws_use_each_sample_at_most_once() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let mut drawn = drawn(&values, 60, &mut ChaCha8Rng::seed_from_u64(5));
        drawn.sort_unstable_by(f64::total_cmp);
        drawn.dedup();
        assert_eq!(drawn.len(), 60);
        assert!(drawn.iter().any(|value| *value >= 60.0), "from all samples, not only the first");
    }
}
