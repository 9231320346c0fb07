//! The generic kind of program: a random mixture of work, communication, latency and bandwidth of memory, and caches,
//! with what migrations, interrupts, a second command and more threads may cost. Must not depend on measurements.

use super::features::{CandidateFeatures, FeatureTable, LEVELS, MachineSummary, PagePolicy};
use super::programs::weighted;
use super::random::Random;

/// Parameters of one program.
struct Generic {
    siblings: f64,
    slow: f64,
    turbo: f64,
    /// Cost of communication by level, at most 1.
    talk: [f64; LEVELS],
    /// Share of communication between all pairs; the rest is between neighbours.
    all_pairs: f64,
    /// Whether communication grows with the number of threads.
    talk_grows: bool,
    /// Share of pages that the first thread touches.
    first: f64,
    /// Latency by distance.
    latencies: Vec<f64>,
    /// Number of threads that the memory of a node feeds.
    per_node: f64,
    crowd_exponent: f64,
    latency_exponent: f64,
    /// Share of the CPUs of a cache that the cache feeds.
    per_cache: f64,
    /// Shares of time in the parts, for the baseline.
    weights: [f64; PARTS],
    /// 1 adds the parts, 3 lets the largest decide.
    norm: i32,
    serial: f64,
    scaling: Option<Scaling>,
    costs: Costs,
}

/// Work, communication, latency, bandwidth, caches.
const PARTS: usize = 5;

/// The universal scalability law.
struct Scaling {
    contention: f64,
    coherence: f64,
    /// Whether coherence depends on where threads meet.
    by_talk: bool,
    /// Whether it is relative to all of the time instead of to the work.
    of_all: bool,
}

/// Relative costs that do not depend on the parts.
struct Costs {
    unbound: f64,
    loose: f64,
    interrupted: f64,
    interleaved: f64,
    oversubscribed: f64,
    /// Cost of sharing a core with the second command, and of a large distance to it.
    second_core: f64,
    second_far: f64,
    interrupts_far: f64,
}

/// Returns the log times of a random program of this kind.
pub(super) fn log_times(
    machine: &MachineSummary,
    threads_searched: bool,
    table: &FeatureTable,
    random: &mut Random,
) -> Vec<f64> {
    let generic = Generic::draw(machine, threads_searched, random);
    let parts: Vec<[f64; PARTS]> =
        table.candidates.iter().map(|one| generic.parts(one, machine, threads_searched)).collect();
    let mixed: Vec<f64> = parts.iter().map(|of| generic.mixed(of, &parts[0])).collect();
    let talk_most = parts.iter().map(|of| of[1]).fold(1e-9, f64::max);
    let candidates = table.candidates.iter().zip(&parts).zip(&mixed);
    candidates
        .map(|((one, of), time)| {
            let grown = generic.scaling.as_ref().map_or(0.0, |law| {
                let all = if law.of_all { mixed[0] } else { 1.0 };
                let share = one.work(machine, threads_searched) / one.threads;
                law.cost(one.threads, of[1] / talk_most) * share / parts[0][0].max(1e-9) * all
            });
            (time + grown).max(1e-12).ln() + generic.costs.log(one)
        })
        .collect()
}

impl Generic {
    fn draw(machine: &MachineSummary, threads_searched: bool, random: &mut Random) -> Self {
        let mut level = 0.0;
        let levels = [(); LEVELS].map(|()| {
            level += random.gamma(0.7);
            level
        });
        let gamma = random.uniform(0.3, 1.3);
        Self {
            siblings: random.uniform(0.85, 1.6),
            slow: random.uniform(0.4, 0.95),
            turbo: random.uniform(0.0, 0.12),
            talk: levels.map(|cost| cost / level.max(1e-9)),
            all_pairs: mostly(random, 0.0, 1.0),
            talk_grows: random.chance(0.3),
            first: mostly(random, 0.0, 1.0),
            latencies: machine.distances.iter().map(|distance| distance.powf(gamma)).collect(),
            per_node: random.log_uniform(0.7, (machine.cpus / machine.homes.max(1.0)).max(2.0)),
            crowd_exponent: random.uniform(0.6, 1.0),
            latency_exponent: random.unit(),
            per_cache: random.uniform(0.1, 1.0),
            weights: random.shares([0.6, 0.35, 0.35, 0.35, 0.35]),
            norm: if random.chance(1.0 / 3.0) { 3 } else { 1 },
            serial: if random.chance(0.5) { random.uniform(0.0, 0.3) } else { 0.0 },
            scaling: (threads_searched && random.chance(0.6)).then(|| Scaling {
                contention: random.log_uniform(1e-4, 3.0),
                coherence: random.log_uniform(3e-7, 0.3),
                by_talk: random.chance(0.5),
                of_all: random.chance(0.5),
            }),
            costs: Costs::draw(random),
        }
    }

    /// The parts of a candidate's time, each in its own unit.
    fn parts(&self, one: &CandidateFeatures, machine: &MachineSummary, threads_searched: bool) -> [f64; PARTS] {
        let all = one.work(machine, threads_searched);
        let share = all / one.threads;
        let work = all / one.throughput(self.siblings, self.slow, self.turbo).max(1e-9);
        let mix = |pairs: f64, next: f64| self.all_pairs * pairs + (1.0 - self.all_pairs) * next;
        let talk = mix(weighted(&one.pairs, &self.talk), weighted(&one.next, &self.talk)) * share;
        let talk = if self.talk_grows { talk * one.threads.sqrt() } else { talk };
        let memory = &one.memory;
        let latency = if memory.policy == PagePolicy::FirstTouch {
            let spread = 1.0 - self.first;
            self.first
                * (self.first * weighted(&memory.first, &self.latencies)
                    + spread * weighted(&memory.spread, &self.latencies))
                + spread
        } else {
            weighted(&memory.bound, &self.latencies)
        };
        let crowd = (one.pages_max(self.first) * one.used / self.per_node).max(1.0);
        let bandwidth = crowd.powf(self.crowd_exponent) * latency.powf(self.latency_exponent);
        let fed: f64 =
            one.caches.iter().map(|cache| cache.caches * cache.threads.min(cache.cpus * self.per_cache)).sum();
        [work, talk + 1e-3, latency * share, bandwidth * share, all / fed.max(0.5)]
    }

    /// The time relative to that of the baseline.
    fn mixed(&self, parts: &[f64; PARTS], baseline: &[f64; PARTS]) -> f64 {
        let part = |index: usize| (self.weights[index] * parts[index] / baseline[index].max(1e-9)).powi(self.norm);
        let sum: f64 = (0..PARTS).map(part).sum();
        let parallel = if self.norm == 1 { sum } else { sum.cbrt() };
        self.serial + (1.0 - self.serial) * parallel
    }
}

impl Scaling {
    fn cost(&self, threads: f64, talk: f64) -> f64 {
        let coherence = if self.by_talk { self.coherence * talk } else { self.coherence };
        self.contention * (threads - 1.0) + coherence * threads * (threads - 1.0)
    }
}

impl Costs {
    fn draw(random: &mut Random) -> Self {
        let mut sometimes = |probability: f64, most: f64| {
            if random.chance(probability) { random.uniform(0.0, most) } else { 0.0 }
        };
        Self {
            unbound: sometimes(1.0, 0.08),
            loose: sometimes(1.0, 0.03),
            interrupted: sometimes(1.0 / 3.0, 0.3),
            oversubscribed: sometimes(1.0 / 3.0, 0.5),
            second_core: sometimes(0.7, 0.6),
            second_far: sometimes(0.7, 0.4),
            interrupts_far: sometimes(0.3, 0.3),
            interleaved: random.uniform(-0.01, 0.04),
        }
    }

    fn log(&self, one: &CandidateFeatures) -> f64 {
        let when = |condition: bool, cost: f64| if condition { cost } else { 0.0 };
        // Costs grow with distance, as between the levels of most machines.
        let distance: [f64; LEVELS] = [0.0, 0.1, 0.2, 0.5, 0.6, 1.0];
        let over = (one.threads / one.used.max(1.0) - 1.0).clamp(0.0, 3.0);
        when(one.unbound, self.unbound)
            + when(one.loose > 0.0, self.loose)
            + when(one.memory.policy == PagePolicy::Interleaved, self.interleaved)
            + when(one.interrupts[0] > 0.0, self.interrupted.ln_1p())
            + (self.oversubscribed * over).ln_1p()
            + (self.second_core * one.second[0]).ln_1p()
            + (self.second_far * weighted(&one.second, &distance)).ln_1p()
            + (self.interrupts_far * weighted(&one.interrupts, &distance)).ln_1p()
    }
}

/// Returns one of both ends, or a uniform variate between them, with equal probability.
fn mostly(random: &mut Random, low: f64, high: f64) -> f64 {
    match random.below(3) {
        0 => low,
        1 => high,
        _ => random.uniform(low, high),
    }
}
