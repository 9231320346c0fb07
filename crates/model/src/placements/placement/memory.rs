//! Memory rules: where the memory of seats that are already chosen is to live.

use super::MemoryPolicy;
use super::cores::{CoreIndex, usable};
use super::policy::KernelFeatures;
use super::reason;
use crate::values::id_set::{CpuId, NodeId, NodeSet};
use crate::values::topology::Distances;

/// What the name of a policy says about memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryRule {
    Kernel,
    /// Bound to the seats' own node; seats on several nodes get it thread by thread.
    Local,
    /// Bound to a node that is nobody's own.
    Remote,
    /// Page by page over the machine's main memory.
    Interleave,
    /// The same by the kernel's weights, over every tier.
    Weighted,
    Node(NodeId),
    /// In a file on a disk.
    Far,
}

/// A policy for memory, and the part of the reason that explains it.
pub(crate) type WithReason = (MemoryPolicy, String);

/// What a rule means for these seats. No seats: the kernel chooses the cpus.
pub(crate) fn place_memory(
    ground: &CoreIndex,
    rule: MemoryRule,
    seats: &[CpuId],
    offers: KernelFeatures,
) -> Result<WithReason, String> {
    match rule {
        MemoryRule::Kernel => Ok((MemoryPolicy::Kernel, String::new())),
        MemoryRule::Local => local(ground, seats),
        MemoryRule::Remote => remote(ground, seats),
        MemoryRule::Interleave => interleave(ground),
        MemoryRule::Weighted => weighted(ground, offers),
        MemoryRule::Node(node) => {
            check_node(ground, node)?;
            Ok((MemoryPolicy::Bind([node].into_iter().collect()), format!("memory only on node {node}")))
        }
        MemoryRule::Far => far(offers),
    }
}

fn far(offers: KernelFeatures) -> Result<WithReason, String> {
    if !offers.far {
        return Err(NO_FAR.into());
    }
    Ok((MemoryPolicy::Far, "arrays in a file on a disk, in and out of DRAM page by page".into()))
}

/// Whether memory can be put on a node, else the reason with the nodes that it can be put on.
pub(super) fn check_node(ground: &CoreIndex, node: NodeId) -> Result<(), String> {
    let topology = ground.topology;
    let existing: NodeSet = topology.nodes.iter().map(|node| node.os).collect();
    let here: NodeSet = existing.iter().filter(|node| usable(topology, *node)).collect();
    let what = if here.len() == 1 { format!("memory node {here}") } else { format!("memory nodes {here}") };
    match () {
        () if here.contains(node) => Ok(()),
        () if !existing.contains(node) => {
            Err(format!("memory node {node} does not exist here; this machine has {what}"))
        }
        () if !topology.allowed_nodes.contains(node) => {
            Err(format!("memory node {node} is not allowed to this process; it may use {what}"))
        }
        () => Err(format!("memory node {node} has no memory; this machine has {what}")),
    }
}

fn homes(ground: &CoreIndex, seats: &[CpuId]) -> Vec<NodeId> {
    let mut homes: Vec<NodeId> =
        seats.iter().filter_map(|cpu| ground.core_of(*cpu)).filter_map(|core| core.home).collect();
    homes.sort_unstable();
    homes.dedup();
    homes
}

fn local(ground: &CoreIndex, seats: &[CpuId]) -> Result<WithReason, String> {
    if seats.is_empty() {
        return Ok((MemoryPolicy::Local, "memory on the node of the cpu that touches it first".into()));
    }
    let homeless = seats.iter().find(|cpu| ground.core_of(**cpu).is_none_or(|core| core.home.is_none()));
    if let Some(cpu) = homeless {
        return Err(format!("cpu {cpu} has no memory node of its own that this process may use"));
    }
    match homes(ground, seats).as_slice() {
        [home] => Ok((MemoryPolicy::Bind([*home].into_iter().collect()), format!("memory only on their node {home}"))),
        _ => Ok((MemoryPolicy::Local, "each thread's memory on its own node".into())),
    }
}

/// The farthest node with cpus of its own; a node without (CXL, HBM, a graphics card) only where there is no other,
/// because "the remote node" means another socket's DRAM to people, and such a tier can be named: `compact+node:2`.
fn remote(ground: &CoreIndex, seats: &[CpuId]) -> Result<WithReason, String> {
    let all = ground.memory_nodes();
    if all.len() < 2 {
        return Err("this machine has one memory node, so none is remote".into());
    }
    if seats.is_empty() {
        return Err("without seats no memory node is remote; name seats, as in compact+memory-remote".into());
    }
    let own = homes(ground, seats);
    let homes = ground.homes();
    let others: Vec<NodeId> = all.into_iter().filter(|node| !own.contains(node)).collect();
    let (peers, tiers): (Vec<NodeId>, Vec<NodeId>) = others.iter().partition(|node| homes.contains(node));
    let far = |node: &NodeId| own.iter().filter_map(|home| ground.distance(*home, *node)).min();
    let farthest = |nodes: &[NodeId]| -> Option<NodeId> {
        let most = nodes.iter().map(far).max()?;
        nodes.iter().copied().find(|node| far(node) == most)
    };
    let Some(node) = farthest(&peers).or_else(|| farthest(&tiers)) else {
        return Err("the seats are on every memory node, so none is remote".into());
    };
    let Some(home) = own.first().copied() else {
        return Err("the seats have no memory node of their own, so none is remote".into());
    };
    let mut why = remote_reason(ground, home, node, others.len());
    let beyond = tiers.iter().filter(|tier| !peers.is_empty() && far(tier) > far(&node)).max_by_key(|tier| far(tier));
    if let Some((tier, distance)) = beyond.and_then(|tier| Some((tier, far(tier)?))) {
        why = format!("{why}; node {tier}, no cpu's own, is farther still ({distance})");
    }
    Ok((MemoryPolicy::Bind([node].into_iter().collect()), why))
}

fn remote_reason(ground: &CoreIndex, home: NodeId, node: NodeId, others: usize) -> String {
    let distances = ground.distance(home, home).zip(ground.distance(home, node));
    let measured = ground.topology.node_distances().is_some_and(Distances::is_measured);
    let distance = if measured { "measured distance" } else { "distance" };
    match distances {
        Some((near, far)) if far <= near => {
            let by = if measured { "measured" } else { "stated" };
            format!("memory only on node {node}, by the {by} distance ({far}) no farther than their own node {home}")
        }
        Some((near, far)) if others == 1 => {
            format!("memory only on node {node}, the other one ({distance} {far} instead of {near})")
        }
        Some((near, far)) => {
            format!("memory only on node {node}, farthest from node {home} ({distance} {far} instead of {near})")
        }
        None => {
            format!("memory only on node {node} instead of their own node {home}; this machine states no distances")
        }
    }
}

/// The nodes that are main memory: some core's home, or one like it (numa=fake gives every cpu all of the slices).
pub(crate) fn main_memory(ground: &CoreIndex) -> Vec<NodeId> {
    let homes = ground.homes();
    let is_slice = |node: &NodeId| {
        let Some(this) = ground.topology.node(*node) else { return false };
        homes.iter().filter_map(|home| ground.topology.node(*home)).any(|home| {
            let as_near = ground.distance(home.os, *node) == ground.distance(home.os, home.os);
            home.cpus.intersects(&this.cpus) && home.subtype == this.subtype && as_near
        })
    };
    let main: Vec<NodeId> =
        ground.memory_nodes().into_iter().filter(|node| homes.contains(node) || is_slice(node)).collect();
    // One socket with a CXL node: the two tiers are all there is to interleave.
    if main.len() > 1 { main } else { ground.memory_nodes() }
}

fn interleave(ground: &CoreIndex) -> Result<WithReason, String> {
    let nodes: NodeSet = main_memory(ground).into_iter().collect();
    if nodes.len() < 2 {
        return Err("this machine has one memory node, so there is nothing to interleave".into());
    }
    let text = format!("memory page by page over {}", reason::nodes(&nodes));
    Ok((MemoryPolicy::Interleave(nodes), text))
}

/// Weights exist to use tiers of different speed together, so every tier takes part.
fn weighted(ground: &CoreIndex, offers: KernelFeatures) -> Result<WithReason, String> {
    let nodes: NodeSet = ground.memory_nodes().into_iter().collect();
    if nodes.len() < 2 {
        return Err("this machine has one memory node, so there is nothing to interleave".into());
    }
    if !offers.weighted_interleave {
        return Err(NO_WEIGHTS.into());
    }
    let text = format!("memory over {} by the kernel's weights", reason::nodes(&nodes));
    Ok((MemoryPolicy::WeightedInterleave(nodes), text))
}

/// Why a machine without a disk refuses.
const NO_FAR: &str = "no folder on a disk is known for arrays beyond DRAM; hint: NEARFAR_FAR=FOLDER names one; without it \
                      /var/tmp and /tmp are tried";

/// Why a kernel without weights refuses.
pub(super) const NO_WEIGHTS: &str =
    "this kernel has no /sys/kernel/mm/mempolicy/weighted_interleave; Linux has it from 6.9 on";
