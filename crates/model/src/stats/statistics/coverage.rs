//! Checks that 95 % intervals contain the true value in 95 % of cases, on simulated log-normal samples with fixed
//! seeds.

use std::ops::RangeInclusive;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::student::normal_quantile;
use super::*;

const SIMULATIONS: usize = 2000;
/// Fewer resamples than usual: only the coverage is checked, and tests are not optimised.
const FEW_RESAMPLES: usize = 600;
/// The standard deviation of the logarithms; 0.2 is a noisy machine.
const NOISE: f64 = 0.2;

/// Returns samples whose median is the given one.
fn log_normal(rng: &mut ChaCha8Rng, count: usize, median: f64) -> Vec<f64> {
    let sample = |_| {
        // In the middle of its cell, so never 0.
        let uniform = (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
        median * (NOISE * normal_quantile(uniform)).exp()
    };
    (0..count).map(sample).collect()
}

/// Runs the simulations and checks the share of intervals that contain the true value.
fn check(name: &str, truth: f64, interval: impl FnMut(&mut ChaCha8Rng) -> Option<Interval>) {
    check_within(name, 0.925..=0.975, truth, interval);
}

fn check_within(
    name: &str,
    allowed: RangeInclusive<f64>,
    truth: f64,
    mut interval: impl FnMut(&mut ChaCha8Rng) -> Option<Interval>,
) {
    let mut rng = ChaCha8Rng::seed_from_u64(20_240_501);
    let held = (0..SIMULATIONS).filter(|_| interval(&mut rng).unwrap().contains(truth)).count();
    let share = held as f64 / SIMULATIONS as f64;
    println!("{name}: {share}");
    assert!(allowed.contains(&share), "{name} contains the true value in {share} of cases");
}

#[test]
fn median_intervals_cover() {
    for count in [5, 10, 30] {
        check(&format!("median of {count}"), 3.0, |rng| median_interval(&log_normal(rng, count, 3.0), 0.95));
    }
}

#[test]
fn means_cover() {
    for count in [5, 10, 30] {
        check(&format!("geometric mean of {count}"), 3.0, |rng| {
            geometric_mean(&log_normal(rng, count, 3.0), 0.95)?.interval
        });
        check(&format!("geometric mean of ratios, {count} each"), 3.0, |rng| {
            let tests = [2.0, 3.0, 4.5].map(|ratio| log_normal(rng, count, ratio));
            geometric_mean_of_ratios(&tests, 0.95)?.interval
        });
    }
}

#[test]
fn shifts_cover() {
    for count in [5, 10, 30] {
        check(&format!("shift of {count} and {count}"), 0.5, |rng| {
            let baseline = log_normal(rng, count, 3.0);
            let candidate: Vec<f64> = log_normal(rng, count, 3.0).iter().map(|value| value + 0.5).collect();
            hodges_lehmann_shift(&baseline, &candidate, 0.95, 1)?.interval
        });
        check(&format!("center of {count} differences"), 0.5, |rng| {
            let pairs = log_normal(rng, count, 3.0).into_iter().zip(log_normal(rng, count, 3.0));
            let differences: Vec<f64> = pairs.map(|(baseline, candidate)| candidate - baseline + 0.5).collect();
            hodges_lehmann_center(&differences, 0.95, 1)?.interval
        });
    }
}

/// Returns the interval of the ratio of pairs that share drift of this size (a standard deviation of logarithms).
fn paired_ratio(rng: &mut ChaCha8Rng, count: usize, drift: f64) -> Option<Interval> {
    let blocks: Vec<f64> = log_normal(rng, count, 1.0).iter().map(|value| value.powf(drift / NOISE)).collect();
    let side = |rng: &mut ChaCha8Rng, median: f64| -> Vec<f64> {
        log_normal(rng, count, median).iter().zip(&blocks).map(|(value, block)| value * block).collect()
    };
    let (baseline, candidate) = (side(rng, 2.0), side(rng, 3.0));
    ratio_of_pairs(&baseline, &candidate, 1)?.interval
}

#[test]
fn paired_ratios_cover() {
    for count in [5, 10, 30] {
        check(&format!("ratio of {count} pairs"), 1.5, |rng| paired_ratio(rng, count, NOISE));
    }
}

#[test]
fn paired_ratios_cover_under_large_drift() {
    for count in [5, 6, 7, 10, 30] {
        check(&format!("ratio of {count} pairs with large drift"), 1.5, |rng| paired_ratio(rng, count, 5.0 * NOISE));
    }
}

#[test]
fn independent_ratios_cover() {
    for count in [5, 10, 30] {
        check(&format!("ratio of {count} and {count}"), 1.5, |rng| {
            let (baseline, candidate) = (log_normal(rng, count, 2.0), log_normal(rng, count, 3.0));
            ratio_of_medians(&baseline, &candidate, rng.next_u64(), FEW_RESAMPLES)?.interval
        });
    }
}

#[test]
fn ratios_of_runs_cover_if_runs_differ_more_than_trials() {
    let side = |rng: &mut ChaCha8Rng, runs: usize, median: f64| -> Vec<Vec<f64>> {
        let levels = log_normal(rng, runs, median);
        levels
            .iter()
            .map(|level| log_normal(rng, 9, 1.0).iter().map(|value| level * value.powf(0.1)).collect())
            .collect()
    };
    for (count, other) in [(2, 2), (3, 5), (4, 4), (10, 10), (1, 5)] {
        check(&format!("ratio of {count} and {other} runs"), 1.5, |rng| {
            let (baseline, candidate) = (side(rng, count, 2.0), side(rng, other, 3.0));
            ratio_of_runs(&slices(&baseline), &slices(&candidate), &[], CONFIDENCE)?.interval
        });
    }
    check("ratio of single runs with a history of 6", 1.5, |rng| {
        let (baseline, candidate, history) = (side(rng, 1, 2.0), side(rng, 1, 3.0), side(rng, 6, 2.0));
        ratio_of_runs(&slices(&baseline), &slices(&candidate), &[slices(&history)], CONFIDENCE)?.interval
    });
}

fn slices(runs: &[Vec<f64>]) -> Vec<&[f64]> {
    runs.iter().map(Vec::as_slice).collect()
}
