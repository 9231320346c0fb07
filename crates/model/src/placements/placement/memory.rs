//! Memory rules: the memory policy for threads whose CPUs are already chosen.
//!
//! Must not depend on `policy` or `cpu_rule`.

use serde::Serialize;

use super::cores::{CoreIndex, usable};
use crate::values::id_set::{CpuId, NodeId, NodeSet};
use crate::values::placement::MemoryPolicy;
use crate::values::topology::Distances;

/// Features of the running kernel and its file systems that a topology does not contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelFeatures {
    /// Whether `/sys/kernel/mm/mempolicy/weighted_interleave` exists.
    pub weighted_interleave: bool,
    /// Whether there is a directory on a disk for arrays beyond DRAM.
    pub far: bool,
}

/// Rule by which a policy chooses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryRule {
    Kernel,
    /// Bound to the node of the threads; if they are on several nodes, each thread allocates on its own.
    Local,
    /// Bound to a node that is not local to any of the threads.
    Remote,
    /// Interleaved over the main memory of the machine.
    Interleave,
    /// Interleaved by the kernel's weights, over all tiers.
    Weighted,
    Node(NodeId),
    /// In a file on a disk.
    Far,
}

/// A memory policy, and its part of the placement's reason.
pub(crate) type WithReason = (MemoryPolicy, String);

/// Applies a rule to this machine. Empty `bindings`: the kernel chooses the CPUs.
pub(crate) fn choose_memory(
    index: &CoreIndex,
    rule: MemoryRule,
    bindings: &[CpuId],
    features: KernelFeatures,
) -> Result<WithReason, String> {
    match rule {
        MemoryRule::Kernel => Ok((MemoryPolicy::Kernel, String::new())),
        MemoryRule::Local => local(index, bindings),
        MemoryRule::Remote => remote(index, bindings),
        MemoryRule::Interleave => interleave(index),
        MemoryRule::Weighted => weighted(index, features),
        MemoryRule::Node(node) => {
            check_node(index, node)?;
            Ok((MemoryPolicy::Bind([node].into_iter().collect()), format!("memory only on node {node}")))
        }
        MemoryRule::Far => far(features),
    }
}

fn far(features: KernelFeatures) -> Result<WithReason, String> {
    if !features.far {
        return Err(NO_FAR.into());
    }
    Ok((MemoryPolicy::Far, "arrays in a file on a disk, paged into DRAM".into()))
}

/// Checks that memory can be allocated on a node. The error lists the nodes for which this is possible.
pub(super) fn check_node(index: &CoreIndex, node: NodeId) -> Result<(), String> {
    let topology = index.topology;
    let existing: NodeSet = topology.nodes.iter().map(|node| node.os).collect();
    let usable: NodeSet = existing.iter().filter(|node| usable(topology, *node)).collect();
    match () {
        () if usable.contains(node) => Ok(()),
        () if !existing.contains(node) => {
            Err(format!("memory node {node} does not exist; this machine has memory {}", usable.described()))
        }
        () if !topology.allowed_nodes.contains(node) => {
            Err(format!("this process may not use memory node {node}; it may use memory {}", usable.described()))
        }
        () => Err(format!("memory node {node} has no memory; this machine has memory {}", usable.described())),
    }
}

fn homes(index: &CoreIndex, bindings: &[CpuId]) -> Vec<NodeId> {
    let mut homes: Vec<NodeId> =
        bindings.iter().filter_map(|cpu| index.core_of(*cpu)).filter_map(|core| core.home).collect();
    homes.sort_unstable();
    homes.dedup();
    homes
}

fn local(index: &CoreIndex, bindings: &[CpuId]) -> Result<WithReason, String> {
    if bindings.is_empty() {
        return Ok((MemoryPolicy::Local, "memory on the node of the CPU that touches it first".into()));
    }
    let homeless = bindings.iter().find(|cpu| index.core_of(**cpu).is_none_or(|core| core.home.is_none()));
    if let Some(cpu) = homeless {
        return Err(format!("CPU {cpu} has no local memory node that this process may use"));
    }
    match homes(index, bindings).as_slice() {
        [home] => Ok((MemoryPolicy::Bind([*home].into_iter().collect()), format!("memory only on their node {home}"))),
        _ => Ok((MemoryPolicy::Local, "the memory of each thread on its own node".into())),
    }
}

/// Chooses the farthest node that has CPUs. A node without CPUs (CXL, HBM, a graphics card) is chosen only if there is
/// no other, because "the remote node" usually means the DRAM of another socket. Use `compact+node:2` for such tiers.
fn remote(index: &CoreIndex, bindings: &[CpuId]) -> Result<WithReason, String> {
    let all = index.memory_nodes();
    if all.len() < 2 {
        return Err("this machine has one memory node, so none is remote".into());
    }
    if bindings.is_empty() {
        return Err("no memory node is remote without bound CPUs; add a CPU policy, as in compact+memory-remote".into());
    }
    let local = homes(index, bindings);
    let homes = index.homes();
    let others: Vec<NodeId> = all.into_iter().filter(|node| !local.contains(node)).collect();
    let (peers, tiers): (Vec<NodeId>, Vec<NodeId>) = others.iter().partition(|node| homes.contains(node));
    let distance = |node: &NodeId| local.iter().filter_map(|home| index.distance(*home, *node)).min();
    let farthest = |nodes: &[NodeId]| -> Option<NodeId> {
        let most = nodes.iter().map(distance).max()?;
        nodes.iter().copied().find(|node| distance(node) == most)
    };
    let Some(node) = farthest(&peers).or_else(|| farthest(&tiers)) else {
        return Err("the threads are on every memory node, so none is remote".into());
    };
    let Some(home) = local.first().copied() else {
        return Err("the CPUs have no local memory node, so none is remote".into());
    };
    let mut reason = remote_reason(index, home, node, others.len());
    let is_farther = |tier: &&NodeId| !peers.is_empty() && distance(tier) > distance(&node);
    let farther = tiers.iter().filter(is_farther).max_by_key(|tier| distance(tier));
    if let Some((tier, distance)) = farther.and_then(|tier| Some((tier, distance(tier)?))) {
        reason = format!("{reason}; node {tier}, which has no CPUs, is even farther ({distance})");
    }
    Ok((MemoryPolicy::Bind([node].into_iter().collect()), reason))
}

fn remote_reason(index: &CoreIndex, home: NodeId, node: NodeId, others: usize) -> String {
    let distances = index.distance(home, home).zip(index.distance(home, node));
    let measured = index.topology.node_distances().is_some_and(Distances::is_measured);
    let distance = if measured { "measured distance" } else { "distance" };
    match distances {
        Some((near, far)) if far <= near => {
            let source = if measured { "measured" } else { "reported" };
            format!(
                "memory only on node {node}, which is not farther than their own node {home} ({source} distance {far})"
            )
        }
        Some((near, far)) if others == 1 => {
            format!("memory only on node {node}, the other one ({distance} {far} instead of {near})")
        }
        Some((near, far)) => {
            format!("memory only on node {node}, farthest from node {home} ({distance} {far} instead of {near})")
        }
        None => {
            format!("memory only on node {node} instead of their local node {home}; this machine reports no distances")
        }
    }
}

/// Returns the nodes that are main memory: the home of a core, or a slice of it (numa=fake assigns all slices to every
/// CPU).
pub(crate) fn main_memory(index: &CoreIndex) -> Vec<NodeId> {
    let homes = index.homes();
    let is_slice = |node: &NodeId| {
        let Some(this) = index.topology.node(*node) else { return false };
        homes.iter().filter_map(|home| index.topology.node(*home)).any(|home| {
            let same_distance = index.distance(home.os, *node) == index.distance(home.os, home.os);
            home.cpus.intersects(&this.cpus) && home.subtype == this.subtype && same_distance
        })
    };
    let main: Vec<NodeId> =
        index.memory_nodes().into_iter().filter(|node| homes.contains(node) || is_slice(node)).collect();
    // On one socket with a CXL node, the two tiers are the only nodes to interleave.
    if main.len() > 1 { main } else { index.memory_nodes() }
}

/// Returns the nodes over which pages can be interleaved.
pub(super) fn several(nodes: Vec<NodeId>) -> Result<NodeSet, String> {
    if nodes.len() < 2 {
        return Err("this machine has one memory node, so interleaving has no effect".into());
    }
    Ok(nodes.into_iter().collect())
}

fn interleave(index: &CoreIndex) -> Result<WithReason, String> {
    let nodes = several(main_memory(index))?;
    let text = format!("memory interleaved over {}", nodes.described());
    Ok((MemoryPolicy::Interleave(nodes), text))
}

/// Uses all tiers, because weights exist to combine tiers of different speed.
fn weighted(index: &CoreIndex, features: KernelFeatures) -> Result<WithReason, String> {
    let nodes = several(index.memory_nodes())?;
    if !features.weighted_interleave {
        return Err(NO_WEIGHTS.into());
    }
    let text = format!("memory interleaved over {} by the kernel's weights", nodes.described());
    Ok((MemoryPolicy::WeightedInterleave(nodes), text))
}

const NO_FAR: &str = "there is no directory on a disk for arrays beyond DRAM; hint: set NEARFAR_FAR=DIR; the defaults are \
                      /var/tmp and /tmp";

pub(super) const NO_WEIGHTS: &str =
    "this kernel has no /sys/kernel/mm/mempolicy/weighted_interleave; it requires Linux 6.9";
