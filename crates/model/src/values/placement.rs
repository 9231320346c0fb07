//! The placement of one trial: CPUs of its threads, memory policy, affinity of interrupts and limit of DRAM. Deriving
//! placements from names and topologies is left to `placements`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::units::Bytes;

/// Prefix of the part of a placement's name that limits DRAM, and whether the paging controller runs.
pub(crate) const BUDGET_PREFIXES: [(&str, bool); 2] = [("expand:", true), ("swap:", false)];
/// Part of a placement's name that lets a DRAM limit keep evicted pages compressed.
pub(crate) const COMPRESSED: &str = "compressed";

/// Name of the placement that binds nothing, the default baseline.
pub const KERNEL: &str = "kernel";

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
    /// Whether every thread and process may run on all of these CPUs, as under taskset, instead of on one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loose: bool,
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
    /// Cached pages of the files of a command; `None` if its parameter `page-cache` decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilePolicy>,
    /// Whether a command runs from its own copies of its program and libraries, in memory of the nodes of its CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copies_text: bool,
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
    /// Beyond DRAM: arrays of built-in kernels in a file on a disk. The kernel moves the pages, so no node is
    /// guaranteed.
    Far,
}

/// Where a trial finds the cached pages of the files that its command uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "policy", content = "nodes")]
pub enum FilePolicy {
    /// On the memory nodes of the CPUs of the command.
    Local,
    /// In blocks, round-robin over these nodes.
    Interleave(NodeSet),
    /// On this node.
    Node(NodeId),
    /// Not cached.
    Cold,
}

/// One interrupt of a device that the user named, and its affinity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    pub device: String,
    /// Number of the interrupt in `/proc/interrupts`.
    pub number: u32,
    pub name: String,
    /// CPUs that may handle it. Empty if its affinity is not changed.
    pub cpus: CpuSet,
}

/// Limit of DRAM for the program of a trial; the rest of its memory is far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DramBudget {
    pub dram: Bytes,
    /// Whether the paging controller manages swap, as in `nearfar expand`; otherwise the kernel swaps on its own.
    pub steered: bool,
    /// Whether evicted pages are first kept compressed in DRAM, which counts towards the limit, and go to disk later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compressed: bool,
}

impl Placement {
    /// Returns the placement without any binding, the default baseline.
    pub fn kernel(threads: usize) -> Self {
        Self {
            name: KERNEL.into(),
            reason: "no binding: the kernel chooses".into(),
            threads,
            bindings: Vec::new(),
            loose: false,
            memory: MemoryPolicy::Kernel,
            server_cpus: CpuSet::default(),
            interrupts: Vec::new(),
            budget: None,
            files: None,
            copies_text: false,
        }
    }

    /// Returns the placement of the second command alone: its own CPUs, and the memory policy of both.
    #[must_use]
    pub fn of_server(&self) -> Self {
        let bindings: Vec<CpuId> = self.server_cpus.iter().collect();
        Self { threads: bindings.len().max(1), bindings, server_cpus: CpuSet::new(), ..self.clone() }
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
    /// Returns the nodes that the policy names, whether it guarantees them or only prefers them; `None` if it names none.
    pub fn named_nodes(&self) -> Option<NodeSet> {
        match self {
            Self::Preferred(node) => Some([*node].into_iter().collect()),
            policy => policy.promised_nodes().cloned(),
        }
    }

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

impl FilePolicy {
    /// Returns the nodes that cached pages are moved to, an empty set if they are dropped. `local` returns those of the
    /// CPUs of the command.
    pub fn nodes(&self, local: impl FnOnce() -> NodeSet) -> NodeSet {
        match self {
            Self::Local => local(),
            Self::Interleave(nodes) => nodes.clone(),
            Self::Node(node) => [*node].into_iter().collect(),
            Self::Cold => NodeSet::new(),
        }
    }

    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Local => "cached pages of its files on the memory nodes of these CPUs".into(),
            Self::Interleave(nodes) => format!("cached pages of its files interleaved over nodes {nodes}"),
            Self::Node(node) => format!("cached pages of its files on node {node}"),
            Self::Cold => "no cached pages of its files".into(),
        }
    }
}

/// The part of a cell's key.
impl fmt::Display for FilePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Interleave(nodes) => write!(f, "interleave {nodes}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Cold => f.write_str("cold"),
        }
    }
}

impl Route {
    /// Returns whether its affinity is set.
    pub fn is_placed(&self) -> bool {
        !self.cpus.is_empty()
    }

    /// `interrupt 38 (eth0-rx-0) of eth0`.
    pub(crate) fn described(&self) -> String {
        format!("interrupt {} ({}) of {}", self.number, self.name, self.device)
    }

    /// Returns the part of a cell's key for this interrupt. It excludes the number, which may change at the next boot.
    pub(crate) fn key(&self) -> String {
        let Self { device, name, cpus, .. } = self;
        format!("{device}:{name}>{}", if cpus.is_empty() { "as-found".into() } else { cpus.to_string() })
    }
}

impl DramBudget {
    /// Returns the part of a placement's name: `expand:1GiB`, `swap:1GiB+compressed`.
    pub fn name(self) -> String {
        self.name_with(&self.dram.to_string())
    }

    /// Like [`DramBudget::name`], but never rounded.
    pub fn exact_name(self) -> String {
        if Bytes::parse(&self.dram.to_string()) == Ok(self.dram) {
            return self.name();
        }
        self.name_with(&self.dram.0.to_string())
    }

    fn name_with(self, dram: &str) -> String {
        let (prefix, _) = BUDGET_PREFIXES[usize::from(!self.steered)];
        let suffix = if self.compressed { format!("+{COMPRESSED}") } else { String::new() };
        format!("{prefix}{dram}{suffix}")
    }

    pub(crate) fn reason(self) -> String {
        let method = if self.steered { "managed by the paging controller" } else { "in the kernel's own swap" };
        let compressed = if self.compressed { ", compressed in DRAM before it goes to disk" } else { "" };
        format!("at most {} of DRAM, the rest far, {method}{compressed}", self.dram)
    }
}
