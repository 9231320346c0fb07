//! Finds the tail list of a rank: a one-byte length per list, four bytes for hubs, and the start of each 64th list.
//! Lists are contiguous, so a list begins where the previous ones of its group end.

use std::collections::BTreeMap;

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::{Array, ArrayPlacement};

/// Ranks per group; the index stores one start per group.
const GROUP: usize = 64;
/// The longest list whose length fits into one byte.
const SHORT_MAX: u64 = u8::MAX as u64;

pub(crate) struct Index {
    /// Number of ranks that have a list.
    lists: usize,
    /// Start of the first list of each group, and the end of the last one.
    base: Array<u64>,
    /// Lengths of the lists of the first groups, up to the last group with a long list.
    long: Array<u32>,
    /// Lengths of the lists of the other groups.
    short: Array<u8>,
}

impl Index {
    /// Builds an index of lists that start at these offsets; the last element is the end.
    pub(crate) fn new(at: &[u64], placement: &ArrayPlacement) -> Result<Self, MemoryError> {
        let lists = at.len() - 1;
        let groups = lists.div_ceil(GROUP);
        let is_long = |pair: &[u64]| Self::is_long(pair[1] - pair[0]);
        let long_groups = at.windows(2).rposition(is_long).map_or(0, |last| last / GROUP + 1);
        let mut base: Array<u64> = placement.array(groups + 1)?;
        let mut long: Array<u32> = placement.array(long_groups * GROUP)?;
        let mut short: Array<u8> = placement.array((groups - long_groups) * GROUP)?;
        base.iter_mut().zip(at.iter().step_by(GROUP)).for_each(|(base, at)| *base = *at);
        base[groups] = at[lists];
        for (rank, pair) in at.windows(2).enumerate() {
            let length = pair[1] - pair[0];
            match rank.checked_sub(long.len()) {
                // Encoded differences take a quarter more than the list's values, of which there are fewer than 2^31.
                None => long[rank] = u32::try_from(length).expect("no list takes 4 GiB"),
                Some(rank) => short[rank] = length as u8,
            }
        }
        Ok(Self { lists, base, long, short })
    }

    /// Returns true if the length of a list takes more than one byte.
    pub(crate) fn is_long(length: u64) -> bool {
        length > SHORT_MAX
    }

    /// Returns the number of ranks that have a list.
    pub(crate) fn lists(&self) -> usize {
        self.lists
    }

    /// Returns the offset and length of a rank's list. The length is zero for ranks without one.
    #[inline(always)]
    pub(crate) fn list(&self, rank: u32) -> (u64, usize) {
        let rank = rank as usize;
        let (group, own) = (rank / GROUP, rank % GROUP);
        if rank < self.long.len() {
            let lengths = &self.long[group * GROUP..][..GROUP];
            let before: u64 = lengths[..own].iter().map(|length| u64::from(*length)).sum();
            (self.base[group] + before, lengths[own] as usize)
        } else {
            let lengths = &self.short[group * GROUP - self.long.len()..][..GROUP];
            (self.base[group] + sum(lengths, own), usize::from(lengths[own]))
        }
    }

    /// Returns the start of each list, and the end of the last one.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u64> {
        (0..=self.lists).map(|rank| self.start(rank as u32))
    }

    /// Returns the start of a rank's list; for the rank after the last one, the end.
    pub(crate) fn start(&self, rank: u32) -> u64 {
        if (rank as usize) < self.lists { self.list(rank).0 } else { self.end() }
    }

    /// Returns the end of the last list.
    pub(crate) fn end(&self) -> u64 {
        self.base[self.base.len() - 1]
    }

    /// Returns the first list that does not end within this many bytes.
    pub(crate) fn first_beyond(&self, bytes: u64) -> usize {
        let ends_within = |rank: &usize| {
            let (from, length) = self.list(*rank as u32);
            from + length as u64 <= bytes
        };
        let (mut low, mut high) = (0, self.lists);
        while low < high {
            let middle = low.midpoint(high);
            if ends_within(&middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Adds the number of its pages per memory node, as [`Array::add_pages`] does.
    pub(crate) fn add_pages(&self, most: usize, pages: &mut BTreeMap<NodeId, u64>) -> Result<(), MemoryError> {
        self.base.add_pages(most, pages)?;
        self.long.add_pages(most, pages)?;
        self.short.add_pages(most, pages)
    }

    /// Returns its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.base.bytes() + self.long.bytes() + self.short.bytes()
    }

    /// Returns the maximum size in bytes of an index of this many lists, of which `long` may be long.
    pub(crate) fn bytes_for(lists: usize, long: usize) -> u64 {
        let (groups, long_groups) = (lists.div_ceil(GROUP) as u64, long.div_ceil(GROUP) as u64);
        8 * (groups + 1) + (GROUP as u64) * (groups + 3 * long_groups.min(groups))
    }
}

/// Returns the sum of the first `count` of 64 bytes, added eight at a time.
#[inline(always)]
fn sum(lengths: &[u8], count: usize) -> u64 {
    const LOW: u64 = 0x00FF_00FF_00FF_00FF;
    let (words, _) = lengths.as_chunks::<8>();
    let halves = |word: u64| (word & LOW) + (word >> 8 & LOW);
    let whole: u64 = words[..count / 8].iter().map(|word| halves(u64::from_le_bytes(*word))).sum();
    let rest = u64::from_le_bytes(words[count / 8]) & ((1 << (8 * (count % 8))) - 1);
    // Four sums below 8 × 510 each, added up in the uppermost sixteen bits.
    (whole + halves(rest)).wrapping_mul(0x0001_0001_0001_0001) >> 48
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(lengths: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut at = vec![0];
        at.extend(lengths.scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        at
    }

    #[test]
    fn index_returns_the_original_offsets() {
        let long = |rank: usize| 70_000 / (rank as u64 + 1) + 3;
        for count in [0, 1, 63, 64, 65, 200, 1000] {
            let alternating = |rank: usize| if rank == 130 { 256 } else { 255 - rank as u64 % 7 };
            for at in [starts((0..count).map(long)), starts((0..count).map(alternating))] {
                let index = Index::new(&at, &ArrayPlacement::kernel_default()).unwrap();
                assert_eq!(index.lists(), count);
                assert!(index.starts().eq(at.iter().copied()), "{count}");
                for (rank, pair) in at.windows(2).enumerate() {
                    assert_eq!(index.list(rank as u32), (pair[0], (pair[1] - pair[0]) as usize), "{rank} of {count}");
                }
                let longs = at.windows(2).rposition(|pair| pair[1] - pair[0] > 255).map_or(0, |last| last + 1);
                assert!(index.bytes() as u64 <= Index::bytes_for(count, longs), "{count}");
            }
        }
    }

    #[test]
    fn lists_within_a_byte_limit_are_counted() {
        let index = Index::new(&starts([300, 40, 40, 20].into_iter()), &ArrayPlacement::kernel_default()).unwrap();
        let first = [0, 299, 300, 339, 340, 399, 400, 1000].map(|bytes| index.first_beyond(bytes));
        assert_eq!(first, [0, 0, 1, 1, 2, 3, 4, 4]);
    }
}
