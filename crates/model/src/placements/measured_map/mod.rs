//! The measured speeds of a machine: latencies between cores, latency and bandwidth between CPUs and memory, latency by
//! working-set size. A measured map is an ordinary run: `plan` returns the cells, `result` reads the results.

mod applied;
mod groups;
mod nodes;
mod plan;
mod result;
mod sizes;
mod weights;

pub use applied::MeasuredTopology;
pub use groups::{CpuGroup, groups, relation};
pub use plan::{EXPERIMENT, MapOptions, plan};
pub use result::measured_map;
pub use weights::{
    KernelWeights, NodeWeight, WEIGHTS_DIR, WeightError, WeightWrite, WeightsFinding, WeightsState, weight_path,
};

use serde::Serialize;

use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::units::Bytes;

/// Measured speeds of a machine. Field names are part of the JSON contract of `nearfar map --measure`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredMap {
    /// Latencies between cores, in the order of the plan.
    pub core_to_core: Vec<CorePair>,
    /// From every group of CPUs to every memory node.
    pub memory: Vec<MemoryPath>,
    /// From node to node: the values of the CPUs of each node.
    pub node_distances: Vec<NodeDistance>,
    /// Latency by working-set size, smallest first, by CPU.
    pub sizes: Vec<LatencyPoint>,
    /// Latency of each cache: named points of `sizes`.
    pub steps: Vec<CacheLevel>,
    /// Latency of a group's own memory while its other cores read, lowest load first.
    pub loaded: Vec<LoadedPoint>,
    /// Effect of two threads of one core on each other.
    pub smt: Vec<SmtPair>,
    /// Cells without a result, with the reason.
    pub missing: Vec<MissingCell>,
}

/// A measured value: the median over trials with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredValue {
    /// `ns` or `MB/s` (10^6 bytes per second).
    pub unit: String,
    /// Median over trials.
    pub median: f64,
    /// Lower end of the 95 % interval; `None` with fewer than two trials.
    pub ci_low: Option<f64>,
    /// Upper end of the 95 % interval; `None` with fewer than two trials.
    pub ci_high: Option<f64>,
    /// Number of trials that count.
    pub samples: Vec<f64>,
    /// Number of these trials that were disturbed.
    pub suspect: u32,
}

/// Latency of a cache line between two CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CorePair {
    pub a: CpuId,
    pub b: CpuId,
    /// The innermost object that contains both: `one core`, `one L3`, `one package`, `two packages`.
    pub relation: String,
    /// Number of pairs that it represents, including itself.
    pub alike: usize,
    /// Memory node of the line: the home of CPU `a`. `None` if the machine has no known nodes.
    pub home: Option<NodeId>,
    /// Method of transferring the line: `store`, by loads and stores; `cas`, by compare-and-swap.
    pub op: String,
    /// One-way latency in ns.
    pub latency: MeasuredValue,
}

/// Latency and bandwidth between a group of CPUs and a memory node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPath {
    /// The group: CPUs with one home node and one kind of core.
    pub cpus: CpuSet,
    /// Node of the memory.
    pub node: NodeId,
    /// Whether the node is the home of the group.
    pub local: bool,
    /// Distance from the group's home, as reported by the firmware.
    pub distance: Option<u64>,
    /// Latency of one load by the first CPU of the group, in ns.
    pub latency: Option<MeasuredValue>,
    /// Bandwidths by access pattern, with one thread on each core of the group.
    pub bandwidth: Vec<Bandwidth>,
}

/// A bandwidth in MB/s.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bandwidth {
    /// `read`: only loads. `write`: only stores. `copy`: equal amounts. `triad`: two reads per write. Bytes are counted
    /// as in STREAM, without write-allocate traffic.
    pub mix: String,
    /// Whether stores bypass the caches.
    pub non_temporal: bool,
    /// Total of all threads.
    pub rate: MeasuredValue,
}

/// Latency and bandwidth from the CPUs of a node to the memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NodeDistance {
    /// Node of the CPUs.
    pub from: NodeId,
    /// Node of the memory.
    pub to: NodeId,
    /// 10 for the node itself, as in the kernel's table; others by the ratio of latencies.
    pub distance: u64,
    /// Median latency in ns.
    pub latency_ns: f64,
    /// Median bandwidth of triad with ordinary stores, in MB/s.
    pub bandwidth_mb_s: Option<f64>,
}

/// Latency at one working-set size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyPoint {
    /// CPU whose caches were measured.
    pub cpu: CpuId,
    /// Node of the memory.
    pub node: NodeId,
    /// Working-set size.
    pub bytes: Bytes,
    /// The smallest cache of this CPU that holds the working set, such as `L2`; `memory` if none does.
    pub level: String,
    /// Latency of one load in ns.
    pub latency: MeasuredValue,
}

/// Latency of one cache, or of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheLevel {
    /// CPU whose cache was measured.
    pub cpu: CpuId,
    /// `L2`, or `memory`.
    pub level: String,
    /// Size of the cache; 0 for memory.
    pub cache_bytes: Bytes,
    /// Working-set size from `sizes`: the largest that uses at most half of the cache, because other data is cached,
    /// too; for memory the largest of all.
    pub at_bytes: Bytes,
    /// Latency of one load in ns, as in `sizes`.
    pub latency: MeasuredValue,
}

/// Latency under load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedPoint {
    /// The group: its first core measures, the others read.
    pub cpus: CpuSet,
    /// Node of all memory: the home of the group.
    pub node: NodeId,
    /// Number of reading threads.
    pub readers: usize,
    /// Delay of each reader after every 4 KiB; `None` without readers.
    pub delay_ns: Option<u64>,
    /// Total bandwidth of the readers in MB/s; `None` without readers.
    pub load: Option<MeasuredValue>,
    /// Latency of one load of the measuring thread in ns.
    pub latency: MeasuredValue,
}

/// Results of one thread of a core alone, and of two together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmtPair {
    /// The two CPUs of the core; `alone` was measured on the first.
    pub cpus: [CpuId; 2],
    /// `compute`: queens solutions per second, total. `cache`: latency of the first cache, per thread.
    #[serde(rename = "what")]
    pub what: String,
    /// While the other CPU is idle.
    pub alone: MeasuredValue,
    /// While both CPUs are used.
    pub both: MeasuredValue,
    /// `both` divided by `alone`; 1 if latency does not change, or speed does not increase.
    pub ratio: f64,
    /// Lower end of the 95 % interval by blocks; `None` with too few trials.
    pub ratio_ci_low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub ratio_ci_high: Option<f64>,
}

/// A cell without a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingCell {
    #[serde(rename = "what")]
    pub what: String,
    /// Placement of the cell.
    pub placement: String,
    #[serde(rename = "why")]
    pub why: String,
}
