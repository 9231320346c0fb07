//! Watching a trial: counters of the machine before and after, and looks at the trial's threads while it runs.
//! Facts only; `model::values::trial` weighs them. What cannot be observed is said with the reason, and nothing here fails.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::MemoryPolicy;
use model::values::trial::{CpuTime, Evidence};
use model::values::units::{Bytes, Nanos};

use crate::proc::{NumaPages, Proc};
use crate::{cpu_times, syscall, thread_time};

/// The first look comes at once, the second after this, each later one after twice the time, up to the longest.
const INTERVAL_FIRST: Duration = Duration::from_millis(5);
/// Rare enough not to disturb, and often enough to catch a thread that strays for a second.
const INTERVAL_LONGEST: Duration = Duration::from_millis(100);
/// Looking may take one part in so many of our own cpu's time, however many threads there are.
const LOOKING_SHARE: u32 = 20;
/// `numa_maps` walks page tables under the lock that page faults take, so it gets a smaller share.
const PAGES_SHARE: u32 = 100;
/// Between two readings of `numa_maps`: growing from the first to the second.
const PAGES_INTERVALS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(10));
/// Bounds of one look: a larger trial is described by its first ones, and says so.
const PROCESSES_MAX: usize = 1024;
const THREADS_MAX: usize = 4096;
/// Threads whose migrations are remembered.
const THREADS_REMEMBERED_MAX: usize = 65_536;
/// Governors take tens of milliseconds to raise the frequency, which is no throttling.
const FREQUENCY_FROM: Duration = Duration::from_millis(200);

/// What the trial's cpus and the whole machine did since boot; a reason where that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// The cpus that the trial may use.
    cpus: CpuSet,
    cpu_times: Result<BTreeMap<CpuId, CpuTime>, String>,
    pressure_cpu: Result<Nanos, String>,
    pressure_memory: Result<Nanos, String>,
    interrupts: Result<u64, String>,
    oom_kills: Result<u64, String>,
}

impl Counters {
    /// Reads them for these cpus.
    pub(crate) fn read(proc: &Proc, cpus: &CpuSet) -> Self {
        Self {
            cpus: cpus.clone(),
            cpu_times: proc.cpu_times(),
            pressure_cpu: proc.pressure("cpu"),
            pressure_memory: proc.pressure("memory"),
            interrupts: proc.interrupts(cpus),
            oom_kills: proc.oom_kills(),
        }
    }

    /// Writes what happened between two readings. `cpu_time` of the evidence must be there: what was busy beyond it
    /// was somebody else. Busy and stolen time come in whole ticks of 10 ms, and most kernels book a tick on whoever
    /// runs when it ends, so both are rough for short trials.
    pub(crate) fn explain(before: &Self, after: &Self, evidence: &mut Evidence) {
        let own = evidence.cpu_time;
        let times = both(&before.cpu_times, &after.cpu_times).map(|(a, b)| cpu_times::between(a, b));
        let seats = times.as_ref().map_err(|why| (*why).clone()).and_then(|times| cpu_times::of(times, &before.cpus));
        let foreign = |seats: CpuTime| Nanos(seats.busy().0.saturating_sub(own.0));
        evidence.foreign = note(evidence, "foreign", seats.clone().map(foreign));
        evidence.steal = note(evidence, "steal", seats.map(|seats| seats.steal));
        evidence.cpu_times = note(evidence, "cpu_times", times).unwrap_or_default();
        let grown = |(a, b): (&Nanos, &Nanos)| Nanos(b.0.saturating_sub(a.0));
        let pressure = both(&before.pressure_cpu, &after.pressure_cpu).map(grown);
        evidence.pressure_cpu = note(evidence, "pressure_cpu", pressure);
        let pressure = both(&before.pressure_memory, &after.pressure_memory).map(grown);
        evidence.pressure_memory = note(evidence, "pressure_memory", pressure);
        let more = |(a, b): (&u64, &u64)| b.saturating_sub(*a);
        let interrupts = both(&before.interrupts, &after.interrupts).map(more);
        evidence.interrupts = note(evidence, "interrupts", interrupts);
        let oom_kills = both(&before.oom_kills, &after.oom_kills).map(more);
        evidence.oom_kills = note(evidence, "oom_kills", oom_kills);
    }
}

fn both<'a, T>(before: &'a Result<T, String>, after: &'a Result<T, String>) -> Result<(&'a T, &'a T), &'a String> {
    Ok((before.as_ref()?, after.as_ref()?))
}

/// The value, or a note of why there is none.
fn note<T, E: ToString>(evidence: &mut Evidence, field: &str, value: Result<T, E>) -> Option<T> {
    value.map_err(|why| evidence.unavailable.insert(field.into(), why.to_string())).ok()
}

/// What a watch is to look for.
#[derive(Clone, Debug)]
pub(crate) struct WatchScope {
    pub memory: MemoryPolicy,
    /// The memory nodes of its seats, if it has any.
    pub local_nodes: Option<NodeSet>,
    /// Whether migrations are counted elsewhere.
    pub migrations_counted: bool,
}

/// Looks at the threads of one trial and remembers what it saw.
#[derive(Debug)]
pub(crate) struct TrialMonitor {
    proc: Proc,
    leader: u32,
    started: Instant,
    question: WatchScope,
    has_swap: bool,
    pages_asked: Result<(), String>,
    pages_next: Duration,
    looks: u64,
    threads_seen: u64,
    cpus_seen: CpuSet,
    masks: CpuSet,
    capped: bool,
    swapped: Option<Bytes>,
    /// The reading with the most pages, and that with the most where none should be.
    pages: NumaPages,
    pages_astray: NumaPages,
    pages_why: Option<String>,
    migrations: HashMap<u32, MigrationCount>,
    frequencies: BTreeMap<CpuId, (u64, u64)>,
    frequency_why: Option<String>,
}

/// How often a thread had moved when it was first and last looked at.
#[derive(Clone, Copy, Debug)]
struct MigrationCount {
    from: u64,
    to: u64,
}

impl TrialMonitor {
    /// Of the process `leader`, which leads a process group of its own and began at `started`.
    pub(crate) fn new(proc: Proc, leader: u32, started: Instant, question: WatchScope) -> Self {
        Self {
            has_swap: proc.has_swap(),
            pages_asked: pages_asked(&proc, &question.memory),
            proc,
            leader,
            started,
            question,
            pages_next: Duration::ZERO,
            looks: 0,
            threads_seen: 0,
            cpus_seen: CpuSet::new(),
            masks: CpuSet::new(),
            capped: false,
            swapped: None,
            pages: NumaPages::default(),
            pages_astray: NumaPages::default(),
            pages_why: None,
            migrations: HashMap::new(),
            frequencies: BTreeMap::new(),
            frequency_why: None,
        }
    }

    /// Looks at every thread once, and says when to look again. Also sees a leader that is dead and not yet reaped.
    pub(crate) fn sample(&mut self) -> Duration {
        // Waiting for a cpu, as where the trial has them all, costs it nothing.
        let began = thread_time::used();
        let pids = self.processes();
        let threads = self.look_at_threads(&pids);
        if threads > 0 {
            self.looks += 1;
            self.threads_seen = self.threads_seen.max(threads);
        }
        self.look_at_swap(&pids);
        let cost = thread_time::used().saturating_sub(began);
        self.look_at_pages(&pids);
        interval(self.looks, cost)
    }

    /// The leader, its descendants, and orphans of its group, which this process adopts (`child` makes it a subreaper).
    fn processes(&self) -> Vec<u32> {
        let own = std::process::id();
        let Some(adopted) = self.proc.children(own) else {
            return self.proc.processes_of_group(self.leader);
        };
        let in_group = |pid: &u32| {
            *pid == self.leader || self.proc.thread_stat(*pid, *pid).is_some_and(|stat| stat.group == self.leader)
        };
        let mut pids: Vec<u32> = adopted.into_iter().filter(in_group).collect();
        let mut next = 0;
        while let Some(pid) = pids.get(next).copied().filter(|_| pids.len() < PROCESSES_MAX) {
            pids.extend(self.proc.children(pid).unwrap_or_default());
            next += 1;
        }
        pids.truncate(PROCESSES_MAX);
        pids
    }

    fn look_at_threads(&mut self, pids: &[u32]) -> u64 {
        let mut threads = 0;
        for pid in pids {
            for tid in self.proc.threads(*pid) {
                if threads == THREADS_MAX {
                    self.capped = true;
                    return threads as u64;
                }
                threads += usize::from(self.look_at_thread(*pid, tid));
            }
        }
        threads as u64
    }

    /// Whether it was still there.
    fn look_at_thread(&mut self, pid: u32, tid: u32) -> bool {
        let Some(stat) = self.proc.thread_stat(pid, tid) else { return false };
        self.cpus_seen.insert(stat.cpu);
        if let Ok(mask) = syscall::affinity(tid) {
            self.masks = self.masks.union(&mask.to_set());
        }
        if !self.question.migrations_counted && self.migrations.len() < THREADS_REMEMBERED_MAX {
            self.look_at_moves(pid, tid);
        }
        if stat.state == 'R' && self.started.elapsed() > FREQUENCY_FROM {
            self.look_at_frequency(stat.cpu);
        }
        true
    }

    fn look_at_moves(&mut self, pid: u32, tid: u32) {
        let Some(moves) = self.proc.migrations(pid, tid) else { return };
        // The leader was moved to its seats before its exec; what other threads did, they did in the trial.
        let from = if tid == self.leader { moves } else { 0 };
        self.migrations.entry(tid).or_insert(MigrationCount { from, to: moves }).to = moves;
    }

    /// Only of cpus on which the trial is just running: an idle core's frequency says nothing about the trial.
    fn look_at_frequency(&mut self, cpu: CpuId) {
        match self.proc.frequency_khz(cpu) {
            Ok(khz) => {
                let range = self.frequencies.entry(cpu).or_insert((khz, khz));
                *range = (range.0.min(khz), range.1.max(khz));
            }
            Err(why) => self.frequency_why = Some(why),
        }
    }

    fn look_at_swap(&mut self, pids: &[u32]) {
        if self.has_swap {
            let swapped: Vec<Bytes> = pids.iter().filter_map(|pid| self.proc.swapped(*pid)).collect();
            if !swapped.is_empty() {
                let sum = Bytes(swapped.iter().map(|bytes| bytes.0).sum());
                self.swapped = self.swapped.max(Some(sum));
            }
        }
    }

    fn look_at_pages(&mut self, pids: &[u32]) {
        let now = self.started.elapsed();
        if self.pages_asked.is_err() || now < self.pages_next {
            return;
        }
        let began = Instant::now();
        let mut sum = NumaPages::default();
        for pid in pids {
            match self.proc.numa_pages(*pid) {
                Ok(pages) => sum.add(&pages),
                Err(error) => self.pages_why = Some(format!("/proc/{pid}/numa_maps: {error}")),
            }
        }
        self.keep(sum);
        let (first, longest) = PAGES_INTERVALS;
        self.pages_next = now + now.clamp(first, longest).max(began.elapsed() * PAGES_SHARE);
    }

    /// Keeps the reading with the most anonymous pages, as near its end a program may already be giving them back, and
    /// that with the most pages elsewhere, as somebody may have moved them meanwhile.
    fn keep(&mut self, pages: NumaPages) {
        if self.astray(&pages) >= self.astray(&self.pages_astray) {
            self.pages_astray = pages.clone();
        }
        if pages.anonymous_count() >= self.pages.anonymous_count() {
            self.pages = pages;
        }
    }

    /// How many pages are on nodes where the policy has none, while there is room.
    fn astray(&self, pages: &NumaPages) -> u64 {
        let WatchScope { memory, local_nodes, .. } = &self.question;
        let is_there = |node: NodeId| match memory {
            MemoryPolicy::Preferred(preferred) => node == *preferred,
            MemoryPolicy::Local => local_nodes.as_ref().is_none_or(|nodes| nodes.contains(node)),
            policy => policy.promised_nodes().is_none_or(|nodes| nodes.contains(node)),
        };
        pages.anonymous.iter().filter(|(node, _)| !is_there(**node)).map(|(_, count)| count).sum()
    }

    /// The reading to judge by. A few pages astray of few in all are those from before the policy; of as many as half of
    /// the most they are the trial's own.
    fn pages_to_judge(&self) -> NumaPages {
        let large = self.pages_astray.anonymous_count() * 2 >= self.pages.anonymous_count();
        let worse = self.astray(&self.pages_astray) > self.astray(&self.pages);
        if large && worse { self.pages_astray.clone() } else { self.pages.clone() }
    }

    /// Writes down all that was seen.
    pub(crate) fn into_evidence(self, evidence: &mut Evidence) {
        let pages = self.pages_to_judge();
        evidence.polls = self.looks;
        evidence.threads_seen = self.threads_seen;
        evidence.swapped = if self.has_swap { self.swapped } else { Some(Bytes(0)) };
        let gone = "it ended before it could be looked at";
        if self.looks == 0 {
            for field in ["cpus_seen", "mask_at_end"] {
                evidence.unavailable.insert(field.into(), gone.into());
            }
        } else {
            evidence.mask_at_end = Some(self.masks).filter(|masks| !masks.is_empty());
        }
        if self.capped {
            let why = format!("of more than {THREADS_MAX} threads only the first were looked at");
            evidence.unavailable.insert("threads_seen".into(), why);
        }
        if evidence.swapped.is_none() {
            evidence.unavailable.insert("swapped".into(), gone.into());
        }
        if !self.question.migrations_counted {
            let sampled = (!self.migrations.is_empty()).then(|| migrations(&self.migrations));
            let sampled =
                sampled.ok_or("no /proc/PID/sched could be read: it ended early, or the kernel lacks the file");
            evidence.migrations = note(evidence, "migrations", sampled);
        }
        if pages.anonymous_count() == 0 {
            let why = self.pages_asked.err().or(self.pages_why).unwrap_or_else(|| gone.into());
            evidence.unavailable.insert("pages".into(), why);
        }
        evidence.pages = pages.anonymous;
        evidence.file_pages = pages.file;
        evidence.local_nodes = self.question.local_nodes.filter(|_| self.question.memory == MemoryPolicy::Local);
        let frequency = widest(&self.frequencies).ok_or_else(|| {
            self.frequency_why.unwrap_or_else(|| format!("it ran less than {} ms", FREQUENCY_FROM.as_millis()))
        });
        evidence.frequency_khz = note(evidence, "frequency_khz", frequency);
        evidence.cpus_seen = self.cpus_seen;
    }
}

/// `numa_maps` costs page faults of large trials dearly, so it is only read where it can say something.
fn pages_asked(proc: &Proc, memory: &MemoryPolicy) -> Result<(), String> {
    match proc.memory_node_count() {
        None => Err("this kernel is built without NUMA".into()),
        Some(1) if memory.promised_nodes().is_none() => Err("not looked at: there is one memory node".into()),
        Some(_) => Ok(()),
    }
}

/// How long to wait after the n-th look, which cost this much.
fn interval(looks: u64, cost: Duration) -> Duration {
    let doublings = looks.saturating_sub(1).min(16) as u32;
    (INTERVAL_FIRST * (1 << doublings)).min(INTERVAL_LONGEST).max(cost * LOOKING_SHARE)
}

fn migrations(by_thread: &HashMap<u32, MigrationCount>) -> u64 {
    by_thread.values().map(|moves| moves.to.saturating_sub(moves.from)).sum()
}

/// The lowest and highest frequency of that cpu on which they differ most: big and little cores always differ, one core
/// only when it is throttled.
fn widest(ranges: &BTreeMap<CpuId, (u64, u64)>) -> Option<(u64, u64)> {
    ranges.values().copied().max_by(|a, b| fall(*a).total_cmp(&fall(*b)))
}

fn fall((low, high): (u64, u64)) -> f64 {
    (high - low) as f64 / high.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_moved_are_not_hidden_by_a_larger_reading() {
        let node_0 = || NodeSet::parse_list("0").unwrap();
        let check_of = |memory: MemoryPolicy, readings: &[&[(u32, u64)]], expected: &[(u32, u64)]| {
            let question = WatchScope { memory, local_nodes: Some(node_0()), migrations_counted: true };
            let mut watch = TrialMonitor::new(Proc::live(), 1, Instant::now(), question);
            let pages = |list: &[(u32, u64)]| list.iter().map(|(node, count)| (NodeId(*node), *count)).collect();
            readings.iter().for_each(|reading| {
                watch.keep(NumaPages { anonymous: pages(reading), file: BTreeMap::new() });
            });
            assert_eq!(watch.pages_to_judge().anonymous, pages(expected), "{readings:?}");
        };
        let check = |readings: &[&[(u32, u64)]], expected: &[(u32, u64)]| {
            check_of(MemoryPolicy::Bind(node_0()), readings, expected);
        };
        check(&[&[(0, 4000)], &[(1, 3990)]], &[(1, 3990)]);
        check(&[&[(0, 4000)], &[(0, 10)]], &[(0, 4000)]);
        // Before the policy was there, a page or two lay elsewhere.
        check(&[&[(0, 8), (1, 2)], &[(0, 4000), (1, 1)]], &[(0, 4000), (1, 1)]);
        check(&[&[(0, 100)], &[(0, 4000)], &[(0, 3000)]], &[(0, 4000)]);
        check(&[], &[]);
        let moved: &[&[(u32, u64)]] = &[&[(0, 4000)], &[(1, 3990)]];
        check_of(MemoryPolicy::Preferred(NodeId(0)), moved, &[(1, 3990)]);
        check_of(MemoryPolicy::Local, moved, &[(1, 3990)]);
        check_of(MemoryPolicy::Kernel, moved, &[(0, 4000)]);
    }
}
