//! The graph as it is searched. Vertices without edges are left out, the others are ranked by descending degree, and lists
//! are ascending, so hubs stand first in each.
//!
//! HEAD: column j holds the j-th neighbour of every rank that has more than j. Ranks descend by degree, so these are
//! the ranks below `rows(j)`: columns are jagged and have no holes. TAIL: the other neighbours of each list, coded, in
//! the order of ranks. HEAD, index and labels are in DRAM; of TAIL the hubs' lists are, as many as there is room for, and the
//! others may lie elsewhere ([`crate::build_beyond`]), then with what they begin with in DRAM (`beginnings`).

use std::collections::BTreeMap;
use std::ops::Range;

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::Array;
use crate::coded;
use crate::error::Error;
use crate::head::HeadColumns;
use crate::index::Index;
use crate::kronecker::Spec;
use crate::label_blocks::LabelBlocks;
use crate::nodes::Nodes;
use crate::prefixes::Prefixes;

/// The most columns that HEAD may have.
pub const COLUMNS_MAX: u32 = 64;
/// Columns are read sixteen rows at a time, and chunks of 64 rows are begun everywhere: so many rows are filled up.
pub(crate) const ROWS_ALIGNED: usize = 64;
/// Labels are those of 32 bits; this one is none.
pub(crate) const NO_LABEL: u32 = u32::MAX;

pub struct Layout {
    pub(crate) spec: Spec,
    /// Ranks: vertices with an edge to another one.
    pub(crate) ranks: u32,
    /// Neighbours in all lists: twice the edges between different vertices, each counted once.
    pub(crate) neighbours: u64,
    /// `rows[j]`: how many ranks have more than j neighbours, for each column and for TAIL after the last.
    pub(crate) rows: Vec<u32>,
    /// Where each column begins in `head`, and the end of the last.
    pub(crate) column_at: Vec<usize>,
    pub(crate) head: HeadColumns,
    /// TAIL, or what of it is in DRAM: the lists of the ranks before `first_far`.
    pub(crate) tail: Array<u8>,
    /// The first rank whose list of TAIL is elsewhere; that behind the last in the index when none is.
    pub(crate) first_far: u32,
    /// Where each list of TAIL lies that is not whole in `beginnings`.
    pub(crate) index: Index,
    /// What lists that are elsewhere begin with.
    pub(crate) beginnings: Prefixes,
    /// Of lists elsewhere that are longer than a piece: rank, and where each piece begins and ends.
    pub(crate) long_lists: Vec<(u32, Vec<u64>)>,
    /// Rank to label; `NO_LABEL` after the last.
    pub(crate) label: Array<u32>,
    /// Label to rank; `NO_LABEL` for vertices without edges.
    pub(crate) rank: Array<u32>,
    /// Mean degree of 64 neighbouring ranks, from which directions are chosen.
    pub(crate) mean_degree: Array<f32>,
    /// Which ranks lie in which block of labels.
    pub(crate) classes: LabelBlocks,
}

impl Layout {
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn columns(&self) -> u32 {
        self.rows.len() as u32 - 1
    }

    /// Vertices with an edge to another one.
    pub fn vertices(&self) -> u64 {
        u64::from(self.ranks)
    }

    /// Edges between different vertices, multi-edges counted once.
    pub fn edges(&self) -> u64 {
        self.neighbours / 2
    }

    pub fn head_neighbours(&self) -> u64 {
        self.rows[..self.rows.len() - 1].iter().map(|rows| u64::from(*rows)).sum()
    }

    /// Whether a vertex has an edge to another one.
    pub fn has_edge(&self, label: u64) -> bool {
        self.rank_of(label).is_some()
    }

    pub(crate) fn rank_of(&self, label: u64) -> Option<u32> {
        usize::try_from(label).ok().and_then(|label| self.rank.get(label)).copied().filter(|rank| *rank != NO_LABEL)
    }

    /// Bytes of HEAD, of TAIL as coded, and of what finds both: index, labels, ranks, degrees and blocks.
    pub fn bytes(&self) -> (u64, u64, u64) {
        let index = self.index.bytes() + self.label.bytes() + self.rank.bytes() + self.mean_degree.bytes();
        (self.head.bytes() as u64, self.tail.bytes() as u64, (index + self.classes.bytes()) as u64)
    }

    /// Bytes that a search of this graph has to find in DRAM, beside what belongs to vertices and not to edges: HEAD, index and
    /// what of TAIL is there.
    pub fn edge_bytes(&self) -> u64 {
        let pieces: usize = self.long_lists.iter().map(|list| size_of_val(&list.1[..])).sum();
        (self.head.bytes() + self.beginnings.bytes() + self.index.bytes() + self.tail.bytes() + pieces) as u64
    }

    /// Whether some of TAIL is elsewhere.
    pub(crate) fn has_far(&self) -> bool {
        (self.first_far as usize) < self.index.lists()
    }

    /// How many neighbours of lists that are elsewhere are in DRAM, after those in HEAD.
    pub fn beginnings(&self) -> usize {
        self.beginnings.length()
    }

    /// Bytes of TAIL, wherever they lie.
    pub fn tail_bytes(&self) -> u64 {
        self.index.end()
    }

    /// TAIL, as long as all of it is in DRAM.
    pub(crate) fn tail(&self) -> &[u8] {
        assert!(!self.has_far(), "all of TAIL is in DRAM");
        &self.tail[..self.tail.len() - coded::PADDING]
    }

    /// Words of a map with a bit for each rank and one more: rows that no rank has point there.
    pub(crate) fn words(&self) -> usize {
        self.ranks as usize / 64 + 1
    }

    /// The words of a map with the ranks that have a list elsewhere; where none is, one at most.
    pub(crate) fn far_words(&self) -> Range<usize> {
        self.first_far as usize / 64..self.index.lists().div_ceil(64)
    }

    /// Moves HEAD and what of TAIL is in DRAM to the nodes whose threads scan them first. For memory that is wherever it was touched: a
    /// policy that says where pages are to be is broken by this.
    pub fn settle(&self, nodes: &Nodes) -> Result<(), MemoryError> {
        let borders = nodes.borders(self);
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

    /// On which nodes its pages are; of each array at most `most` are asked about.
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

    /// The neighbours of a rank; see [`Lists::read`].
    #[cfg(test)]
    pub(crate) fn list(&self, rank: u32) -> Option<Vec<u32>> {
        let head = self.head.wide();
        let tail = || {
            let (from, length) = self.index.list(rank);
            self.tail.get(from as usize..from as usize + length)
        };
        PlainLists { ranks: self.ranks, rows: &self.rows, column_at: &self.column_at, head: &head }.read(rank, tail)
    }

    /// Where columns begin when they have so many rows, and where the last ends.
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

/// Refuses a number of columns that HEAD cannot have.
pub fn check_columns(columns: u32) -> Result<(), Error> {
    if (1..=COLUMNS_MAX).contains(&columns) { Ok(()) } else { Err(Error::Columns { columns, max: COLUMNS_MAX }) }
}

/// Lists as they are read in the plainest way.
#[derive(Clone, Copy)]
pub(crate) struct PlainLists<'l> {
    pub(crate) ranks: u32,
    pub(crate) rows: &'l [u32],
    pub(crate) column_at: &'l [usize],
    pub(crate) head: &'l [u32],
}

impl PlainLists<'_> {
    /// The neighbours of a rank, those of TAIL from the bytes that are given if it has any; `None` when they are not what a list
    /// can be.
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
