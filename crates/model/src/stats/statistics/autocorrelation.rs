//! Autocorrelation of successive trials: a positive one means that a run holds less information than its number of trials
//! suggests.

use super::summary::sorted;

/// Minimum number of samples; with fewer, only a coefficient near 1 would be distinguishable from 0.
const SAMPLES_MIN: usize = 10;
/// Quantile of the standard normal distribution at 99 %: one independent series in a hundred exceeds the limit.
const NORMAL_99: f64 = 2.326;

/// Returns the coefficient of neighbouring samples (lag 1) if it is significantly above 0 at the 1 % level: its standard
/// error without autocorrelation is one over the square root of the number of samples (Bartlett, Journal of the Royal
/// Statistical Society, Supplement 8, 1946).
///
/// It is computed from ranks, so that outliers count like other samples. `None` with fewer than 10 samples, one that is
/// not finite, or if the coefficient is not significant.
pub fn autocorrelation(values: &[f64]) -> Option<f64> {
    if values.len() < SAMPLES_MIN {
        return None;
    }
    let count = values.len() as f64;
    let ranks = ranks(values)?;
    let center = ranks.iter().sum::<f64>() / count;
    let variance: f64 = ranks.iter().map(|rank| (rank - center).powi(2)).sum();
    let products: f64 = ranks.windows(2).map(|pair| (pair[0] - center) * (pair[1] - center)).sum();
    let coefficient = products / variance;
    // Without variance it is not a number, and not significant.
    (coefficient * count.sqrt() > NORMAL_99).then_some(coefficient)
}

/// Returns the position of each value in order; equal values share their mean position.
fn ranks(values: &[f64]) -> Option<Vec<f64>> {
    let sorted = sorted(values)?;
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other < value);
        let through = sorted.partition_point(|other| other <= value);
        (below + through) as f64 / 2.0
    };
    Some(values.iter().map(rank).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_series_are_autocorrelated() {
        let rising: Vec<f64> = (0..20).map(|i| f64::from(i) * f64::from(i)).collect();
        // By numpy on the ranks of 20 rising values: 0.8500.
        assert!((autocorrelation(&rising).unwrap() - 0.85).abs() < 1e-12, "{:?}", autocorrelation(&rising));
        let alternating: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        assert_eq!(autocorrelation(&alternating), None);
        let levels: Vec<f64> = (0..40).map(|i| f64::from(i / 10 % 2) + 0.001 * f64::from(i * 7 % 11)).collect();
        // By the formula on the ranks: 0.5817.
        assert!((autocorrelation(&levels).unwrap() - 0.5817).abs() < 1e-4, "{:?}", autocorrelation(&levels));
    }

    #[test]
    fn few_equal_and_invalid_samples_have_none() {
        assert_eq!(autocorrelation(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]), None, "nine");
        assert_eq!(autocorrelation(&[2.0; 30]), None);
        let mut rising: Vec<f64> = (0..20).map(f64::from).collect();
        rising[3] = f64::NAN;
        assert_eq!(autocorrelation(&rising), None);
    }

    #[test]
    fn single_outlier_does_not_change_the_coefficient_much() {
        let mut rising: Vec<f64> = (0..30).map(f64::from).collect();
        let plain = autocorrelation(&rising).unwrap();
        rising[15] = 1e9;
        assert!((autocorrelation(&rising).unwrap() - plain).abs() < 0.2);
    }
}
