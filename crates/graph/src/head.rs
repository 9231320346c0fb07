//! HEAD's neighbours as numbers of four bytes or, where ranks are below 2^24, of three: columns as long as DRAM is short.

use std::borrow::Cow;
use std::collections::BTreeMap;

use machine::memory::MemoryError;
use model::id_set::NodeId;

use crate::layout::ROWS_ALIGNED;
use crate::room::{Array, Room};

/// Vectors are read from the last row too, four bytes at a time.
const PADDING: usize = 64;

/// The columns, one after the other.
pub(crate) enum Head {
    /// Four bytes each.
    Four(Array<u32>),
    /// Three bytes each, the lowest first.
    Three(Array<u8>),
}

impl Head {
    /// Bytes that each neighbour takes at least, where this number is the largest.
    pub(crate) fn width(largest: u32) -> usize {
        if largest < 1 << 24 { 3 } else { 4 }
    }

    /// Bytes of so many neighbours of this width, with those that are read behind the last.
    pub(crate) fn bytes_for(neighbours: usize, width: usize) -> u64 {
        (width * (neighbours + ROWS_ALIGNED) + if width == 3 { PADDING } else { 0 }) as u64
    }

    /// As few bytes as will do, if none is larger than that.
    pub(crate) fn packed(self, largest: u32, room: &Room) -> Result<Self, MemoryError> {
        match self {
            Self::Four(wide) if Self::width(largest) == 3 => {
                let mut bytes: Array<u8> = room.array(3 * wide.len() + PADDING)?;
                let (three, _) = bytes.as_chunks_mut::<3>();
                three
                    .iter_mut()
                    .zip(&wide[..])
                    .for_each(|(three, wide)| three.copy_from_slice(&wide.to_le_bytes()[..3]));
                Ok(Self::Three(bytes))
            }
            other => Ok(other),
        }
    }

    /// All of them, four bytes each.
    pub(crate) fn wide(&self) -> Cow<'_, [u32]> {
        match self {
            Self::Four(wide) => Cow::Borrowed(wide),
            Self::Three(bytes) => (0..(bytes.len() - PADDING) / 3).map(|at| self.at(at)).collect(),
        }
    }

    /// All of them as a file has them: four bytes each.
    pub(crate) fn wide_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Four(wide) => Cow::Borrowed(wide.view()),
            Self::Three(_) => self.wide().iter().flat_map(|neighbour| neighbour.to_le_bytes()).collect(),
        }
    }

    /// One of them.
    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> u32 {
        match self {
            Self::Four(wide) => wide[at],
            Self::Three(bytes) => {
                let three = &bytes[3 * at..3 * at + 3];
                u32::from_le_bytes([three[0], three[1], three[2], 0])
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Four(wide) => wide.bytes(),
            Self::Three(bytes) => bytes.bytes(),
        }
    }

    pub(crate) fn add_pages(&self, most: usize, pages: &mut BTreeMap<NodeId, u64>) -> Result<(), MemoryError> {
        match self {
            Self::Four(wide) => wide.add_pages(most, pages),
            Self::Three(bytes) => bytes.add_pages(most, pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_neighbours_come_back() {
        let numbers: Vec<u32> = (0..1000).map(|index| (index * 2_654_435) % (1 << 24)).collect();
        let room = Room::anywhere();
        let head = || {
            let mut array: Array<u32> = room.array(numbers.len()).unwrap();
            array.copy_from_slice(&numbers);
            Head::Four(array)
        };
        let packed = head().packed((1 << 24) - 1, &room).unwrap();
        assert!(matches!(&packed, Head::Three(_)) && packed.bytes() == 3 * 1000 + PADDING);
        assert_eq!(packed.wide()[..], numbers);
        assert!((0..1000).all(|at| packed.at(at) == numbers[at]));
        assert!(matches!(head().packed(1 << 24, &room).unwrap(), Head::Four(_)));
    }
}
