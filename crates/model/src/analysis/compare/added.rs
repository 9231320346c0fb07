//! Imported tables next to runs. A row of a table joins the row of the same test, threads and quantity, whatever the test
//! is called; other rows are added. A column with the name of a column of the runs fills its gaps.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::Columns;
use super::history::History;
use super::rows::{MeasuredRow, compared, percent, single};
use super::samples::ColumnSamples;
use super::tables::replicates;
use crate::import::alias::{TestIdentity, conversion, identify};
use crate::values::comparison::{ComparedValue, ComparisonRow};
use crate::values::record::{ImportedRow, ImportedTable};

/// Seed of the intervals of imported samples: they must be the same each time.
const SEED: u64 = 0;

/// Adds the columns and figures of a table. `first_run` is an index that no run and no other table uses; as many follow
/// as the table has columns.
pub(super) fn add(rows: &mut Vec<MeasuredRow<'_>>, columns: &mut Columns, table: &ImportedTable, first_run: usize) {
    let names: Vec<String> = table.columns.iter().map(|column| added_column(columns, table, column)).collect();
    let mut main = BTreeSet::new();
    for imported in &table.rows {
        let is_main = main.insert(imported.test.as_str());
        let identity = identify(&imported.test, &imported.metric);
        let joined = rows.iter().position(|row| joins(row, imported, &identity, is_main));
        let at = joined.unwrap_or_else(|| {
            rows.push(new_row(imported, &identity, is_main));
            rows.len() - 1
        });
        let factor = conversion(&imported.unit, &rows[at].row.unit).unwrap_or(1.0);
        fill(&mut rows[at], &names, imported, (factor, first_run));
    }
    for row in rows.iter_mut() {
        let added = names.iter().filter(|name| row.row.values.contains_key(*name)).cloned().collect::<Vec<String>>();
        added.iter().for_each(|name| compare(row, name, columns.baselines.of(name)));
    }
}

/// Returns the name of a table's column, and adds it to the columns unless it is one of them.
fn added_column(columns: &mut Columns, table: &ImportedTable, column: &str) -> String {
    if !columns.names.iter().any(|name| name == column) {
        columns.names.push(column.into());
        columns.baselines.add(column);
    } else if !columns.added.contains(column) {
        columns.notes.push(format!("column {column} also contains figures of the imported table {}", table.name));
    }
    columns.added.insert(column.into());
    column.into()
}

/// Whether an imported row is about the test, the metric and the threads of a row.
fn joins(measured: &MeasuredRow<'_>, imported: &ImportedRow, identity: &TestIdentity, is_main: bool) -> bool {
    let row = &measured.row;
    if row.better != imported.better || conversion(&imported.unit, &row.unit).is_none() {
        return false;
    }
    if identity.threads.is_some_and(|threads| row.threads != Some(threads)) {
        return false;
    }
    let is_same_metric = match &identity.metric {
        Some(metric) => *metric == row.metric,
        None => row.main && is_main,
    };
    let Some(cell) = measured.cell.map(|entry| entry.cell) else {
        return row.test == imported.test && row.metric == imported.metric;
    };
    let has = |(name, value): (&String, &String)| cell.parameters.get(name) == Some(value);
    is_same_metric && cell.workload == identity.workload && identity.parameters.iter().all(has)
}

fn new_row<'a>(imported: &ImportedRow, identity: &TestIdentity, is_main: bool) -> MeasuredRow<'a> {
    MeasuredRow {
        row: ComparisonRow {
            test: imported.test.clone(),
            metric: imported.metric.clone(),
            unit: imported.unit.clone(),
            better: imported.better,
            main: is_main,
            threads: identity.threads,
            values: BTreeMap::new(),
        },
        samples: BTreeMap::new(),
        cell: None,
    }
}

/// Adds the figures of an imported row where a row has none. Measured values stay.
fn fill(measured: &mut MeasuredRow<'_>, names: &[String], imported: &ImportedRow, (factor, first_run): (f64, usize)) {
    for (at, name) in names.iter().enumerate() {
        let Some(value) = imported.values[at].filter(|_| !measured.row.values.contains_key(name)) else { continue };
        let samples = replicates(imported, at).map(|samples| samples.iter().map(|sample| sample * factor).collect());
        let samples: Option<Vec<f64>> = samples;
        let count = samples.as_ref().map_or(1, Vec::len);
        measured.row.values.insert(name.clone(), ComparedValue { samples: count, ..single(value * factor) });
        if let Some(samples) = samples {
            measured.samples.insert(name.clone(), ColumnSamples::of_program(first_run + at, &samples));
        }
    }
}

/// Computes the change of a column in a row, which has no interval if a side is a single figure.
fn compare(measured: &mut MeasuredRow<'_>, column: &str, baseline: Option<&str>) {
    let Some(own) = measured.row.values.get(column).filter(|own| own.change_percent.is_none()).cloned() else { return };
    let Some(base) = baseline.and_then(|baseline| measured.row.values.get(baseline)) else { return };
    let change = (base.median > 0.0).then(|| percent(own.median / base.median));
    let both = baseline.and_then(|baseline| measured.samples.get(baseline)).zip(measured.samples.get(column));
    let estimate = both.map(|(base, samples)| compared(Some(base), samples, &History::default(), SEED));
    let value = match estimate.filter(|estimate| estimate.change_percent.is_some()) {
        Some(estimate) => ComparedValue { median: own.median, ..estimate },
        None => ComparedValue { change_percent: change, ..own },
    };
    measured.row.values.insert(column.into(), value);
}
