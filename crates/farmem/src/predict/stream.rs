//! One stream of page faults: its direction, its prefetch edge and its eviction edge. Must not depend on other streams.

use std::ops::Range;

use super::{
    AHEAD_FIRST, AHEAD_FIRST_SPARSE, COLUMN_PAGES_MAX, Fault, JITTER, MIB, RANGES_MAX, REACH, READ_AROUND, REST,
    STEPS_SKIPPED_MAX, Tuning, WALK_OFFSET_PAGES, WASTE_MIN_SAMPLE,
};

/// Number of consecutive matching faults that confirm a stream.
pub(super) const CONFIRMED: u32 = 4;

/// Access pattern of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamKind {
    #[default]
    Sequential,
    /// Accesses single pages at a constant stride.
    Steps,
    /// Accesses columns of a matrix, each at most a few pages long, at a constant stride in bytes.
    Columns,
}

/// A stream or a candidate for one. Addresses and distances are in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub process: u32,
    pub thread: u32,
    pub instruction: u64,
    /// Address of the last access, page-aligned except for columns.
    pub last: u64,
    /// Distance between consecutive accesses; its sign is the direction.
    pub step: i64,
    pub kind: StreamKind,
    /// Number of consecutive matching faults.
    pub seen: u32,
    /// End of the prefetched range.
    pub edge: u64,
    /// End of the evicted range.
    pub behind: u64,
    /// Prefetch distance of a sweep; for strides, the number of pages ahead times the page size.
    pub ahead: u64,
    /// Pages prefetched, used, and evicted before use; halved periodically, so that recent ones weigh more.
    pub fetched: u64,
    pub used: u64,
    pub lost: u64,
    /// End of the current back-off, in nanoseconds; nothing is prefetched before.
    pub rests_until: u64,
    /// Duration of the next back-off, in nanoseconds.
    pub rest: u64,
    /// Stamp of its last fault; 0 while this entry is unused.
    pub stamp: u64,
    /// First address of a strided walk.
    pub first: u64,
    /// Pages prefetched at each step.
    pub width: u64,
    /// Maximum observed offset of an access from the start of its column, in bytes.
    pub depth: u64,
    /// Page size in bytes.
    pub page: u64,
    pub due: bool,
    /// Whether a fault of the stream waited for far memory.
    pub met_far: bool,
}

impl Stream {
    pub(super) fn candidate(fault: &Fault, address: u64, stamp: u64) -> Self {
        Self {
            process: fault.process,
            thread: fault.thread,
            instruction: fault.instruction,
            last: address,
            stamp,
            ..Self::default()
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.stamp > 0
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.is_active() && self.seen >= CONFIRMED
    }

    pub(super) fn begin(&mut self, kind: StreamKind, tuning: &Tuning) {
        self.kind = kind;
        self.edge = self.onward(self.last, tuning.page);
        self.behind = self.last;
        let leaves_out = self.met_far && self.step.unsigned_abs() > READ_AROUND * tuning.page;
        self.ahead = match kind {
            StreamKind::Sequential if leaves_out => AHEAD_FIRST_SPARSE,
            StreamKind::Sequential => AHEAD_FIRST,
            StreamKind::Steps | StreamKind::Columns => RANGES_MAX as u64 / 2 * tuning.page,
        };
        (self.fetched, self.used, self.lost) = (0, 0, 0);
        (self.rest, self.width, self.due) = (REST.start, 1, true);
        self.first = self.last.wrapping_sub((i64::from(CONFIRMED) * self.step) as u64);
        self.page = tuning.page;
    }

    /// Distance from one address to another in the direction of the stream.
    pub(super) fn past(&self, address: u64, from: u64) -> i64 {
        let distance = address.wrapping_sub(from) as i64;
        if self.step < 0 { -distance } else { distance }
    }

    /// Returns an address moved in the direction of the stream.
    pub(super) fn onward(&self, from: u64, bytes: u64) -> u64 {
        if self.step < 0 { from.wrapping_sub(bytes) } else { from.wrapping_add(bytes) }
    }

    /// The pages between two addresses in the direction of the stream, including the first but not the last.
    pub(super) fn between(&self, from: u64, to: u64, page: u64) -> Range<u64> {
        if self.step < 0 { to.wrapping_add(page)..from.wrapping_add(page) } else { from..to }
    }

    /// Whether a fault at this address continues the stream.
    pub(super) fn takes(&self, address: u64) -> bool {
        let onward = self.past(address, self.last);
        match self.kind {
            StreamKind::Sequential => (-REACH..=REACH).contains(&onward),
            StreamKind::Steps => {
                let step = self.step.abs();
                onward >= 0 && onward % step == 0 && onward / step <= STEPS_SKIPPED_MAX
            }
            StreamKind::Columns => self.column(address).is_some(),
        }
    }

    /// The column of an address, counted from the last one, and the offset in that column; `None` if the address is not
    /// part of this walk. Accesses are at known offsets or continue into the next page. A walk over the rows below
    /// starts inside a page and is a different walk.
    fn column(&self, address: u64) -> Option<(i64, u64)> {
        let (off, step) = (address.wrapping_sub(self.last) as i64, self.step.abs());
        let (column, depth) = (off.div_euclid(step) * self.step.signum(), off.rem_euclid(step) as u64);
        let continues = address.is_multiple_of(self.page) && depth <= (self.depth + self.page).min(self.depth_max());
        let belongs = (-JITTER..=STEPS_SKIPPED_MAX).contains(&column) && (depth <= self.depth || continues);
        belongs.then_some((column, depth))
    }

    /// Maximum offset from the start of a column, in bytes; accesses beyond it are not part of the column.
    fn depth_max(&self) -> u64 {
        (COLUMN_PAGES_MAX * self.page).min(self.step.unsigned_abs().saturating_sub(self.page))
    }

    /// Whether most pages prefetched and already passed were used; false while too few were prefetched to judge.
    pub(super) fn is_used(&self) -> bool {
        self.fetched >= 64 && self.used * 2 >= self.fetched.saturating_sub(self.ahead / self.page)
    }

    /// Advances to an address that continues the stream. Returns true if the stream moved.
    pub(super) fn extend(&mut self, address: u64) -> bool {
        if self.kind != StreamKind::Columns {
            let onward = self.past(address, self.last) > 0;
            if onward {
                self.last = address;
            }
            return onward;
        }
        let Some((column, depth)) = self.column(address) else { return false };
        if column > 0 {
            self.last = self.last.wrapping_add((column * self.step) as u64);
        }
        let deeper = depth > self.depth;
        if deeper {
            // Prefetches so far ended before this depth.
            (self.depth, self.edge) = (depth, self.last);
        }
        column > 0 || deeper
    }

    pub(super) fn continues(&self, old: &Self) -> bool {
        let same_way = (self.step < 0) == (old.step < 0);
        same_way && self.past(self.last, old.last) > 0 && self.past(self.last, old.edge) <= MIB as i64
    }

    pub(super) fn adopt(&mut self, old: &Self) {
        (self.edge, self.behind, self.ahead) = (old.edge, old.behind, old.ahead);
        (self.fetched, self.used, self.lost) = (old.fetched, old.used, old.lost);
        (self.rests_until, self.rest) = (old.rests_until, old.rest);
        self.met_far |= old.met_far;
    }

    /// Number of pages to prefetch at each step of a matrix walked by columns, where each walk starts slightly after
    /// the one before and soon needs the neighbouring pages; leaves half the budget free until the next walk.
    pub(super) fn step_width(&self, old: &Self, tuning: &Tuning) -> u64 {
        let offset = (self.first.wrapping_sub(old.first) as i64) % self.step;
        if !(1..=WALK_OFFSET_PAGES * tuning.page as i64).contains(&offset) {
            return 1;
        }
        let steps = (old.past(old.last, old.first) / old.step.abs()).max(0) as u64 + 1;
        (tuning.dram / 2 / (steps * tuning.page)).clamp(1, WALK_OFFSET_PAGES as u64)
    }

    /// Next range of a sweep to prefetch; `None` until half of the pages ahead are used, so that a call covers many.
    pub(super) fn next_range(&mut self, tuning: &Tuning) -> Option<Range<u64>> {
        if self.past(self.edge, self.last) > self.ahead as i64 / 2 {
            return None;
        }
        let to = self.onward(self.last, self.ahead) & !(tuning.page - 1);
        let range = self.between(self.edge, to, tuning.page);
        // The address wrapped or is in the kernel's half.
        if range.start >= range.end || range.end > 1 << 56 {
            return None;
        }
        self.edge = to;
        let is_lost = self.fetched >= WASTE_MIN_SAMPLE && self.lost * 8 > self.fetched;
        if self.ahead < tuning.ahead_max && !is_lost {
            self.ahead = (self.ahead * 2).min(tuning.ahead_max);
        }
        Some(range)
    }

    /// Next ranges of a strided walk to prefetch.
    pub(super) fn next_steps(&mut self, tuning: &Tuning) -> Option<Vec<Range<u64>>> {
        let depth = ((self.ahead / tuning.page) as i64).min(RANGES_MAX as i64);
        if self.edge == self.onward(self.last, tuning.page) {
            self.edge = self.last;
        }
        let gap = self.past(self.edge, self.last) / self.step.abs();
        if gap > depth / 2 {
            return None;
        }
        let ranges = (gap..depth).map(|_| {
            self.edge = self.edge.wrapping_add(self.step as u64);
            self.pages_at(self.edge)
        });
        let ranges: Vec<_> = ranges.take_while(|range| range.start < range.end && range.end <= 1 << 56).collect();
        self.ahead = (self.ahead * 2).min(RANGES_MAX as u64 * tuning.page);
        (!ranges.is_empty()).then_some(ranges)
    }

    /// The pages needed at a step.
    fn pages_at(&self, at: u64) -> Range<u64> {
        let page = self.page;
        match self.kind {
            StreamKind::Columns => at & !(page - 1)..at.saturating_add(self.depth + page) & !(page - 1),
            _ => at..at.wrapping_add(self.width * page),
        }
    }
}
