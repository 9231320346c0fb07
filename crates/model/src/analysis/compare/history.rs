//! Other runs of the same cells, which show how much runs on one machine with unchanged settings differ.

use std::collections::{BTreeMap, BTreeSet};

use super::ComparedRun;
use super::columns::{ColumnValue, host};
use super::samples::ColumnSamples;
use crate::analysis::finding::{CellFinding, MetricFinding};
use crate::values::record::RunRecord;

/// Names a metric of a cell on one machine with unchanged settings. Its runs differ by chance only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellState {
    /// Machine and settings.
    state: String,
    cell: String,
}

impl CellState {
    fn new(state: &str, cell: &CellFinding, metric: &MetricFinding) -> Self {
        let CellFinding { workload, parameters, placement, threads, .. } = cell;
        let cell = format!("{workload} {parameters:?} {placement} {threads} {}", metric.name);
        Self { state: state.into(), cell }
    }

    pub(super) fn state(&self) -> &str {
        &self.state
    }
}

/// Samples of each cell by run. Runs have indexes: the compared ones first.
#[derive(Debug, Default)]
pub(super) struct History<'a> {
    /// Machine and settings of each compared run.
    states: Vec<String>,
    cells: BTreeMap<CellState, BTreeMap<usize, &'a [f64]>>,
}

impl<'a> History<'a> {
    /// `other` are runs that are not compared.
    pub(super) fn new(compared: &[ComparedRun<'a>], other: &[ComparedRun<'a>]) -> Self {
        let mut history = Self { states: compared.iter().map(|run| state(run.record)).collect(), ..Self::default() };
        // Without a run besides the two sides, nothing is known.
        if compared.len() + other.len() > 2 {
            compared.iter().chain(other).enumerate().for_each(|(index, run)| history.add(index, run));
        }
        history
    }

    fn add(&mut self, index: usize, run: &ComparedRun<'a>) {
        for (cell, samples) in samples(run) {
            self.cells.entry(cell).or_default().insert(index, samples);
        }
    }

    pub(super) fn cell(&self, entry: &ColumnValue<'_>) -> CellState {
        CellState::new(&self.states[entry.run], entry.cell, entry.metric)
    }

    /// Returns groups of runs of the same cell in the same state: those of both sides, without the runs of either.
    pub(super) fn groups(&self, baseline: &ColumnSamples, candidate: &ColumnSamples) -> Vec<Vec<&'a [f64]>> {
        self.runs_by_state(baseline, candidate).into_values().map(|runs| runs.into_values().collect()).collect()
    }

    /// Returns the runs of the cells of both sides, without the runs of either, by machine and settings of a cell.
    pub(super) fn runs_by_state(
        &self,
        baseline: &ColumnSamples,
        candidate: &ColumnSamples,
    ) -> BTreeMap<&CellState, BTreeMap<usize, &'a [f64]>> {
        let sides: BTreeSet<usize> = baseline.runs().union(&candidate.runs()).copied().collect();
        let cells = baseline.cells.union(&candidate.cells);
        let known = cells.filter_map(|cell| self.cells.get_key_value(cell));
        let others = known.map(|(cell, runs)| {
            let others = runs.iter().filter(|(run, _)| !sides.contains(run));
            (cell, others.map(|(run, samples)| (*run, *samples)).collect())
        });
        others.collect()
    }
}

/// Returns the samples of a metric in those runs of `others` that repeat one of these cells on the same machine with the
/// same settings, grouped by cell. Runs within a group differ only by chance.
pub fn repeated_runs<'a>(
    cells: &[(&RunRecord, &CellFinding)],
    metric: &MetricFinding,
    others: &[ComparedRun<'a>],
) -> Vec<Vec<&'a [f64]>> {
    let cells = cells.iter().map(|(record, cell)| CellState::new(&state(record), cell, metric));
    let mut groups: BTreeMap<CellState, Vec<&'a [f64]>> = cells.map(|cell| (cell, Vec::new())).collect();
    for (cell, samples) in others.iter().flat_map(samples) {
        if let Some(group) = groups.get_mut(&cell) {
            group.push(samples);
        }
    }
    groups.into_values().filter(|group| !group.is_empty()).collect()
}

/// Returns the samples of each metric that has any.
fn samples<'a>(run: &ComparedRun<'a>) -> impl Iterator<Item = (CellState, &'a [f64])> + use<'a> {
    let (state, finding) = (state(run.record), run.finding);
    finding.cells.iter().flat_map(move |cell| {
        let state = state.clone();
        let metrics = cell.metrics.iter().filter(|metric| !metric.samples.is_empty());
        metrics.map(move |metric| (CellState::new(&state, cell, metric), metric.samples.as_slice()))
    })
}

/// Returns the name of a machine with its lasting settings.
fn state(record: &RunRecord) -> String {
    format!("{} {}", host(record), record.machine.settings.fingerprint())
}
