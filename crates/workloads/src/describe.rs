//! Constant forms of the model's descriptions for the tables of workloads: borrowed text, with every field named.

use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, Reduce};

/// One parameter; see [`ParameterSpec`].
pub(crate) struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: ParameterKind,
    pub default: Option<&'static str>,
    /// `None` if the default is quick enough for smoke tests.
    pub smoke: Option<&'static str>,
}

/// One metric; see [`MetricSpec`].
pub(crate) struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
    pub series: &'static str,
    pub reduce: Reduce,
}

impl Metric {
    /// The median of the series with the metric's name, which is the usual case.
    pub(crate) fn median(name: &'static str, unit: &'static str, better: Better) -> Self {
        Self { name, unit, better, series: name, reduce: Reduce::Median }
    }
}

pub(crate) fn choice(words: &[&str]) -> ParameterKind {
    ParameterKind::Choice(words.iter().map(|word| (*word).to_string()).collect())
}

pub(crate) fn parameters<const N: usize>(rows: [Parameter; N]) -> Vec<ParameterSpec> {
    let spec = |row: Parameter| ParameterSpec {
        name: row.name.into(),
        about: row.about.into(),
        kind: row.kind,
        default: row.default.map(Into::into),
        smoke: row.smoke.map(Into::into),
    };
    rows.into_iter().map(spec).collect()
}

pub(crate) fn metrics<const N: usize>(rows: [Metric; N]) -> Vec<MetricSpec> {
    let spec = |row: Metric| MetricSpec {
        name: row.name.into(),
        unit: row.unit.into(),
        better: row.better,
        series: row.series.into(),
        reduce: row.reduce,
    };
    rows.into_iter().map(spec).collect()
}
