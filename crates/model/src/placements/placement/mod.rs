//! Placements: CPU affinity of each thread, memory policy and interrupt affinity. `policy` produces them from names,
//! `explicit` from numactl's letters, and `command_lines` prints the commands that apply one by hand.

mod budget;
pub(crate) mod command_lines;
pub(crate) mod cores;
mod cpu_rule;
mod explicit;
pub(crate) mod memory;
pub(crate) mod policy;
pub(crate) mod reason;
mod region;
pub(crate) mod route;
mod template;

pub use budget::DramBudget;
pub use command_lines::{CommandLines, lines};
pub use explicit::parse_explicit;
pub use memory::KernelFeatures;
pub use policy::{POLICIES, Policy, PolicyInfo, PolicyResult, offer, offer_all, policy_infos};
pub use route::{Route, check_movable, devices};
pub use template::PlacementVars;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::topology::Topology;
use crate::values::workload::WorkloadSpec;

/// Placement of the threads and the memory of one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// As typed by the user: a policy (`smt-one-l3`, `compact+interleave`) or numactl's letters (`-C 0-3 -m 0`).
    pub name: String,
    /// Description of the placement on this machine, in one sentence.
    pub reason: String,
    /// Number of threads that the workload starts.
    pub threads: usize,
    /// Thread i is pinned to `bindings[i]`. Empty if the kernel chooses. A command starts its threads itself and may
    /// use all of these CPUs. Never shorter than `threads`: a CPU that several threads share is repeated. Explicit
    /// placements may be longer, if the user named more CPUs than threads.
    #[serde(rename = "seats")]
    pub bindings: Vec<CpuId>,
    pub memory: MemoryPolicy,
    /// CPUs of a second command that runs concurrently, such as the server of a load generator. Empty if there is no
    /// second command or the kernel chooses. Both commands have the same memory policy.
    #[serde(rename = "second", default, skip_serializing_if = "CpuSet::is_empty")]
    pub server_cpus: CpuSet,
    /// Affinity of the interrupts of the devices that the user named. Empty if none was named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Route>,
    /// Limit of the DRAM that the program may use; `None` if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<DramBudget>,
}

/// Where memory is allocated: the policies of the kernel (`set_mempolicy(2)`) and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "policy", content = "nodes")]
pub enum MemoryPolicy {
    /// No policy is set: the kernel's default.
    #[default]
    Kernel,
    /// On the node of the CPU that touches a page first, set explicitly.
    Local,
    /// Only on these nodes.
    Bind(NodeSet),
    /// Page by page, round-robin over these nodes.
    Interleave(NodeSet),
    /// Round-robin by the weights of `/sys/kernel/mm/mempolicy/weighted_interleave` (Linux 6.9).
    WeightedInterleave(NodeSet),
    /// On this node until it is full, then on others.
    Preferred(NodeId),
    /// Beyond DRAM: arrays of built-in kernels in a file on a disk. The kernel moves pages, so nodes are not fixed.
    Far,
}

/// Why a text does not produce a placement on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// The text is invalid: an unknown name, CPU or node.
    Invalid(String),
    /// This machine does not have what the placement needs.
    Unavailable(String),
}

/// Reads the argument of `--placement`: a policy, a combination `CPUS+MEMORY`, or numactl's letters.
pub fn parse(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    parse_for(topology, text, threads, kernel, &[])
}

/// Like [`parse`], for named devices: their interrupts follow the `irq:` part of the text. Without such a part they are
/// not moved.
pub fn parse_for(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Result<Placement, PlacementError> {
    let (rest, rule) = route::split(text).map_err(PlacementError::Invalid)?;
    let (rest, budget) = budget::split(&rest).map_err(PlacementError::Invalid)?;
    let index = cores::CoreIndex::new(topology);
    let mut placement = if is_explicit(&rest) {
        parse_explicit(topology, &rest, threads, kernel)?
    } else {
        policy::named(&index, &rest, threads, kernel)?
    };
    if let Some(budget) = budget {
        placement.budget = Some(budget);
        placement.reason = format!("{}; {}", placement.reason, budget.reason());
    }
    if rule.is_some() || budget.is_some() {
        placement.name = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    route::route(&index, &mut placement, rule.as_ref(), devices)?;
    Ok(placement)
}

/// Checks that a text is a placement on some machine. Experiments are read before the machine is known.
pub fn check(text: &str) -> Result<(), String> {
    let (rest, _) = route::split(text)?;
    let (rest, _) = budget::split(&rest)?;
    if is_explicit(&rest) { explicit::check(&rest) } else { policy::check(&rest) }
}

fn is_explicit(text: &str) -> bool {
    text.trim_start().starts_with('-')
}

/// Number of threads that `all`, `cores` and `l3` stand for on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Number of CPUs that this process may use.
    pub all: usize,
    /// Number of cores with at least one such CPU.
    pub cores: usize,
    /// Cores of the largest L3, or of the largest cluster on machines without L3. `None` if there are no clusters.
    pub l3: Option<usize>,
    /// CPUs of the largest L3, like `l3`.
    pub l3_cpus: Option<usize>,
}

/// Returns the numbers of threads that the words stand for on this machine.
pub fn thread_counts(topology: &Topology) -> ThreadCounts {
    let index = cores::CoreIndex::new(topology);
    ThreadCounts {
        all: index.cpu_count(&index.all_cores()),
        cores: index.cores.len(),
        l3: index.clusters.iter().map(|cluster| cluster.cores.len()).max(),
        l3_cpus: index.clusters.iter().map(|cluster| index.cpu_count(&cluster.cores)).max(),
    }
}

/// Whether measuring both placements would repeat one measurement: the same threads on the same CPUs with the same
/// memory. On a machine with one memory node, all policies that choose nodes are equal.
pub fn same_place(topology: &Topology, one: &Placement, other: &Placement) -> bool {
    let beyond = one.memory.is_beyond_dram() || other.memory.is_beyond_dram();
    let same_memory = one.memory == other.memory || (topology.allowed_nodes.len() < 2 && !beyond);
    let same_bindings =
        one.threads == other.threads && one.bindings == other.bindings && one.server_cpus == other.server_cpus;
    same_bindings && same_memory && one.interrupts == other.interrupts && one.budget == other.budget
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Invalid(message) | Self::Unavailable(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for PlacementError {}

impl Placement {
    /// Returns the placement without any binding, the default baseline.
    pub fn kernel(threads: usize) -> Self {
        Self {
            name: "kernel".into(),
            reason: "no binding: the kernel chooses".into(),
            threads,
            bindings: Vec::new(),
            memory: MemoryPolicy::Kernel,
            server_cpus: CpuSet::default(),
            interrupts: Vec::new(),
            budget: None,
        }
    }

    /// Returns the CPUs of the threads as a set. Empty if the kernel chooses.
    pub fn cpus(&self) -> CpuSet {
        self.bindings.iter().copied().collect()
    }

    pub fn is_pinned(&self) -> bool {
        !self.bindings.is_empty()
    }
}

impl MemoryPolicy {
    /// Returns the nodes on which all pages must be; `None` if the policy does not guarantee nodes.
    pub fn promised_nodes(&self) -> Option<&NodeSet> {
        match self {
            Self::Bind(nodes) | Self::Interleave(nodes) | Self::WeightedInterleave(nodes) => Some(nodes),
            Self::Kernel | Self::Local | Self::Preferred(_) | Self::Far => None,
        }
    }

    /// Whether memory is at least partly outside DRAM. Only built-in kernels can follow such a policy; there is no
    /// command that applies it to other programs.
    pub fn is_beyond_dram(&self) -> bool {
        matches!(self, Self::Far)
    }
}

/// Returns why a workload does not support a memory policy; `None` if it does.
pub fn refused_memory(memory: &MemoryPolicy, spec: &WorkloadSpec) -> Option<String> {
    (memory.is_beyond_dram() && !spec.has_arrays()).then(|| {
        format!(
            "{} does not support memory '{memory}', which is for workloads that measure arrays, such as stream and \
             chase; hint: nearfar expand runs any program with more memory than DRAM",
            spec.name
        )
    })
}

/// Uses numactl's words: `bind 0-1`, `interleave all`.
impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Local => f.write_str("local"),
            Self::Bind(nodes) => write!(f, "bind {nodes}"),
            Self::Interleave(nodes) => write!(f, "interleave {nodes}"),
            Self::WeightedInterleave(nodes) => write!(f, "weighted-interleave {nodes}"),
            Self::Preferred(node) => write!(f, "preferred {node}"),
            Self::Far => f.write_str("far"),
        }
    }
}
