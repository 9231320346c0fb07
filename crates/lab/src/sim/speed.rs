//! Speed of a trial on a simulated machine: cores, SMT, caches and distances. It serves to test decisions and does not
//! predict real machines. Must not contain numbers of workloads: `performance` has them.

use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::MemoryPolicy;
use model::values::plan::stream;
use model::values::topology::{MemoryNode, Object, ObjectKind, Topology};
use model::values::trial::Trial;
use model::values::workload::Value;

use super::files;
use super::performance::{self, BOARD_BANDWIDTH_SHARE, Performance, SEMI_EXTERNAL, STREAM_REMOTE_SHARE};

/// Gain of two threads on one core over one thread.
const SMT_GAIN: f64 = 0.3;
/// Loss of a data-sharing workload whose threads are spread over last-level caches.
const ACROSS_CACHES_LOSS: f64 = 0.15;
/// Fraction of memory time in a compute workload.
const MEMORY_SHARE: f64 = 0.3;
/// Fraction of a memory node's bandwidth that one core reaches.
pub(super) const CORE_BANDWIDTH_SHARE: f64 = 0.35;
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

/// The bottleneck of a command, or of a workload that the table of performance lacks.
#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Compute,
    Bandwidth,
    Latency,
    Sharing,
    Handover,
}

/// Name of the program of a command, or of the workload.
pub(super) fn program(trial: &Trial) -> String {
    if trial.workload != "command" {
        return trial.workload.clone();
    }
    let argv = trial.parameters.0.get("argv").map(ToString::to_string).unwrap_or_default();
    let words: Vec<String> = serde_json::from_str(&argv).unwrap_or_default();
    words.first().map_or(String::new(), |word| word.rsplit('/').next().unwrap_or(word).to_string())
}

/// The name of a command determines its bottleneck: `./sharing 4` is limited by sharing.
fn limit(trial: &Trial) -> Limit {
    match program(trial).as_str() {
        "stream" | "bandwidth" | "mapper" => Limit::Bandwidth,
        "chase" | "loaded" | "latency" => Limit::Latency,
        "pingpong" => Limit::Handover,
        "threads" | "mutex" | "sharing" => Limit::Sharing,
        _ => Limit::Compute,
    }
}

/// Bandwidth falls with the square root of the distance: to a twelfth, as from 47 to 4 GiB/s with arrays on an Optane
/// SSD.
const FAR_DISTANCE: f64 = 144.0;

/// Speed relative to one thread on the fastest core with local memory.
pub fn speed(topology: &Topology, trial: &Trial, seed: u64) -> f64 {
    let speed = match performance::of(trial) {
        Some(performance) => measured(topology, trial, performance),
        None => unmeasured(topology, trial),
    };
    let key = format!("{} {} {}", trial.workload, trial.placement.cpus(), trial.placement.memory);
    let unexplained = stream(seed, &key) as f64 / u64::MAX as f64 - 0.5;
    // A uniform number on (-0.5, 0.5) has the standard deviation 1/sqrt(12).
    speed * (UNEXPLAINED_SD * 12f64.sqrt() * unexplained).exp()
}

/// Speed of a workload of which published figures are known.
fn measured(topology: &Topology, trial: &Trial, performance: &Performance) -> f64 {
    let processes = if is_free(trial) { trial.placement.threads * performance.processes } else { 1 };
    let cpus = cpus(topology, trial, processes.max(trial.placement.threads), Order::FastestFirst);
    let parallel = match performance.limit {
        performance::Limit::Compute => {
            let shares: f64 = core_shares(topology, &cpus, performance).iter().sum();
            let distance = mean_distance(topology, &cpus, &trial.placement.memory);
            shares / (1.0 - MEMORY_SHARE + MEMORY_SHARE * distance)
        }
        performance::Limit::Bandwidth => node_bandwidth(topology, &cpus, &trial.placement.memory),
    };
    let loss = if is_free(trial) { performance.across_l3_loss_loose } else { performance.across_l3_loss };
    parallel * (1.0 - loss * spread(topology, &cpus)) / contention(performance, trial.placement.threads)
        * interleaved(topology, trial, performance)
        * in_dram(topology, trial, performance)
}

/// Speed of a command, or of a workload that the table of performance lacks.
fn unmeasured(topology: &Topology, trial: &Trial) -> f64 {
    let cpus = cpus(topology, trial, trial.placement.threads, Order::Logical);
    let compute: f64 = shares_of_commands(topology, &cpus).iter().sum();
    let distance = mean_distance(topology, &cpus, &trial.placement.memory);
    let is_far = trial.placement.memory.is_beyond_dram() && !fits_in_dram(topology, trial);
    let distance = if is_far { FAR_DISTANCE } else { distance };
    let speed = match limit(trial) {
        Limit::Compute => compute / (1.0 - MEMORY_SHARE + MEMORY_SHARE * distance),
        Limit::Bandwidth => bandwidth(topology, &cpus, &trial.placement.memory) / distance.sqrt(),
        Limit::Latency => cached(topology, &cpus, trial).unwrap_or(1.0 / distance) / queueing(trial),
        Limit::Sharing => compute * (1.0 - ACROSS_CACHES_LOSS * (1.0 - 1.0 / last_caches(topology, &cpus))),
        Limit::Handover => handover(topology, &cpus),
    };
    let moved = if trial.placement.is_pinned() { 1.0 } else { 1.0 - KERNEL_LOSS };
    let beyond = performance::TOUCHED;
    let budget =
        trial.placement.budget.map_or(1.0, |budget| if budget.steered { beyond.steered } else { beyond.swapped });
    speed * moved * budget / file_slowdown(topology, trial, &cpus)
}

/// Factor by which a remote file lengthens the run time; 1 if the file is local, or without one.
fn file_slowdown(topology: &Topology, trial: &Trial, cpus: &[CpuId]) -> f64 {
    let distance = |nodes| mean_distance(topology, cpus, &MemoryPolicy::Bind(nodes));
    let distance = files::nodes(topology, trial).map_or(1.0, distance);
    1.0 - MEMORY_SHARE + MEMORY_SHARE * distance
}

/// Value of the main metric of one thread on the fastest core of this machine.
pub fn rate_of_one(topology: &Topology, performance: &Performance) -> f64 {
    let rate = performance.rate;
    let spread = if rate.cores > 1.0 { 1.0 - performance.across_l3_loss_loose } else { 1.0 };
    let one = rate.value / rate.cores * contention(performance, rate.cores as usize) / spread;
    match performance.limit {
        performance::Limit::Bandwidth if is_board(topology) => one * BOARD_BANDWIDTH_SHARE,
        _ => one * clock(topology).zip(rate.mhz).map_or(1.0, |(own, of_rate)| own / of_rate),
    }
}

/// The maximum clock of the fastest cores in MHz, if the topology has it.
fn clock(topology: &Topology) -> Option<f64> {
    let kinds = topology.cpu_kinds.iter().flat_map(|kind| &kind.info);
    let clocks = kinds.filter(|(name, _)| name == "FrequencyMaxMHz").filter_map(|(_, value)| value.parse().ok());
    clocks.max_by(f64::total_cmp)
}

/// Whether the machine is a board: the kernel reports capacities of CPUs only for ARM machines with a device tree.
fn is_board(topology: &Topology) -> bool {
    let mut infos = topology.cpu_kinds.iter().flat_map(|kind| &kind.info);
    infos.any(|(name, _)| name == "LinuxCapacity")
}

fn contention(performance: &Performance, threads: usize) -> f64 {
    1.0 + performance.contention * (threads.max(1) - 1) as f64
}

/// Whether the kernel chooses the CPU of each process, among all or among those of the placement.
fn is_free(trial: &Trial) -> bool {
    !trial.placement.is_pinned() || trial.placement.loose
}

/// Whether the threads use several L3 caches, as 1 or 0. Clusters without L3 do not count: no study measured them.
fn spread(topology: &Topology, cpus: &[CpuId]) -> f64 {
    let is_spread = topology.last_cache_level() >= Some(3) && last_caches(topology, cpus) > 1.0;
    f64::from(u8::from(is_spread))
}

/// Effect of memory that is interleaved over emulated nodes, which differ in banks and not in distance.
fn interleaved(topology: &Topology, trial: &Trial, performance: &Performance) -> f64 {
    use MemoryPolicy::{Interleave, WeightedInterleave};
    if !has_emulated_nodes(topology) || !matches!(trial.placement.memory, Interleave(_) | WeightedInterleave(_)) {
        return 1.0;
    }
    let [one, all] = performance.interleaved;
    let others = (topology.allowed_cpus.len().max(2) - 1) as f64;
    let share = ((trial.placement.threads.max(1) - 1) as f64 / others).min(1.0);
    one + (all - one) * share
}

/// Whether the memory nodes are slices of the memory of one package, as with `numa=fake`: one of them has all CPUs or all
/// have, and no size is far from the others.
fn has_emulated_nodes(topology: &Topology) -> bool {
    let sizes = || topology.nodes.iter().map(|node| node.bytes.0);
    let similar = sizes().min().zip(sizes().max()).is_some_and(|(least, most)| least > 0 && least * 10 >= most * 9);
    let ordinary = topology.nodes.iter().all(|node| node.subtype.is_none());
    let whole = |node: &MemoryNode| node.cpus.is_empty() || topology.allowed_cpus.difference(&node.cpus).is_empty();
    topology.nodes.len() > 1 && similar && ordinary && topology.nodes.iter().all(whole)
}

/// Speed relative to memory that fits in DRAM.
fn in_dram(topology: &Topology, trial: &Trial, performance: &Performance) -> f64 {
    if let Some(share) = edges_in_dram(trial) {
        let (share_of_study, speed_of_study) = SEMI_EXTERNAL;
        return 1.0 - (1.0 - speed_of_study) * (1.0 - share) / (1.0 - share_of_study);
    }
    let beyond = performance.beyond_dram;
    match trial.placement.budget {
        _ if fits_in_dram(topology, trial) => 1.0,
        _ if trial.placement.memory.is_beyond_dram() => beyond.far,
        Some(budget) if !budget.steered => beyond.swapped,
        _ => beyond.steered,
    }
}

/// Whether the arrays of a trial fit in its DRAM: that of its placement, of its parameter `budget`, or of the machine.
fn fits_in_dram(topology: &Topology, trial: &Trial) -> bool {
    let dram = trial.placement.budget.map(|budget| budget.dram.0).or_else(|| integer(trial, "budget"));
    let all = topology.nodes.iter().map(|node| node.bytes.0).sum();
    match working_set(trial) {
        Some(bytes) => bytes <= dram.unwrap_or(all),
        // A limit is smaller than the memory of a program of unknown size, else it would not be set.
        None => dram.is_none(),
    }
}

fn integer(trial: &Trial, name: &str) -> Option<u64> {
    match trial.parameters.0.get(name) {
        Some(Value::Integer(value)) => Some(value.unsigned_abs()),
        _ => None,
    }
}

/// Bytes of the arrays of a trial; `None` if unknown.
fn working_set(trial: &Trial) -> Option<u64> {
    let precision = performance::text(&trial.parameters, "precision");
    let number = if precision.as_deref() == Some("fp32") { 4 } else { 8 };
    match trial.workload.as_str() {
        "stream" => integer(trial, "size").map(|array| 3 * array),
        "chase" | "bandwidth" | "gups" => integer(trial, "size"),
        "gemm" | "far-gemm" => integer(trial, "n").map(|rows| 3 * rows * rows * number),
        _ => None,
    }
}

/// Fraction of the edges that a semi-external search has in DRAM; `None` for other workloads.
fn edges_in_dram(trial: &Trial) -> Option<f64> {
    let mode = performance::text(&trial.parameters, "mode")?;
    let dram = performance::text(&trial.parameters, "dram").filter(|_| mode == "semi-external")?;
    match dram.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
        None => Some(1.0),
    }
}

/// Bandwidth of STREAM in units of one core: each node has its own, less for a remote one; the slowest node of an
/// interleaved array holds up the others.
fn node_bandwidth(topology: &Topology, cpus: &[CpuId], memory: &MemoryPolicy) -> f64 {
    let used_cpus: CpuSet = cpus.iter().copied().collect();
    let cores = topology.cores().iter().filter(|core| core.intersects(&used_cpus)).count() as f64;
    let nodes = match memory.promised_nodes() {
        Some(_) if has_emulated_nodes(topology) => 1,
        Some(nodes) => nodes.len(),
        None => topology.local_nodes(&used_cpus).len(),
    };
    let of_node = cores.min(nodes.max(1) as f64 / CORE_BANDWIDTH_SHARE);
    of_node * STREAM_REMOTE_SHARE.powf(farthest(topology, cpus, memory) - 1.0)
}

/// The largest distance from any of the CPUs to the memory; 1 is local.
fn farthest(topology: &Topology, cpus: &[CpuId], memory: &MemoryPolicy) -> f64 {
    let (Some(nodes), Some(distances)) = (memory.promised_nodes(), topology.node_distances()) else { return 1.0 };
    if has_emulated_nodes(topology) {
        return 1.0;
    }
    let homes: Vec<NodeId> = cpus.iter().filter_map(|cpu| topology.nodes_of_cpu(*cpu).first().copied()).collect();
    let pairs = homes.iter().flat_map(|home| nodes.iter().map(move |node| (*home, node)));
    let all = pairs.filter_map(|(home, node)| distances.between(home, node));
    all.max().map_or(1.0, |distance| distance as f64 / 10.0)
}

/// Order in which the simulated scheduler fills the cores.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// As the capacity-aware scheduler of boards with two kinds of cores does.
    FastestFirst,
    /// As in the first version, on which stored races of commands depend.
    Logical,
}

/// CPUs of the threads. With more CPUs than threads, the simulated scheduler puts one thread on each core, in this order.
fn cpus(topology: &Topology, trial: &Trial, threads: usize, order: Order) -> Vec<CpuId> {
    let placement = &trial.placement;
    if placement.is_pinned() && placement.bindings.len() <= placement.threads && !placement.loose {
        return placement.bindings.clone();
    }
    let allowed = if placement.is_pinned() { placement.cpus() } else { topology.allowed_cpus.clone() };
    let mut cores: Vec<CpuSet> = topology.cores().iter().map(|core| core.intersection(&allowed)).collect();
    if order == Order::FastestFirst {
        let slowness = |core: &CpuSet| core.first().map_or(0.0, |cpu| -capacity(topology, cpu));
        cores.sort_by(|one, other| slowness(one).total_cmp(&slowness(other)));
    }
    let widest = cores.iter().map(CpuSet::len).max().unwrap_or(1);
    let in_turn = (0..widest).flat_map(|thread| cores.iter().filter_map(move |core| core.iter().nth(thread)));
    in_turn.take(threads).collect()
}

/// Contribution of each used core: the speed of its kind, plus the SMT gain of the workload.
fn core_shares(topology: &Topology, cpus: &[CpuId], performance: &Performance) -> Vec<f64> {
    let used_cpus: CpuSet = cpus.iter().copied().collect();
    let used = topology.cores().into_iter().filter(|core| core.intersects(&used_cpus));
    used.map(|core| {
        let threads = core.intersection(&used_cpus).len() as f64;
        let capacity = core.first().map_or(1.0, |cpu| capacity(topology, cpu));
        let share = performance.little.filter(|_| capacity < 1.0).unwrap_or(capacity);
        share * (1.0 + performance.smt_gain * 2.0 * (1.0 - 1.0 / threads.max(1.0)))
    })
    .collect()
}

/// The same for a command, of which only the bottleneck is known.
fn shares_of_commands(topology: &Topology, cpus: &[CpuId]) -> Vec<f64> {
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
    let nodes: Vec<NodeId> = memory.promised_nodes().map(|nodes| nodes.iter().collect()).unwrap_or_default();
    let Some(distances) = topology.node_distances().filter(|_| !nodes.is_empty()) else { return 1.0 };
    if has_emulated_nodes(topology) {
        return 1.0;
    }
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
    let cores = shares_of_commands(topology, cpus).len() as f64;
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::values::placement::Placement;
    use model::values::trial::{Role, TrialId};
    use model::values::units::Nanos;
    use model::values::workload::Parameters;

    fn switching(name: &str, loose: bool) -> Trial {
        let bindings = (0..6).map(CpuId).collect();
        Trial {
            id: TrialId("t".into()),
            cell: 0,
            workload: "pipe-context-switching".into(),
            parameters: Parameters::default(),
            placement: Placement { name: name.into(), bindings, loose, ..Placement::kernel(6) },
            role: Role::Measured,
            block: 0,
            attempt: 0,
            seed: 1,
            time_limit: Nanos(1_000_000_000),
        }
    }

    /// Both ends of a pipe use both L3 caches under a mask, whatever the placement is called: `place` adds the number of
    /// threads to the names of its candidates.
    #[test]
    fn loose_placements_are_known_by_their_field_not_by_their_name() {
        let text = include_str!("../../../model/tests/captures/ryzen5-2600.json");
        let topology: Topology = serde_json::from_str(text).expect("the capture is a topology");
        let of = |name, loose| speed(&topology, &switching(name, loose), 1);
        let (loose, pinned) = (of("cores-across-l3+loose", true), of("cores-across-l3", false));
        assert!(loose < 0.95 * pinned, "{loose} {pinned}");
        assert!((of("cores-across-l3+loose, 6 threads", true) - loose).abs() < 1e-9);
        assert!((of("loose", false) - pinned).abs() < 1e-9, "a user's name");
    }
}
