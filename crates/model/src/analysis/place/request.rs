//! The request of `nearfar place`: command, objective and search space. Creates the plan of the race.

use std::collections::BTreeMap;

use crate::placements::candidates::{Candidates, Count, SearchSpace, candidates, neighbours};
use crate::values::placement::Placement;
use crate::values::plan::RaceRules;
use crate::values::plan::{Cell, Plan, RacePlan, ReductionStep, Stages, StoppingRule};
use crate::values::topology::Topology;
use crate::values::units::Nanos;
use crate::values::workload::WorkloadSpec;

/// The metric to optimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Wall-clock time.
    WallTime,
    /// CPU time, in user mode and in the kernel.
    CpuTime,
    /// Maximum resident memory of any of its processes.
    PeakMemory,
    /// A number in the output, to be minimised.
    Number,
    /// A number in the output, to be maximised.
    NumberHigher,
}

#[derive(Clone, Debug)]
pub struct PlaceRequest {
    /// Name of the command in tables.
    pub name: String,
    /// Parameters of the workload `command`, as typed.
    pub given: BTreeMap<String, String>,
    pub objective: Objective,
    pub space: SearchSpace,
    pub rules: RaceRules,
    /// Time limit of search and confirmation together.
    pub budget: Nanos,
    /// Time limit of one trial.
    pub time_limit: Nanos,
}

impl PlaceRequest {
    /// Returns the plan of the race on this machine. `spec` describes the workload `command`.
    ///
    /// # Errors
    ///
    /// If the search space or a parameter is invalid.
    pub fn plan(&self, topology: &Topology, spec: &WorkloadSpec) -> Result<Plan, String> {
        let candidates = candidates(topology, &self.space)?;
        let raw_placements = raw(&candidates).to_string();
        let race = RacePlan {
            rules: self.rules.clone(),
            stages: candidates.stages,
            raw_placements,
            steps: candidates.steps.into_iter().map(step).collect(),
        };
        let placements = with_unique_names(candidates.placements, race.stages.threads_searched, self.space.second);
        self.build_plan(format!("place {}", self.name), placements, race, topology, spec)
    }

    /// Returns the plan of a second race: the baseline and the winner of the first against the placements that differ
    /// from the winner by moving one thread. `None` if there are none.
    pub fn refined(
        &self,
        reference: &Placement,
        winner: &Placement,
        topology: &Topology,
        spec: &WorkloadSpec,
    ) -> Result<Option<Plan>, String> {
        let near = neighbours(topology, &self.space, winner)?;
        if near.is_empty() {
            return Ok(None);
        }
        let count = near.len();
        let near = with_unique_names(near, false, self.space.second);
        let placements: Vec<Placement> = [reference, winner].into_iter().cloned().chain(near).collect();
        let race = RacePlan {
            rules: self.rules.clone(),
            stages: Stages::at_once(placements.len()),
            raw_placements: placements.len().to_string(),
            steps: vec![ReductionStep {
                count: Some(count.to_string()),
                text: format!("classes of placements that differ from {} by moving one thread", winner.name),
            }],
        };
        self.build_plan(format!("refine {}", self.name), placements, race, topology, spec).map(Some)
    }

    fn build_plan(
        &self,
        experiment: String,
        placements: Vec<Placement>,
        race: RacePlan,
        topology: &Topology,
        spec: &WorkloadSpec,
    ) -> Result<Plan, String> {
        let parameters = spec.resolve(&self.given, topology.last_cache_bytes())?;
        let spec = self.deciding_first(spec);
        let cell = |placement| Cell::new(&spec, self.name.clone(), parameters.clone(), placement);
        Ok(Plan {
            experiment,
            question: format!("Which placement is best for {}?", self.name),
            cells: placements.into_iter().map(cell).collect(),
            skipped: Vec::new(),
            workloads: vec![spec.clone()],
            // The race determines the number of trials; only the budget and the time limit apply.
            repeat: StoppingRule {
                warmup: 1,
                min: 1,
                max: u32::MAX,
                precision: 0.0,
                budget: self.budget,
                time_limit: self.time_limit,
            },
            compare_by: "placement".into(),
            baseline: Some("kernel".into()),
            race: Some(race),
            size: None,
            command: Vec::new(),
        })
    }

    /// Returns the spec with the objective as first metric, because the first metric is the main one.
    fn deciding_first(&self, spec: &WorkloadSpec) -> WorkloadSpec {
        let mut spec = spec.clone();
        let series = self.objective.series();
        spec.metrics.sort_by_key(|metric| metric.series != series);
        spec
    }
}

/// Makes the names of different placements unique: `compact, 3 threads`, `one-core | server on 1`. The baseline keeps
/// its name.
fn with_unique_names(placements: Vec<Placement>, threads: bool, second: bool) -> Vec<Placement> {
    let name = |placement: &Placement| {
        let count = placement.threads;
        let noun = if count == 1 { "thread" } else { "threads" };
        let threads = if threads { format!(", {count} {noun}") } else { String::new() };
        let cpus = if placement.server_cpus.is_empty() { "any CPU".into() } else { placement.server_cpus.to_string() };
        let second = if second { format!(" | server on {cpus}") } else { String::new() };
        format!("{}{threads}{second}", placement.name)
    };
    let renamed = |(index, placement): (usize, Placement)| {
        if index == 0 && !placement.is_pinned() { placement } else { Placement { name: name(&placement), ..placement } }
    };
    placements.into_iter().enumerate().map(renamed).collect()
}

/// Returns the number of raw placements. With a second command it includes its CPUs, which only the first step counts.
fn raw(candidates: &Candidates) -> Count {
    let of_both = candidates.steps.iter().find(|step| step.name == "raw").and_then(|step| step.count);
    of_both.unwrap_or(candidates.raw)
}

fn step(step: crate::placements::candidates::Step) -> ReductionStep {
    ReductionStep { count: step.count.map(|count| count.to_string()), text: step.text }
}

impl Objective {
    /// Returns the series of samples of the workload `command` for this objective.
    fn series(self) -> &'static str {
        match self {
            Self::WallTime => "wall",
            Self::CpuTime => "cpu-time",
            Self::PeakMemory => "peak-memory",
            Self::Number => "value",
            Self::NumberHigher => "value-higher",
        }
    }
}
