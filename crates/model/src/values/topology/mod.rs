//! What a machine is: its tree of cpu objects, its memory nodes, caches, distances, kinds of cores,
//! devices. Values only: `machine` fills them, everything else reads them.

mod counts;
mod device;

pub use counts::Counts;
pub use device::{Device, DeviceKind, Interrupt, InterruptCounts, Movability};

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::units::Bytes;

/// A machine's topology. Object 0 is the whole machine; children come after their parents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The cpu objects as a tree in an arena, parents before children, siblings in logical order.
    pub objects: Vec<Object>,
    /// Memory nodes in hwloc's logical order, which need not be the order of their numbers.
    pub nodes: Vec<MemoryNode>,
    /// Relative distances between memory nodes, when the machine states any.
    pub distances: Vec<Distances>,
    /// Bandwidths and latencies from cpus to memory nodes, stated by firmware or measured.
    pub memory_attributes: Vec<MemoryAttribute>,
    /// Kinds of cores, least efficient first; one kind or none on a uniform machine.
    pub cpu_kinds: Vec<CpuKind>,
    /// Cpus that this process may use: online, in our cgroup's cpuset.
    pub allowed_cpus: CpuSet,
    /// Memory nodes that this process may use.
    pub allowed_nodes: NodeSet,
    /// Every cpu that exists, offline and disallowed ones too.
    pub complete_cpus: CpuSet,
    /// Block and network devices, and where they hang. Empty for a machine read from a file without them.
    pub devices: Vec<Device>,
    /// Where two sources disagreed, and which one was believed.
    pub notes: Vec<String>,
}

/// A level of the cpu tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectKind {
    Machine,
    /// What has no better name: clusters, sub-NUMA clusters, drawers, books.
    Group,
    /// What goes into a socket.
    Package,
    /// A die inside a package.
    Die,
    /// Data or unified cache; the level is in [`Object::cache`].
    Cache,
    Core,
    Pu,
}

/// One object of the cpu tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    pub kind: ObjectKind,
    /// The number that the system gives it, if any. Core numbers repeat across packages.
    pub os_index: Option<u32>,
    /// Its cpus that this process may use.
    pub cpus: CpuSet,
    /// The arena index of its parent; none for the machine.
    pub parent: Option<usize>,
    /// Arena indices of its children, in logical order.
    pub children: Vec<usize>,
    /// Indices into [`Topology::nodes`] of the memory that hangs directly here.
    pub memory: Vec<usize>,
    pub cache: Option<Cache>,
    /// hwloc's subtype (`Cluster`, `EventLog`), if any.
    pub subtype: Option<String>,
}

/// The facts of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 to 5.
    pub level: u32,
    /// Its size; 0 when the machine does not say.
    pub bytes: Bytes,
    /// Bytes in a line; 0 when the machine does not say.
    pub line_bytes: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryNode {
    pub os: NodeId,
    /// The cpus next to it; empty for memory without cpus.
    pub cpus: CpuSet,
    /// Its size; 0 when the machine does not say.
    pub bytes: Bytes,
    /// hwloc's subtype (`HBM`, `MCDRAM`, `GPUMemory`), if any.
    pub subtype: Option<String>,
}

/// A matrix of relative distances between memory nodes, as the firmware states it (local is 10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// Its name (`NUMALatency`); some sources give none.
    pub name: Option<String>,
    /// The nodes, in the order of rows and columns.
    pub nodes: Vec<NodeId>,
    /// `values[row * nodes.len() + column]`, row to column.
    pub values: Vec<u64>,
}

/// One value of one memory attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryAttribute {
    /// `Bandwidth`, `Latency`, `ReadBandwidth` ... in hwloc's units: MiB/s and ns.
    pub attr: String,
    /// The memory node that is reached.
    pub node: NodeId,
    /// The cpus that reach it; none for attributes without an initiator.
    #[serde(rename = "from")]
    pub initiator: Option<CpuSet>,
    pub value: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuKind {
    pub cpus: CpuSet,
    /// hwloc's rank, higher is faster and hungrier; -1 when unknown.
    pub efficiency: i32,
    /// The kernel's `cpu_capacity` (1024 is the machine's fastest), if stated.
    pub capacity: Option<u32>,
    /// Other facts as hwloc names them (`CoreType`, `FrequencyMaxMHz`), in hwloc's order.
    pub info: Vec<(String, String)>,
}

/// What the distances are called that a measured map puts first.
const MEASURED: &str = "measured";

impl Distances {
    /// Distances that were measured: 10 is the node itself, others by the ratio of latencies.
    pub fn measured(nodes: Vec<NodeId>, values: Vec<u64>) -> Self {
        Self { name: Some(MEASURED.into()), nodes, values }
    }

    pub fn is_measured(&self) -> bool {
        self.name.as_deref() == Some(MEASURED)
    }

    /// The stated distance from one node to another.
    pub fn between(&self, from: NodeId, to: NodeId) -> Option<u64> {
        let position = |node| self.nodes.iter().position(|other| *other == node);
        self.values.get(position(from)? * self.nodes.len() + position(to)?).copied()
    }
}

impl Topology {
    /// It without what comes and goes while the machine stays what it is: devices, and where their interrupts go now.
    #[must_use]
    pub fn fixed(&self) -> Self {
        Self { devices: Vec::new(), notes: Vec::new(), ..self.clone() }
    }

    /// All objects of a kind, in logical order.
    pub fn of_kind(&self, kind: ObjectKind) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.kind == kind)
    }

    /// All data or unified caches of a level, in logical order.
    pub fn caches(&self, level: u32) -> impl Iterator<Item = &Object> {
        self.of_kind(ObjectKind::Cache).filter(move |object| object.cache.is_some_and(|cache| cache.level == level))
    }

    /// The level of the cache furthest from the cores, if the machine has or shows any cache.
    pub fn last_cache_level(&self) -> Option<u32> {
        self.objects.iter().filter_map(|object| object.cache.map(|cache| cache.level)).max()
    }

    /// The bytes of the largest last-level cache that the allowed cpus reach.
    pub fn last_cache_bytes(&self) -> Option<Bytes> {
        let level = self.last_cache_level()?;
        self.caches(level).filter_map(|object| object.cache.map(|cache| cache.bytes)).max()
    }

    /// The hardware threads in hwloc's logical order, which keeps neighbours together.
    pub fn cpus_in_logical_order(&self) -> Vec<CpuId> {
        self.of_kind(ObjectKind::Pu).filter_map(|pu| pu.os_index.map(CpuId)).collect()
    }

    /// Each core's cpus in logical order; on a machine without core objects each cpu is its own core.
    pub fn cores(&self) -> Vec<CpuSet> {
        let cores: Vec<CpuSet> =
            self.of_kind(ObjectKind::Core).map(|core| core.cpus.clone()).filter(|cpus| !cpus.is_empty()).collect();
        if !cores.is_empty() {
            return cores;
        }
        self.cpus_in_logical_order().into_iter().map(|cpu| CpuSet::from_iter([cpu])).collect()
    }

    /// The memory node with this number.
    pub fn node(&self, os: NodeId) -> Option<&MemoryNode> {
        self.nodes.iter().find(|node| node.os == os)
    }

    /// The nodes whose cpus include this one, nearest stated first (a cpu can have several: DRAM and HBM, or numa=fake).
    pub fn nodes_of_cpu(&self, cpu: CpuId) -> Vec<NodeId> {
        self.nodes.iter().filter(|node| node.cpus.contains(cpu)).map(|node| node.os).collect()
    }

    /// The nodes that are local to any of these cpus.
    pub fn local_nodes(&self, cpus: &CpuSet) -> NodeSet {
        self.nodes.iter().filter(|node| node.cpus.intersects(cpus)).map(|node| node.os).collect()
    }

    /// The first matrix of distances between memory nodes.
    pub fn node_distances(&self) -> Option<&Distances> {
        self.distances.first()
    }

    /// The machine in a few words: `1 package, 2 L3, 6 cores, 12 cpus, 1 memory node, 16GiB`.
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
