//! The memory nodes that hold the memory of processes and the cached parts of files. Must not depend on how pages are
//! found.

mod maps;
mod pages;
mod ranges;
mod subject;
mod tally;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::units::Bytes;

pub use maps::{FileSystem, Mapping, parse_mapping};
pub use pages::{PageRun, ProcessPages, SharedFiles};
pub use subject::{ContainerId, is_pod, is_unit};
pub use tally::{PageStatus, SamplingInterval, Tally, Weight};

/// Kind of memory. The order is that of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    Heap,
    Stack,
    /// Memory that no file backs, and written private pages of files.
    Anonymous,
    /// Memory in transparent huge pages or hugetlb pages.
    HugePages,
    /// Pages of the executable file.
    Program,
    /// Pages of another file with code.
    Library,
    MappedFile,
    SharedMemory,
}

impl MemoryKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::Anonymous => "anonymous",
            Self::HugePages => "huge pages",
            Self::Program => "program",
            Self::Library => "library",
            Self::MappedFile => "mapped file",
            Self::SharedMemory => "shared memory",
        }
    }
}

/// Kind and name of a part of the memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartKey {
    pub kind: MemoryKind,
    /// Path of a file, or kind of memory in huge pages. Empty for other kinds.
    pub name: String,
}

/// Memory by node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeBytes {
    pub bytes: Bytes,
    pub by_node: BTreeMap<NodeId, Bytes>,
    /// Resident memory whose node is unknown.
    pub unattributed: Bytes,
    /// Half of the 95 % interval of the bytes on each node. It is 0 if the kernel was asked for every page.
    pub margin: Bytes,
}

impl NodeBytes {
    pub fn add(&mut self, other: &Self) {
        self.bytes.0 += other.bytes.0;
        for (node, bytes) in &other.by_node {
            self.by_node.entry(*node).or_default().0 += bytes.0;
        }
        self.unattributed.0 += other.unattributed.0;
        // Samples of different parts are independent.
        self.margin = Bytes((self.margin.0 as f64).hypot(other.margin.0 as f64).round() as u64);
    }

    /// Returns the share of the memory with a known node that is not on `node`, in percent; `None` without such memory.
    pub fn remote_percent(&self, node: NodeId) -> Option<f64> {
        self.percent_where(|other| other != node)
    }

    /// Returns the share of the memory with a known node that is on `nodes`, in percent; `None` without such memory.
    pub fn percent_on(&self, nodes: &NodeSet) -> Option<f64> {
        self.percent_where(|node| nodes.contains(node))
    }

    /// Returns the least share of the memory with a known node that was moved to other nodes since `before`, in percent; `None`
    /// without such memory then or now.
    pub fn moved_percent(&self, before: &Self) -> Option<f64> {
        let nodes: BTreeSet<NodeId> = self.by_node.keys().chain(before.by_node.keys()).copied().collect();
        let share = |memory: &Self, node: NodeId| memory.percent_where(|other| other == node);
        let grown = nodes.into_iter().map(|node| Some((share(self, node)? - share(before, node)?).max(0.0)));
        grown.sum()
    }

    fn percent_where(&self, is_counted: impl Fn(NodeId) -> bool) -> Option<f64> {
        let known: u64 = self.by_node.values().map(|bytes| bytes.0).sum();
        let counted: u64 = self.by_node.iter().filter(|(node, _)| is_counted(**node)).map(|(_, bytes)| bytes.0).sum();
        (known > 0).then(|| 100.0 * counted as f64 / known as f64)
    }
}

/// A part of the memory of the inspected processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPart {
    pub kind: MemoryKind,
    pub name: String,
    #[serde(flatten)]
    pub memory: NodeBytes,
}

/// Threads of a process that ran last on CPUs of one memory node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadGroup {
    pub pid: u32,
    /// `None` for CPUs without a memory node.
    pub node: Option<NodeId>,
    pub threads: u64,
    /// CPUs on which they were observed.
    pub cpus: CpuSet,
    /// Share of the memory of the process that is on other nodes, in percent.
    pub remote_percent: Option<f64>,
}

/// The memory of one process, including memory that it shares with others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessMemory {
    pub pid: u32,
    pub name: String,
    #[serde(flatten)]
    pub memory: NodeBytes,
    pub swapped: Bytes,
}

/// Memory or a process that could not be inspected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    pub what: String,
    pub reason: String,
}

/// Result of one inspection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residency {
    /// Memory of all parts.
    pub total: NodeBytes,
    /// Memory that several processes share through a file is counted once.
    pub parts: Vec<MemoryPart>,
    pub processes: Vec<ProcessMemory>,
    pub threads: Vec<ThreadGroup>,
    /// Share of the memory that is remote for the threads, in percent: the mean over all threads.
    pub remote_percent: Option<f64>,
    /// The kernel was asked for one of this many pages in large parts.
    pub sampling_interval: u64,
    /// Duration of the inspection in seconds.
    pub seconds: f64,
    pub unseen: Vec<Unseen>,
}

/// The memory of a command at one time while it ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResidencySample {
    /// Time since its start.
    pub after_seconds: f64,
    pub memory: NodeBytes,
    pub remote_percent: Option<f64>,
}

/// A thread of a process: the CPU on which it ran last, and the memory node of this CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    pub tid: u32,
    pub cpu: CpuId,
    pub node: Option<NodeId>,
}

/// A process with its pages by part, and its threads.
#[derive(Clone, Debug)]
pub struct InspectedProcess {
    pub pid: u32,
    pub name: String,
    pub pages: ProcessPages,
    /// Observations of its threads; a thread may have several.
    pub threads: Vec<ThreadPlace>,
    pub swapped: Bytes,
}

impl Residency {
    /// Sums up processes. `page` is the size of a page.
    pub fn of(processes: &[InspectedProcess], interval: SamplingInterval, page: Bytes, unseen: Vec<Unseen>) -> Self {
        let mut parts: BTreeMap<&PartKey, NodeBytes> = BTreeMap::new();
        for (key, tally) in processes.iter().flat_map(|process| process.pages.counted()) {
            parts.entry(key).or_default().add(&tally.memory(page));
        }
        let parts: Vec<MemoryPart> = parts
            .into_iter()
            .filter(|(_, memory)| memory.bytes.0 > 0)
            .map(|(key, memory)| MemoryPart { kind: key.kind, name: key.name.clone(), memory })
            .collect();
        let mut total = NodeBytes::default();
        parts.iter().for_each(|part| total.add(&part.memory));
        let memories: Vec<ProcessMemory> = processes.iter().map(|process| memory_of(process, page)).collect();
        let groups = processes.iter().zip(&memories).flat_map(|(process, memory)| groups(process, &memory.memory));
        let threads: Vec<ThreadGroup> = groups.collect();
        Self {
            total,
            parts,
            remote_percent: mean_remote(&threads),
            threads,
            processes: memories,
            sampling_interval: interval.0,
            seconds: 0.0,
            unseen,
        }
    }
}

fn memory_of(process: &InspectedProcess, page: Bytes) -> ProcessMemory {
    let mut memory = NodeBytes::default();
    process.pages.all().for_each(|(_, tally)| memory.add(&tally.memory(page)));
    ProcessMemory { pid: process.pid, name: process.name.clone(), memory, swapped: process.swapped }
}

/// Groups threads by the memory node of their last observation.
fn groups(process: &InspectedProcess, memory: &NodeBytes) -> Vec<ThreadGroup> {
    let last: BTreeMap<u32, Option<NodeId>> = process.threads.iter().map(|place| (place.tid, place.node)).collect();
    let mut groups: BTreeMap<Option<NodeId>, (u64, CpuSet)> = BTreeMap::new();
    for node in last.values() {
        groups.entry(*node).or_default().0 += 1;
    }
    for place in &process.threads {
        if let Some((_, cpus)) = last.get(&place.tid).and_then(|node| groups.get_mut(node)) {
            cpus.insert(place.cpu);
        }
    }
    let group = |(node, (threads, cpus)): (Option<NodeId>, _)| {
        let remote_percent = node.and_then(|node| memory.remote_percent(node));
        ThreadGroup { pid: process.pid, node, threads, cpus, remote_percent }
    };
    groups.into_iter().map(group).collect()
}

fn mean_remote(groups: &[ThreadGroup]) -> Option<f64> {
    let known = groups.iter().filter_map(|group| Some((group.threads as f64, group.remote_percent?)));
    let (threads, sum) =
        known.fold((0.0, 0.0), |(all, sum), (threads, percent)| (all + threads, sum + threads * percent));
    (threads > 0.0).then(|| sum / threads)
}

/// The page cache of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CachedFile {
    pub path: String,
    pub size: Bytes,
    /// Pages in the page cache; the last page may be partly outside the file.
    #[serde(flatten)]
    pub memory: NodeBytes,
    /// The cached ranges of the file in bytes, in order; at most [`RANGES_MAX`].
    pub ranges: Vec<[u64; 2]>,
    /// Number of cached ranges.
    pub range_count: u64,
    pub sampling_interval: u64,
    /// Reason why the nodes of its pages are unknown.
    pub nodes_unavailable: Option<String>,
}

impl CachedFile {
    /// Returns the cached share of the file in percent, or `None` if it is empty.
    pub fn cached_percent(&self) -> Option<f64> {
        // The last page may be partly outside the file.
        (self.size.0 > 0).then(|| (100.0 * self.memory.bytes.0 as f64 / self.size.0 as f64).min(100.0))
    }
}

/// Maximum number of ranges that are listed.
pub const RANGES_MAX: usize = 64;

#[cfg(test)]
mod tests;
