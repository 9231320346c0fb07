//! Compressed memory in front of the disk, where the kernel has no zswap that counts towards the limit: swap areas in DRAM
//! (zram) that the kernel fills first. A thread lowers the limit of the cgroup by the DRAM that they use, and adds areas
//! while they fill. It gives them up if data do not compress, or if the program needs the DRAM for the pages in use. Must
//! not know which pages are evicted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::cgroup::{CompressedUse, MemoryCgroup, OomGuard, Refaults};
use machine::swap;
use machine::thread_time;
use machine::undo::{AppliedSettings, ChangeError, THERE};
use machine::zram::{self, ZramDevice};
use model::values::units::Bytes;

use crate::advise::Processes;
use crate::predict::Tuning;
use crate::predict::governor::Governor;
use crate::rescue::make_room;

/// Number of areas. The kernel allows about 23 of all programs.
const AREAS: usize = 18;
/// Divides the limit into the size of an area, of uncompressed data.
const AREA_PART: u64 = 8;
/// Divides the limit into the part that is left for pages in use.
const FLOOR_PART: u64 = 2;
/// Smallest compression ratio that pays: with less, pages in use lose more DRAM than compressed pages gain.
const RATIO_MIN: f64 = 1.5;
/// Share of the first area from which on the ratio is known.
const JUDGED_FROM: f64 = 0.7;
/// Share of the limit from which areas are added: below, nothing is evicted.
const BEGIN_AT: f64 = 0.7;
/// Areas that may be empty, so that the kernel does not write to disk before the next one is added.
const AHEAD: f64 = 1.5;
/// Time to read a compressed page, as a share of that to read one from disk.
const COST: f64 = 0.2;
/// Number of pages used again between two reviews from which compression can do harm: with fewer, little is lost.
const REFAULTS_MIN: u64 = 5000;
const REVIEW_INTERVAL: Duration = Duration::from_secs(1);
/// Number of reviews in a row after which compression is given up.
const HARMS: u32 = 2;
/// Smallest amount on disk that is moved into empty areas.
const MOVED_MIN: u64 = 1 << 20;
/// Share of the measured compression ratio that further pages are expected to have.
const RATIO_TRUST: f64 = 0.9;
/// Pages move from disk only if they fill at most this share of the empty areas.
const MOVED_SHARE: f64 = 0.8;
/// Largest change of the limit at once. The kernel frees memory until the change takes effect, while the program uses memory
/// up to the old limit: the larger the change, the longer the race, in which no areas are added.
const STEP: u64 = 128 << 10;
/// Divides an area into the growth that counts, and time for which further growth is expected.
const GROWTH_PART: u64 = 16;
const GROWTH_TIME: Duration = Duration::from_secs(1);
/// Divides the limit into the change below which it stays: each one makes the kernel evict pages.
const SLACK_PART: u64 = 100;
/// Time after which the areas are checked again, however far the limit is from its target.
const STEPS_TIME: Duration = Duration::from_millis(5);
const POLL_INTERVAL: Duration = Duration::from_millis(3);
/// Interval while nothing is compressed.
const IDLE_INTERVAL: Duration = Duration::from_millis(10);

/// Rules for the limit and the areas, which depend only on the use of the areas. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TierPlan {
    dram: u64,
    /// Size of one area, of uncompressed data.
    area: u64,
}

impl TierPlan {
    fn new(dram: u64, page: u64) -> Self {
        Self { dram, area: (dram / AREA_PART / page).max(16) * page }
    }

    /// Returns the limit for pages that are not compressed.
    fn limit(&self, compressed: &CompressedUse) -> u64 {
        self.dram.saturating_sub(compressed.dram.0).max(self.dram / FLOOR_PART)
    }

    /// Returns the limit with this number of areas while they fill: what is left if all of them are full. They fill within
    /// milliseconds, faster than the kernel can free memory.
    fn limit_if_full(&self, areas: usize, compressed: &CompressedUse) -> u64 {
        let ratio = self.ratio(compressed).unwrap_or(RATIO_MIN).max(1.0);
        let reserve = self.empty(areas, compressed) as f64 / ratio;
        let full = CompressedUse { dram: Bytes(compressed.dram.0 + reserve as u64), ..*compressed };
        self.limit(&full)
    }

    /// Returns whether the areas fill, compared with their largest use so far.
    fn is_growing(&self, held_max: Bytes, compressed: &CompressedUse) -> bool {
        compressed.held.0 > held_max.0 + self.area / GROWTH_PART
    }

    /// Returns the uncompressed size of what still fits into the areas.
    fn empty(&self, areas: usize, compressed: &CompressedUse) -> u64 {
        (areas as u64 * self.area).saturating_sub(compressed.held.0)
    }

    /// Returns whether another area should be added to this number of areas: if few are empty or if data on disk could move,
    /// and if the areas, once full, leave enough DRAM. Until the ratio is known, that has to be true even if no page can be
    /// compressed.
    fn wants_area(&self, areas: usize, compressed: &CompressedUse, on_disk: Bytes) -> bool {
        let empty = self.empty(areas, compressed);
        let ratio = self.ratio(compressed).map_or(1.0, |ratio| (RATIO_TRUST * ratio).max(1.0));
        let dram_max = compressed.dram.0 as f64 + (empty + self.area) as f64 / ratio;
        let is_wanted = (empty as f64) < AHEAD * self.area as f64 + on_disk.0 as f64 / MOVED_SHARE;
        areas < AREAS && is_wanted && dram_max <= (self.dram - self.dram / FLOOR_PART) as f64
    }

    /// Returns the compression ratio; `None` before enough pages are compressed.
    fn ratio(&self, compressed: &CompressedUse) -> Option<f64> {
        let is_known = compressed.held.0 as f64 >= JUDGED_FROM * self.area as f64;
        is_known.then(|| compressed.held.0 as f64 / compressed.dram.0.max(1) as f64)
    }

    /// Returns whether compression saves too little DRAM.
    fn is_useless(&self, compressed: &CompressedUse) -> bool {
        self.ratio(compressed).is_some_and(|ratio| ratio < RATIO_MIN)
    }

    /// Returns whether this much data on disk should be moved into empty areas. The kernel does not do so: a page that was
    /// only read keeps its place on disk.
    fn wants_from_disk(&self, on_disk: Bytes, areas: usize, compressed: &CompressedUse) -> bool {
        on_disk.0 >= MOVED_MIN && on_disk.0 as f64 <= MOVED_SHARE * self.empty(areas, compressed) as f64
    }
}

/// Totals since the start, or since the last review.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TierTraffic {
    refaults: Refaults,
    /// Bytes read from disk and from compressed areas.
    from_disk: u64,
    from_areas: u64,
}

impl TierTraffic {
    fn since(self, before: Self) -> Self {
        let Self { refaults, from_disk, from_areas } = self;
        Self {
            refaults: Refaults {
                all: refaults.all.saturating_sub(before.refaults.all),
                recent: refaults.recent.saturating_sub(before.refaults.recent),
            },
            from_disk: from_disk.saturating_sub(before.from_disk),
            from_areas: from_areas.saturating_sub(before.from_areas),
        }
    }

    /// Returns whether the program would wait less without compression: the pages evicted most recently would then be in DRAM,
    /// but all others on disk.
    fn does_harm(&self) -> bool {
        let on_disk = self.from_disk as f64 / (self.from_disk + self.from_areas).max(1) as f64;
        let recent = self.refaults.recent as f64 / self.refaults.all.max(1) as f64;
        self.refaults.all >= REFAULTS_MIN && on_disk + (1.0 - on_disk) * COST >= 1.0 - recent
    }
}

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

/// A compressed tier in effect.
pub(crate) struct CompressedTier {
    state: Arc<TierState>,
    devices: Arc<Vec<ZramDevice>>,
    thread: Option<JoinHandle<()>>,
}

impl CompressedTier {
    /// Creates the areas, which are not in use yet.
    pub(crate) fn create(setting: &str, dram: Bytes, changed: &mut AppliedSettings) -> Result<Self, ChangeError> {
        let plan = TierPlan::new(dram.0, crate::page_bytes());
        // Without zram, creating a device returns the error.
        let lock = zram::lock(changed.root()).ok();
        let device = |_| -> Result<ZramDevice, ChangeError> {
            let target = ZramDevice::target(changed.root(), Bytes(plan.area));
            changed.set(setting, target.clone(), THERE)?;
            ZramDevice::format(&target).map_err(|error| ChangeError {
                what: format!("cannot write the header of {target}: {error}"),
                hint: "run without compressed memory".into(),
                not_permitted: false,
            })
        };
        let devices = Arc::new((0..AREAS).map(device).collect::<Result<Vec<_>, _>>()?);
        drop(lock);
        let used = Mutex::new(CompressedUse::default());
        let state = Arc::new(TierState {
            limit: AtomicU64::new(dram.0),
            used,
            cpu: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        Ok(Self { state, devices, thread: None })
    }

    /// Starts the thread. `disk` is the swap device for all other pages. If `guards`, the thread frees memory when
    /// the kernel would kill a process; otherwise the paging controller does.
    pub(crate) fn start(&mut self, group: MemoryCgroup, dram: Bytes, disk: &Path, guards: bool) -> io::Result<()> {
        let page = crate::page_bytes();
        let tier = TierLoop {
            plan: TierPlan::new(dram.0, page),
            governor: Governor::new(Tuning::for_dram(dram.0, page)),
            guard: if guards { group.guard_oom() } else { None },
            grown: (Instant::now(), Bytes(0)),
            reviewed: None,
            harms: 0,
            group,
            disk: disk.into(),
            devices: self.devices.clone(),
            areas: 0,
            is_given_up: false,
            past: CompressedUse::default(),
            spaces: Processes::default(),
            state: self.state.clone(),
        };
        let run = move || tier.run();
        self.thread = Some(std::thread::Builder::new().name("far-zram".into()).spawn(run)?);
        Ok(())
    }

    pub(crate) fn state(&self) -> Arc<TierState> {
        self.state.clone()
    }

    pub(crate) fn devices(&self) -> impl Iterator<Item = &ZramDevice> {
        self.devices.iter()
    }

    /// Ends the thread, and returns the last use of the areas.
    pub(crate) fn stop(&mut self) -> CompressedUse {
        self.state.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        self.state.used()
    }
}

/// The thread that adjusts the limit and adds areas.
struct TierLoop {
    plan: TierPlan,
    group: MemoryCgroup,
    devices: Arc<Vec<ZramDevice>>,
    /// Number of areas in use.
    areas: usize,
    is_given_up: bool,
    disk: PathBuf,
    /// Time at which the areas last grew, and their use then.
    grown: (Instant, Bytes),
    /// Time of the last review, and the counters then; `None` before the first.
    reviewed: Option<(Instant, TierTraffic)>,
    /// Number of last reviews at which compression did harm.
    harms: u32,
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
            let is_idle = self.areas == 0 && self.usage() < BEGIN_AT * self.plan.dram as f64;
            let on_disk = swap::used(Path::new("/"), &self.disk);
            let has_more =
                !self.is_given_up && !is_idle && self.plan.wants_area(self.areas, &used, on_disk.unwrap_or_default());
            if self.plan.is_growing(self.grown.1, &used) {
                self.grown = (Instant::now(), used.held);
            }
            let is_filling = has_more || (self.areas > 0 && self.grown.0.elapsed() < GROWTH_TIME);
            self.adjust(if is_filling {
                self.plan.limit_if_full(self.areas + usize::from(has_more), &used)
            } else {
                self.plan.limit(&used)
            });
            if has_more {
                self.add_area(&used);
            } else if !self.is_given_up && self.plan.is_useless(&used) {
                self.give_up();
            } else if (self.areas > 0 || on_disk.is_none())
                && self.reviewed.is_none_or(|(then, _)| then.elapsed() >= REVIEW_INTERVAL)
            {
                self.review(&used, on_disk);
            }
            make_room(&self.group, &mut self.governor, &mut self.guard, &mut self.spaces);
            std::thread::sleep(if self.areas == 0 { IDLE_INTERVAL } else { POLL_INTERVAL });
        }
        self.measure();
    }

    fn usage(&self) -> f64 {
        self.group.usage().unwrap_or_default().0 as f64
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
            Err(_) => self.is_given_up = true,
        }
    }

    fn review(&mut self, used: &CompressedUse, on_disk: Option<Bytes>) {
        let now = TierTraffic {
            refaults: self.group.refaults(),
            from_disk: swap::bytes_read(Path::new("/"), &self.disk).0,
            from_areas: used.traffic.loaded.0,
        };
        let before = self.reviewed.replace((Instant::now(), now));
        let does_harm = before.is_some_and(|(_, before)| now.since(before).does_harm());
        self.harms = if does_harm { self.harms + 1 } else { 0 };
        if self.harms >= HARMS {
            self.give_up();
        } else if on_disk.is_none_or(|on_disk| self.plan.wants_from_disk(on_disk, self.areas, used)) {
            // Pages without space stay on disk, and a device that is not in use is tried again.
            let _ = swap::empty(&self.disk);
        }
    }

    /// Moves the pages of all areas to disk, and uses none any more.
    fn give_up(&mut self) {
        self.is_given_up = true;
        while let Some(device) = self.areas.checked_sub(1).and_then(|last| self.devices.get(last)) {
            let traffic = device.usage().unwrap_or_default().traffic;
            if device.empty().is_err() {
                return;
            }
            self.areas -= 1;
            self.past = sum(self.past, CompressedUse { traffic, ..CompressedUse::default() });
            let used = self.measure();
            self.adjust(self.plan.limit(&used));
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

fn sum(left: CompressedUse, right: CompressedUse) -> CompressedUse {
    let mut traffic = left.traffic;
    traffic.stored.0 += right.traffic.stored.0;
    traffic.loaded.0 += right.traffic.loaded.0;
    CompressedUse { dram: Bytes(left.dram.0 + right.dram.0), held: Bytes(left.held.0 + right.held.0), traffic }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn used(held: u64, dram: u64) -> CompressedUse {
        CompressedUse { dram: Bytes(dram), held: Bytes(held), ..CompressedUse::default() }
    }

    fn plan() -> TierPlan {
        TierPlan { dram: 240 * MIB, area: 30 * MIB }
    }

    #[test]
    fn areas_are_whole_pages_of_an_eighth_of_the_limit() {
        assert_eq!(TierPlan::new(240 * MIB, 4096), plan());
        assert_eq!(TierPlan::new(100, 4096).area, 16 * 4096, "large enough for a swap header");
        assert_eq!(TierPlan::new(8 * MIB + 5, 4096).area % 4096, 0);
    }

    #[test]
    fn limit_leaves_dram_for_compressed_pages_down_to_a_half() {
        assert_eq!(plan().limit(&used(0, 0)), 240 * MIB);
        assert_eq!(plan().limit(&used(120 * MIB, 50 * MIB)), 190 * MIB);
        assert_eq!(plan().limit(&used(500 * MIB, 230 * MIB)), 120 * MIB);
        assert_eq!(plan().limit_if_full(1, &used(0, 0)), 220 * MIB, "the ratio is not known");
        assert_eq!(plan().limit_if_full(4, &used(120 * MIB, 50 * MIB)), 190 * MIB, "all are full");
        assert_eq!(plan().limit_if_full(5, &used(120 * MIB, 40 * MIB)), 190 * MIB);
    }

    #[test]
    fn growth_is_that_beyond_the_largest_use() {
        let grows = |held| plan().is_growing(Bytes(100 * MIB), &used(held, 0));
        assert!(grows(102 * MIB) && !grows(101 * MIB) && !grows(50 * MIB));
    }

    #[test]
    fn full_areas_leave_half_of_the_limit() {
        for (ratio, expected) in [(1.0, 4), (1.3, 5), (2.5, 9), (10.0, AREAS)] {
            let (mut areas, mut held) = (0, 0);
            while held <= 30 * MIB * areas as u64 {
                let dram = (held as f64 / ratio) as u64;
                while plan().wants_area(areas, &used(held, dram), Bytes(0)) {
                    areas += 1;
                    let full = dram + ((30 * MIB * areas as u64 - held) as f64 / ratio) as u64;
                    assert!(full <= 120 * MIB, "{ratio}: {areas} areas");
                }
                held += MIB;
            }
            assert_eq!(areas, expected, "{ratio}");
        }
    }

    #[test]
    fn areas_are_added_before_they_are_needed_and_for_pages_on_disk() {
        let wants = |areas, on_disk| plan().wants_area(areas, &used(100 * MIB, 25 * MIB), Bytes(on_disk));
        assert!(wants(4, 0) && !wants(5, 0), "one and a half areas are empty");
        assert!(wants(5, 16 * MIB) && !wants(6, 16 * MIB));
    }

    #[test]
    fn data_that_hardly_compress_are_given_up() {
        assert!(!plan().is_useless(&used(20 * MIB, 20 * MIB)), "too few to judge");
        assert!(plan().is_useless(&used(21 * MIB, 15 * MIB)));
        assert!(!plan().is_useless(&used(21 * MIB, 14 * MIB)));
        assert!(!plan().is_useless(&used(0, 0)));
    }

    #[test]
    fn harm_is_judged_by_what_would_be_in_dram_and_on_disk() {
        let harms = |all, recent, from_disk, from_areas| {
            TierTraffic { refaults: Refaults { all, recent }, from_disk, from_areas }.does_harm()
        };
        assert!(harms(17_000, 10_200, 47, 53), "sqlite: its sort needs most of the DRAM");
        assert!(!harms(33_000, 5000, 0, 100), "random keys of a dictionary");
        assert!(!harms(24_000, 3400, 25, 75), "random keys of redis, of which some are on disk");
        assert!(harms(5000, 4001, 0, 100) && !harms(5000, 3999, 0, 100));
        assert!(!harms(4999, 4999, 0, 100), "few");
    }

    #[test]
    fn changes_of_counters_are_judged() {
        let counters = |all: u64| TierTraffic {
            refaults: Refaults { all, recent: 2 * all },
            from_disk: 3 * all,
            from_areas: 4 * all,
        };
        assert_eq!(counters(7).since(counters(5)), counters(2));
    }

    #[test]
    fn pages_on_disk_move_if_they_fit_into_empty_areas() {
        let moves = |on_disk| plan().wants_from_disk(Bytes(on_disk), 4, &used(100 * MIB, 30 * MIB));
        assert!(moves(MIB) && moves(16 * MIB));
        assert!(!moves(MIB - 1) && !moves(17 * MIB));
    }

    #[test]
    fn use_of_areas_is_added() {
        let one = |bytes: u64| {
            let mut used = used(bytes, bytes + 1);
            (used.traffic.stored, used.traffic.loaded) = (Bytes(bytes + 2), Bytes(bytes + 3));
            used
        };
        let both = sum(one(1), one(10));
        assert_eq!((both.held.0, both.dram.0), (11, 13));
        assert_eq!((both.traffic.stored.0, both.traffic.loaded.0), (15, 17));
    }
}
