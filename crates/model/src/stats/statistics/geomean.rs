//! Geometric means over tests: one number for a suite, with intervals for the suite or for all similar tests.
//!
//! The geometric mean is the only mean of ratios that does not depend on which side is the baseline (Fleming and
//! Wallace, Communications of the ACM 29, 1986).

use super::student::{Mean, exp, logarithms, mean_interval};
use super::{Estimate, Interval};

/// The geometric mean of one value per test, with the t interval of the logarithms. In the unit of the values.
///
/// The interval treats the tests as a random sample of all similar tests, so it is wide if tests differ, however
/// precisely each was measured; [`geometric_mean_of_ratios`] is about the given tests only.
///
/// `None` without values or with one that is not finite or not above 0; the interval is `None` with fewer than 2, or
/// with a confidence outside (0, 1).
pub fn geometric_mean(values: &[f64], confidence: f64) -> Option<Estimate> {
    let logarithms = positive_logarithms(values)?;
    let Some(mean) = Mean::of(&logarithms) else {
        return Some(Estimate { value: values[0], interval: None });
    };
    estimate(mean.value, mean_interval(mean.value, &[mean], confidence))
}

/// The geometric mean over tests of each test's ratio, given the measured ratios of each (one per block, for example).
/// Tests have equal weights, however many ratios they have. Without a unit.
///
/// A test's ratio is the geometric mean of its measured ones. The interval is that of measurement noise for these very
/// tests: the variances of the tests' mean logarithms are added, with the degrees of freedom of Satterthwaite
/// (Biometrics Bulletin 2, 1946).
///
/// `None` without tests, or if a test has no ratios or one that is not finite or not above 0; the interval is `None` if
/// a test has fewer than 2 ratios, or with a confidence outside (0, 1).
pub fn geometric_mean_of_ratios<T: AsRef<[f64]>>(ratios_by_test: &[T], confidence: f64) -> Option<Estimate> {
    let tests: Vec<Vec<f64>> =
        ratios_by_test.iter().map(|ratios| positive_logarithms(ratios.as_ref())).collect::<Option<_>>()?;
    if tests.is_empty() {
        return None;
    }
    let count = tests.len() as f64;
    let center = tests.iter().map(|logs| logs.iter().sum::<f64>() / logs.len() as f64).sum::<f64>() / count;
    // A test contributes one part in `count`, so its variance contributes with the square of that.
    let part = |logs: &Vec<f64>| Mean::of(logs).map(|mean| Mean { variance: mean.variance / (count * count), ..mean });
    let parts: Option<Vec<Mean>> = tests.iter().map(part).collect();
    estimate(center, parts.and_then(|parts| mean_interval(center, &parts, confidence)))
}

/// Returns the logarithms; `None` if there are no values, or one is not finite or not above 0.
fn positive_logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let usable = !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0);
    usable.then(|| logarithms(values))
}

/// Converts back from logarithms.
fn estimate(center: f64, interval: Option<Interval>) -> Option<Estimate> {
    let value = center.exp();
    value.is_finite().then_some(Estimate { value, interval: interval.and_then(exp) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::golden::{assert_close, assert_interval, cases, number, numbers};

    #[test]
    fn means_over_tests_agree_with_scipy() {
        for case in cases("geometric_mean") {
            let estimate = geometric_mean(&numbers(&case["values"]), 0.95).unwrap();
            assert_close(estimate.value, number(&case["value"]), "value");
            assert_interval(estimate.interval, &case["interval"], "interval");
        }
    }

    #[test]
    fn means_of_ratios_agree_with_the_formula() {
        for case in cases("geometric_mean_of_ratios") {
            let tests: Vec<Vec<f64>> = case["tests"].as_array().unwrap().iter().map(numbers).collect();
            let estimate = geometric_mean_of_ratios(&tests, 0.95).unwrap();
            assert_close(estimate.value, number(&case["value"]), "value");
            assert_interval(estimate.interval, &case["interval"], "interval");
        }
    }

    #[test]
    fn few_invalid_and_huge_values_have_a_finite_mean_or_none() {
        assert_eq!(geometric_mean(&[], 0.95), None);
        for bad in [0.0, -2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(geometric_mean(&[1.0, bad], 0.95), None);
            assert_eq!(geometric_mean_of_ratios(&[vec![1.0, 2.0], vec![bad]], 0.95), None);
        }
        assert_eq!(geometric_mean(&[3.0], 0.95), Some(Estimate { value: 3.0, interval: None }));
        assert_eq!(geometric_mean(&[1.0; 5], 0.95).unwrap().interval, Interval::between(1.0, 1.0));
        let huge = geometric_mean(&[1e300; 4], 0.95).unwrap();
        assert!((huge.value / 1e300 - 1.0).abs() < 1e-9 && huge.interval.is_some());
        assert_eq!(geometric_mean_of_ratios::<Vec<f64>>(&[], 0.95), None);
        assert_eq!(geometric_mean_of_ratios(&[vec![]], 0.95), None);
        let one_each = geometric_mean_of_ratios(&[[2.0], [0.5]], 0.95).unwrap();
        assert_eq!((one_each.value, one_each.interval), (1.0, None));
    }

    #[test]
    fn inverting_every_ratio_inverts_the_mean() {
        let ratios = [1.1, 0.7, 3.2, 2.5];
        let turned = ratios.map(|ratio| 1.0 / ratio);
        let (one, other) = (geometric_mean(&ratios, 0.95).unwrap(), geometric_mean(&turned, 0.95).unwrap());
        assert_close(one.value * other.value, 1.0, "value");
        assert_close(one.interval.unwrap().low * other.interval.unwrap().high, 1.0, "interval");
    }
}
