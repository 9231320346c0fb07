//! Topology of a machine: the tree of CPU objects, memory nodes, caches, distances, kinds of cores and devices.
//! Values only: the crate `machine` fills them.

mod counts;
mod device;

pub use counts::Counts;
pub use device::{Device, DeviceKind, Interrupt, InterruptCounts, Movability};

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::units::Bytes;

/// Topology of a machine. Object 0 is the whole machine; parents precede their children.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The tree of CPU objects in an arena: parents before children, siblings in logical order.
    pub objects: Vec<Object>,
    /// Memory nodes in hwloc's logical order, which may differ from the order of their numbers.
    pub nodes: Vec<MemoryNode>,
    /// Relative distances between memory nodes, if the machine reports any.
    pub distances: Vec<Distances>,
    /// Bandwidths and latencies from CPUs to memory nodes, reported by firmware or measured.
    pub memory_attributes: Vec<MemoryAttribute>,
    /// Kinds of cores in ascending order of performance; at most one on a uniform machine.
    pub cpu_kinds: Vec<CpuKind>,
    /// CPUs that this process may use: online and in the cpuset of its cgroup.
    pub allowed_cpus: CpuSet,
    /// Memory nodes that this process may use.
    pub allowed_nodes: NodeSet,
    /// All CPUs, including offline and disallowed ones.
    pub complete_cpus: CpuSet,
    /// Block and network devices; empty for a machine read from a file without them.
    pub devices: Vec<Device>,
    /// Disagreements between sources, and which source was used.
    pub notes: Vec<String>,
}

/// Level of the CPU tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectKind {
    Machine,
    /// Any other level: clusters, sub-NUMA clusters, drawers, books.
    Group,
    Package,
    Die,
    /// Data or unified cache; the level is in [`Object::cache`].
    Cache,
    Core,
    Pu,
}

/// An object of the CPU tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    pub kind: ObjectKind,
    /// Number in Linux, if any. Core numbers repeat across packages.
    pub os_index: Option<u32>,
    /// Its CPUs that this process may use.
    pub cpus: CpuSet,
    /// Arena index of the parent; `None` for the machine.
    pub parent: Option<usize>,
    /// Arena indices of the children, in logical order.
    pub children: Vec<usize>,
    /// Indices into [`Topology::nodes`] of the memory attached to this object.
    pub memory: Vec<usize>,
    pub cache: Option<Cache>,
    /// hwloc's subtype (`Cluster`, `EventLog`), if any.
    pub subtype: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 to 5.
    pub level: u32,
    /// Size. 0 if the machine does not report it.
    pub bytes: Bytes,
    /// Bytes per cache line. 0 if the machine does not report it.
    pub line_bytes: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryNode {
    pub os: NodeId,
    /// Local CPUs; empty for memory without CPUs.
    pub cpus: CpuSet,
    /// Size. 0 if the machine does not report it.
    pub bytes: Bytes,
    /// hwloc's subtype (`HBM`, `MCDRAM`, `GPUMemory`), if any.
    pub subtype: Option<String>,
}

/// Matrix of relative distances between memory nodes, as reported by the firmware (10 is local).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// Name (`NUMALatency`), if the source has one.
    pub name: Option<String>,
    /// The nodes, in the order of rows and columns.
    pub nodes: Vec<NodeId>,
    /// `values[row * nodes.len() + column]`, row to column.
    pub values: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryAttribute {
    /// `Bandwidth`, `Latency`, `ReadBandwidth` ... in hwloc's units: MiB/s and ns.
    pub attr: String,
    /// The accessed memory node.
    pub node: NodeId,
    /// The accessing CPUs; `None` for attributes without an initiator.
    #[serde(rename = "from")]
    pub initiator: Option<CpuSet>,
    pub value: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuKind {
    pub cpus: CpuSet,
    /// hwloc's efficiency rank: higher is faster and uses more power; -1 if unknown.
    pub efficiency: i32,
    /// The kernel's `cpu_capacity` (1024 is the fastest of the machine), if reported.
    pub capacity: Option<u32>,
    /// Other attributes with hwloc's names (`CoreType`, `FrequencyMaxMHz`), in hwloc's order.
    pub info: Vec<(String, String)>,
}

/// Name of measured distances, which a measured map inserts before the others.
const MEASURED: &str = "measured";

impl Distances {
    /// Creates a matrix of measured distances: 10 is local, others are scaled by the ratio of latencies.
    pub fn measured(nodes: Vec<NodeId>, values: Vec<u64>) -> Self {
        Self { name: Some(MEASURED.into()), nodes, values }
    }

    pub fn is_measured(&self) -> bool {
        self.name.as_deref() == Some(MEASURED)
    }

    /// Returns the distance from one node to another.
    pub fn between(&self, from: NodeId, to: NodeId) -> Option<u64> {
        let position = |node| self.nodes.iter().position(|other| *other == node);
        self.values.get(position(from)? * self.nodes.len() + position(to)?).copied()
    }
}

impl Topology {
    /// Returns the topology without its variable parts: devices, interrupt affinities and notes.
    #[must_use]
    pub fn fixed(&self) -> Self {
        Self { devices: Vec::new(), notes: Vec::new(), ..self.clone() }
    }

    /// Iterates over the objects of a kind, in logical order.
    pub fn of_kind(&self, kind: ObjectKind) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.kind == kind)
    }

    /// Iterates over the data and unified caches of a level, in logical order.
    pub fn caches(&self, level: u32) -> impl Iterator<Item = &Object> {
        self.of_kind(ObjectKind::Cache).filter(move |object| object.cache.is_some_and(|cache| cache.level == level))
    }

    /// Returns the highest cache level; `None` if the machine reports no cache.
    pub fn last_cache_level(&self) -> Option<u32> {
        self.objects.iter().filter_map(|object| object.cache.map(|cache| cache.level)).max()
    }

    /// Returns the size of the largest last-level cache.
    pub fn last_cache_bytes(&self) -> Option<Bytes> {
        let level = self.last_cache_level()?;
        self.caches(level).filter_map(|object| object.cache.map(|cache| cache.bytes)).max()
    }

    /// Returns the CPUs in hwloc's logical order, in which neighbours are adjacent.
    pub fn cpus_in_logical_order(&self) -> Vec<CpuId> {
        self.of_kind(ObjectKind::Pu).filter_map(|pu| pu.os_index.map(CpuId)).collect()
    }

    /// Returns the CPUs of each core in logical order; without core objects, each CPU counts as a core.
    pub fn cores(&self) -> Vec<CpuSet> {
        let cores: Vec<CpuSet> =
            self.of_kind(ObjectKind::Core).map(|core| core.cpus.clone()).filter(|cpus| !cpus.is_empty()).collect();
        if !cores.is_empty() {
            return cores;
        }
        self.cpus_in_logical_order().into_iter().map(|cpu| CpuSet::from_iter([cpu])).collect()
    }

    pub fn node(&self, os: NodeId) -> Option<&MemoryNode> {
        self.nodes.iter().find(|node| node.os == os)
    }

    /// Returns the nodes whose CPUs include this one, in logical order (a CPU can have several: DRAM and HBM, or
    /// numa=fake).
    pub fn nodes_of_cpu(&self, cpu: CpuId) -> Vec<NodeId> {
        self.nodes.iter().filter(|node| node.cpus.contains(cpu)).map(|node| node.os).collect()
    }

    /// Returns the nodes that are local to any of these CPUs.
    pub fn local_nodes(&self, cpus: &CpuSet) -> NodeSet {
        self.nodes.iter().filter(|node| node.cpus.intersects(cpus)).map(|node| node.os).collect()
    }

    /// Returns the preferred distance matrix: the first.
    pub fn node_distances(&self) -> Option<&Distances> {
        self.distances.first()
    }

    /// Summarises the machine: `1 package, 2 L3, 6 cores, 12 cpus, 1 memory node, 16GiB`. Saved placements store this
    /// text.
    pub fn summary(&self) -> String {
        let counts = self.counts();
        let total = Bytes(self.nodes.iter().map(|node| node.bytes.0).sum());
        let plural = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let mut words = vec![plural(counts.packages, "package", "packages")];
        if let Some(level) = self.last_cache_level() {
            words.push(format!("{} L{level}", self.caches(level).count()));
        }
        words.push(plural(counts.cores, "core", "cores"));
        words.push(plural(counts.pus, "cpu", "cpus"));
        words.push(plural(counts.numa, "memory node", "memory nodes"));
        if total.0 > 0 {
            words.push(total.to_string());
        }
        words.join(", ")
    }
}
