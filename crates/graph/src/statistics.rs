//! The Graph500's statistics over roots: quartiles with its interpolation, and the harmonic mean of rates with its
//! standard error.

/// Minimum, quartiles, maximum, mean and standard deviation, as in the output of the Graph500.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    pub min: f64,
    pub first: f64,
    pub median: f64,
    pub third: f64,
    pub max: f64,
    pub mean: f64,
    /// Sample standard deviation (divisor: count - 1). Zero for a single value.
    pub stddev: f64,
}

/// The harmonic mean of rates, and its standard error (Norris 1940).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Harmonic {
    pub mean: f64,
    pub stddev: f64,
}

impl Quartiles {
    /// Computes the statistics of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let count = sorted.len();
        let between = |one: usize, two: usize| f64::midpoint(sorted[one], sorted[two]);
        let (mean, stddev) = mean_and_deviation(values);
        Some(Self {
            min: sorted[0],
            first: between(last / 4, count / 4),
            median: between(last / 2, count / 2),
            third: between(last - last / 4, last - (count / 4).min(last)),
            max: sorted[last],
            mean,
            stddev,
        })
    }
}

impl Harmonic {
    /// Computes the mean of these rates, which must be positive; `None` if there are none.
    pub fn of(rates: &[f64]) -> Option<Self> {
        let inverse: Vec<f64> = rates.iter().map(|rate| 1.0 / rate).collect();
        let (mean, deviation) = mean_and_deviation(&inverse);
        let error = deviation / (mean * mean * ((rates.len() as f64 - 1.0).max(1.0)).sqrt());
        (!rates.is_empty()).then_some(Self { mean: 1.0 / mean, stddev: error })
    }
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found} {expected}");
    }

    #[test]
    fn quartiles_equal_those_of_the_reference() {
        // Eight values: the reference uses indices (n-1)/4 = 1 and n/4 = 2, 3 and 4, 6 and 5.
        let found = Quartiles::of(&[8.0, 1.0, 2.0, 3.0, 5.0, 4.0, 7.0, 6.0]).unwrap();
        for (value, expected) in [
            (found.min, 1.0),
            (found.first, 2.5),
            (found.median, 4.5),
            (found.third, 6.5),
            (found.max, 8.0),
            (found.mean, 4.5),
            (found.stddev, 6.0_f64.sqrt()),
        ] {
            near(value, expected);
        }
        let five = Quartiles::of(&[1.0, 2.0, 3.0, 4.0, 50.0]).unwrap();
        assert_eq!((five.first, five.median, five.third), (2.0, 3.0, 4.0));
        let one = Quartiles::of(&[3.0]).unwrap();
        assert_eq!((one.min, one.third, one.max, one.stddev), (3.0, 3.0, 3.0, 0.0));
        assert_eq!(Quartiles::of(&[]), None);
    }

    #[test]
    fn harmonic_means_weight_slow_searches() {
        let found = Harmonic::of(&[1.0, 2.0, 4.0]).unwrap();
        near(found.mean, 12.0 / 7.0);
        // Inverses 1, 1/2, 1/4: mean 7/12, deviation sqrt(7/48); error sqrt(7/48) / (49/144) / sqrt(2).
        near(found.stddev, (7.0_f64 / 48.0).sqrt() / (49.0 / 144.0) / 2.0_f64.sqrt());
        assert_eq!(Harmonic::of(&[5.0]).unwrap(), Harmonic { mean: 5.0, stddev: 0.0 });
        assert_eq!(Harmonic::of(&[]), None);
    }
}
