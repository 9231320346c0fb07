//! One workload without a file: what `nearfar measure` asks for.

use std::collections::BTreeSet;

use super::read::{check_exact, check_value, parameter_choices};
use super::{Experiment, PlanError, PlanOptions, ThreadCount, WorkloadGrid};
use crate::placements::placement::{self, PlacementError};
use crate::values::plan::{ATTEMPTS_MAX, Plan, StoppingRule};
use crate::values::suggest::suggestions;
use crate::values::topology::Topology;
use crate::values::units::Nanos;
use crate::values::workload::WorkloadSpec;

/// One workload under one or more placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleWorkload {
    pub workload: String,
    /// Parameters by name; a name that comes twice makes a cell for each of its values.
    pub set: Vec<(String, String)>,
    /// Placements as `--placement` takes them; at least one.
    pub placements: Vec<String>,
    /// How many threads; none for each placement's natural number.
    pub threads: Option<usize>,
    pub runs: u32,
    /// How many blocks are thrown away first.
    pub warmup: u32,
    /// A trial is stopped after this.
    pub time_limit: Nanos,
}

impl SingleWorkload {
    /// Its plan on this machine. Unlike in an experiment, which is for many machines, a cpu or node that does
    /// not exist here is a mistake. In a smoke test the parameters that were named keep their values.
    pub fn plan(
        &self,
        topology: &Topology,
        specs: &[WorkloadSpec],
        wishes: PlanOptions<'_>,
    ) -> Result<Plan, PlanError> {
        let experiment = self.experiment(topology, specs, wishes).map_err(PlanError::Mistake)?;
        let kept: BTreeSet<String> = self.set.iter().map(|(name, _)| name.clone()).collect();
        let mut plan = experiment.plan_with(topology, specs, wishes, &kept)?;
        plan.repeat = self.repeat(plan.cells.len());
        Ok(plan)
    }

    fn experiment(
        &self,
        topology: &Topology,
        specs: &[WorkloadSpec],
        wishes: PlanOptions<'_>,
    ) -> Result<Experiment, String> {
        let spec = specs.iter().find(|spec| spec.name == self.workload).ok_or_else(|| {
            let names = suggestions(&self.workload, specs.iter().map(|spec| spec.name.as_str()));
            format!("no workload is called '{}'; there are {}", self.workload, names.join(", "))
        })?;
        let threads = self.threads.map(ThreadCount::Exactly);
        threads.map_or(Ok(()), |count| check_exact(spec, count))?;
        for text in &self.placements {
            let placed = placement::parse_for(topology, text, self.threads, wishes.kernel, wishes.devices);
            if let Err(PlacementError::Mistake(why)) = placed {
                return Err(why);
            }
        }
        let task = WorkloadGrid {
            workload: self.workload.clone(),
            label: None,
            set: self.lists(spec)?,
            placements: self.placements.clone(),
            threads: threads.into_iter().collect(),
        };
        Ok(Experiment {
            boots: Vec::new(),
            name: format!("measure {}", self.workload),
            question: spec.summary.clone(),
            repeat: self.repeat(1),
            compare_by: "placement".into(),
            baseline: None,
            devices: Vec::new(),
            tasks: vec![task],
        })
    }

    /// Values by parameter, in the order in which the names first came.
    fn lists(&self, spec: &WorkloadSpec) -> Result<Vec<(String, Vec<String>)>, String> {
        let mut lists: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in &self.set {
            let parameter = spec.parameter(name).ok_or_else(|| {
                format!("workload {} has no parameter '{name}'; {}", spec.name, parameter_choices(spec, name))
            })?;
            check_value(parameter, value).map_err(|why| format!("{name} of workload {}: {why}", spec.name))?;
            match lists.iter_mut().find(|(earlier, _)| earlier == name) {
                Some((_, values)) => values.push(value.clone()),
                None => lists.push((name.clone(), vec![value.clone()])),
            }
        }
        let missing = |name: &str| !lists.iter().any(|(given, _)| given == name);
        match spec.parameters.iter().find(|parameter| parameter.default.is_none() && missing(&parameter.name)) {
            Some(parameter) => Err(format!("workload {} needs {}: {}", spec.name, parameter.name, parameter.about)),
            None => Ok(lists),
        }
    }

    /// Exactly the runs that were asked for: the budget is what they can take at worst.
    fn repeat(&self, cells: usize) -> StoppingRule {
        let blocks = u64::from(self.runs) + u64::from(self.warmup);
        let trials = blocks.saturating_mul(cells as u64).saturating_mul(u64::from(ATTEMPTS_MAX) + 1);
        StoppingRule {
            warmup: self.warmup,
            min: self.runs,
            max: self.runs,
            // Never precise enough to stop before the last run.
            precision: 0.0,
            budget: Nanos(self.time_limit.0.saturating_mul(trials)),
            time_limit: self.time_limit,
        }
    }
}
