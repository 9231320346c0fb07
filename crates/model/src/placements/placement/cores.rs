//! Index of the cores that this process may use: their caches, memory nodes and speeds, from the view of a policy.
//! Contains no decisions.

use std::collections::BTreeMap;

use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{CpuKind, Device, MemoryNode, ObjectKind, Topology};

/// The cores of a machine that policies choose from.
pub(crate) struct CoreIndex<'a> {
    pub topology: &'a Topology,
    /// In logical order, without CPUs that this process may not use.
    pub cores: Vec<Core>,
    /// Cores that share a cache, in logical order. Empty if the topology has no shared cache and no clusters.
    pub clusters: Vec<Cluster>,
    pub cluster_noun: ClusterNoun,
    /// Kinds of cores, fastest first. Uniform machines have at most one; kinds that are not ranked are left out.
    pub kinds: Vec<CoreKind>,
    /// The devices that placements refer to, as named by the user.
    pub devices: Vec<&'a Device>,
    /// Position of each usable CPU in logical order.
    rank: BTreeMap<CpuId, usize>,
    /// Index in `cores` by CPU.
    core_of: BTreeMap<CpuId, usize>,
}

pub(crate) struct Core {
    /// Hardware threads in logical order.
    pub cpus: Vec<CpuId>,
    /// Index in [`CoreIndex::kinds`]: 0 is the fastest.
    pub kind: usize,
    /// Index in [`CoreIndex::clusters`].
    pub cluster: Option<usize>,
    /// The node from which the kernel allocates memory by default.
    pub home: Option<NodeId>,
    /// Index of the package in logical order.
    pub package: Option<usize>,
}

/// Cores that share a cache.
pub(crate) struct Cluster {
    /// Indices into [`CoreIndex::cores`].
    pub cores: Vec<usize>,
}

/// The resource that the cores of a cluster share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterNoun {
    /// A cache of this level.
    Cache(u32),
    /// A group that the kernel reports as a cluster, without a shared cache.
    Group,
    /// The topology has no clusters.
    Nothing,
}

pub(crate) struct CoreKind {
    pub cpus: CpuSet,
    /// The lowest and the highest `cpu_capacity`, if known.
    pub capacity: Option<(u32, u32)>,
}

/// If the speed of two kinds differs by less, they are treated as one. Speed bins of one core design differ by a few
/// percent (997, 1017 and 1024 on a DGX GB10), two designs by much more (731 and 997 on the same machine).
const SAME_KIND_PERCENT: u64 = 90;

impl<'a> CoreIndex<'a> {
    pub fn new(topology: &'a Topology) -> Self {
        let kinds = kinds(topology);
        let packages: Vec<&CpuSet> = topology.of_kind(ObjectKind::Package).map(|package| &package.cpus).collect();
        let rank: BTreeMap<CpuId, usize> =
            topology.cpus_in_logical_order().into_iter().enumerate().map(|(rank, cpu)| (cpu, rank)).collect();
        let core = |cpus: CpuSet| {
            let mut cpus: Vec<CpuId> = cpus.intersection(&topology.allowed_cpus).iter().collect();
            cpus.sort_by_key(|cpu| rank.get(cpu));
            let first = *cpus.first()?;
            Some(Core {
                kind: kinds.iter().position(|kind| kind.cpus.contains(first)).unwrap_or(0),
                cluster: None,
                home: home(topology, first),
                package: packages.iter().position(|package| package.contains(first)),
                cpus,
            })
        };
        let cores: Vec<Core> = topology.cores().into_iter().filter_map(core).collect();
        let core_of =
            (0..cores.len()).flat_map(|index| cores[index].cpus.iter().map(move |cpu| (*cpu, index))).collect();
        let cluster_noun = ClusterNoun::Nothing;
        let (clusters, devices) = (Vec::new(), Vec::new());
        let mut index = Self { topology, cores, clusters, cluster_noun, kinds, devices, rank, core_of };
        index.find_clusters();
        index
    }

    /// Returns the index with the devices that placements refer to.
    pub fn with_devices(self, devices: Vec<&'a Device>) -> Self {
        Self { devices, ..self }
    }

    /// Finds clusters: L3s if the machine has any, else the last shared cache, else groups marked as clusters.
    fn find_clusters(&mut self) {
        let topology = self.topology;
        let caches = |level: u32| -> Vec<&CpuSet> { topology.caches(level).map(|cache| &cache.cpus).collect() };
        let shared = |sets: &[&CpuSet]| sets.iter().any(|cpus| self.cores_within(cpus).len() > 1);
        let last = topology.last_cache_level().unwrap_or(0);
        let groups: Vec<&CpuSet> = topology
            .of_kind(ObjectKind::Group)
            .filter(|group| group.subtype.as_deref() == Some("Cluster"))
            .map(|group| &group.cpus)
            .collect();
        let (noun, sets) = if caches(3).iter().any(|cpus| !self.cores_within(cpus).is_empty()) {
            (ClusterNoun::Cache(3), caches(3))
        } else if shared(&caches(last)) {
            (ClusterNoun::Cache(last), caches(last))
        } else if shared(&groups) {
            (ClusterNoun::Group, groups)
        } else {
            (ClusterNoun::Nothing, Vec::new())
        };
        let clusters: Vec<Cluster> = sets
            .into_iter()
            .map(|cpus| Cluster { cores: self.cores_within(cpus) })
            .filter(|cluster| !cluster.cores.is_empty())
            .collect();
        for (index, cluster) in clusters.iter().enumerate() {
            cluster.cores.iter().for_each(|core| self.cores[*core].cluster = Some(index));
        }
        (self.cluster_noun, self.clusters) = (noun, clusters);
    }

    /// Returns the cores with a CPU in this set, in logical order.
    pub fn cores_within(&self, cpus: &CpuSet) -> Vec<usize> {
        self.cores_where(|core| core.cpus.iter().any(|cpu| cpus.contains(*cpu)))
    }

    /// Returns the cores that match, in logical order.
    pub fn cores_where(&self, matches: impl Fn(&Core) -> bool) -> Vec<usize> {
        (0..self.cores.len()).filter(|core| matches(&self.cores[*core])).collect()
    }

    /// Returns all cores in logical order.
    pub fn all_cores(&self) -> Vec<usize> {
        (0..self.cores.len()).collect()
    }

    /// Returns the number of CPUs of these cores.
    pub fn cpu_count(&self, cores: &[usize]) -> usize {
        cores.iter().map(|core| self.cores[*core].cpus.len()).sum()
    }

    /// Returns the core of a CPU; `None` if this process may not use the CPU.
    pub fn core_of(&self, cpu: CpuId) -> Option<&Core> {
        self.core_of.get(&cpu).map(|core| &self.cores[*core])
    }

    /// Sorts CPUs into logical order, which keeps neighbours adjacent.
    pub fn sort(&self, cpus: &mut [CpuId]) {
        cpus.sort_by_key(|cpu| self.rank.get(cpu));
    }

    /// Returns the nodes that are the home of a usable core, in logical order.
    pub fn homes(&self) -> Vec<NodeId> {
        let is_home = |node: &NodeId| self.cores.iter().any(|core| core.home == Some(*node));
        self.memory_nodes().into_iter().filter(is_home).collect()
    }

    /// Returns the memory nodes that this process may use, in logical order, without the memory of graphics cards.
    pub fn memory_nodes(&self) -> Vec<NodeId> {
        let usable = |node: &&MemoryNode| usable(self.topology, node.os) && !is_device_memory(node);
        self.topology.nodes.iter().filter(usable).map(|node| node.os).collect()
    }

    /// Returns the distance between two nodes, if known.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u64> {
        self.topology.node_distances()?.between(from, to)
    }
}

impl ClusterNoun {
    /// Returns the singular noun: `L3`, `L2`, `cluster`.
    pub fn one(self) -> String {
        match self {
            Self::Cache(level) => format!("L{level}"),
            Self::Group | Self::Nothing => "cluster".into(),
        }
    }
}

/// Whether this process may allocate memory on a node. A node of 0 bytes has no memory, unless the sizes of all nodes
/// are unknown.
pub(crate) fn usable(topology: &Topology, node: NodeId) -> bool {
    let sizes_known = topology.nodes.iter().any(|node| node.bytes.0 > 0);
    let Some(node) = topology.node(node) else { return false };
    topology.allowed_nodes.contains(node.os) && (node.bytes.0 > 0 || !sizes_known)
}

/// Memory of a graphics card. Its driver exposes it as a node, but it is never meant by "another node".
fn is_device_memory(node: &MemoryNode) -> bool {
    node.subtype.as_deref() == Some("GPUMemory")
}

/// If a CPU belongs to several nodes (DRAM and HBM, numa=fake), the kernel's default is the first in logical order.
fn home(topology: &Topology, cpu: CpuId) -> Option<NodeId> {
    topology.nodes_of_cpu(cpu).into_iter().find(|node| usable(topology, *node))
}

/// Returns the kinds of usable cores, fastest first. Kinds of similar speed are merged.
fn kinds(topology: &Topology) -> Vec<CoreKind> {
    let mut stated: Vec<&CpuKind> =
        topology.cpu_kinds.iter().filter(|kind| kind.cpus.intersects(&topology.allowed_cpus)).collect();
    let all_have_capacity = stated.iter().all(|kind| kind.capacity.is_some());
    if !all_have_capacity && stated.iter().any(|kind| kind.efficiency < 0) {
        // Unranked kinds: the cores differ, but it is unknown which ones are faster.
        return Vec::new();
    }
    stated.sort_by_key(
        |kind| if all_have_capacity { kind.capacity.unwrap_or(0).into() } else { i64::from(kind.efficiency) },
    );
    let mut groups: Vec<Vec<&CpuKind>> = Vec::new();
    for kind in stated {
        match groups.last_mut() {
            Some(group) if same_kind(group[group.len() - 1], kind) => group.push(kind),
            _ => groups.push(vec![kind]),
        }
    }
    groups.iter().rev().map(|group| merged(group, topology)).collect()
}

fn merged(group: &[&CpuKind], topology: &Topology) -> CoreKind {
    let cpus = group.iter().fold(CpuSet::new(), |cpus, kind| cpus.union(&kind.cpus));
    let capacities = group.iter().filter_map(|kind| kind.capacity);
    let capacity = capacities.clone().min().zip(capacities.max());
    CoreKind { cpus: cpus.intersection(&topology.allowed_cpus), capacity }
}

/// Whether two kinds that are adjacent by speed are treated as one.
fn same_kind(slower: &CpuKind, faster: &CpuKind) -> bool {
    let info =
        |kind: &CpuKind, name: &str| kind.info.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let megahertz = |kind| info(kind, "FrequencyMaxMHz").and_then(|text| text.parse().ok());
    let near = |low: u64, high: u64| low.min(high) * 100 >= low.max(high) * SAME_KIND_PERCENT;
    match (info(slower, "CoreType"), info(faster, "CoreType")) {
        (Some(one), Some(other)) => return one == other,
        (None, None) => {}
        _ => return false,
    }
    match (slower.capacity, faster.capacity, megahertz(slower), megahertz(faster)) {
        (Some(low), Some(high), _, _) => near(low.into(), high.into()),
        (None, None, Some(low), Some(high)) => near(low, high),
        _ => false,
    }
}
