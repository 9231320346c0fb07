//! A machine's own speeds as measured: from core to core, from cpus to memory, by the size of what is worked on. A
//! measured map is a run like any other: `plan` says what to run, `result` reads the map out of what the run found.

mod applied;
mod groups;
mod nodes;
mod plan;
mod result;
mod sizes;

pub use applied::MeasuredTopology;
pub use groups::{CpuGroup, groups, relation};
pub use plan::{EXPERIMENT, MapOptions, plan};
pub use result::measured_map;

use serde::Serialize;

use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::units::Bytes;

/// What was measured of a machine. Field names are part of the JSON contract of `nearfar map --measure`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredMap {
    /// From core to core, in the order of the plan.
    pub core_to_core: Vec<CorePair>,
    /// From every group of cpus to every memory node.
    pub memory: Vec<MemoryPath>,
    /// The same from node to node: what its own cpus get.
    pub node_distances: Vec<NodeDistance>,
    /// Latency by the size of what is chased through, smallest first, by cpu.
    pub sizes: Vec<LatencyPoint>,
    /// What each cache gives, from `sizes`: the steps of the curve by name.
    pub steps: Vec<CacheLevel>,
    /// Latency of a group's own memory while its other cores read, lightest load first.
    pub loaded: Vec<LoadedPoint>,
    /// What two threads of one core cost or give each other.
    pub smt: Vec<SmtPair>,
    /// What could not be measured, and why.
    pub missing: Vec<MissingCell>,
}

/// A measured number: the median over trials with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredValue {
    /// The unit: `ns` or `MB/s` (10^6 bytes per second).
    pub unit: String,
    /// Over trials.
    pub median: f64,
    /// Lower end of its 95 % interval; none with fewer than two trials.
    pub ci_low: Option<f64>,
    /// Upper end.
    pub ci_high: Option<f64>,
    /// One number per trial that counts.
    pub samples: Vec<f64>,
    /// How many of them were disturbed.
    pub suspect: u32,
}

/// How long a cache line takes from one cpu to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CorePair {
    /// One cpu.
    pub a: CpuId,
    /// The other.
    pub b: CpuId,
    /// The nearest thing that both are in: `one core`, `one L3`, `one package`, `two packages`.
    pub relation: String,
    /// How many pairs of this machine it stands for, itself included.
    pub alike: usize,
    /// The memory node where the line lives: the home of cpu `a`. None where the machine shows no node.
    pub home: Option<NodeId>,
    /// How the line is handed over: `store`, by loads and stores; `cas`, by compare-and-swap.
    pub op: String,
    /// One way, in ns.
    pub latency: MeasuredValue,
}

/// What a group of cpus gets from a memory node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPath {
    /// The cpus that are alike as seen from memory: those of one home node and one kind of core.
    pub cpus: CpuSet,
    /// Where the memory is.
    pub node: NodeId,
    /// Whether it is the group's own.
    pub local: bool,
    /// The distance that the firmware states from the group's own node.
    pub distance: Option<u64>,
    /// Of one load by the group's first cpu, in ns.
    pub latency: Option<MeasuredValue>,
    /// By what the loop does; one thread on each core of the group.
    pub bandwidth: Vec<Bandwidth>,
}

/// A bandwidth, in MB/s.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bandwidth {
    /// `read`: loads alone. `write`: stores alone. `copy`: as much written as read. `triad`: two read, one written.
    /// Counted as STREAM counts: what the loop asks for.
    pub mix: String,
    /// Whether stores go past the caches.
    pub non_temporal: bool,
    /// All threads together.
    pub rate: MeasuredValue,
}

/// From a node's own cpus to a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NodeDistance {
    /// Whose cpus.
    pub from: NodeId,
    /// Whose memory.
    pub to: NodeId,
    /// 10 is the node itself, as in the kernel's table; others by the ratio of latencies.
    pub distance: u64,
    /// The median latency, in ns.
    pub latency_ns: f64,
    /// The median of triad with ordinary stores, in MB/s.
    pub bandwidth_mb_s: Option<f64>,
}

/// Latency at one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyPoint {
    /// Whose caches these are.
    pub cpu: CpuId,
    /// Where the memory behind them is.
    pub node: NodeId,
    /// What was chased through.
    pub bytes: Bytes,
    /// The smallest cache of this cpu that holds so much, `L2`; `memory` when none does.
    pub level: String,
    /// Of one load, in ns.
    pub latency: MeasuredValue,
}

/// What one cache gives, or the memory behind them all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheLevel {
    /// Whose.
    pub cpu: CpuId,
    /// `L2`, or `memory`.
    pub level: String,
    /// How large the cache is; 0 for memory.
    pub cache_bytes: Bytes,
    /// At which size of `sizes` it was read: the largest that takes half of the cache at most, since others live there
    /// too; for memory the largest there is.
    pub at_bytes: Bytes,
    /// Of one load, in ns: the same as in `sizes`.
    pub latency: MeasuredValue,
}

/// Latency beside a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedPoint {
    /// The group: its first core chases, its others read.
    pub cpus: CpuSet,
    /// Where the memory of all of them is: the group's own node.
    pub node: NodeId,
    /// How many threads read.
    pub readers: usize,
    /// How long each waits after every 4 KiB; none without readers.
    pub delay_ns: Option<u64>,
    /// What they read together, in MB/s; none without readers.
    pub load: Option<MeasuredValue>,
    /// Of one load of the chasing thread, in ns.
    pub latency: MeasuredValue,
}

/// One thread of a core alone, and two together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmtPair {
    /// The two cpus of the core; `alone` was measured on the first.
    pub cpus: [CpuId; 2],
    /// `compute`: queens per second of both together. `cache`: latency of the core's first cache for each.
    #[serde(rename = "what")]
    pub what: String,
    /// With the other idle.
    pub alone: MeasuredValue,
    /// With both at work.
    pub both: MeasuredValue,
    /// The second over the first; 1 when the threads do not notice each other's latency, or gain nothing in speed.
    pub ratio: f64,
    /// Lower end of its 95 % interval, by blocks; none with too few trials.
    pub ratio_ci_low: Option<f64>,
    /// Upper end.
    pub ratio_ci_high: Option<f64>,
}

/// A cell without a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingCell {
    /// Which measurement.
    #[serde(rename = "what")]
    pub what: String,
    /// Where.
    pub placement: String,
    /// Why.
    #[serde(rename = "why")]
    pub why: String,
}
