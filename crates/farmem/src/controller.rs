//! The paging controller: reads page faults, lets the predictor and the governor decide, and advises the kernel. It has
//! two threads, because paging out waits for the disk and must not delay prefetches. If the controller dies, the
//! program continues with the kernel's own swap and without a limit. Must not know how the expansion is set up.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::cgroup::{MemoryCgroup, OomGuard};
use machine::thread_time;

use crate::advise::{AdviceKind, Processes};
use crate::compressed::TierState;
use crate::faults::{FaultSource, SensorEvent};
use crate::predict::governor::{Effort, Governor, GovernorCounts, Sampling};
use crate::predict::{Advice, Counts, Order, Predictor, Tuning};
use crate::rescue::make_room;
use crate::trace::{Record, Trace};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControllerStats {
    /// Counters of the predictor.
    pub counts: Counts,
    /// Bytes evicted by the controller.
    pub paged_out: u64,
    /// Samples lost because a ring was full.
    pub lost: u64,
    /// CPU time of its threads, in seconds.
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
    /// Starts the controller. `sense` was opened on the thread that will fork the program. A compressed tier changes the
    /// limit.
    pub(crate) fn start(
        sense: FaultSource,
        group: MemoryCgroup,
        tuning: Tuning,
        tier: Option<Arc<TierState>>,
        trace: Option<Trace>,
    ) -> io::Result<Self> {
        let shared = Arc::new(ControllerShared::default());
        let (to_evictor, jobs) = channel();
        let evictor = {
            let shared = shared.clone();
            std::thread::Builder::new().name("far-out".into()).spawn(move || evict(&jobs, &shared))?
        };
        let fault_loop = FaultLoop { trace, tier, ..FaultLoop::new(sense, group, tuning, shared.clone(), to_evictor) };
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
    governor: Governor,
    /// Samples lost because a ring was full.
    lost: u64,
    tier: Option<Arc<TierState>>,
    /// Lets processes that find no memory wait, if the kernel can; `None` once nothing more can be evicted.
    caretaker: Option<OomGuard>,
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
            governor: Governor::new(tuning),
            lost: 0,
            tier: None,
            caretaker: None,
        }
    }

    fn run(mut self) {
        self.caretaker = self.group.guard_oom();
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.sense.wait(Governor::pace(self.sense.watches_minor()));
            if let Some(sampling) = self.governor.check(&self.predictor.counts(), self.began.elapsed()) {
                self.sample(sampling);
                make_room(&self.group, &mut self.governor, &mut self.caretaker, &mut self.spaces);
                self.publish();
            }
            let pause = self.governor.pause(&self.effort());
            self.poll(pause.is_none() && self.sense.watches_minor());
            match pause {
                None => self.act(),
                Some(pause) => std::thread::sleep(pause),
            }
        }
        // From here on, no thread frees memory for waiting processes.
        drop(self.caretaker.take());
        self.publish();
    }

    /// Minor faults report hits on prefetched pages. Before anything is in far memory, they report nothing and slow
    /// down first accesses.
    fn sample(&mut self, sampling: Sampling) {
        self.sense.watch_major(sampling == Sampling::On);
        let far = sampling == Sampling::On && self.group.held().is_ok_and(|held| held.swap.0 > 0);
        self.sense.watch_minor(far);
    }

    fn effort(&self) -> Effort {
        let evicted = self.shared.paged_out.load(Ordering::Relaxed) / self.tuning.page;
        let elapsed = self.began.elapsed();
        let cpu = thread_time::used() + Duration::from_nanos(self.shared.out_cpu.load(Ordering::Relaxed));
        Effort { pages: self.predictor.counts().fetched + evicted, cpu, elapsed }
    }

    fn poll(&mut self, steer: bool) {
        let Self { sense, predictor, spaces, lost, trace, .. } = self;
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
                SensorEvent::Lost(count) => *lost += count,
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
        let limit = self.tier.as_ref().map_or(self.tuning.dram, |tier| tier.limit());
        let usage = self.group.usage().map_or(limit, |usage| usage.0);
        let pending = self.shared.pending.load(Ordering::Relaxed);
        (limit + pending) as i64 - (usage + self.slack) as i64
    }

    fn publish(&self) {
        let (effort, GovernorCounts { naps, rescues, throttled }) = (self.effort(), self.governor.counts());
        let stats = ControllerStats {
            counts: self.predictor.counts(),
            paged_out: self.shared.paged_out.load(Ordering::Relaxed),
            lost: self.lost,
            cpu: effort.cpu.as_secs_f64(),
            elapsed: effort.elapsed.as_secs_f64(),
            naps,
            rescues,
            throttled,
            refused: self.spaces.refused() + self.shared.out_refused.load(Ordering::Relaxed),
        };
        *self.shared.stats.lock().expect("no holder panics") = stats;
    }
}
