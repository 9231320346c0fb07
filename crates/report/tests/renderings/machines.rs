//! Topologies for tests, built from nested parts without a file or hwloc.

use model::values::id_set::{CpuId, CpuSet, NodeId};
use model::values::settings::{FactValue, Settings};
use model::values::topology::{
    Cache, CpuKind, Device, DeviceKind, Distances, Interrupt, MemoryAttribute, MemoryNode, Movability, Object,
    ObjectKind, Topology,
};
use model::values::units::Bytes;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// A part of a machine with its contents.
pub struct Part {
    kind: ObjectKind,
    os: Option<u32>,
    cache: Option<Cache>,
    subtype: Option<String>,
    memory: Vec<(u32, u64)>,
    inside: Vec<Part>,
}

pub fn part(kind: ObjectKind, os: Option<u32>, inside: Vec<Part>) -> Part {
    Part { kind, os, cache: None, subtype: None, memory: Vec::new(), inside }
}

pub fn package(os: u32, inside: Vec<Part>) -> Part {
    part(ObjectKind::Package, Some(os), inside)
}

pub fn cache(level: u32, bytes: u64, inside: Vec<Part>) -> Part {
    Part { cache: Some(Cache { level, bytes: Bytes(bytes), line_bytes: 64 }), ..part(ObjectKind::Cache, None, inside) }
}

pub fn core(os: u32, cpus: &[u32]) -> Part {
    part(ObjectKind::Core, Some(os), cpus.iter().map(|cpu| part(ObjectKind::Pu, Some(*cpu), Vec::new())).collect())
}

impl Part {
    /// A memory node attached here.
    pub fn node(mut self, os: u32, bytes: u64) -> Self {
        self.memory.push((os, bytes));
        self
    }
}

pub fn machine(inside: Vec<Part>) -> Topology {
    let mut topology = Topology::default();
    add(&mut topology, part(ObjectKind::Machine, Some(0), inside), None);
    let cpus = topology.objects[0].cpus.clone();
    topology.allowed_nodes = topology.nodes.iter().map(|node| node.os).collect();
    topology.allowed_cpus = cpus.clone();
    topology.complete_cpus = cpus;
    topology
}

fn add(topology: &mut Topology, part: Part, parent: Option<usize>) -> CpuSet {
    let index = topology.objects.len();
    let Part { kind, os, cache, subtype, memory, inside } = part;
    let object = Object {
        kind,
        os_index: os,
        cpus: CpuSet::new(),
        parent,
        children: Vec::new(),
        memory: Vec::new(),
        cache,
        subtype,
    };
    topology.objects.push(object);
    let mut cpus: CpuSet = os.filter(|_| kind == ObjectKind::Pu).map(CpuId).into_iter().collect();
    let nodes: Vec<usize> = (0..memory.len()).map(|offset| topology.nodes.len() + offset).collect();
    let node = |(os, bytes): &(u32, u64)| MemoryNode {
        os: NodeId(*os),
        cpus: CpuSet::new(),
        bytes: Bytes(*bytes),
        subtype: None,
    };
    topology.nodes.extend(memory.iter().map(node));
    for child in inside {
        let child_index = topology.objects.len();
        topology.objects[index].children.push(child_index);
        cpus = cpus.union(&add(topology, child, Some(index)));
    }
    for node in &nodes {
        topology.nodes[*node].cpus = cpus.clone();
    }
    topology.objects[index].memory = nodes;
    topology.objects[index].cpus = cpus.clone();
    cpus
}

fn distances(nodes: &[u32], between: impl Fn(u32, u32) -> u64) -> Vec<Distances> {
    let values = nodes.iter().flat_map(|from| nodes.iter().map(|to| between(*from, *to)).collect::<Vec<_>>());
    let values = values.collect();
    vec![Distances { name: Some("NUMALatency".into()), nodes: nodes.iter().map(|os| NodeId(*os)).collect(), values }]
}

fn kind(cpus: &str, efficiency: i32, capacity: u32, mhz: u32) -> CpuKind {
    CpuKind {
        cpus: CpuSet::parse_list(cpus).unwrap(),
        efficiency,
        capacity: Some(capacity),
        info: vec![("FrequencyMaxMHz".into(), mhz.to_string())],
    }
}

/// 6 cores in two clusters with a cache each, two threads per core.
pub fn ryzen() -> Topology {
    let core = |index: u32| cache(2, 512 * KIB, vec![cache(1, 32 * KIB, vec![core(index, &[index, index + 6])])]);
    let cluster = |first: u32| cache(3, 8 * MIB, (first..first + 3).map(core).collect());
    let mut topology = machine(vec![package(0, vec![cluster(0), cluster(3)]).node(0, 16 * GIB)]);
    topology.devices = vec![
        Device {
            name: "nvme0n1".into(),
            kind: DeviceKind::Block,
            bus: Some("0000:01:00.0".into()),
            node: Some(NodeId(0)),
            interrupts: (40..53)
                .map(|number| interrupt(number, "nvme0q", &number.saturating_sub(41).to_string()))
                .collect(),
        },
        Device {
            name: "enp5s0".into(),
            kind: DeviceKind::Network,
            bus: Some("0000:05:00.0".into()),
            node: None,
            interrupts: vec![interrupt(60, "enp5s0", "3")],
        },
    ];
    topology
}

fn interrupt(number: u32, name: &str, cpus: &str) -> Interrupt {
    let movability = if name == "enp5s0" { Movability::Movable } else { Movability::Managed };
    let effective = CpuSet::parse_list(cpus).unwrap_or_default();
    // A movable interrupt may be allowed on more CPUs than the one that handles it.
    let affinity = match movability {
        Movability::Movable => CpuSet::parse_list("0-3").unwrap_or_default(),
        _ => effective.clone(),
    };
    Interrupt { number, name: name.into(), affinity, effective, movability }
}

/// 4 small and 2 big cores without L3 cache; core numbers repeat.
pub fn rk3399() -> Topology {
    let core = |os: u32, cpu: u32| cache(1, 32 * KIB, vec![core(os, &[cpu])]);
    let little = cache(2, 512 * KIB, (0..4).map(|index| core(index, index)).collect());
    let big = cache(2, MIB, (0..2).map(|index| core(index, 4 + index)).collect());
    let mut topology = machine(vec![package(0, vec![little, big]).node(0, 4 * GIB)]);
    topology.cpu_kinds = vec![kind("0-3", 0, 381, 1416), kind("4-5", 1, 1024, 1800)];
    topology.notes = vec!["hwloc has 1 package, sysfs has 2: sysfs is used".into()];
    topology
}

/// Two packages of 72 cores, a memory node without CPUs, sparse numbers.
pub fn grace_cxl() -> Topology {
    let core = |index: u32| cache(2, MIB, vec![cache(1, 64 * KIB, vec![core(index, &[index])])]);
    let cores = |first: u32| vec![cache(3, 114 * MIB, (first..first + 72).map(core).collect())];
    let far = part(ObjectKind::Group, None, Vec::new()).node(8, 256 * GIB);
    let (first, second) = (package(0, cores(0)).node(0, 240 * GIB), package(1, cores(72)).node(1, 240 * GIB));
    let mut topology = machine(vec![first, second, far]);
    topology.distances = distances(&[0, 1, 8], |from, to| match (from, to) {
        (8, 8) => 10,
        (8, _) | (_, 8) => 24,
        _ if from == to => 10,
        _ => 21,
    });
    topology.memory_attributes = [(0, "0-71", 370_000), (8, "0-71", 53_000), (1, "72-143", 370_000)]
        .into_iter()
        .map(|(node, from, value)| MemoryAttribute {
            attr: "Bandwidth".into(),
            node: NodeId(node),
            initiator: Some(CpuSet::parse_list(from).unwrap()),
            value,
        })
        .collect();
    topology
}

/// 32 packages of 18 cores with two threads, in nested groups: 1152 CPUs.
pub fn thirty_two_sockets() -> Topology {
    let core = |index: u32| cache(2, MIB, vec![cache(1, 32 * KIB, vec![core(index % 18, &[index, index + 576])])]);
    let socket = |os: u32| {
        let cores = (os * 18..os * 18 + 18).map(core).collect();
        package(os, vec![cache(3, 24 * MIB, cores)]).node(os, 192 * GIB)
    };
    let pair = |first: u32| part(ObjectKind::Group, None, vec![socket(first), socket(first + 1)]);
    let four = |first: u32| part(ObjectKind::Group, None, vec![pair(first), pair(first + 2)]);
    let mut topology = machine((0..8).map(|group| four(group * 4)).collect());
    let nodes: Vec<u32> = (0..32).collect();
    topology.distances = distances(&nodes, |from, to| match from ^ to {
        0 => 10,
        1 => 16,
        2 | 3 => 18,
        _ => 25,
    });
    topology
}

pub fn settings() -> Settings {
    let mut settings = Settings::default();
    let known = [
        ("kernel.release", "6.18.2-amd64"),
        (
            "kernel.command-line",
            "BOOT_IMAGE=/boot/vmlinuz-6.18.2 root=UUID=1f2e ro quiet transparent_hugepage=madvise isolcpus=2,8 nohz_full=2,8",
        ),
        ("cpu.model", "AMD Ryzen 5 2600 Six-Core Processor"),
        ("cpu.smt", "on"),
        ("cpu.governor", "performance"),
        ("memory.thp", "madvise"),
        ("memory.total-bytes", "16723755008"),
        ("kernel.isolated-cpus", ""),
    ];
    for (key, value) in known {
        settings.record(key, FactValue::Known(value.into()));
    }
    settings.record("cpu.turbo", FactValue::Unavailable("no cpufreq driver with this setting".into()));
    settings
}
