//! Results of a comparison of two or more columns with a baseline, test by test. Values only; `analysis::compare` fills
//! them.
//! Field names are part of the JSON contract.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::workload::Better;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The fact that distinguishes the columns (`placement`, `host`, `kernel.release`, `column`).
    pub by: String,
    /// The column that the others are compared with.
    pub baseline: String,
    /// All columns in reading order, the baseline first.
    pub columns: Vec<String>,
    /// The rows in plan or file order.
    pub rows: Vec<ComparisonRow>,
    /// Geometric means over the main metrics of all tests, oriented so that higher is better: one per column except the
    /// baseline, then one per column and thread count.
    pub geomean: Vec<GeomeanChange>,
    /// Other facts that differ between the columns, one sentence each.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Returns the comparison with only the main metric of each test, for compact tables.
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
    pub unit: String,
    pub better: Better,
    /// Whether this is the test's main metric. Geometric means use main metrics only.
    pub main: bool,
    /// Number of threads; `None` if the columns differ in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Values by column; columns without a value are absent.
    pub values: BTreeMap<String, ComparedValue>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedValue {
    /// Median of the column, in the unit of the row.
    pub median: f64,
    /// Change from the baseline: 100 x (ratio of medians - 1); `None` for the baseline itself.
    pub change_percent: Option<f64>,
    /// Lower end of the 95 % interval; `None` without samples.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// Conclusion from the interval; `None` without an interval.
    pub difference: Option<Difference>,
    /// P value of the rank test; `None` without samples.
    pub p_value: Option<f64>,
    /// Number of samples behind the median.
    pub samples: usize,
}

/// Conclusion about the difference between a column and the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// The interval is above the baseline.
    #[serde(rename = "higher")]
    Higher,
    /// The interval is below the baseline.
    #[serde(rename = "lower")]
    Lower,
    /// The interval contains the baseline.
    #[serde(rename = "none seen")]
    NoneSeen,
}

/// Change of one column from the baseline over all tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeomeanChange {
    pub name: String,
    /// Thread count of the tests included; `None` for all tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// 100 x (geometric mean of the ratios - 1); positive is better.
    pub change_percent: f64,
    /// Lower end of the 95 % interval; `None` with fewer than two tests.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
}
