//! Disagreements between the threads of a service, its memory and the machine, and placements to try.

use serde::Serialize;

use super::Activity;
use crate::analysis::residency::Residency;
use crate::values::id_set::{CpuSet, NodeId, NodeSet};
use crate::values::topology::Topology;
use crate::values::trial::REMOTE_SHARE_MIN;

/// A twentieth of one CPU: waits that are shorter are those for the next tick of the scheduler.
const WAIT_PERCENT_MIN: f64 = 5.0;
/// A CPU is idle if it is busy for less than this share of the time.
const IDLE_PERCENT_MAX: f64 = 10.0;
/// Other programs matter if they use this share of the CPUs on which the service runs.
const OTHERS_PERCENT_MIN: f64 = 10.0;
/// A service fits into a part of the machine if it needs at most this share of its CPUs.
const FITS_PERCENT_MAX: f64 = 80.0;

/// An observation about a placement. The order is that of their usual effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
pub enum AuditFinding {
    /// A CPU quota stopped the service.
    Throttled {
        /// Time stopped, over all CPUs, in percent of the interval.
        percent: f64,
    },
    /// Threads waited for a CPU while others were idle.
    WaitsWhileCpusIdle {
        wait_percent: f64,
        idle: CpuSet,
        /// Whether they may run on the idle CPUs.
        are_allowed: bool,
    },
    /// Other programs were busy on the CPUs on which the service ran, so its placement may not be the cause of its speed.
    OtherPrograms {
        cpus: CpuSet,
        /// Their CPU time in percent of these CPUs.
        percent: f64,
    },
    /// Memory is on other nodes than the threads that use it.
    RemoteMemory {
        percent: f64,
        /// Nodes on which the threads ran.
        nodes: NodeSet,
        /// Placement to try.
        try_placement: String,
    },
    /// The service ran on several nodes although one has enough CPUs for it.
    SpreadOverNodes {
        /// CPU time in percent of one CPU.
        cpu_percent: f64,
        nodes: NodeSet,
        try_placement: String,
    },
    /// The program has restricted some of its threads to fewer CPUs than the others. A placement must not undo that.
    PinnedThreads { threads: u64, cpus: CpuSet },
    /// The kernel may allocate memory only on these nodes, of which some have none of the service's CPUs.
    MemoryOfOtherNodes { allowed_nodes: NodeSet, nodes: NodeSet },
}

impl AuditFinding {
    /// Returns the placement that may help.
    pub fn try_placement(&self) -> Option<&str> {
        match self {
            Self::RemoteMemory { try_placement, .. } | Self::SpreadOverNodes { try_placement, .. } => {
                Some(try_placement)
            }
            _ => None,
        }
    }
}

/// Returns the findings of an observation.
pub(super) fn find(topology: &Topology, activity: &Activity, memory: &Residency) -> Vec<AuditFinding> {
    let nodes = ran_on(topology, activity);
    let mut findings = Vec::new();
    findings.extend(throttled(activity));
    findings.extend(waits(topology, activity));
    findings.extend(other_programs(activity));
    findings.extend(remote_memory(topology, memory, &nodes));
    findings.extend(spread(topology, activity, memory, &nodes));
    findings.extend(pinned(activity));
    findings.extend(memory_of_other_nodes(topology, activity));
    findings
}

/// Returns the memory nodes of the CPUs on which its threads ran.
fn ran_on(topology: &Topology, activity: &Activity) -> NodeSet {
    topology.local_nodes(&ran_on_cpus(activity))
}

/// Returns the CPUs on which active threads ran; those of all threads if none was active.
fn ran_on_cpus(activity: &Activity) -> CpuSet {
    let is_idle = activity.threads.iter().all(|thread| thread.cpu_time.0 == 0);
    let active = activity.threads.iter().filter(|thread| is_idle || thread.cpu_time.0 > 0);
    active.fold(CpuSet::new(), |all, thread| all.union(&thread.cpus))
}

fn throttled(activity: &Activity) -> Option<AuditFinding> {
    let percent = activity.percent(activity.throttled.into_iter());
    (percent > 0.0).then_some(AuditFinding::Throttled { percent })
}

fn waits(topology: &Topology, activity: &Activity) -> Option<AuditFinding> {
    let wait_percent = activity.percent(activity.threads.iter().map(|thread| thread.wait));
    let is_idle = |cpu: &_| {
        let busy = activity.busy.get(cpu).copied();
        busy.is_some_and(|busy| activity.percent(std::iter::once(busy)) < IDLE_PERCENT_MAX)
    };
    let idle: CpuSet = topology.allowed_cpus.iter().filter(is_idle).collect();
    if wait_percent < WAIT_PERCENT_MIN || idle.is_empty() {
        return None;
    }
    let waiting = activity.threads.iter().filter(|thread| thread.wait.0 > 0);
    let allowed = waiting.fold(CpuSet::new(), |all, thread| all.union(&thread.allowed));
    let usable = idle.intersection(&allowed);
    let are_allowed = !usable.is_empty();
    Some(AuditFinding::WaitsWhileCpusIdle { wait_percent, idle: if are_allowed { usable } else { idle }, are_allowed })
}

fn other_programs(activity: &Activity) -> Option<AuditFinding> {
    let cpus = ran_on_cpus(activity);
    let busy = activity.percent(cpus.iter().filter_map(|cpu| activity.busy.get(&cpu).copied()));
    let percent = (busy - activity.cpu_percent()).max(0.0) / cpus.len().max(1) as f64;
    (percent >= OTHERS_PERCENT_MIN).then_some(AuditFinding::OtherPrograms { cpus, percent })
}

fn remote_memory(topology: &Topology, memory: &Residency, nodes: &NodeSet) -> Option<AuditFinding> {
    let percent = memory.remote_percent.filter(|percent| *percent >= 100.0 * REMOTE_SHARE_MIN)?;
    let node = if nodes.len() == 1 { nodes.iter().next() } else { node_with_most(topology, memory) };
    let node = node.filter(|_| topology.allowed_nodes.len() > 1)?;
    Some(AuditFinding::RemoteMemory { percent, nodes: nodes.clone(), try_placement: format!("node:{node}") })
}

fn spread(topology: &Topology, activity: &Activity, memory: &Residency, nodes: &NodeSet) -> Option<AuditFinding> {
    let cpu_percent = activity.cpu_percent();
    let node = node_with_most(topology, memory).filter(|_| nodes.len() > 1)?;
    let cpus = topology.node(node)?.cpus.intersection(&activity.allowed());
    let fits = cpu_percent <= FITS_PERCENT_MAX * cpus.len() as f64;
    let try_placement = format!("node:{node}");
    fits.then(|| AuditFinding::SpreadOverNodes { cpu_percent, nodes: nodes.clone(), try_placement })
}

/// Returns the node with the most memory of the service among those with CPUs.
fn node_with_most(topology: &Topology, memory: &Residency) -> Option<NodeId> {
    let has_cpus = |node: NodeId| topology.node(node).is_some_and(|node| !node.cpus.is_empty());
    let with_cpus = memory.total.by_node.iter().filter(|(node, _)| has_cpus(**node));
    with_cpus.max_by_key(|(_, bytes)| **bytes).map(|(node, _)| *node)
}

fn pinned(activity: &Activity) -> Option<AuditFinding> {
    let all = activity.allowed();
    let is_pinned = |allowed: &CpuSet| allowed.len() < all.len();
    let pinned = activity.threads.iter().filter(|thread| is_pinned(&thread.allowed));
    let (threads, cpus) =
        pinned.fold((0, CpuSet::new()), |(count, cpus), thread| (count + 1, cpus.union(&thread.allowed)));
    (threads > 0).then_some(AuditFinding::PinnedThreads { threads, cpus })
}

fn memory_of_other_nodes(topology: &Topology, activity: &Activity) -> Option<AuditFinding> {
    let allowed_nodes = activity.allowed_nodes.clone()?;
    let nodes = topology.local_nodes(&activity.allowed());
    let is_restricted = allowed_nodes.len() < topology.nodes.len();
    let is_elsewhere = !allowed_nodes.is_empty() && allowed_nodes.iter().any(|node| !nodes.contains(node));
    (is_restricted && is_elsewhere).then_some(AuditFinding::MemoryOfOtherNodes { allowed_nodes, nodes })
}
