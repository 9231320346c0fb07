//! How fast a simulated machine runs a workload under a placement: a smooth model of cores, shared threads,
//! caches and distances. It judges decisions, not machines.

use model::placements::placement::MemoryPolicy;
use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::plan::stream;
use model::values::topology::{Object, ObjectKind, Topology};
use model::values::trial::Trial;
use model::values::workload::Value;

/// Two threads on one core are together this much faster than one.
const SMT_GAIN: f64 = 0.3;
/// What a workload loses when its threads share data across last-level caches.
const ACROSS_CACHES_LOSS: f64 = 0.15;
/// Memory time is this part of the work of a workload that neither computes nor streams only.
const MEMORY_SHARE: f64 = 0.3;
/// One core alone draws this part of its node's bandwidth.
const CORE_BANDWIDTH_SHARE: f64 = 0.35;
/// What threads lose that the kernel moves about.
const KERNEL_LOSS: f64 = 0.03;
/// How much faster than memory each level of cache is: 2, 5 and 20 ns against 100.
const CACHE_SPEED: [f64; 3] = [50.0, 20.0, 5.0];
/// What each reader at full speed adds to a load's latency, and what all of them add at most.
const QUEUE_PER_READER: f64 = 0.15;
const QUEUE_MAX: f64 = 1.5;
/// A reader takes about so long for 4 KiB.
const READ_NS: f64 = 400.0;
/// Differences between placements that no model explains.
const UNEXPLAINED_SD: f64 = 0.004;

/// What a workload is limited by.
#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Compute,
    Bandwidth,
    Latency,
    Sharing,
    Handover,
}

/// A command is limited by what it is called: `./sharing 4` shares.
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

/// Bandwidth goes with the root of the distance: a twelfth, as 47 GiB/s became 4 where an Optane SSD held the arrays.
const FAR_DISTANCE: f64 = 144.0;

/// Speed of memory of which half is far, against all of it near.
const STEERED_SPEED: f64 = 0.2;
const SWAPPED_SPEED: f64 = 0.05;

/// Speed against one thread alone on the machine's fastest core with local memory.
pub fn speed(topology: &Topology, trial: &Trial, seed: u64) -> f64 {
    let seats = seats(topology, trial);
    let compute: f64 = core_shares(topology, &seats).iter().sum();
    let distance = mean_distance(topology, &seats, &trial.placement.memory);
    let speed = match limit(trial) {
        Limit::Compute => compute / (1.0 - MEMORY_SHARE + MEMORY_SHARE * distance),
        Limit::Bandwidth => bandwidth(topology, &seats, &trial.placement.memory) / distance.sqrt(),
        Limit::Latency => cached(topology, &seats, trial).unwrap_or(1.0 / distance) / queueing(trial),
        Limit::Sharing => compute * (1.0 - ACROSS_CACHES_LOSS * (1.0 - 1.0 / last_caches(topology, &seats))),
        Limit::Handover => handover(topology, &seats),
    };
    let words = format!("{} {} {}", trial.workload, trial.placement.cpus(), trial.placement.memory);
    let unexplained = stream(seed, &words) as f64 / u64::MAX as f64 - 0.5;
    // A uniform number on (-0.5, 0.5) has the standard deviation 1/sqrt(12).
    let moved = if trial.placement.is_pinned() { 1.0 } else { 1.0 - KERNEL_LOSS };
    // As measured on memory twice its DRAM: docs/results/expand.md.
    let budget =
        trial.placement.budget.map_or(1.0, |budget| if budget.steered { STEERED_SPEED } else { SWAPPED_SPEED });
    speed * moved * budget * (UNEXPLAINED_SD * 12f64.sqrt() * unexplained).exp()
}

/// Where its threads run. Where there are more cpus than threads the scheduler chooses among them: one thread per core,
/// from the first core on.
fn seats(topology: &Topology, trial: &Trial) -> Vec<CpuId> {
    let placement = &trial.placement;
    if placement.is_pinned() && placement.seats.len() <= placement.threads {
        return placement.seats.clone();
    }
    let allowed = if placement.is_pinned() { placement.cpus() } else { topology.allowed_cpus.clone() };
    let cores: Vec<CpuSet> = topology.cores().iter().map(|core| core.intersection(&allowed)).collect();
    let widest = cores.iter().map(CpuSet::len).max().unwrap_or(1);
    let in_turn = (0..widest).flat_map(|thread| cores.iter().filter_map(move |core| core.iter().nth(thread)));
    in_turn.take(placement.threads).collect()
}

/// What each used core contributes: its kind's capacity, more with two threads on it.
fn core_shares(topology: &Topology, seats: &[CpuId]) -> Vec<f64> {
    let seated: CpuSet = seats.iter().copied().collect();
    let used = topology.cores().into_iter().filter(|core| core.intersects(&seated));
    used.map(|core| {
        let threads = core.intersection(&seated).len() as f64;
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

/// Mean distance from seats to memory, local is 1; half of what the firmware's table says, as in most machines.
fn mean_distance(topology: &Topology, seats: &[CpuId], memory: &MemoryPolicy) -> f64 {
    if memory.is_beyond_dram() {
        return FAR_DISTANCE;
    }
    let nodes: Vec<NodeId> = memory.promised_nodes().map(|nodes| nodes.iter().collect()).unwrap_or_default();
    let Some(distances) = topology.node_distances().filter(|_| !nodes.is_empty()) else { return 1.0 };
    let mut total = 0.0;
    let mut count = 0.0;
    for seat in seats {
        let Some(home) = topology.nodes_of_cpu(*seat).first().copied() else { continue };
        for node in &nodes {
            total += distances.between(home, *node).map_or(1.0, |distance| distance as f64 / 10.0);
            count += 1.0;
        }
    }
    if count == 0.0 { 1.0 } else { f64::midpoint(1.0, total / count) }
}

/// Bandwidth in units of one core's: cores add up until their memory's nodes are full.
fn bandwidth(topology: &Topology, seats: &[CpuId], memory: &MemoryPolicy) -> f64 {
    let cores = core_shares(topology, seats).len() as f64;
    let seated: CpuSet = seats.iter().copied().collect();
    let nodes = memory.promised_nodes().map_or_else(|| topology.local_nodes(&seated).len(), NodeSet::len);
    cores.min(nodes.max(1) as f64 / CORE_BANDWIDTH_SHARE)
}

/// How much faster than memory the smallest cache is that holds what is worked on; none when no cache does.
fn cached(topology: &Topology, seats: &[CpuId], trial: &Trial) -> Option<f64> {
    let seat = *seats.first()?;
    let Some(Value::Integer(bytes)) = trial.parameters.0.get("size") else { return None };
    let own = topology.objects.iter().filter(|object| object.cpus.contains(seat)).filter_map(|object| object.cache);
    let level = own.filter(|cache| cache.bytes.0 >= bytes.unsigned_abs()).map(|cache| cache.level).min()?;
    Some(CACHE_SPEED[(level as usize - 1).min(CACHE_SPEED.len() - 1)])
}

/// How much longer a load takes beside readers: more readers that pause less fill the memory's queues.
fn queueing(trial: &Trial) -> f64 {
    if trial.workload != "loaded" {
        return 1.0;
    }
    let Some(Value::Integer(delay_ns)) = trial.parameters.0.get("delay") else { return 1.0 };
    let readers = trial.placement.threads.saturating_sub(1) as f64;
    1.0 + (readers * QUEUE_PER_READER).min(QUEUE_MAX) * READ_NS / (READ_NS + delay_ns.unsigned_abs() as f64)
}

/// What the readers of `loaded` reach together in MB/s: a run of 4 KiB and a pause each, the run longer in a full queue.
pub fn load(trial: &Trial, series: &str) -> Option<f64> {
    if (trial.workload.as_str(), series) != ("loaded", "load") {
        return None;
    }
    let Some(Value::Integer(delay_ns)) = trial.parameters.0.get("delay") else { return None };
    let readers = trial.placement.threads.saturating_sub(1) as f64;
    // Bytes per ns are GB/s.
    Some(readers * 4096.0 / (READ_NS * queueing(trial) + delay_ns.unsigned_abs() as f64) * 1e3)
}

/// A line takes longer the less the two cpus share: a core, a cache, a package, the machine.
fn handover(topology: &Topology, seats: &[CpuId]) -> f64 {
    let shares = |object: &&Object| seats.iter().all(|seat| object.cpus.contains(*seat));
    let kinds: Vec<ObjectKind> = topology.objects.iter().filter(shares).map(|object| object.kind).collect();
    match kinds {
        kinds if kinds.contains(&ObjectKind::Core) => 10.0,
        kinds if kinds.contains(&ObjectKind::Cache) => 3.0,
        kinds if kinds.contains(&ObjectKind::Package) => 1.5,
        _ => 1.0,
    }
}

fn last_caches(topology: &Topology, seats: &[CpuId]) -> f64 {
    let seated: CpuSet = seats.iter().copied().collect();
    let level = topology.last_cache_level().unwrap_or(0);
    (topology.caches(level).filter(|cache| cache.cpus.intersects(&seated)).count().max(1)) as f64
}

/// A believable number for a unit; only ratios mean anything.
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

/// Series of one trial differ from each other by a fixed factor between 0.8 and 1.2.
pub fn series_factor(series: &str) -> f64 {
    0.8 + 0.4 * (stream(0, series) as f64 / u64::MAX as f64)
}
