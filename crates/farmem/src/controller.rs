//! The paging controller: reads page faults, lets the predictor decide, and advises the kernel. It has two threads,
//! because paging out waits for the disk and must not delay prefetches. If the controller dies, the program continues
//! with the kernel's own swap and without a limit. Must not know how the expansion is set up.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::cgroup::{MemoryCgroup, OomGuard};
use machine::thread_time;

use crate::advise::{AdviceKind, Processes};
use crate::faults::{FaultSource, SensorEvent};
use crate::predict::{Advice, Counts, Order, Predictor, Tuning};
use crate::trace::{Record, Trace};

/// Maximum delay of a poll while part of the program is in far memory, and while nothing is.
const PACE: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(10)];
/// CPU time that needs no justification: this fraction of one CPU, plus this initial amount in seconds.
const FREE_SHARE: f64 = 0.10;
const FREE_TO_BEGIN: f64 = 0.05;
/// Beyond that, CPU time is earned by pages prefetched or evicted, in seconds each: what the program would spend on
/// them.
const EARNED_PER_PAGE: f64 = 8e-6;
/// Number of polls in a row at which nothing could be evicted for waiting processes; after that, the kernel decides.
const FUTILE_POLLS_MAX: u32 = 100;
/// A batch of at least this many faults is useless if fewer than a tenth belong to a stream.
const USELESS_MIN: u64 = 50;
/// After this many useless batches in a row, the controller backs off, initially for the first time and at most for the
/// second.
const USELESS_POLLS: u32 = 3;
const BACKOFF: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(160)];

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControllerStats {
    /// Counters of the predictor.
    pub counts: Counts,
    /// Bytes evicted by the controller.
    pub paged_out: u64,
    /// Samples lost because a ring was full.
    pub lost: u64,
    /// CPU time of both threads, in seconds.
    pub cpu: f64,
    /// Time the controller ran, in seconds.
    pub elapsed: f64,
    /// Number of back-offs because faults formed no streams.
    pub naps: u64,
    /// Number of times that it freed memory when the kernel would have killed a process.
    pub rescues: u64,
    /// Number of polls skipped because its CPU time was not earned.
    pub throttled: u64,
    /// Advice rejected by the kernel; it moved nothing.
    pub refused: u64,
}

/// State shared by both threads and the callers.
#[derive(Default)]
struct ControllerShared {
    stop: AtomicBool,
    /// Bytes to be evicted that are still in DRAM.
    pending: AtomicU64,
    paged_out: AtomicU64,
    out_refused: AtomicU64,
    /// CPU time of the evicting thread, in nanoseconds.
    out_cpu: AtomicU64,
    stats: Mutex<ControllerStats>,
}

pub(crate) struct PagingController {
    shared: Arc<ControllerShared>,
    thread: JoinHandle<()>,
}

impl PagingController {
    /// Starts the controller. `sense` was opened on the thread that will fork the program.
    pub(crate) fn start(
        sense: FaultSource,
        group: MemoryCgroup,
        tuning: Tuning,
        trace: Option<Trace>,
    ) -> io::Result<Self> {
        let shared = Arc::new(ControllerShared::default());
        let (to_evictor, jobs) = channel();
        let evictor = {
            let shared = shared.clone();
            std::thread::Builder::new().name("far-out".into()).spawn(move || evict(&jobs, &shared))?
        };
        let fault_loop = FaultLoop { trace, ..FaultLoop::new(sense, group, tuning, shared.clone(), to_evictor) };
        let thread = std::thread::Builder::new().name("far-in".into()).spawn(move || {
            fault_loop.run();
            // The channel is closed now; few evictions remain.
            let _ = evictor.join();
        })?;
        Ok(Self { shared, thread })
    }

    /// Returns the statistics so far.
    pub(crate) fn stats(&self) -> ControllerStats {
        *self.shared.stats.lock().expect("no holder panics")
    }

    pub(crate) fn stop(self) -> ControllerStats {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        *self.shared.stats.lock().expect("no holder panics")
    }
}

/// Evicts the pages that it receives.
fn evict(jobs: &Receiver<Order>, shared: &ControllerShared) {
    let mut spaces = Processes::default();
    while let Ok(order) = jobs.recv() {
        let Advice::PageOut(range) = &order.advice else { continue };
        if !shared.stop.load(Ordering::Relaxed) {
            let done = spaces.advise(order.process, range, AdviceKind::PageOut);
            shared.paged_out.fetch_add(done, Ordering::Relaxed);
            shared.out_refused.store(spaces.refused(), Ordering::Relaxed);
        }
        shared.pending.fetch_sub(range.end - range.start, Ordering::Relaxed);
        shared.out_cpu.store(thread_time::used().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// The thread that reads faults and prefetches.
struct FaultLoop {
    sense: FaultSource,
    group: MemoryCgroup,
    tuning: Tuning,
    /// Bytes kept free below the limit, because pages being written out still count.
    slack: u64,
    predictor: Predictor,
    spaces: Processes,
    shared: Arc<ControllerShared>,
    to_evictor: Sender<Order>,
    /// Recorder of faults and advice.
    trace: Option<Trace>,
    began: Instant,
    backoff: Backoff,
    own: ControllerStats,
    /// Lets processes that find no memory wait, if the kernel can; `None` once nothing more can be evicted.
    caretaker: Option<OomGuard>,
    /// Number of polls in a row at which nothing could be evicted for them.
    futile_polls: u32,
}

/// State of the back-off: samples of random access are useless and cost time.
#[derive(Default)]
struct Backoff {
    until: Option<Instant>,
    length: Duration,
    useless: u32,
    seen: u64,
    matched: u64,
}

impl FaultLoop {
    fn new(
        sense: FaultSource,
        group: MemoryCgroup,
        tuning: Tuning,
        shared: Arc<ControllerShared>,
        to_evictor: Sender<Order>,
    ) -> Self {
        Self {
            sense,
            group,
            tuning,
            slack: (tuning.dram / 12).min(96 << 20),
            predictor: Predictor::new(tuning),
            spaces: Processes::default(),
            shared,
            to_evictor,
            trace: None,
            began: Instant::now(),
            backoff: Backoff::default(),
            own: ControllerStats::default(),
            caretaker: None,
            futile_polls: 0,
        }
    }

    fn run(mut self) {
        self.caretaker = self.group.guard_oom();
        let mut next_check = self.began;
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.sense.wait(PACE[usize::from(!self.sense.watches_minor())]);
            let now = Instant::now();
            if now >= next_check {
                next_check = now + PACE[1];
                self.rest_if_useless(now);
                if self.backoff.until.is_none() {
                    self.select_fault_events();
                }
                self.make_room();
                self.publish();
            }
            let steer = self.may_steer();
            self.poll(steer && self.sense.watches_minor());
            if steer {
                self.act();
            } else {
                self.own.throttled += 1;
                std::thread::sleep(PACE[0]);
            }
        }
        // From here on, no thread frees memory for waiting processes.
        drop(self.caretaker.take());
        self.publish();
    }

    /// Minor faults report hits on prefetched pages. Before anything is in far memory, they report nothing and slow
    /// down first accesses.
    fn select_fault_events(&mut self) {
        let far = self.group.held().is_ok_and(|held| held.swap.0 > 0);
        self.sense.watch_minor(far);
    }

    /// The kernel gives up when all pages of a cgroup were used recently, even if far memory is free; then the
    /// controller evicts pages of its choice. If nothing can be evicted, the kernel kills a process.
    fn make_room(&mut self) {
        if self.caretaker.is_none() || !self.group.is_waiting() {
            self.futile_polls = 0;
            return;
        }
        self.own.rescues += 1;
        let share = (self.tuning.dram / 8).max(1 << 20);
        let done: u64 =
            self.group.processes().into_iter().map(|process| self.spaces.page_out_anywhere(process, share)).sum();
        self.futile_polls = if done > 0 { 0 } else { self.futile_polls + 1 };
        if self.futile_polls >= FUTILE_POLLS_MAX {
            self.caretaker = None;
        }
    }

    fn may_steer(&self) -> bool {
        let counts = self.predictor.counts();
        let pages = counts.fetched + self.shared.paged_out.load(Ordering::Relaxed) / self.tuning.page;
        let free = self.began.elapsed().as_secs_f64() * FREE_SHARE + FREE_TO_BEGIN;
        self.cpu() <= free + pages as f64 * EARNED_PER_PAGE
    }

    fn cpu(&self) -> f64 {
        thread_time::used().as_secs_f64() + self.shared.out_cpu.load(Ordering::Relaxed) as f64 / 1e9
    }

    fn poll(&mut self, steer: bool) {
        let Self { sense, predictor, spaces, own, trace, .. } = self;
        let mut trace = trace.as_ref().map(Trace::open);
        sense.drain(|seen| {
            if let Some(trace) = &mut trace {
                trace.add(&seen.record());
            }
            match seen {
                SensorEvent::Fault(fault) if steer => predictor.observe(&fault),
                SensorEvent::Fault(_) => {}
                SensorEvent::Gone(process) => {
                    predictor.forget(process);
                    spaces.forget(process);
                }
                SensorEvent::Lost(count) => own.lost += count,
            }
        });
    }

    fn act(&mut self) {
        let (now, headroom) = (self.began.elapsed().as_nanos() as u64, self.headroom());
        self.record(|| [Record::Look { now, headroom }]);
        for order in self.predictor.orders(now, headroom) {
            let far = match &order.advice {
                Advice::Fetch(range) => {
                    let bytes = self.spaces.advise(order.process, range, AdviceKind::WillNeed);
                    self.predictor.fetched(&order, bytes / self.tuning.page, now);
                    Some(bytes / self.tuning.page)
                }
                Advice::FetchEach(ranges) => {
                    self.spaces.fetch_each(order.process, ranges);
                    None
                }
                Advice::PageOut(range) => {
                    self.shared.pending.fetch_add(range.end - range.start, Ordering::Relaxed);
                    // The evicting thread ends later than this one.
                    let _ = self.to_evictor.send(order.clone());
                    None
                }
            };
            self.record(|| Record::of_order(&order, far));
        }
    }

    /// Builds the records only if there is a recorder.
    fn record<R: IntoIterator<Item = Record>>(&self, records: impl FnOnce() -> R) {
        if let Some(trace) = &self.trace {
            let mut trace = trace.open();
            records().into_iter().for_each(|record| trace.add(&record));
        }
    }

    /// Bytes that may be allocated before the budget is short; pages being written out count as free.
    fn headroom(&self) -> i64 {
        let usage = self.group.usage().map_or(self.tuning.dram, |usage| usage.0);
        let pending = self.shared.pending.load(Ordering::Relaxed);
        (self.tuning.dram + pending) as i64 - (usage + self.slack) as i64
    }

    fn rest_if_useless(&mut self, now: Instant) {
        let counts = self.predictor.counts();
        let seen = counts.major + counts.minor_seen;
        let (new, matched) = (seen - self.backoff.seen, counts.matched - self.backoff.matched);
        if let Some(until) = self.backoff.until {
            if now < until {
                return;
            }
            self.backoff.until = None;
            // One more useless batch starts a longer back-off.
            self.backoff.useless = USELESS_POLLS - 1;
            self.sense.watch_major(true);
            self.select_fault_events();
        } else if new >= USELESS_MIN && matched * 10 < new {
            self.backoff.useless += 1;
            if self.backoff.useless >= USELESS_POLLS {
                self.backoff.length = (self.backoff.length * 2).clamp(BACKOFF[0], BACKOFF[1]);
                self.backoff.until = Some(now + self.backoff.length);
                self.own.naps += 1;
                self.sense.watch_major(false);
                self.sense.watch_minor(false);
            }
        } else if new >= USELESS_MIN {
            self.backoff.useless = 0;
            self.backoff.length = Duration::ZERO;
        }
        (self.backoff.seen, self.backoff.matched) = (seen, counts.matched);
    }

    fn publish(&mut self) {
        self.own.counts = self.predictor.counts();
        self.own.paged_out = self.shared.paged_out.load(Ordering::Relaxed);
        self.own.refused = self.spaces.refused() + self.shared.out_refused.load(Ordering::Relaxed);
        self.own.cpu = self.cpu();
        self.own.elapsed = self.began.elapsed().as_secs_f64();
        *self.shared.stats.lock().expect("no holder panics") = self.own;
    }
}
