//! What the user asks: a command, what is to be best, what may be tried. Makes the plan of the race.

use std::collections::BTreeMap;

use super::{RacePlan, ReductionStep};
use crate::placements::candidates::{Candidates, Count, SearchSpace, Stages, candidates, neighbours};
use crate::placements::placement::Placement;
use crate::stats::racing::Rules;
use crate::values::plan::{Cell, Plan, StoppingRule};
use crate::values::topology::Topology;
use crate::values::units::Nanos;
use crate::values::workload::WorkloadSpec;

/// What is to be best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Time from start to end.
    WallTime,
    /// Time on cpus, in user mode and in the kernel.
    CpuTime,
    /// The most memory that one of its processes had resident.
    PeakMemory,
    /// A number in its output, less is better.
    Number,
    /// A number in its output, more is better.
    NumberHigher,
}

#[derive(Clone, Debug)]
pub struct PlaceRequest {
    /// What tables call the command.
    pub name: String,
    /// Parameters of the workload `command`, as written.
    pub given: BTreeMap<String, String>,
    /// What is to be best.
    pub objective: Objective,
    pub wish: SearchSpace,
    pub rules: Rules,
    /// Search and confirmation together take no longer.
    pub budget: Nanos,
    /// A trial is stopped after this.
    pub time_limit: Nanos,
}

impl PlaceRequest {
    /// The plan of the race on this machine; `spec` describes the workload `command`. An error is the user's mistake.
    pub fn plan(&self, topology: &Topology, spec: &WorkloadSpec) -> Result<Plan, String> {
        let candidates = candidates(topology, &self.wish)?;
        let raw_placements = raw(&candidates).to_string();
        let race = RacePlan {
            rules: self.rules.clone(),
            stages: candidates.stages,
            raw_placements,
            steps: candidates.steps.into_iter().map(step).collect(),
        };
        let placements = told_apart(candidates.placements, race.stages.threads_searched, self.wish.second);
        self.plan_of(format!("place {}", self.name), placements, race, topology, spec)
    }

    /// The plan of a second race: the kernel's choice and the winner of the first against what differs from it in the
    /// seat of one thread. None where nothing does.
    pub fn refined(
        &self,
        reference: &Placement,
        winner: &Placement,
        topology: &Topology,
        spec: &WorkloadSpec,
    ) -> Result<Option<Plan>, String> {
        let near = neighbours(topology, &self.wish, winner)?;
        if near.is_empty() {
            return Ok(None);
        }
        let count = near.len();
        let near = told_apart(near, false, self.wish.second);
        let placements: Vec<Placement> = [reference, winner].into_iter().cloned().chain(near).collect();
        let race = RacePlan {
            rules: self.rules.clone(),
            stages: Stages::at_once(placements.len()),
            raw_placements: placements.len().to_string(),
            steps: vec![ReductionStep {
                count: Some(count.to_string()),
                text: format!("classes of placements that differ from {} in the seat of one thread", winner.name),
            }],
        };
        self.plan_of(format!("refine {}", self.name), placements, race, topology, spec).map(Some)
    }

    fn plan_of(
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
            // A race decides by itself how often; what is left of this is the budget and the limit.
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

    /// The metric that decides stands first, as the main metric does everywhere.
    fn deciding_first(&self, spec: &WorkloadSpec) -> WorkloadSpec {
        let mut spec = spec.clone();
        let series = self.objective.series();
        spec.metrics.sort_by_key(|metric| metric.series != series);
        spec
    }
}

/// Names that differ where placements do, in every table: `compact, 3 threads`, `one-core | server on 1`. The reference
/// keeps its name.
fn told_apart(placements: Vec<Placement>, threads: bool, second: bool) -> Vec<Placement> {
    let name = |placement: &Placement| {
        let count = placement.threads;
        let noun = if count == 1 { "thread" } else { "threads" };
        let threads = if threads { format!(", {count} {noun}") } else { String::new() };
        let cpus = if placement.second.is_empty() { "any cpu".into() } else { placement.second.to_string() };
        let second = if second { format!(" | server on {cpus}") } else { String::new() };
        format!("{}{threads}{second}", placement.name)
    };
    let renamed = |(index, placement): (usize, Placement)| {
        if index == 0 && !placement.is_pinned() { placement } else { Placement { name: name(&placement), ..placement } }
    };
    placements.into_iter().enumerate().map(renamed).collect()
}

/// With a second command its seats count too, which only the first step knows.
fn raw(candidates: &Candidates) -> Count {
    let of_both = candidates.steps.iter().find(|step| step.name == "raw").and_then(|step| step.count);
    of_both.unwrap_or(candidates.raw)
}

fn step(step: crate::placements::candidates::Step) -> ReductionStep {
    ReductionStep { count: step.count.map(|count| count.to_string()), text: step.text }
}

impl Objective {
    /// The series of samples of the workload `command` that decides.
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
