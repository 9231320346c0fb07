//! Two or more things side by side, test by test, against a baseline. Values only; `compare` fills them.
//! Field names are part of the JSON contract.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::workload::Better;

/// One row per test and metric, one column per compared thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the columns are (`placement`, `host`, `kernel.release`, `column`).
    pub by: String,
    /// The column that the others are compared with.
    pub baseline: String,
    /// All columns in reading order, the baseline first.
    pub columns: Vec<String>,
    /// The rows in plan or file order.
    pub rows: Vec<ComparisonRow>,
    /// Over all tests' main metrics, oriented so that more is better: one per column but the baseline, then those over the
    /// tests of one thread count.
    pub geomean: Vec<GeomeanChange>,
    /// Facts that differ between columns although the comparison is by something else, one sentence each.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Only each test's main metric, for tables that people read at a glance.
    #[must_use]
    pub fn main_metrics(mut self) -> Self {
        self.rows.retain(|row| row.main);
        self
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    pub test: String,
    pub metric: String,
    /// Its unit.
    pub unit: String,
    pub better: Better,
    /// Whether it is its test's main metric, which the geometric mean takes.
    pub main: bool,
    /// With how many threads it was made, where that is the same in all columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// By column; a column without a value is absent.
    pub values: BTreeMap<String, ComparedValue>,
}

/// One column's value in one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedValue {
    /// The column's own median, in the row's unit.
    pub median: f64,
    /// Against the baseline: 100 x (ratio of medians - 1). None in the baseline's own column.
    pub change_percent: Option<f64>,
    /// Lower end of its 95 % interval; none for single figures.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// What may be said; none where there is no interval to say it from.
    pub difference: Option<Difference>,
    /// The rank test's p value, where there are samples.
    pub p_value: Option<f64>,
    /// How many samples are behind it.
    pub samples: usize,
}

/// What may be said of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// The interval lies above the baseline.
    #[serde(rename = "higher")]
    Higher,
    /// The interval lies below it.
    #[serde(rename = "lower")]
    Lower,
    /// The interval holds the baseline.
    #[serde(rename = "none seen")]
    NoneSeen,
}

/// One column against the baseline over all tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeomeanChange {
    pub name: String,
    /// Over the tests with so many threads alone; over all where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// 100 x (geometric mean of the ratios - 1); positive is better.
    pub change_percent: f64,
    /// Lower end of its 95 % interval; none with fewer than two tests.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
}
