//! Compressed memory in front of the disk, where the kernel has no zswap that counts towards the limit: swap areas in DRAM
//! (zram) that the kernel fills first. A thread lowers the limit of the cgroup by the DRAM that they use, and adds areas
//! while they fill. It gives them up if data do not compress, or if the program needs the DRAM for the pages in use. Must
//! not know which pages are evicted.

mod judge;
mod plan;
mod zswap;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

use machine::cgroup::{CompressedUse, MemoryCgroup, OomGuard};
use machine::swap::{self, LARGE_FOLIOS, SwapArea};
use machine::thread_time;
use machine::undo::{AppliedSettings, ChangeError, THERE};
use machine::zram::{self, ZramDevice};
use model::values::units::Bytes;

use crate::advise::Processes;
use crate::predict::Tuning;
use crate::predict::governor::Governor;
use crate::rescue::make_room;

use self::judge::{PagingCounters, TierChange, TierJudge};
use self::plan::{AREAS, TierPlan};
pub(crate) use self::zswap::ZswapSwitch;

/// Share of the limit from which areas are added: below, nothing is evicted.
const BEGIN_AT: f64 = 0.7;
/// Largest change of the limit at once. The kernel frees memory until the change takes effect, while the program uses memory
/// up to the old limit: the larger the change, the longer the race, in which no areas are added.
const STEP: u64 = 128 << 10;
/// Minimum time between two moves of pages from disk.
const MOVE_INTERVAL: Duration = Duration::from_secs(10);
/// Time for which growth of the areas lets further growth be expected.
const GROWTH_TIME: Duration = Duration::from_secs(1);
/// Divides the limit into the change below which it stays: each one makes the kernel evict pages.
const SLACK_PART: u64 = 100;
/// Time after which the areas are checked again, however far the limit is from its target.
const STEPS_TIME: Duration = Duration::from_millis(5);
const POLL_INTERVAL: Duration = Duration::from_millis(3);
/// DRAM that is kept free below the limit, and the interval at which it is freed while the program needs more.
const FREE_AHEAD: u64 = 512 << 10;
const FREE_INTERVAL: Duration = Duration::from_micros(200);
/// Memory that is read ahead while pages move from disk.
const FETCHED_AHEAD: u64 = 4 << 20;
/// Interval while nothing is compressed.
const IDLE_INTERVAL: Duration = Duration::from_millis(10);

/// Limit and use of a compressed tier, for other threads.
#[derive(Debug)]
pub(crate) struct TierState {
    /// Present limit of pages that are not compressed, in bytes.
    limit: AtomicU64,
    used: Mutex<CompressedUse>,
    /// CPU time of the thread, in nanoseconds.
    cpu: AtomicU64,
    stop: AtomicBool,
}

impl TierState {
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu.load(Ordering::Relaxed))
    }

    pub(crate) fn used(&self) -> CompressedUse {
        *self.used.lock().expect("no holder panics")
    }
}

/// Returns the largest DRAM of compressed pages that the kernel limits itself.
pub(crate) fn zswap_max(dram: Bytes) -> Bytes {
    Bytes(dram.0 / plan::FLOOR_PART)
}

/// Creates the areas, which are not in use yet.
pub(crate) fn create_areas(
    setting: &str,
    dram: Bytes,
    changed: &mut AppliedSettings,
) -> Result<Vec<ZramDevice>, ChangeError> {
    let plan = TierPlan::new(dram.0, crate::page_bytes());
    // Without zram, creating a device returns the error.
    let _lock = zram::lock(changed.root()).ok();
    let device = |_| -> Result<ZramDevice, ChangeError> {
        let target = ZramDevice::target(changed.root(), Bytes(plan.area));
        changed.set(setting, target.clone(), THERE)?;
        ZramDevice::format(&target).map_err(|error| ChangeError {
            what: format!("cannot write the header of {target}: {error}"),
            hint: "run without compressed memory".into(),
            not_permitted: false,
        })
    };
    (0..AREAS).map(device).collect()
}

/// Use of the areas.
pub(crate) struct TierOptions {
    pub dram: Bytes,
    /// Swap devices for all other pages: one can be emptied while the others are in use.
    pub disks: Vec<PathBuf>,
    /// Whether pages are compressed from the start, or only once the program waits for the disk.
    pub from_start: bool,
    /// Whether the thread frees memory when the kernel would kill a process; otherwise the paging controller does.
    pub guards: bool,
    /// Value of [`LARGE_FOLIOS`] while pages are compressed, if it is changed otherwise.
    pub folios: Option<String>,
}

/// A compressed tier in effect.
pub(crate) struct CompressedTier {
    state: Arc<TierState>,
    areas: Vec<PathBuf>,
    thread: Option<JoinHandle<()>>,
}

impl CompressedTier {
    /// Starts the thread.
    pub(crate) fn start(devices: Vec<ZramDevice>, group: MemoryCgroup, options: TierOptions) -> io::Result<Self> {
        let (page, dram) = (crate::page_bytes(), options.dram.0);
        let state = Arc::new(TierState {
            limit: AtomicU64::new(dram),
            used: Mutex::new(CompressedUse::default()),
            cpu: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let areas = devices.iter().map(ZramDevice::path).collect();
        let tier = TierLoop {
            plan: TierPlan::new(dram, page),
            judge: TierJudge::new(options.from_start),
            began: Instant::now(),
            governor: Governor::new(Tuning::for_dram(dram, page)),
            guard: if options.guards { group.guard_oom() } else { None },
            grown: (Instant::now(), Bytes(0)),
            group,
            devices,
            areas: 0,
            moved: None,
            past: CompressedUse::default(),
            spaces: Processes::default(),
            state: state.clone(),
            options,
        };
        let thread = std::thread::Builder::new().name("far-zram".into()).spawn(move || tier.run())?;
        Ok(Self { state, areas, thread: Some(thread) })
    }

    pub(crate) fn state(&self) -> Arc<TierState> {
        self.state.clone()
    }

    /// The devices of the areas.
    pub(crate) fn areas(&self) -> &[PathBuf] {
        &self.areas
    }

    /// Stops the thread and returns the final use of the areas.
    pub(crate) fn stop(&mut self) -> CompressedUse {
        self.state.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        self.state.used()
    }
}

/// The thread that adjusts the limit and adds areas.
struct TierLoop {
    plan: TierPlan,
    options: TierOptions,
    judge: TierJudge,
    began: Instant,
    group: MemoryCgroup,
    devices: Vec<ZramDevice>,
    /// Number of areas in use.
    areas: usize,
    /// Time at which the areas last grew, and their use then.
    grown: (Instant, Bytes),
    /// Time of the last move of pages from disk since compression began.
    moved: Option<Instant>,
    /// Use of areas that are no longer in use.
    past: CompressedUse,
    governor: Governor,
    guard: Option<OomGuard>,
    spaces: Processes,
    state: Arc<TierState>,
}

impl TierLoop {
    fn run(mut self) {
        while !self.state.stop.load(Ordering::Relaxed) {
            let used = self.measure();
            if self.judge.is_compressing() {
                self.fill(&used);
                self.move_if_useful(&used);
            } else {
                self.adjust(self.plan.limit(&used));
            }
            if self.judge.is_due(self.began.elapsed()) {
                self.review(&used);
            }
            make_room(&self.group, &mut self.governor, &mut self.guard, &mut self.spaces);
            if self.areas == 0 {
                std::thread::sleep(IDLE_INTERVAL);
            } else {
                self.keep_free(POLL_INTERVAL);
            }
        }
        self.measure();
    }

    /// Adds an area if one is needed, and lowers the limit.
    fn fill(&mut self, used: &CompressedUse) {
        let is_idle = self.areas == 0 && self.usage() < BEGIN_AT * self.plan.dram as f64;
        let has_more = !is_idle && self.plan.wants_area(self.areas, used);
        if self.plan.is_growing(self.grown.1, used) {
            self.grown = (Instant::now(), used.held);
        }
        let is_filling = has_more || (self.areas > 0 && self.grown.0.elapsed() < GROWTH_TIME);
        self.adjust(if is_filling {
            self.plan.limit_if_full(self.areas + usize::from(has_more), used)
        } else {
            self.plan.limit(used)
        });
        if has_more {
            self.add_area(used);
        } else if self.plan.is_useless(used) {
            self.stop();
        }
    }

    fn move_if_useful(&mut self, used: &CompressedUse) {
        let is_due = self.moved.is_none_or(|then| then.elapsed() >= MOVE_INTERVAL);
        let is_first = self.moved.is_none() && !self.options.from_start;
        if self.areas > 0 && is_due && self.plan.wants_from_disk(self.only_on_disk(used), used, is_first) {
            self.move_from_disk();
        }
    }

    /// Moves the pages on disk into the areas. The kernel does not: a page that was only read keeps its place on disk.
    fn move_from_disk(&mut self) {
        let disks = self.disks();
        for (at, disk) in disks.iter().enumerate().filter(|(_, disk)| disk.used.0 > 0) {
            let others = disks.iter().enumerate().filter(|(other, _)| *other != at);
            // A program without swap would be killed.
            if others.map(|(_, other)| other.free().0).sum::<u64>() < disk.used.0 {
                continue;
            }
            std::thread::scope(|scope| {
                let emptying = scope.spawn(|| swap::empty(&disk.path));
                self.fetch_ahead(disk, &emptying);
            });
        }
        self.judge.moved(self.began.elapsed());
        self.moved = Some(Instant::now());
    }

    /// Adds areas, and reads pages ahead of a thread that empties a disk. By itself, that thread waits for one page after the
    /// other, in the order of addresses.
    fn fetch_ahead<T>(&mut self, disk: &SwapArea, emptying: &ScopedJoinHandle<'_, T>) {
        let (mut spaces, mut fetched) = (Processes::default(), 0);
        let mut processes = self.group.processes().into_iter().peekable();
        while !emptying.is_finished() {
            if self.judge.is_compressing() {
                self.fill(&self.measure());
            }
            make_room(&self.group, &mut self.governor, &mut self.guard, &mut self.spaces);
            let left = self.disks().into_iter().find(|now| now.path == disk.path).map_or(0, |now| now.used.0);
            match processes.peek() {
                Some(process) if fetched + left <= disk.used.0 + FETCHED_AHEAD => {
                    let bytes = spaces.fetch_next(*process, FETCHED_AHEAD / 4);
                    fetched += bytes;
                    if bytes == 0 {
                        processes.next();
                    }
                }
                _ => self.keep_free(FREE_INTERVAL),
            }
        }
    }

    fn usage(&self) -> f64 {
        self.group.usage().unwrap_or_default().0 as f64
    }

    /// Returns the disks that are in use as swap.
    fn disks(&self) -> Vec<SwapArea> {
        let areas = swap::areas(Path::new("/")).unwrap_or_default();
        areas.into_iter().filter(|area| self.options.disks.contains(&area.path)).collect()
    }

    /// Returns the memory that is on disk only. A page that was only read after its eviction is also in DRAM.
    fn only_on_disk(&self, used: &CompressedUse) -> Bytes {
        let on_disk = self.disks().iter().map(|disk| disk.used.0).sum();
        let evicted = self.group.held().unwrap_or_default().swap.0;
        Bytes(evicted.saturating_sub(used.held.0).min(on_disk))
    }

    /// Returns the sum of the areas in use; the traffic is also that of the past ones.
    fn measure(&self) -> CompressedUse {
        let uses = self.devices[..self.areas].iter().filter_map(|device| device.usage().ok());
        let used = uses.fold(self.past, sum);
        *self.state.used.lock().expect("no holder panics") = used;
        self.state.cpu.store(thread_time::used().as_nanos() as u64, Ordering::Relaxed);
        used
    }

    /// Adds an area once the limit leaves DRAM for it.
    fn add_area(&mut self, used: &CompressedUse) {
        if self.state.limit() > self.plan.limit_if_full(self.areas + 1, used) + self.plan.dram / SLACK_PART {
            return;
        }
        match self.devices[self.areas].use_as_swap(self.areas) {
            Ok(()) => self.areas += 1,
            // Too many swap areas: evicted pages go to disk.
            Err(_) => self.stop(),
        }
    }

    fn review(&mut self, used: &CompressedUse) {
        let now = counters(&self.group, &self.options.disks, self.began.elapsed(), used.traffic.loaded);
        match self.judge.review(now) {
            TierChange::None if self.judge.spares_dram() => self.plan.lower_floor(),
            TierChange::None => {}
            TierChange::Compress => {
                self.moved = None;
                self.plan.reset_floor();
                self.use_large_folios(false);
            }
            TierChange::Stop => return self.empty_areas(),
        }
        // A disk that could not be used again after it was emptied is tried again.
        let disks = self.disks();
        let unused = self.options.disks.iter().filter(|path| disks.iter().all(|disk| disk.path != **path));
        unused.for_each(|path| drop(swap::empty(path)));
    }

    /// Stops compressing for some time.
    fn stop(&mut self) {
        self.judge.stop(self.began.elapsed());
        self.empty_areas();
    }

    /// Turns large folios on or off. With large folios, one page fault would decompress a whole folio.
    fn use_large_folios(&self, are_used: bool) {
        let Some(otherwise) = &self.options.folios else { return };
        // The undo journal restores the value. Without permission, faults read more than they need.
        let _ = std::fs::write(Path::new("/").join(LARGE_FOLIOS), if are_used { "always" } else { otherwise });
    }

    /// Moves the pages of all areas to disk.
    fn empty_areas(&mut self) {
        self.use_large_folios(true);
        while let Some(device) = self.areas.checked_sub(1).and_then(|last| self.devices.get(last)) {
            let CompressedUse { held, traffic, .. } = device.usage().unwrap_or_default();
            let free: u64 = self.disks().iter().map(|disk| disk.free().0).sum();
            if free < held.0 || device.empty().is_err() {
                return;
            }
            self.areas -= 1;
            self.past = sum(self.past, CompressedUse { traffic, ..CompressedUse::default() });
            let used = self.measure();
            self.adjust(self.plan.limit(&used));
        }
    }

    /// Evicts pages ahead of the program for this time, so that its page faults do not have to wait for compression.
    fn keep_free(&self, time: Duration) {
        let (until, limit) = (Instant::now() + time, self.state.limit());
        let ahead = FREE_AHEAD.min(self.plan.dram / SLACK_PART);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let is_short = self.usage() > limit.saturating_sub(ahead / 2) as f64;
            let is_freed = is_short && self.group.evict(Bytes(ahead), Bytes(limit)).is_ok();
            std::thread::sleep(if is_freed { left.min(FREE_INTERVAL) } else { left });
        }
    }

    /// Changes the limit, down in steps for a limited time.
    fn adjust(&mut self, target: u64) {
        if self.state.limit().abs_diff(target) < self.plan.dram / SLACK_PART {
            return;
        }
        let until = Instant::now() + STEPS_TIME;
        loop {
            let now = self.state.limit();
            let next = target.max(now.saturating_sub(STEP));
            if next == now || Instant::now() > until {
                return;
            }
            if self.group.lower_limit(Bytes(next)).is_err() {
                // The kernel does not evict enough if the program has used all pages recently.
                self.evict(now.saturating_sub(next));
                return;
            }
            self.state.limit.store(next, Ordering::Relaxed);
        }
    }

    fn evict(&mut self, bytes: u64) {
        let mut left = bytes;
        for process in self.group.processes() {
            left = left.saturating_sub(self.spaces.page_out_anywhere(process, left));
            if left == 0 {
                return;
            }
        }
    }
}

/// Returns the counters at this time since the start of the expansion. `loaded` are the bytes read from compressed memory.
fn counters(group: &MemoryCgroup, disks: &[PathBuf], time: Duration, loaded: Bytes) -> PagingCounters {
    let page = crate::page_bytes();
    let start = PagingCounters {
        time,
        refaults: group.refaults(),
        major_faults: group.held().map_or(0, |held| held.major_faults),
        from_areas: loaded.0 / page,
        ..PagingCounters::default()
    };
    disks.iter().map(|disk| swap::reads(Path::new("/"), disk)).fold(start, |sum, reads| PagingCounters {
        from_disk: sum.from_disk + reads.bytes.0 / page,
        reads: sum.reads + reads.count,
        disk_time: sum.disk_time + reads.time,
        ..sum
    })
}

fn sum(left: CompressedUse, right: CompressedUse) -> CompressedUse {
    let mut traffic = left.traffic;
    traffic.stored.0 += right.traffic.stored.0;
    traffic.loaded.0 += right.traffic.loaded.0;
    let total = |left: Bytes, right: Bytes| Bytes(left.0 + right.0);
    let packed = total(left.packed.unwrap_or_default(), right.packed.unwrap_or_default());
    CompressedUse {
        dram: total(left.dram, right.dram),
        held: total(left.held, right.held),
        packed: Some(packed),
        traffic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_areas_is_added() {
        let one = |bytes: u64| {
            let mut used = CompressedUse { held: Bytes(bytes), dram: Bytes(bytes + 1), ..CompressedUse::default() };
            (used.traffic.stored, used.traffic.loaded) = (Bytes(bytes + 2), Bytes(bytes + 3));
            used.packed = Some(Bytes(bytes + 4));
            used
        };
        let both = sum(one(1), one(10));
        assert_eq!((both.held.0, both.dram.0, both.packed), (11, 13, Some(Bytes(19))));
        assert_eq!((both.traffic.stored.0, both.traffic.loaded.0), (15, 17));
    }
}
