//! Geometric means over the tests of a comparison. Their intervals contain the measurement noise of these tests only,
//! not the spread between tests: they are about this suite, not about all similar tests.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{CellState, History};
use super::rows::{MeasuredRow, percent};
use super::samples::ColumnSamples;
use crate::stats::statistics::{
    CONFIDENCE, Interval, TRIALS_MIN, geometric_mean, geometric_mean_of_ratios, median, ratio_of_runs, welch_interval,
};
use crate::values::comparison::{ComparedValue, GeomeanChange, Replication};
use crate::values::workload::Better;

/// One test of a mean.
struct RatioOfTest<'a> {
    /// The column's value divided by the baseline's, inverted for metrics to minimise.
    ratio: f64,
    better: Better,
    /// Samples of the baseline and of the column; `None` if one has a single figure.
    sides: Option<(&'a ColumnSamples, &'a ColumnSamples)>,
    /// Number of trials of both sides.
    trials: usize,
    /// Number of these that are suspect.
    suspect: usize,
}

/// Samples of one test by run: those of a side, or of the history.
type RunSamples<'a> = BTreeMap<usize, &'a [f64]>;

/// Returns the mean over all tests of each column, then those over the tests of each thread count with several tests.
/// If any column has several tests, those with one test have no mean: it would repeat the row of that test.
pub(super) fn geomeans(
    rows: &[MeasuredRow<'_>],
    compared: &[(&str, &str)],
    history: &History<'_>,
) -> Vec<GeomeanChange> {
    let main: Vec<&MeasuredRow<'_>> =
        rows.iter().filter(|measured| measured.row.main && !measured.is_outside_means()).collect();
    let mut means: Vec<GeomeanChange> =
        compared.iter().filter_map(|pair| geomean(&main, *pair, None, history)).collect();
    if means.iter().any(|mean| mean.tests > 1) {
        means.retain(|mean| mean.tests > 1);
    }
    let counts: BTreeSet<usize> = main.iter().filter_map(|measured| measured.row.threads).collect();
    for threads in counts.iter().filter(|_| counts.len() > 1) {
        let theirs: Vec<&MeasuredRow<'_>> =
            main.iter().copied().filter(|measured| measured.row.threads == Some(*threads)).collect();
        let of_columns = compared.iter().filter_map(|pair| geomean(&theirs, *pair, Some(*threads), history));
        means.extend(of_columns.filter(|mean| mean.tests > 1));
    }
    means
}

/// Returns a note on the tests that the means leave out; `None` if they contain all tests.
pub(super) fn note(rows: &[MeasuredRow<'_>]) -> Option<String> {
    let outside = rows.iter().filter(|measured| measured.row.main && measured.is_outside_means());
    let tests: Vec<&str> = outside.map(|measured| measured.row.test.as_str()).collect();
    (!tests.is_empty()).then(|| format!("geometric means leave out {}, as the experiment defines", tests.join(", ")))
}

/// Returns the mean over the tests that both columns have.
fn geomean(
    main: &[&MeasuredRow<'_>],
    (column, baseline): (&str, &str),
    threads: Option<usize>,
    history: &History<'_>,
) -> Option<GeomeanChange> {
    let tests: Vec<RatioOfTest<'_>> = main.iter().filter_map(|row| ratio_of(row, column, baseline)).collect();
    let ratios: Vec<f64> = tests.iter().map(|test| test.ratio).collect();
    let value = geometric_mean(&ratios, CONFIDENCE)?.value;
    let interval = interval(&tests, history);
    // The value follows from the changes of the rows; the interval is that of mean logarithms.
    let (interval, replication) = interval.map(|(interval, of)| (interval.widened_to(value), of)).unzip();
    Some(GeomeanChange {
        name: column.into(),
        threads,
        change_percent: percent(value),
        ci_low: interval.map(|interval| percent(interval.low)),
        ci_high: interval.map(|interval| percent(interval.high)),
        replication,
        tests: tests.len(),
        trials: tests.iter().map(|test| test.trials).sum(),
        suspect: tests.iter().map(|test| test.suspect).sum(),
    })
}

fn ratio_of<'a>(measured: &'a MeasuredRow<'_>, column: &str, baseline: &str) -> Option<RatioOfTest<'a>> {
    let row = &measured.row;
    let value = row.values.get(column)?;
    let ratio = 1.0 + value.change_percent? / 100.0;
    let sides = measured.samples.get(baseline).zip(measured.samples.get(column));
    let of_baseline = |count: fn(&ComparedValue) -> usize| row.values.get(baseline).map_or(0, count);
    Some(RatioOfTest {
        ratio: if row.better == Better::Higher { ratio } else { 1.0 / ratio },
        better: row.better,
        sides,
        trials: of_baseline(|baseline| baseline.samples) + value.samples,
        suspect: of_baseline(|baseline| baseline.suspect) + value.suspect,
    })
}

/// Returns the interval of the mean ratio; `None` if a test has too few trials.
fn interval(tests: &[RatioOfTest<'_>], history: &History<'_>) -> Option<(Interval, Replication)> {
    let sides: Vec<_> = tests.iter().map(|test| Some((test.better, test.sides?))).collect::<Option<_>>()?;
    let pairs: Option<Vec<Vec<f64>>> = sides.iter().map(|(better, sides)| ratios(*better, *sides)).collect();
    match pairs {
        Some(pairs) if pairs.iter().all(|ratios| ratios.len() >= TRIALS_MIN) => {
            Some((geometric_mean_of_ratios(&pairs, CONFIDENCE)?.interval?, Replication::Blocks))
        }
        Some(_) => None,
        None => interval_of_runs(&sides, history).or_else(|| Some((interval_of_blocks(&sides)?, Replication::Trials))),
    }
}

/// Returns the ratio of each pair of trials; `None` if the sides are not paired.
fn ratios(better: Better, (baseline, candidate): (&ColumnSamples, &ColumnSamples)) -> Option<Vec<f64>> {
    let (baseline, candidate) = ColumnSamples::pairs(baseline, candidate)?;
    let ratio = |(baseline, candidate): (f64, f64)| match better {
        Better::Higher => candidate / baseline,
        Better::Lower => baseline / candidate,
    };
    Some(baseline.into_iter().zip(candidate).map(ratio).collect())
}

/// Returns the interval between sides of different runs, each with one observation: the mean over the tests. `None` if
/// nothing shows how much runs differ.
fn interval_of_runs(
    sides: &[(Better, (&ColumnSamples, &ColumnSamples))],
    history: &History<'_>,
) -> Option<(Interval, Replication)> {
    let by_run: Vec<_> = sides.iter().map(|(_, (baseline, own))| (baseline.by_run(), own.by_run())).collect();
    let betters = || sides.iter().map(|(better, _)| *better);
    let baseline = run_means(betters().zip(by_run.iter().map(|(baseline, _)| run_samples(baseline))));
    let candidate = run_means(betters().zip(by_run.iter().map(|(_, candidate)| run_samples(candidate))));
    let past = past_means(sides, history);
    let past: Vec<Vec<&[f64]>> = past.iter().map(|runs| singles(runs)).collect();
    let estimate = ratio_of_runs(&singles(&baseline), &singles(&candidate), &past, CONFIDENCE)?;
    let is_replicated = baseline.len().min(candidate.len()) > 1;
    Some((estimate.interval?, if is_replicated { Replication::Runs } else { Replication::OtherRuns }))
}

/// Returns the means of other runs, in groups of the same machine and settings.
fn past_means(sides: &[(Better, (&ColumnSamples, &ColumnSamples))], history: &History<'_>) -> Vec<Vec<f64>> {
    let tests: Vec<_> = sides.iter().map(|(_, (baseline, own))| history.runs_by_state(baseline, own)).collect();
    let states: BTreeSet<&str> = tests.iter().flat_map(BTreeMap::keys).map(|cell| cell.state()).collect();
    let means = |state: &str| {
        let of_tests = tests.iter().map(|cells| runs_in_state(cells, state));
        run_means(sides.iter().map(|(better, _)| *better).zip(of_tests))
    };
    states.into_iter().map(means).collect()
}

fn runs_in_state<'a>(cells: &BTreeMap<&CellState, RunSamples<'a>>, state: &str) -> RunSamples<'a> {
    cells.iter().find(|(cell, _)| cell.state() == state).map(|(_, runs)| runs.clone()).unwrap_or_default()
}

fn run_samples(runs: &BTreeMap<usize, Vec<f64>>) -> RunSamples<'_> {
    runs.iter().map(|(run, samples)| (*run, samples.as_slice())).collect()
}

/// Returns the geometric mean over the tests of the medians of each run that has all tests, inverted for metrics to
/// minimise.
fn run_means<'a>(tests: impl Iterator<Item = (Better, RunSamples<'a>)>) -> Vec<f64> {
    let mut sums: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
    let mut count = 0;
    for (better, runs) in tests {
        count += 1;
        for (run, samples) in runs {
            let level = median(samples).unwrap_or(f64::NAN).ln();
            let (tests, sum) = sums.entry(run).or_default();
            (*tests, *sum) = (*tests + 1, *sum + if better == Better::Higher { level } else { -level });
        }
    }
    let complete = sums.into_values().filter(|(tests, _)| *tests == count);
    complete.map(|(tests, sum)| (sum / tests as f64).exp()).collect()
}

/// Each mean as a run with one sample.
fn singles(means: &[f64]) -> Vec<&[f64]> {
    means.chunks(1).collect()
}

/// Returns the interval between trials of different runs. All trials of a block share its disturbances, so that a block,
/// not a trial, is one observation: the mean logarithm over the tests.
fn interval_of_blocks(sides: &[(Better, (&ColumnSamples, &ColumnSamples))]) -> Option<Interval> {
    let baseline = blocks(sides.iter().map(|(better, (baseline, _))| (*better, *baseline)))?;
    let candidate = blocks(sides.iter().map(|(better, (_, candidate))| (*better, *candidate)))?;
    let enough = baseline.len().min(candidate.len()) >= TRIALS_MIN;
    let interval = welch_interval(&baseline, &candidate, CONFIDENCE).filter(|_| enough)?;
    Interval::between(interval.low.exp(), interval.high.exp())
}

/// Returns the mean logarithm over the tests of each block in which all tests were measured.
fn blocks<'a>(tests: impl Iterator<Item = (Better, &'a ColumnSamples)>) -> Option<Vec<f64>> {
    let mut sums: BTreeMap<(usize, u32), (usize, f64)> = BTreeMap::new();
    let mut count = 0;
    for (better, samples) in tests {
        count += 1;
        for (block, value) in samples.by_block()? {
            let logarithm = if better == Better::Higher { value.ln() } else { -value.ln() };
            let (tests, sum) = sums.entry(block).or_default();
            (*tests, *sum) = (*tests + 1, *sum + logarithm);
        }
    }
    let complete = sums.into_values().filter(|(tests, _)| *tests == count);
    Some(complete.map(|(tests, sum)| sum / tests as f64).collect())
}
