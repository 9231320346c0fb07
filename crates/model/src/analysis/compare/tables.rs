//! Comparisons of the columns of imported tables.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::Baselines;
use super::history::History;
use super::rows::{MeasuredRow, compared, percent, single};
use super::samples::ColumnSamples;
use crate::import::alias::without_threads;
use crate::values::comparison::{ComparedValue, ComparisonRow};
use crate::values::record::{ImportedRow, ImportedTable};

/// An imported table has no run with a seed, and must give the same interval each time.
const SEED: u64 = 0;

/// Returns the rows of a table. Single figures give changes without intervals; samples in both columns are compared as
/// independent samples.
pub(super) fn rows<'a>(table: &ImportedTable, baselines: &Baselines) -> Vec<MeasuredRow<'a>> {
    let mut seen = BTreeSet::new();
    let row = |row: &ImportedRow| {
        let samples: BTreeMap<String, ColumnSamples> = table
            .columns
            .iter()
            .enumerate()
            .filter_map(|(at, column)| Some((column.clone(), ColumnSamples::of_program(at, replicates(row, at)?))))
            .collect();
        let values = table.columns.iter().enumerate();
        let values = values
            .filter_map(|(at, column)| Some((column.clone(), value(table, row, at, baselines.of(column), &samples)?)));
        MeasuredRow {
            row: ComparisonRow {
                test: row.test.clone(),
                metric: row.metric.clone(),
                unit: row.unit.clone(),
                better: row.better,
                main: seen.insert(row.test.clone()),
                threads: without_threads(&row.test).1,
                values: values.collect(),
            },
            samples,
            cell: None,
        }
    };
    table.rows.iter().map(row).collect()
}

/// Returns the repetitions of a figure; `None` for a single figure.
pub(super) fn replicates(row: &ImportedRow, at: usize) -> Option<&[f64]> {
    row.samples.get(at).filter(|samples| !samples.is_empty()).map(Vec::as_slice)
}

/// Compares a column of a row with its baseline column; `None` if the column has no figure.
fn value(
    table: &ImportedTable,
    row: &ImportedRow,
    at: usize,
    baseline: Option<&str>,
    samples: &BTreeMap<String, ColumnSamples>,
) -> Option<ComparedValue> {
    let own = single(row.values[at]?);
    let of = |column: &str| samples.get(column);
    let own = ComparedValue { samples: of(&table.columns[at]).map_or(1, ColumnSamples::len), ..own };
    let Some(reference) = baseline.and_then(|name| table.columns.iter().position(|column| column == name)) else {
        return Some(own);
    };
    let Some(base) = row.values[reference].filter(|base| *base > 0.0) else { return Some(own) };
    let both = of(&table.columns[reference]).zip(of(&table.columns[at]));
    let estimate = both.map(|(base, own)| compared(Some(base), own, &History::default(), SEED));
    Some(match estimate.filter(|estimate| estimate.change_percent.is_some()) {
        Some(estimate) => ComparedValue { median: own.median, ..estimate },
        None => ComparedValue { change_percent: Some(percent(own.median / base)), ..own },
    })
}
