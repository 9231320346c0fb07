//! The head columns: neighbours of four bytes or, if all ranks are below 2^24, of three, which saves DRAM.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::{Array, ArrayPlacement};

/// Readers take sixteen rows of a column at a time, and chunks of 64 rows start in each column; rows are padded to a
/// multiple of this.
pub(crate) const ROWS_ALIGNED: usize = 64;
/// Readers take whole vectors from the last row too, four bytes at a time.
const PADDING: usize = 64;

/// The columns, stored contiguously.
pub(crate) enum HeadColumns {
    /// Four bytes per neighbour.
    Four(Array<u32>),
    /// Three bytes per neighbour, little-endian.
    Three(Array<u8>),
}

/// The columns while threads write them.
#[derive(Clone, Copy)]
pub(crate) enum HeadWriter<'h> {
    /// See [`HeadColumns::Four`].
    Four(&'h [AtomicU32]),
    /// See [`HeadColumns::Three`].
    Three(&'h [AtomicU8]),
}

impl HeadWriter<'_> {
    /// Writes neighbours from index `at` on. Each index must be written by one thread only.
    pub(crate) fn store(self, at: usize, neighbours: &[u32]) {
        match self {
            Self::Four(wide) => {
                wide[at..].iter().zip(neighbours).for_each(|(row, neighbour)| row.store(*neighbour, Relaxed));
            }
            Self::Three(bytes) => {
                let (rows, _) = bytes[3 * at..].as_chunks::<3>();
                for (row, neighbour) in rows.iter().zip(neighbours) {
                    row.iter().zip(neighbour.to_le_bytes()).for_each(|(place, byte)| place.store(byte, Relaxed));
                }
            }
        }
    }
}

impl HeadColumns {
    /// Returns the minimum width in bytes of a neighbour whose maximum is `largest`.
    pub(crate) fn width(largest: u32) -> usize {
        if largest < 1 << 24 { 3 } else { 4 }
    }

    /// Returns the size in bytes of this many neighbours of this width, padding included.
    pub(crate) fn bytes_for(neighbours: usize, width: usize) -> u64 {
        (width * (neighbours + ROWS_ALIGNED) + if width == 3 { PADDING } else { 0 }) as u64
    }

    /// Allocates columns for this many neighbours, padding included, with the smallest width that can hold `largest`.
    pub(crate) fn packed(neighbours: usize, largest: u32, placement: &ArrayPlacement) -> Result<Self, MemoryError> {
        let rows = neighbours + ROWS_ALIGNED;
        Ok(match Self::width(largest) {
            3 => Self::Three(placement.array(3 * rows + PADDING)?),
            _ => Self::Four(placement.array(rows)?),
        })
    }

    /// Returns the capacity in neighbours.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Four(wide) => wide.len(),
            Self::Three(bytes) => (bytes.len() - PADDING) / 3,
        }
    }

    /// Returns a writer for threads that write columns concurrently.
    pub(crate) fn writer(&mut self) -> HeadWriter<'_> {
        match self {
            Self::Four(wide) => HeadWriter::Four(wide.as_mut()),
            Self::Three(bytes) => HeadWriter::Three(bytes.as_mut()),
        }
    }

    /// Returns all neighbours, four bytes each.
    pub(crate) fn wide(&self) -> Cow<'_, [u32]> {
        match self {
            Self::Four(wide) => Cow::Borrowed(wide),
            Self::Three(_) => (0..self.rows()).map(|at| self.at(at)).collect(),
        }
    }

    /// Returns all neighbours in the format of the file: four bytes each.
    pub(crate) fn wide_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Four(wide) => Cow::Borrowed(wide.view()),
            Self::Three(_) => self.wide().iter().flat_map(|neighbour| neighbour.to_le_bytes()).collect(),
        }
    }

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

    /// Moves the pages of these neighbours to a memory node.
    pub(crate) fn move_to(&self, neighbours: Range<usize>, node: NodeId) -> Result<(), MemoryError> {
        match self {
            Self::Four(wide) => wide.move_to(neighbours, node),
            Self::Three(bytes) => bytes.move_to(3 * neighbours.start..3 * neighbours.end, node),
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
    fn packed_neighbours_round_trip() {
        let numbers: Vec<u32> = (0..1000).map(|index| (index * 2_654_435) % (1 << 24)).collect();
        let placement = ArrayPlacement::kernel_default();
        for (largest, width) in [((1 << 24) - 1, 3), (1 << 24, 4)] {
            let mut head = HeadColumns::packed(1000, largest, &placement).unwrap();
            assert_eq!(matches!(&head, HeadColumns::Three(_)), width == 3);
            assert_eq!(head.bytes() as u64, HeadColumns::bytes_for(1000, width));
            for (at, part) in numbers.chunks(300).enumerate().collect::<Vec<_>>().into_iter().rev() {
                head.writer().store(300 * at, part);
            }
            assert_eq!(head.wide()[..1000], numbers);
            assert!((0..1000).all(|at| head.at(at) == numbers[at]));
        }
    }
}
