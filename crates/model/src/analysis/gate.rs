//! The verdict of a gate: whether a command is slower than a baseline by more than is allowed, from blocks that ran both
//! in random order, or from stored runs of the baseline. Must not decide which block runs next.

mod stored;

use serde::Serialize;

use super::finding::{CellFinding, MetricFinding, RunFinding};
use crate::stats::statistics::{SequentialBounds, Side, hodges_lehmann_center, is_proven, sequential_bounds};
use crate::values::plan::{GatePlan, Plan};
use crate::values::record::VerdictCounts;
use crate::values::units::Nanos;
use crate::values::workload::Better;

pub use stored::{StoredBaseline, StoredSides};

/// Maximum fraction of invalid trials: beyond it, the others are a selection and say little about the command.
const INVALID_MAX: f64 = 0.1;

/// Maximum number of pairs, so that the trials of a command of a millisecond are still few enough to be evaluated after
/// each pair. They prove a difference of a tenth of the noise.
pub const PAIRS_MAX: u32 = 2000;

/// The result of a gate. Field names are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateResult {
    pub verdict: GateVerdict,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    pub placement: String,
    pub baseline: GateCommand,
    pub candidate: GateCommand,
    /// Number of blocks in which both commands have a value, or 0 with a stored baseline.
    pub pairs: usize,
    /// Estimated total number of pairs that would prove a verdict if the difference and the noise stayed the same. `None`
    /// unless the gate is undecided and has an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs_needed: Option<u64>,
    /// The runs with which the candidate is compared; `None` if the baseline ran in the same blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredBaseline>,
    /// Slowdown of the candidate in percent of the baseline: more time, or less of a metric to maximise. The
    /// Hodges-Lehmann centre of the logarithms of the pairs' ratios; `None` without a pair.
    pub slower_percent: Option<f64>,
    /// Ends of its confidence sequence with the confidence `1 - 2 * error_rate`, in percent; `None` while the pairs
    /// exclude nothing on this side.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    pub max_slower_percent: f64,
    /// Maximum probability of each false verdict, whenever the gate ends.
    pub error_rate: f64,
    /// Time after which no block begins.
    #[serde(rename = "budget_ns")]
    pub budget: Nanos,
}

/// One of the two commands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateCommand {
    pub name: String,
    pub median: Option<f64>,
    /// Verdicts of the measured trials.
    pub verdicts: VerdictCounts,
    /// The most frequent reason of suspect and invalid trials.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateVerdict {
    /// The candidate is not slower than allowed.
    Passed,
    /// The candidate is slower than allowed.
    Failed,
    /// The pairs prove neither.
    Undecided,
    /// A command has no result, or more than a tenth of its trials are invalid.
    Invalid,
}

impl GateResult {
    /// Computes the result so far; `None` if the plan is not a gate.
    pub fn of(plan: &Plan, finding: &RunFinding) -> Option<Self> {
        let gate = plan.gate?;
        let [baseline, candidate] = sides(finding)?;
        let (of_baseline, of_candidate) = (baseline.metrics.first()?, candidate.metrics.first()?);
        let logs = log_slowdowns(of_baseline, of_candidate);
        let bounds = sequential_bounds(&logs, gate.error_rate);
        let centre = hodges_lehmann_center(&logs, 1.0 - 2.0 * gate.error_rate, 0);
        let verdict = verdict(&gate, [baseline, candidate], &logs);
        let needed = centre.and_then(|centre| pairs_needed(&logs, bounds, centre.value, gate.max_slower.ln_1p()));
        Some(Self {
            verdict,
            metric: of_baseline.name.clone(),
            unit: of_baseline.unit.clone(),
            better: of_baseline.better,
            placement: baseline.placement.clone(),
            baseline: GateCommand::new(baseline),
            candidate: GateCommand::new(candidate),
            pairs: logs.len(),
            pairs_needed: needed.filter(|_| verdict.is_open()),
            stored: None,
            slower_percent: centre.map(|centre| percent(centre.value)),
            ci_low: bounds.low.map(percent),
            ci_high: bounds.high.map(percent),
            max_slower_percent: 100.0 * gate.max_slower,
            error_rate: gate.error_rate,
            budget: plan.repeat.budget,
        })
    }
}

impl GateCommand {
    fn new(cell: &CellFinding) -> Self {
        Self {
            name: cell.test.clone(),
            median: cell.metrics.first().and_then(|metric| metric.median),
            verdicts: cell.verdicts,
            reason: cell.reasons.first().map(|(reason, _)| reason.clone()),
        }
    }
}

impl GateVerdict {
    /// Whether more pairs may change the verdict.
    pub fn is_open(self) -> bool {
        self == Self::Undecided
    }

    /// Computes the verdict so far; `None` if the plan is not a gate.
    pub fn of(plan: &Plan, finding: &RunFinding) -> Option<Self> {
        let gate = plan.gate?;
        let [baseline, candidate] = sides(finding)?;
        let logs = log_slowdowns(baseline.metrics.first()?, candidate.metrics.first()?);
        Some(verdict(&gate, [baseline, candidate], &logs))
    }
}

fn sides(finding: &RunFinding) -> Option<[&CellFinding; 2]> {
    match finding.cells.as_slice() {
        [baseline, candidate] => Some([baseline, candidate]),
        _ => None,
    }
}

fn verdict(gate: &GatePlan, sides: [&CellFinding; 2], logs: &[f64]) -> GateVerdict {
    let allowed = gate.max_slower.ln_1p();
    if sides.iter().any(|side| is_unusable(&side.verdicts)) {
        GateVerdict::Invalid
    } else if is_proven(logs, allowed, Side::Above, gate.error_rate) {
        GateVerdict::Failed
    } else if is_proven(logs, allowed, Side::Below, gate.error_rate) {
        GateVerdict::Passed
    } else {
        GateVerdict::Undecided
    }
}

/// Estimates the number of pairs after which the bound between the centre and the allowed slowdown excludes the latter:
/// its distance from the centre decreases with the square root of the number of pairs. `None` without that bound.
fn pairs_needed(logs: &[f64], bounds: SequentialBounds, centre: f64, allowed: f64) -> Option<u64> {
    let bound = if centre < allowed { bounds.high? } else { bounds.low? };
    let ratio = (bound - centre) / (allowed - centre);
    // The conversion saturates if the centre is the limit.
    Some((logs.len() as f64 * ratio * ratio).ceil() as u64)
}

/// Minimum number of trials of which the fraction of invalid ones is judged: three of the first trials may fail.
const JUDGED_MIN: u32 = 3;

fn is_unusable(verdicts: &VerdictCounts) -> bool {
    let all = verdicts.valid + verdicts.suspect + verdicts.invalid;
    let none = verdicts.valid + verdicts.suspect == 0 && all > 0;
    none || verdicts.invalid >= JUDGED_MIN && f64::from(verdicts.invalid) > INVALID_MAX * f64::from(all)
}

/// Returns the logarithms of how many times worse the candidate was, block by block. Blocks without a positive value of
/// both are left out.
fn log_slowdowns(baseline: &MetricFinding, candidate: &MetricFinding) -> Vec<f64> {
    let mut baselines = baseline.blocks.iter().zip(&baseline.samples).peekable();
    let candidates = candidate.blocks.iter().zip(&candidate.samples);
    let logs = candidates.filter_map(|(block, value)| {
        while baselines.next_if(|(earlier, _)| *earlier < block).is_some() {}
        let (_, reference) = baselines.next_if(|(other, _)| *other == block)?;
        let log = (value / reference).ln();
        Some(if baseline.better == Better::Lower { log } else { -log })
    });
    logs.filter(|log| log.is_finite()).collect()
}

fn percent(log: f64) -> f64 {
    100.0 * log.exp_m1()
}

#[cfg(test)]
mod tests;
