//! Prefixes of lists outside DRAM: the first neighbours after those in the head columns, encoded like lists, one piece
//! each, in DRAM. An encoded neighbour takes half of its size in a column, and sixteen are compared at a time, so after
//! the first few columns, in which most ranks find a parent, prefixes are the better use of memory.

use std::collections::BTreeMap;

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::{Array, ArrayPlacement};
use crate::coded::{self, PADDING, PaddedList};
use crate::index::Index;

/// Maximum number of neighbours in a prefix, such that its size fits into one byte.
pub(crate) const LENGTH_MAX: usize = 48;

pub(crate) struct Prefixes {
    /// The first rank with a prefix.
    first: u32,
    length: usize,
    index: Index,
    bytes: Array<u8>,
}

impl Prefixes {
    pub(crate) fn none(placement: &ArrayPlacement) -> Result<Self, MemoryError> {
        Ok(Self { first: u32::MAX, length: 0, index: Index::new(&[0], placement)?, bytes: placement.array(PADDING)? })
    }

    /// Creates the prefixes of the ranks from the first one on, with at most `length` neighbours each. `starts` has the
    /// start of each prefix and the end of the last, after which the bytes must have [`PADDING`] more.
    pub(crate) fn new(
        (first, length): (u32, usize),
        starts: &[u64],
        bytes: Array<u8>,
        placement: &ArrayPlacement,
    ) -> Result<Self, MemoryError> {
        assert!(starts.last().is_some_and(|end| *end as usize + PADDING <= bytes.len()), "the bytes end with padding");
        Ok(Self { first, length, index: Index::new(starts, placement)?, bytes })
    }

    /// Returns the maximum number of neighbours in a prefix, or 0 without prefixes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns the prefix of a rank's list, if the list has more neighbours than the head columns.
    #[inline(always)]
    pub(crate) fn of_rank(&self, rank: u32) -> Option<PaddedList<'_>> {
        let own = rank.checked_sub(self.first).filter(|own| (*own as usize) < self.index.lists())?;
        let (from, length) = self.index.list(own);
        Some(PaddedList::new(&self.bytes, from as usize, length))
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.index.bytes() + self.bytes.bytes()
    }

    /// Returns the maximum size for this many ranks whose encoded prefixes take this many bytes.
    pub(crate) fn bytes_for(ranks: usize, coded: u64) -> u64 {
        Index::bytes_for(ranks, 0) + coded + PADDING as u64
    }

    /// Adds the number of its pages per memory node, as [`Array::add_pages`] does.
    pub(crate) fn add_pages(&self, most: usize, pages: &mut BTreeMap<NodeId, u64>) -> Result<(), MemoryError> {
        self.index.add_pages(most, pages)?;
        self.bytes.add_pages(most, pages)
    }
}

/// Total encoded size of the prefixes of all added lists, as a function of the prefix length.
#[derive(Clone, Debug)]
pub(crate) struct PrefixCost {
    /// Bytes of prefixes with exactly this many neighbours of longer lists.
    cut: [u64; LENGTH_MAX + 1],
    /// Bytes of lists with this many neighbours, which are their own prefix.
    whole: [u64; LENGTH_MAX + 1],
}

impl PrefixCost {
    pub(crate) const NONE: Self = Self { cut: [0; LENGTH_MAX + 1], whole: [0; LENGTH_MAX + 1] };

    /// Adds the part of a list that is not in the head columns.
    pub(crate) fn add(&mut self, list: &[u32]) {
        let (mut before, mut data) = (0, 0);
        for (count, value) in (1..=LENGTH_MAX).zip(list) {
            data += coded::width(value - before) as u64;
            before = *value;
            let bytes = 1 + count.div_ceil(4) as u64 + data;
            *(if count < list.len() { &mut self.cut[count] } else { &mut self.whole[count] }) += bytes;
        }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        let sum = |own: &mut [u64], other: &[u64]| own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        sum(&mut self.cut, &other.cut);
        sum(&mut self.whole, &other.whole);
    }

    /// Returns the size of all prefixes with at most this many neighbours.
    pub(crate) fn bytes(&self, length: usize) -> u64 {
        self.cut[length] + self.whole[..=length].iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicted_sizes_equal_encoded_sizes() {
        let lists: Vec<Vec<u32>> = (0..200_u32)
            .map(|list| (0..list % 70).map(|at| list * 1000 + at * at * (1 + list * 7 % 300)).collect())
            .collect();
        let mut sizes = [PrefixCost::NONE, PrefixCost::NONE];
        lists.iter().enumerate().for_each(|(at, list)| sizes[at % 2].add(list));
        let [mut sizes, other] = sizes;
        sizes.join(&other);
        for length in 1..=LENGTH_MAX {
            let mut coded = Vec::new();
            lists.iter().for_each(|list| coded::encode(&list[..length.min(list.len())], &mut coded));
            assert_eq!(sizes.bytes(length), coded.len() as u64, "{length}");
        }
    }

    #[test]
    fn prefixes_are_found_at_their_offsets() {
        let starts: Vec<u64> = (0..=100).map(|at| at * 4 + at % 3).collect();
        let placement = ArrayPlacement::kernel_default();
        let mut bytes: Array<u8> = placement.array(starts[100] as usize + PADDING).unwrap();
        (0..).zip(bytes.iter_mut()).for_each(|(at, byte)| *byte = (at % 251) as u8);
        let expected = bytes.to_vec();
        let beginnings = Prefixes::new((7, 3), &starts, bytes, &placement).unwrap();
        for (rank, of) in (7..).zip(starts.windows(2)) {
            let list = beginnings.of_rank(rank).unwrap();
            assert_eq!(list.bytes(), &expected[of[0] as usize..of[1] as usize], "{rank}");
        }
        assert!([0, 6, 107, u32::MAX].iter().all(|rank| beginnings.of_rank(*rank).is_none()));
        assert!(beginnings.bytes() as u64 <= Prefixes::bytes_for(100, starts[100]));
        assert!(Prefixes::none(&placement).unwrap().of_rank(0).is_none());
    }
}
