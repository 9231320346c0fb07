//! Predicts accesses of a program from its page faults: streams of pages (forward, backward, strided, over the columns
//! of a matrix, several at once), how far to prefetch ahead of each and what to evict behind it. Pure: no system calls
//! and no clock, so recorded faults can be replayed. Must not know how faults are sampled or advice is given.

mod columns;
mod evicted;
pub(crate) mod governor;
#[cfg(test)]
mod memory_model;
#[cfg(test)]
mod replay;
mod stream;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::columns::StridedWalks;
use self::evicted::EvictedBlocks;
use self::stream::{CONFIRMED, Stream, StreamKind};

/// Maximum ranges per advice; more do not make a call cheaper.
pub(crate) const RANGES_MAX: usize = 256;
const MIB: u64 = 1 << 20;
/// Maximum number of streams. Programs have few sweeps at a time, and more entries make each fault more expensive.
const STREAMS_MAX: usize = 48;
/// Maximum distance from its last position at which a fault continues a stream, in bytes.
const REACH: i64 = 256 << 10;
/// Maximum distance of faults of a sweep that touches every page, in bytes.
const DENSE: i64 = 64 << 10;
/// Maximum stride, in bytes.
const STEP_MAX: i64 = 64 << 20;
/// Maximum number of strides without a fault.
const STEPS_SKIPPED_MAX: i64 = 64;
/// Maximum distance in pages between the starts of two walks of which the second continues the first.
const WALK_OFFSET_PAGES: i64 = 16;
/// Pages that the kernel reads around a faulting one on a device without seeks.
const READ_AROUND: u64 = 8;
/// Initial prefetch distance of a sweep, in bytes; it doubles each time the program uses it up.
const AHEAD_FIRST: u64 = 512 << 10;
/// As above if faults are farther apart than the kernel reads, so the program skips pages: walks over a matrix look
/// like many short sweeps, and useless prefetches delay processes that wait for the disk.
const AHEAD_FIRST_SPARSE: u64 = 32 << 10;
/// Minimum number of prefetched pages before waste is judged. The first pages of a stream are usually overtaken by the
/// program.
const WASTE_MIN_SAMPLE: u64 = 512;
/// Maximum length of a column, in pages.
const COLUMN_PAGES_MAX: u64 = 4;
/// Number of columns before the last one that belong to the same walk: loops over several columns access them in any
/// order.
const JITTER: i64 = 16;
/// Back-off of a stream after useless prefetches, in nanoseconds: initial and maximum.
const REST: Range<u64> = 50_000_000..2_000_000_000;

/// A sampled page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub process: u32,
    pub thread: u32,
    /// Address of the faulting instruction.
    pub instruction: u64,
    pub address: u64,
    /// Whether it waited for far memory; if not, the page was in memory and was only mapped.
    pub major: bool,
}

/// Parameters of the machine and of the expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Page size in bytes.
    pub page: u64,
    /// DRAM limit of the program, in bytes.
    pub dram: u64,
    /// One in this many minor faults is sampled.
    pub minor_period: u64,
    /// Maximum prefetch distance of a stream, in bytes.
    pub ahead_max: u64,
    /// Bytes kept in memory behind a stream, because they may be reused at once.
    pub behind: u64,
    /// Size of one eviction, in bytes.
    pub piece: u64,
}

impl Tuning {
    /// The best values found for a budget (measurements: docs/results/expand.md).
    pub fn for_dram(dram: u64, page: u64) -> Self {
        // Budgets may be odd numbers, such as half of a program's peak; the kernel rejects advice that is not
        // page-aligned.
        let share = |of: u64, least: u64, most: u64| (dram / of).clamp(least, most) / page * page;
        Self {
            page,
            dram,
            minor_period: 16,
            ahead_max: share(64, MIB, 16 * MIB),
            behind: share(512, MIB / 4, MIB),
            piece: share(512, MIB / 2, 2 * MIB),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub process: u32,
    pub advice: Advice,
    /// The stream that it is for; see [`Predictor::fetched`].
    stream: usize,
}

/// Advice on the memory of a process. Addresses are page-aligned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Prefetch the far pages of this range.
    Fetch(Range<u64>),
    /// Prefetch these single pages, far or not; they are far apart.
    FetchEach(Vec<Range<u64>>),
    PageOut(Range<u64>),
}

/// Counters since the start of the predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults that waited for far memory.
    pub major: u64,
    /// Sampled faults that did not.
    pub minor_seen: u64,
    /// Faults that belonged to a known stream.
    pub matched: u64,
    /// Streams found.
    pub streams: u64,
    /// Strided streams among them.
    pub stepping: u64,
    /// Pages prefetched.
    pub fetched: u64,
    /// Prefetched pages whose use was observed.
    pub used: u64,
    /// Prefetched pages evicted before use.
    pub lost: u64,
    /// Number of back-offs of streams whose prefetches were rarely used.
    pub rests: u64,
    /// Number of times eviction was suspended because evicted pages were reused soon.
    pub suspensions: u64,
}

/// Streams of faults and the advice that follows from them.
#[derive(Debug)]
pub struct Predictor {
    tuning: Tuning,
    streams: Vec<Stream>,
    walks: StridedWalks,
    ghosts: EvictedBlocks,
    /// Number of faults so far; the age of streams is measured with it.
    stamp: u64,
    counts: Counts,
}

impl Predictor {
    pub fn new(tuning: Tuning) -> Self {
        let streams = vec![Stream::default(); STREAMS_MAX];
        let (walks, ghosts, counts) = (StridedWalks::default(), EvictedBlocks::new(tuning.dram), Counts::default());
        Self { tuning, streams, walks, ghosts, stamp: 0, counts }
    }

    /// Counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Forgets a process that has ended or executed another program.
    pub fn forget(&mut self, process: u32) {
        for stream in self.streams.iter_mut().filter(|stream| stream.process == process) {
            *stream = Stream::default();
        }
        self.walks.forget(process);
    }

    /// Adds a fault to its stream, or makes it the start of a candidate.
    pub fn observe(&mut self, fault: &Fault) {
        *(if fault.major { &mut self.counts.major } else { &mut self.counts.minor_seen }) += 1;
        self.stamp += 1;
        let address = fault.address & !(self.tuning.page - 1);
        if self.known(fault, fault.address, |kind| kind == StreamKind::Columns) {
            return;
        }
        if let Some(step) = self.walks.observe(fault, self.tuning.page).filter(|_| !self.is_swept(fault)) {
            return self.begin_columns(fault, step);
        }
        if self.known(fault, address, |kind| kind != StreamKind::Columns) {
            return;
        }
        let own = |stream: &Stream| {
            stream.is_active()
                && !stream.is_confirmed()
                && (stream.process, stream.thread) == (fault.process, fault.thread)
        };
        if self.streams.iter().any(|stream| own(stream) && stream.last == address) {
            return;
        }
        let reach = if fault.major { DENSE } else { (self.tuning.minor_period * self.tuning.page) as i64 };
        let off = |stream: &Stream| address.wrapping_sub(stream.last) as i64;
        let near = |stream: &Stream| own(stream) && off(stream).abs() <= reach;
        let candidates = 0..self.streams.len();
        let nearest =
            candidates.clone().filter(|at| near(&self.streams[*at])).min_by_key(|at| off(&self.streams[*at]).abs());
        let same_instruction =
            |at: &usize| own(&self.streams[*at]) && self.streams[*at].instruction == fault.instruction;
        if let Some(at) = nearest {
            self.near_candidate(at, address, fault.major);
        } else if let Some(at) = candidates.clone().filter(same_instruction).max_by_key(|at| self.streams[*at].stamp) {
            self.step(at, address);
        } else if let Some(at) = candidates.min_by_key(|at| self.streams[*at].stamp) {
            self.streams[at] = Stream::candidate(fault, address, self.stamp);
        }
    }

    /// A confirmed stream takes any fault near its path, from any thread and instruction: unrolled loops fault at
    /// several instructions, and threads of a team share one sweep.
    fn known(&mut self, fault: &Fault, address: u64, of: impl Fn(StreamKind) -> bool) -> bool {
        let takes = |stream: &&mut Stream| {
            stream.is_confirmed() && of(stream.kind) && stream.process == fault.process && stream.takes(address)
        };
        let Some(stream) = self.streams.iter_mut().find(takes) else { return false };
        stream.stamp = self.stamp;
        stream.met_far |= fault.major;
        let onward = stream.past(address, stream.last);
        if stream.fetched > 0 && !fault.major {
            stream.used += self.tuning.minor_period;
            self.counts.used += self.tuning.minor_period;
        } else if stream.fetched > 0 && onward > 0 && stream.past(address, stream.edge) < 0 {
            // Prefetched and evicted before its use. One major fault stands for the pages that the kernel reads with
            // it.
            stream.used += READ_AROUND;
            stream.lost += READ_AROUND;
            self.counts.used += READ_AROUND;
            self.counts.lost += READ_AROUND;
        }
        // At or before the last position: the ring of another CPU was read first, or the fault repeats.
        if stream.extend(address) {
            stream.due = true;
            self.counts.matched += 1;
        }
        true
    }

    /// Whether the fault belongs to a sweep that uses its prefetched pages. With consecutive records of one size, every
    /// eighth page is waited for and one in [`Tuning::minor_period`] of the others is sampled; that looks like columns,
    /// but the pages between are needed, too.
    fn is_swept(&self, fault: &Fault) -> bool {
        let takes = |stream: &Stream| {
            stream.is_confirmed()
                && stream.kind == StreamKind::Sequential
                && stream.process == fault.process
                && stream.takes(fault.address)
        };
        self.streams.iter().any(|stream| takes(stream) && stream.is_used())
    }

    /// A walk over columns has revealed its step. A stream that looked like a sweep was this walk.
    fn begin_columns(&mut self, fault: &Fault, step: i64) {
        let swept = |stream: &Stream| {
            stream.process == fault.process && stream.kind == StreamKind::Sequential && stream.takes(fault.address)
        };
        for stream in self.streams.iter_mut().filter(|stream| swept(stream)) {
            *stream = Stream::default();
        }
        let Some(at) = (0..self.streams.len()).min_by_key(|at| self.streams[*at].stamp) else { return };
        let mut stream = Stream::candidate(fault, fault.address, self.stamp);
        (stream.step, stream.seen, stream.met_far) = (step, CONFIRMED, fault.major);
        self.streams[at] = stream;
        self.begin(at, StreamKind::Columns);
    }

    /// Close to a candidate of the same thread: a sweep, if the direction is kept.
    fn near_candidate(&mut self, at: usize, address: u64, major: bool) {
        let stream = &mut self.streams[at];
        let step = address.wrapping_sub(stream.last) as i64;
        let onward = stream.step != 0 && (step < 0) == (stream.step < 0) && stream.step.abs() <= REACH;
        stream.seen = if onward { stream.seen + 1 } else { 1 };
        (stream.step, stream.last, stream.stamp) = (step, address, self.stamp);
        stream.met_far |= major;
        if stream.seen >= CONFIRMED {
            self.begin(at, StreamKind::Sequential);
        }
    }

    /// The same instruction, far away: strided, if the stride repeats.
    fn step(&mut self, at: usize, address: u64) {
        let stream = &mut self.streams[at];
        let step = address.wrapping_sub(stream.last) as i64;
        let known = stream.step;
        (stream.last, stream.stamp) = (address, self.stamp);
        // Resident pages cause no fault and minor faults are sampled, so the distance may be a multiple of the stride.
        if known != 0 && (step < 0) == (known < 0) && step % known == 0 && step / known <= STEPS_SKIPPED_MAX {
            stream.seen += u32::from(step == known);
            if stream.seen >= CONFIRMED {
                self.begin(at, StreamKind::Steps);
            }
        } else {
            // Starts again; random access stays in this state and takes one entry per instruction.
            stream.step = if (DENSE + 1..=STEP_MAX).contains(&step.abs()) { step } else { 0 };
            stream.seen = 1;
        }
    }

    /// A candidate has become a stream.
    fn begin(&mut self, at: usize, kind: StreamKind) {
        let mut stream = self.streams[at].clone();
        stream.begin(kind, &self.tuning);
        let others = self.streams.iter_mut().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
        let mut others =
            others.filter(|other| other.is_confirmed() && other.process == stream.process && other.kind == kind);
        match kind {
            StreamKind::Sequential => {
                // A stream that jumped over resident pages looks new; it adopts the state of the old one.
                if let Some(old) = others.find(|old| stream.continues(old)) {
                    stream.adopt(old);
                    *old = Stream::default();
                }
            }
            StreamKind::Columns => {
                self.counts.stepping += 1;
                stream.edge = stream.last;
            }
            StreamKind::Steps => {
                self.counts.stepping += 1;
                if let Some(old) = others.find(|old| old.step == stream.step) {
                    stream.width = stream.step_width(old, &self.tuning);
                    *old = Stream::default();
                }
            }
        }
        self.counts.streams += 1;
        self.streams[at] = stream;
    }

    /// Advice for the streams that moved, at time `now` in nanoseconds. `headroom` is the number of bytes that the
    /// program may still allocate before its budget is short; pages being evicted count as free.
    pub fn orders(&mut self, now: u64, mut headroom: i64) -> Vec<Order> {
        let mut orders = Vec::new();
        for at in 0..self.streams.len() {
            if !std::mem::take(&mut self.streams[at].due) {
                continue;
            }
            headroom = self.page_out_behind(at, now, headroom, &mut orders);
            if self.streams[at].rests_until > now {
                continue;
            }
            self.fetch_ahead(at, &mut orders);
            self.judge(at, now);
        }
        orders
    }

    /// A stream that has met no far page touches memory for the first time. Its pages are dirty, so evicting them frees
    /// nothing until they are written, while the kernel evicts others: twice the writes.
    fn page_out_behind(&mut self, at: usize, now: u64, mut headroom: i64, orders: &mut Vec<Order>) -> i64 {
        let Tuning { behind, piece, page, .. } = self.tuning;
        let stream = &mut self.streams[at];
        if stream.kind != StreamKind::Sequential || !stream.met_far || self.ghosts.suspended(now) {
            return headroom;
        }
        while stream.past(stream.last, stream.behind) >= (behind + piece) as i64 && headroom < stream.ahead as i64 {
            let to = stream.onward(stream.behind, piece);
            let range = stream.between(stream.behind, to, page);
            stream.behind = to;
            self.ghosts.evicted(stream.process, &range);
            headroom += (range.end - range.start) as i64;
            orders.push(Order { process: stream.process, advice: Advice::PageOut(range), stream: at });
        }
        headroom
    }

    fn fetch_ahead(&mut self, at: usize, orders: &mut Vec<Order>) {
        let stream = &mut self.streams[at];
        if stream.past(stream.edge, stream.last) <= 0 {
            // The program caught up.
            let gap = if stream.kind == StreamKind::Columns { 0 } else { self.tuning.page };
            stream.edge = stream.onward(stream.last, gap);
        }
        let advice = match stream.kind {
            StreamKind::Sequential => stream.next_range(&self.tuning).map(Advice::Fetch),
            StreamKind::Steps | StreamKind::Columns => stream.next_steps(&self.tuning).map(Advice::FetchEach),
        };
        if let Some(Advice::FetchEach(ranges)) = &advice {
            // All pages of a column are needed now; of pages next to a strided access, one by this walk and the others
            // by the next.
            let pages = ranges.iter().map(|range| (range.end - range.start) / self.tuning.page).sum::<u64>();
            stream.fetched += if stream.kind == StreamKind::Steps { ranges.len() as u64 } else { pages };
            self.counts.fetched += pages;
        }
        if let Some(advice) = advice {
            orders.push(Order { process: stream.process, advice, stream: at });
        }
    }

    /// Reports the number of pages that a prefetch found far and read, and accesses to evicted pages.
    pub fn fetched(&mut self, order: &Order, pages: u64, now: u64) {
        let Advice::Fetch(range) = &order.advice else { return };
        if pages > 0 && self.ghosts.reused(order.process, range, now) {
            self.counts.suspensions += 1;
        }
        self.counts.fetched += pages;
        let stream = &mut self.streams[order.stream];
        if stream.process == order.process {
            stream.fetched += pages;
        }
    }

    /// Whether prefetched pages are used. Only pages that had time to be used count: all except those still ahead.
    fn judge(&mut self, at: usize, now: u64) {
        let stream = &mut self.streams[at];
        let page = self.tuning.page;
        let pending = match stream.kind {
            StreamKind::Sequential => stream.ahead / page,
            StreamKind::Steps => RANGES_MAX as u64,
            StreamKind::Columns => RANGES_MAX as u64 * (stream.depth / page + 1),
        };
        if stream.fetched <= 2048 + pending {
            return;
        }
        if stream.used * 10 < (stream.fetched - pending) * 3 {
            self.counts.rests += 1;
            stream.rests_until = now + stream.rest;
            stream.rest = (stream.rest * 2).min(REST.end);
        } else {
            stream.rest = REST.start;
        }
        if stream.lost * 4 > stream.fetched && stream.ahead > MIB {
            stream.ahead /= 2;
        }
        stream.lost /= 2;
        stream.fetched /= 2;
        stream.used /= 2;
    }
}
