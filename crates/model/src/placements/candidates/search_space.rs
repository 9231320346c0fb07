//! Validates a search space on a machine, and restricts the machine to it.

use super::{SearchSpace, Threads};
use crate::placements::placement::cpu_location::CpuLocation;
use crate::placements::placement::policy::{cpu_policy_names, memory_policy_names};
use crate::placements::placement::{check, policy};
use crate::values::id_set::{CpuSet, NodeId, NodeSet};
use crate::values::plan::MemoryChoice;
use crate::values::topology::Topology;

/// A search space that is valid on this machine.
pub(super) struct ResolvedSearchSpace {
    /// The machine without CPUs and nodes that may not be used.
    pub topology: Topology,
    /// Whether the limits exclude anything that this process may use.
    pub narrowed: bool,
    pub cpus_max: usize,
    /// CPUs of the load in every placement.
    pub load_cpus: Option<CpuSet>,
    /// Policies whose CPUs are excluded.
    pub cpus_excluded: Vec<String>,
    memory_excluded: Vec<MemoryExcluded>,
    /// Descriptions of the limits.
    pub notes: Vec<String>,
}

impl ResolvedSearchSpace {
    /// Whether the limits exclude a memory choice with any CPUs.
    pub fn excludes(&self, choice: MemoryChoice) -> bool {
        self.memory_excluded.iter().any(|policy| policy.covers(choice))
    }
}

/// A memory policy that is excluded for all CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryExcluded {
    Local,
    Remote,
    Interleave,
    Weighted,
}

/// Reads and validates the limits.
pub(super) fn read(topology: &Topology, space: &SearchSpace) -> Result<ResolvedSearchSpace, String> {
    if space.threads == Threads::Fixed(0) {
        return Err("the number of threads must be at least 1".into());
    }
    if space.cpus_max == Some(0) {
        return Err("--max-cpus must be at least 1".into());
    }
    let mut cpus = topology.allowed_cpus.clone();
    let mut nodes = topology.allowed_nodes.clone();
    let (mut notes, mut cpus_excluded, mut memory_excluded) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(within) = &space.within {
        cpus = usable(topology, "-C", within)?;
        notes.push(format!("-C: only CPUs {cpus}"));
    }
    for text in &space.exclude {
        match exclusion(topology, text.trim())? {
            Exclusion::Cpus(excluded) => {
                cpus = cpus.difference(&excluded);
                notes.push(format!("--exclude: not CPUs {excluded}"));
            }
            Exclusion::Node(node) => {
                // CPUs of several nodes (DRAM and HBM, numa=fake) belong to the first.
                cpus = cpus.iter().filter(|cpu| topology.nodes_of_cpu(*cpu).first() != Some(&node)).collect();
                nodes.remove(node);
                notes.push(format!("--exclude: nothing on memory node {node}"));
            }
            Exclusion::Memory(memory) => memory_excluded.push(memory),
            Exclusion::CpuPolicy => cpus_excluded.push(text.trim().to_string()),
        }
    }
    if cpus.is_empty() {
        return Err(format!("the limits exclude all CPUs; this process may use CPUs {}", topology.allowed_cpus));
    }
    if nodes.is_empty() && !topology.allowed_nodes.is_empty() {
        return Err(format!("--exclude excludes all memory nodes; this process may use {}", topology.allowed_nodes));
    }
    let narrowed = cpus != topology.allowed_cpus || nodes != topology.allowed_nodes;
    let cpus_max = space.cpus_max.unwrap_or(usize::MAX);
    let load_cpus = space.load_cpus.as_ref().map(|text| load_cpus(topology, text, &cpus, cpus_max)).transpose()?;
    let load_cpus = load_cpus.flatten();
    notes.extend(load_cpus.as_ref().map(|cpus| format!("--load-cpus: the load runs on CPUs {cpus}")));
    let topology = if narrowed { narrow(topology, cpus, nodes) } else { topology.clone() };
    Ok(ResolvedSearchSpace { topology, narrowed, cpus_max, load_cpus, cpus_excluded, memory_excluded, notes })
}

/// Returns the machine restricted to these CPUs and nodes.
fn narrow(topology: &Topology, cpus: CpuSet, nodes: NodeSet) -> Topology {
    let mut topology = topology.clone();
    topology.objects.iter_mut().for_each(|object| object.cpus = object.cpus.intersection(&cpus));
    (topology.allowed_cpus, topology.allowed_nodes) = (cpus, nodes);
    topology
}

/// Returns the CPUs of the load, which are subject to the limits of all placements. `None` if they are not limited.
fn load_cpus(topology: &Topology, text: &str, within: &CpuSet, cpus_max: usize) -> Result<Option<CpuSet>, String> {
    let cpus = usable(topology, "--load-cpus", text)?;
    let excluded = cpus.difference(within);
    if !excluded.is_empty() {
        return Err(format!("--load-cpus: -C or --exclude excludes CPU {excluded}"));
    }
    if cpus.len() > cpus_max {
        return Err(format!("--load-cpus: {} CPUs are more than --max-cpus {cpus_max}", cpus.len()));
    }
    Ok(Some(cpus).filter(|cpus| *cpus != topology.allowed_cpus))
}

/// Reads CPUs that this process may use.
fn usable(topology: &Topology, option: &str, text: &str) -> Result<CpuSet, String> {
    let cpus = located(topology, option, text)?;
    if cpus.is_empty() {
        return Err(format!("{option} requires a list of CPUs such as 0-3"));
    }
    let missing = cpus.difference(&topology.complete_cpus.union(&topology.allowed_cpus));
    if !missing.is_empty() {
        return Err(format!("{option}: CPU {missing} does not exist; this machine has {}", topology.complete_cpus));
    }
    let forbidden = cpus.difference(&topology.allowed_cpus);
    if !forbidden.is_empty() {
        return Err(format!(
            "{option}: CPU {forbidden} is not usable by this process; it may use {}",
            topology.allowed_cpus
        ));
    }
    Ok(cpus)
}

/// Reads CPUs in any notation.
fn located(topology: &Topology, option: &str, text: &str) -> Result<CpuSet, String> {
    let cpus = CpuLocation::parse(text).and_then(|location| location.resolve(topology));
    cpus.map_err(|error| format!("{option}: {error}"))
}

enum Exclusion {
    Cpus(CpuSet),
    Node(NodeId),
    Memory(MemoryExcluded),
    CpuPolicy,
}

fn exclusion(topology: &Topology, text: &str) -> Result<Exclusion, String> {
    if CpuLocation::is_location(text) {
        let cpus = located(topology, "--exclude", text)?;
        let missing = cpus.difference(&topology.complete_cpus.union(&topology.allowed_cpus));
        return if missing.is_empty() {
            Ok(Exclusion::Cpus(cpus))
        } else {
            Err(format!("--exclude: CPU {missing} does not exist; this machine has {}", topology.complete_cpus))
        };
    }
    match text {
        "kernel" => return Err("--exclude: kernel is the baseline and cannot be excluded".into()),
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
            Err(format!("--exclude: memory node {node} does not exist; this machine has {nodes}"))
        };
    }
    if text.starts_with('-') || text.contains('+') {
        let names: Vec<&str> = cpu_policy_names()
            .skip(1)
            .chain(memory_policy_names().filter(|name| !matches!(*name, "node:N" | "far")))
            .collect();
        return Err(format!("--exclude takes a policy ({}) or a list of cpus, not '{text}'", names.join(", ")));
    }
    check(text).map_err(|error| format!("--exclude: {error}"))?;
    Ok(Exclusion::CpuPolicy)
}

impl MemoryExcluded {
    /// Whether a memory choice is a placement of the excluded policy.
    fn covers(self, choice: MemoryChoice) -> bool {
        use MemoryChoice::{Farthest, Interleave, InterleaveTiers, InterleaveUsed, Local, Other, Own, Weighted};
        match self {
            Self::Local => matches!(choice, Local | Own),
            Self::Remote => matches!(choice, Other(_) | Farthest),
            Self::Interleave => matches!(choice, Interleave | InterleaveUsed | InterleaveTiers),
            Self::Weighted => choice == Weighted,
        }
    }
}
