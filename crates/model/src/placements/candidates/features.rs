//! Counts what the model of a search knows of each candidate: cores, caches, nodes, distances, and where threads meet.
//! Must not depend on how the model uses them.

use std::collections::{BTreeMap, BTreeSet};

use crate::placements::placement::cores::CoreIndex;
use crate::stats::search::{
    ByLevel, CacheUse, CandidateFeatures, CoreUse, FeatureTable, Features, Hint, LEVELS, MachineSummary,
    MemoryFeatures, PagePolicy,
};
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::placement::{MemoryPolicy, Placement};
use crate::values::plan::{MachineFeatures, SearchPlan, ThreadChoice};
use crate::values::topology::Topology;

/// Distance of a remote node if the machine reports none.
const REMOTE_DISTANCE_DEFAULT: u64 = 20;
/// Maximum number of different distances; a measured map has a different one for each pair of nodes.
const DISTANCES_MAX: usize = 12;
/// Numbers of threads that a command may choose, besides those of all cores and all CPUs.
const USUAL_THREADS: [usize; 4] = [1, 4, 8, 16];
/// Probability of the number of threads that the warm-up trial showed, of its neighbours, and of one thread for each
/// CPU of the placement. The last is likely if the warm-up trial had as many threads as the machine has CPUs or cores.
const HINTED: f64 = 0.6;
const NEIGHBOUR: f64 = 0.2;
const BY_MASK: f64 = 0.05;
const BY_MASK_LIKELY: f64 = 1.0;

/// Returns the machine as the model of a search sees it.
pub fn machine_features(topology: &Topology) -> MachineFeatures {
    let index = CoreIndex::new(topology);
    let nodes: Vec<NodeId> = topology.nodes.iter().map(|node| node.os).collect();
    let l2: Vec<&CpuSet> = topology.caches(2).map(|cache| &cache.cpus).collect();
    let mut machine = MachineFeatures {
        cpus: Vec::new(),
        core: Vec::new(),
        l2: Vec::new(),
        cluster: Vec::new(),
        package: Vec::new(),
        home: Vec::new(),
        kind: Vec::new(),
        distances: distances(topology, &nodes),
        nodes,
    };
    for (number, core) in index.cores.iter().enumerate() {
        for cpu in &core.cpus {
            let second_level = l2.iter().position(|cpus| cpus.contains(*cpu));
            machine.cpus.push(*cpu);
            machine.core.push(number);
            machine.l2.push(second_level);
            machine.cluster.push(core.cluster.or(second_level));
            machine.package.push(core.package);
            machine.home.push(machine.nodes.iter().position(|node| Some(*node) == core.home).unwrap_or(0));
            machine.kind.push(core.kind);
        }
    }
    machine
}

fn distances(topology: &Topology, nodes: &[NodeId]) -> Vec<u64> {
    let between = |from: NodeId, to: NodeId| {
        let default = if from == to { 10 } else { REMOTE_DISTANCE_DEFAULT };
        topology.node_distances().and_then(|all| all.between(from, to)).unwrap_or(default)
    };
    nodes.iter().flat_map(|from| nodes.iter().map(move |to| between(*from, *to))).collect()
}

/// Returns the features of the candidates of a plan. `hint` is what the warm-up trial shows, if the command chooses its
/// number of threads.
pub fn features<'a>(
    plan: &SearchPlan,
    placements: impl IntoIterator<Item = &'a Placement>,
    hint: Option<Hint>,
) -> Features {
    let placements: Vec<&Placement> = placements.into_iter().collect();
    let counter = Counter::new(&plan.machine);
    let table = |(weight, threads): (f64, ThreadNumber)| FeatureTable {
        weight,
        candidates: placements.iter().map(|placement| counter.candidate(placement, threads)).collect(),
    };
    let numbers = match plan.threads {
        ThreadChoice::Fixed | ThreadChoice::Searched => vec![(1.0, ThreadNumber::Given)],
        ThreadChoice::Command => numbers(&counter, hint),
    };
    Features {
        machine: counter.summary(),
        threads_searched: plan.threads == ThreadChoice::Searched,
        tables: numbers.into_iter().map(table).collect(),
    }
}

/// Number of threads of a program under a placement.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ThreadNumber {
    /// That of the placement.
    Given,
    Always(usize),
    /// One for each CPU of the placement.
    ByMask,
}

/// Returns the numbers of threads that a command may choose, with their probabilities.
fn numbers(counter: &Counter, hint: Option<Hint>) -> Vec<(f64, ThreadNumber)> {
    let (cpus, cores) = (counter.machine.cpus.len(), counter.cores.len());
    let mut ladder: Vec<usize> = USUAL_THREADS.into_iter().chain([cores, cpus]).filter(|one| *one <= cpus).collect();
    ladder.sort_unstable();
    ladder.dedup();
    let always = |weight: f64, threads: &usize| (weight, ThreadNumber::Always(*threads));
    let Some(threads) = hint.map(Hint::working_threads) else {
        let mut numbers: Vec<_> = ladder.iter().map(|threads| always(1.0, threads)).collect();
        numbers.push((1.0, ThreadNumber::ByMask));
        return numbers;
    };
    let smaller = ladder.iter().rev().find(|other| **other < threads);
    let larger = ladder.iter().find(|other| **other > threads);
    let mut numbers = vec![(HINTED, ThreadNumber::Always(threads))];
    numbers.extend(smaller.into_iter().chain(larger).map(|threads| always(NEIGHBOUR, threads)));
    let fills = |size: usize| size > 1 && threads.abs_diff(size) * 16 <= size;
    numbers.push((if fills(cpus) || fills(cores) { BY_MASK_LIKELY } else { BY_MASK }, ThreadNumber::ByMask));
    numbers
}

/// Counts on one machine. CPUs are indices in logical order.
struct Counter<'a> {
    machine: &'a MachineFeatures,
    /// CPUs of each core.
    cores: Vec<Vec<usize>>,
    at: BTreeMap<CpuId, usize>,
    /// Number of CPUs of each last-level cache and of each package.
    cluster_cpus: Vec<f64>,
    package_cpus: Vec<f64>,
    /// The different distances, and the index of each pair of nodes among them.
    distances: Vec<f64>,
    distance_of: Vec<usize>,
    homes: usize,
    /// CPUs in the order in which an unbound program fills them.
    spread: Vec<usize>,
}

impl<'a> Counter<'a> {
    fn new(machine: &'a MachineFeatures) -> Self {
        let groups = |of: &dyn Fn(usize) -> Option<usize>| {
            let mut groups: Vec<Vec<usize>> = Vec::new();
            for cpu in 0..machine.cpus.len() {
                let Some(group) = of(cpu) else { continue };
                groups.resize(groups.len().max(group + 1), Vec::new());
                groups[group].push(cpu);
            }
            groups
        };
        let sizes = |groups: &[Vec<usize>]| groups.iter().map(|cpus| cpus.len() as f64).collect::<Vec<_>>();
        let cores = groups(&|cpu| Some(machine.core[cpu]));
        let clusters = groups(&|cpu| machine.cluster[cpu]);
        let packages = groups(&|cpu| Some(machine.package[cpu].unwrap_or(0)));
        let (distances, distance_of) = classes(&machine.distances);
        let mut homes = machine.home.clone();
        homes.sort_unstable();
        homes.dedup();
        let mut counter = Self {
            machine,
            at: machine.cpus.iter().enumerate().map(|(index, cpu)| (*cpu, index)).collect(),
            cluster_cpus: sizes(&clusters),
            package_cpus: sizes(&packages),
            distances,
            distance_of,
            homes: homes.len(),
            spread: Vec::new(),
            cores,
        };
        let all = vec![(0..machine.cpus.len()).collect()];
        let domains = if clusters.is_empty() { all } else { clusters };
        let ordered: Vec<Vec<usize>> =
            domains.iter().filter(|cpus| !cpus.is_empty()).map(|cpus| counter.one_per_core(cpus)).collect();
        counter.spread = in_turns(&ordered);
        counter
    }

    fn summary(&self) -> MachineSummary {
        let clusters = self.cluster_cpus.iter().filter(|cpus| **cpus > 0.0).count().max(1) as f64;
        MachineSummary {
            cpus: self.machine.cpus.len() as f64,
            cores: self.cores.len() as f64,
            packages: self.package_cpus.len() as f64,
            nodes: self.machine.nodes.len() as f64,
            homes: self.homes as f64,
            distances: self.distances.clone(),
            cluster_cpus: (self.cluster_cpus.iter().sum::<f64>() / clusters).max(1.0),
        }
    }

    /// Returns these CPUs in the order in which the scheduler uses them: one of each core, then the siblings.
    fn one_per_core(&self, cpus: &[usize]) -> Vec<usize> {
        let mut by_core: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        cpus.iter().for_each(|cpu| by_core.entry(self.machine.core[*cpu]).or_default().push(*cpu));
        in_turns(&by_core.into_values().collect::<Vec<_>>())
    }

    fn candidate(&self, placement: &Placement, number: ThreadNumber) -> CandidateFeatures {
        let mut is_new = vec![true; self.machine.cpus.len()];
        let known = placement.bindings.iter().filter_map(|cpu| self.at.get(cpu).copied());
        let allowed: Vec<usize> = known.filter(|cpu| std::mem::replace(&mut is_new[*cpu], false)).collect();
        let unbound = allowed.is_empty();
        let threads = match number {
            ThreadNumber::Given => placement.threads,
            ThreadNumber::Always(threads) => threads,
            ThreadNumber::ByMask if unbound => self.spread.len(),
            ThreadNumber::ByMask => allowed.len(),
        }
        .max(1);
        let loose = if unbound { 0.0 } else { (allowed.len() as f64 / threads as f64).log2().max(0.0) };
        let mut seats = match (unbound, threads < allowed.len()) {
            (true, _) => self.spread.clone(),
            (false, true) => self.one_per_core(&allowed),
            (false, false) => allowed,
        };
        seats.truncate(threads);
        self.seated(placement, &seats, threads, loose, unbound)
    }

    fn seated(
        &self,
        placement: &Placement,
        seats: &[usize],
        threads: usize,
        loose: f64,
        unbound: bool,
    ) -> CandidateFeatures {
        let machine = self.machine;
        let used = seats.len() as f64;
        let on_core = tally(seats, self.cores.len(), |cpu| Some(machine.core[cpu]));
        let on_cluster = tally(seats, self.cluster_cpus.len(), |cpu| machine.cluster[cpu]);
        let on_package = tally(seats, self.package_cpus.len(), |cpu| Some(machine.package[cpu].unwrap_or(0)));
        let on_node = tally(seats, machine.nodes.len().max(1), |cpu| Some(machine.home[cpu]));
        let fullness = on_package.iter().zip(&self.package_cpus).map(|(on_it, cpus)| on_it * on_it / cpus.max(1.0));
        let interrupt_cpus = placement.interrupts.iter().map(|route| &route.cpus).find(|cpus| !cpus.is_empty());
        let first_cpu: CpuSet = machine.cpus.first().copied().into_iter().collect();
        CandidateFeatures {
            threads: threads as f64,
            used,
            cores: self.core_uses(&on_core),
            caches: self.cache_uses(&on_cluster, used),
            nodes: positive(&on_node),
            packages: positive(&on_package),
            fullness: fullness.sum::<f64>() / used,
            pairs: self.pairs(seats, &on_core, &on_cluster, &on_node, &on_package),
            next: self.next(seats),
            interrupts: self.meeting(seats, interrupt_cpus.unwrap_or(&first_cpu)),
            second: if placement.server_cpus.is_empty() {
                [0.0; LEVELS]
            } else {
                self.meeting(seats, &placement.server_cpus)
            },
            loose,
            unbound,
            memory: self.memory_of(placement, &on_node, seats),
        }
    }

    /// With a server, its threads use the memory that matters.
    fn memory_of(&self, placement: &Placement, on_node: &[f64], seats: &[usize]) -> MemoryFeatures {
        let server: Vec<usize> = placement.server_cpus.iter().filter_map(|cpu| self.at.get(&cpu).copied()).collect();
        if server.is_empty() {
            return self.memory(&placement.memory, on_node, seats);
        }
        let on_node = tally(&server, on_node.len(), |cpu| Some(self.machine.home[cpu]));
        self.memory(&placement.memory, &on_node, &server)
    }

    fn core_uses(&self, on_core: &[f64]) -> Vec<CoreUse> {
        let mut uses: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (core, threads) in on_core.iter().enumerate().filter(|(_, threads)| **threads > 0.0) {
            *uses.entry((self.machine.kind[self.cores[core][0]], *threads as usize)).or_default() += 1.0;
        }
        uses.into_iter().map(|((kind, threads), cores)| CoreUse { kind, threads: threads as f64, cores }).collect()
    }

    /// Without a shared cache, all threads count as in one.
    fn cache_uses(&self, on_cluster: &[f64], used: f64) -> Vec<CacheUse> {
        let mut uses: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (cluster, threads) in on_cluster.iter().enumerate().filter(|(_, threads)| **threads > 0.0) {
            *uses.entry((*threads as usize, self.cluster_cpus[cluster] as usize)).or_default() += 1.0;
        }
        if uses.is_empty() {
            return vec![CacheUse { threads: used, cpus: self.machine.cpus.len() as f64, caches: 1.0 }];
        }
        let cache = |((threads, cpus), caches): ((usize, usize), f64)| CacheUse {
            threads: threads as f64,
            cpus: cpus as f64,
            caches,
        };
        uses.into_iter().map(cache).collect()
    }

    /// Whether memory nodes are a separate level below packages.
    fn has_node_level(&self) -> bool {
        self.homes > self.package_cpus.len()
    }

    fn pairs(&self, seats: &[usize], core: &[f64], cluster: &[f64], node: &[f64], package: &[f64]) -> ByLevel {
        let count = |on: &[f64]| on.iter().map(|threads| threads * (threads - 1.0) / 2.0).sum::<f64>();
        let used = seats.len() as f64;
        let all = used * (used - 1.0) / 2.0;
        if all <= 0.0 {
            return [0.0; LEVELS];
        }
        let l2_count = self.machine.l2.iter().flatten().max().map_or(0, |last| last + 1);
        let l2 = tally(seats, l2_count, |cpu| self.machine.l2[cpu]);
        let node = if self.has_node_level() { count(node) } else { 0.0 };
        let within = [count(core), count(&l2), count(cluster), node, count(package), all];
        let mut below = 0.0f64;
        within.map(|pairs| {
            let share = (pairs - below).max(0.0) / all;
            below = below.max(pairs);
            share
        })
    }

    fn level(&self, one: usize, other: usize) -> usize {
        let (one, other) = (self.groups(one), self.groups(other));
        (0..LEVELS - 1).find(|level| one[*level].is_some() && one[*level] == other[*level]).unwrap_or(LEVELS - 1)
    }

    fn next(&self, seats: &[usize]) -> ByLevel {
        let mut shares = [0.0; LEVELS];
        if seats.len() > 1 {
            let following = seats.iter().cycle().skip(1);
            seats.iter().zip(following).for_each(|(cpu, next)| shares[self.level(*cpu, *next)] += 1.0);
        }
        shares.map(|threads| threads / seats.len() as f64)
    }

    /// Returns the share of threads by the lowest level at which they meet any of these CPUs.
    fn meeting(&self, seats: &[usize], others: &CpuSet) -> ByLevel {
        let others: Vec<usize> = others.iter().filter_map(|cpu| self.at.get(&cpu).copied()).collect();
        let mut has_other = [(); LEVELS - 1].map(|()| BTreeSet::new());
        for other in &others {
            self.groups(*other).into_iter().zip(&mut has_other).for_each(|(group, known)| known.extend(group));
        }
        let mut shares = [0.0; LEVELS];
        for seat in seats {
            let groups = self.groups(*seat);
            let meets = |level: &usize| groups[*level].is_some_and(|group| has_other[*level].contains(&group));
            shares[(0..LEVELS - 1).find(meets).unwrap_or(LEVELS - 1)] += 1.0;
        }
        shares.map(|threads| threads / seats.len().max(1) as f64)
    }

    /// The parts of the machine that contain a CPU, by level.
    fn groups(&self, cpu: usize) -> [Option<usize>; LEVELS - 1] {
        let machine = self.machine;
        let node = self.has_node_level().then_some(machine.home[cpu]);
        let package = machine.package[cpu].or((!self.has_node_level()).then_some(machine.home[cpu]));
        [Some(machine.core[cpu]), machine.l2[cpu], machine.cluster[cpu], node, package]
    }

    fn memory(&self, memory: &MemoryPolicy, on_node: &[f64], seats: &[usize]) -> MemoryFeatures {
        let used: f64 = on_node.iter().sum::<f64>().max(1.0);
        let load: Vec<f64> = on_node.iter().map(|threads| threads / used).collect();
        let first = seats.first().map_or(0, |cpu| self.machine.home[*cpu]);
        let named = memory.named_nodes().unwrap_or_default();
        let named: Vec<usize> = named.iter().filter_map(|node| self.node(node)).collect();
        let on_one = |node: usize| (0..load.len()).map(|one| f64::from(u8::from(one == node))).collect::<Vec<_>>();
        let mut pages = vec![0.0; load.len()];
        named.iter().for_each(|node| pages[*node] = 1.0 / named.len() as f64);
        let is_used = |node: &&usize| load[**node] > 0.0;
        let policy = match named.len() {
            0 => PagePolicy::FirstTouch,
            1 => PagePolicy::Bound,
            _ => PagePolicy::Interleaved,
        };
        let bound = policy != PagePolicy::FirstTouch;
        let local: f64 = load.iter().zip(if bound { &pages } else { &load }).map(|(load, pages)| load * pages).sum();
        MemoryFeatures {
            policy,
            nodes: named.len() as f64,
            local_nodes: named.iter().filter(is_used).count() as f64 / positive(&load).max(1.0),
            local: if bound { local } else { 1.0 },
            bound: if bound { self.by_distance(&load, &pages) } else { vec![0.0; self.distances.len()] },
            first: self.by_distance(&load, &on_one(first)),
            spread: self.by_distance(&load, &load),
            threads_first: load.get(first).copied().unwrap_or(1.0),
            threads_max: load.iter().copied().fold(0.0, f64::max),
        }
    }

    fn node(&self, node: NodeId) -> Option<usize> {
        self.machine.nodes.iter().position(|other| *other == node)
    }

    /// Returns the shares of accesses by distance, if threads and pages are spread like this.
    fn by_distance(&self, load: &[f64], pages: &[f64]) -> Vec<f64> {
        let nodes = self.machine.nodes.len();
        let mut shares = vec![0.0; self.distances.len()];
        if nodes == 0 {
            shares[0] = 1.0;
            return shares;
        }
        for (from, load) in load.iter().enumerate().filter(|(_, load)| **load > 0.0) {
            for (to, pages) in pages.iter().enumerate().filter(|(_, pages)| **pages > 0.0) {
                shares[self.distance_of[from * nodes + to]] += load * pages;
            }
        }
        shares
    }
}

/// Counts the seats of each group.
fn tally(seats: &[usize], groups: usize, of: impl Fn(usize) -> Option<usize>) -> Vec<f64> {
    let mut counts = vec![0.0; groups];
    seats.iter().filter_map(|cpu| of(*cpu)).for_each(|group| counts[group] += 1.0);
    counts
}

fn positive(counts: &[f64]) -> f64 {
    counts.iter().filter(|count| **count > 0.0).count() as f64
}

/// Takes the first of each list, then the second of each, until all are taken.
fn in_turns(lists: &[Vec<usize>]) -> Vec<usize> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|turn| lists.iter().filter_map(move |list| list.get(turn).copied())).collect()
}

/// Returns the different distances relative to the local one, and the index of each value among them. Many values are
/// merged with their neighbours.
fn classes(values: &[u64]) -> (Vec<f64>, Vec<usize>) {
    let mut different = values.to_vec();
    different.sort_unstable();
    different.dedup();
    if different.is_empty() {
        return (vec![1.0], Vec::new());
    }
    let size = different.len().div_ceil(DISTANCES_MAX);
    let means = different.chunks(size).map(|chunk| chunk.iter().sum::<u64>() as f64 / chunk.len() as f64 / 10.0);
    let class = |value: &u64| different.binary_search(value).expect("the value is in its own list") / size;
    (means.collect(), values.iter().map(class).collect())
}
