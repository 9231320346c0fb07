//! True times of a simulated world: the time of each candidate placement of a machine, by simple models of five kinds
//! of program. They serve to evaluate rules, not to predict machines. Must not know noise.

use std::collections::BTreeMap;

use model::placements::candidates::{SearchSpace, Threads, candidates};
use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::{MemoryPolicy, Placement};
use model::values::plan::Stages;
use model::values::topology::{ObjectKind, Topology};

use crate::noise::Random;

/// Standard deviation of the logarithm of differences that the model does not explain.
const UNEXPLAINED_SD: f64 = 0.004;
/// Cost of migrations in the baseline, which varies between runs.
const MIGRATIONS: f64 = 0.03;
const MIGRATIONS_SD: f64 = 0.02;
/// Cost of migrations within a larger CPU set.
const LOOSE: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    Compute,
    /// Threads that exchange data; fastest within one last-level cache.
    Sharing,
    /// Streaming; fastest over many caches and memory nodes.
    Bandwidth,
    /// One thread first touched all memory.
    Remote,
    /// Does not scale; the number of threads is part of the search.
    Few,
}

pub const PROGRAMS: [Program; 5] =
    [Program::Compute, Program::Sharing, Program::Bandwidth, Program::Remote, Program::Few];

/// The candidates of one machine and program, with their true effects.
pub struct World {
    pub machine: String,
    pub program: String,
    pub candidates: Stages,
    /// Logarithms of true times up to a constant, the baseline first.
    base: Vec<f64>,
    /// Standard deviation of unexplained differences. Zero if the world has no differences.
    unexplained: f64,
    /// Deviation of the baseline from the model.
    migrations_sd: f64,
}

impl World {
    /// Creates the candidates of a machine for this program, which runs `threads` threads unless it does not scale.
    pub fn new(machine: &str, topology: &Topology, program: Program, threads: usize) -> Result<Self, String> {
        let searched = if program == Program::Few { Threads::Searched } else { Threads::Fixed(threads) };
        let all = candidates(topology, &SearchSpace { threads: searched, ..SearchSpace::default() })?;
        let machine_model = MachineModel::new(topology);
        let base = all.placements.iter().map(|placement| {
            if placement.is_pinned() || placement.memory != MemoryPolicy::Kernel {
                machine_model.log_time(placement, program)
            } else {
                machine_model.kernel_log_time(placement, program)
            }
        });
        Ok(Self {
            machine: machine.into(),
            program: format!("{program:?}").to_lowercase(),
            base: base.collect(),
            candidates: all.stages.clone(),
            unexplained: UNEXPLAINED_SD,
            migrations_sd: MIGRATIONS_SD,
        })
    }

    /// Returns the logarithms of the times of placements, up to a constant, if the program has these numbers of threads.
    /// `same_work`: the amount of work does not depend on the number of threads.
    pub fn base(
        topology: &Topology,
        placements: &[Placement],
        program: Program,
        threads: impl Iterator<Item = usize>,
        same_work: bool,
    ) -> Vec<f64> {
        let machine_model = MachineModel::new(topology);
        let time = |(placement, threads): (&Placement, usize)| {
            let placement = Placement { threads, ..placement.clone() };
            let is_kernel = !placement.is_pinned() && placement.memory == MemoryPolicy::Kernel;
            let time = if is_kernel {
                machine_model.kernel_log_time(&placement, program)
            } else {
                machine_model.log_time(&placement, program)
            };
            // Except for `Few`, the models have an amount of work per thread.
            if same_work && program != Program::Few { time - (threads as f64).ln() } else { time }
        };
        placements.iter().zip(threads).map(time).collect()
    }

    /// Creates a world in which every candidate equals the baseline, so any claimed gain is false.
    pub fn null(count: usize) -> Self {
        Self {
            machine: "no difference".into(),
            program: "null".into(),
            base: vec![0.0; count],
            candidates: Stages::at_once(count),
            unexplained: 0.0,
            migrations_sd: 0.0,
        }
    }

    pub fn len(&self) -> usize {
        self.base.len()
    }

    /// True effects in one run of this world.
    pub fn truth(&self, random: &mut Random) -> Vec<f64> {
        let mut truth: Vec<f64> = self.base.iter().map(|base| base + self.unexplained * random.normal()).collect();
        truth[0] += (self.migrations_sd * random.normal()).abs();
        truth
    }

    /// As `effects`, with a baseline that is best by 2 to 4 %.
    pub fn truth_where_the_kernel_wins(&self, random: &mut Random) -> Vec<f64> {
        let mut truth = self.truth(random);
        let best = truth[1..].iter().copied().fold(f64::INFINITY, f64::min);
        truth[0] = best - 0.02 - 0.02 * random.uniform();
        truth
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.machine, self.program)
    }
}

/// Properties of a machine that the models use.
pub struct MachineModel<'a> {
    topology: &'a Topology,
    /// Cost per object of a pair of threads for which it is the closest shared one.
    meeting: Vec<f64>,
    fastest: i32,
    nodes: Vec<NodeId>,
}

/// Properties of a set of CPUs that the models use.
struct Occupancy {
    /// Kind of each core and the number of threads on it.
    cores: Vec<(i32, usize)>,
    /// Number of threads on each used last-level cache, and its CPUs.
    caches: Vec<(usize, usize)>,
    packages: Vec<(usize, usize)>,
    nodes: BTreeMap<NodeId, usize>,
    /// Total communication cost of all pairs.
    pairs: f64,
}

impl<'a> MachineModel<'a> {
    pub fn new(topology: &'a Topology) -> Self {
        let at_node = |cpus: &CpuSet| topology.nodes.iter().any(|node| node.cpus == *cpus);
        let meeting = topology.objects.iter().map(|object| match object.kind {
            ObjectKind::Core => 0.5,
            ObjectKind::Cache if object.cache.is_some_and(|cache| cache.level <= 2) => 0.9,
            ObjectKind::Cache => 1.0,
            _ if at_node(&object.cpus) => 2.1,
            ObjectKind::Package => 2.5,
            _ => 4.0,
        });
        let fastest = topology.cpu_kinds.iter().map(|kind| kind.efficiency).max().unwrap_or(0);
        let with_cpus = topology.nodes.iter().filter(|node| !node.cpus.is_empty());
        Self { topology, meeting: meeting.collect(), fastest, nodes: with_cpus.map(|node| node.os).collect() }
    }

    fn kind(&self, cpus: &CpuSet) -> i32 {
        let kinds = &self.topology.cpu_kinds;
        kinds.iter().find(|kind| kind.cpus.intersects(cpus)).map_or(0, |kind| kind.efficiency)
    }

    fn occupancy(&self, seats: &[CpuId]) -> Occupancy {
        let set: CpuSet = seats.iter().copied().collect();
        let objects = &self.topology.objects;
        let threads: Vec<usize> = objects.iter().map(|object| object.cpus.intersection(&set).len()).collect();
        let used = |wanted: &dyn Fn(&model::values::topology::Object) -> bool| -> Vec<(usize, usize)> {
            let with_threads = objects.iter().zip(&threads).filter(|(object, threads)| **threads > 0 && wanted(object));
            with_threads.map(|(object, threads)| (*threads, object.cpus.len())).collect()
        };
        let square = |threads: usize| (threads * threads) as f64;
        let pairs = objects.iter().enumerate().filter(|(index, _)| threads[*index] > 1).map(|(index, object)| {
            let below: f64 = object.children.iter().map(|child| square(threads[*child])).sum();
            if object.children.len() > 1 { self.meeting[index] * (square(threads[index]) - below) / 2.0 } else { 0.0 }
        });
        let cores = self.topology.cores();
        let on_core = |core: &CpuSet| (self.kind(core), core.intersection(&set).len());
        let on_node = |node: &NodeId| {
            let cpus = &self.topology.node(*node)?.cpus;
            Some((*node, cpus.intersection(&set).len())).filter(|(_, threads)| *threads > 0)
        };
        Occupancy {
            cores: cores.iter().map(on_core).filter(|(_, threads)| *threads > 0).collect(),
            caches: used(&|object| {
                object.cache.is_some_and(|cache| Some(cache.level) == self.topology.last_cache_level())
            }),
            packages: used(&|object| object.kind == ObjectKind::Package),
            nodes: self.nodes.iter().filter_map(on_node).collect(),
            pairs: pairs.sum(),
        }
    }

    /// Logarithm of the time of a placement, up to a constant.
    pub fn log_time(&self, placement: &Placement, program: Program) -> f64 {
        let threads = placement.threads;
        if !placement.is_pinned() {
            return self.of_seats(&self.spread(threads), &placement.memory, program, threads) + MIGRATIONS;
        }
        if placement.bindings.len() > threads {
            let within: CpuSet = placement.bindings.iter().copied().collect();
            let seats = self.one_per_core(&within, threads);
            return self.of_seats(&seats, &placement.memory, program, threads) + LOOSE;
        }
        self.of_seats(&placement.bindings, &placement.memory, program, threads)
    }

    /// The scheduler spreads threads, mostly well; threads that share data are spread in some runs only.
    fn kernel_log_time(&self, placement: &Placement, program: Program) -> f64 {
        let threads = placement.threads;
        let all = &self.topology.allowed_cpus;
        let ways = [self.spread(threads), self.one_per_core(all, threads)];
        let times = ways.map(|seats| self.of_seats(&seats, &MemoryPolicy::Kernel, program, threads));
        let usual =
            if program == Program::Sharing { f64::midpoint(times[0], times[1]) } else { times[0].min(times[1]) };
        usual + MIGRATIONS
    }

    /// One CPU per core of this set, then the siblings.
    fn one_per_core(&self, within: &CpuSet, threads: usize) -> Vec<CpuId> {
        let cores: Vec<CpuSet> = self.topology.cores().iter().map(|core| core.intersection(within)).collect();
        in_turns(&cores.iter().map(|core| core.iter().collect()).collect::<Vec<_>>(), threads)
    }

    /// As above, alternating between last-level caches.
    fn spread(&self, threads: usize) -> Vec<CpuId> {
        let level = self.topology.last_cache_level().unwrap_or(3);
        let mut domains: Vec<CpuSet> = self.topology.caches(level).map(|cache| cache.cpus.clone()).collect();
        if domains.is_empty() {
            domains.push(self.topology.allowed_cpus.clone());
        }
        let ordered: Vec<Vec<CpuId>> = domains.iter().map(|domain| self.one_per_core(domain, domain.len())).collect();
        in_turns(&ordered, threads)
    }

    fn of_seats(&self, seats: &[CpuId], memory: &MemoryPolicy, program: Program, threads: usize) -> f64 {
        let occupancy = self.occupancy(seats);
        let count = threads as f64;
        let work = 1.0 / self.throughput(&occupancy, program, count);
        let pairs = if threads > 1 { occupancy.pairs / (count * (count - 1.0) / 2.0) } else { 0.5 };
        let bound = bound_nodes(memory);
        let time = match program {
            Program::Compute => work * count * if matches!(memory, MemoryPolicy::Bind(_)) { 1.01 } else { 1.0 },
            Program::Sharing => 0.55 * work * count + 0.20 * pairs,
            // Amdahl's law, with communication that grows with the number of threads.
            Program::Few => 0.12 + 0.88 * work + 0.004 * count * pairs,
            Program::Bandwidth => 0.1 * work * count + 0.9 * count / self.bandwidth(&occupancy, bound.as_ref(), count),
            Program::Remote => self.remote(&occupancy, bound.as_ref(), work, pairs, count),
        };
        time.ln()
    }

    /// Throughput in units of one thread alone on a fast core: siblings add a fraction, full packages clock lower.
    fn throughput(&self, occupancy: &Occupancy, program: Program, threads: f64) -> f64 {
        let siblings = match program {
            Program::Compute => 1.25,
            Program::Sharing => 1.35,
            Program::Bandwidth => 1.05,
            Program::Remote => 1.5,
            Program::Few => 1.2,
        };
        let core = |&(kind, on_it): &(i32, usize)| {
            (if kind == self.fastest { 1.0 } else { 0.6 }) * if on_it == 1 { 1.0 } else { siblings }
        };
        let full: f64 = occupancy.packages.iter().map(|(on_it, cpus)| (on_it * on_it) as f64 / *cpus as f64).sum();
        occupancy.cores.iter().map(core).sum::<f64>() * (1.0 - 0.05 * full / threads)
    }

    fn bandwidth(&self, occupancy: &Occupancy, bound: Option<&NodeSet>, threads: f64) -> f64 {
        let cache =
            |&(on_it, cpus): &(usize, usize)| (on_it as f64).min(if cpus <= 8 { 1.7 } else { 0.45 * cpus as f64 });
        let caches: f64 = occupancy.caches.iter().map(cache).sum();
        let caches = if caches > 0.0 { caches } else { (occupancy.cores.len() as f64).min(3.0) };
        if self.nodes.len() < 2 {
            return caches.min(2.6) * (1.0 + 0.004 * occupancy.caches.len() as f64);
        }
        let node = if self.nodes.len() <= 8 { 3.0 } else { 8.0 };
        let Some(bound) = bound else {
            let share = |on_it: &usize| *on_it as f64 / (*on_it as f64).min(node);
            return caches.min(threads / occupancy.nodes.values().map(share).fold(1.0, f64::max));
        };
        let local =
            occupancy.nodes.keys().filter(|home| bound.contains(**home)).count() as f64 / occupancy.nodes.len() as f64;
        (caches * 0.9).min(bound.len() as f64 * node * (0.75 + 0.2 * local))
    }

    fn remote(&self, occupancy: &Occupancy, bound: Option<&NodeSet>, work: f64, pairs: f64, threads: f64) -> f64 {
        if self.nodes.len() < 2 {
            let fast: f64 = occupancy.cores.iter().map(|(kind, _)| if *kind == self.fastest { 1.0 } else { 0.6 }).sum();
            return 0.5 * work * threads + 0.10 * pairs + 0.3 * threads / fast.min(4.0);
        }
        let first: Vec<NodeId> = occupancy.nodes.keys().take(1).copied().collect();
        let memory: Vec<NodeId> = bound.map_or(first, |nodes| nodes.iter().collect());
        let mut latency = 0.0;
        for (home, on_it) in &occupancy.nodes {
            let far = |node: &NodeId| {
                let distance = self.topology.node_distances().and_then(|all| all.between(*home, *node));
                distance.map_or(1.0, |distance| (distance as f64 / 10.0).powf(0.6))
            };
            latency += *on_it as f64 / threads * memory.iter().map(far).sum::<f64>() / memory.len() as f64;
        }
        let node = if self.nodes.len() <= 8 { 5.0 } else { 14.0 };
        let crowd = (threads / (node * memory.len() as f64)).powf(0.8).max(1.0);
        0.35 * work * threads + 0.65 * latency * crowd
    }
}

/// The memory nodes that a policy names.
fn bound_nodes(memory: &MemoryPolicy) -> Option<NodeSet> {
    match memory {
        MemoryPolicy::Kernel | MemoryPolicy::Local | MemoryPolicy::Far => None,
        MemoryPolicy::Bind(nodes) | MemoryPolicy::Interleave(nodes) | MemoryPolicy::WeightedInterleave(nodes) => {
            Some(nodes.clone())
        }
        MemoryPolicy::Preferred(node) => Some([*node].into_iter().collect()),
    }
}

/// Takes the first element of each list, then the second of each, until `count` are taken.
fn in_turns(lists: &[Vec<CpuId>], count: usize) -> Vec<CpuId> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|turn| lists.iter().filter_map(move |list| list.get(turn).copied())).take(count).collect()
}
