//! Normal and t quantiles, and the t intervals of means: one sample, two samples, several parts together.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};
use statrs::function::erf::erfc;

use super::{Interval, is_confidence};

/// Degrees of freedom above which an expansion of the t quantile is used. It is accurate to ten digits there, while the
/// inverse incomplete beta function of `statrs` loses accuracy (at a million, all but three digits).
const EXPANSION_FROM: f64 = 1000.0;

/// The interval of the mean, by Student's t (Student, Biometrika 6, 1908), in the unit of the samples.
///
/// `None` with fewer than 2 samples, a sample that is not finite, or a confidence outside (0, 1).
pub fn student_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let mean = Mean::of(values)?;
    mean_interval(mean.value, &[mean], confidence)
}

/// The interval of the candidate's mean minus the baseline's, the variances being free to differ (Welch, Biometrika 34,
/// 1947), in the unit of the samples.
///
/// `None` with fewer than 2 samples on a side, a sample that is not finite, or a confidence outside (0, 1).
pub fn welch_interval(baseline: &[f64], candidate: &[f64], confidence: f64) -> Option<Interval> {
    let (baseline, candidate) = (Mean::of(baseline)?, Mean::of(candidate)?);
    mean_interval(candidate.value - baseline.value, &[baseline, candidate], confidence)
}

/// The t interval of the logarithms, taken back by `exp`, when all samples are above 0; of the plain samples otherwise.
/// Times and rates are nearer to log-normal than to normal.
pub(super) fn log_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    if values.iter().any(|value| *value <= 0.0) {
        return student_interval(values, confidence);
    }
    exp(student_interval(&logarithms(values), confidence)?)
}

/// The interval whose ends are `e` to the power of these ends; `None` if that is beyond `f64`.
pub(super) fn exp(interval: Interval) -> Option<Interval> {
    Interval::between(interval.low.exp(), interval.high.exp())
}

/// The natural logarithm of each value.
pub(super) fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.ln()).collect()
}

/// A mean of samples with its error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    /// The variance of the mean itself: that of the samples over their number.
    pub(crate) variance: f64,
    /// The degrees of freedom of that variance.
    pub(crate) freedom: f64,
}

impl Mean {
    /// `None` with fewer than 2 samples, or where the mean or its variance is not finite.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let count = values.len() as f64;
        let first = values[0];
        // Taken from the first value, so that equal samples have a mean of exactly that value and no variance.
        let value = first + values.iter().map(|sample| sample - first).sum::<f64>() / count;
        let squares: f64 = values.iter().map(|sample| (sample - value).powi(2)).sum();
        let mean = Self { value, variance: squares / (count - 1.0) / count, freedom: count - 1.0 };
        (mean.value.is_finite() && mean.variance.is_finite()).then_some(mean)
    }
}

/// The t interval around a sum or difference of independent means, with the degrees of freedom of Satterthwaite
/// (Biometrics Bulletin 2, 1946); those of one mean are its own.
pub(crate) fn mean_interval(center: f64, parts: &[Mean], confidence: f64) -> Option<Interval> {
    if !is_confidence(confidence) {
        return None;
    }
    let variance: f64 = parts.iter().map(|part| part.variance).sum();
    if variance <= 0.0 {
        return Interval::between(center, center);
    }
    // As shares of the sum, so that the squares of tiny variances do not vanish.
    let inverse: f64 = parts.iter().map(|part| (part.variance / variance).powi(2) / part.freedom).sum();
    let half = t_quantile(f64::midpoint(1.0, confidence), 1.0 / inverse)? * variance.sqrt();
    Interval::between(center - half, center + half)
}

/// The two-sided p value of the test that [`mean_interval`] inverts: whether a sum or difference of independent means is 0.
/// Without variance it is 1 for 0, and 0 for any other value.
pub(super) fn mean_p_value(center: f64, parts: &[Mean]) -> f64 {
    let variance: f64 = parts.iter().map(|part| part.variance).sum();
    if variance <= 0.0 {
        return if center.abs() > 0.0 { 0.0 } else { 1.0 };
    }
    let inverse: f64 = parts.iter().map(|part| (part.variance / variance).powi(2) / part.freedom).sum();
    2.0 * t_probability(-center.abs() / variance.sqrt(), 1.0 / inverse)
}

/// The probability that a t distribution keeps below this value; small ones keep their digits. The freedom is above 0.
pub(crate) fn t_probability(value: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |t| t.cdf(value))
}

/// The median of a chi-squared distribution, whose freedom is above 0.
pub(crate) fn chi_squared_median(freedom: f64) -> f64 {
    ChiSquared::new(freedom).map_or(f64::NAN, |chi_squared| chi_squared.inverse_cdf(0.5))
}

/// The value below which a t distribution keeps this probability; `None` for a freedom that is not above 0.
fn t_quantile(probability: f64, freedom: f64) -> Option<f64> {
    if freedom >= EXPANSION_FROM {
        return Some(expanded_t_quantile(normal_quantile(probability), freedom));
    }
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(probability))
}

/// The t quantile from the normal one (Fisher's expansion; Abramowitz and Stegun, Handbook of Mathematical Functions,
/// 1964, 26.7.5).
fn expanded_t_quantile(normal: f64, freedom: f64) -> f64 {
    let square = normal * normal;
    let first = (square + 1.0) / 4.0;
    let second = ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    normal * (1.0 + (first + (second + third / freedom) / freedom) / freedom)
}

/// Returns the quantile of the standard normal distribution for a probability in (0, 1).
pub(super) fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// Returns the probability that a standard normal value is below this.
pub(crate) fn normal_probability(value: f64) -> f64 {
    Normal::standard().cdf(value)
}

/// Returns the probability that a standard normal value is at least this far from 0, on either side.
pub(super) fn normal_two_sided(distance: f64) -> f64 {
    // erfc and not 1 - cdf: the small probabilities are the ones that matter.
    erfc(distance.abs() / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::golden::{assert_close, assert_interval, cases, number, numbers};

    #[test]
    fn quantiles_agree_with_scipy() {
        for case in cases("t_quantile") {
            let (probability, freedom) = (number(&case["probability"]), number(&case["freedom"]));
            let actual = t_quantile(probability, freedom).unwrap();
            assert_close(actual, number(&case["value"]), &format!("t {case}"));
        }
        for case in cases("normal_quantile") {
            let (probability, value) = (number(&case["probability"]), number(&case["value"]));
            assert_close(normal_quantile(probability), value, &format!("normal {case}"));
            assert_close(normal_probability(value), probability, &format!("normal {case}"));
            assert_close(normal_two_sided(value), number(&case["two_sided"]), &format!("normal {case}"));
        }
    }

    #[test]
    fn student_agrees_with_scipy() {
        for case in cases("summary") {
            let values = numbers(&case["values"]);
            assert_interval(student_interval(&values, 0.95), &case["student"], &format!("{case}"));
            assert_interval(log_interval(&values, 0.95), &case["log_student"], &format!("{case}"));
        }
    }

    #[test]
    fn welch_agrees_with_scipy() {
        for case in cases("two_samples") {
            let interval = welch_interval(&numbers(&case["baseline"]), &numbers(&case["candidate"]), 0.9);
            assert_interval(interval, &case["welch_90"], &format!("{case}"));
        }
    }

    #[test]
    fn means_of_invalid_samples_have_no_interval_or_a_finite_one() {
        assert_eq!(student_interval(&[], 0.95), None);
        assert_eq!(student_interval(&[1.0], 0.95), None);
        assert_eq!(student_interval(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(student_interval(&[1.0, f64::INFINITY], 0.95), None);
        assert_eq!(student_interval(&[1.0, 2.0], 1.0), None);
        assert_eq!(student_interval(&[1.0, 2.0], 0.0), None);
        assert_eq!(student_interval(&[1.0, 2.0], f64::NAN), None);
        assert_eq!(student_interval(&[0.1; 7], 0.95), Interval::between(0.1, 0.1));
        assert_eq!(student_interval(&[-f64::MAX, f64::MAX], 0.95), None);
        assert_eq!(log_interval(&[1e300; 3], 0.95).map(|i| (i.high / 1e300 - 1.0).abs() < 1e-9), Some(true));
        assert_eq!(log_interval(&[1e-300, 1e300], 0.95), None, "beyond f64");
        assert_eq!(welch_interval(&[1.0], &[1.0, 2.0], 0.95), None);
        assert_eq!(welch_interval(&[1.0, 1.0], &[3.0, 3.0], 0.95), Interval::between(2.0, 2.0));
        // Variances of 1e-200 and less, whose squares are 0.
        assert!(welch_interval(&[1e-100, 2e-100], &[3e-100, 5e-100], 0.95).is_some());
    }
}
