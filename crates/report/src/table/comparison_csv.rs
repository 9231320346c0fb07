//! A comparison as CSV: every value, unrounded, one per line. Names and meanings of columns never change; new columns are
//! appended.

use std::iter;

use model::values::comparison::{
    ComparedValue, Comparison, ComparisonRow, Difference, Efficiency, GeomeanChange, Replication,
};

use super::columns::better_word;
use super::comparison::mean_name;
use super::efficiency::name;
use super::{csv_number, csv_text};

static COLUMNS: &[Column] = &[
    both("test", |line| line.row.test.clone(), |line| mean_name(line.mean.threads)),
    value("metric", |line| line.row.metric.clone()),
    value("unit", |line| line.row.unit.clone()),
    both("better", |line| better_word(line.row.better).into(), |_| "higher".into()),
    value("main", |line| line.row.main.to_string()),
    both("column", |line| line.column.into(), |line| line.mean.name.clone()),
    both("baseline", |line| baseline(line.comparison, line.column), |line| baseline(line.comparison, &line.mean.name)),
    value("median", |line| line.value.median.to_string()),
    both("change_percent", |line| csv_number(line.value.change_percent), |line| line.mean.change_percent.to_string()),
    both("ci_low", |line| csv_number(line.value.ci_low), |line| csv_number(line.mean.ci_low)),
    both("ci_high", |line| csv_number(line.value.ci_high), |line| csv_number(line.mean.ci_high)),
    value("difference", difference),
    value("p_value", |line| csv_number(line.value.p_value)),
    value("samples", |line| line.value.samples.to_string()),
    both("simulated", |line| simulated(line.comparison), |line| simulated(line.comparison)),
    both("smoke", |line| smoke(line.comparison), |line| smoke(line.comparison)),
    both("tests", |_| String::new(), |line| line.mean.tests.to_string()),
    both("trials", |_| String::new(), |line| line.mean.trials.to_string()),
    both("replication", |line| replication(line.value.replication), |line| replication(line.mean.replication)),
    both("suspect", |line| line.value.suspect.to_string(), |line| line.mean.suspect.to_string()),
    both("host", |line| host(line.comparison, line.column), |line| host(line.comparison, &line.mean.name)),
    both(
        "cpu_model",
        |line| cpu_model(line.comparison, line.column),
        |line| cpu_model(line.comparison, &line.mean.name),
    ),
];

fn host(comparison: &Comparison, column: &str) -> String {
    comparison.machines.get(column).and_then(|machine| machine.host.clone()).unwrap_or_default()
}

fn cpu_model(comparison: &Comparison, column: &str) -> String {
    comparison.machines.get(column).and_then(|machine| machine.cpu_model.clone()).unwrap_or_default()
}

fn simulated(comparison: &Comparison) -> String {
    comparison.stamp.simulated.to_string()
}

fn smoke(comparison: &Comparison) -> String {
    comparison.stamp.smoke.to_string()
}

struct Column {
    name: &'static str,
    value: fn(&ValueLine<'_>) -> String,
    mean: fn(&MeanLine<'_>) -> String,
}

/// The line of a test, a metric and a compared object.
struct ValueLine<'a> {
    comparison: &'a Comparison,
    row: &'a ComparisonRow,
    column: &'a str,
    value: &'a ComparedValue,
}

/// The line of a geometric mean, which has no metric.
struct MeanLine<'a> {
    comparison: &'a Comparison,
    mean: &'a GeomeanChange,
}

const fn both(name: &'static str, value: fn(&ValueLine<'_>) -> String, mean: fn(&MeanLine<'_>) -> String) -> Column {
    Column { name, value, mean }
}

/// A column that is empty in the lines of geometric means.
const fn value(name: &'static str, value: fn(&ValueLine<'_>) -> String) -> Column {
    both(name, value, |_| String::new())
}

pub fn comparison_csv(comparison: &Comparison) -> String {
    let header = COLUMNS.iter().map(|column| column.name.to_string()).collect();
    let values = comparison.rows.iter().flat_map(|row| values(comparison, row));
    let values = values.map(|line| COLUMNS.iter().map(|column| (column.value)(&line)).collect());
    let means = comparison.geomean.iter().map(|mean| MeanLine { comparison, mean });
    let means = means.map(|line| COLUMNS.iter().map(|column| (column.mean)(&line)).collect());
    let efficiencies = comparison.efficiency.iter().map(efficiency);
    csv_text(&iter::once(header).chain(values).chain(means).chain(efficiencies).collect::<Vec<_>>())
}

/// The line of an efficiency: its value is a percentage, its baseline is the reference cell.
fn efficiency(row: &Efficiency) -> Vec<String> {
    let field = |column: &Column| match column.name {
        "test" => format!("efficiency of {}", row.cell.test),
        "metric" => row.metric.clone(),
        "unit" => "%".into(),
        "better" => "higher".into(),
        "column" => row.host.as_ref().map_or(String::new(), |host| format!("{host}, ")) + &row.cell.placement,
        "baseline" => name(&row.reference),
        "median" => row.percent.to_string(),
        "ci_low" => csv_number(row.ci_low),
        "ci_high" => csv_number(row.ci_high),
        "samples" => row.cell.samples.to_string(),
        _ => String::new(),
    };
    COLUMNS.iter().map(field).collect()
}

/// The baseline of a column; a baseline is its own.
fn baseline(comparison: &Comparison, column: &str) -> String {
    let itself = || if comparison.is_baseline(column) { column.to_string() } else { String::new() };
    comparison.baseline_of(column).map_or_else(itself, str::to_string)
}

/// The lines of a row: one per compared object that has a value.
fn values<'a>(comparison: &'a Comparison, row: &'a ComparisonRow) -> impl Iterator<Item = ValueLine<'a>> {
    let line = |column: &'a String| Some(ValueLine { comparison, row, column, value: row.values.get(column)? });
    comparison.columns.iter().filter_map(line)
}

fn replication(replication: Option<Replication>) -> String {
    match replication {
        Some(Replication::Blocks) => "blocks",
        Some(Replication::Runs) => "runs",
        Some(Replication::OtherRuns) => "other-runs",
        Some(Replication::Trials) => "trials",
        None => "",
    }
    .into()
}

fn difference(line: &ValueLine<'_>) -> String {
    match line.value.difference {
        Some(Difference::Higher) => "higher",
        Some(Difference::Lower) => "lower",
        Some(Difference::NoneSeen) => "none seen",
        None => "",
    }
    .into()
}
