//! Monitors a trial: counters of the machine before and after it, and samples of its threads while it runs. Records
//! facts, or the reasons why they cannot be observed, and never fails; `model::values::trial` judges the facts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::MemoryPolicy;
use model::values::trial::{CpuTime, Evidence, FileKind, FilePages};
use model::values::units::{Bytes, Nanos};

use crate::descendants::Descendants;
use crate::proc::{MemoryCounters, MemoryMounts, NumaPages, Proc};
use crate::thread_counts::{ThreadCounters, ThreadCounts};
use crate::{cpu_times, syscall, sysfs, thread_time};

/// Interval between the first two samples; it doubles after each sample up to [`INTERVAL_LONGEST`].
const INTERVAL_FIRST: Duration = Duration::from_millis(5);
/// Long enough not to disturb the trial, and short enough to see a thread that leaves its CPU for a second.
const INTERVAL_LONGEST: Duration = Duration::from_millis(100);
/// Sampling uses at most 1/20 of the time of one CPU, for any number of threads.
const SAMPLING_SHARE: u32 = 20;
/// `numa_maps` walks page tables under the lock that page faults take, so it gets a smaller share.
const PAGES_SHARE: u32 = 40;
/// Minimum and maximum interval between two readings of `numa_maps`.
const PAGES_INTERVALS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(10));
/// The interval is a quarter of the elapsed time, so that pages moved in the first three quarters of a trial are seen
/// whenever it ends.
const PAGES_READINGS_PER_TIME: u32 = 4;
/// Limits of one sample: only the first processes and threads of a larger trial are sampled.
const PROCESSES_MAX: usize = 1024;
const THREADS_MAX: usize = 4096;
/// Maximum number of files that are recorded.
const FILES_MAX: usize = 16;
/// Governors take tens of milliseconds to raise the frequency, which must not be treated as throttling.
const FREQUENCY_FROM: Duration = Duration::from_millis(200);

/// Counters of the trial's CPUs and of the whole machine since boot, each with a reason if it cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// CPUs that the trial may use.
    cpus: CpuSet,
    cpu_times: Result<BTreeMap<CpuId, CpuTime>, String>,
    pressure_cpu: Result<Nanos, String>,
    pressure_memory: Result<Nanos, String>,
    interrupts: Result<u64, String>,
    oom_kills: Result<u64, String>,
    /// `None` on a machine with one memory node, which has no tiers.
    tier_moves: Option<TierMoves>,
    /// By cgroup, from the current one to the root.
    throttled: Result<Vec<Nanos>, String>,
}

/// Numbers of pages that the kernel moved between its memory tiers since boot.
#[derive(Clone, Debug)]
struct TierMoves {
    promoted: Result<u64, String>,
    demoted: Result<u64, String>,
}

impl TierMoves {
    fn read(proc: &Proc, counters: &MemoryCounters) -> Option<Self> {
        let has_nodes = proc.memory_node_count().is_some_and(|nodes| nodes > 1);
        has_nodes.then(|| Self { promoted: counters.pages_promoted(), demoted: counters.pages_demoted() })
    }
}

impl Counters {
    pub(crate) fn read(proc: &Proc, cpus: &CpuSet) -> Self {
        let memory = proc.memory_counters();
        Self {
            cpus: cpus.clone(),
            cpu_times: proc.cpu_times(),
            pressure_cpu: proc.pressure("cpu"),
            pressure_memory: proc.pressure("memory"),
            interrupts: proc.interrupts(cpus),
            oom_kills: memory.oom_kills(),
            tier_moves: TierMoves::read(proc, &memory),
            throttled: sysfs::throttled(Path::new("/")),
        }
    }

    /// Records the differences between two readings. `cpu_time` of the evidence must be set: busy time beyond it is
    /// attributed to other processes. Busy and stolen time are counted in ticks of 10 ms, and most kernels attribute a
    /// tick to the process that runs at its end, so both are inaccurate for short trials.
    pub(crate) fn explain(before: &Self, after: &Self, evidence: &mut Evidence) {
        let own = evidence.cpu_time;
        let times = both(&before.cpu_times, &after.cpu_times).map(|(a, b)| cpu_times::between(a, b));
        let own_cpus =
            times.as_ref().map_err(|why| (*why).clone()).and_then(|times| cpu_times::of(times, &before.cpus));
        let foreign = |total: CpuTime| Nanos(total.busy().0.saturating_sub(own.0));
        evidence.foreign = value_or_reason(evidence, "foreign", own_cpus.clone().map(foreign));
        evidence.steal = value_or_reason(evidence, "steal", own_cpus.map(|total| total.steal));
        evidence.cpu_times = value_or_reason(evidence, "cpu_times", times).unwrap_or_default();
        let grown = |(a, b): (&Nanos, &Nanos)| Nanos(b.0.saturating_sub(a.0));
        let pressure = both(&before.pressure_cpu, &after.pressure_cpu).map(grown);
        evidence.pressure_cpu = value_or_reason(evidence, "pressure_cpu", pressure);
        let pressure = both(&before.pressure_memory, &after.pressure_memory).map(grown);
        evidence.pressure_memory = value_or_reason(evidence, "pressure_memory", pressure);
        let more = |(a, b): (&u64, &u64)| b.saturating_sub(*a);
        let interrupts = both(&before.interrupts, &after.interrupts).map(more);
        evidence.interrupts = value_or_reason(evidence, "interrupts", interrupts);
        let oom_kills = both(&before.oom_kills, &after.oom_kills).map(more);
        evidence.oom_kills = value_or_reason(evidence, "oom_kills", oom_kills);
        if let (Some(before), Some(after)) = (&before.tier_moves, &after.tier_moves) {
            let bytes = |pages: (&u64, &u64)| Bytes(more(pages) * syscall::page_bytes() as u64);
            let promoted = both(&before.promoted, &after.promoted).map(bytes);
            evidence.promoted = value_or_reason(evidence, "promoted", promoted);
            let demoted = both(&before.demoted, &after.demoted).map(bytes);
            evidence.demoted = value_or_reason(evidence, "demoted", demoted);
        }
        let throttled = both(&before.throttled, &after.throttled).map(|(a, b)| sysfs::throttled_between(a, b));
        // Without a cgroup that can have a quota, there is no throttling.
        let throttled = throttled.map(Option::unwrap_or_default);
        evidence.throttled = value_or_reason(evidence, "throttled", throttled);
    }
}

fn both<'a, T>(before: &'a Result<T, String>, after: &'a Result<T, String>) -> Result<(&'a T, &'a T), &'a String> {
    Ok((before.as_ref()?, after.as_ref()?))
}

/// Returns the value, or records the reason why there is none.
fn value_or_reason<T, E: ToString>(evidence: &mut Evidence, field: &str, value: Result<T, E>) -> Option<T> {
    value.map_err(|why| evidence.unavailable.insert(field.into(), why.to_string())).ok()
}

/// Facts that a monitor checks.
#[derive(Clone, Debug)]
pub(crate) struct WatchScope {
    pub memory: MemoryPolicy,
    /// Memory nodes of the CPUs that the trial is pinned to; `None` if it is not pinned.
    pub local_nodes: Option<NodeSet>,
    /// Whether a perf event already counts migrations.
    pub migrations_counted: bool,
    /// Whether files are recorded on a machine with one memory node, too.
    pub lists_files: bool,
    /// Whether processes that still run this program are not part of the trial, because they only start it.
    pub ignores_own_program: bool,
}

/// The first process of a trial, which leads its own process group.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    pub pid: u32,
    /// Time of its exec.
    pub started: Instant,
    /// Its counters at its exec.
    pub counters: ThreadCounters,
    pub descendants: Descendants,
}

impl Leader {
    /// Must be called directly after the exec.
    pub(crate) fn observe(proc: &Proc, started: Instant, descendants: Descendants) -> Self {
        let pid = descendants.leader();
        Self { pid, started, counters: counters(proc, pid, pid), descendants }
    }
}

fn counters(proc: &Proc, pid: u32, tid: u32) -> ThreadCounters {
    ThreadCounters { migrations: proc.migrations(pid, tid), run_queue_wait: proc.run_queue_wait(pid, tid) }
}

/// Samples the threads of one trial and accumulates the observations.
#[derive(Debug)]
pub(crate) struct TrialMonitor {
    proc: Proc,
    leader: Leader,
    scope: WatchScope,
    has_swap: bool,
    pages_readable: Result<(), String>,
    pages_next: Duration,
    /// CPU time of the last reading of `numa_maps`; zero before the first one.
    pages_cost: Duration,
    samples: u64,
    threads_seen: u64,
    cpus_seen: CpuSet,
    masks: CpuSet,
    capped: bool,
    swapped: Option<Bytes>,
    /// The readings with the most pages, and with the most pages on nodes outside the memory policy.
    pages: NumaPages,
    pages_misplaced: NumaPages,
    pages_error: Option<String>,
    memory_mounts: MemoryMounts,
    records_files: bool,
    /// Files that were open for reading.
    open_files: BTreeSet<String>,
    /// Maximum resident memory of one process.
    peak: Option<Bytes>,
    counts: ThreadCounts,
    /// Time before the polls that saw a stopped thread, each since the poll before.
    stopped: Duration,
    last_sample: Instant,
    frequencies: BTreeMap<CpuId, (u64, u64)>,
    frequency_error: Option<String>,
}

impl TrialMonitor {
    pub(crate) fn new(proc: Proc, leader: Leader, scope: WatchScope) -> Self {
        let memory_mounts = proc.memory_mounts();
        let records_files = scope.lists_files || proc.memory_node_count().is_some_and(|nodes| nodes > 1);
        Self {
            records_files,
            open_files: BTreeSet::new(),
            has_swap: proc.has_swap(),
            pages_readable: check_pages_readable(&proc, &scope),
            proc,
            counts: ThreadCounts::since(leader.pid, leader.counters),
            last_sample: leader.started,
            leader,
            scope,
            pages_next: Duration::ZERO,
            pages_cost: Duration::ZERO,
            samples: 0,
            threads_seen: 0,
            cpus_seen: CpuSet::new(),
            masks: CpuSet::new(),
            capped: false,
            swapped: None,
            pages: NumaPages::default(),
            pages_misplaced: NumaPages::default(),
            pages_error: None,
            memory_mounts,
            peak: None,
            stopped: Duration::ZERO,
            frequencies: BTreeMap::new(),
            frequency_error: None,
        }
    }

    /// Samples every thread once and returns the time until the next sample. Includes a leader that is not yet reaped.
    pub(crate) fn sample(&mut self) -> Duration {
        // Thread time, because waiting for a CPU, for example when the trial uses all of them, costs the trial nothing.
        let began = thread_time::used();
        let pids = self.leader.descendants.processes(PROCESSES_MAX);
        let threads = self.sample_threads(&pids);
        if threads > 0 {
            self.samples += 1;
            self.threads_seen = self.threads_seen.max(threads);
        }
        self.sample_swap(&pids);
        let cost = thread_time::used().saturating_sub(began);
        self.sample_pages(&pids);
        interval(self.samples, cost)
    }

    fn sample_threads(&mut self, pids: &[u32]) -> u64 {
        let (mut threads, mut any_stopped) = (0, false);
        let since = std::mem::replace(&mut self.last_sample, Instant::now());
        for pid in pids {
            for tid in self.proc.threads(*pid) {
                if threads == THREADS_MAX {
                    self.capped = true;
                    return threads as u64;
                }
                let Some(state) = self.sample_thread(*pid, tid) else { continue };
                threads += 1;
                // By a signal, or by a debugger.
                any_stopped |= matches!(state, 'T' | 't');
            }
        }
        if any_stopped {
            self.stopped += self.last_sample.duration_since(since);
        }
        threads as u64
    }

    /// Returns the state of the thread, or `None` if it has ended.
    fn sample_thread(&mut self, pid: u32, tid: u32) -> Option<char> {
        let stat = self.proc.thread_stat(pid, tid)?;
        self.cpus_seen.insert(stat.cpu);
        if let Ok(mask) = syscall::affinity(tid) {
            self.masks = self.masks.union(&mask.to_set());
        }
        self.counts.note(tid, counters(&self.proc, pid, tid));
        if stat.state == 'R' && self.leader.started.elapsed() > FREQUENCY_FROM {
            self.sample_frequency(stat.cpu);
        }
        Some(stat.state)
    }

    /// Must be called only for CPUs on which the trial is running: the frequency of an idle core is irrelevant.
    fn sample_frequency(&mut self, cpu: CpuId) {
        match self.proc.frequency_khz(cpu) {
            Ok(khz) => {
                let range = self.frequencies.entry(cpu).or_insert((khz, khz));
                *range = (range.0.min(khz), range.1.max(khz));
            }
            Err(why) => self.frequency_error = Some(why),
        }
    }

    fn sample_swap(&mut self, pids: &[u32]) {
        if self.has_swap {
            let swapped: Vec<Bytes> = pids.iter().filter_map(|pid| self.proc.swapped(*pid)).collect();
            if !swapped.is_empty() {
                let sum = Bytes(swapped.iter().map(|bytes| bytes.0).sum());
                self.swapped = self.swapped.max(Some(sum));
            }
        }
    }

    fn sample_pages(&mut self, pids: &[u32]) {
        let now = self.leader.started.elapsed();
        if self.pages_readable.is_err() || now < self.pages_next {
            return;
        }
        // Thread time, as in `sample`.
        let began = thread_time::used();
        let mut sum = NumaPages::default();
        for pid in pids.iter().filter(|pid| !self.scope.ignores_own_program || !self.proc.runs_this_program(**pid)) {
            self.peak = self.peak.max(self.proc.peak_memory(*pid));
            match self.proc.numa_pages(*pid, &self.memory_mounts) {
                Ok(pages) => sum.add(&pages),
                Err(error) => self.pages_error = Some(format!("/proc/{pid}/numa_maps: {error}")),
            }
            if self.records_files && self.open_files.len() < FILES_MAX {
                self.open_files.extend(self.proc.open_files(*pid));
            }
        }
        self.record_pages(sum);
        let cost = thread_time::used().saturating_sub(began);
        self.pages_next = now + pages_interval(now, cost, std::mem::replace(&mut self.pages_cost, cost));
    }

    /// Keeps the reading with the most anonymous pages, because a program may free pages near its end, and the reading
    /// with the most misplaced pages, because pages may be moved during the trial.
    fn record_pages(&mut self, pages: NumaPages) {
        if self.misplaced(&pages) >= self.misplaced(&self.pages_misplaced) {
            self.pages_misplaced = pages.clone();
        }
        if pages.anonymous_count() >= self.pages.anonymous_count() {
            self.pages = pages;
        }
    }

    /// Returns the number of pages on nodes that the policy does not use while its own nodes have free memory.
    fn misplaced(&self, pages: &NumaPages) -> u64 {
        let WatchScope { memory, local_nodes, .. } = &self.scope;
        let is_expected = |node: NodeId| match memory {
            MemoryPolicy::Preferred(preferred) => node == *preferred,
            MemoryPolicy::Local => local_nodes.as_ref().is_none_or(|nodes| nodes.contains(node)),
            policy => policy.promised_nodes().is_none_or(|nodes| nodes.contains(node)),
        };
        pages.anonymous.iter().filter(|(node, _)| !is_expected(**node)).map(|(_, count)| count).sum()
    }

    /// Returns the reading to judge. Misplaced pages in a small reading were allocated before the policy was set. They
    /// are attributed to the trial if their reading has at least half as many pages as the largest.
    fn pages_to_judge(&self) -> NumaPages {
        let large = self.pages_misplaced.anonymous_count() * 2 >= self.pages.anonymous_count();
        let worse = self.misplaced(&self.pages_misplaced) > self.misplaced(&self.pages);
        if large && worse { self.pages_misplaced.clone() } else { self.pages.clone() }
    }

    /// Records all observations in the evidence. `max_rss` is that of the ended trial.
    pub(crate) fn into_evidence(self, max_rss: Bytes, evidence: &mut Evidence) {
        self.explain_waits(evidence);
        let mut pages = self.pages_to_judge();
        evidence.files = self.files(std::mem::take(&mut pages.files));
        evidence.polls = self.samples;
        evidence.threads_seen = self.threads_seen;
        evidence.swapped = if self.has_swap { self.swapped } else { Some(Bytes(0)) };
        let gone = "the process ended before the first sample";
        if self.samples == 0 {
            for field in ["cpus_seen", "mask_at_end"] {
                evidence.unavailable.insert(field.into(), gone.into());
            }
        } else {
            evidence.mask_at_end = Some(self.masks).filter(|masks| !masks.is_empty());
        }
        if self.capped {
            let why = format!("only the first {THREADS_MAX} threads were sampled");
            evidence.unavailable.insert("threads_seen".into(), why);
        }
        if evidence.swapped.is_none() {
            evidence.unavailable.insert("swapped".into(), gone.into());
        }
        if !self.scope.migrations_counted {
            let sampled = self
                .counts
                .migrations()
                .ok_or("/proc/PID/sched cannot be read: the process ended early, or the kernel lacks the file");
            evidence.migrations = value_or_reason(evidence, "migrations", sampled);
        }
        if pages.anonymous_count() == 0 {
            let why = self.pages_readable.err().or(self.pages_error).unwrap_or_else(|| gone.into());
            evidence.unavailable.insert("pages".into(), why);
        }
        evidence.pages_peak = self.peak.map(|polled| {
            // A new process inherits the peak of this one, which therefore hides lower peaks.
            let own = self.proc.peak_memory(std::process::id()).unwrap_or_default();
            polled.max(if max_rss > own { max_rss } else { polled }).0 / syscall::page_bytes() as u64
        });
        evidence.pages = pages.anonymous;
        evidence.file_pages = pages.file;
        evidence.local_nodes = self.scope.local_nodes.filter(|_| self.scope.memory == MemoryPolicy::Local);
        let frequency = widest(&self.frequencies).ok_or_else(|| {
            self.frequency_error.unwrap_or_else(|| format!("it ran for less than {} ms", FREQUENCY_FROM.as_millis()))
        });
        evidence.frequency_khz = value_or_reason(evidence, "frequency_khz", frequency);
        evidence.cpus_seen = self.cpus_seen;
    }

    /// Returns the files with the most pages. Those of a verified placement are searched for in other processes, too.
    /// Files that were only open are without pages.
    fn files(&self, pages: BTreeMap<(FileKind, String), BTreeMap<NodeId, u64>>) -> Vec<FilePages> {
        if !self.records_files {
            return Vec::new();
        }
        let mapped: BTreeSet<String> = pages.keys().map(|(_, path)| path.clone()).collect();
        let file = |((kind, path), pages)| FilePages { path, kind, pages, is_shared: false };
        let mut files: Vec<FilePages> = pages.into_iter().map(file).collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.pages.values().sum::<u64>()));
        files.truncate(FILES_MAX);
        let only_open = self.open_files.difference(&mapped);
        files.extend(only_open.map(|path| file(((FileKind::Data, path.clone()), BTreeMap::new()))));
        let Some(promised) = self.scope.memory.promised_nodes() else { return files };
        let is_misplaced = |file: &&FilePages| file.pages.keys().any(|node| !promised.contains(*node));
        let code: BTreeSet<&str> = files
            .iter()
            .filter(|file| file.kind != FileKind::Data)
            .filter(is_misplaced)
            .map(|file| file.path.as_str())
            .collect();
        if code.is_empty() {
            return files;
        }
        // The processes of the trial have ended.
        let shared: BTreeSet<String> = self.proc.mapped_files(&code).into_iter().map(String::from).collect();
        files.iter_mut().for_each(|file| file.is_shared = shared.contains(&file.path));
        files
    }

    fn explain_waits(&self, evidence: &mut Evidence) {
        let waits = self.counts.run_queue_wait();
        let waits = waits.ok_or("/proc/PID/schedstat cannot be read: the kernel lacks the file (CONFIG_SCHED_INFO)");
        let waits = value_or_reason(evidence, "run_queue_wait", waits);
        (evidence.run_queue_wait, evidence.run_queue_wait_max) = waits.unzip();
        let polled = Nanos(self.stopped.as_nanos() as u64);
        evidence.stopped = evidence.stopped.max((self.samples > 0).then_some(polled));
    }
}

/// Returns an error if `numa_maps` is not useful: reading it delays page faults of large trials.
fn check_pages_readable(proc: &Proc, scope: &WatchScope) -> Result<(), String> {
    match proc.memory_node_count() {
        None => Err("this kernel is built without NUMA".into()),
        Some(1) if scope.memory.promised_nodes().is_none() && !scope.lists_files => {
            Err("not checked: the machine has one memory node".into())
        }
        Some(_) => Ok(()),
    }
}

/// Returns the time until the next sample after `samples` samples, the last of which took `cost` of CPU time.
fn interval(samples: u64, cost: Duration) -> Duration {
    let doublings = samples.saturating_sub(1).min(16) as u32;
    (INTERVAL_FIRST * (1 << doublings)).min(INTERVAL_LONGEST).max(cost * SAMPLING_SHARE)
}

/// Returns the time until the next reading of `numa_maps`, from the CPU time of the last two. The cheaper one counts,
/// because the time includes what a hypervisor took from the thread.
fn pages_interval(elapsed: Duration, cost: Duration, previous_cost: Duration) -> Duration {
    let (first, longest) = PAGES_INTERVALS;
    (elapsed / PAGES_READINGS_PER_TIME).clamp(first, longest).max(cost.min(previous_cost) * PAGES_SHARE)
}

/// Returns the lowest and highest frequency of the CPU on which they differ most. CPUs are not compared with each
/// other: big and little cores always differ, one core only if it is throttled.
fn widest(ranges: &BTreeMap<CpuId, (u64, u64)>) -> Option<(u64, u64)> {
    ranges.values().copied().max_by(|a, b| relative_drop(*a).total_cmp(&relative_drop(*b)))
}

fn relative_drop((low, high): (u64, u64)) -> f64 {
    (high - low) as f64 / high.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn moves_between_tiers_are_those_between_two_readings() {
        let check = |nodes: &str, before: &str, after: &str, expected: [Option<u64>; 2], unavailable: &[&str]| {
            let read = |vmstat: &str| {
                let dir = tree(&[("proc/vmstat", vmstat), ("sys/devices/system/node/has_memory", nodes)]);
                Counters::read(&Proc::at(dir.path()), &CpuSet::new())
            };
            let mut evidence = Evidence::default();
            Counters::explain(&read(before), &read(after), &mut evidence);
            let bytes = |pages: u64| Bytes(pages * syscall::page_bytes() as u64);
            assert_eq!(
                [evidence.promoted, evidence.demoted],
                expected.map(|pages| pages.map(bytes)),
                "{nodes} {after}"
            );
            let of_tiers =
                evidence.unavailable.keys().filter(|field| ["promoted", "demoted"].contains(&field.as_str()));
            assert_eq!(of_tiers.collect::<Vec<_>>(), unavailable, "{nodes} {after}");
        };
        let before = "pgpromote_success 5\npgdemote_kswapd 100\npgdemote_direct 7\n";
        let after = "pgpromote_success 6\npgdemote_kswapd 300\npgdemote_direct 57\n";
        check("0,2\n", before, after, [Some(1), Some(250)], &[]);
        check("0,2\n", before, before, [Some(0), Some(0)], &[]);
        check("0,2\n", after, before, [Some(0), Some(0)], &[]);
        check("0,2\n", "pgdemote_kswapd 1\n", "pgdemote_kswapd 2\n", [None, Some(1)], &["promoted"]);
        check("0,2\n", "oom_kill 0\n", "oom_kill 0\n", [None, None], &["demoted", "promoted"]);
        check("0\n", before, after, [None, None], &[]);
    }

    #[test]
    fn one_expensive_reading_of_pages_delays_no_other() {
        let ms = Duration::from_millis;
        assert_eq!(pages_interval(ms(400), ms(1), ms(1)), ms(100), "a quarter of the time");
        assert_eq!(pages_interval(ms(400), ms(100), ms(1)), ms(100));
        assert_eq!(pages_interval(ms(400), ms(100), ms(50)), ms(2000), "at most a fortieth of the time");
        assert_eq!(pages_interval(ms(400), ms(50), ms(0)), ms(100), "the first reading");
    }

    #[test]
    fn moved_pages_are_not_hidden_by_a_larger_reading() {
        let node_0 = || NodeSet::parse_list("0").unwrap();
        let check_of = |memory: MemoryPolicy, readings: &[&[(u32, u64)]], expected: &[(u32, u64)]| {
            let scope = WatchScope {
                memory,
                local_nodes: Some(node_0()),
                migrations_counted: true,
                lists_files: false,
                ignores_own_program: false,
            };
            let proc = Proc::live();
            let leader = Leader::observe(&proc, Instant::now(), Descendants::of(1, &proc, None));
            let mut monitor = TrialMonitor::new(Proc::live(), leader, scope);
            let pages = |list: &[(u32, u64)]| list.iter().map(|(node, count)| (NodeId(*node), *count)).collect();
            readings.iter().for_each(|reading| {
                monitor.record_pages(NumaPages { anonymous: pages(reading), ..NumaPages::default() });
            });
            assert_eq!(monitor.pages_to_judge().anonymous, pages(expected), "{readings:?}");
        };
        let check = |readings: &[&[(u32, u64)]], expected: &[(u32, u64)]| {
            check_of(MemoryPolicy::Bind(node_0()), readings, expected);
        };
        check(&[&[(0, 4000)], &[(1, 3990)]], &[(1, 3990)]);
        check(&[&[(0, 4000)], &[(0, 10)]], &[(0, 4000)]);
        // A few pages were allocated on another node before the policy was set.
        check(&[&[(0, 8), (1, 2)], &[(0, 4000), (1, 1)]], &[(0, 4000), (1, 1)]);
        check(&[&[(0, 100)], &[(0, 4000)], &[(0, 3000)]], &[(0, 4000)]);
        check(&[], &[]);
        let moved: &[&[(u32, u64)]] = &[&[(0, 4000)], &[(1, 3990)]];
        check_of(MemoryPolicy::Preferred(NodeId(0)), moved, &[(1, 3990)]);
        check_of(MemoryPolicy::Local, moved, &[(1, 3990)]);
        check_of(MemoryPolicy::Kernel, moved, &[(0, 4000)]);
    }
}
