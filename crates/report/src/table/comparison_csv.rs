//! A comparison as CSV: every value, unrounded, one per line. Names and meanings of columns never change; new columns are
//! appended.

use std::iter;

use model::values::comparison::{ComparedValue, Comparison, ComparisonRow, Difference, GeomeanChange};

use super::columns::better_word;
use super::comparison::mean_name;
use super::{csv_number, csv_text};

static COLUMNS: &[Column] = &[
    both("test", |line| line.row.test.clone(), |line| mean_name(line.mean.threads)),
    value("metric", |line| line.row.metric.clone()),
    value("unit", |line| line.row.unit.clone()),
    both("better", |line| better_word(line.row.better).into(), |_| "higher".into()),
    value("main", |line| line.row.main.to_string()),
    both("column", |line| line.column.into(), |line| line.mean.name.clone()),
    both("baseline", |line| line.comparison.baseline.clone(), |line| line.comparison.baseline.clone()),
    value("median", |line| line.value.median.to_string()),
    both("change_percent", |line| csv_number(line.value.change_percent), |line| line.mean.change_percent.to_string()),
    both("ci_low", |line| csv_number(line.value.ci_low), |line| csv_number(line.mean.ci_low)),
    both("ci_high", |line| csv_number(line.value.ci_high), |line| csv_number(line.mean.ci_high)),
    value("difference", difference),
    value("p_value", |line| csv_number(line.value.p_value)),
    value("samples", |line| line.value.samples.to_string()),
];

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
    csv_text(&iter::once(header).chain(values).chain(means).collect::<Vec<_>>())
}

/// The lines of a row: one per compared object that has a value.
fn values<'a>(comparison: &'a Comparison, row: &'a ComparisonRow) -> impl Iterator<Item = ValueLine<'a>> {
    let line = |column: &'a String| Some(ValueLine { comparison, row, column, value: row.values.get(column)? });
    comparison.columns.iter().filter_map(line)
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
