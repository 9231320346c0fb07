//! The part of a race's plan that lets a model choose the trials: the machine, the kinds of programs that the model
//! assumes, and the seed. What the model decides from the trials is left to `stats::search`.

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, NodeId};

/// Version of the search. Increment it when the same plan and trials would lead to other decisions, and keep the decisions
/// of earlier versions in `stats::search::rules`: results are computed from the stored trials again.
pub const SEARCH_VERSION: u32 = 5;

/// Makes a race begin with a search: a model of the program chooses small blocks of candidates. All decisions follow
/// from this plan and the stored trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchPlan {
    /// [`SEARCH_VERSION`] of the program that created the plan.
    pub version: u32,
    /// Seed of the simulated programs and of all draws.
    pub seed: u64,
    pub threads: ThreadChoice,
    /// Kinds of programs that are simulated for the prior. Empty: no assumption about the program.
    pub programs: Vec<ProgramKind>,
    pub machine: MachineFeatures,
    /// Whether results of earlier searches are assumptions of this one. It is part of the key; the results are not, so that
    /// the same command resumes after another search has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uses_earlier: bool,
    /// Results of other programs for the same candidates, as they were when the search began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierProgram>,
}

/// Who chooses the number of threads of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadChoice {
    /// The user: the same number in all candidates.
    Fixed,
    /// The candidates: the number is searched.
    Searched,
    /// The command, in a way that is unknown before it runs.
    Command,
}

/// A kind of simulated program. Each has parameters that are drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramKind {
    /// A mixture of work, communication, latency and bandwidth of memory, and caches.
    Generic,
    Compute,
    /// Threads that exchange data.
    Sharing,
    /// Streaming, limited by caches and memory nodes.
    Bandwidth,
    /// One thread first touched all memory.
    FirstTouch,
    /// Does not scale to many threads.
    Serial,
    /// All threads take one lock.
    Lock,
    /// Each thread passes its result to the next.
    Pipeline,
    /// Private working sets that fit into the last-level cache, or do not.
    CacheCapacity,
    /// Interrupts of a device wake the threads.
    Interrupts,
    /// The kernel migrates pages to their users.
    PageMigration,
}

/// The machine as the simulated programs see it. CPUs are those that the process may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFeatures {
    /// In logical order; all other vectors by CPU have this order.
    pub cpus: Vec<CpuId>,
    /// Index of the core, by CPU.
    pub core: Vec<usize>,
    /// Index of the second-level cache, by CPU.
    pub l2: Vec<Option<usize>>,
    /// Index of the last shared cache or cluster, by CPU.
    pub cluster: Vec<Option<usize>>,
    /// Index of the package, by CPU.
    pub package: Vec<Option<usize>>,
    /// Index in `nodes` of the node from which the kernel allocates memory, by CPU.
    pub home: Vec<usize>,
    /// Kind of the core by CPU; 0 is the fastest.
    pub kind: Vec<usize>,
    /// Memory nodes, in logical order.
    pub nodes: Vec<NodeId>,
    /// Relative distances, row by row; 10 is local. Measured ones if known.
    pub distances: Vec<u64>,
}

/// The result of another program for the candidates of this race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierProgram {
    pub name: String,
    /// Logarithms of times relative to the baseline, by candidate; `None` if unknown.
    pub log_times: Vec<Option<f64>>,
}

impl ProgramKind {
    pub const ALL: [Self; 11] = [
        Self::Generic,
        Self::Compute,
        Self::Sharing,
        Self::Bandwidth,
        Self::FirstTouch,
        Self::Serial,
        Self::Lock,
        Self::Pipeline,
        Self::CacheCapacity,
        Self::Interrupts,
        Self::PageMigration,
    ];

    /// Returns the name of the kind in a plan's key. Stored hashes depend on it, so it must not follow renames.
    pub fn key_text(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Compute => "compute",
            Self::Sharing => "sharing",
            Self::Bandwidth => "bandwidth",
            Self::FirstTouch => "first-touch",
            Self::Serial => "serial",
            Self::Lock => "lock",
            Self::Pipeline => "pipeline",
            Self::CacheCapacity => "cache-capacity",
            Self::Interrupts => "interrupts",
            Self::PageMigration => "page-migration",
        }
    }
}

impl ThreadChoice {
    fn key_text(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Searched => "searched",
            Self::Command => "command",
        }
    }
}

impl SearchPlan {
    /// Returns the plan of this version with all kinds of programs. The seed is always the same, because the order of the
    /// trials and the noise of the machine already differ between runs.
    pub fn new(threads: ThreadChoice, machine: MachineFeatures) -> Self {
        let programs = ProgramKind::ALL.to_vec();
        let version = SEARCH_VERSION;
        Self { version, seed: 1, threads, programs, machine, uses_earlier: false, earlier: Vec::new() }
    }

    /// Returns the plan with numbers instead of the names of earlier programs, which are private.
    #[must_use]
    pub fn without_names(&self) -> Self {
        let mut plan = self.clone();
        plan.earlier
            .iter_mut()
            .enumerate()
            .for_each(|(number, program)| program.name = format!("program {}", number + 1));
        plan
    }

    /// Returns the text for the search in a plan's key. Stored hashes depend on it, so it must not follow renames. CPUs
    /// are part of the candidates; distances are not, and a new measured map changes them.
    pub(super) fn key_text(&self) -> String {
        let Self { version, seed, threads, programs, machine, uses_earlier, earlier: _ } = self;
        let programs: Vec<&str> = programs.iter().map(|program| program.key_text()).collect();
        format!(
            "search {version}, seed: {seed}, threads: {}, programs: {}, distances: {:?}, earlier: {uses_earlier}",
            threads.key_text(),
            programs.join(" "),
            machine.distances,
        )
    }
}
