//! Finite, ordered trials: which cells, in which order, until when. The order is a randomised complete
//! block design: every block runs each cell once in an order of its own, so that drift hits all alike.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::analysis::place::RacePlan;
use crate::analysis::size::SizePlan;
use crate::placements::placement::Placement;
use crate::values::trial::{Role, Trial, TrialId, short_hash};
use crate::values::units::Nanos;
use crate::values::workload::{Parameters, WorkloadSpec};

/// What is to be run, and until when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The question it answers, one line.
    pub question: String,
    /// What can be run here.
    pub cells: Vec<Cell>,
    /// What this machine cannot offer, with the reason.
    pub skipped: Vec<SkippedCell>,
    /// Descriptions of the workloads used, so that results stay readable when workloads change.
    pub workloads: Vec<WorkloadSpec>,
    /// How often, how precise, how long.
    pub repeat: StoppingRule,
    /// What the columns of its comparison are, as `compare --by` reads it: usually `placement`.
    pub compare_by: String,
    /// The column that others are compared with; none for the first.
    pub baseline: Option<String>,
    /// What makes it a race of its cells; none for an experiment, which runs them all to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<RacePlan>,
    /// What makes it a question of how much DRAM a command needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<SizePlan>,
    /// The words after the program's name that ask for this plan, to say how to reproduce it; empty when not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// One workload x parameters x placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Canonical text of what it is; equal keys are the same cell, also in another run.
    pub key: String,
    /// The workload's name.
    pub workload: String,
    /// What tables call the test: the workload, with those parameters that vary in this experiment.
    pub test: String,
    /// Complete parameters.
    pub parameters: Parameters,
    /// Where it runs.
    pub placement: Placement,
}

/// A cell that cannot be run here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedCell {
    /// What tables would have called the test.
    pub test: String,
    /// The placement's name.
    pub placement: String,
    /// Why it cannot be run here.
    #[serde(rename = "why")]
    pub why: String,
}

/// How often, how precise, how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoppingRule {
    /// Blocks that are run and thrown away first.
    pub warmup: u32,
    /// At least so many measured blocks.
    pub min: u32,
    /// At most so many.
    pub max: u32,
    /// Enough when every cell's main metric has a 95 % interval of at most this share of its median to either side.
    pub precision: f64,
    /// No new block begins when this is spent.
    pub budget: Nanos,
    /// A single trial is stopped after this.
    pub time_limit: Nanos,
}

/// What is to be run next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextBlock {
    /// What its trials count for.
    pub role: Role,
    /// Counted from 0 within its role.
    pub number: u32,
    /// Which cells take part, each once.
    pub cells: Vec<usize>,
    /// How often a cell is tried at most: what comes to nothing is repeated at the end of the block.
    pub attempts_max: u32,
    /// Whether a cell that the history has given up is left alone. A race gives up by its own rule.
    pub gives_up: bool,
    /// A trial is stopped after this.
    pub time_limit: Nanos,
    /// A trial of another cell than the first, which is a race's reference, is stopped after this already.
    pub kill_limit: Option<Nanos>,
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
    /// After which time a trial of this cell is stopped.
    pub fn limit_of(&self, cell: usize) -> Nanos {
        let kill = self.kill_limit.filter(|_| cell != 0);
        kill.map_or(self.time_limit, |kill| kill.min(self.time_limit))
    }
}

/// An invalid trial is repeated at the end of its block so often.
pub const ATTEMPTS_MAX: u32 = 3;

impl Cell {
    /// A cell with its key made from what it is.
    pub fn new(spec: &WorkloadSpec, test: String, parameters: Parameters, placement: Placement) -> Self {
        let written: Vec<String> =
            spec.written(&parameters).iter().map(|(name, value)| format!("{name}={value}")).collect();
        let second = if placement.second.is_empty() { String::new() } else { format!(" second={}", placement.second) };
        let routes: String = placement.interrupts.iter().map(|route| format!(" irq={}", route.key())).collect();
        let budget = placement.budget.map_or(String::new(), |budget| format!(" dram={}", budget.name()));
        let key = format!(
            "{} {} @ {} threads={} cpus={} memory={}{second}{routes}{budget}",
            spec.name,
            written.join(" "),
            placement.name,
            placement.threads,
            placement.cpus(),
            placement.memory
        );
        Self { key, workload: spec.name.clone(), test, parameters, placement }
    }
}

impl Plan {
    /// Identifies the question on this machine: same cells and same stopping rule. The machine's state is
    /// not in it; a run records that beside it.
    pub fn key(&self) -> String {
        let cells: Vec<&str> = self.cells.iter().map(|cell| cell.key.as_str()).collect();
        let race = self.race.as_ref().map_or(String::new(), |race| format!("\n{}", race.key_text()));
        short_hash(&format!("{}\n{}\n{}{race}", self.experiment, cells.join("\n"), self.repeat.key_text()))
    }

    /// The trials of one block in their order.
    pub fn block(&self, run: &str, seed: u64, role: Role, block: u32) -> Vec<Trial> {
        self.order(seed, role, block).into_iter().map(|cell| self.trial(run, seed, cell, role, block, 0)).collect()
    }

    /// The cells of one block in their order.
    pub fn order(&self, seed: u64, role: Role, block: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(stream(seed, &format!("{} {block}", role.key()))));
        order
    }

    /// One trial of one cell.
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

    /// The description of a workload that this plan uses.
    pub fn spec(&self, workload: &str) -> Option<&WorkloadSpec> {
        self.workloads.iter().find(|spec| spec.name == workload)
    }
}

/// An independent seed for one purpose, from the run's seed.
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
            race: None,
            size: None,
            command: Vec::new(),
        }
    }

    #[test]
    fn every_block_has_every_cell_once_in_an_order_of_its_own() {
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
    fn ids_and_order_follow_from_the_seed_alone() {
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
