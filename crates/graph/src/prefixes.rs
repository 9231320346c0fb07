//! Of lists that are elsewhere, the neighbours that come first after those in HEAD: coded like lists, one piece each, in DRAM. A coded
//! neighbour takes half of what it takes in a column, and sixteen are looked at at once, so after a few columns, in which most ranks
//! find a parent, these are the better use of memory.

use std::collections::BTreeMap;

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::{Array, ArrayPlacement};
use crate::coded::{self, PADDING, PaddedList};
use crate::index::Index;

/// The most neighbours of a beginning: its bytes are counted in one.
pub(crate) const LENGTH_MAX: usize = 48;

pub(crate) struct Prefixes {
    /// The first rank that has one.
    first: u32,
    length: usize,
    index: Index,
    bytes: Array<u8>,
}

impl Prefixes {
    pub(crate) fn none(room: &ArrayPlacement) -> Result<Self, MemoryError> {
        Ok(Self { first: u32::MAX, length: 0, index: Index::new(&[0], room)?, bytes: room.array(PADDING)? })
    }

    /// Of ranks from the first on, of so many neighbours at most: where each begins in the bytes and where the last ends, which have room
    /// for [`PADDING`] more.
    pub(crate) fn new(
        (first, length): (u32, usize),
        starts: &[u64],
        bytes: Array<u8>,
        room: &ArrayPlacement,
    ) -> Result<Self, MemoryError> {
        assert!(starts.last().is_some_and(|end| *end as usize + PADDING <= bytes.len()), "there is padding");
        Ok(Self { first, length, index: Index::new(starts, room)?, bytes })
    }

    /// Their neighbours at most; 0 where there are none.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// What a rank's list that is elsewhere begins with, if there is more of it than HEAD has.
    #[inline(always)]
    pub(crate) fn of_rank(&self, rank: u32) -> Option<PaddedList<'_>> {
        let own = rank.checked_sub(self.first).filter(|own| (*own as usize) < self.index.lists())?;
        let (from, length) = self.index.list(own);
        Some(PaddedList::new(&self.bytes, from as usize, length))
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.index.bytes() + self.bytes.bytes()
    }

    /// Bytes that they take at most for so many ranks, whose beginnings are so many bytes when they are coded.
    pub(crate) fn bytes_for(ranks: usize, coded: u64) -> u64 {
        Index::bytes_for(ranks, 0) + coded + PADDING as u64
    }

    /// Adds its pages by node, as [`Array::add_pages`] does.
    pub(crate) fn add_pages(&self, most: usize, pages: &mut BTreeMap<NodeId, u64>) -> Result<(), MemoryError> {
        self.index.add_pages(most, pages)?;
        self.bytes.add_pages(most, pages)
    }
}

/// What beginnings take when they are coded, by their number of neighbours, of all lists that were added.
#[derive(Clone, Debug)]
pub(crate) struct PrefixCost {
    /// Of beginnings with exactly so many neighbours because their list has more.
    cut: [u64; LENGTH_MAX + 1],
    /// Of lists with so many, which begin with all that they have.
    whole: [u64; LENGTH_MAX + 1],
}

impl PrefixCost {
    pub(crate) const NONE: Self = Self { cut: [0; LENGTH_MAX + 1], whole: [0; LENGTH_MAX + 1] };

    /// Adds what a list has after HEAD.
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

    /// Bytes of all beginnings with so many neighbours at most.
    pub(crate) fn bytes(&self, length: usize) -> u64 {
        self.cut[length] + self.whole[..=length].iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_what_is_coded() {
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
    fn beginnings_are_where_they_were() {
        let starts: Vec<u64> = (0..=100).map(|at| at * 4 + at % 3).collect();
        let room = ArrayPlacement::kernel_default();
        let mut bytes: Array<u8> = room.array(starts[100] as usize + PADDING).unwrap();
        (0..).zip(bytes.iter_mut()).for_each(|(at, byte)| *byte = (at % 251) as u8);
        let expected = bytes.to_vec();
        let beginnings = Prefixes::new((7, 3), &starts, bytes, &room).unwrap();
        for (rank, of) in (7..).zip(starts.windows(2)) {
            let list = beginnings.of_rank(rank).unwrap();
            assert_eq!(list.bytes(), &expected[of[0] as usize..of[1] as usize], "{rank}");
        }
        assert!([0, 6, 107, u32::MAX].iter().all(|rank| beginnings.of_rank(*rank).is_none()));
        assert!(beginnings.bytes() as u64 <= Prefixes::bytes_for(100, starts[100]));
        assert!(Prefixes::none(&room).unwrap().of_rank(0).is_none());
    }
}
