//! Memory policies that are worth a trial with given seats.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::tree::Tree;
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::memory::main_memory;
use crate::placements::placement::{KernelFeatures, MemoryPolicy};
use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};

/// What a memory policy is in relation to the seats, so that different seats can be compared under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryChoice {
    Kernel,
    /// Page by page over all main memory.
    Interleave,
    /// Page by page over the nodes of the seats.
    InterleaveUsed,
    /// Page by page over all nodes, those without cpus too.
    InterleaveTiers,
    /// Over all nodes by the kernel's weights.
    Weighted,
    /// Stated explicitly: on the node of the cpu that touches it first.
    Local,
    /// Only on the node with most seats.
    Own,
    /// Only on the nearest other node of this tier and size; numbers are this machine's own.
    Other(u32),
    /// Only on the farthest node without seats.
    Farthest,
    /// What a policy that the user named says.
    Named,
}

impl MemoryChoice {
    /// Returns the text for the choice in a plan's key. Stored hashes depend on it, so it must not follow renames.
    pub(super) fn key_text(self) -> String {
        let word = match self {
            Self::Kernel => "kernel",
            Self::Interleave => "interleave",
            Self::InterleaveUsed => "interleave-used",
            Self::InterleaveTiers => "interleave-tiers",
            Self::Weighted => "weighted",
            Self::Local => "local",
            Self::Own => "own",
            Self::Other(number) => return format!("other-{number}"),
            Self::Farthest => "farthest",
            Self::Named => "named",
        };
        word.into()
    }
}

/// A memory policy, and whether it belongs to the first stage.
pub(super) type Choice = (MemoryChoice, MemoryPolicy, bool);

/// The distance where the machine states none: the firmware's number for "another node".
const DISTANCE_UNSTATED: u64 = 20;

/// The policies for these seats. No seats: the kernel chooses the cpus.
/// With one memory node every policy is the kernel's.
pub(super) fn choices(ground: &CoreIndex, tree: &Tree, seats: &[CpuId], offers: KernelFeatures) -> Vec<Choice> {
    let all = ground.memory_nodes();
    let mut choices = vec![(MemoryChoice::Kernel, MemoryPolicy::Kernel, true)];
    if all.len() < 2 {
        return choices;
    }
    let used = used(ground, seats);
    let main: NodeSet = main_memory(ground).into_iter().collect();
    let every: NodeSet = all.iter().copied().collect();
    if main.len() > 1 {
        choices.push((MemoryChoice::Interleave, MemoryPolicy::Interleave(main.clone()), true));
    }
    if used.len() > 1 && used.len() < main.len() {
        // In the first stage too: it interacts with which seats are best.
        let nodes = used.iter().copied().collect();
        choices.push((MemoryChoice::InterleaveUsed, MemoryPolicy::Interleave(nodes), true));
    }
    choices.push((MemoryChoice::Local, MemoryPolicy::Local, false));
    let only = |choice, node: NodeId| (choice, MemoryPolicy::Bind([node].into_iter().collect()), false);
    choices.extend(used.first().map(|own| only(MemoryChoice::Own, *own)));
    choices.extend(others(ground, tree, seats, &used).into_iter().map(|(choice, node)| only(choice, node)));
    if every != main {
        choices.push((MemoryChoice::InterleaveTiers, MemoryPolicy::Interleave(every.clone()), false));
    }
    let tiers = tree.memory.iter().any(|memory| memory.tier != tree.memory[0].tier);
    if offers.weighted_interleave && (tiers || every != main) {
        // Between nodes of one speed the kernel's weights are equal, and this is plain interleaving.
        choices.push((MemoryChoice::Weighted, MemoryPolicy::WeightedInterleave(every), false));
    }
    choices
}

/// The nodes of the seats, the one with most seats first.
fn used(ground: &CoreIndex, seats: &[CpuId]) -> Vec<NodeId> {
    if seats.is_empty() {
        return ground.homes();
    }
    let mut on: BTreeMap<NodeId, usize> = BTreeMap::new();
    for home in seats.iter().filter_map(|cpu| ground.core_of(*cpu)?.home) {
        *on.entry(home).or_default() += 1;
    }
    let mut used: Vec<NodeId> = on.keys().copied().collect();
    used.sort_by_key(|node| usize::MAX - on[node]);
    used
}

/// Nodes without seats: the nearest of each tier, and the farthest.
fn others(ground: &CoreIndex, tree: &Tree, seats: &[CpuId], used: &[NodeId]) -> Vec<(MemoryChoice, NodeId)> {
    let cpus: CpuSet = seats.iter().copied().collect();
    let far = |node: NodeId| used.first().and_then(|own| ground.distance(*own, node)).unwrap_or(DISTANCE_UNSTATED);
    // Memory beside the seats that is not their default, such as HBM, is nearer than any distance says.
    let beside = |node: NodeId| ground.topology.node(node).is_some_and(|node| node.cpus.intersects(&cpus));
    let mut nearest: BTreeMap<u32, NodeId> = BTreeMap::new();
    let mut farthest: Option<NodeId> = None;
    for node in ground.memory_nodes().into_iter().filter(|node| !used.contains(node)) {
        let tier = tree.memory.iter().find(|memory| memory.node == node).map_or(0, |memory| memory.tier);
        let best = nearest.entry(tier).or_insert(node);
        if (!beside(node), far(node)) < (!beside(*best), far(*best)) {
            *best = node;
        }
        if farthest.is_none_or(|most| far(node) > far(most)) {
            farthest = Some(node);
        }
    }
    let known: Vec<NodeId> = nearest.values().copied().collect();
    let farthest = farthest.filter(|node| known.iter().all(|other| far(*other) != far(*node)));
    let nearest = nearest.into_iter().map(|(tier, node)| (MemoryChoice::Other(tier), node));
    nearest.chain(farthest.map(|node| (MemoryChoice::Farthest, node))).collect()
}

impl fmt::Display for MemoryChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "the kernel's memory policy",
            Self::Interleave => "memory page by page over all nodes",
            Self::InterleaveUsed => "memory page by page over the nodes of the seats",
            Self::InterleaveTiers => "memory page by page over all nodes of all tiers",
            Self::Weighted => "memory over all nodes by the kernel's weights",
            Self::Local => "memory on the node that touches it first",
            Self::Own => "memory only on the seats' own node",
            Self::Other(_) => "memory only on the nearest other node",
            Self::Farthest => "memory only on the farthest node",
            Self::Named => "memory as the named policy says",
        })
    }
}
