//! The graph as it is searched. Vertices without edges are left out, the others are ranked by descending degree, and lists
//! are ascending, so hubs stand first in each.
//!
//! HEAD: column j holds the j-th neighbour of every rank that has more than j. Ranks descend by degree, so these are
//! the ranks below `rows(j)`: columns are jagged and have no holes. TAIL: the other neighbours of each list, coded, in
//! the order of ranks. HEAD, index and labels are to be in DRAM; TAIL need not be.

use std::collections::BTreeMap;

use machine::memory::MemoryError;
use model::id_set::NodeId;

use crate::classes::Classes;
use crate::coded;
use crate::error::Error;
use crate::kronecker::Spec;
use crate::room::Array;

/// The most columns that HEAD may have.
pub const COLUMNS_MAX: u32 = 64;
/// Columns are read sixteen rows at a time, and chunks of 64 rows are begun everywhere: so many rows are filled up.
pub(crate) const ROWS_ALIGNED: usize = 64;
/// Labels are those of 32 bits; this one is none.
pub(crate) const NO_LABEL: u32 = u32::MAX;

/// A graph, constructed.
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
    pub(crate) head: Array<u32>,
    pub(crate) tail: Array<u8>,
    /// Where each list of TAIL begins, and the end of the last.
    pub(crate) tail_at: Array<u64>,
    /// Rank to label; `NO_LABEL` after the last.
    pub(crate) label: Array<u32>,
    /// Label to rank; `NO_LABEL` for vertices without edges.
    pub(crate) rank: Array<u32>,
    /// Mean degree of 64 neighbouring ranks, from which directions are chosen.
    pub(crate) mean_degree: Array<f32>,
    /// Which ranks lie in which block of labels.
    pub(crate) classes: Classes,
}

impl Layout {
    /// Which graph.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Columns of HEAD.
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

    /// Neighbours that HEAD holds.
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
        let index = self.tail_at.bytes() + self.label.bytes() + self.rank.bytes() + self.mean_degree.bytes();
        (self.head.bytes() as u64, self.tail.bytes() as u64, (index + self.classes.bytes()) as u64)
    }

    /// On which nodes its pages are; of each array at most `most` are asked about.
    pub fn pages_by_node(&self, most: usize) -> Result<BTreeMap<NodeId, u64>, MemoryError> {
        let mut pages = BTreeMap::new();
        self.head.add_pages(most, &mut pages)?;
        self.tail.add_pages(most, &mut pages)?;
        self.tail_at.add_pages(most, &mut pages)?;
        self.label.add_pages(most, &mut pages)?;
        self.rank.add_pages(most, &mut pages)?;
        Ok(pages)
    }

    /// The neighbours of a rank; see [`Lists::read`].
    #[cfg(test)]
    pub(crate) fn list(&self, rank: u32) -> Option<Vec<u32>> {
        let Self { ranks, rows, column_at, head, tail, tail_at, .. } = self;
        Lists { ranks: *ranks, rows, column_at, head, tail, tail_at }.read(rank)
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

/// HEAD and TAIL as they are read in the plainest way.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'l> {
    pub(crate) ranks: u32,
    pub(crate) rows: &'l [u32],
    pub(crate) column_at: &'l [usize],
    pub(crate) head: &'l [u32],
    pub(crate) tail: &'l [u8],
    pub(crate) tail_at: &'l [u64],
}

impl Lists<'_> {
    /// The neighbours of a rank; `None` when they are not what a list can be.
    pub(crate) fn read(&self, rank: u32) -> Option<Vec<u32>> {
        let last = self.rows.len() - 1;
        let columns = self.rows[..last].iter().take_while(|rows| rank < **rows).count();
        let mut list: Vec<u32> = (0..columns).map(|column| self.head[self.column_at[column] + rank as usize]).collect();
        if rank < self.rows[last] {
            let (from, to) = (self.tail_at[rank as usize] as usize, self.tail_at[rank as usize + 1] as usize);
            let tail = coded::decode(self.tail.get(from..to)?, self.ranks)?;
            if tail.is_empty() {
                return None;
            }
            list.extend(tail);
        }
        let ascends = list.windows(2).all(|pair| pair[0] < pair[1]);
        (ascends && list.iter().all(|neighbour| *neighbour < self.ranks)).then_some(list)
    }
}
