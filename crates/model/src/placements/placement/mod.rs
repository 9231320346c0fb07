//! Who runs where and whose memory lives where. Named policies make placements from a topology
//! (`policy`, with `seats` for cpus, `memory` for nodes and `route` for the interrupts of devices), explicit ones are
//! written in numactl's
//! letters (`explicit`), `budget` bounds how much memory is near, and `lines` says how to apply one by hand.

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
pub use policy::{KernelFeatures, POLICIES, PolicyInfo, PolicyResult, offer, offer_all};
pub use route::{Route, check_movable, devices};
pub use template::PlacementVars;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::topology::Topology;
use crate::values::workload::WorkloadSpec;

/// One way to place a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// What the user asked for: a policy (`smt-one-l3`, `compact+interleave`) or numactl letters (`-C 0-3 -m 0`).
    pub name: String,
    /// Why this is what the name means on this machine, in one sentence.
    pub reason: String,
    /// How many threads the workload starts.
    pub threads: usize,
    /// Thread i sits on `seats[i]`; empty when the kernel chooses. For a command, which starts its own
    /// threads, the seats together are the cpus it may use. Never fewer than threads: those that share a cpu
    /// repeat it. Explicit placements may have more: the cpus that the user named beyond the last thread.
    pub seats: Vec<CpuId>,
    pub memory: MemoryPolicy,
    /// The cpus of a second command that runs beside it, such as the server of a load generator; empty when there is
    /// none or the kernel chooses. Both commands have the same memory policy.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub second: CpuSet,
    /// Where the interrupts of the devices go that the user named; empty when none was named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Route>,
    /// How much of its memory may be near; none where all of it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<DramBudget>,
}

/// Where memory lives; the kernel's own policies (`set_mempolicy(2)`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "policy", content = "nodes")]
pub enum MemoryPolicy {
    /// Nothing is set: the kernel's default.
    #[default]
    Kernel,
    /// On the node of the cpu that touches it first, stated explicitly.
    Local,
    /// Only on these nodes.
    Bind(NodeSet),
    /// Page by page in turn over these nodes.
    Interleave(NodeSet),
    /// In turn by the weights of `/sys/kernel/mm/mempolicy/weighted_interleave` (Linux 6.9).
    WeightedInterleave(NodeSet),
    /// On this node while it has room.
    Preferred(NodeId),
    /// Beyond DRAM: arrays of our kernels in a file on a disk. The kernel moves its pages, and no node is promised.
    Far,
}

/// Why there is no placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// The user's mistake: no such name, cpu or node.
    Mistake(String),
    /// This machine lacks what the placement needs.
    Unavailable(String),
}

/// Reads what `--placement` takes: a policy, a combination `SEATS+MEMORY`, or numactl's letters.
pub fn parse(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    parse_for(topology, text, threads, kernel, &[])
}

/// The same where the user has named devices: their interrupts are left as they were found, or go where the text's
/// `irq:` part says.
pub fn parse_for(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Result<Placement, PlacementError> {
    let (rest, rule) = route::split(text).map_err(PlacementError::Mistake)?;
    let (rest, budget) = budget::split(&rest).map_err(PlacementError::Mistake)?;
    let ground = cores::CoreIndex::new(topology);
    let mut placement = if is_explicit(&rest) {
        parse_explicit(topology, &rest, threads, kernel)?
    } else {
        policy::named(&ground, &rest, threads, kernel)?
    };
    if let Some(budget) = budget {
        placement.budget = Some(budget);
        placement.reason = format!("{}; {}", placement.reason, budget.reason());
    }
    if rule.is_some() || budget.is_some() {
        placement.name = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    route::route(&ground, &mut placement, rule.as_ref(), devices)?;
    Ok(placement)
}

/// Whether a text is a placement on some machine, for experiments, which are read before a machine is known.
pub fn check(text: &str) -> Result<(), String> {
    let (rest, _) = route::split(text)?;
    let (rest, _) = budget::split(&rest)?;
    if is_explicit(&rest) { explicit::check(&rest) } else { policy::check(&rest) }
}

fn is_explicit(text: &str) -> bool {
    text.trim_start().starts_with('-')
}

/// How many threads the words `all`, `cores` and `l3` stand for on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Every cpu that this process may use.
    pub all: usize,
    /// Every core with such a cpu.
    pub cores: usize,
    /// Cores of the largest L3, or of what stands in for it; none where the machine shows no such thing.
    pub l3: Option<usize>,
    /// Cpus of the largest L3, as above.
    pub l3_cpus: Option<usize>,
}

/// What the words for thread counts stand for here.
pub fn thread_counts(topology: &Topology) -> ThreadCounts {
    let ground = cores::CoreIndex::new(topology);
    ThreadCounts {
        all: ground.cpu_count(&ground.all_cores()),
        cores: ground.cores.len(),
        l3: ground.clusters.iter().map(|cluster| cluster.cores.len()).max(),
        l3_cpus: ground.clusters.iter().map(|cluster| ground.cpu_count(&cluster.cores)).max(),
    }
}

/// Whether two placements are one thing to measure: the same threads on the same seats with the same memory.
/// With one memory node every memory policy that is about nodes comes to the same.
pub fn same_place(topology: &Topology, one: &Placement, other: &Placement) -> bool {
    let beyond = one.memory.is_beyond_dram() || other.memory.is_beyond_dram();
    let same_memory = one.memory == other.memory || (topology.allowed_nodes.len() < 2 && !beyond);
    let same_seats = one.threads == other.threads && one.seats == other.seats && one.second == other.second;
    same_seats && same_memory && one.interrupts == other.interrupts && one.budget == other.budget
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Mistake(why) | Self::Unavailable(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for PlacementError {}

impl Placement {
    /// No binding of any kind: the reference that every other placement is measured against.
    pub fn kernel(threads: usize) -> Self {
        Self {
            name: "kernel".into(),
            reason: "no binding: the kernel chooses".into(),
            threads,
            seats: Vec::new(),
            memory: MemoryPolicy::Kernel,
            second: CpuSet::default(),
            interrupts: Vec::new(),
            budget: None,
        }
    }

    /// The seats as a set; empty when the kernel chooses.
    pub fn cpus(&self) -> CpuSet {
        self.seats.iter().copied().collect()
    }

    /// Whether threads are bound to cpus.
    pub fn is_pinned(&self) -> bool {
        !self.seats.is_empty()
    }
}

impl MemoryPolicy {
    /// The nodes that pages must be on, where the policy promises that; none where it does not.
    pub fn promised_nodes(&self) -> Option<&NodeSet> {
        match self {
            Self::Bind(nodes) | Self::Interleave(nodes) | Self::WeightedInterleave(nodes) => Some(nodes),
            Self::Kernel | Self::Local | Self::Preferred(_) | Self::Far => None,
        }
    }

    /// Whether memory is not, or not only, in DRAM: no policy of the kernel's, so that our kernels alone can follow it
    /// and no other tool has a line for it.
    pub fn is_beyond_dram(&self) -> bool {
        matches!(self, Self::Far)
    }
}

/// Why a workload cannot have its memory there; none when it can.
pub fn refused_memory(memory: &MemoryPolicy, spec: &WorkloadSpec) -> Option<String> {
    (memory.is_beyond_dram() && !spec.has_arrays()).then(|| {
        format!(
            "memory '{memory}' is for workloads that measure arrays of their own, as stream and chase do, and {} does not; hint: \
             nearfar expand runs any program on more memory than DRAM",
            spec.name
        )
    })
}

/// In numactl's words: `bind 0-1`, `interleave all`.
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
