//! Results of a comparison of two or more columns with a baseline, test by test. Values only; `analysis::compare` fills
//! them.
//! Field names are part of the JSON contract.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::stamp::Stamp;
use crate::values::workload::Better;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The fact that distinguishes the columns (`placement`, `host`, `kernel.release`, `column`).
    pub by: String,
    /// The column that the others are compared with.
    pub baseline: String,
    /// The baseline of each other column, in a comparison by several dimensions; `baseline` is then the part of their
    /// names that they have in common. Empty if `baseline` is a column. A column without a baseline is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub baselines: BTreeMap<String, String>,
    /// All columns in reading order, a baseline before the columns that are compared with it.
    pub columns: Vec<String>,
    /// The rows in plan or file order.
    pub rows: Vec<ComparisonRow>,
    /// Geometric means over the main metrics of all tests, oriented so that higher is better: one per column except the
    /// baseline, then one per column and thread count.
    pub geomean: Vec<GeomeanChange>,
    /// Cells in percent of reference cells of other tests, as the experiment defines them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efficiency: Vec<Efficiency>,
    /// Other facts that differ between the columns, one sentence each.
    pub notes: Vec<String>,
    /// Whether the compared runs were simulated or smoke tests.
    #[serde(flatten)]
    pub stamp: Stamp,
}

impl Comparison {
    /// Adds the stamp of the compared runs. The changes of a smoke test lose their intervals and conclusions.
    #[must_use]
    pub fn stamped(mut self, stamp: Stamp) -> Self {
        self.stamp = stamp;
        if stamp.smoke {
            for value in self.rows.iter_mut().flat_map(|row| row.values.values_mut()) {
                *value = ComparedValue { ci_low: None, ci_high: None, difference: None, p_value: None, ..*value };
            }
            for mean in &mut self.geomean {
                (mean.ci_low, mean.ci_high) = (None, None);
            }
        }
        self
    }

    /// Returns the comparison with only the main metric of each test, for compact tables.
    #[must_use]
    pub fn main_metrics(mut self) -> Self {
        self.rows.retain(|row| row.main);
        self
    }

    /// Returns the column with which a column is compared; `None` for a baseline, and for a column without one.
    pub fn baseline_of(&self, column: &str) -> Option<&str> {
        if self.baselines.is_empty() {
            return (column != self.baseline).then_some(&self.baseline);
        }
        self.baselines.get(column).map(String::as_str)
    }

    /// Whether other columns are compared with this one.
    pub fn is_baseline(&self, column: &str) -> bool {
        if self.baselines.is_empty() { column == self.baseline } else { self.baselines.values().any(|of| of == column) }
    }

    /// Returns the columns that are compared with a baseline.
    pub fn compared(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str).filter(|column| !self.is_baseline(column))
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
    /// Lower end of the 95 % interval; `None` with fewer than three samples (or pairs) on a side.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// Conclusion from the interval; `None` without an interval.
    pub difference: Option<Difference>,
    /// P value of the rank test; `None` without an interval.
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

/// A cell in percent of a reference cell, which may have other parameters (a smaller problem that fits in DRAM).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Efficiency {
    /// Name of the machine, if the comparison has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub cell: EfficiencyCell,
    pub reference: EfficiencyCell,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    /// 100 x the ratio of the medians, inverted for metrics to minimise: above 100 is better than the reference.
    pub percent: f64,
    /// Lower end of the 95 % interval; `None` with fewer than three trials (or pairs).
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EfficiencyCell {
    /// Name of the test in tables.
    pub test: String,
    pub placement: String,
    pub threads: usize,
    pub median: f64,
    /// Number of samples behind the median.
    pub samples: usize,
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
    /// Lower end of the 95 % interval, which contains the measurement noise of these tests; `None` if a test has fewer
    /// than three trials (or pairs) on a side.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// Number of tests.
    #[serde(default)]
    pub tests: usize,
    /// Number of trials of both sides. Equal to twice the number of tests if all figures are single ones.
    #[serde(default)]
    pub trials: usize,
}
