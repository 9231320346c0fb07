//! Bootstrap intervals for any statistic of blocks or of two samples: bias-corrected and accelerated (`BCa`), or plain.
//!
//! Efron, Better Bootstrap Confidence Intervals, Journal of the American Statistical Association 82, 1987; the
//! acceleration is that of the jackknife. With fewer than 6 samples a bootstrap undercovers: take a t interval there.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::student::{normal_probability, normal_quantile};
use super::summary::quantile_of_sorted;
use super::{Interval, is_confidence};

/// Maximum number of resamples; more would not change a significant digit.
const RESAMPLES_MAX: usize = 1_000_000;

/// Maximum number of jackknife values. With more samples, runs of neighbouring samples are left out, so that the
/// jackknife costs less than the bootstrap.
const JACKKNIFE_GROUPS_MAX: usize = 1000;

/// Options of resampling. There is no default, because each of these changes the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampling {
    /// Seed of all randomness: the same seed gives the same interval.
    pub seed: u64,
    /// Number of resamples, usually [`super::RESAMPLES`]; 0 gives no interval, at most a million are used.
    pub resamples: usize,
    /// Share of intervals that contain the true value, in (0, 1).
    pub confidence: f64,
}

/// The `BCa` interval of a statistic of blocks that are drawn whole: single samples, or pairs measured together.
///
/// The statistic gets the drawn blocks, may reorder and change them, and must not depend on their order. The cost is
/// that of `resamples` and up to 1000 more statistics over all blocks. In the unit of the statistic.
///
/// `None` with fewer than 2 blocks, no resamples, a confidence outside (0, 1), or if the statistic is not finite on the
/// blocks or on any draw from them.
pub fn bca_interval<T: Copy>(
    blocks: &[T],
    mut statistic: impl FnMut(&mut [T]) -> f64,
    resampling: &Resampling,
) -> Option<Interval> {
    let (estimate, replicates) = resampled(blocks, &mut statistic, resampling)?;
    let jackknife = jackknife(blocks, statistic);
    CorrectedDraws::new(estimate, replicates, &[jackknife])?.interval(resampling.confidence)
}

/// The plain percentile interval (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13) of a
/// statistic of blocks that are drawn whole: the quantiles of its resampled values, not corrected.
///
/// For statistics that change in a few large steps: the position of the estimate between steps is chance, so a bias
/// correction would only add noise. Otherwise as [`bca_interval`].
pub fn percentile_interval<T: Copy>(
    blocks: &[T],
    mut statistic: impl FnMut(&mut [T]) -> f64,
    resampling: &Resampling,
) -> Option<Interval> {
    let (estimate, mut replicates) = resampled(blocks, &mut statistic, resampling)?;
    if !estimate.is_finite() || !replicates.iter().all(|value| value.is_finite()) {
        return None;
    }
    replicates.sort_unstable_by(f64::total_cmp);
    interval_at(&replicates, 0.0, 0.0, resampling.confidence)
}

/// The `BCa` interval of a statistic of two independent samples, each resampled separately.
///
/// As [`bca_interval`]; the statistic gets the draws from the baseline and from the candidate. `None` also with fewer
/// than 2 samples on either side.
pub fn bca_interval_independent<T: Copy>(
    baseline: &[T],
    candidate: &[T],
    statistic: impl FnMut(&mut [T], &mut [T]) -> f64,
    resampling: &Resampling,
) -> Option<Interval> {
    bca_independent(baseline, candidate, statistic, resampling)?.interval(resampling.confidence)
}

/// Returns the interval of [`bca_interval_independent`], and the two-sided p value that inverts it: the largest level at
/// which the interval contains `null`. It is at least one over the number of draws, which cannot show more.
pub(super) fn bca_test_independent<T: Copy>(
    baseline: &[T],
    candidate: &[T],
    statistic: impl FnMut(&mut [T], &mut [T]) -> f64,
    null: f64,
    resampling: &Resampling,
) -> Option<(Interval, f64)> {
    let corrected = bca_independent(baseline, candidate, statistic, resampling)?;
    Some((corrected.interval(resampling.confidence)?, corrected.p_value(null)))
}

fn bca_independent<T: Copy>(
    baseline: &[T],
    candidate: &[T],
    mut statistic: impl FnMut(&mut [T], &mut [T]) -> f64,
    resampling: &Resampling,
) -> Option<CorrectedDraws> {
    if baseline.len() < 2 || candidate.len() < 2 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(resampling.seed);
    let (mut from_baseline, mut from_candidate) = (baseline.to_vec(), candidate.to_vec());
    let estimate = statistic(&mut from_baseline, &mut from_candidate);
    let replicates = (0..resampling.resamples.min(RESAMPLES_MAX))
        .map(|_| {
            draw(baseline, &mut from_baseline, &mut rng);
            draw(candidate, &mut from_candidate, &mut rng);
            statistic(&mut from_baseline, &mut from_candidate)
        })
        .collect();
    let without_baseline = jackknife(baseline, |kept| {
        from_candidate.copy_from_slice(candidate);
        statistic(kept, &mut from_candidate)
    });
    let without_candidate = jackknife(candidate, |kept| {
        from_baseline.copy_from_slice(baseline);
        statistic(&mut from_baseline, kept)
    });
    CorrectedDraws::new(estimate, replicates, &[without_baseline, without_candidate])
}

/// Returns the statistic of the blocks and of each draw from them; `None` with fewer than 2 blocks.
fn resampled<T: Copy>(
    blocks: &[T],
    statistic: &mut impl FnMut(&mut [T]) -> f64,
    resampling: &Resampling,
) -> Option<(f64, Vec<f64>)> {
    if blocks.len() < 2 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(resampling.seed);
    let mut drawn = blocks.to_vec();
    let estimate = statistic(&mut drawn);
    let replicates = (0..resampling.resamples.min(RESAMPLES_MAX))
        .map(|_| {
            draw(blocks, &mut drawn, &mut rng);
            statistic(&mut drawn)
        })
        .collect();
    Some((estimate, replicates))
}

/// Fills `drawn` with blocks drawn at random with replacement.
fn draw<T: Copy>(blocks: &[T], drawn: &mut [T], rng: &mut ChaCha8Rng) {
    let count = blocks.len() as u64;
    for slot in drawn {
        // Scaled without rejection: the bias is below the number of blocks over 2^32, far below that of resampling.
        *slot = blocks[((u64::from(rng.next_u32()) * count) >> 32) as usize];
    }
}

/// Returns the statistic with one sample, or one run of neighbouring samples, left out at a time.
fn jackknife<T: Copy>(blocks: &[T], mut statistic: impl FnMut(&mut [T]) -> f64) -> Vec<f64> {
    let groups = blocks.len().min(JACKKNIFE_GROUPS_MAX);
    let mut kept = Vec::with_capacity(blocks.len());
    (0..groups)
        .map(|group| {
            let (from, to) = (group * blocks.len() / groups, (group + 1) * blocks.len() / groups);
            kept.clear();
            kept.extend_from_slice(&blocks[..from]);
            kept.extend_from_slice(&blocks[to..]);
            statistic(&mut kept)
        })
        .collect()
}

/// The resampled values of a statistic with the corrections of the `BCa` method.
struct CorrectedDraws {
    sorted: Vec<f64>,
    bias: f64,
    acceleration: f64,
}

/// Steps of the bisection for a p value: more do not change a `f64`.
const BISECTIONS: usize = 60;
/// Quantile of the normal distribution beyond which a p value has no meaning: 1e-16.
const NORMAL_MAX: f64 = 8.3;

impl CorrectedDraws {
    /// From the statistic, its resampled values, and its jackknife values for each independent sample; `None` if one is
    /// not finite.
    fn new(estimate: f64, mut sorted: Vec<f64>, jackknives: &[Vec<f64>]) -> Option<Self> {
        let mut values = sorted.iter().chain(jackknives.iter().flatten());
        if sorted.is_empty() || !estimate.is_finite() || !values.all(|value| value.is_finite()) {
            return None;
        }
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self { bias: bias_correction(estimate, &sorted), acceleration: acceleration(jackknives), sorted })
    }

    fn interval(&self, confidence: f64) -> Option<Interval> {
        interval_at(&self.sorted, self.bias, self.acceleration, confidence)
    }

    fn p_value(&self, null: f64) -> f64 {
        let excludes = |normal: f64| {
            let end =
                |normal| quantile_of_sorted(&self.sorted, corrected_probability(normal, self.bias, self.acceleration));
            Interval::between(end(-normal), end(normal)).is_some_and(|interval| !interval.contains(null))
        };
        let (mut excluded, mut contained) = (0.0, NORMAL_MAX);
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(excluded, contained);
            if excludes(middle) {
                excluded = middle;
            } else {
                contained = middle;
            }
        }
        let resolution = 1.0 / (self.sorted.len() + 1) as f64;
        (2.0 * normal_probability(-excluded)).clamp(resolution, 1.0)
    }
}

/// Returns the interval between the sorted resampled values at the corrected probabilities of both ends.
fn interval_at(sorted: &[f64], bias: f64, acceleration: f64, confidence: f64) -> Option<Interval> {
    if sorted.is_empty() || !is_confidence(confidence) {
        return None;
    }
    let tail = normal_quantile(f64::midpoint(1.0, confidence));
    let end = |normal: f64| quantile_of_sorted(sorted, corrected_probability(normal, bias, acceleration));
    Interval::between(end(-tail), end(tail))
}

/// Share of resampled values below the estimate, as a normal quantile; ties count half.
fn bias_correction(estimate: f64, sorted: &[f64]) -> f64 {
    let below = sorted.partition_point(|value| *value < estimate);
    let through = sorted.partition_point(|value| *value <= estimate);
    let smallest = 0.5 / sorted.len() as f64;
    let share = (below + through) as f64 * smallest;
    // If all are on one side, the quantile would be infinite; half a resample is the resolution.
    normal_quantile(share.clamp(smallest, 1.0 - smallest))
}

/// Rate of change of the spread of the statistic with its value: the skewness of its jackknife values over 6.
fn acceleration(jackknives: &[Vec<f64>]) -> f64 {
    let influences: Vec<Vec<f64>> = jackknives.iter().map(|values| influences(values)).collect();
    let largest = influences.iter().flatten().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    // Also if the influences overflowed: without acceleration, the interval is only bias-corrected.
    if largest <= 0.0 || !largest.is_finite() {
        return 0.0;
    }
    // It is scale-free, so dividing by the largest influence avoids underflow of the cubes of small ones.
    let moment = |power: i32| -> f64 {
        let of_one = |values: &Vec<f64>| {
            let sum: f64 = values.iter().map(|value| (value / largest).powi(power)).sum();
            sum / (values.len() as f64).powi(power)
        };
        influences.iter().map(of_one).sum()
    };
    moment(3) / (6.0 * moment(2).powf(1.5))
}

/// Influence of each sample on the statistic: the mean of the jackknife values minus its own, times one less than their
/// number.
fn influences(jackknife: &[f64]) -> Vec<f64> {
    let count = jackknife.len() as f64;
    let mean = jackknife.iter().map(|value| value / count).sum::<f64>();
    jackknife.iter().map(|value| (count - 1.0) * (mean - value)).collect()
}

/// Returns the share of the resampled values below the end that the plain bootstrap would have at this quantile.
fn corrected_probability(normal: f64, bias: f64, acceleration: f64) -> f64 {
    let shifted = bias + normal;
    let divisor = 1.0 - acceleration * shifted;
    // Beyond its pole the formula changes sign; the limit before the pole is used.
    let corrected = if divisor > 0.0 { bias + shifted / divisor } else { shifted * f64::INFINITY };
    if corrected.is_finite() { normal_probability(corrected) } else { f64::from(u8::from(corrected > 0.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::golden::{assert_close, assert_interval, cases, number, numbers};
    use crate::stats::statistics::summary::median;

    const RESAMPLING: Resampling = Resampling { seed: 7, resamples: 1000, confidence: 0.95 };

    fn mean(values: &mut [f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn corrections_agree_with_scipy_on_its_own_resamples() {
        for case in cases("bca") {
            let name = case["name"].as_str().unwrap();
            let estimate = number(&case["estimate"]);
            let mut replicates = numbers(&case["replicates"]);
            let jackknives: Vec<Vec<f64>> = case["jackknives"].as_array().unwrap().iter().map(numbers).collect();
            let interval =
                CorrectedDraws::new(estimate, replicates.clone(), &jackknives).and_then(|draws| draws.interval(0.95));
            assert_interval(interval, &case["interval"], name);
            replicates.sort_unstable_by(f64::total_cmp);
            let (bias, acceleration) = (bias_correction(estimate, &replicates), acceleration(&jackknives));
            assert_close(bias, number(&case["bias"]), name);
            assert_close(acceleration, number(&case["acceleration"]), name);
            let probabilities = numbers(&case["probabilities"]);
            let tail = normal_quantile(0.975);
            assert_close(corrected_probability(-tail, bias, acceleration), probabilities[0], name);
            assert_close(corrected_probability(tail, bias, acceleration), probabilities[1], name);
        }
    }

    #[test]
    fn jackknife_values_agree_with_the_ones_scipy_used() {
        for case in cases("bca") {
            let samples: Vec<Vec<f64>> = case["samples"].as_array().unwrap().iter().map(numbers).collect();
            let expected: Vec<Vec<f64>> = case["jackknives"].as_array().unwrap().iter().map(numbers).collect();
            let actual = match samples.as_slice() {
                [only] => vec![jackknife(only, mean)],
                [first, second] => vec![
                    jackknife(first, |kept| mean(kept) / mean(&mut second.clone())),
                    jackknife(second, |kept| mean(&mut first.clone()) / mean(kept)),
                ],
                _ => unreachable!("cases have one or two samples"),
            };
            for (actual, expected) in actual.iter().flatten().zip(expected.iter().flatten()) {
                assert_close(*actual, *expected, case["name"].as_str().unwrap());
            }
        }
    }

    #[test]
    fn intervals_lie_near_scipys_own_random_ones() {
        for case in cases("bca") {
            let samples: Vec<Vec<f64>> = case["samples"].as_array().unwrap().iter().map(numbers).collect();
            let resampling = Resampling { resamples: 20_000, ..RESAMPLING };
            let interval = match samples.as_slice() {
                [only] => bca_interval(only, mean, &resampling),
                [first, second] => bca_interval_independent(first, second, |a, b| mean(a) / mean(b), &resampling),
                _ => unreachable!("cases have one or two samples"),
            };
            let (interval, expected) = (interval.unwrap(), numbers(&case["long_run"]));
            // The error of an end from 20000 resamples is about 2 % of the width.
            let allowed = 0.06 * (expected[1] - expected[0]);
            assert!((interval.low - expected[0]).abs() < allowed, "{interval:?} {expected:?}");
            assert!((interval.high - expected[1]).abs() < allowed, "{interval:?} {expected:?}");
        }
    }

    #[test]
    fn same_seed_gives_same_interval_and_pairs_are_kept() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i).sqrt()).collect();
        let interval = |seed| bca_interval(&values, mean, &Resampling { seed, ..RESAMPLING }).unwrap();
        assert_eq!(interval(1), interval(1));
        assert_ne!(interval(1), interval(2));
        // The noise of a pair is common to both values, so their ratio is known exactly.
        let pairs: Vec<(f64, f64)> = values.iter().map(|value| (value + 1.0, 2.0 * (value + 1.0))).collect();
        let ratio = |drawn: &mut [(f64, f64)]| {
            let (first, second): (Vec<f64>, Vec<f64>) = drawn.iter().copied().unzip();
            median(&second).unwrap() / median(&first).unwrap()
        };
        assert_eq!(bca_interval(&pairs, ratio, &RESAMPLING), Interval::between(2.0, 2.0));
    }

    #[test]
    fn degenerate_input_gives_no_width_or_no_interval() {
        assert_eq!(bca_interval(&[], mean, &RESAMPLING), None);
        assert_eq!(bca_interval(&[1.0], mean, &RESAMPLING), None);
        assert_eq!(bca_interval(&[1.0; 9], mean, &RESAMPLING), Interval::between(1.0, 1.0));
        assert_eq!(bca_interval(&[1.0, f64::NAN, 2.0], mean, &RESAMPLING), None);
        assert_eq!(bca_interval(&[1.0, 2.0], mean, &Resampling { resamples: 0, ..RESAMPLING }), None);
        assert_eq!(bca_interval(&[1.0, 2.0], mean, &Resampling { confidence: 1.0, ..RESAMPLING }), None);
        for few in [&[][..], &[1.0], &[1.0, f64::NAN, 2.0]] {
            assert_eq!(percentile_interval(few, mean, &RESAMPLING), None);
        }
        assert_eq!(percentile_interval(&[1.0; 9], mean, &RESAMPLING), Interval::between(1.0, 1.0));
        assert_eq!(percentile_interval(&[1.0, 2.0], mean, &Resampling { resamples: 0, ..RESAMPLING }), None);
        assert_eq!(percentile_interval(&[1.0, 2.0], mean, &Resampling { confidence: 0.0, ..RESAMPLING }), None);
        assert_eq!(bca_interval_independent(&[1.0], &[1.0, 2.0], |a, b| mean(a) / mean(b), &RESAMPLING), None);
        // Every draw is on one side of the estimate, but the result is finite.
        let mut calls = 0;
        let one_sided = |_: &mut [f64]| {
            calls += 1;
            f64::from(calls)
        };
        assert!(bca_interval(&[1.0, 2.0, 3.0], one_sided, &RESAMPLING).is_some());
        // Influences whose cubes and squares vanish or overflow.
        for scale in [1e-200, 1e200, 1e306] {
            let values: Vec<f64> = [1.0, 2.0, 3.0, 5.0, 8.0, 9.0].iter().map(|value| value * scale).collect();
            assert!(bca_interval(&values, mean, &RESAMPLING).is_some(), "{scale}");
        }
    }

    #[test]
    fn undefined_draws_are_detected_if_the_statistic_is_never_nan() {
        let sum = |one: &mut [f64], other: &mut [f64]| one.iter().chain(other.iter()).sum();
        assert_eq!(bca_interval_independent(&[1.0], &[1.0, 2.0], sum, &RESAMPLING), None);
        assert_eq!(bca_interval_independent(&[1.0, 2.0], &[1.0], sum, &RESAMPLING), None);
        // About one draw in 27 has no value, too few to reach the ends.
        let rarely_none = |drawn: &mut [f64]| if drawn.iter().all(|v| *v < 1.5) { f64::NAN } else { mean(drawn) };
        assert_eq!(bca_interval(&[1.0, 2.0, 3.0], rarely_none, &RESAMPLING), None);
        assert_eq!(percentile_interval(&[1.0, 2.0, 3.0], rarely_none, &RESAMPLING), None);
    }

    #[test]
    fn corrections_of_extreme_input_are_finite() {
        let all_above = bias_correction(0.0, &[1.0, 2.0, 3.0, 4.0]);
        assert_close(all_above, normal_quantile(0.125), "half a resample of four");
        assert_close(bias_correction(9.0, &[1.0, 2.0, 3.0, 4.0]), -all_above, "on the other side");
        assert!(acceleration(&[vec![1.0; 5]]).abs() <= 0.0, "no influence, no acceleration");
        let skewed = |scale: f64| acceleration(&[[1.0, 1.0, 2.0, 7.0].map(|value| value * scale).to_vec()]);
        assert!(skewed(1.0).abs() > 0.01);
        for scale in [1e-200, 1e200] {
            assert_close(skewed(scale), skewed(1.0), "it has no scale");
        }
    }

    #[test]
    fn jackknife_of_one_side_uses_the_whole_other_side() {
        let (baseline, candidate) = ([1.0, 2.0, 4.0], [8.0, 16.0, 32.0, 64.0]);
        let mut sums = Vec::new();
        let record = |one: &mut [f64], other: &mut [f64]| {
            let sum: f64 = one.iter().chain(other.iter()).sum();
            sums.push(sum);
            sum
        };
        bca_interval_independent(&baseline, &candidate, record, &RESAMPLING).unwrap();
        let left_out: Vec<f64> = sums[sums.len() - 7..].iter().map(|sum| 127.0 - sum).collect();
        assert_eq!(left_out, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
    }

    #[test]
    fn correction_beyond_its_pole_uses_the_limit() {
        assert!((corrected_probability(3.0, 0.0, 1.0) - 1.0).abs() < 1e-15);
        assert!(corrected_probability(-3.0, 0.0, -1.0).abs() < 1e-15);
    }

    #[test]
    fn jackknife_of_many_samples_leaves_out_runs() {
        let blocks: Vec<f64> = (0..2500).map(f64::from).collect();
        let mut lengths = Vec::new();
        let values = jackknife(&blocks, |kept| {
            lengths.push(kept.len());
            0.0
        });
        assert_eq!(values.len(), JACKKNIFE_GROUPS_MAX);
        let left_out: usize = lengths.iter().map(|length| blocks.len() - length).sum();
        assert_eq!(left_out, blocks.len(), "each is left out once");
    }
}
