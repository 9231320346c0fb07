//! A topology as a policy sees it: the cores that this process may use, which of them share a cache, which
//! memory is theirs, which of them are fast. Decides nothing.

use std::collections::BTreeMap;

use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{CpuKind, MemoryNode, ObjectKind, Topology};

/// What policies choose from.
pub(crate) struct CoreIndex<'a> {
    pub topology: &'a Topology,
    /// In logical order, without cpus that this process may not use.
    pub cores: Vec<Core>,
    /// Cores that share a cache, in logical order; empty when the machine shows no such thing.
    pub clusters: Vec<Cluster>,
    /// What one cluster is called here.
    pub cluster_noun: ClusterNoun,
    /// Kinds of cores, fastest first; one on a uniform machine.
    pub kinds: Vec<CoreKind>,
    /// Where each usable cpu stands in logical order.
    rank: BTreeMap<CpuId, usize>,
    /// The core that each cpu belongs to.
    core_of: BTreeMap<CpuId, usize>,
}

pub(crate) struct Core {
    /// Its hardware threads in logical order.
    pub cpus: Vec<CpuId>,
    /// Its index in [`CoreIndex::kinds`]: 0 is the fastest.
    pub kind: usize,
    /// Its index in [`CoreIndex::clusters`].
    pub cluster: Option<usize>,
    /// The node where the kernel puts its memory when nobody says otherwise.
    pub home: Option<NodeId>,
    /// Its package, counted in logical order.
    pub package: Option<usize>,
}

/// Cores that share a cache.
pub(crate) struct Cluster {
    /// Indices into [`CoreIndex::cores`].
    pub cores: Vec<usize>,
}

/// What holds the cores of a cluster together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterNoun {
    /// A cache of this level.
    Cache(u32),
    /// A group that the machine calls a cluster and shows no cache for.
    Group,
    /// Nothing that the machine shows.
    Nothing,
}

pub(crate) struct CoreKind {
    pub cpus: CpuSet,
    /// The lowest and the highest `cpu_capacity`, where stated.
    pub capacity: Option<(u32, u32)>,
}

/// Cores of one design differ by a few percent between speed bins (997, 1017 and 1024 on a DGX GB10), cores of
/// two designs by much more (731 and 997 there), so kinds nearer than this are one kind to a person.
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
        let mut ground = Self { topology, cores, clusters: Vec::new(), cluster_noun, kinds, rank, core_of };
        ground.find_clusters();
        ground
    }

    /// L3 where there is one, else the last cache that cores share, else groups that say they are clusters.
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

    /// The cores with a cpu in this set, in logical order.
    pub fn cores_within(&self, cpus: &CpuSet) -> Vec<usize> {
        self.cores_where(|core| core.cpus.iter().any(|cpu| cpus.contains(*cpu)))
    }

    /// The cores for which this holds, in logical order.
    pub fn cores_where(&self, holds: impl Fn(&Core) -> bool) -> Vec<usize> {
        (0..self.cores.len()).filter(|core| holds(&self.cores[*core])).collect()
    }

    /// All cores, in logical order.
    pub fn all_cores(&self) -> Vec<usize> {
        (0..self.cores.len()).collect()
    }

    /// How many cpus these cores have.
    pub fn cpu_count(&self, cores: &[usize]) -> usize {
        cores.iter().map(|core| self.cores[*core].cpus.len()).sum()
    }

    /// The core that this cpu belongs to.
    pub fn core_of(&self, cpu: CpuId) -> Option<&Core> {
        self.core_of.get(&cpu).map(|core| &self.cores[*core])
    }

    /// Sorts cpus into logical order, which keeps neighbours together.
    pub fn sort(&self, cpus: &mut [CpuId]) {
        cpus.sort_by_key(|cpu| self.rank.get(cpu));
    }

    /// The nodes that are some usable core's home, in logical order.
    pub fn homes(&self) -> Vec<NodeId> {
        let is_home = |node: &NodeId| self.cores.iter().any(|core| core.home == Some(*node));
        self.memory_nodes().into_iter().filter(is_home).collect()
    }

    /// The memory nodes that this process may use, in logical order, devices' own memory left out.
    pub fn memory_nodes(&self) -> Vec<NodeId> {
        let usable = |node: &&MemoryNode| usable(self.topology, node.os) && !is_device_memory(node);
        self.topology.nodes.iter().filter(usable).map(|node| node.os).collect()
    }

    /// The stated distance between two nodes.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u64> {
        self.topology.node_distances()?.between(from, to)
    }
}

impl ClusterNoun {
    /// `L3`, `L2`, `cluster`.
    pub fn one(self) -> String {
        match self {
            Self::Cache(level) => format!("L{level}"),
            Self::Group | Self::Nothing => "cluster".into(),
        }
    }
}

/// Whether this process may put memory there. A node of 0 bytes has no memory, unless no node's size is known.
pub(crate) fn usable(topology: &Topology, node: NodeId) -> bool {
    let sizes_known = topology.nodes.iter().any(|node| node.bytes.0 > 0);
    let Some(node) = topology.node(node) else { return false };
    topology.allowed_nodes.contains(node.os) && (node.bytes.0 > 0 || !sizes_known)
}

/// Memory on a graphics card is a node for its driver's sake; nobody means it by "another node".
fn is_device_memory(node: &MemoryNode) -> bool {
    node.subtype.as_deref() == Some("GPUMemory")
}

/// Where several nodes share a cpu (DRAM and HBM, numa=fake), the first in logical order is the kernel's own.
fn home(topology: &Topology, cpu: CpuId) -> Option<NodeId> {
    topology.nodes_of_cpu(cpu).into_iter().find(|node| usable(topology, *node))
}

/// Kinds of cores as people tell them apart, fastest first; cpus that may not be used make no kind.
fn kinds(topology: &Topology) -> Vec<CoreKind> {
    let mut stated: Vec<&CpuKind> =
        topology.cpu_kinds.iter().filter(|kind| kind.cpus.intersects(&topology.allowed_cpus)).collect();
    let all_have_capacity = stated.iter().all(|kind| kind.capacity.is_some());
    if !all_have_capacity && stated.iter().any(|kind| kind.efficiency < 0) {
        // Unranked kinds say that cores differ, and not how: nobody could call one of them big.
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

/// Whether two kinds that follow each other by speed are one to a person.
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
