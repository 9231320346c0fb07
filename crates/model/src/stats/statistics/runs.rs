//! The ratio of two sides that were measured in different runs, where the run is the unit: trials of one run share what
//! differs between runs (memory layout, temperature, neighbours), and more of them do not average it out.
//!
//! Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013. The level of a run is the logarithm of its
//! median, which is robust to outliers and phases within it; levels of runs are compared by Welch's t interval.

use super::median;
use super::ratio::RatioEstimate;
use super::student::{Mean, exp, mean_interval, mean_p_value};

/// Returns the geometric mean of the candidate's run medians divided by that of the baseline's. Each side and each group
/// of the history is a list of runs, and each run a list of samples.
///
/// With at least two runs a side, the interval is that of these runs. With a single run on a side, the variance between
/// runs is that of the other side and of the groups of the history, each of which contains runs that differ by chance only; they must
/// not contain a run of a side.
///
/// The interval has this confidence.
///
/// `None` without a run on each side, with a sample that is not finite or not above 0, or if nothing shows how much runs
/// differ.
pub fn ratio_of_runs(
    baseline: &[&[f64]],
    candidate: &[&[f64]],
    history: &[Vec<&[f64]>],
    confidence: f64,
) -> Option<RatioEstimate> {
    let (baseline_levels, candidate_levels) = (levels(baseline)?, levels(candidate)?);
    let mean = |levels: &[f64]| levels.iter().sum::<f64>() / levels.len() as f64;
    let center = mean(&candidate_levels) - mean(&baseline_levels);
    let parts = match (Mean::of(&baseline_levels), Mean::of(&candidate_levels)) {
        (Some(baseline), Some(candidate)) => vec![baseline, candidate],
        (one, other) => {
            // Runs of the history with more trials than the compared ones would differ less.
            let trials_max = baseline.iter().chain(candidate).map(|run| run.len()).min()?;
            let groups = history.iter().filter_map(|runs| Mean::of(&levels_of_first(runs, trials_max)?));
            let (variance, freedom) = pooled_variance(one.into_iter().chain(other).chain(groups))?;
            let shares = 1.0 / baseline.len() as f64 + 1.0 / candidate.len() as f64;
            vec![Mean { value: center, variance: variance * shares, freedom }]
        }
    };
    let ratio = center.exp();
    let interval = mean_interval(center, &parts, confidence).and_then(exp);
    RatioEstimate::new(ratio, interval, mean_p_value(center, &parts))
}

/// Returns the logarithm of the median of each run; `None` without runs, or if a run is empty or has a sample that is
/// not finite or not above 0.
fn levels(runs: &[&[f64]]) -> Option<Vec<f64>> {
    let level = |run: &&[f64]| run.iter().all(|value| *value > 0.0).then(|| median(run))?.map(f64::ln);
    let levels: Vec<f64> = runs.iter().map(level).collect::<Option<_>>()?;
    (!levels.is_empty()).then_some(levels)
}

/// Returns the levels of runs by their first trials only.
fn levels_of_first(runs: &[&[f64]], trials_max: usize) -> Option<Vec<f64>> {
    levels(&runs.iter().map(|run| &run[..run.len().min(trials_max)]).collect::<Vec<_>>())
}

/// Returns the variance between single runs over all groups, with its degrees of freedom; `None` without a group.
fn pooled_variance(groups: impl Iterator<Item = Mean>) -> Option<(f64, f64)> {
    let (sum, freedom) = groups.fold((0.0, 0.0), |(sum, freedom), group| {
        let of_single_run = group.variance * (group.freedom + 1.0);
        (sum + of_single_run * group.freedom, freedom + group.freedom)
    });
    (freedom > 0.0).then(|| (sum / freedom, freedom))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::{CONFIDENCE, Interval, welch_interval};

    fn ratio(baseline: &[Vec<f64>], candidate: &[Vec<f64>], history: &[Vec<Vec<f64>>]) -> Option<RatioEstimate> {
        let history: Vec<Vec<&[f64]>> = history.iter().map(|runs| slices(runs)).collect();
        ratio_of_runs(&slices(baseline), &slices(candidate), &history, CONFIDENCE)
    }

    fn slices(runs: &[Vec<f64>]) -> Vec<&[f64]> {
        runs.iter().map(Vec::as_slice).collect()
    }

    /// Runs of three trials around these levels; their median is the level.
    fn runs(levels: &[f64]) -> Vec<Vec<f64>> {
        levels.iter().map(|level| vec![level * 0.99, *level, level * 1.01]).collect()
    }

    fn assert_near(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 1e-9, "{actual} instead of {expected}");
    }

    #[test]
    fn replicated_sides_have_the_welch_interval_of_their_run_medians() {
        let (one, other) = ([10.0, 10.2, 9.9, 10.1], [11.0, 11.1, 10.8]);
        let estimate = ratio(&runs(&one), &runs(&other), &[]).unwrap();
        let expected = welch_interval(&one.map(f64::ln), &other.map(f64::ln), 0.95).and_then(exp).unwrap();
        let interval = estimate.interval.unwrap();
        assert_near(interval.low, expected.low);
        assert_near(interval.high, expected.high);
        assert_near(estimate.ratio, (10.8_f64 * 11.0 * 11.1).cbrt() / (10.0_f64 * 10.2 * 9.9 * 10.1).powf(0.25));
        assert!(estimate.p_value < 0.001, "{estimate:?}");
    }

    #[test]
    fn single_runs_are_not_replicated() {
        assert_eq!(ratio(&runs(&[10.0]), &runs(&[11.0]), &[]), None);
        assert_eq!(ratio(&runs(&[10.0]), &runs(&[11.0]), &[runs(&[10.0])]), None, "a single run of the past");
        assert_eq!(ratio(&runs(&[]), &runs(&[11.0, 12.0]), &[]), None);
    }

    #[test]
    fn history_and_the_replicated_side_supply_the_variance() {
        let past = [runs(&[10.0, 10.1, 9.9, 10.0, 10.1]), runs(&[20.0, 20.2])];
        let of_history = ratio(&runs(&[10.0]), &runs(&[10.25]), &past).unwrap();
        // By hand: the sums of squares are 2.800e-4 with 4 and 4.950e-5 with 1 degrees of freedom, and t(5) is 2.5706.
        let half = of_history.interval.unwrap().high.ln() - 1.025_f64.ln();
        assert!((half - 2.5706 * (2.0 * (2.8e-4 + 4.95e-5) / 5.0_f64).sqrt()).abs() < 2e-4, "{half}");
        assert!(of_history.interval.unwrap().contains(1.0));
        let of_side = ratio(&runs(&[10.0, 10.1, 9.9, 10.0, 10.1]), &runs(&[10.2]), &[]).unwrap();
        assert!(of_side.interval.unwrap().half_width() < of_history.interval.unwrap().half_width());
        assert!(of_side.p_value > 0.05 && !of_side.interval.unwrap().contains(1.1));
    }

    #[test]
    fn history_with_more_trials_is_shortened() {
        let long = |level: f64| [vec![level], vec![10.0; 6]].concat();
        let past = [vec![long(10.0), long(12.0), long(9.0)]];
        let estimate = ratio(&[vec![10.0]], &[vec![11.0]], &past).unwrap();
        assert!(estimate.interval.unwrap().half_width() > 0.3, "runs of one trial differ: {estimate:?}");
    }

    #[test]
    fn invalid_samples_have_no_ratio_and_equal_runs_no_width() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ratio(&[vec![1.0, bad], vec![2.0]], &runs(&[1.0, 1.0]), &[]), None);
        }
        assert_eq!(ratio(&[vec![], vec![2.0]], &runs(&[1.0, 1.0]), &[]), None);
        let equal = ratio(&runs(&[2.0, 2.0]), &runs(&[2.0, 2.0]), &[]).unwrap();
        assert_eq!((equal.ratio, equal.interval, equal.p_value), (1.0, Interval::between(1.0, 1.0), 1.0));
    }
}
