//! The graph in the form that is searched. Vertices without edges are omitted, the others are ranked by descending
//! degree. Lists are in ascending order, so the hubs come first in each.
//!
//! Head columns: column j has the j-th neighbour of each rank with more than j neighbours. Ranks descend by degree, so
//! these are the ranks below `rows(j)`; the columns have different lengths and no gaps. Tail lists: the remaining
//! neighbours of each list, encoded, in the order of ranks. Head columns, index and labels are in DRAM, and so are the
//! tail lists of the largest hubs, up to the DRAM limit. The other tail lists may be outside DRAM
//! ([`crate::build_beyond`]); their prefixes are then in DRAM (`beginnings`).

use std::collections::BTreeMap;
use std::ops::Range;

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::Array;
use crate::coded;
use crate::error::Error;
use crate::head::{HeadColumns, ROWS_ALIGNED};
use crate::index::Index;
use crate::kronecker::Spec;
use crate::label_blocks::LabelBlocks;
use crate::nodes::Nodes;
use crate::prefixes::Prefixes;

/// Maximum number of head columns.
pub const COLUMNS_MAX: u32 = 64;
/// Labels are 32 bits wide; this value means that there is none.
pub(crate) const NO_LABEL: u32 = u32::MAX;

pub struct Layout {
    pub(crate) spec: Spec,
    /// Number of ranks: vertices with an edge to another vertex.
    pub(crate) ranks: u32,
    /// Number of neighbours in all lists: twice the number of distinct edges, without self-loops.
    pub(crate) neighbours: u64,
    /// `rows[j]`: number of ranks with more than j neighbours, for each column; the last element is that of the tail
    /// lists.
    pub(crate) rows: Vec<u32>,
    /// Start of each column in `head`, and the end of the last one.
    pub(crate) column_at: Vec<usize>,
    pub(crate) head: HeadColumns,
    /// The part of the tail lists that is in DRAM: those of the ranks before `first_far`.
    pub(crate) tail: Array<u8>,
    /// The first rank whose tail list is not in DRAM; the number of lists in the index if all are.
    pub(crate) first_far: u32,
    /// Index of the tail lists that are not entirely in `beginnings`.
    pub(crate) index: Index,
    /// Prefixes of the lists that are not in DRAM.
    pub(crate) beginnings: Prefixes,
    /// Rank and piece boundaries of each list outside DRAM that is longer than one piece.
    pub(crate) long_lists: Vec<(u32, Vec<u64>)>,
    /// Rank to label; `NO_LABEL` after the last rank.
    pub(crate) label: Array<u32>,
    /// Label to rank; `NO_LABEL` for vertices without edges.
    pub(crate) rank: Array<u32>,
    /// Mean degree of each 64 consecutive ranks, used to choose directions.
    pub(crate) mean_degree: Array<f32>,
    /// The ranks of each block of labels.
    pub(crate) classes: LabelBlocks,
}

impl Layout {
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn columns(&self) -> u32 {
        self.rows.len() as u32 - 1
    }

    /// Returns the number of vertices with an edge to another vertex.
    pub fn vertices(&self) -> u64 {
        u64::from(self.ranks)
    }

    /// Returns the number of distinct edges, without self-loops.
    pub fn edges(&self) -> u64 {
        self.neighbours / 2
    }

    pub fn head_neighbours(&self) -> u64 {
        self.rows[..self.rows.len() - 1].iter().map(|rows| u64::from(*rows)).sum()
    }

    /// Returns true if the vertex has an edge to another vertex.
    pub fn has_edge(&self, label: u64) -> bool {
        self.rank_of(label).is_some()
    }

    pub(crate) fn rank_of(&self, label: u64) -> Option<u32> {
        usize::try_from(label).ok().and_then(|label| self.rank.get(label)).copied().filter(|rank| *rank != NO_LABEL)
    }

    /// Returns the sizes in bytes of the head columns, of the encoded tail lists, and of the rest: index, labels,
    /// ranks, degrees and blocks.
    pub fn bytes(&self) -> (u64, u64, u64) {
        let index = self.index.bytes() + self.label.bytes() + self.rank.bytes() + self.mean_degree.bytes();
        (self.head.bytes() as u64, self.tail.bytes() as u64, (index + self.classes.bytes()) as u64)
    }

    /// Returns the bytes of edge data that a search needs in DRAM: head columns, index, and the tail lists
    /// in DRAM. Per-vertex data is not included.
    pub fn edge_bytes(&self) -> u64 {
        let pieces: usize = self.long_lists.iter().map(|list| size_of_val(&list.1[..])).sum();
        (self.head.bytes() + self.beginnings.bytes() + self.index.bytes() + self.tail.bytes() + pieces) as u64
    }

    /// Returns true if some of the tail lists are outside DRAM.
    pub(crate) fn has_far(&self) -> bool {
        (self.first_far as usize) < self.index.lists()
    }

    /// Returns the maximum number of neighbours in a prefix, after those in the head columns.
    pub fn beginnings(&self) -> usize {
        self.beginnings.length()
    }

    /// Returns the size of all tail lists in bytes, in DRAM or not.
    pub fn tail_bytes(&self) -> u64 {
        self.index.end()
    }

    /// Returns the tail lists. All of them must be in DRAM.
    pub(crate) fn tail(&self) -> &[u8] {
        assert!(!self.has_far(), "all tail lists are in DRAM");
        &self.tail[..self.tail.len() - coded::PADDING]
    }

    /// Returns the number of words of a map with a bit for each rank and one more, to which padding rows point.
    pub(crate) fn words(&self) -> usize {
        self.ranks as usize / 64 + 1
    }

    /// Returns the words of a map that contain the ranks with a list outside DRAM; at most one word if there are none.
    pub(crate) fn far_words(&self) -> Range<usize> {
        self.first_far as usize / 64..self.index.lists().div_ceil(64)
    }

    /// Returns the start of each node's vertices, in words of the maps, and the end of the last. The first node gets
    /// the lowest ranks, which have the longest lists. Each node's share of the head columns equals its share of the
    /// threads.
    pub(crate) fn borders(&self, nodes: &Nodes) -> Vec<usize> {
        let words = self.words();
        let below = |word: usize| -> u64 {
            let rows = self.rows[..self.rows.len() - 1].iter();
            rows.map(|rows| u64::from(*rows).min(64 * word as u64)).sum()
        };
        let all = below(words);
        let border = |node: usize| {
            let share = u128::from(all) * nodes.threads_before(node) as u128 / nodes.threads() as u128;
            // The first word with at least this many entries before it.
            let (mut low, mut high) = (0, words);
            while low < high {
                let middle = low.midpoint(high);
                if u128::from(below(middle)) < share { low = middle + 1 } else { high = middle }
            }
            low
        };
        let mut borders: Vec<usize> = (0..nodes.count()).map(border).collect();
        borders.push(words);
        borders
    }

    /// Moves the head columns and the tail lists in DRAM to the memory nodes whose threads scan them first. Only for
    /// memory that is placed by first touch: it overrides any memory policy.
    pub fn settle(&self, nodes: &Nodes) -> Result<(), MemoryError> {
        let borders = self.borders(nodes);
        for (words, node) in borders.windows(2).zip(nodes.ids()) {
            let below = |end: u32| (64 * words[0]).min(end as usize)..(64 * words[1]).min(end as usize);
            for (at, rows) in self.column_at.iter().zip(&self.rows[..self.rows.len() - 1]) {
                let rows = below(*rows);
                self.head.move_to(at + rows.start..at + rows.end, *node)?;
            }
            let lists = below(self.first_far);
            let start = |rank: usize| self.index.start(rank as u32) as usize;
            self.tail.move_to(start(lists.start)..start(lists.end), *node)?;
        }
        Ok(())
    }

    /// Returns the number of pages per memory node, from at most `most` pages of each array.
    pub fn pages_by_node(&self, most: usize) -> Result<BTreeMap<NodeId, u64>, MemoryError> {
        let mut pages = BTreeMap::new();
        self.head.add_pages(most, &mut pages)?;
        self.tail.add_pages(most, &mut pages)?;
        self.beginnings.add_pages(most, &mut pages)?;
        self.index.add_pages(most, &mut pages)?;
        self.label.add_pages(most, &mut pages)?;
        self.rank.add_pages(most, &mut pages)?;
        Ok(pages)
    }

    /// Returns the neighbours of a rank; see [`Lists::read`].
    #[cfg(test)]
    pub(crate) fn list(&self, rank: u32) -> Option<Vec<u32>> {
        let head = self.head.wide();
        let tail = || {
            let (from, length) = self.index.list(rank);
            self.tail.get(from as usize..from as usize + length)
        };
        PlainLists { ranks: self.ranks, rows: &self.rows, column_at: &self.column_at, head: &head }.read(rank, tail)
    }

    /// Returns the start of each column for these numbers of rows, and the end of the last one.
    pub(crate) fn columns_at(rows: &[u32]) -> Vec<usize> {
        let sizes = rows.iter().map(|rows| (*rows as usize).next_multiple_of(ROWS_ALIGNED));
        let mut at = vec![0];
        at.extend(sizes.scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        at
    }
}

/// Returns an error if the number of columns is out of range.
pub fn check_columns(columns: u32) -> Result<(), Error> {
    if (1..=COLUMNS_MAX).contains(&columns) { Ok(()) } else { Err(Error::Columns { columns, max: COLUMNS_MAX }) }
}

/// Access to lists with scalar code, for validation.
#[derive(Clone, Copy)]
pub(crate) struct PlainLists<'l> {
    pub(crate) ranks: u32,
    pub(crate) rows: &'l [u32],
    pub(crate) column_at: &'l [usize],
    pub(crate) head: &'l [u32],
}

impl PlainLists<'_> {
    /// Returns the neighbours of a rank, those of its tail list decoded from the given bytes. Returns `None` if the
    /// list is invalid.
    pub(crate) fn read<'t>(&self, rank: u32, tail: impl FnOnce() -> Option<&'t [u8]>) -> Option<Vec<u32>> {
        let last = self.rows.len() - 1;
        let columns = self.rows[..last].iter().take_while(|rows| rank < **rows).count();
        let mut list: Vec<u32> = (0..columns).map(|column| self.head[self.column_at[column] + rank as usize]).collect();
        if rank < self.rows[last] {
            let tail = coded::decode(tail()?, self.ranks)?;
            if tail.is_empty() {
                return None;
            }
            list.extend(tail);
        }
        let ascends = list.windows(2).all(|pair| pair[0] < pair[1]);
        (ascends && list.iter().all(|neighbour| *neighbour < self.ranks)).then_some(list)
    }
}
