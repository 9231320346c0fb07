//! One stream of page faults: which way it goes, how far it has been fetched ahead and paged out behind. Must not know
//! other streams.

use std::ops::Range;

use super::{
    AHEAD_FIRST, AHEAD_FIRST_SPARSE, BESIDE_PAGES, COLUMN_PAGES_MAX, Fault, JITTER, MIB, RANGES_MAX, REACH,
    READ_AROUND, REST, STEPS_SKIPPED_MAX, Tuning, WASTE_MIN_SAMPLE,
};

/// So many faults in a row that fit make a stream.
pub(super) const CONFIRMED: u32 = 4;

/// How a stream goes through memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamKind {
    #[default]
    Sequential,
    /// It touches a page and the next one a step away.
    Steps,
    /// It touches a column of a matrix, some pages at most, and the next one a step away; places are exact to the byte.
    Columns,
}

/// A stream, or what may become one. Addresses and distances are bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub process: u32,
    pub thread: u32,
    pub instruction: u64,
    /// The page that was touched last.
    pub last: u64,
    /// From touch to touch; its sign is the direction.
    pub step: i64,
    pub kind: StreamKind,
    /// Faults in a row that fitted.
    pub seen: u32,
    /// Up to where it has been fetched.
    pub edge: u64,
    /// Up to where it has been paged out.
    pub behind: u64,
    /// How far a sweep is fetched ahead; how many pages of steps are, times the page.
    pub ahead: u64,
    /// Pages fetched and used; halved now and then, so that they tell of the present.
    pub fetched: u64,
    pub used: u64,
    pub lost: u64,
    /// Nothing is fetched before, nanoseconds.
    pub rests_until: u64,
    /// How long the next rest is, nanoseconds.
    pub rest: u64,
    /// When it was last seen; 0: there is none.
    pub stamp: u64,
    /// Where a walk in steps began.
    pub first: u64,
    /// Pages fetched at each step.
    pub width: u64,
    /// The farthest from its beginning that a column was seen touched, bytes.
    pub depth: u64,
    /// Bytes of a page.
    pub page: u64,
    pub due: bool,
    /// It has waited for far memory.
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

    pub(super) fn is_there(&self) -> bool {
        self.stamp > 0
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.is_there() && self.seen >= CONFIRMED
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

    /// How far one address lies beyond another, along the way.
    pub(super) fn past(&self, address: u64, from: u64) -> i64 {
        let distance = address.wrapping_sub(from) as i64;
        if self.step < 0 { -distance } else { distance }
    }

    /// An address moved along the way.
    pub(super) fn onward(&self, from: u64, bytes: u64) -> u64 {
        if self.step < 0 { from.wrapping_sub(bytes) } else { from.wrapping_add(bytes) }
    }

    /// The pages from one place to another along the way, the first included and the last not.
    pub(super) fn between(&self, from: u64, to: u64, page: u64) -> Range<u64> {
        if self.step < 0 { to.wrapping_add(page)..from.wrapping_add(page) } else { from..to }
    }

    /// Whether a fault is on its way.
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

    /// How many columns further than the last an address lies, and how far from that column's beginning, if it is of this walk:
    /// where the column was touched before, or where it goes on into its next page. A walk over the rows below begins in
    /// the midst of a page and is another one.
    fn column(&self, address: u64) -> Option<(i64, u64)> {
        let (off, step) = (address.wrapping_sub(self.last) as i64, self.step.abs());
        let (column, depth) = (off.div_euclid(step) * self.step.signum(), off.rem_euclid(step) as u64);
        let goes_on = address.is_multiple_of(self.page) && depth <= (self.depth + self.page).min(self.depth_max());
        let is_of_it = (-JITTER..=STEPS_SKIPPED_MAX).contains(&column) && (depth <= self.depth || goes_on);
        is_of_it.then_some((column, depth))
    }

    /// What is farther from a column's beginning is of something else, bytes.
    fn depth_max(&self) -> u64 {
        (COLUMN_PAGES_MAX * self.page).min(self.step.unsigned_abs().saturating_sub(self.page))
    }

    /// Whether most of what was fetched and is behind was used, as far as there is enough of it to say.
    pub(super) fn is_used(&self) -> bool {
        self.fetched >= 64 && self.used * 2 >= self.fetched.saturating_sub(self.ahead / self.page)
    }

    /// Goes on to where an address that it takes is; whether that is further than it was.
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
            // What was fetched ahead ends too soon.
            (self.depth, self.edge) = (depth, self.last);
        }
        column > 0 || deeper
    }

    pub(super) fn goes_on_from(&self, old: &Self) -> bool {
        let same_way = (self.step < 0) == (old.step < 0);
        same_way && self.past(self.last, old.last) > 0 && self.past(self.last, old.edge) <= MIB as i64
    }

    pub(super) fn adopt(&mut self, old: &Self) {
        (self.edge, self.behind, self.ahead) = (old.edge, old.behind, old.ahead);
        (self.fetched, self.used, self.lost) = (old.fetched, old.used, old.lost);
        (self.rests_until, self.rest) = (old.rests_until, old.rest);
        self.met_far |= old.met_far;
    }

    /// A matrix walked by columns: each walk begins a little beside the one before. The neighbours of each step are wanted
    /// soon then; as many as leave half the budget free until the walk comes back.
    pub(super) fn width_beside(&self, old: &Self, tuning: &Tuning) -> u64 {
        let side = (self.first.wrapping_sub(old.first) as i64) % self.step;
        if !(1..=BESIDE_PAGES * tuning.page as i64).contains(&side) {
            return 1;
        }
        let steps = (old.past(old.last, old.first) / old.step.abs()).max(0) as u64 + 1;
        (tuning.dram / 2 / (steps * tuning.page)).clamp(1, BESIDE_PAGES as u64)
    }

    /// What of a sweep to fetch next: nothing until half of what is ahead is used up, so that one call carries many pages.
    pub(super) fn next_range(&mut self, tuning: &Tuning) -> Option<Range<u64>> {
        if self.past(self.edge, self.last) > self.ahead as i64 / 2 {
            return None;
        }
        let to = self.onward(self.last, self.ahead) & !(tuning.page - 1);
        let range = self.between(self.edge, to, tuning.page);
        // A wrapped address, or the kernel's half.
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

    /// The same for a walk in steps.
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

    /// The pages that are wanted at a step.
    fn pages_at(&self, at: u64) -> Range<u64> {
        let page = self.page;
        match self.kind {
            StreamKind::Columns => at & !(page - 1)..at.saturating_add(self.depth + page) & !(page - 1),
            _ => at..at.wrapping_add(self.width * page),
        }
    }
}
