//! Plans: the cells of a run, their order and the stopping rule. The order is a randomised complete block design: every
//! block runs each cell once in a new random order, so that drift affects all cells equally.

mod race;
mod search;

pub use race::{MemoryChoice, RacePlan, RaceRules, ReductionStep, Stages};
pub use search::{EarlierProgram, MachineFeatures, ProgramKind, SEARCH_VERSION, SearchPlan, ThreadChoice};

use std::collections::{BTreeMap, HashSet};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::values::compressibility::Compressibility;
use crate::values::placement::Placement;
use crate::values::trial::{Role, Trial, TrialId, short_hash};
use crate::values::units::{Bytes, Nanos};
use crate::values::workload::{MetricSpec, Parameters, WorkloadSpec, current_name, key_name};

/// The cells to run and the stopping rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub experiment: String,
    /// The question that the experiment answers, in one line.
    pub question: String,
    /// Cells that this machine can run.
    pub cells: Vec<Cell>,
    /// Cells that this machine cannot run.
    pub skipped: Vec<SkippedCell>,
    /// Descriptions of the workloads used. Stored so that results stay readable when workloads change.
    pub workloads: Vec<WorkloadSpec>,
    pub repeat: StoppingRule,
    /// Default columns of the comparison, as a value of `compare --by`; usually `placement`.
    pub compare_by: String,
    /// Column that the others are compared with; `None` for the first.
    pub baseline: Option<String>,
    /// Cells that are shown in percent of reference cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efficiency: Vec<EfficiencyRule>,
    /// Whether the budget ends the run before its minimum number of blocks: the user has lowered it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub budget_wins: bool,
    /// Rules of the race; `None` for an experiment, which runs all cells to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<RacePlan>,
    /// Budgets to measure for `size`; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<SizePlan>,
    /// Rules of a gate, whose cells are the baseline and the candidate; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GatePlan>,
    /// Arguments after the program name that reproduce this plan. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// A workload with parameters and a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Canonical text of the cell; equal keys denote the same cell, also across runs.
    pub key: String,
    pub workload: String,
    /// Name of the test in tables: the workload with those parameters that vary in this experiment.
    pub test: String,
    /// All parameters, with defaults filled in.
    pub parameters: Parameters,
    pub placement: Placement,
    /// Name of the main metric, if it is not the first metric of the workload. Not part of the key: it does not affect
    /// the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// Whether geometric means leave the cell out. Not part of the key either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside_means: bool,
}

/// Cells to show in percent of a reference cell, which may have other parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EfficiencyRule {
    pub cells: CellSelector,
    pub reference: CellSelector,
    /// Parameter whose value in the reference is the next smaller one than in the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_smaller: Option<String>,
}

/// Selects cells by their properties. An empty list selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellSelector {
    /// Titles of tests: their names without parameters.
    #[serde(default)]
    pub tests: Vec<String>,
    #[serde(default)]
    pub placements: Vec<String>,
    /// Formatted values by parameter.
    #[serde(default)]
    pub parameters: BTreeMap<String, Vec<String>>,
}

/// A cell that this machine cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedCell {
    /// Name of the test in tables.
    pub test: String,
    pub placement: String,
    #[serde(rename = "why")]
    pub why: String,
}

/// Makes a plan a measurement of the DRAM that a command needs: its cells are the command without a limit and with each
/// budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizePlan {
    /// Maximum memory of the command without a limit, excluding the page cache.
    pub need: Bytes,
    /// Slowdown that is still acceptable, in percent.
    pub within_percent: f64,
    /// Compressibility of its memory near the peak; `None` if it ended before it was sampled, and in results of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressibility: Option<Compressibility>,
}

/// Makes a plan a gate: a sequential test whether the second cell is slower than the first by more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatePlan {
    /// Allowed slowdown as a fraction of the baseline: 0.03 is 3 %.
    pub max_slower: f64,
    /// Maximum probability of each false verdict: that an allowed slowdown fails, and that a larger one passes.
    pub error_rate: f64,
}

/// The property by which a comparison groups its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// Placements of one or several runs on the same machine.
    Placement,
    Threads,
    /// A parameter of the workloads.
    Parameter(String),
    /// Commands by the name of their test.
    Command,
    /// Machines by label, or else by CPU model.
    Host,
    /// Boots by the differences of their kernel command lines, or else by boot id.
    Boot,
    /// Runs by id.
    Run,
    /// Any recorded fact by key.
    Fact(String),
    /// Several of the others: a column is a combination of their values.
    Several(Vec<By>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoppingRule {
    /// Number of unmeasured blocks at the start.
    pub warmup: u32,
    /// Minimum number of measured blocks.
    pub min: u32,
    /// Maximum number of measured blocks.
    pub max: u32,
    /// Maximum half-width of the 95 % interval of every cell's main metric, as a fraction of its median. Measuring
    /// stops when all cells meet it.
    pub precision: f64,
    /// Time after which no new block begins, once the minimum number of blocks is complete.
    pub budget: Nanos,
    /// Maximum duration of a single trial.
    pub time_limit: Nanos,
}

/// The next block to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextBlock {
    pub role: Role,
    /// Ordinal within its role, from 0.
    pub number: u32,
    /// Cells to run, each once.
    pub cells: Vec<usize>,
    /// Maximum attempts per cell: an invalid trial is retried at the end of the block.
    pub attempts_max: u32,
    /// Whether to skip cells that the history marks as abandoned. A race drops cells by its own rule.
    pub skips_abandoned: bool,
    /// Maximum duration of a trial.
    pub time_limit: Nanos,
    /// Lower limit for all cells except the first, which is the baseline of a race.
    pub kill_limit: Option<Nanos>,
    /// Time that the trials of this block may take together: no trial begins after it, and a trial is killed at its
    /// end. `None` if there is no limit.
    pub time_left: Option<Nanos>,
}

impl By {
    /// Parses `placement`, `threads`, `command`, `host`, `kernel`, `boot`, `run`, `set.NAME`, a fact's key, or several of them
    /// separated by commas.
    pub fn parse(text: &str) -> Self {
        if text.contains(',') {
            return Self::Several(text.split(',').map(|part| Self::parse(part.trim())).collect());
        }
        match text {
            "placement" => Self::Placement,
            "threads" => Self::Threads,
            "command" => Self::Command,
            "host" => Self::Host,
            "kernel" => Self::Fact("kernel.release".into()),
            "boot" => Self::Boot,
            "run" => Self::Run,
            _ => match text.strip_prefix("set.") {
                Some(parameter) => Self::Parameter(current_name(parameter).into()),
                None => Self::Fact(text.into()),
            },
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Placement => "placement".into(),
            Self::Threads => "threads".into(),
            Self::Command => "command".into(),
            Self::Parameter(name) => format!("set.{name}"),
            Self::Host => "host".into(),
            Self::Boot => "boot".into(),
            Self::Run => "run".into(),
            Self::Fact(key) => key.clone(),
            Self::Several(all) => all.iter().map(Self::name).collect::<Vec<_>>().join(","),
        }
    }

    /// Returns the dimensions of which a column's name consists; at least one.
    pub fn dimensions(&self) -> Vec<Self> {
        match self {
            Self::Several(all) => all.clone(),
            one => vec![one.clone()],
        }
    }

    /// Whether the columns are within a run, so that one run is enough.
    pub fn is_within_runs(&self) -> bool {
        match self {
            Self::Placement | Self::Threads | Self::Command | Self::Parameter(_) => true,
            Self::Host | Self::Boot | Self::Run | Self::Fact(_) => false,
            Self::Several(all) => all.iter().all(Self::is_within_runs),
        }
    }
}

impl StoppingRule {
    /// Returns the text for the stopping rule in a plan's key, spelt as the `Debug` text of version 0.1. Stored hashes
    /// depend on it, so it must not follow renames.
    fn key_text(&self) -> String {
        let Self { warmup, min, max, precision, budget, time_limit } = self;
        format!(
            "Repeat {{ warmup: {warmup}, min: {min}, max: {max}, precision: {precision:?}, budget: Nanos({}), time_limit: Nanos({}) }}",
            budget.0, time_limit.0
        )
    }
}

impl NextBlock {
    /// Returns the time limit for trials of a cell.
    pub fn time_limit_for(&self, cell: usize) -> Nanos {
        let kill = self.kill_limit.filter(|_| cell != 0);
        kill.map_or(self.time_limit, |kill| kill.min(self.time_limit))
    }

    /// Returns the time limit for the next trial of a cell, after the trials of this block have taken `spent`. `None`
    /// if the block may not begin another trial.
    pub fn time_limit_after(&self, cell: usize, spent: Nanos) -> Option<Nanos> {
        let limit = self.time_limit_for(cell);
        let Some(time_left) = self.time_left else { return Some(limit) };
        let left = Nanos(time_left.0.saturating_sub(spent.0));
        (left > Nanos(0)).then(|| limit.min(left.max(KILLED_FROM)))
    }
}

/// Minimum time before a trial of a race is killed: a short disturbance of the machine takes many times as long as a
/// short trial.
pub const KILLED_FROM: Nanos = Nanos(1_000_000_000);

/// Maximum attempts per repetition: an invalid trial is retried at the end of its block.
pub const ATTEMPTS_MAX: u32 = 3;

impl Cell {
    /// Creates a cell and derives its key.
    pub fn new(spec: &WorkloadSpec, test: String, parameters: Parameters, placement: Placement) -> Self {
        let written = spec.written(&parameters);
        let written: BTreeMap<&str, &String> = written.iter().map(|(name, value)| (key_name(name), value)).collect();
        let written: Vec<String> = written.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let second =
            if placement.server_cpus.is_empty() { String::new() } else { format!(" second={}", placement.server_cpus) };
        let routes: String = placement.interrupts.iter().map(|route| format!(" irq={}", route.key())).collect();
        let budget = placement.budget.map_or(String::new(), |budget| format!(" dram={}", budget.name()));
        let files = placement.files.as_ref().map_or(String::new(), |files| format!(" files={files}"));
        let text = if placement.copies_text { " text=copy" } else { "" };
        let key = format!(
            "{} {} @ {} threads={} cpus={} memory={}{second}{routes}{budget}{files}{text}",
            spec.name,
            written.join(" "),
            placement.name,
            placement.threads,
            placement.cpus(),
            placement.memory
        );
        Self { key, workload: spec.name.clone(), test, parameters, placement, main: None, outside_means: false }
    }
}

impl Cell {
    /// Returns the name of the test without its parameters.
    pub fn title(&self) -> &str {
        test_title(&self.test, self.parameters.0.keys())
    }
}

/// Returns the name of a test without its parameters ` name=value`.
pub fn test_title<'a, 'n>(test: &'a str, parameters: impl Iterator<Item = &'n String>) -> &'a str {
    let first = parameters.filter_map(|name| test.find(&format!(" {name}="))).min();
    &test[..first.unwrap_or(test.len())]
}

impl Plan {
    /// Identifies the plan on this machine: equal keys mean the same cells and the same stopping rule. The key does not
    /// cover the machine's settings; the run records them separately.
    pub fn key(&self) -> String {
        let cells: Vec<&str> = self.cells.iter().map(|cell| cell.key.as_str()).collect();
        let race = self.race.as_ref().map_or(String::new(), |race| format!("\n{}", race.key_text()));
        short_hash(&format!("{}\n{}\n{}{race}", self.experiment, cells.join("\n"), self.repeat.key_text()))
    }

    /// Returns the trials of one block in run order.
    pub fn block(&self, run: &str, seed: u64, role: Role, block: u32) -> Vec<Trial> {
        self.order(seed, role, block).into_iter().map(|cell| self.trial(run, seed, cell, role, block, 0)).collect()
    }

    /// Returns the cells of one block in run order.
    pub fn order(&self, seed: u64, role: Role, block: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(stream(seed, &format!("{} {block}", role.key()))));
        order
    }

    pub fn trial(&self, run: &str, seed: u64, cell: usize, role: Role, block: u32, attempt: u32) -> Trial {
        let Cell { key, workload, parameters, placement, .. } = &self.cells[cell];
        let id = TrialId::derive(run, key, role, block, attempt);
        Trial {
            seed: stream(seed, &id.0),
            id,
            cell,
            workload: workload.clone(),
            parameters: parameters.clone(),
            placement: placement.clone(),
            role,
            block,
            attempt,
            time_limit: self.repeat.time_limit,
        }
    }

    /// Returns the trials with these ids among those of the first blocks.
    pub fn find_trials(&self, run: &str, seed: u64, mut ids: HashSet<TrialId>, blocks: u32) -> Vec<Trial> {
        let mut found = Vec::new();
        let attempts = (0..self.cells.len()).flat_map(|cell| (0..ATTEMPTS_MAX).map(move |attempt| (cell, attempt)));
        for (block, role) in (0..blocks).flat_map(|block| Role::ALL.map(|role| (block, role))) {
            for (cell, attempt) in attempts.clone() {
                if ids.is_empty() {
                    return found;
                }
                if ids.remove(&TrialId::derive(run, &self.cells[cell].key, role, block, attempt)) {
                    found.push(self.trial(run, seed, cell, role, block, attempt));
                }
            }
        }
        found
    }

    /// Returns the main metric of a cell: the first of its workload, unless the experiment chose another.
    pub fn main_metric(&self, cell: &Cell) -> Option<&MetricSpec> {
        let metrics = &self.spec(&cell.workload)?.metrics;
        let chosen = cell.main.as_ref().and_then(|main| metrics.iter().find(|metric| metric.name == *main));
        chosen.or(metrics.first())
    }

    /// Returns the description of a workload of this plan.
    pub fn spec(&self, workload: &str) -> Option<&WorkloadSpec> {
        self.workloads.iter().find(|spec| spec.name == workload)
    }
}

/// Derives an independent seed for one purpose from the seed of the run.
pub fn stream(seed: u64, purpose: &str) -> u64 {
    u64::from_str_radix(&short_hash(&format!("{seed}\n{purpose}")), 16).expect("a short hash is 16 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(cells: usize) -> Plan {
        let cell = |index: usize| Cell {
            key: format!("cell {index}"),
            workload: "w".into(),
            test: "w".into(),
            parameters: Parameters::default(),
            placement: Placement::kernel(1),
            main: None,
            outside_means: false,
        };
        let second = Nanos(1_000_000_000);
        let repeat = StoppingRule { warmup: 1, min: 5, max: 9, precision: 0.02, budget: second, time_limit: second };
        Plan {
            experiment: "e".into(),
            question: String::new(),
            cells: (0..cells).map(cell).collect(),
            skipped: Vec::new(),
            workloads: Vec::new(),
            repeat,
            compare_by: "placement".into(),
            baseline: None,
            efficiency: Vec::new(),
            budget_wins: false,
            race: None,
            size: None,
            gate: None,
            command: Vec::new(),
        }
    }

    #[test]
    fn each_block_runs_every_cell_once_in_a_new_order() {
        let plan = plan(20);
        let orders: Vec<Vec<usize>> = (0..4)
            .map(|block| plan.block("r", 7, Role::Measured, block).iter().map(|trial| trial.cell).collect())
            .collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        }
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn ids_and_order_depend_only_on_the_seed() {
        let plan = plan(8);
        assert_eq!(plan.block("r", 7, Role::Measured, 3), plan.block("r", 7, Role::Measured, 3));
        assert_ne!(plan.block("r", 7, Role::Measured, 3), plan.block("r", 8, Role::Measured, 3));
        let ids: std::collections::BTreeSet<_> = [Role::Warmup, Role::Measured]
            .into_iter()
            .flat_map(|role| (0..5).flat_map(move |block| [(role, block)]))
            .flat_map(|(role, block)| plan.block("r", 7, role, block))
            .map(|trial| trial.id)
            .collect();
        assert_eq!(ids.len(), 80);
    }
}
