//! Recently evicted blocks and the time of their next access. Distinguishes a sweep that returns late, whose head is
//! worth keeping, from memory that is reused soon, where eviction is harmful.

use std::ops::Range;

/// Block size, as a power of two.
const BLOCK_SHIFT: u32 = 21;
/// Number of blocks remembered: 16 GiB.
const SLOTS: usize = 8192;
/// Duration for which eviction is suspended, in nanoseconds: initial and maximum.
const SUSPENSION: Range<u64> = 2_000_000_000..64_000_000_000;

/// The blocks evicted last, in a hash table without chains: a collision forgets one.
#[derive(Debug)]
pub(super) struct EvictedBlocks {
    dram: u64,
    slots: Vec<(u64, u64)>,
    /// Total bytes evicted, the clock of early returns.
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

    /// Whether eviction is suspended.
    pub(super) fn suspended(&self, now: u64) -> bool {
        now < self.suspended_until
    }

    pub(super) fn evicted(&mut self, process: u32, range: &Range<u64>) {
        self.evicted += range.end - range.start;
        for key in keys(process, range) {
            self.slots[slot(key)] = (key, self.evicted);
        }
    }

    /// Notes an access. A block returns early if less than half of the budget was evicted since: the kernel's choice
    /// would have been better. If most blocks return early, eviction is suspended; returns true if it was suspended
    /// just now.
    pub(super) fn reused(&mut self, process: u32, range: &Range<u64>, now: u64) -> bool {
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

/// A non-zero key for each block of a range.
fn keys(process: u32, range: &Range<u64>) -> impl Iterator<Item = u64> {
    let blocks = range.start >> BLOCK_SHIFT..=(range.end.max(range.start + 1) - 1) >> BLOCK_SHIFT;
    blocks.map(move |block| (u64::from(process) << 36 ^ block) | 1 << 63)
}

fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.trailing_zeros())) as usize
}
