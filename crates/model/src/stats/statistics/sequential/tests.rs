//! Error rates and power of the sequential test, on simulated pairs with fixed seeds.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::student::normal_quantile;
use super::*;

const ERROR_RATE: f64 = 0.01;
/// Far more than the 0.01 of a single simulation: four standard deviations of the count are tolerated.
const SIMULATIONS: usize = 1000;
const PAIRS: usize = 120;

/// Noise of consecutive trials, in units of its usual standard deviation.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Independent,
    /// Autoregressive with this coefficient.
    Autoregressive(f64),
    /// One trial in ten takes far longer.
    Outliers,
    /// Slowdown of the machine during the run, in standard deviations per trial.
    Drift,
}

/// Differences of pairs whose second value is larger by `effect` and is measured first or second at random.
fn differences(rng: &mut ChaCha8Rng, noise: Noise, effect: f64) -> Vec<f64> {
    let mut level = 0.0;
    let mut next = |rng: &mut ChaCha8Rng, trial: usize| {
        let normal = normal_quantile(rng.random_range(1e-9..1.0 - 1e-9));
        match noise {
            Noise::Independent => normal,
            Noise::Autoregressive(coefficient) => {
                level = coefficient * level + normal * (1.0_f64 - coefficient * coefficient).sqrt();
                level
            }
            Noise::Outliers => normal + if rng.random::<f64>() < 0.1 { 15.0 } else { 0.0 },
            Noise::Drift => normal + 0.5 * trial as f64,
        }
    };
    let pair = |pair: usize| {
        let (first, second) = (next(rng, 2 * pair), next(rng, 2 * pair + 1));
        effect + if rng.random() { second - first } else { first - second }
    };
    (0..PAIRS).map(pair).collect()
}

const NOISES: [Noise; 5] =
    [Noise::Independent, Noise::Autoregressive(0.5), Noise::Autoregressive(0.9), Noise::Outliers, Noise::Drift];

#[test]
fn false_proofs_are_rarer_than_the_error_rate() {
    for noise in NOISES {
        let mut rng = ChaCha8Rng::seed_from_u64(20_261_125);
        let proven = (0..SIMULATIONS)
            .filter(|_| is_proven(&differences(&mut rng, noise, 0.0), 0.0, Side::Above, ERROR_RATE))
            .count();
        println!("{noise:?}: {proven} of {SIMULATIONS}");
        assert!(proven <= 22, "{noise:?}: {proven} false proofs in {SIMULATIONS} simulations");
    }
}

#[test]
fn effects_as_large_as_the_noise_are_proven() {
    for noise in NOISES {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let proven =
            (0..200).filter(|_| is_proven(&differences(&mut rng, noise, 1.0), 0.0, Side::Above, ERROR_RATE)).count();
        println!("{noise:?}: {proven} of 200");
        assert!(proven >= 190, "{noise:?}: {proven} of 200");
    }
}

#[test]
fn bounds_contain_the_true_shift_and_agree_with_the_proof() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut outside = 0;
    for _ in 0..200 {
        let differences = differences(&mut rng, Noise::Autoregressive(0.5), 3.0);
        let interval = sequential_bounds(&differences, ERROR_RATE).interval().expect("120 pairs have bounds");
        outside += usize::from(!interval.contains(3.0));
        assert!(is_proven(&differences, interval.low - 1e-3, Side::Above, ERROR_RATE));
        assert!(!is_proven(&differences, interval.low + 1e-3, Side::Above, ERROR_RATE));
        assert!(is_proven(&differences, interval.high + 1e-3, Side::Below, ERROR_RATE));
    }
    assert!(outside <= 12, "{outside} of 200 intervals of 98 % exclude the true shift");
}

#[test]
fn few_or_equal_differences_prove_little() {
    assert_eq!(sequential_bounds(&[], ERROR_RATE), SequentialBounds::default());
    assert_eq!(sequential_bounds(&[1.0; 6], ERROR_RATE), SequentialBounds::default(), "2 to the 6th is below 100");
    assert!(!is_proven(&[0.0; 100], 0.0, Side::Above, ERROR_RATE));
    assert!(is_proven(&[1.0; 100], 0.5, Side::Above, ERROR_RATE));
    assert!(is_proven(&[1.0; 100], 1.5, Side::Below, ERROR_RATE));
    assert!(!is_proven(&[1.0; 100], 1.5, Side::Above, ERROR_RATE));
    let bounds = sequential_bounds(&[1.0; 100], ERROR_RATE).interval().expect("no noise at all");
    assert!((bounds.low - 1.0).abs() < 1e-5 && (bounds.high - 1.0).abs() < 1e-5, "{bounds:?}");
}

#[test]
fn an_outlier_ruins_no_proof() {
    let mut differences = vec![1.0, 1.2, 0.9, 1.1, 0.8, 1.3, 1.0, 0.7, 1.1, 0.9, 1.2, 1.0, 0.9, 1.1, 1.0];
    assert!(is_proven(&differences, 0.0, Side::Above, ERROR_RATE));
    differences.insert(4, -1e9);
    assert!(is_proven(&differences, 0.0, Side::Above, ERROR_RATE));
}
