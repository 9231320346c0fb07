//! Plans for a single workload without an experiment file, for `nearfar measure`.

use std::collections::BTreeSet;

use super::read::{check_exact, check_value, parameter_choices};
use super::{Experiment, PlanError, PlanOptions, ThreadCount, WorkloadGrid};
use crate::placements::placement::{self, PlacementError};
use crate::values::plan::{ATTEMPTS_MAX, Plan, StoppingRule};
use crate::values::suggest::suggestions;
use crate::values::topology::Topology;
use crate::values::units::Nanos;
use crate::values::workload::WorkloadSpec;

/// A workload under one or more placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleWorkload {
    pub workload: String,
    /// Parameter names and values; a name that occurs twice defines a cell for each of its values.
    pub set: Vec<(String, String)>,
    /// Placements in the notation of `--placement`; at least one.
    pub placements: Vec<String>,
    /// Number of threads; `None` for each placement's natural number.
    pub threads: Option<usize>,
    pub runs: u32,
    /// Number of unmeasured blocks at the start.
    pub warmup: u32,
    /// Maximum duration of a trial.
    pub time_limit: Nanos,
}

impl SingleWorkload {
    /// Returns the plan for this machine. Unlike in an experiment, which is for many machines, a CPU or node that does
    /// not exist on this machine is an error. In a smoke test, explicit parameters keep their values.
    pub fn plan(
        &self,
        topology: &Topology,
        specs: &[WorkloadSpec],
        options: PlanOptions<'_>,
    ) -> Result<Plan, PlanError> {
        let experiment = self.experiment(topology, specs, options).map_err(PlanError::Invalid)?;
        let kept: BTreeSet<String> = self.set.iter().map(|(name, _)| name.clone()).collect();
        let mut plan = experiment.plan_with(topology, specs, options, &kept)?;
        plan.repeat = self.repeat(plan.cells.len());
        Ok(plan)
    }

    fn experiment(
        &self,
        topology: &Topology,
        specs: &[WorkloadSpec],
        options: PlanOptions<'_>,
    ) -> Result<Experiment, String> {
        let spec = specs.iter().find(|spec| spec.name == self.workload).ok_or_else(|| {
            let names = suggestions(&self.workload, specs.iter().map(|spec| spec.name.as_str()));
            format!("unknown workload '{}'; the workloads are {}", self.workload, names.join(", "))
        })?;
        let threads = self.threads.map(ThreadCount::Exactly);
        threads.map_or(Ok(()), |count| check_exact(spec, count))?;
        for text in &self.placements {
            let placed = placement::parse_for(topology, text, self.threads, options.kernel, options.devices);
            if let Err(PlacementError::Invalid(why)) = placed {
                return Err(why);
            }
        }
        let task = WorkloadGrid {
            workload: self.workload.clone(),
            label: None,
            main: None,
            outside_means: false,
            set: self.values_by_parameter(spec)?,
            placements: self.placements.clone(),
            threads: threads.into_iter().collect(),
        };
        Ok(Experiment {
            boots: Vec::new(),
            efficiency: Vec::new(),
            name: format!("measure {}", self.workload),
            question: spec.summary.clone(),
            repeat: self.repeat(1),
            compare_by: "placement".into(),
            baseline: None,
            devices: Vec::new(),
            tasks: vec![task],
        })
    }

    /// Groups values by parameter, in order of first occurrence.
    fn values_by_parameter(&self, spec: &WorkloadSpec) -> Result<Vec<(String, Vec<String>)>, String> {
        let mut lists: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in &self.set {
            let parameter = spec.parameter(name).ok_or_else(|| {
                format!("workload {} has no parameter '{name}'; {}", spec.name, parameter_choices(spec, name))
            })?;
            check_value(parameter, value)
                .map_err(|reason| format!("parameter {name} of workload {}: {reason}", spec.name))?;
            match lists.iter_mut().find(|(earlier, _)| earlier == name) {
                Some((_, values)) => values.push(value.clone()),
                None => lists.push((name.clone(), vec![value.clone()])),
            }
        }
        let missing = |name: &str| !lists.iter().any(|(given, _)| given == name);
        match spec.parameters.iter().find(|parameter| parameter.default.is_none() && missing(&parameter.name)) {
            Some(parameter) => {
                Err(format!("workload {} requires the parameter {}: {}", spec.name, parameter.name, parameter.about))
            }
            None => Ok(lists),
        }
    }

    /// Returns a rule for exactly the requested repetitions: the budget is their maximum total duration.
    pub(super) fn repeat(&self, cells: usize) -> StoppingRule {
        let blocks = u64::from(self.runs) + u64::from(self.warmup);
        let trials = blocks.saturating_mul(cells as u64).saturating_mul(u64::from(ATTEMPTS_MAX) + 1);
        StoppingRule {
            warmup: self.warmup,
            min: self.runs,
            max: self.runs,
            // Zero can never be reached, so precision does not stop the run early.
            precision: 0.0,
            budget: Nanos(self.time_limit.0.saturating_mul(trials)),
            time_limit: self.time_limit,
        }
    }
}
