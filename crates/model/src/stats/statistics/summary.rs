//! Statistics of one set of samples: median, quantiles, interval and noise.

use statrs::distribution::{Binomial, DiscreteCDF};

use super::student::{log_interval, normal_quantile};
use super::{CONFIDENCE, Estimate, Interval, is_confidence};

/// The middle sample, or halfway between the two middle ones, in the unit of the samples.
///
/// `None` without samples or with one that is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    sorted(values).map(|sorted| median_of_sorted(&sorted))
}

/// Returns the value below which the share `q` of the samples is, interpolated between neighbours: type 7 of Hyndman
/// and Fan (The American Statistician 50, 1996), the default of R and `NumPy`. In the unit of the samples.
///
/// `None` without samples, with one that is not finite, or with `q` outside [0, 1].
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let sorted = sorted(values)?;
    (0.0..=1.0).contains(&q).then(|| quantile_of_sorted(&sorted, q))
}

/// The interval of the median, in the unit of the samples; it holds the median of the samples.
///
/// From as many samples as the confidence needs (6 for 95 %) it is made of order statistics, whatever the distribution,
/// interpolated between the two depths around the confidence (Hettmansperger and Sheather, Statistics and Probability
/// Letters 4, 1986). With fewer it is the t interval of the logarithms, or of the plain samples if one is not above 0.
///
/// `None` with fewer than 2 samples, one that is not finite, or a confidence outside (0, 1).
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    median_estimate(values, confidence)?.interval
}

/// [`median`] with its [`median_interval`]. `None` without samples or with one that is not finite.
pub fn median_estimate(values: &[f64], confidence: f64) -> Option<Estimate> {
    let sorted = sorted(values)?;
    let value = median_of_sorted(&sorted);
    let interval = order_statistic_interval(&sorted, confidence).or_else(|| log_interval(&sorted, confidence));
    Some(Estimate { value, interval: interval.map(|interval| interval.widened_to(value)) })
}

/// Half the width of the median's 95 % interval over the median, without a unit: 0.02 is "known to 2 %".
///
/// `None` if the median has no interval, or if it is 0 and the interval is not that single point.
pub fn relative_half_width(values: &[f64]) -> Option<f64> {
    let Estimate { value, interval } = median_estimate(values, CONFIDENCE)?;
    let half = interval?.half_width();
    let relative = if half > 0.0 { half / value.abs() } else { 0.0 };
    relative.is_finite().then_some(relative)
}

/// Returns a scale estimate, as a standard deviation in the unit of the samples: 1.4826 times the median distance from
/// the median (Hampel, Journal of the American Statistical Association 69, 1974). A minority of outliers does not
/// change it; it is 0 if more than half of the samples are equal.
///
/// `None` without samples, with one that is not finite, or where a distance is not finite.
pub fn mad_noise(values: &[f64]) -> Option<f64> {
    // 1 over the 3/4 quantile of the normal distribution: makes the estimate that of the standard deviation there.
    const NORMAL_SCALE: f64 = 1.482_602_218_505_602;
    let center = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    Some(median(&distances)? * NORMAL_SCALE).filter(|noise| noise.is_finite())
}

/// Returns the sorted samples; `None` if there are none or one is not finite.
pub(super) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// The median of samples that are in order and at least one.
pub(super) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let count = sorted.len();
    f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2])
}

/// The type 7 quantile of samples that are in order and at least one; `q` lies in [0, 1].
pub(super) fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    between(sorted[below], sorted[above], position - position.floor())
}

/// The point at this share of the way from one value to the other. Not `one + (other - one) * share`, whose difference
/// overflows for huge values of different sign.
fn between(one: f64, other: f64, share: f64) -> f64 {
    // Clamped, because rounding could make equal values differ.
    (one * (1.0 - share) + other * share).clamp(one.min(other), one.max(other))
}

/// `None` if the confidence is not one, or if even the smallest and the largest sample do not reach it.
fn order_statistic_interval(sorted: &[f64], confidence: f64) -> Option<Interval> {
    let count = sorted.len();
    let depth = depth(count, confidence)?;
    let (reached, inner) = (coverage(count, depth), coverage(count, depth + 1));
    let excess = (reached - confidence) / (reached - inner);
    let (n, d) = (count as f64, depth as f64);
    let share = (n - d) * excess / (d + (n - 2.0 * d) * excess);
    // Depths count from 1: the d-th sample from below is sorted[d - 1], from above sorted[count - d].
    let low = between(sorted[depth - 1], sorted[depth], share);
    let high = between(sorted[count - depth], sorted[count - depth - 1], share);
    Interval::between(low, high)
}

/// The largest depth at which the interval from the d-th smallest to the d-th largest sample has the confidence.
fn depth(count: usize, confidence: f64) -> Option<usize> {
    if count < 2 || !is_confidence(confidence) || coverage(count, 1) < confidence {
        return None;
    }
    let n = count as f64;
    let guess = n / 2.0 - normal_quantile(f64::midpoint(1.0, confidence)) * n.sqrt() / 2.0;
    // The guess falls short by at most two (tried for 2 to 400 and up to a million samples, at ten confidences); one
    // less is certainly not too deep, and the walk from there is short, with the middle as its bound.
    let mut depth = (guess as usize).saturating_sub(1).clamp(1, count / 2);
    while depth < count / 2 && coverage(count, depth + 1) >= confidence {
        depth += 1;
    }
    Some(depth)
}

/// Returns the probability that the median is between the d-th smallest and the d-th largest sample.
fn coverage(count: usize, depth: usize) -> f64 {
    let below = Binomial::new(0.5, count as u64).expect("1/2 is a probability").cdf(depth as u64 - 1);
    (1.0 - 2.0 * below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::golden::{assert_close, assert_interval, cases, number, numbers};

    #[test]
    fn medians_quantiles_and_noise_agree_with_scipy() {
        for case in cases("summary") {
            let values = numbers(&case["values"]);
            let name = case["name"].as_str().unwrap();
            assert_close(median(&values).unwrap(), number(&case["median"]), name);
            assert_close(mad_noise(&values).unwrap(), number(&case["mad_noise"]), name);
            for (q, expected) in [0.0, 0.05, 0.5, 0.9, 0.99, 1.0].iter().zip(numbers(&case["quantiles"])) {
                assert_close(quantile(&values, *q).unwrap(), expected, name);
            }
        }
    }

    #[test]
    fn median_intervals_agree_with_the_papers_formula() {
        for case in cases("summary") {
            let values = numbers(&case["values"]);
            let name = case["name"].as_str().unwrap();
            assert_interval(median_interval(&values, 0.95), &case["median_interval_95"], name);
            assert_interval(median_interval(&values, 0.99), &case["median_interval_99"], name);
        }
    }

    #[test]
    fn empty_samples_have_no_median_and_single_samples_are_their_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median_interval(&[], 0.95), None);
        assert_eq!(relative_half_width(&[]), None);
        assert_eq!(mad_noise(&[]), None);
        assert_eq!(median_estimate(&[7.0], 0.95), Some(Estimate { value: 7.0, interval: None }));
        assert_eq!(relative_half_width(&[7.0]), None);
        assert_eq!(mad_noise(&[7.0]), Some(0.0));
        assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
    }

    #[test]
    fn samples_must_be_finite() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let values = [1.0, bad, 2.0, 3.0, 4.0, 5.0, 6.0];
            assert_eq!(median(&values), None);
            assert_eq!(quantile(&values, 0.5), None);
            assert_eq!(median_estimate(&values, 0.95), None);
            assert_eq!(relative_half_width(&values), None);
            assert_eq!(mad_noise(&values), None);
            assert_eq!(quantile(&[1.0, 2.0], bad), None);
            assert_eq!(median_interval(&[1.0, 2.0, 3.0], bad), None);
        }
    }

    #[test]
    fn equal_samples_have_an_interval_without_width() {
        for count in [2, 5, 6, 7, 8, 9, 10, 11, 13, 17, 30] {
            for value in [0.1, 0.3, 0.7, 1.1, 3.7, 5.9] {
                let values = vec![value; count];
                let interval = median_interval(&values, 0.95).unwrap();
                // With few samples it went through logarithms, and may be one rounding wide.
                assert!(interval.contains(value) && interval.half_width() < 1e-15, "{interval:?}");
                assert!(count < 6 || interval.half_width() <= 0.0, "{interval:?}");
                assert!(relative_half_width(&values).unwrap() < 1e-15);
            }
        }
        assert_eq!(relative_half_width(&[0.0; 9]), Some(0.0));
        assert_eq!(relative_half_width(&[-1.0, 0.0, 1.0]), None, "a median of 0 has no relative width");
    }

    #[test]
    fn interpolation_between_equal_values_is_exact() {
        for share in (0..1000).map(|thousandths| f64::from(thousandths) / 1000.0) {
            for value in [0.1, -0.3, 0.7, 1.1, 3.7, 5.9] {
                let there = between(value, value, share);
                assert!((there - value).abs() <= 0.0, "{there} is not {value}");
            }
        }
    }

    #[test]
    fn huge_and_negative_samples_stay_finite() {
        let huge = [-f64::MAX, f64::MAX, f64::MAX, -f64::MAX, 0.0, 1.0, 2.0];
        assert_eq!(median(&huge), Some(1.0));
        assert!(median_interval(&huge, 0.95).is_some());
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
        assert_eq!(quantile(&[-f64::MAX, f64::MAX], 0.5), Some(0.0));
        assert_eq!(median_interval(&[-f64::MAX, f64::MAX], 0.95), None, "the t interval is beyond f64");
        assert_eq!(relative_half_width(&[-3.0, -3.0, -3.0]), Some(0.0));
        assert!(relative_half_width(&[-1.0, -2.0, -3.0, -4.0]).unwrap() > 0.0);
    }

    #[test]
    fn low_confidences_and_even_counts_keep_the_median_inside() {
        for count in 2..40 {
            let values: Vec<f64> = (0..count).map(|i| f64::from(i * i)).collect();
            for confidence in [0.001, 0.1, 0.3, 0.5, 0.9, 0.99, 0.9999] {
                let interval = median_interval(&values, confidence).unwrap();
                assert!(interval.contains(median(&values).unwrap()), "{count} {confidence}");
            }
        }
    }
}
