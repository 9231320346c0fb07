//! Rows of a comparison: the values of each column, and their estimated differences from the baseline.

use std::collections::BTreeMap;

use super::columns::{Baselines, ColumnValue};
use super::samples::ColumnSamples;
use crate::stats::statistics::{Interval, Pairing, RESAMPLES, RatioEstimate, TRIALS_MIN, median, ratio_of_medians};
use crate::values::comparison::{ComparedValue, ComparisonRow, Difference};
use crate::values::plan::stream;

/// A row with its samples by column, from which the means are computed.
pub(super) struct MeasuredRow<'a> {
    pub(super) row: ComparisonRow,
    /// Without columns of single figures.
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

/// Returns the rows in order of first occurrence, each with its values by column.
pub(super) fn rows<'a>(entries: &'a [ColumnValue<'a>], baselines: &Baselines, seed: u64) -> Vec<MeasuredRow<'a>> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut by_row: BTreeMap<(&str, &str), Vec<&ColumnValue<'_>>> = BTreeMap::new();
    for entry in entries {
        let key = (entry.test.as_str(), entry.metric.name.as_str());
        if !by_row.contains_key(&key) {
            order.push(key);
        }
        by_row.entry(key).or_default().push(entry);
    }
    order.into_iter().map(|key| row(&by_row[&key], baselines, seed)).collect()
}

fn row<'a>(entries: &[&'a ColumnValue<'a>], baselines: &Baselines, seed: u64) -> MeasuredRow<'a> {
    let first = entries[0];
    let mut by_column: BTreeMap<&str, Vec<&ColumnValue<'_>>> = BTreeMap::new();
    for entry in entries {
        by_column.entry(&entry.column).or_default().push(entry);
    }
    let samples: BTreeMap<String, ColumnSamples> =
        by_column.iter().map(|(column, entries)| ((*column).to_string(), ColumnSamples::of(entries))).collect();
    let value = |column: &String, own: &ColumnSamples| {
        let purpose = format!("compare {} {} {column}", first.test, first.metric.name);
        let reference = baselines.of(column).and_then(|baseline| samples.get(baseline));
        compared(reference, own, stream(seed, &purpose))
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
    MeasuredRow { row, samples, cell: Some(first) }
}

/// Compares the samples of a column with those of its baseline: in pairs if both are of the same blocks.
pub(super) fn compared(baseline: Option<&ColumnSamples>, candidate: &ColumnSamples, seed: u64) -> ComparedValue {
    let samples = candidate.values();
    let own = ComparedValue { samples: samples.len(), ..single(median(&samples).unwrap_or(f64::NAN)) };
    let Some(baseline) = baseline else { return own };
    let estimate = match ColumnSamples::pairs(baseline, candidate) {
        Some((baseline, candidate)) => replicated(&baseline, &candidate, Pairing::Paired, seed),
        None => replicated(&baseline.values(), &samples, Pairing::Independent, seed),
    };
    estimate.map_or_else(|| own.clone(), |estimate| estimated(&own, &estimate))
}

/// Estimates a ratio, without an interval if a side has too few samples.
fn replicated(baseline: &[f64], candidate: &[f64], pairing: Pairing, seed: u64) -> Option<RatioEstimate> {
    let estimate = ratio_of_medians(baseline, candidate, pairing, seed, RESAMPLES)?;
    let enough = baseline.len().min(candidate.len()) >= TRIALS_MIN;
    Some(RatioEstimate { interval: estimate.interval.filter(|_| enough), ..estimate })
}

/// Adds an estimate of the difference to a value.
fn estimated(own: &ComparedValue, estimate: &RatioEstimate) -> ComparedValue {
    let interval = estimate.interval.map(|Interval { low, high }| (percent(low), percent(high)));
    ComparedValue {
        change_percent: Some(percent(estimate.ratio)),
        ci_low: interval.map(|(low, _)| low),
        ci_high: interval.map(|(_, high)| high),
        difference: interval.map(difference),
        p_value: estimate.interval.is_some().then_some(estimate.p_value),
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
        difference: None,
        p_value: None,
        samples: 1,
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
