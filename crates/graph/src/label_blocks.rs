//! Groups ranks into blocks of labels. Ranks of equal degree ascend with their labels, in a few classes at most, so the
//! ranks of a class whose labels are in one block form a run. A search writes its result block by block, each in the
//! cache, and reads each run sequentially. Hubs have too many different degrees for runs to be useful; they are few and
//! are written last, one by one.

use std::ops::Range;

use machine::memory::MemoryError;

use crate::arrays::{Array, ArrayPlacement};

/// Labels per block: 128 KiB of the result, which fits into the private cache of a core.
pub(crate) const BLOCK: usize = 1 << 15;
/// Ranks of higher degree are hubs: a few percent of all. Above this degree, a block's runs would have only a few ranks
/// each.
const DEGREE_MAX: u32 = 128;

/// The runs of ranks of each block.
pub(crate) struct LabelBlocks {
    pub(crate) hubs: u32,
    pub(crate) blocks: usize,
    /// First rank of each class in each block, at `starts[block * classes + class]`; one more block has the ends.
    starts: Array<u32>,
    classes: usize,
}

impl LabelBlocks {
    /// Groups ranks with these degrees (descending) and labels (ascending within each degree, or within parts of it).
    pub(crate) fn new(
        degrees: impl Fn(u32) -> u32,
        label: &[u32],
        ranks: u32,
        vertices: u64,
        placement: &ArrayPlacement,
    ) -> Result<Self, MemoryError> {
        let blocks = (vertices as usize).div_ceil(BLOCK);
        // The first rank with at most this degree.
        let first = |degree: u32| partition(0, ranks, |rank| degrees(rank) > degree);
        let hubs = first(DEGREE_MAX);
        let classes: Vec<_> =
            (1..=DEGREE_MAX).rev().flat_map(|degree| ascending(label, first(degree)..first(degree - 1))).collect();
        let mut starts = placement.array(classes.len() * (blocks + 1))?;
        for (at, class) in classes.iter().enumerate() {
            let mut from = class.start;
            for block in 0..=blocks {
                from = partition(from, class.end, |rank| (label[rank as usize] as usize) < block * BLOCK);
                starts[block * classes.len() + at] = from;
            }
        }
        Ok(Self { hubs, blocks, starts, classes: classes.len() })
    }

    /// Returns the runs of ranks whose labels are in a block, without hubs.
    #[inline]
    pub(crate) fn runs(&self, block: usize) -> impl Iterator<Item = Range<usize>> {
        let from = &self.starts[block * self.classes..][..self.classes];
        let to = &self.starts[(block + 1) * self.classes..][..self.classes];
        from.iter().zip(to).map(|(from, to)| *from as usize..*to as usize)
    }

    /// Returns the size in bytes for a graph with this many vertices.
    pub(crate) fn bytes_for(vertices: u64) -> u64 {
        4 * u64::from(DEGREE_MAX) * (vertices.div_ceil(BLOCK as u64) + 1)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.starts.bytes()
    }
}

/// Divides these ranks where labels do not ascend.
fn ascending(label: &[u32], ranks: Range<u32>) -> Vec<Range<u32>> {
    let Range { start, end } = ranks;
    let descends = |rank: &u32| label[*rank as usize] < label[*rank as usize - 1];
    let starts: Vec<u32> = std::iter::once(start).chain((start + 1..end).filter(descends)).collect();
    let ends = starts[1..].iter().copied().chain([end]);
    starts.iter().zip(ends).map(|(start, end)| *start..end).collect()
}

/// Returns the first of these numbers for which the predicate is false. It must be true for all before and false for
/// all after.
fn partition(mut from: u32, mut to: u32, so: impl Fn(u32) -> bool) -> u32 {
    while from < to {
        let middle = from + (to - from) / 2;
        if so(middle) { from = middle + 1 } else { to = middle }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_is_in_the_block_of_its_label_or_a_hub() {
        // Degrees 200, 200, then 128 down to 1, with labels in three blocks, in three parts of each degree.
        let vertices = 3 * BLOCK as u64 - 5;
        let mut degree_of: Vec<(u32, u32)> =
            (0..vertices as u32).step_by(11).map(|label| (label % 128 + 1, label)).collect();
        degree_of.extend([(200, 40_000), (200, 7)].map(|(degree, label)| (degree, label + 1)));
        degree_of.sort_by_key(|(degree, label)| (std::cmp::Reverse(*degree), *label % 3, *label));
        let label: Vec<u32> = degree_of.iter().map(|(_, label)| *label).collect();
        let ranks = label.len() as u32;
        let classes = LabelBlocks::new(
            |rank| degree_of[rank as usize].0,
            &label,
            ranks,
            vertices,
            &ArrayPlacement::kernel_default(),
        )
        .unwrap();
        assert_eq!((classes.hubs, classes.blocks, classes.classes), (2, 3, 3 * 128));
        let mut seen = vec![0; label.len()];
        for block in 0..classes.blocks {
            for rank in classes.runs(block).flatten() {
                assert_eq!(label[rank] as usize / BLOCK, block);
                seen[rank] += 1;
            }
        }
        assert!(seen[2..].iter().all(|times| *times == 1) && seen[..2] == [0, 0]);
    }
}
