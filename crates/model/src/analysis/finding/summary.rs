//! Computes findings from the trials of a run.

use std::collections::BTreeMap;

use super::budget::BudgetSamples;
use super::caveats::{self, CaveatSamples};
use super::load::LoadSum;
use super::memory::PagesSum;
use super::{CellFinding, MetricFinding, RunFinding};
use crate::stats::racing::too_many_missing;
use crate::stats::statistics::{CONFIDENCE, TRIALS_MIN, median, median_interval};
use crate::values::command_number;
use crate::values::plan::{Cell, Plan};
use crate::values::record::{TrialRecord, VerdictCounts};
use crate::values::trial::{Grade, Role, Sample, TrialId};
use crate::values::workload::{Better, MetricSpec, Reduce, WorkloadSpec};

/// Caveat of cells whose suspect trials were left out.
pub const SUSPECT_LEFT_OUT: &str = "suspect trials are left out (--strict)";
/// Maximum number of passes: `CrystalDiskMark` has five; more trials serve to compute an interval.
const PASSES_MAX: u32 = 5;

/// Summarises every cell of a plan over its trials, which may come in any order.
pub fn summarise(plan: &Plan, trials: &[TrialRecord]) -> RunFinding {
    let mut summary = RunSummariser::new(plan, TrialNames::Kept);
    trials.iter().for_each(|record| summary.add(record));
    summary.finish()
}

/// Whether findings name the trials behind each sample. A name takes several times the memory of its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialNames {
    Kept,
    /// [`MetricFinding::trials`] is empty.
    LeftOut,
}

/// Summarises a run trial by trial: of each trial, it keeps one number per metric.
#[derive(Debug)]
pub struct RunSummariser<'a> {
    plan: &'a Plan,
    names: TrialNames,
    cells: Vec<CellTrials>,
}

impl<'a> RunSummariser<'a> {
    pub fn new(plan: &'a Plan, names: TrialNames) -> Self {
        Self { plan, names, cells: plan.cells.iter().map(|_| CellTrials::default()).collect() }
    }

    /// Adds a trial; one that was not measured is ignored.
    pub fn add(&mut self, record: &TrialRecord) {
        let trial = &record.trial;
        let cell = self.plan.cells.get(trial.cell).and_then(|cell| self.plan.spec(&cell.workload));
        let Some(spec) = cell.filter(|_| trial.role == Role::Measured) else { return };
        self.cells[trial.cell].add(spec, record, self.names);
    }

    pub fn finish(self) -> RunFinding {
        let plan = self.plan;
        let cells = plan.cells.iter().zip(self.cells);
        let cells = cells.filter_map(|(cell, trials)| Some(cell_finding(plan.spec(&cell.workload)?, cell, trials)));
        let passes = plan.repeat.min == plan.repeat.max && plan.repeat.max <= PASSES_MAX;
        RunFinding { cells: cells.collect(), skipped: plan.skipped.clone(), passes }
    }
}

/// The measured trials of a cell; lists have one element per trial that is not invalid.
#[derive(Debug, Default)]
struct CellTrials {
    /// Block and attempt of each.
    order: Vec<(u32, u32)>,
    /// Empty if they are left out.
    ids: Vec<TrialId>,
    suspect: Vec<bool>,
    /// For each metric of the workload, its value in each trial; NaN if the trial has none.
    values: Vec<Vec<f64>>,
    verdicts: VerdictCounts,
    /// Number of trials that completed without the requested placement.
    violated: u32,
    reasons: BTreeMap<String, u32>,
    load: LoadSum,
    pages: PagesSum,
    budget: BudgetSamples,
    caveats: CaveatSamples,
}

impl CellTrials {
    fn add(&mut self, spec: &WorkloadSpec, record: &TrialRecord, names: TrialNames) {
        for reason in &record.verdict.reasons {
            *self.reasons.entry(reason.clone()).or_default() += 1;
        }
        self.violated += u32::from(record.is_violated());
        match record.verdict.grade {
            Grade::Valid => self.verdicts.valid += 1,
            Grade::Suspect => self.verdicts.suspect += 1,
            Grade::Invalid => {
                self.verdicts.invalid += 1;
                return;
            }
        }
        self.order.push((record.trial.block, record.trial.attempt));
        if names == TrialNames::Kept {
            self.ids.push(record.trial.id.clone());
        }
        self.suspect.push(record.verdict.grade == Grade::Suspect);
        self.values.resize(spec.metrics.len(), Vec::new());
        for (metric, values) in spec.metrics.iter().zip(&mut self.values) {
            values.push(metric_value(metric, &record.outcome.samples).unwrap_or(f64::NAN));
        }
        self.load.add(&record.outcome.evidence.cpu_times);
        self.pages.add(&record.outcome.evidence);
        self.budget.add(&record.outcome.evidence);
        self.caveats.add(&record.outcome.samples);
    }

    /// Discards all values if the placement was violated too often for a result, and returns the caveat. Failed trials
    /// do not count: they say something about the program, not about the placement.
    fn discard_if_violated(&mut self) -> Option<String> {
        let measured = self.verdicts.valid + self.verdicts.suspect + self.verdicts.invalid;
        let violated = self.violated;
        too_many_missing(violated, measured).then(|| {
            (self.order, self.ids, self.suspect, self.values) = Default::default();
            (self.load, self.pages, self.budget, self.caveats) = Default::default();
            format!("no result, because the placement was violated in {violated} of {measured} trials")
        })
    }

    /// Sorts the trials by block and attempt.
    fn sort(&mut self) {
        if self.order.is_sorted() {
            return;
        }
        let mut positions: Vec<usize> = (0..self.order.len()).collect();
        positions.sort_by_key(|position| self.order[*position]);
        self.order = reordered(&self.order, &positions);
        self.suspect = reordered(&self.suspect, &positions);
        self.values.iter_mut().for_each(|values| *values = reordered(values, &positions));
        if !self.ids.is_empty() {
            self.ids = reordered(&self.ids, &positions);
        }
    }

    fn metric(&self, metric: &MetricSpec, values: &[f64]) -> MetricFinding {
        let mut finding = MetricFinding {
            name: metric.name.clone(),
            unit: metric.unit.clone(),
            better: metric.better,
            median: None,
            ci_low: None,
            ci_high: None,
            best: None,
            mean: None,
            samples: values.iter().copied().filter(|value| !value.is_nan()).collect(),
            blocks: having(values, self.order.iter().map(|(block, _)| *block)),
            trials: having(values, self.ids.iter().cloned()),
            suspect: having(values, self.suspect.iter().copied()),
        };
        finding.summarise();
        finding
    }
}

fn reordered<T: Clone>(values: &[T], positions: &[usize]) -> Vec<T> {
    positions.iter().map(|position| values[*position].clone()).collect()
}

/// Returns the elements of the trials that have a value.
fn having<T>(values: &[f64], of_trials: impl Iterator<Item = T>) -> Vec<T> {
    values.iter().zip(of_trials).filter(|(value, _)| !value.is_nan()).map(|(_, element)| element).collect()
}

fn cell_finding(spec: &WorkloadSpec, cell: &Cell, mut trials: CellTrials) -> CellFinding {
    let violations = trials.discard_if_violated();
    trials.sort();
    trials.values.resize(spec.metrics.len(), Vec::new());
    let values = std::mem::take(&mut trials.values);
    let mut metrics: Vec<MetricFinding> =
        spec.metrics.iter().zip(values).map(|(metric, values)| trials.metric(metric, &values)).collect();
    metrics.sort_by_key(|metric| cell.main.as_ref().is_some_and(|main| *main != metric.name));
    name_number(spec, cell, &mut metrics);
    // Metrics without a value in this cell (such as a command without a regular expression) are omitted, unless the
    // cell has no result at all.
    if metrics.iter().any(|metric| metric.median.is_some()) {
        metrics.retain(|metric| metric.median.is_some());
    }
    let autocorrelated = metrics.first().and_then(caveats::autocorrelated);
    CellFinding {
        workload: cell.workload.clone(),
        test: cell.test.clone(),
        parameters: spec.written(&cell.parameters),
        placement: cell.placement.name.clone(),
        threads: cell.placement.threads,
        cpus: cell.placement.cpus().to_string(),
        memory: cell.placement.memory.to_string(),
        reason: cell.placement.reason.clone(),
        metrics,
        outside_means: cell.outside_means,
        cpu_load: trials.load.means(),
        node_pages: trials.pages.means(),
        budget: trials.budget.medians(),
        verdicts: trials.verdicts,
        reasons: most_frequent_first(trials.reasons),
        caveats: violations.into_iter().chain(trials.caveats.sentences()).chain(autocorrelated).collect(),
    }
}

/// Renames the number in the output of a command as the user named it, unless another metric has that name.
fn name_number(spec: &WorkloadSpec, cell: &Cell, metrics: &mut [MetricFinding]) {
    for metric in metrics {
        let own_name = command_number::own_name(&spec.name, &cell.parameters, &metric.name);
        let is_free = |name: &String| spec.metrics.iter().all(|other| other.name != *name);
        own_name.filter(is_free).inspect(|name| metric.name.clone_from(name));
    }
}

impl MetricFinding {
    /// Computes median, interval, best value and mean from the samples.
    fn summarise(&mut self) {
        self.median = median(&self.samples);
        let better = if self.better == Better::Higher { f64::max } else { f64::min };
        self.best = self.samples.iter().copied().reduce(better);
        let count = self.samples.len() as f64;
        self.mean = (count > 0.0).then(|| self.samples.iter().sum::<f64>() / count);
        let interval = median_interval(&self.samples, CONFIDENCE).filter(|_| self.samples.len() >= TRIALS_MIN);
        self.ci_low = interval.map(|interval| interval.low);
        self.ci_high = interval.map(|interval| interval.high);
    }

    /// Leaves out the samples of suspect trials.
    fn leave_out_suspect(&mut self) {
        let suspect = std::mem::take(&mut self.suspect);
        let mut is_kept = suspect.iter().map(|is_suspect| !is_suspect).chain(std::iter::repeat(true));
        let kept: Vec<bool> = is_kept.by_ref().take(self.samples.len()).collect();
        retain(&mut self.samples, &kept);
        retain(&mut self.blocks, &kept);
        retain(&mut self.trials, &kept);
        self.suspect = vec![false; self.samples.len()];
        self.summarise();
    }
}

fn retain<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    values.retain(|_| kept.next().copied().unwrap_or(true));
}

impl RunFinding {
    /// Leaves out the samples of suspect trials, and returns the number of these trials. The counts of verdicts stay,
    /// and the cells get a caveat.
    pub fn leave_out_suspect(&mut self) -> u32 {
        for cell in self.cells.iter_mut().filter(|cell| cell.verdicts.suspect > 0) {
            cell.metrics.iter_mut().for_each(MetricFinding::leave_out_suspect);
            cell.caveats.push(SUSPECT_LEFT_OUT.into());
        }
        self.cells.iter().map(|cell| cell.verdicts.suspect).sum()
    }
}

/// Returns a trial's value of a metric; `None` if the trial has no samples of its series.
pub fn metric_value(metric: &MetricSpec, samples: &[Sample]) -> Option<f64> {
    let values: Vec<f64> =
        samples.iter().filter(|sample| sample.series == metric.series).map(|sample| sample.value).collect();
    match metric.reduce {
        Reduce::Median => median(&values),
        Reduce::Max => values.into_iter().reduce(f64::max),
        Reduce::Min => values.into_iter().reduce(f64::min),
    }
}

fn most_frequent_first(counts: BTreeMap<String, u32>) -> Vec<(String, u32)> {
    let mut counts: Vec<(String, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspect_trials_can_be_left_out() {
        let trial = |at: usize| TrialId(at.to_string());
        let mut metric = MetricFinding {
            name: "m".into(),
            unit: "s".into(),
            better: Better::Lower,
            median: None,
            ci_low: None,
            ci_high: None,
            best: None,
            mean: None,
            samples: vec![1.0, 9.0, 2.0, 8.0, 3.0],
            blocks: (0..5).collect(),
            trials: (0..5).map(trial).collect(),
            suspect: vec![false, true, false, true, false],
        };
        metric.leave_out_suspect();
        assert_eq!(
            (metric.samples.as_slice(), metric.blocks.as_slice()),
            ([1.0, 2.0, 3.0].as_slice(), [0, 2, 4].as_slice())
        );
        assert_eq!(metric.trials, [0, 2, 4].map(trial));
        assert_eq!((metric.median, metric.best, metric.mean), (Some(2.0), Some(1.0), Some(2.0)));
        assert_eq!(metric.suspect, [false; 3]);
        metric.suspect.clear();
        metric.leave_out_suspect();
        assert_eq!(metric.samples.len(), 3, "verdicts of findings of earlier versions are unknown");
    }
}
