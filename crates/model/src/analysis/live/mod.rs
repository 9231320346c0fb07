//! Describes the placement of a running service from observed threads and pages. Must not depend on how they are observed.

mod alternatives;
mod applied;
mod cpu_use;
mod findings;
mod interrupts;
mod java;
mod plan;
mod record;
mod state;
mod tcp_traffic;
mod trial;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::residency::Residency;
use crate::values::id_set::{CpuId, CpuSet, NodeSet};
use crate::values::topology::Topology;
use crate::values::units::Nanos;

pub use alternatives::alternatives;
pub use applied::{
    AppliedChange, AppliedFinding, AppliedMemory, AppliedPlacement, AppliedState, GainCheck, MovedMemory,
    UndonePlacement, permanent_lines,
};
pub use cpu_use::{CpuTotals, CpuUse, PlacementChange};
pub use findings::AuditFinding;
pub use interrupts::{InterruptUse, interrupt_cpus, misrouted};
pub use java::JavaProcess;
pub use plan::{LivePlan, WASH_OUT_STEP};
pub use record::{LiveEnd, LiveId, LiveRecord, LiveRequest, LiveSetup, LiveSummary, ServiceIdentity};
pub use state::{LiveBlock, LiveState, LiveStep};
pub use tcp_traffic::{TcpTraffic, TcpUnsuitable, check_sizes};
pub use trial::{
    FreshPairs, GuardViolation, LiveAnswer, LiveEvidence, LiveMemoryNodes, LivePeriod, LivePhase, LivePlacement,
    LiveTrial,
};

/// A thread that lived during the whole observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedThread {
    pub pid: u32,
    /// Name of the thread (comm).
    pub name: String,
    /// CPUs on which it may run.
    pub allowed: CpuSet,
    /// CPUs on which it was observed.
    pub cpus: CpuSet,
    /// Time for which it ran during the observation.
    pub cpu_time: Nanos,
    /// Time for which it was ready and waited for a CPU during the observation.
    pub wait: Nanos,
}

/// The threads of a service over an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    pub interval: Nanos,
    pub threads: Vec<ObservedThread>,
    /// Number of threads that began or ended during the interval, and that are not among `threads`.
    pub short_lived: u64,
    /// Time for which each CPU was busy with any program.
    pub busy: BTreeMap<CpuId, Nanos>,
    /// Time for which a CPU quota stopped the service, over all CPUs; `None` if no cgroup reports it.
    pub throttled: Option<Nanos>,
    /// Nodes on which the kernel may allocate memory for the service; `None` if unknown.
    pub allowed_nodes: Option<NodeSet>,
}

/// Permissions of this user to change the placement of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rights {
    /// CPU affinity of its threads.
    pub affinity: bool,
    /// Memory nodes of its pages, including those that it shares with other processes.
    pub pages: bool,
}

/// Threads with the same name and the same allowed CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadKind {
    pub name: String,
    pub threads: u64,
    pub allowed: CpuSet,
    pub cpus: CpuSet,
    /// CPU time in percent of one CPU.
    pub cpu_percent: f64,
    /// Time waited for a CPU, summed over the threads, in percent of the interval.
    pub wait_percent: f64,
}

/// The placement of a running service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveAudit {
    /// Duration of the observation in seconds.
    pub seconds: f64,
    /// The most active first.
    pub threads: Vec<ThreadKind>,
    /// Threads that began or ended meanwhile, which are not among `threads`.
    pub short_lived: u64,
    /// CPU time in percent of one CPU.
    pub cpu_percent: f64,
    pub memory: Residency,
    pub findings: Vec<AuditFinding>,
    pub rights: Rights,
}

impl LiveAudit {
    pub fn new(topology: &Topology, activity: &Activity, memory: Residency, rights: Rights) -> Self {
        Self {
            seconds: activity.interval.seconds(),
            threads: thread_kinds(activity),
            short_lived: activity.short_lived,
            cpu_percent: activity.cpu_percent(),
            findings: findings::find(topology, activity, &memory),
            memory,
            rights,
        }
    }
}

impl Activity {
    /// Returns a sum of times in percent of the interval.
    fn percent(&self, times: impl Iterator<Item = Nanos>) -> f64 {
        100.0 * times.map(|time| time.0 as f64).sum::<f64>() / (self.interval.0.max(1)) as f64
    }

    /// Returns the CPU time of all threads in percent of one CPU.
    pub fn cpu_percent(&self) -> f64 {
        self.percent(self.threads.iter().map(|thread| thread.cpu_time))
    }

    /// Returns the CPUs on which any of the threads may run.
    fn allowed(&self) -> CpuSet {
        self.threads.iter().fold(CpuSet::new(), |all, thread| all.union(&thread.allowed))
    }
}

fn thread_kinds(activity: &Activity) -> Vec<ThreadKind> {
    let mut kinds: BTreeMap<(&str, &CpuSet), Vec<&ObservedThread>> = BTreeMap::new();
    for thread in &activity.threads {
        kinds.entry((&thread.name, &thread.allowed)).or_default().push(thread);
    }
    let kind = |((name, allowed), threads): ((&str, &CpuSet), Vec<&ObservedThread>)| ThreadKind {
        name: name.into(),
        threads: threads.len() as u64,
        allowed: allowed.clone(),
        cpus: threads.iter().fold(CpuSet::new(), |all, thread| all.union(&thread.cpus)),
        cpu_percent: activity.percent(threads.iter().map(|thread| thread.cpu_time)),
        wait_percent: activity.percent(threads.iter().map(|thread| thread.wait)),
    };
    let mut kinds: Vec<ThreadKind> = kinds.into_iter().map(kind).collect();
    kinds.sort_by(|one, other| other.cpu_percent.total_cmp(&one.cpu_percent));
    kinds
}

#[cfg(test)]
mod tests;
