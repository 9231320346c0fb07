//! Memory policies that are worth a trial on given CPUs.

use std::collections::BTreeMap;

use super::tree::Tree;
use crate::placements::placement::KernelFeatures;
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::memory::main_memory;
use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::placement::MemoryPolicy;
use crate::values::plan::MemoryChoice;

/// A memory policy, and whether it belongs to the first stage.
pub(super) type Choice = (MemoryChoice, MemoryPolicy, bool);

/// Default distance if the machine reports none: the firmware's value for any remote node.
const REMOTE_DISTANCE_DEFAULT: u64 = 20;

/// Returns the memory policies for these CPUs. Empty `bindings`: the kernel chooses. On a machine with one memory node,
/// the kernel's policy is the only one.
pub(super) fn choices(
    core_index: &CoreIndex,
    tree: &Tree,
    bindings: &[CpuId],
    features: KernelFeatures,
) -> Vec<Choice> {
    let all = core_index.memory_nodes();
    let mut choices = vec![(MemoryChoice::Kernel, MemoryPolicy::Kernel, true)];
    if all.len() < 2 {
        return choices;
    }
    let used = used(core_index, bindings);
    let main: NodeSet = main_memory(core_index).into_iter().collect();
    let every: NodeSet = all.iter().copied().collect();
    if main.len() > 1 {
        choices.push((MemoryChoice::Interleave, MemoryPolicy::Interleave(main.clone()), true));
    }
    if used.len() > 1 && used.len() < main.len() {
        // Also in the first stage, because it interacts with the choice of CPUs.
        let nodes = used.iter().copied().collect();
        choices.push((MemoryChoice::InterleaveUsed, MemoryPolicy::Interleave(nodes), true));
    }
    choices.push((MemoryChoice::Local, MemoryPolicy::Local, false));
    let only = |choice, node: NodeId| (choice, MemoryPolicy::Bind([node].into_iter().collect()), false);
    choices.extend(used.first().map(|own| only(MemoryChoice::Own, *own)));
    choices.extend(others(core_index, tree, bindings, &used).into_iter().map(|(choice, node)| only(choice, node)));
    if every != main {
        choices.push((MemoryChoice::InterleaveTiers, MemoryPolicy::Interleave(every.clone()), false));
    }
    let tiers = tree.memory.iter().any(|memory| memory.tier != tree.memory[0].tier);
    if features.weighted_interleave && (tiers || every != main) {
        // Between nodes of one speed, the kernel's weights are equal, so this would be plain interleaving.
        choices.push((MemoryChoice::Weighted, MemoryPolicy::WeightedInterleave(every), false));
    }
    choices
}

/// Returns the nodes of the CPUs, the one with most CPUs first.
fn used(core_index: &CoreIndex, bindings: &[CpuId]) -> Vec<NodeId> {
    if bindings.is_empty() {
        return core_index.homes();
    }
    let mut on: BTreeMap<NodeId, usize> = BTreeMap::new();
    for home in bindings.iter().filter_map(|cpu| core_index.core_of(*cpu)?.home) {
        *on.entry(home).or_default() += 1;
    }
    let mut used: Vec<NodeId> = on.keys().copied().collect();
    used.sort_by_key(|node| usize::MAX - on[node]);
    used
}

/// Returns nodes without any of the CPUs: the nearest of each tier, and the farthest.
fn others(core_index: &CoreIndex, tree: &Tree, bindings: &[CpuId], used: &[NodeId]) -> Vec<(MemoryChoice, NodeId)> {
    let cpus: CpuSet = bindings.iter().copied().collect();
    let distance =
        |node: NodeId| used.first().and_then(|own| core_index.distance(*own, node)).unwrap_or(REMOTE_DISTANCE_DEFAULT);
    // Memory that is local to the CPUs but not their default, such as HBM, is nearer than any other.
    let is_local = |node: NodeId| core_index.topology.node(node).is_some_and(|node| node.cpus.intersects(&cpus));
    let mut nearest: BTreeMap<u32, NodeId> = BTreeMap::new();
    let mut farthest: Option<NodeId> = None;
    for node in core_index.memory_nodes().into_iter().filter(|node| !used.contains(node)) {
        let tier = tree.memory.iter().find(|memory| memory.node == node).map_or(0, |memory| memory.tier);
        let best = nearest.entry(tier).or_insert(node);
        if (!is_local(node), distance(node)) < (!is_local(*best), distance(*best)) {
            *best = node;
        }
        if farthest.is_none_or(|most| distance(node) > distance(most)) {
            farthest = Some(node);
        }
    }
    let known: Vec<NodeId> = nearest.values().copied().collect();
    let farthest = farthest.filter(|node| known.iter().all(|other| distance(*other) != distance(*node)));
    let nearest = nearest.into_iter().map(|(tier, node)| (MemoryChoice::Other(tier), node));
    nearest.chain(farthest.map(|node| (MemoryChoice::Farthest, node))).collect()
}
