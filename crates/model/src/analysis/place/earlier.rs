//! Results of earlier searches of other programs, for the candidates of a new search.

use std::collections::BTreeMap;

use super::block_result::value;
use crate::values::placement::Placement;
use crate::values::plan::EarlierProgram;
use crate::values::record::{RunRecord, TrialRecord};
use crate::values::trial::{Grade, Role};
use crate::values::workload::Better;

/// The mean results of another program on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierRun {
    name: String,
    /// Mean logarithms relative to the baseline, by placement; less is better.
    times: Vec<(Placement, f64)>,
}

impl EarlierRun {
    /// Returns the results of a search. `None` if the run is not a search or race, or has no result of its baseline.
    pub fn new(record: &RunRecord, trials: &[TrialRecord]) -> Option<Self> {
        record.plan.race.as_ref()?;
        let logs = logs_by_cell(record, trials, |role| role == Role::Measured);
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let baseline = mean(logs.get(&0)?);
        let time = |(cell, values): (&usize, &Vec<f64>)| {
            Some((record.plan.cells.get(*cell)?.placement.clone(), mean(values) - baseline))
        };
        Some(Self { name: record.plan.experiment.clone(), times: logs.iter().filter_map(time).collect() })
    }

    /// Returns the results for these candidates. Names do not matter, because they depend on the search space.
    pub(super) fn for_candidates(&self, placements: &[Placement]) -> EarlierProgram {
        let same = |one: &Placement, other: &Placement| {
            one.threads == other.threads
                && one.bindings == other.bindings
                && one.memory == other.memory
                && one.server_cpus == other.server_cpus
                && one.interrupts == other.interrupts
        };
        let time = |placement: &Placement| self.times.iter().find(|(other, _)| same(placement, other)).map(|one| one.1);
        let mut log_times: Vec<Option<f64>> = placements.iter().map(time).collect();
        if let Some(baseline) = log_times.first_mut() {
            *baseline = Some(0.0);
        }
        EarlierProgram { name: self.name.clone(), log_times }
    }
}

/// Returns the logarithms of the values of the first metric by cell, from the valid trials of these roles; less is better.
/// Cells without a value are left out.
pub(super) fn logs_by_cell(
    record: &RunRecord,
    trials: &[TrialRecord],
    has_role: impl Fn(Role) -> bool,
) -> BTreeMap<usize, Vec<f64>> {
    let mut logs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let Some(metric) = record.plan.workloads.first().and_then(|workload| workload.metrics.first()) else { return logs };
    for one in trials.iter().filter(|one| has_role(one.trial.role) && one.verdict.grade != Grade::Invalid) {
        let log = value(metric, one).filter(|value| *value > 0.0).map(f64::ln);
        let signed = log.map(|log| if metric.better == Better::Lower { log } else { -log });
        logs.entry(one.trial.cell).or_default().extend(signed);
    }
    logs.retain(|_, values| !values.is_empty());
    logs
}
