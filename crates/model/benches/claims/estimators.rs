//! Estimators of the ratio of pairs: that of comparisons, and alternatives to it.

use model::stats::statistics::{
    CONFIDENCE, Interval, RESAMPLES, Resampling, median, median_estimate, percentile_interval, ratio_of_pairs,
};

pub struct Estimator {
    pub name: &'static str,
    pub interval: fn(&[f64], &[f64]) -> Option<Interval>,
}

/// The first is the one that comparisons use.
pub const ESTIMATORS: [Estimator; 3] = [
    Estimator { name: "Hodges-Lehmann of the pairs", interval: hodges_lehmann },
    Estimator { name: "median of the pairs", interval: median_of_pairs },
    Estimator { name: "ratio of medians", interval: ratio_of_medians },
];

fn hodges_lehmann(baseline: &[f64], candidate: &[f64]) -> Option<Interval> {
    ratio_of_pairs(baseline, candidate, 1)?.interval
}

/// Order statistics of the pairs' ratios.
fn median_of_pairs(baseline: &[f64], candidate: &[f64]) -> Option<Interval> {
    let ratios: Vec<f64> = baseline.iter().zip(candidate).map(|(baseline, candidate)| candidate / baseline).collect();
    median_estimate(&ratios, CONFIDENCE)?.interval
}

/// Percentile bootstrap of whole blocks.
fn ratio_of_medians(baseline: &[f64], candidate: &[f64]) -> Option<Interval> {
    let blocks: Vec<(f64, f64)> = baseline.iter().copied().zip(candidate.iter().copied()).collect();
    let ratio = |drawn: &mut [(f64, f64)]| {
        let (baseline, candidate): (Vec<f64>, Vec<f64>) = drawn.iter().copied().unzip();
        median(&candidate).unwrap_or(f64::NAN) / median(&baseline).unwrap_or(f64::NAN)
    };
    percentile_interval(&blocks, ratio, &Resampling { seed: 1, resamples: RESAMPLES, confidence: CONFIDENCE })
}
