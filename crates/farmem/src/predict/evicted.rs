//! What was paged out, and when it was wanted again: tells a sweep that comes back late (its head is worth keeping) from
//! memory that is used again soon, where paging out does harm.

use std::ops::Range;

/// Blocks of this many bytes (as a power of two) are remembered.
const BLOCK_SHIFT: u32 = 21;
/// How many blocks are remembered: 16 GiB of them.
const SLOTS: usize = 8192;
/// How long paging out is suspended, nanoseconds: first and longest.
const SUSPENSION: Range<u64> = 2_000_000_000..64_000_000_000;

/// The blocks that were paged out last, in a table without chains: a collision forgets one.
#[derive(Debug)]
pub(super) struct EvictedBlocks {
    dram: u64,
    slots: Vec<(u64, u64)>,
    /// Bytes paged out, ever: the clock of what came back soon.
    evicted: u64,
    soon: u64,
    late: u64,
    suspended_until: u64,
    suspension: u64,
}

impl EvictedBlocks {
    pub(super) fn new(dram: u64) -> Self {
        Self {
            dram,
            slots: vec![(0, 0); SLOTS],
            evicted: 0,
            soon: 0,
            late: 0,
            suspended_until: 0,
            suspension: SUSPENSION.start,
        }
    }

    /// Whether paging out is suspended.
    pub(super) fn suspended(&self, now: u64) -> bool {
        now < self.suspended_until
    }

    pub(super) fn evicted(&mut self, process: u32, range: &Range<u64>) {
        self.evicted += range.end - range.start;
        for key in keys(process, range) {
            self.slots[slot(key)] = (key, self.evicted);
        }
    }

    /// This is wanted again. Comes back sooner than half the budget was paged out: leaving the choice to the kernel would
    /// have served better, and where that is most of it, paging out is suspended; true when it was just now.
    pub(super) fn wanted(&mut self, process: u32, range: &Range<u64>, now: u64) -> bool {
        let many = self.dram >> BLOCK_SHIFT;
        for key in keys(process, range) {
            let (known, at) = &mut self.slots[slot(key)];
            if *known != key {
                continue;
            }
            *known = 0;
            let soon = self.evicted - *at < self.dram / 2;
            *(if soon { &mut self.soon } else { &mut self.late }) += 1;
            if self.soon + self.late > 2 * many {
                (self.soon, self.late) = (self.soon / 2, self.late / 2);
            }
        }
        let suspend = self.soon > many / 2 && self.soon > 2 * self.late && !self.suspended(now);
        if suspend {
            self.suspended_until = now + self.suspension;
            self.suspension = (self.suspension * 2).min(SUSPENSION.end);
            (self.soon, self.late) = (0, 0);
        }
        suspend
    }
}

/// A key for each block of a range; never 0.
fn keys(process: u32, range: &Range<u64>) -> impl Iterator<Item = u64> {
    let blocks = range.start >> BLOCK_SHIFT..=(range.end.max(range.start + 1) - 1) >> BLOCK_SHIFT;
    blocks.map(move |block| (u64::from(process) << 36 ^ block) | 1 << 63)
}

fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.trailing_zeros())) as usize
}
