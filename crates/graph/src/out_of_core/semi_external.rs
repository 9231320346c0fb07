//! Constructs a graph that is searched with less DRAM than it takes, within the same limit. Head columns are written to
//! memory, tail lists to their part, from which prefixes and the lists of the largest hubs are read back. How much fits
//! is known after neighbours have been counted and lists encoded to measure their size. Such a construction cannot be
//! resumed: the part is only for searches of this process.

use model::values::units::Bytes;

use super::checkpoint::Checkpoint;
use super::lists::Sizes;
use super::split::{BucketPlan, BuildRequirements};
use super::{Effort, OutOfCore, Work, generator, impossible};
use crate::arrays::{Array, ArrayPlacement};
use crate::budget::{Dram, DramLayout, HeadBudget};
use crate::build::{LayoutLists, Ranking, finish};
use crate::coded::{self, PADDING, PIECE_BYTES};
use crate::degrees::{DegreeRuns, TieOrder};
use crate::error::Error;
use crate::head::HeadColumns;
use crate::index::Index;
use crate::kronecker::Spec;
use crate::layout::{COLUMNS_MAX, Layout, check_columns};
use crate::prefixes::Prefixes;
use crate::storage::{PartKind, Storage};
use crate::team::Team;

/// Per-vertex data of a search and its validation: rank and parent in original labels (4 and 4), level and proof (3);
/// per vertex with an edge: label, parent, two lists and the sorted frontier (20), bit maps and mean degrees (0.5).
const BYTES_PER_VERTEX: u64 = 32;
/// Lengths of lists per read.
const LENGTHS_AT_ONCE: usize = 1 << 16;
/// Bytes of tail lists per read.
const READ_AT_ONCE: u64 = 1 << 20;
/// Size of fully encoded lists per direction of a generated edge: 1.6 at scale 22, and more for sparser graphs.
const CODED_BYTES: f64 = 2.0;

/// Memory and disk space that construction, searches and validation take, in addition to the program and the read
/// buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchFootprint {
    /// Memory for construction, [`OutOfCore::memory`]. Construction takes no more than the searches.
    pub construction: Bytes,
    /// Total memory, including the `dram` limit for head columns, index and lists.
    pub memory: Bytes,
    /// Estimated disk space during construction.
    pub disk: Bytes,
}

impl SearchFootprint {
    /// Computes the footprint of this graph with this many threads.
    ///
    /// # Errors
    /// If scale or edge factor are out of range.
    pub fn of(spec: &Spec, threads: usize, dram: Dram) -> Result<Self, Error> {
        generator(spec)?;
        let least = BuildRequirements::of(spec, threads, COLUMNS_MAX)?.memory.0;
        let construction = least.max(BYTES_PER_VERTEX * spec.vertices());
        let coded = Bytes((2.0 * CODED_BYTES * spec.edges() as f64) as u64);
        let memory = Bytes(construction.saturating_add(dram.of(coded).0));
        let construction = Bytes(construction);
        Ok(Self { construction, memory, disk: BuildRequirements::disk(spec, construction) })
    }

    /// Fails early if the graph needs more memory than is available.
    ///
    /// # Errors
    /// With the needed and the available memory.
    pub fn check_fits(&self, spec: &Spec) -> Result<(), Error> {
        match machine::memory::available() {
            Some(available) if self.memory > available => {
                Err(Error::TooLarge { scale: spec.scale, needed: self.memory, available })
            }
            // If the system does not report its free memory, only an attempt can show.
            _ => Ok(()),
        }
    }
}

/// Constructs a graph to be searched with this limit of DRAM for head columns, index and hubs, with the requested
/// number of columns or as many as fit. Afterwards part [`PartKind::Graph`] has the tail lists. Also returns the limit
/// in bytes.
pub fn build_beyond<C: Team>(
    team: &C,
    spec: &Spec,
    (dram, columns): (Dram, Option<u32>),
    with: &OutOfCore<'_>,
    placement: &ArrayPlacement,
) -> Result<(Layout, HeadBudget), C::Error> {
    columns.map_or(Ok(()), check_columns)?;
    let generator = generator(spec)?;
    let split = BucketPlan::fitting(spec, team.threads(), COLUMNS_MAX, with.memory)?;
    let mut work = Work::new(team, with, &generator, Checkpoint::new(spec, COLUMNS_MAX, split), placement);
    work.meter.of += spec.edges() * Effort::Levels.per_edge();
    let (rank, steps) = work.ranks(TieOrder::Neighbour, placement)?;
    let dealt = work.deal_ranked(&rank, &steps)?;
    let (coded, begun) = work.coded_bytes(&dealt, &steps)?;
    let budget = HeadBudget { coded: Bytes(coded), dram: dram.of(Bytes(coded)) };
    let shape = budget.shape(&steps, columns, &begun)?;
    let sizes = Sizes::of_tail(&steps, shape.columns);
    let mut head = head(&sizes, steps.ranks(), placement)?;
    work.write_lists(&dealt, &steps, &sizes, Some(head.writer()))?;
    let (storage, tail) = (work.storage, work.note.tail);
    drop(dealt);
    storage.discard(PartKind::Ranked).map_err(Error::Storage)?;
    let starts = starts(storage, sizes.lists() as usize, tail, placement)?;
    let listed = listed(storage, head, &starts, (&budget, &shape, &steps), placement)?;
    drop(starts);
    let ranking = Ranking::of(rank, steps, placement).map_err(Error::Memory)?;
    let ranking = Ranking { rows: sizes.rows, ..ranking };
    Ok((finish(spec, ranking, listed, placement).map_err(Error::Memory)?, budget))
}

/// Allocates the head columns and fills padding rows with a neighbour that is never in a frontier.
fn head(sizes: &Sizes, ranks: u32, placement: &ArrayPlacement) -> Result<HeadColumns, Error> {
    let entries = sizes.head_entries();
    let mut head = HeadColumns::packed(entries, ranks, placement)?;
    let end = head.rows();
    let columns = sizes.column_at.windows(2).zip(&sizes.rows).map(|(at, rows)| at[0] + *rows as usize..at[1]);
    let gaps = columns.chain(std::iter::once(entries..end));
    gaps.for_each(|gap| head.writer().store(gap.start, &vec![ranks; gap.len()]));
    Ok(head)
}

/// Returns the start of each tail list and the end of the last, from their lengths.
fn starts(storage: &dyn Storage, lists: usize, tail: u64, placement: &ArrayPlacement) -> Result<Array<u64>, Error> {
    let mut starts: Array<u64> = placement.for_temporaries().array(lists + 1)?;
    let mut lengths = vec![0; 4 * LENGTHS_AT_ONCE.min(lists)];
    let mut start = 0;
    for first in (0..lists).step_by(LENGTHS_AT_ONCE) {
        let part = &mut lengths[..4 * (lists - first).min(LENGTHS_AT_ONCE)];
        storage.read(PartKind::Lengths, 4 * first as u64, part)?;
        for (place, length) in starts[first + 1..].iter_mut().zip(part.as_chunks::<4>().0) {
            start += u64::from(u32::from_le_bytes(*length));
            *place = start;
        }
    }
    storage.discard(PartKind::Lengths)?;
    if start != tail {
        return Err(impossible(PartKind::Lengths, "the sum of its lengths differs from the size of the tail lists"));
    }
    Ok(starts)
}

/// Returns the lists in memory: head columns, prefixes, and as many tail lists as fit into the remaining limit.
fn listed(
    storage: &dyn Storage,
    head: HeadColumns,
    starts: &[u64],
    (budget, shape, steps): (&HeadBudget, &DramLayout, &DegreeRuns),
    placement: &ArrayPlacement,
) -> Result<LayoutLists, Error> {
    let index = Index::new(&starts[..=shape.lists(steps)], placement)?;
    let kept = index.first_beyond(budget.left(steps, shape));
    let mut tail: Array<u8> = placement.array(starts[kept] as usize + PADDING)?;
    storage.read(PartKind::Graph, 0, &mut tail[..starts[kept] as usize])?;
    let beginnings = beginnings(storage, starts, kept, shape, placement)?;
    let mut long_lists = Vec::new();
    let mut list = Vec::new();
    for rank in kept as u32..index.lists() as u32 {
        let (from, length) = index.list(rank);
        if length > PIECE_BYTES {
            list.resize(length, 0);
            storage.read(PartKind::Graph, from, &mut list)?;
            long_lists.push((rank, coded::pieces(&list, from)));
        }
    }
    Ok(LayoutLists { head, tail, index, beginnings, first_far: kept as u32, long_lists })
}

/// Returns the prefixes of the lists from this one on, read back from the tail lists.
fn beginnings(
    storage: &dyn Storage,
    starts: &[u64],
    first: usize,
    shape: &DramLayout,
    placement: &ArrayPlacement,
) -> Result<Prefixes, Error> {
    let lists = starts.len() - 1;
    if shape.beginnings == 0 || first == lists {
        return Ok(Prefixes::none(placement)?);
    }
    let mut bytes: Array<u8> = placement.array(shape.coded as usize + PADDING)?;
    let mut begins: Array<u64> = placement.for_temporaries().array(lists - first + 1)?;
    let (mut from, mut end, mut part, mut coded) = (first, 0, Vec::new(), Vec::new());
    while from < lists {
        let to = starts.partition_point(|start| *start <= starts[from] + READ_AT_ONCE).max(from + 2) - 1;
        part.resize((starts[to] - starts[from]) as usize, 0);
        storage.read(PartKind::Graph, starts[from], &mut part)?;
        for rank in from..to {
            let list = &part[(starts[rank] - starts[from]) as usize..(starts[rank + 1] - starts[from]) as usize];
            let values = coded::begins(list, shape.beginnings);
            let values = values.ok_or_else(|| impossible(PartKind::Graph, "a list is truncated"))?;
            coded.clear();
            coded::encode(&values, &mut coded);
            let place = bytes[..shape.coded as usize].get_mut(end..end + coded.len());
            place
                .ok_or_else(|| impossible(PartKind::Graph, "the lists differ from those counted"))?
                .copy_from_slice(&coded);
            end += coded.len();
            begins[rank + 1 - first] = end as u64;
        }
        from = to;
    }
    Ok(Prefixes::new((first as u32, shape.beginnings), &begins, bytes, placement)?)
}
