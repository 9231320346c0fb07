//! Rows of a comparison: the values of each column, and their estimated differences from the baseline.

use std::collections::BTreeMap;

use super::columns::{Baselines, ColumnValue};
use super::history::History;
use super::samples::ColumnSamples;
use crate::stats::statistics::{
    CONFIDENCE, Interval, RESAMPLES, RatioEstimate, TRIALS_MIN, median, ratio_of_medians, ratio_of_pairs, ratio_of_runs,
};
use crate::values::comparison::{ComparedValue, ComparisonRow, Difference, Replication};
use crate::values::plan::stream;

/// A row with its samples by column, from which the means are computed.
pub(super) struct MeasuredRow<'a> {
    pub(super) row: ComparisonRow,
    /// Without columns of single figures. Empty if they are not kept.
    pub(super) samples: BTreeMap<String, ColumnSamples>,
    /// The cell that the row is about; `None` for an imported row.
    pub(super) cell: Option<&'a ColumnValue<'a>>,
}

impl MeasuredRow<'_> {
    /// Whether the experiment leaves the test out of geometric means.
    pub(super) fn is_outside_means(&self) -> bool {
        self.cell.is_some_and(|entry| entry.cell.outside_means)
    }
}

/// The options that all rows share.
#[derive(Clone, Copy)]
pub(super) struct RowRequest<'a> {
    pub(super) baselines: &'a Baselines,
    pub(super) history: &'a History<'a>,
    pub(super) seed: u64,
    /// Whether rows of all metrics keep their samples, for columns that are added. Means need those of main metrics only.
    pub(super) keeps_all_samples: bool,
}

/// Returns the rows in order of first occurrence, each with its values by column.
pub(super) fn rows<'a>(entries: &'a [ColumnValue<'a>], request: &RowRequest<'_>) -> Vec<MeasuredRow<'a>> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut by_row: BTreeMap<(&str, &str), Vec<&ColumnValue<'_>>> = BTreeMap::new();
    for entry in entries {
        let key = (entry.test.as_str(), entry.metric.name.as_str());
        if !by_row.contains_key(&key) {
            order.push(key);
        }
        by_row.entry(key).or_default().push(entry);
    }
    order.into_iter().map(|key| row(&by_row[&key], request)).collect()
}

fn row<'a>(entries: &[&'a ColumnValue<'a>], request: &RowRequest<'_>) -> MeasuredRow<'a> {
    let RowRequest { baselines, history, seed, keeps_all_samples } = *request;
    let first = entries[0];
    let mut by_column: BTreeMap<&str, Vec<&ColumnValue<'_>>> = BTreeMap::new();
    for entry in entries {
        by_column.entry(&entry.column).or_default().push(entry);
    }
    let of_column = |(column, entries): (&&str, &Vec<&ColumnValue<'_>>)| {
        ((*column).to_string(), ColumnSamples::of(entries, history))
    };
    let samples: BTreeMap<String, ColumnSamples> = by_column.iter().map(of_column).collect();
    let value = |column: &String, own: &ColumnSamples| {
        let purpose = format!("compare {} {} {column}", first.test, first.metric.name);
        let reference = baselines.of(column).and_then(|baseline| samples.get(baseline));
        compared(reference, own, history, stream(seed, &purpose))
    };
    let row = ComparisonRow {
        test: first.test.clone(),
        metric: first.metric.name.clone(),
        unit: first.metric.unit.clone(),
        better: first.metric.better,
        main: first.main,
        threads: entries.iter().all(|entry| entry.threads == first.threads).then_some(first.threads),
        values: samples.iter().map(|(column, own)| (column.clone(), value(column, own))).collect(),
    };
    let samples = if first.main || keeps_all_samples { samples } else { BTreeMap::new() };
    MeasuredRow { row, samples, cell: Some(first) }
}

/// Compares the samples of a column with those of its baseline: in pairs if both are of the same blocks, run by run if
/// they are of different runs.
pub(super) fn compared(
    baseline: Option<&ColumnSamples>,
    candidate: &ColumnSamples,
    history: &History<'_>,
    seed: u64,
) -> ComparedValue {
    let samples = candidate.values();
    let median = median(&samples).unwrap_or(f64::NAN);
    let own = ComparedValue { samples: samples.len(), suspect: candidate.suspect(), ..single(median) };
    let estimate = baseline.and_then(|baseline| estimate(baseline, candidate, history, seed));
    estimate.map_or_else(|| own.clone(), |(estimate, replication)| estimated(&own, &estimate, replication))
}

/// Estimates the ratio of two sides; without an interval if a side has too few samples.
fn estimate(
    baseline: &ColumnSamples,
    candidate: &ColumnSamples,
    history: &History<'_>,
    seed: u64,
) -> Option<(RatioEstimate, Replication)> {
    if let Some((baseline, candidate)) = ColumnSamples::pairs(baseline, candidate) {
        return Some((replicated(ratio_of_pairs(&baseline, &candidate, seed)?, baseline.len()), Replication::Blocks));
    }
    let of_trials = || {
        let estimate = ratio_of_medians(&baseline.values(), &candidate.values(), seed, RESAMPLES)?;
        Some(replicated(estimate, baseline.len().min(candidate.len())))
    };
    if baseline.runs() == candidate.runs() {
        return Some((of_trials()?, Replication::Blocks));
    }
    between_runs(baseline, candidate, history).or_else(|| Some((of_trials()?, Replication::Trials)))
}

/// Estimates the ratio of sides of different runs; `None` if nothing shows how much runs differ.
fn between_runs(
    baseline: &ColumnSamples,
    candidate: &ColumnSamples,
    history: &History<'_>,
) -> Option<(RatioEstimate, Replication)> {
    let (base_runs, own_runs) = (baseline.by_run(), candidate.by_run());
    let estimate =
        ratio_of_runs(&slices(&base_runs), &slices(&own_runs), &history.groups(baseline, candidate), CONFIDENCE)?;
    let is_replicated = base_runs.len().min(own_runs.len()) > 1;
    Some((estimate, if is_replicated { Replication::Runs } else { Replication::OtherRuns }))
}

fn slices(runs: &BTreeMap<usize, Vec<f64>>) -> Vec<&[f64]> {
    runs.values().map(Vec::as_slice).collect()
}

/// Removes the interval of an estimate from too few samples.
fn replicated(estimate: RatioEstimate, samples: usize) -> RatioEstimate {
    RatioEstimate { interval: estimate.interval.filter(|_| samples >= TRIALS_MIN), ..estimate }
}

/// Adds an estimate of the difference to a value.
fn estimated(own: &ComparedValue, estimate: &RatioEstimate, replication: Replication) -> ComparedValue {
    let interval = estimate.interval.map(|Interval { low, high }| (percent(low), percent(high)));
    let supports_claims = replication != Replication::Trials;
    ComparedValue {
        change_percent: Some(percent(estimate.ratio)),
        ci_low: interval.map(|(low, _)| low),
        ci_high: interval.map(|(_, high)| high),
        replication: interval.map(|_| replication),
        difference: interval.map(difference).filter(|claim| supports_claims || *claim == Difference::NoneSeen),
        p_value: interval.map(|_| estimate.p_value).filter(|_| supports_claims),
        ..own.clone()
    }
}

/// A figure without repetitions.
pub(super) fn single(median: f64) -> ComparedValue {
    ComparedValue {
        median,
        change_percent: None,
        ci_low: None,
        ci_high: None,
        replication: None,
        difference: None,
        p_value: None,
        samples: 1,
        suspect: 0,
    }
}

fn difference((low, high): (f64, f64)) -> Difference {
    match () {
        () if low > 0.0 => Difference::Higher,
        () if high < 0.0 => Difference::Lower,
        () => Difference::NoneSeen,
    }
}

pub(super) fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}
