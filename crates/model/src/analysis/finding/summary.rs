//! Computes findings from the trials of a run.

use std::collections::BTreeMap;

use super::caveats::caveats;
use super::load::cpu_load;
use super::{CellFinding, MetricFinding, RunFinding};
use crate::stats::statistics::{CONFIDENCE, TRIALS_MIN, median, median_interval};
use crate::values::command_number;
use crate::values::plan::{Cell, Plan};
use crate::values::record::{TrialRecord, VerdictCounts};
use crate::values::trial::{Grade, Role, Sample};
use crate::values::workload::{Better, MetricSpec, Reduce, WorkloadSpec};

/// Maximum number of passes: `CrystalDiskMark` has five; more trials serve to compute an interval.
const PASSES_MAX: u32 = 5;

/// Summarises every cell of a plan over its trials, which may come in any order.
pub fn summarise(plan: &Plan, trials: &[TrialRecord]) -> RunFinding {
    let mut by_cell: Vec<Vec<&TrialRecord>> = vec![Vec::new(); plan.cells.len()];
    for record in trials.iter().filter(|record| record.trial.role == Role::Measured) {
        if let Some(records) = by_cell.get_mut(record.trial.cell) {
            records.push(record);
        }
    }
    let cells = plan.cells.iter().zip(&mut by_cell).filter_map(|(cell, records)| {
        records.sort_by_key(|record| (record.trial.block, record.trial.attempt));
        Some(cell_finding(plan.spec(&cell.workload)?, cell, records))
    });
    let passes = plan.repeat.min == plan.repeat.max && plan.repeat.max <= PASSES_MAX;
    RunFinding { cells: cells.collect(), skipped: plan.skipped.clone(), passes }
}

fn cell_finding(spec: &WorkloadSpec, cell: &Cell, records: &[&TrialRecord]) -> CellFinding {
    let counted: Vec<&&TrialRecord> = records.iter().filter(|record| record.verdict.grade != Grade::Invalid).collect();
    let mut metrics: Vec<MetricFinding> = spec.metrics.iter().map(|metric| metric_finding(metric, &counted)).collect();
    metrics.sort_by_key(|metric| cell.main.as_ref().is_some_and(|main| *main != metric.name));
    name_number(spec, cell, &mut metrics);
    // Metrics without a value in this cell (such as a command without a regular expression) are omitted, unless the
    // cell has no result at all.
    if metrics.iter().any(|metric| metric.median.is_some()) {
        metrics.retain(|metric| metric.median.is_some());
    }
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
        cpu_load: cpu_load(&counted),
        verdicts: verdict_counts(records),
        reasons: reason_counts(records),
        caveats: caveats(&counted),
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

fn metric_finding(metric: &MetricSpec, counted: &[&&TrialRecord]) -> MetricFinding {
    let mut finding = MetricFinding {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        better: metric.better,
        median: None,
        ci_low: None,
        ci_high: None,
        best: None,
        mean: None,
        samples: Vec::new(),
        blocks: Vec::new(),
        trials: Vec::new(),
    };
    for record in counted {
        if let Some(value) = metric_value(metric, &record.outcome.samples) {
            finding.samples.push(value);
            finding.blocks.push(record.trial.block);
            finding.trials.push(record.trial.id.clone());
        }
    }
    finding.median = median(&finding.samples);
    let better = if metric.better == Better::Higher { f64::max } else { f64::min };
    finding.best = finding.samples.iter().copied().reduce(better);
    let count = finding.samples.len() as f64;
    finding.mean = (count > 0.0).then(|| finding.samples.iter().sum::<f64>() / count);
    let interval = median_interval(&finding.samples, CONFIDENCE).filter(|_| finding.samples.len() >= TRIALS_MIN);
    finding.ci_low = interval.map(|interval| interval.low);
    finding.ci_high = interval.map(|interval| interval.high);
    finding
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

fn verdict_counts(records: &[&TrialRecord]) -> VerdictCounts {
    let mut counts = VerdictCounts::default();
    for record in records {
        match record.verdict.grade {
            Grade::Valid => counts.valid += 1,
            Grade::Suspect => counts.suspect += 1,
            Grade::Invalid => counts.invalid += 1,
        }
    }
    counts
}

fn reason_counts(records: &[&TrialRecord]) -> Vec<(String, u32)> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for reason in records.iter().flat_map(|record| &record.verdict.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let mut counts: Vec<(String, u32)> =
        counts.into_iter().map(|(reason, count)| (reason.to_string(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
