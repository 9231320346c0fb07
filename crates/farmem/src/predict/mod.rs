//! Where a program goes next, from where it faulted: streams of pages (forward, backward, in steps, over the columns of a
//! matrix, several at once), how far to fetch ahead of each and what to page out behind it. Values in, values out: no system
//! calls, no clock, so that recorded faults can be played through it. Must not know how faults are seen or advice is given.

mod columns;
mod evicted;
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

/// Ranges in one piece of advice: more do not make a call cheaper.
pub(crate) const RANGES_MAX: usize = 256;
const MIB: u64 = 1 << 20;
/// Programs have few sweeps at a time; more entries make each fault dearer.
const STREAMS_MAX: usize = 48;
/// A stream this far from where it was last seen is still the same, bytes.
const REACH: i64 = 256 << 10;
/// Faults closer than this belong to a sweep that touches every page, bytes.
const DENSE: i64 = 64 << 10;
/// The largest step that is looked for, bytes.
const STEP_MAX: i64 = 64 << 20;
/// How many steps at once may have caused no fault.
const STEPS_SKIPPED_MAX: i64 = 64;
/// A walk that begins at most this many pages beside the last one goes on where that was.
const BESIDE_PAGES: i64 = 16;
/// Pages that the kernel reads with one that is waited for, on a device without seeks.
const READ_AROUND: u64 = 8;
/// How far a sweep is fetched ahead at first, bytes; each time that it uses that up, twice as far.
const AHEAD_FIRST: u64 = 512 << 10;
/// The same where waits are farther apart than the kernel reads, so that the program leaves pages out: walks over a matrix look like
/// many such sweeps that end soon, and what each fetches in vain keeps the disk from who waits for it.
const AHEAD_FIRST_SPARSE: u64 = 32 << 10;
/// Pages fetched before it counts how many of them were evicted unused: of the first, the program overtakes as many while they are ordered.
const WASTE_MIN_SAMPLE: u64 = 512;
/// The longest column, in pages.
const COLUMN_PAGES_MAX: u64 = 4;
/// So many columns before the last one are still of the same walk: loops over several at once take them in any order.
const JITTER: i64 = 16;
/// A rest after prefetching that was not used, nanoseconds: the first, and the longest.
const REST: Range<u64> = 50_000_000..2_000_000_000;

/// A page fault as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub process: u32,
    pub thread: u32,
    /// Where the instruction is that faulted.
    pub instruction: u64,
    pub address: u64,
    /// Whether it waited for the far memory; else it found the page in memory and only mapped it.
    pub major: bool,
}

/// What the machine is like, for the sizes of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes of a page.
    pub page: u64,
    /// Bytes of DRAM that the program has.
    pub dram: u64,
    /// One minor fault in so many is seen.
    pub minor_period: u64,
    /// The farthest that is fetched ahead of a stream, bytes.
    pub ahead_max: u64,
    /// What is left in memory behind a stream, because it may be used again at once, bytes.
    pub behind: u64,
    /// Paging out happens in pieces of this many bytes.
    pub piece: u64,
}

impl Tuning {
    /// What served best for a budget (docs/results/expand.md has measurements).
    pub fn for_dram(dram: u64, page: u64) -> Self {
        // Budgets are odd numbers where they are half of what a program holds; advice on parts of pages is refused.
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
    /// Which stream wants it; for [`Predictor::fetched`].
    stream: usize,
}

/// Advice about a process's memory. Addresses are whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Fetch what of this range is far.
    Fetch(Range<u64>),
    /// Fetch these pages, far or not: they are single pages far apart.
    FetchEach(Vec<Range<u64>>),
    PageOut(Range<u64>),
}

/// What the predictor saw and ordered, since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults that waited for far memory.
    pub major: u64,
    /// Faults that did not, as far as they were looked at.
    pub minor_seen: u64,
    /// Faults that belonged to a known stream.
    pub matched: u64,
    /// Streams found, and how many of them go in steps.
    pub streams: u64,
    /// Of those, how many go in steps.
    pub stepping: u64,
    /// Pages fetched ahead of their use.
    pub fetched: u64,
    /// Of those, how many were used, as far as that was seen.
    pub used: u64,
    /// Of those, how many had been evicted again before they were used.
    pub lost: u64,
    /// Times that a stream rested because little of what it fetched was used.
    pub rests: u64,
    /// Times that paging out was suspended because it hit what was wanted again soon.
    pub suspensions: u64,
}

/// Streams of faults and what follows from them.
#[derive(Debug)]
pub struct Predictor {
    tuning: Tuning,
    streams: Vec<Stream>,
    walks: StridedWalks,
    ghosts: EvictedBlocks,
    /// Counts up with every fault: the age of streams.
    stamp: u64,
    counts: Counts,
}

impl Predictor {
    pub fn new(tuning: Tuning) -> Self {
        let streams = vec![Stream::default(); STREAMS_MAX];
        let (walks, ghosts, counts) = (StridedWalks::default(), EvictedBlocks::new(tuning.dram), Counts::default());
        Self { tuning, streams, walks, ghosts, stamp: 0, counts }
    }

    /// What was seen and ordered.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// A process is gone, or has become another program.
    pub fn forget(&mut self, process: u32) {
        for stream in self.streams.iter_mut().filter(|stream| stream.process == process) {
            *stream = Stream::default();
        }
        self.walks.forget(process);
    }

    /// Finds the stream that a fault belongs to, or makes it the beginning of one.
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
            stream.is_there()
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

    /// A confirmed stream takes any fault near its way, from any thread and instruction: unrolled loops fault at several
    /// instructions, and threads of a team share one sweep.
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
            // Fetched and gone again before it was used. One major fault stands for the pages that the kernel reads with it.
            stream.used += READ_AROUND;
            stream.lost += READ_AROUND;
            self.counts.used += READ_AROUND;
            self.counts.lost += READ_AROUND;
        }
        // At or before the last place: the ring of another cpu was read first, or the same page again.
        if stream.extend(address) {
            stream.due = true;
            self.counts.matched += 1;
        }
        true
    }

    /// Whether a sweep takes it that uses what was fetched for it. Of records of one size, one after the other, every eighth is waited for
    /// and one in [`Tuning::minor_period`] of the others seen: that looks like columns, and the pages between are wanted too.
    fn is_swept(&self, fault: &Fault) -> bool {
        let takes = |stream: &Stream| {
            stream.is_confirmed()
                && stream.kind == StreamKind::Sequential
                && stream.process == fault.process
                && stream.takes(fault.address)
        };
        self.streams.iter().any(|stream| takes(stream) && stream.is_used())
    }

    /// A walk over columns has shown its step. What looked like a sweep there was that walk.
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

    /// Close to a candidate of the same thread: a sweep, if the direction holds.
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

    /// The same instruction, far away: a walk in steps, if the step repeats.
    fn step(&mut self, at: usize, address: u64) {
        let stream = &mut self.streams[at];
        let step = address.wrapping_sub(stream.last) as i64;
        let known = stream.step;
        (stream.last, stream.stamp) = (address, self.stamp);
        // Resident pages cause no fault and minor faults are sampled, so it may be a multiple.
        if known != 0 && (step < 0) == (known < 0) && step % known == 0 && step / known <= STEPS_SKIPPED_MAX {
            stream.seen += u32::from(step == known);
            if stream.seen >= CONFIRMED {
                self.begin(at, StreamKind::Steps);
            }
        } else {
            // Learnt anew; random access stays here and takes one entry for each instruction.
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
                // One that jumped over resident pages looks new; what is known of it is taken over.
                if let Some(old) = others.find(|old| stream.goes_on_from(old)) {
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
                    stream.width = stream.width_beside(old, &self.tuning);
                    *old = Stream::default();
                }
            }
        }
        self.counts.streams += 1;
        self.streams[at] = stream;
    }

    /// What the streams that moved want now, at `now` nanoseconds. `headroom` is how many bytes the program may still take
    /// before its budget is short, what is being paged out counted as free.
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

    /// A stream that has met no far page touches memory for the first time: its pages are dirty, so that paging them out
    /// frees nothing until they are written, and the kernel evicts others meanwhile: twice the writes.
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
            let beside = if stream.kind == StreamKind::Columns { 0 } else { self.tuning.page };
            stream.edge = stream.onward(stream.last, beside);
        }
        let advice = match stream.kind {
            StreamKind::Sequential => stream.next_range(&self.tuning).map(Advice::Fetch),
            StreamKind::Steps | StreamKind::Columns => stream.next_steps(&self.tuning).map(Advice::FetchEach),
        };
        if let Some(Advice::FetchEach(ranges)) = &advice {
            // All pages of a column are wanted now; of those beside a step, one by this walk and the others by the next.
            let pages = ranges.iter().map(|range| (range.end - range.start) / self.tuning.page).sum::<u64>();
            stream.fetched += if stream.kind == StreamKind::Steps { ranges.len() as u64 } else { pages };
            self.counts.fetched += pages;
        }
        if let Some(advice) = advice {
            orders.push(Order { process: stream.process, advice, stream: at });
        }
    }

    /// How many pages a [`Advice::TailReader`] found far and fetched; and what was wanted again of what had been paged out.
    pub fn fetched(&mut self, order: &Order, pages: u64, now: u64) {
        let Advice::Fetch(range) = &order.advice else { return };
        if pages > 0 && self.ghosts.wanted(order.process, range, now) {
            self.counts.suspensions += 1;
        }
        self.counts.fetched += pages;
        let stream = &mut self.streams[order.stream];
        if stream.process == order.process {
            stream.fetched += pages;
        }
    }

    /// Whether what was fetched is used. Only what had time to be used counts: all but the pages still ahead.
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
