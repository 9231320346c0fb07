//! What the user allows: a wish checked against the machine, and the machine as far as it may be used.

use super::memory::MemoryChoice;
use super::{SearchSpace, Threads};
use crate::placements::placement::policy::{MEMORY_NAMES, SEAT_NAMES};
use crate::placements::placement::{check, policy};
use crate::values::id_set::{CpuSet, NodeId, NodeSet};
use crate::values::topology::Topology;

/// A wish that this machine can meet.
pub(super) struct ResolvedSearchSpace {
    /// The machine without cpus and nodes that may not be used.
    pub topology: Topology,
    /// Whether the limits take anything away from what this process may use.
    pub narrowed: bool,
    /// The most cpus that a placement may have.
    pub cpus_max: usize,
    /// Names of policies whose cpus are not wanted.
    pub seats_excluded: Vec<String>,
    /// Memory policies that are not wanted.
    pub memory_excluded: Vec<MemoryExcluded>,
    /// What the limits say, in words.
    pub words: Vec<String>,
}

/// A memory policy that is not wanted, whatever the seats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryExcluded {
    Local,
    Remote,
    Interleave,
    Weighted,
}

/// Reads the limits, or says which is a mistake and what would be right.
pub(super) fn read(topology: &Topology, wish: &SearchSpace) -> Result<ResolvedSearchSpace, String> {
    if wish.threads == Threads::Fixed(0) {
        return Err("0 threads do nothing; give at least 1".into());
    }
    if wish.cpus_max == Some(0) {
        return Err("--cpus-max 0 leaves no cpu; give at least 1".into());
    }
    let mut cpus = topology.allowed_cpus.clone();
    let mut nodes = topology.allowed_nodes.clone();
    let (mut words, mut seats_excluded, mut memory_excluded) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(within) = &wish.within {
        cpus = within_cpus(topology, "-C", within)?;
        words.push(format!("-C: only cpus {cpus}"));
    }
    for text in &wish.exclude {
        match exclusion(topology, text.trim())? {
            Exclusion::Cpus(barred) => {
                cpus = cpus.difference(&barred);
                words.push(format!("--exclude: not cpus {barred}"));
            }
            Exclusion::Node(node) => {
                // Cpus of several nodes (DRAM and HBM, numa=fake) are those of the first.
                cpus = cpus.iter().filter(|cpu| topology.nodes_of_cpu(*cpu).first() != Some(&node)).collect();
                nodes.remove(node);
                words.push(format!("--exclude: nothing on memory node {node}"));
            }
            Exclusion::Memory(memory) => memory_excluded.push(memory),
            Exclusion::Seats => seats_excluded.push(text.trim().to_string()),
        }
    }
    if cpus.is_empty() {
        return Err(format!("the limits leave no cpu; this process may use cpus {}", topology.allowed_cpus));
    }
    if nodes.is_empty() && !topology.allowed_nodes.is_empty() {
        return Err(format!("--exclude leaves no memory node; this process may use {}", topology.allowed_nodes));
    }
    let narrowed = cpus != topology.allowed_cpus || nodes != topology.allowed_nodes;
    let cpus_max = wish.cpus_max.unwrap_or(usize::MAX);
    let topology = if narrowed { narrow(topology, cpus, nodes) } else { topology.clone() };
    Ok(ResolvedSearchSpace { topology, narrowed, cpus_max, seats_excluded, memory_excluded, words })
}

/// A machine of which fewer cpus and nodes may be used.
fn narrow(topology: &Topology, cpus: CpuSet, nodes: NodeSet) -> Topology {
    let mut topology = topology.clone();
    topology.objects.iter_mut().for_each(|object| object.cpus = object.cpus.intersection(&cpus));
    (topology.allowed_cpus, topology.allowed_nodes) = (cpus, nodes);
    topology
}

fn within_cpus(topology: &Topology, option: &str, cpus: &CpuSet) -> Result<CpuSet, String> {
    if cpus.is_empty() {
        return Err(format!("{option} needs a list of cpus such as 0-3"));
    }
    let missing = cpus.difference(&topology.complete_cpus.union(&topology.allowed_cpus));
    if !missing.is_empty() {
        return Err(format!("{option}: no cpu {missing} here; this machine has {}", topology.complete_cpus));
    }
    let barred = cpus.difference(&topology.allowed_cpus);
    if !barred.is_empty() {
        return Err(format!(
            "{option}: cpu {barred} is not usable by this process; it may use {}",
            topology.allowed_cpus
        ));
    }
    Ok(cpus.clone())
}

enum Exclusion {
    Cpus(CpuSet),
    Node(NodeId),
    Memory(MemoryExcluded),
    Seats,
}

fn exclusion(topology: &Topology, text: &str) -> Result<Exclusion, String> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let cpus = CpuSet::parse_list(text).map_err(|why| format!("--exclude: {why}"))?;
        let missing = cpus.difference(&topology.complete_cpus.union(&topology.allowed_cpus));
        return if missing.is_empty() {
            Ok(Exclusion::Cpus(cpus))
        } else {
            Err(format!("--exclude: no cpu {missing} here; this machine has {}", topology.complete_cpus))
        };
    }
    match text {
        "kernel" => return Err("--exclude: the kernel's choice is what everything is measured against".into()),
        "memory-local" => return Ok(Exclusion::Memory(MemoryExcluded::Local)),
        "memory-remote" => return Ok(Exclusion::Memory(MemoryExcluded::Remote)),
        "interleave" => return Ok(Exclusion::Memory(MemoryExcluded::Interleave)),
        "weighted-interleave" => return Ok(Exclusion::Memory(MemoryExcluded::Weighted)),
        _ => {}
    }
    if let Some(node) = policy::node(text) {
        return if topology.node(node).is_some() {
            Ok(Exclusion::Node(node))
        } else {
            let nodes: NodeSet = topology.nodes.iter().map(|node| node.os).collect();
            Err(format!("--exclude: memory node {node} does not exist here; this machine has {nodes}"))
        };
    }
    if text.starts_with('-') || text.contains('+') {
        let names: Vec<&str> = SEAT_NAMES.iter().skip(1).chain(&MEMORY_NAMES[..4]).copied().collect();
        return Err(format!("--exclude takes a policy ({}) or a list of cpus, not '{text}'", names.join(", ")));
    }
    check(text).map_err(|why| format!("--exclude: {why}"))?;
    Ok(Exclusion::Seats)
}

impl MemoryExcluded {
    /// Whether this is what such a policy makes.
    pub fn covers(self, choice: MemoryChoice) -> bool {
        use MemoryChoice::{Farthest, Interleave, InterleaveTiers, InterleaveUsed, Local, Other, Own, Weighted};
        match self {
            Self::Local => matches!(choice, Local | Own),
            Self::Remote => matches!(choice, Other(_) | Farthest),
            Self::Interleave => matches!(choice, Interleave | InterleaveUsed | InterleaveTiers),
            Self::Weighted => choice == Weighted,
        }
    }
}
