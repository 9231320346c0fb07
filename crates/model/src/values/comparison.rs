//! Results of a comparison of two or more columns with a baseline, test by test. Values only; `analysis::compare` fills
//! them.
//! Field names are part of the JSON contract.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::statistics::CONFIDENCE;
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
    /// The machine of each column. Columns of imported tables are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machines: BTreeMap<String, ColumnMachine>,
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

/// The machine whose results a column contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnMachine {
    /// Label of the machine (`--host-label`), if given.
    pub host: Option<String>,
    /// CPU model as reported by the Linux kernel, if known.
    pub cpu_model: Option<String>,
}

impl Comparison {
    /// Adds the stamp of the compared runs. The changes of a smoke test lose their intervals and conclusions.
    #[must_use]
    pub fn stamped(mut self, stamp: Stamp) -> Self {
        self.stamp = stamp;
        if stamp.smoke {
            for value in self.rows.iter_mut().flat_map(|row| row.values.values_mut()) {
                *value = ComparedValue {
                    ci_low: None,
                    ci_high: None,
                    replication: None,
                    difference: None,
                    p_value: None,
                    ..*value
                };
            }
            for mean in &mut self.geomean {
                (mean.ci_low, mean.ci_high, mean.replication) = (None, None, None);
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

impl Comparison {
    /// Counts the differences that were judged and claimed, by these rows.
    pub fn claims(&self) -> ClaimCounts {
        let judged = self
            .rows
            .iter()
            .flat_map(|row| row.values.values())
            .filter_map(|value| value.difference.zip(value.p_value));
        let judged: Vec<(Difference, f64)> = judged.collect();
        let mut p_values: Vec<f64> = judged.iter().map(|(_, p_value)| *p_value).collect();
        p_values.sort_unstable_by(f64::total_cmp);
        let level = 1.0 - CONFIDENCE;
        // Holm, Scandinavian Journal of Statistics 6, 1979: the k-th smallest of m is compared with the level over m - k.
        let remaining = (0..p_values.len()).take_while(|at| p_values[*at] * (p_values.len() - at) as f64 <= level);
        let after_correction = remaining.count();
        ClaimCounts {
            judged: judged.len(),
            claimed: judged.iter().filter(|(difference, _)| *difference != Difference::NoneSeen).count(),
            expected_by_chance: level * judged.len() as f64,
            after_correction,
            p_value_max: after_correction.checked_sub(1).map(|last| p_values[last]),
        }
    }
}

/// Numbers of judged and claimed differences of a comparison, and the contribution of chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClaimCounts {
    /// Number of differences with an interval that supports claims.
    pub judged: usize,
    /// Number of these that are claimed: their interval does not contain 0.
    pub claimed: usize,
    /// Expected number of claims if no side differs: 5 % of the judged ones.
    pub expected_by_chance: f64,
    /// Number of differences with a p value that remains significant after Holm's correction for all judged ones.
    pub after_correction: usize,
    /// The largest p value that remains; `None` if none does.
    #[serde(skip)]
    p_value_max: Option<f64>,
}

impl ClaimCounts {
    /// Whether a difference with this p value remains significant after the correction.
    pub fn remains(&self, p_value: f64) -> bool {
        self.p_value_max.is_some_and(|most| p_value <= most)
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
    /// Change from the baseline: 100 x (ratio - 1); `None` for the baseline itself. The ratio is that of the pairs if
    /// both are of the same blocks, else of the run medians or, with one run a side, of the medians.
    pub change_percent: Option<f64>,
    /// Lower end of the 95 % interval; `None` with fewer than three samples (or pairs) on a side.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// Replication behind the interval; `None` without an interval.
    #[serde(default)]
    pub replication: Option<Replication>,
    /// Conclusion from the interval; `None` without an interval, or if an interval of single runs excludes zero.
    pub difference: Option<Difference>,
    /// P value of the test that belongs to the interval; `None` without an interval or between single runs.
    pub p_value: Option<f64>,
    /// Number of samples behind the median.
    pub samples: usize,
    /// Number of these that are of suspect trials.
    #[serde(default)]
    pub suspect: usize,
}

impl ComparedValue {
    /// Whether a claim from this value and its baseline rests on suspect trials: more than half on either side.
    pub fn rests_on_suspect(&self, baseline: Option<&Self>) -> bool {
        self.counts().is_most() || baseline.is_some_and(|baseline| baseline.counts().is_most())
    }

    pub fn counts(&self) -> SuspectCount {
        SuspectCount { suspect: self.suspect, trials: self.samples }
    }
}

/// Number of counted trials behind a value, and how many of them were disturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectCount {
    #[serde(default)]
    pub suspect: usize,
    #[serde(default)]
    pub trials: usize,
}

impl SuspectCount {
    /// Whether the value rests mostly on suspect trials.
    pub fn is_most(self) -> bool {
        2 * self.suspect > self.trials
    }
}

impl std::iter::Sum for SuspectCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, one| Self {
            suspect: sum.suspect + one.suspect,
            trials: sum.trials + one.trials,
        })
    }
}

/// Replication behind the interval of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replication {
    /// Blocks of the same runs, in which both sides were measured.
    Blocks,
    /// Several runs on each side: the interval contains what differs between them.
    Runs,
    /// A single run on a side: how much runs differ is known from other runs of the same cell on the same machine with
    /// the same settings.
    OtherRuns,
    /// Trials of a single run on a side: the interval does not contain what differs between runs, and supports no claim.
    Trials,
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
    /// Replication behind the interval; `None` without an interval.
    #[serde(default)]
    pub replication: Option<Replication>,
    /// Number of tests.
    #[serde(default)]
    pub tests: usize,
    /// Number of trials of both sides. Equal to twice the number of tests if all figures are single ones.
    #[serde(default)]
    pub trials: usize,
    /// Number of these that are suspect.
    #[serde(default)]
    pub suspect: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_p_values(p_values: &[f64]) -> Comparison {
        let value = |p_value: &f64| ComparedValue {
            median: 1.0,
            change_percent: Some(1.0),
            ci_low: None,
            ci_high: None,
            replication: Some(Replication::Blocks),
            difference: Some(if *p_value < 0.05 { Difference::Higher } else { Difference::NoneSeen }),
            p_value: Some(*p_value),
            samples: 9,
            suspect: 0,
        };
        let row = |p_value: &f64| ComparisonRow {
            test: "t".into(),
            metric: "m".into(),
            unit: "s".into(),
            better: Better::Lower,
            main: true,
            threads: None,
            values: [("b".to_string(), value(p_value))].into(),
        };
        Comparison {
            by: "run".into(),
            baseline: "a".into(),
            baselines: BTreeMap::new(),
            machines: BTreeMap::new(),
            columns: vec!["a".into(), "b".into()],
            rows: p_values.iter().map(row).collect(),
            geomean: Vec::new(),
            efficiency: Vec::new(),
            notes: Vec::new(),
            stamp: Stamp::default(),
        }
    }

    #[test]
    fn claims_are_counted_and_corrected_for_their_number() {
        // By R: p.adjust(c(0.011, 0.012, 0.04, 0.3, 0.9), "holm") is 0.055, 0.055, 0.12, 0.6, 0.9.
        let claims = with_p_values(&[0.04, 0.3, 0.011, 0.9, 0.012]).claims();
        assert_eq!((claims.judged, claims.claimed, claims.after_correction), (5, 3, 0));
        assert!((claims.expected_by_chance - 0.25).abs() < 1e-12 && !claims.remains(0.011));
        // With 0.009 and 0.012 the first two are 0.045 and 0.048.
        let claims = with_p_values(&[0.04, 0.3, 0.009, 0.9, 0.012]).claims();
        assert_eq!(claims.after_correction, 2);
        assert!(claims.remains(0.012) && !claims.remains(0.04));
        assert_eq!(with_p_values(&[]).claims().judged, 0);
    }
}
