//! Decides when evicted pages are kept compressed: not before a program waits for single pages from disk, and no longer
//! than that makes it wait less. Pure: counters and times are arguments.

use std::time::Duration;

use machine::cgroup::Refaults;

/// Interval between two reviews while evicted pages go to disk, and while they are compressed.
const INTERVAL: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(1)];
/// Number of reviews in a row after which compression begins or ends.
const REVIEWS: u32 = 2;
/// Mean number of threads that wait for the disk from which on compression is tried.
const WAITING_MIN: f64 = 0.3;
/// Share of the pages read from disk for which the program has to wait. Of those that are prefetched, it waits for few.
const DEMANDED_MIN: f64 = 0.25;
/// Share of the refaults that more DRAM would avoid. If it is larger, the program needs its DRAM for the pages in use.
const RECENT_MAX: f64 = 0.5;
/// The same, up to which compressed pages may use more DRAM: few of the pages in use would gain from it.
const RECENT_LOW: f64 = 0.25;
/// Time of a page fault without that of the disk, in seconds: all of it if the page is compressed.
const FAULT: f64 = 12e-6;
/// Assumed time to read a page from disk, in seconds, until it has been measured.
const READ: f64 = 50e-6;
/// Number of reads from which on their mean time is known.
const READS_MIN: u64 = 100;
/// Number of pages used again between two reviews from which compression can do harm: with fewer, little is lost.
const REFAULTS_MIN: u64 = 5000;
/// Time from which on compression is judged: before, areas fill.
const SETTLED: Duration = Duration::from_secs(2);
/// Time after compression has ended before it is tried again; each time twice as long.
const PAUSE: Duration = Duration::from_secs(30);

/// Totals since the start of an expansion, or since the last review.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PagingCounters {
    pub time: Duration,
    pub refaults: Refaults,
    /// Page faults that waited for a page.
    pub major_faults: u64,
    /// Pages read from disk and from compressed areas.
    pub from_disk: u64,
    pub from_areas: u64,
    /// Number of reads from disk.
    pub reads: u64,
    /// Sum of the durations of these reads.
    pub disk_time: Duration,
}

impl PagingCounters {
    fn since(self, before: Self) -> Self {
        Self {
            time: self.time.saturating_sub(before.time),
            refaults: Refaults {
                all: self.refaults.all.saturating_sub(before.refaults.all),
                recent: self.refaults.recent.saturating_sub(before.refaults.recent),
            },
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            from_disk: self.from_disk.saturating_sub(before.from_disk),
            from_areas: self.from_areas.saturating_sub(before.from_areas),
            reads: self.reads.saturating_sub(before.reads),
            disk_time: self.disk_time.saturating_sub(before.disk_time),
        }
    }

    /// Share of the pages read from disk for which the program waited.
    fn demanded(&self) -> f64 {
        share(self.major_faults.saturating_sub(self.from_areas) as f64, self.from_disk as f64)
    }

    /// Share of the refaults that more DRAM would avoid.
    fn recent(&self) -> f64 {
        share(self.refaults.recent as f64, self.refaults.all as f64)
    }

    /// Time for which all threads together waited for the disk.
    fn waited(&self) -> f64 {
        self.disk_time.as_secs_f64() * self.demanded()
    }

    /// Returns whether compression is worth a try: the program mostly waits for single pages from disk, of which few would
    /// be in DRAM if the limit were a little higher.
    fn is_promising(&self) -> bool {
        self.waited() >= WAITING_MIN * self.time.as_secs_f64()
            && self.demanded() >= DEMANDED_MIN
            && self.recent() <= RECENT_MAX
    }

    /// Mean time of a read from disk in seconds; `None` if there were few.
    fn read_time(&self) -> Option<f64> {
        (self.reads >= READS_MIN).then(|| self.disk_time.as_secs_f64() / self.reads as f64)
    }

    /// Returns whether the program would wait less without compression: the pages evicted most recently would then be in DRAM,
    /// but all others on disk. `read` is the mean time of a read from disk in seconds.
    fn does_harm(&self, read: f64) -> bool {
        let on_disk = share(self.from_disk as f64, (self.from_disk + self.from_areas) as f64);
        FAULT + on_disk * read >= (1.0 - self.recent()) * (FAULT + read)
    }
}

/// Returns the share of a part in the whole, at most 1. The share in nothing is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

/// Change that follows from a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TierChange {
    None,
    Compress,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum JudgeState {
    /// Evicted pages go to disk. `promising` is the number of last reviews at which compression was worth a try.
    Disk { promising: u32 },
    /// Evicted pages are compressed since a time. `harms` is the number of last reviews at which compression did harm, and
    /// `spares` of those at which few pages were used again soon.
    Compressed { since: Duration, harms: u32, spares: u32 },
}

#[derive(Debug)]
pub(super) struct TierJudge {
    state: JudgeState,
    /// The counters of the last review.
    last: PagingCounters,
    /// Mean time of a read from disk in seconds.
    read: f64,
    /// Compression is not tried before this time.
    not_before: Duration,
    pause: Duration,
}

impl TierJudge {
    /// `is_compressing`: whether pages are compressed from the start.
    pub(super) fn new(is_compressing: bool) -> Self {
        let state = if is_compressing {
            JudgeState::Compressed { since: Duration::ZERO, harms: 0, spares: 0 }
        } else {
            JudgeState::Disk { promising: 0 }
        };
        Self { state, last: PagingCounters::default(), read: READ, not_before: Duration::ZERO, pause: PAUSE }
    }

    pub(super) fn is_compressing(&self) -> bool {
        matches!(self.state, JudgeState::Compressed { .. })
    }

    /// Returns whether the next review is due.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.last.time + INTERVAL[usize::from(self.is_compressing())]
    }

    /// Judges the time since the last review.
    pub(super) fn review(&mut self, now: PagingCounters) -> TierChange {
        let passed = now.since(std::mem::replace(&mut self.last, now));
        self.read = passed.read_time().unwrap_or(self.read);
        match &mut self.state {
            JudgeState::Disk { promising } => {
                let is_promising = now.time >= self.not_before && passed.is_promising();
                *promising = if is_promising { *promising + 1 } else { 0 };
                if *promising < REVIEWS {
                    return TierChange::None;
                }
                self.state = JudgeState::Compressed { since: now.time, harms: 0, spares: 0 };
                TierChange::Compress
            }
            JudgeState::Compressed { since, harms, spares } => {
                let is_judged = now.time >= *since + SETTLED && passed.refaults.all >= REFAULTS_MIN;
                *spares = if is_judged && passed.recent() <= RECENT_LOW { *spares + 1 } else { 0 };
                *harms = if is_judged && passed.does_harm(self.read) { *harms + 1 } else { 0 };
                if *harms < REVIEWS {
                    return TierChange::None;
                }
                self.stop(now.time);
                TierChange::Stop
            }
        }
    }

    /// Reports that pages have moved until now: the time before does not show whether compression pays.
    pub(super) fn moved(&mut self, now: Duration) {
        if let JudgeState::Compressed { since, harms, spares } = &mut self.state {
            (*since, *harms, *spares) = (now, 0, 0);
        }
    }

    /// Returns whether compressed pages may use more DRAM.
    pub(super) fn spares_dram(&self) -> bool {
        matches!(self.state, JudgeState::Compressed { spares, .. } if spares >= REVIEWS)
    }

    /// Ends compression, for some time.
    pub(super) fn stop(&mut self, now: Duration) {
        self.state = JudgeState::Disk { promising: 0 };
        self.not_before = now + self.pause;
        self.pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A second of random access to pages on disk: 12 000 faults of 60 µs each.
    fn random() -> PagingCounters {
        PagingCounters {
            time: 1000 * MS,
            refaults: Refaults { all: 24_000, recent: 3600 },
            major_faults: 12_000,
            from_disk: 24_000,
            from_areas: 0,
            reads: 24_000,
            disk_time: 1400 * MS,
        }
    }

    /// A second of random access to compressed pages.
    fn compressed() -> PagingCounters {
        PagingCounters {
            refaults: Refaults { all: 60_000, recent: 9000 },
            major_faults: 60_000,
            from_disk: 0,
            from_areas: 60_000,
            reads: 0,
            disk_time: Duration::ZERO,
            ..random()
        }
    }

    /// Reviews intervals of this kind; returns the changes.
    struct Reviews {
        judge: TierJudge,
        total: PagingCounters,
    }

    impl Reviews {
        fn new(from_start: bool) -> Self {
            Self { judge: TierJudge::new(from_start), total: PagingCounters::default() }
        }

        fn add(&mut self, passed: PagingCounters) -> TierChange {
            let total = &mut self.total;
            *total = PagingCounters {
                time: total.time + passed.time,
                refaults: Refaults {
                    all: total.refaults.all + passed.refaults.all,
                    recent: total.refaults.recent + passed.refaults.recent,
                },
                major_faults: total.major_faults + passed.major_faults,
                from_disk: total.from_disk + passed.from_disk,
                from_areas: total.from_areas + passed.from_areas,
                reads: total.reads + passed.reads,
                disk_time: total.disk_time + passed.disk_time,
            };
            assert_eq!(total.since(PagingCounters::default()), *total);
            self.judge.review(*total)
        }
    }

    #[test]
    fn compression_begins_while_a_program_waits_for_single_pages() {
        let mut reviews = Reviews::new(false);
        assert_eq!(reviews.add(random()), TierChange::None);
        assert_eq!(reviews.add(random()), TierChange::Compress);
        assert!(reviews.judge.is_compressing());
        let begins = |passed| {
            let mut reviews = Reviews::new(false);
            (0..5).any(|_| reviews.add(passed) == TierChange::Compress)
        };
        assert!(!begins(PagingCounters { major_faults: 400, ..random() }), "pages are prefetched");
        assert!(!begins(PagingCounters { disk_time: 500 * MS, ..random() }), "it waits for a quarter of the time");
        let needed = Refaults { all: 24_000, recent: 13_000 };
        assert!(!begins(PagingCounters { refaults: needed, ..random() }), "it needs its DRAM for the pages in use");
        assert!(!begins(PagingCounters { time: 1000 * MS, ..PagingCounters::default() }), "nothing is read");
    }

    #[test]
    fn one_interval_is_not_enough_to_begin() {
        let mut reviews = Reviews::new(false);
        let idle = PagingCounters { time: 1000 * MS, ..PagingCounters::default() };
        let changes = [random(), idle, random(), idle].map(|passed| reviews.add(passed));
        assert_eq!(changes, [TierChange::None; 4]);
    }

    #[test]
    fn compression_stays_while_few_pages_would_be_in_dram_without_it() {
        let mut reviews = Reviews::new(false);
        let changes = [random(); 2].into_iter().chain([compressed(); 9]).map(|passed| reviews.add(passed));
        let changes: Vec<_> = changes.filter(|change| *change != TierChange::None).collect();
        assert_eq!(changes, [TierChange::Compress]);
        assert!(reviews.judge.is_compressing());
    }

    #[test]
    fn harmful_compression_ends_for_some_time() {
        let mut reviews = Reviews::new(true);
        let harmful = PagingCounters { refaults: Refaults { all: 60_000, recent: 50_000 }, ..compressed() };
        let few = PagingCounters { refaults: Refaults { all: 4999, recent: 4999 }, ..compressed() };
        let changes = [harmful, few, harmful, few, harmful, harmful].map(|passed| reviews.add(passed));
        assert_eq!(changes[..5], [TierChange::None; 5], "the first second is not judged, nor are few pages");
        assert_eq!((changes[5], reviews.judge.is_compressing()), (TierChange::Stop, false));
        let mut again = (1..100).filter(|_| reviews.add(random()) == TierChange::Compress);
        assert_eq!(again.next(), Some(31), "30 s, and two intervals in a row");
    }

    #[test]
    fn dram_is_spared_while_few_pages_are_used_again_soon() {
        let mut reviews = Reviews::new(true);
        let mut spares = |passed| {
            reviews.add(passed);
            reviews.judge.spares_dram()
        };
        assert_eq!([compressed(); 3].map(&mut spares), [false, false, true], "the first second is not judged");
        let sooner = PagingCounters { refaults: Refaults { all: 60_000, recent: 16_000 }, ..compressed() };
        assert_eq!([sooner, compressed(), compressed()].map(&mut spares), [false, false, true]);
        assert!(!TierJudge::new(false).spares_dram());
    }

    #[test]
    fn time_in_which_pages_move_is_not_judged() {
        let mut reviews = Reviews::new(true);
        let harmful = PagingCounters { refaults: Refaults { all: 60_000, recent: 50_000 }, ..compressed() };
        let mut stops = |moves| {
            reviews.add(harmful);
            if moves {
                reviews.judge.moved(reviews.total.time);
            }
            !reviews.judge.is_compressing()
        };
        assert!((0..9).all(|_| !stops(true)));
        assert_eq!([stops(false), stops(false), stops(false)], [false, false, true]);
    }

    #[test]
    fn each_pause_is_twice_as_long() {
        let mut judge = TierJudge::new(true);
        judge.stop(10 * MS);
        assert_eq!(judge.not_before, PAUSE + 10 * MS);
        judge.stop(10 * MS);
        assert_eq!(judge.not_before, 2 * PAUSE + 10 * MS);
    }

    #[test]
    fn intervals_are_shorter_before_compression() {
        let (disk, compressing) = (TierJudge::new(false), TierJudge::new(true));
        assert!(disk.is_due(300 * MS) && !disk.is_due(299 * MS));
        assert!(compressing.is_due(1000 * MS) && !compressing.is_due(999 * MS));
    }

    #[test]
    fn harm_is_judged_by_what_would_be_in_dram_and_on_disk() {
        let harms = |all, recent, from_disk, from_areas| {
            let refaults = Refaults { all, recent };
            PagingCounters { refaults, from_disk, from_areas, ..PagingCounters::default() }.does_harm(48e-6)
        };
        assert!(harms(17_000, 10_200, 47, 53), "sqlite: its sort needs most of the DRAM");
        assert!(!harms(33_000, 5000, 0, 100), "random keys of a dictionary");
        assert!(!harms(24_000, 3400, 25, 75), "random keys of redis, of which some are on disk");
        assert!(harms(5000, 4001, 0, 100) && !harms(5000, 3999, 0, 100));
    }

    #[test]
    fn slow_disks_make_compression_worth_more() {
        let harms =
            |read| PagingCounters { refaults: Refaults { all: 100, recent: 90 }, ..compressed() }.does_harm(read);
        assert!(harms(100e-6) && !harms(10e-3));
        assert_eq!(PagingCounters { reads: 100, disk_time: 5 * MS, ..random() }.read_time(), Some(50e-6));
        assert_eq!(PagingCounters { reads: 99, ..random() }.read_time(), None, "few");
        let mut judge = TierJudge::new(false);
        judge.review(PagingCounters { reads: 1000, disk_time: 9000 * MS, ..random() });
        assert!((judge.read - 9e-3).abs() < 1e-9);
    }
}
