//! The verdict about a candidate whose baseline is in stored runs. Both were not measured in turn, so the run is the unit:
//! the interval contains the differences between runs.

use serde::Serialize;

use super::{GateCommand, GateResult, GateVerdict, is_unusable, percent};
use crate::analysis::finding::{CellFinding, MetricFinding};
use crate::stats::statistics::{RatioEstimate, ratio_of_runs};
use crate::values::plan::GatePlan;
use crate::values::record::VerdictCounts;
use crate::values::units::Nanos;
use crate::values::workload::Better;

/// Runs with which a candidate is compared. Field names are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredBaseline {
    /// IDs of the runs.
    pub runs: Vec<String>,
    /// Number of their counted trials.
    pub trials: usize,
    pub candidate_trials: usize,
    /// Number of other runs of the same cells, which show how much runs differ.
    pub other_runs: usize,
    /// Facts that differ between the baseline and the candidate, except the command.
    pub notes: Vec<String>,
}

/// The cells of both sides and of other runs.
#[derive(Clone, Copy, Debug)]
pub struct StoredSides<'a> {
    /// ID and cell of each run of the baseline, at least one.
    pub baseline: &'a [(&'a str, &'a CellFinding)],
    pub candidate: &'a CellFinding,
    /// Samples of other runs of these cells: groups of runs that differ by chance only.
    pub history: &'a [Vec<&'a [f64]>],
    /// As in [`StoredBaseline`].
    pub notes: &'a [String],
}

impl GateResult {
    /// Computes the result for a candidate with stored runs as baseline. `None` if a side does not have the candidate's
    /// main metric.
    pub fn of_stored(gate: &GatePlan, sides: StoredSides<'_>, budget: Nanos) -> Option<Self> {
        let metric = sides.candidate.metrics.first()?;
        let (ids, cells): (Vec<&str>, Vec<&CellFinding>) = sides.baseline.iter().copied().unzip();
        let metrics: Vec<&MetricFinding> = cells.iter().map(|cell| same_metric(cell, metric)).collect::<Option<_>>()?;
        let first = cells.first()?;
        let runs: Vec<&[f64]> = metrics.iter().map(|metric| metric.samples.as_slice()).collect();
        let estimate = ratio_of_runs(&runs, &[&metric.samples], sides.history, 1.0 - 2.0 * gate.error_rate);
        let slowdown = estimate.and_then(|estimate| Slowdown::new(&estimate, metric.better));
        let verdicts = cells.iter().map(|cell| cell.verdicts).fold(VerdictCounts::default(), sum);
        Some(Self {
            verdict: verdict(gate, &[verdicts, sides.candidate.verdicts], slowdown.as_ref()),
            metric: metric.name.clone(),
            unit: metric.unit.clone(),
            better: metric.better,
            placement: sides.candidate.placement.clone(),
            baseline: GateCommand {
                name: format!("run {}", ids.join(", ")),
                median: metrics[0].median,
                verdicts,
                ..GateCommand::new(first)
            },
            candidate: GateCommand::new(sides.candidate),
            pairs: 0,
            pairs_needed: None,
            stored: Some(StoredBaseline {
                runs: ids.iter().map(|id| (*id).to_string()).collect(),
                trials: runs.iter().map(|run| run.len()).sum(),
                candidate_trials: metric.samples.len(),
                other_runs: sides.history.iter().map(Vec::len).sum(),
                notes: sides.notes.to_vec(),
            }),
            slower_percent: slowdown.as_ref().map(|slowdown| percent(slowdown.log)),
            ci_low: slowdown.as_ref().map(|slowdown| percent(slowdown.low)),
            ci_high: slowdown.as_ref().map(|slowdown| percent(slowdown.high)),
            max_slower_percent: 100.0 * gate.max_slower,
            error_rate: gate.error_rate,
            budget,
        })
    }
}

/// Logarithm of how many times worse the candidate is, with its interval.
struct Slowdown {
    log: f64,
    low: f64,
    high: f64,
}

impl Slowdown {
    fn new(estimate: &RatioEstimate, better: Better) -> Option<Self> {
        let (ratio, interval) = (estimate.ratio.ln(), estimate.interval?);
        let (low, high) = (interval.low.ln(), interval.high.ln());
        Some(match better {
            Better::Lower => Self { log: ratio, low, high },
            Better::Higher => Self { log: -ratio, low: -high, high: -low },
        })
    }
}

/// Returns the metric of a cell with the name and the unit of `metric`.
fn same_metric<'a>(cell: &'a CellFinding, metric: &MetricFinding) -> Option<&'a MetricFinding> {
    cell.metrics.iter().find(|own| own.name == metric.name && own.unit == metric.unit)
}

fn sum(one: VerdictCounts, other: VerdictCounts) -> VerdictCounts {
    VerdictCounts {
        valid: one.valid + other.valid,
        suspect: one.suspect + other.suspect,
        invalid: one.invalid + other.invalid,
    }
}

fn verdict(gate: &GatePlan, sides: &[VerdictCounts], slowdown: Option<&Slowdown>) -> GateVerdict {
    let allowed = gate.max_slower.ln_1p();
    if sides.iter().any(is_unusable) {
        return GateVerdict::Invalid;
    }
    match slowdown {
        Some(slowdown) if slowdown.low > allowed => GateVerdict::Failed,
        Some(slowdown) if slowdown.high < allowed => GateVerdict::Passed,
        _ => GateVerdict::Undecided,
    }
}
