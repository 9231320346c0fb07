//! Performance model of a simulated machine: cores, SMT, caches and distances. It serves to test decisions and does not
//! predict real machines.

use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::MemoryPolicy;
use model::values::plan::stream;
use model::values::topology::{Object, ObjectKind, Topology};
use model::values::trial::Trial;
use model::values::workload::Value;

/// Gain of two threads on one core over one thread.
const SMT_GAIN: f64 = 0.3;
/// Loss of a data-sharing workload whose threads are spread over last-level caches.
const ACROSS_CACHES_LOSS: f64 = 0.15;
/// Fraction of memory time in a compute workload.
const MEMORY_SHARE: f64 = 0.3;
/// Fraction of a memory node's bandwidth that one core reaches.
const CORE_BANDWIDTH_SHARE: f64 = 0.35;
/// Loss of unpinned threads due to migrations.
const KERNEL_LOSS: f64 = 0.03;
/// Speed of each cache level relative to memory: 2, 5 and 20 ns against 100.
const CACHE_SPEED: [f64; 3] = [50.0, 20.0, 5.0];
/// Relative latency that each reader at full speed adds, and the maximum of all readers.
const QUEUE_PER_READER: f64 = 0.15;
const QUEUE_MAX: f64 = 1.5;
/// Time of a reader for 4 KiB.
const READ_NS: f64 = 400.0;
/// Relative standard deviation of differences between placements that the model does not explain.
const UNEXPLAINED_SD: f64 = 0.004;

/// The bottleneck of a workload.
#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Compute,
    Bandwidth,
    Latency,
    Sharing,
    Handover,
}

/// The name of a command determines its bottleneck: `./sharing 4` is limited by sharing.
fn limit(trial: &Trial) -> Limit {
    let argv = trial.parameters.0.get("argv").map(ToString::to_string).unwrap_or_default();
    let words: Vec<String> = serde_json::from_str(&argv).unwrap_or_default();
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    match if trial.workload == "command" { program } else { &trial.workload } {
        "stream" | "bandwidth" => Limit::Bandwidth,
        "chase" | "loaded" | "latency" => Limit::Latency,
        "pingpong" => Limit::Handover,
        "threads" | "mutex" | "sharing" => Limit::Sharing,
        _ => Limit::Compute,
    }
}

/// Bandwidth falls with the square root of the distance: to a twelfth, as from 47 to 4 GiB/s with arrays on an Optane
/// SSD.
const FAR_DISTANCE: f64 = 144.0;

/// Speed with half of the memory in swap relative to all of it in DRAM.
const STEERED_SPEED: f64 = 0.2;
const SWAPPED_SPEED: f64 = 0.05;

/// Speed relative to one thread on the fastest core with local memory.
pub fn speed(topology: &Topology, trial: &Trial, seed: u64) -> f64 {
    let cpus = cpus(topology, trial);
    let compute: f64 = core_shares(topology, &cpus).iter().sum();
    let distance = mean_distance(topology, &cpus, &trial.placement.memory);
    let speed = match limit(trial) {
        Limit::Compute => compute / (1.0 - MEMORY_SHARE + MEMORY_SHARE * distance),
        Limit::Bandwidth => bandwidth(topology, &cpus, &trial.placement.memory) / distance.sqrt(),
        Limit::Latency => cached(topology, &cpus, trial).unwrap_or(1.0 / distance) / queueing(trial),
        Limit::Sharing => compute * (1.0 - ACROSS_CACHES_LOSS * (1.0 - 1.0 / last_caches(topology, &cpus))),
        Limit::Handover => handover(topology, &cpus),
    };
    let key = format!("{} {} {}", trial.workload, trial.placement.cpus(), trial.placement.memory);
    let unexplained = stream(seed, &key) as f64 / u64::MAX as f64 - 0.5;
    // A uniform number on (-0.5, 0.5) has the standard deviation 1/sqrt(12).
    let moved = if trial.placement.is_pinned() { 1.0 } else { 1.0 - KERNEL_LOSS };
    // Measured with memory of twice the DRAM limit: docs/results/expand.md.
    let budget =
        trial.placement.budget.map_or(1.0, |budget| if budget.steered { STEERED_SPEED } else { SWAPPED_SPEED });
    speed * moved * budget * (UNEXPLAINED_SD * 12f64.sqrt() * unexplained).exp()
}

/// CPUs of the threads. With more CPUs than threads, the simulated scheduler puts one thread on each core, in order.
fn cpus(topology: &Topology, trial: &Trial) -> Vec<CpuId> {
    let placement = &trial.placement;
    if placement.is_pinned() && placement.bindings.len() <= placement.threads {
        return placement.bindings.clone();
    }
    let allowed = if placement.is_pinned() { placement.cpus() } else { topology.allowed_cpus.clone() };
    let cores: Vec<CpuSet> = topology.cores().iter().map(|core| core.intersection(&allowed)).collect();
    let widest = cores.iter().map(CpuSet::len).max().unwrap_or(1);
    let in_turn = (0..widest).flat_map(|thread| cores.iter().filter_map(move |core| core.iter().nth(thread)));
    in_turn.take(placement.threads).collect()
}

/// Contribution of each used core: the capacity of its kind, plus the SMT gain.
fn core_shares(topology: &Topology, cpus: &[CpuId]) -> Vec<f64> {
    let used_cpus: CpuSet = cpus.iter().copied().collect();
    let used = topology.cores().into_iter().filter(|core| core.intersects(&used_cpus));
    used.map(|core| {
        let threads = core.intersection(&used_cpus).len() as f64;
        let capacity = core.first().map_or(1.0, |cpu| capacity(topology, cpu));
        capacity * (1.0 + SMT_GAIN * (1.0 - 1.0 / threads.max(1.0)))
    })
    .collect()
}

fn capacity(topology: &Topology, cpu: CpuId) -> f64 {
    let kinds = &topology.cpu_kinds;
    let best = kinds.iter().map(|kind| kind.efficiency).max().unwrap_or(0).max(1);
    let Some(kind) = kinds.iter().find(|kind| kind.cpus.contains(cpu)) else { return 1.0 };
    match kind.capacity {
        Some(capacity) => f64::from(capacity) / 1024.0,
        None if kinds.len() > 1 => 0.5 + 0.5 * f64::from(kind.efficiency.max(0)) / f64::from(best),
        None => 1.0,
    }
}

/// Mean distance from CPUs to memory; 1 is local. It is halved towards 1, because most machines differ less than the
/// firmware's table.
fn mean_distance(topology: &Topology, cpus: &[CpuId], memory: &MemoryPolicy) -> f64 {
    if memory.is_beyond_dram() {
        return FAR_DISTANCE;
    }
    let nodes: Vec<NodeId> = memory.promised_nodes().map(|nodes| nodes.iter().collect()).unwrap_or_default();
    let Some(distances) = topology.node_distances().filter(|_| !nodes.is_empty()) else { return 1.0 };
    let mut total = 0.0;
    let mut count = 0.0;
    for cpu in cpus {
        let Some(home) = topology.nodes_of_cpu(*cpu).first().copied() else { continue };
        for node in &nodes {
            total += distances.between(home, *node).map_or(1.0, |distance| distance as f64 / 10.0);
            count += 1.0;
        }
    }
    if count == 0.0 { 1.0 } else { f64::midpoint(1.0, total / count) }
}

/// Bandwidth in units of one core: it grows with the cores until the memory nodes are saturated.
fn bandwidth(topology: &Topology, cpus: &[CpuId], memory: &MemoryPolicy) -> f64 {
    let cores = core_shares(topology, cpus).len() as f64;
    let used_cpus: CpuSet = cpus.iter().copied().collect();
    let nodes = memory.promised_nodes().map_or_else(|| topology.local_nodes(&used_cpus).len(), NodeSet::len);
    cores.min(nodes.max(1) as f64 / CORE_BANDWIDTH_SHARE)
}

/// Speed of the smallest cache that holds the working set, relative to memory. `None` if no cache holds it.
fn cached(topology: &Topology, cpus: &[CpuId], trial: &Trial) -> Option<f64> {
    let cpu = *cpus.first()?;
    let Some(Value::Integer(bytes)) = trial.parameters.0.get("size") else { return None };
    let own = topology.objects.iter().filter(|object| object.cpus.contains(cpu)).filter_map(|object| object.cache);
    let level = own.filter(|cache| cache.bytes.0 >= bytes.unsigned_abs()).map(|cache| cache.level).min()?;
    Some(CACHE_SPEED[(level as usize - 1).min(CACHE_SPEED.len() - 1)])
}

/// Factor by which readers lengthen a load: more readers with shorter pauses fill the memory queues.
fn queueing(trial: &Trial) -> f64 {
    if trial.workload != "loaded" {
        return 1.0;
    }
    let Some(Value::Integer(delay_ns)) = trial.parameters.0.get("delay") else { return 1.0 };
    let readers = trial.placement.threads.saturating_sub(1) as f64;
    1.0 + (readers * QUEUE_PER_READER).min(QUEUE_MAX) * READ_NS / (READ_NS + delay_ns.unsigned_abs() as f64)
}

/// Total bandwidth of the readers of `loaded` in MB/s. Each alternates a 4 KiB read, longer in a full queue, and a
/// pause.
pub fn load(trial: &Trial, series: &str) -> Option<f64> {
    if (trial.workload.as_str(), series) != ("loaded", "load") {
        return None;
    }
    let Some(Value::Integer(delay_ns)) = trial.parameters.0.get("delay") else { return None };
    let readers = trial.placement.threads.saturating_sub(1) as f64;
    // Bytes per ns are GB/s.
    Some(readers * 4096.0 / (READ_NS * queueing(trial) + delay_ns.unsigned_abs() as f64) * 1e3)
}

/// Speed of a cache-line transfer by the closest object that both CPUs share: core, cache, package, machine.
fn handover(topology: &Topology, cpus: &[CpuId]) -> f64 {
    let shares = |object: &&Object| cpus.iter().all(|cpu| object.cpus.contains(*cpu));
    let kinds: Vec<ObjectKind> = topology.objects.iter().filter(shares).map(|object| object.kind).collect();
    match kinds {
        kinds if kinds.contains(&ObjectKind::Core) => 10.0,
        kinds if kinds.contains(&ObjectKind::Cache) => 3.0,
        kinds if kinds.contains(&ObjectKind::Package) => 1.5,
        _ => 1.0,
    }
}

fn last_caches(topology: &Topology, cpus: &[CpuId]) -> f64 {
    let used_cpus: CpuSet = cpus.iter().copied().collect();
    let level = topology.last_cache_level().unwrap_or(0);
    (topology.caches(level).filter(|cache| cache.cpus.intersects(&used_cpus)).count().max(1)) as f64
}

/// A plausible base value for a unit; only ratios are meaningful.
pub fn base(unit: &str) -> f64 {
    match unit {
        "MB/s" | "MiB/s" => 20_000.0,
        "ns" => 100.0,
        "us" => 80.0,
        "ms" => 1.0,
        "s" => 5.0,
        "MiB" => 64.0,
        _ => 10_000.0,
    }
}

/// Fixed factor of a series, between 0.8 and 1.2, so that the series of a trial differ.
pub fn series_factor(series: &str) -> f64 {
    0.8 + 0.4 * (stream(0, series) as f64 / u64::MAX as f64)
}
