//! Placements to compare with the one that a service has. Must not depend on measurements.

use super::LivePlacement;
use crate::values::id_set::CpuSet;
use crate::values::topology::Topology;

/// Maximum number of alternatives: with more, the budget is spent on choosing one.
const ALTERNATIVES_MAX: usize = 8;

/// Returns the allowed CPUs of each NUMA node, and of one L3 cache of each node, if they are enough for the service. `found` are the CPUs on which it may run, `busy` the number of CPUs that it keeps busy.
pub fn alternatives(topology: &Topology, found: &CpuSet, busy: f64) -> Vec<LivePlacement> {
    let nodes = topology.nodes.iter().map(|node| (format!("node:{}", node.os), node.cpus.intersection(found)));
    let nodes: Vec<(String, CpuSet)> = nodes.filter(|(_, cpus)| !cpus.is_empty()).collect();
    let caches: Vec<CpuSet> = topology
        .last_cache_level()
        .into_iter()
        .flat_map(|level| topology.caches(level))
        .map(|cache| cache.cpus.intersection(found))
        .collect();
    let of_node = |(_, node): &(String, CpuSet)| {
        let cache = caches.iter().find(|cache| !cache.is_empty() && cache.is_subset(node))?;
        Some((cache.to_string(), cache.clone()))
    };
    let mut chosen: Vec<LivePlacement> = Vec::new();
    for (name, cpus) in nodes.iter().cloned().chain(nodes.iter().filter_map(of_node)) {
        let is_new = cpus != *found && chosen.iter().all(|other| other.cpus != cpus);
        if is_new && cpus.len() as f64 >= busy && chosen.len() < ALTERNATIVES_MAX {
            chosen.push(LivePlacement { name, cpus, memory: None, interrupts: Vec::new() });
        }
    }
    chosen
}
