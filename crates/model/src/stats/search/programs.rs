//! Simulated programs: log times of all candidates for one random program of a kind. They make the prior of a search,
//! and serve to evaluate it; they do not predict a program. Must not depend on measurements.
//!
//! The generic kind follows Pandia (Goodman, Varisteas and Harris, `EuroSys` 2017); its costs that
//! grow with the number of threads follow the universal scalability law (Gunther, 2007).

use super::features::{ByLevel, CandidateFeatures, FeatureTable, Features, MachineSummary, PagePolicy};
use super::random::Random;
use crate::values::plan::ProgramKind;

/// Relative communication costs of two threads by the level that they share.
const COMMUNICATION: ByLevel = [0.5, 0.9, 1.0, 2.1, 2.5, 4.0];
/// Exponent of the diminishing gain of further threads on a core.
const SIBLING_EXPONENT: f64 = 0.6;

/// A program of a kind on a machine, for one number of threads.
struct Scene<'a> {
    machine: &'a MachineSummary,
    candidates: &'a [CandidateFeatures],
    threads_searched: bool,
}

/// Throughput of cores, relative to one thread on a fast core.
struct Cores {
    /// Throughput of two threads of a core.
    siblings: f64,
    /// Speed of each kind of core relative to the next faster.
    slow: f64,
    /// Loss of clock frequency if all CPUs of a package have threads.
    turbo: f64,
}

/// Returns the log times of a random program, which runs with the number of threads of this table.
pub fn log_times(kind: ProgramKind, features: &Features, table: &FeatureTable, random: &mut Random) -> Vec<f64> {
    let scene = Scene {
        machine: &features.machine,
        candidates: &table.candidates,
        threads_searched: features.threads_searched,
    };
    match kind {
        ProgramKind::Generic => super::generic::log_times(&features.machine, features.threads_searched, table, random),
        ProgramKind::Compute => scene.compute(random),
        ProgramKind::Sharing => scene.sharing(random),
        ProgramKind::Bandwidth => scene.bandwidth(random),
        ProgramKind::FirstTouch => scene.first_touch(random),
        ProgramKind::Serial => scene.serial(random),
        ProgramKind::Lock => scene.lock(random),
        ProgramKind::Pipeline => scene.pipeline(random),
        ProgramKind::CacheCapacity => scene.cache_capacity(random),
        ProgramKind::Interrupts => scene.interrupts(random),
        ProgramKind::PageMigration => scene.page_migration(random),
    }
}

impl CandidateFeatures {
    /// The work of the program: that of one thread per core if the number of threads is searched.
    pub(super) fn work(&self, machine: &MachineSummary, threads_searched: bool) -> f64 {
        if threads_searched { machine.cores } else { self.threads }
    }

    pub(super) fn throughput(&self, siblings: f64, slow: f64, turbo: f64) -> f64 {
        let core = |core: &super::features::CoreUse| {
            let more = (core.threads - 1.0).max(0.0).powf(SIBLING_EXPONENT);
            core.cores * slow.powi(core.kind as i32) * (1.0 + (siblings - 1.0) * more)
        };
        self.cores.iter().map(core).sum::<f64>() * (1.0 - turbo * self.fullness)
    }

    pub(super) fn pages_first(&self) -> &[f64] {
        if self.memory.policy == PagePolicy::FirstTouch { &self.memory.first } else { &self.memory.bound }
    }

    /// Number of nodes with pages, if the first thread touches all.
    fn page_nodes(&self) -> f64 {
        self.memory.nodes.max(1.0)
    }

    /// Maximum share of pages on one node, if `first` of them are on the node of the first thread and the others are
    /// spread like the threads.
    pub(super) fn pages_max(&self, first: f64) -> f64 {
        let memory = &self.memory;
        if memory.policy != PagePolicy::FirstTouch {
            return 1.0 / memory.nodes.max(1.0);
        }
        let spread = 1.0 - first;
        (first + spread * memory.threads_first).max(spread * memory.threads_max)
    }

    fn is_bound(&self) -> bool {
        self.memory.policy != PagePolicy::FirstTouch
    }
}

/// Returns a random value near the usual one: log-normal, with a deviation of 25 %.
fn around(random: &mut Random, usual: f64) -> f64 {
    usual * (0.25 * random.normal()).exp()
}

/// Costs by level with random deviations, never cheaper further away.
fn costs(random: &mut Random, usual: ByLevel, deviation: f64) -> ByLevel {
    let mut most = 0.0f64;
    usual.map(|cost| {
        most = most.max(cost * (deviation * random.normal()).exp());
        most
    })
}

pub(super) fn weighted(shares: &[f64], costs: &[f64]) -> f64 {
    shares.iter().zip(costs).map(|(share, cost)| share * cost).sum()
}

impl Cores {
    fn around(random: &mut Random, siblings: f64) -> Self {
        Self {
            siblings: 1.0 + around(random, siblings - 1.0),
            slow: around(random, 0.6).clamp(0.3, 0.95),
            turbo: around(random, 0.05),
        }
    }

    fn of(&self, candidate: &CandidateFeatures) -> f64 {
        candidate.throughput(self.siblings, self.slow, self.turbo)
    }
}

impl Scene<'_> {
    fn each(&self, time: impl Fn(&CandidateFeatures) -> f64) -> Vec<f64> {
        self.candidates.iter().map(|candidate| time(candidate).max(1e-12).ln()).collect()
    }

    fn work(&self, candidate: &CandidateFeatures) -> f64 {
        candidate.work(self.machine, self.threads_searched)
    }

    /// Work per thread.
    fn share(&self, candidate: &CandidateFeatures) -> f64 {
        self.work(candidate) / candidate.threads
    }

    /// Distances to the power of `exponent`.
    fn latencies(&self, exponent: f64) -> Vec<f64> {
        self.machine.distances.iter().map(|distance| distance.powf(exponent)).collect()
    }

    fn has_nodes(&self) -> bool {
        self.machine.nodes > 1.0
    }

    fn compute(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores::around(random, 1.25);
        let bound = |candidate: &CandidateFeatures| candidate.memory.policy == PagePolicy::Bound;
        self.each(|one| self.work(one) / cores.of(one) * if bound(one) { 1.01 } else { 1.0 })
    }

    fn communication(random: &mut Random) -> impl Fn(&CandidateFeatures) -> f64 + use<> {
        let costs = COMMUNICATION.map(|cost| cost * (0.15 * random.normal()).exp());
        move |one| if one.threads > 1.0 { weighted(&one.pairs, &costs) } else { 0.5 }
    }

    fn sharing(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores::around(random, 1.35);
        let (pairs, talk) = (Self::communication(random), around(random, 0.20));
        self.each(|one| 0.55 * self.work(one) / cores.of(one) + talk * pairs(one) * self.share(one))
    }

    fn serial(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores::around(random, 1.2);
        let (pairs, talk) = (Self::communication(random), around(random, 0.004));
        self.each(|one| {
            let work = self.work(one) / cores.of(one) / self.machine.cores;
            0.12 + 0.88 * work + talk * one.threads * pairs(one)
        })
    }

    fn bandwidth(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores::around(random, 1.05);
        let (feeds, single) = (around(random, 1.0), around(random, 2.6));
        let node = around(random, if self.machine.homes <= 8.0 { 3.0 } else { 8.0 });
        self.each(|one| {
            let cache = |cache: &super::features::CacheUse| {
                let fed = feeds * if cache.cpus <= 8.0 { 1.7 } else { 0.45 * cache.cpus };
                cache.caches * cache.threads.min(fed)
            };
            let caches: f64 = one.caches.iter().map(cache).sum();
            let bandwidth = if !self.has_nodes() {
                caches.min(single) * (1.0 + 0.004 * one.cache_count())
            } else if one.is_bound() {
                (caches * 0.9).min(one.page_nodes() * node * (0.75 + 0.2 * one.memory.local_nodes))
            } else {
                caches.min(one.used / (one.memory.threads_max * one.used / node).max(1.0))
            };
            0.1 * self.work(one) / cores.of(one) + 0.9 * self.work(one) / bandwidth
        })
    }

    fn first_touch(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores::around(random, 1.5);
        let pairs = Self::communication(random);
        let single = around(random, 4.0);
        let node = around(random, if self.machine.homes <= 8.0 { 5.0 } else { 14.0 });
        let latencies = self.latencies(around(random, 0.6));
        self.each(|one| {
            let work = self.work(one) / cores.of(one);
            if !self.has_nodes() {
                let fast: f64 = one.cores.iter().map(|core| core.cores * 0.6f64.powi(core.kind as i32)).sum();
                return 0.5 * work + 0.10 * pairs(one) + 0.3 * self.work(one) / fast.min(single);
            }
            let crowd = (one.used / (node * one.page_nodes())).powf(0.8).max(1.0);
            0.35 * work + 0.65 * weighted(one.pages_first(), &latencies) * crowd * self.share(one)
        })
    }

    /// Threads pass a lock between CPUs, which costs time; once it is saturated, they wait.
    fn lock(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores {
            siblings: random.uniform(1.1, 1.5),
            slow: random.uniform(0.5, 0.8),
            turbo: random.uniform(0.0, 0.1),
        };
        let costs = costs(random, [0.3, 0.6, 1.0, 2.0, 2.5, 5.0], 0.2);
        let (part, wait, crossing) = (random.uniform(0.02, 0.12), random.uniform(0.2, 0.6), random.uniform(0.5, 2.0));
        let most = self.candidates.iter().map(|one| one.threads).fold(1.0, f64::max);
        self.each(|one| {
            let work = self.work(one) / cores.of(one);
            let handover = if one.threads > 1.0 { weighted(&one.pairs, &costs) } else { 0.3 };
            let busy = part * handover * one.threads / work * (one.threads / most).sqrt();
            let crosses = f64::from(u8::from(one.packages > 1.0));
            let over = (busy - 1.0).max(0.0);
            work * (1.0 + wait * busy.clamp(0.0, 1.0) + over * (1.0 + crossing * crosses))
        })
    }

    /// The slowest stage decides, so one slow or shared core delays all.
    fn pipeline(&self, random: &mut Random) -> Vec<f64> {
        let (slow, siblings) = (random.uniform(0.5, 0.8), random.uniform(0.55, 0.8));
        let scale = random.uniform(0.5, 3.0);
        let hops = costs(random, [0.05, 0.08, 0.1, 0.25, 0.3, 0.6], 0.2).map(|cost| cost * scale);
        let (buffers, latencies) = (random.uniform(0.0, 0.3), self.latencies(random.uniform(0.4, 1.0)));
        self.each(|one| {
            let slowest = if one.cores.iter().any(|core| core.kind > 0) { slow } else { 1.0 };
            let shared = if one.cores.iter().any(|core| core.threads > 1.0) { siblings } else { 1.0 };
            let stage = one.threads / one.used * self.share(one) / slowest / shared;
            let far = one.next.iter().zip(&hops).filter(|(_, hop)| **hop > hops[3]).map(|(share, _)| share);
            let hop = weighted(&one.next, &hops) + 0.5 * hops[5] * far.sum::<f64>();
            stage + hop + buffers * weighted(one.pages_first(), &latencies)
        })
    }

    fn cache_capacity(&self, random: &mut Random) -> Vec<f64> {
        let private = random.uniform(0.4, 2.5);
        let shared = random.uniform(0.0, 0.5) * self.machine.cluster_cpus;
        let cores = Cores {
            siblings: random.uniform(1.0, 1.4),
            slow: random.uniform(0.5, 0.8),
            turbo: random.uniform(0.0, 0.08),
        };
        let (feeds, cost) = (random.uniform(2.0, 10.0), random.uniform(0.4, 1.5));
        let (barrier, latencies) = (random.chance(0.5), self.latencies(0.7));
        self.each(|one| {
            let miss = |threads: f64, cpus: f64| {
                1.0 / (1.0 + (-((threads * private + shared) / cpus.max(1.0) - 1.0) / 0.06).exp())
            };
            let misses = one.caches.iter().map(|cache| miss(cache.threads, cache.cpus));
            let worst = misses.clone().fold(0.0, f64::max);
            let mean = misses.zip(&one.caches).map(|(miss, cache)| miss * cache.threads * cache.caches).sum::<f64>();
            let mean = mean / one.used;
            let latency = if one.is_bound() { weighted(&one.memory.bound, &latencies) } else { 1.0 };
            let crowd = (one.pages_max(0.0) * one.used * mean / feeds).max(1.0);
            let missing = if barrier { worst } else { mean };
            self.work(one) / cores.of(one) * (1.0 + cost * missing * latency * crowd)
        })
    }

    /// Near the CPU of the interrupts, data is in the cache; on its core, threads are interrupted.
    fn interrupts(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores {
            siblings: random.uniform(1.1, 1.6),
            slow: random.uniform(0.5, 0.9),
            turbo: random.uniform(0.0, 0.05),
        };
        let scale = random.uniform(0.4, 1.5);
        let near = costs(random, [0.0, 0.05, 0.08, 0.2, 0.3, 0.6], 0.15).map(|cost| cost * scale);
        let (hit, copies) = (random.uniform(0.05, 0.35), random.uniform(0.0, 0.15));
        self.each(|one| {
            let hit = if one.interrupts[0] > 0.0 { hit } else { 0.0 } * if one.loose > 0.0 { 0.3 } else { 1.0 };
            let far = if one.is_bound() { weighted(&one.memory.bound, &self.machine.distances) - 1.0 } else { 0.0 };
            self.work(one) / cores.of(one) * (1.0 + hit)
                + (weighted(&one.interrupts, &near) + copies * far) * self.share(one)
        })
    }

    /// The first thread touches all memory; the kernel migrates unbound pages to their users, at a cost.
    fn page_migration(&self, random: &mut Random) -> Vec<f64> {
        let cores = Cores {
            siblings: random.uniform(1.1, 1.4),
            slow: random.uniform(0.5, 0.8),
            turbo: random.uniform(0.0, 0.05),
        };
        let (start, after) = (self.latencies(random.uniform(0.5, 1.1)), self.latencies(0.7));
        let (moved, cost) = (random.uniform(0.2, 0.9), random.uniform(0.02, 0.12));
        let (feeds, part) = (random.uniform(3.0, 12.0), random.uniform(0.3, 0.7));
        self.each(|one| {
            let bound = one.is_bound();
            let first = weighted(one.pages_first(), &start);
            let latency =
                if bound { first } else { (1.0 - moved) * first + moved * weighted(&one.memory.spread, &after) };
            let several = f64::from(u8::from(one.nodes > 1.0 && !bound));
            let chase = several * (cost * (1.0 + 0.5 * one.loose) + 0.02 * one.loose);
            let crowd = (one.pages_max(1.0 - moved) * one.used / feeds).powf(0.8).max(1.0);
            let work = (1.0 - part) * self.work(one) / cores.of(one);
            (work + part * latency * crowd * self.share(one)) * chase.exp()
        })
    }
}
