//! The request of `nearfar place`: command, objective and search space. Creates the plan of the search and its race.

use std::collections::BTreeMap;

use super::earlier::EarlierRun;
use crate::placements::candidates::{
    Candidates, Count, SearchSpace, Threads, candidates, machine_features, neighbours,
};
use crate::values::placement::{KERNEL, Placement};
use crate::values::plan::RaceRules;
use crate::values::plan::{Cell, Plan, RacePlan, ReductionStep, Stages, StoppingRule};
use crate::values::plan::{SearchPlan, ThreadChoice};
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

/// Name and unit of a number in the output, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricLabel {
    pub name: Option<String>,
    pub unit: Option<String>,
}

/// Assumption of the search about the command before its first trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PriorChoice {
    /// No assumption.
    None,
    /// The command resembles one of many kinds of programs on this machine.
    #[default]
    Topology,
    /// The command may also resemble one of these programs, which were measured before.
    Store(Vec<EarlierRun>),
}

#[derive(Clone, Debug)]
pub struct PlaceRequest {
    /// Name of the command in tables.
    pub name: String,
    /// Parameters of the workload `command`, as typed.
    pub given: BTreeMap<String, String>,
    pub objective: Objective,
    pub label: MetricLabel,
    pub prior: PriorChoice,
    pub space: SearchSpace,
    pub rules: RaceRules,
    /// Time limit of search and confirmation together.
    pub budget: Nanos,
    /// Time limit of one trial.
    pub time_limit: Nanos,
    /// Whether a second race of placements of the winner's files may follow: the machine has several memory nodes, and
    /// cached pages follow the placements. If they stayed where a trial has put them, the next trial would find them there.
    pub places_files: bool,
}

impl PlaceRequest {
    /// Returns the plan on this machine. `spec` describes the workload `command`.
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
            search: self.search(topology, &candidates.placements),
            places_files: self.places_files,
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
        let near = with_unique_names(near, false, self.space.second);
        let count = near.len();
        let classes = if count == 1 { "class of placements that differs" } else { "classes of placements that differ" };
        let text = format!("{classes} from {} by moving one thread", winner.name);
        let placements: Vec<Placement> = [reference, winner].into_iter().cloned().chain(near).collect();
        let search = self.search(topology, &placements);
        let race = RacePlan { search, places_files: self.places_files, ..self.at_once(&placements, count, text) };
        self.build_plan(format!("refine {}", self.name), placements, race, topology, spec).map(Some)
    }

    /// Returns the plan of a race of a winner against other placements of its files and program text.
    pub(super) fn file_plan(
        &self,
        winner: &Placement,
        variants: Vec<Placement>,
        topology: &Topology,
        spec: &WorkloadSpec,
    ) -> Result<Plan, String> {
        let text = format!("placements of the files and the program text of {}", winner.name);
        let count = variants.len();
        let placements: Vec<Placement> = std::iter::once(winner.clone()).chain(variants).collect();
        let race = self.at_once(&placements, count, text);
        self.build_plan(format!("files {}", self.name), placements, race, topology, spec)
    }

    /// Returns the race of placements that are derived from a winner.
    fn at_once(&self, placements: &[Placement], derived: usize, text: String) -> RacePlan {
        RacePlan {
            rules: self.rules.clone(),
            stages: Stages::at_once(placements.len()),
            raw_placements: placements.len().to_string(),
            steps: vec![ReductionStep { count: Some(derived.to_string()), text }],
            search: None,
            places_files: false,
        }
    }

    /// Returns the search that precedes the race; `None` for a race that bounds its error, which a model cannot.
    fn search(&self, topology: &Topology, placements: &[Placement]) -> Option<SearchPlan> {
        let threads = match self.space.threads {
            Threads::Fixed(_) => ThreadChoice::Fixed,
            Threads::Searched => ThreadChoice::Searched,
            Threads::Unspecified => ThreadChoice::Command,
        };
        let plan = SearchPlan::new(threads, machine_features(topology));
        let plan = match &self.prior {
            PriorChoice::None => SearchPlan { programs: Vec::new(), ..plan },
            PriorChoice::Topology => plan,
            PriorChoice::Store(earlier) => {
                let earlier = earlier.iter().map(|run| run.for_candidates(placements)).collect();
                SearchPlan { uses_earlier: true, earlier, ..plan }
            }
        };
        (!self.rules.strict).then_some(plan)
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
        let spec = self.objective.first_in(spec, &self.label);
        let cell = |placement| Cell::new(&spec, self.name.clone(), parameters.clone(), placement);
        let baseline = placements.first().map(|placement| placement.name.clone());
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
            baseline,
            efficiency: Vec::new(),
            budget_wins: false,
            race: Some(race),
            size: None,
            gate: None,
            command: Vec::new(),
        })
    }
}

/// Makes the names of different placements unique: `compact, 3 threads`, `one-core | server on 1`. The baseline keeps
/// its name, or gets its number of threads if others have other numbers.
pub(super) fn with_unique_names(placements: Vec<Placement>, threads: bool, second: bool) -> Vec<Placement> {
    let name = |placement: &Placement| {
        let count = placement.threads;
        let noun = if count == 1 { "thread" } else { "threads" };
        let threads = if threads { format!(", {count} {noun}") } else { String::new() };
        let cpus = if placement.server_cpus.is_empty() { "any CPU".into() } else { placement.server_cpus.to_string() };
        let second = if second { format!(" | server on {cpus}") } else { String::new() };
        format!("{}{threads}{second}", placement.name)
    };
    let renamed = |(index, placement): (usize, Placement)| {
        let keeps_name = index == 0 && placement.name == KERNEL && !threads;
        if keeps_name { placement } else { Placement { name: name(&placement), ..placement } }
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
    /// Returns the spec of workload `command` with the objective as first metric, because the first metric is the main
    /// one, and with the name that the user gave it.
    pub fn first_in(self, spec: &WorkloadSpec, label: &MetricLabel) -> WorkloadSpec {
        let mut spec = spec.clone();
        let series = self.series();
        spec.metrics.sort_by_key(|metric| metric.series != series);
        if let Some(metric) = spec.metrics.first_mut() {
            label.name.as_ref().inspect(|name| metric.name.clone_from(name));
            label.unit.as_ref().inspect(|unit| metric.unit.clone_from(unit));
        }
        spec
    }

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
