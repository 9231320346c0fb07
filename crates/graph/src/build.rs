//! Constructs the layout from the edge list, in memory, with all threads.
//!
//! Both directions of each edge are distributed to buckets of consecutive vertices that fit into a cache, in which
//! lists are gathered and duplicates removed. Vertices are then ranked by degree, and each list is converted to ranks,
//! sorted and written to the head columns and, encoded, to the tail lists. Only the ranking is single-threaded.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use model::values::units::Bytes;

use crate::arrays::{Array, ArrayPlacement};
use crate::coded::{self, PADDING};
use crate::degrees::{DegreeRuns, NeighbourLevels, TieOrder};
use crate::edges::Tuples;
use crate::error::{Error, TeamStopped};
use crate::head::{HeadColumns, ROWS_ALIGNED};
use crate::index::Index;
use crate::kronecker::Spec;
use crate::label_blocks::LabelBlocks;
use crate::lanes::prefetch;
use crate::layout::{Layout, NO_LABEL, check_columns};
use crate::prefixes::Prefixes;
use crate::sort::{Sorter, to_starts};
use crate::team::{Chunks, Team, collect};

/// Minimum size of a bucket in vertices (log2): about 32 768 neighbours at the benchmark's edge factor, or 256 KiB.
const BUCKET_BITS_MIN: u32 = 10;
/// Maximum number of buckets (log2), so that the cache lines being written fit into the private cache of a core.
const BUCKETS_BITS_MAX: u32 = 12;
/// Prefetch distance in ranks, about one memory latency.
const AHEAD: u32 = 32;
/// Neighbours that a thread writes per chunk.
const CHUNK_NEIGHBOURS: u64 = 1 << 16;

/// Returns the approximate peak memory of generation and construction: the edge list, both directions of it in buckets,
/// and the result.
pub fn bytes_needed(spec: &Spec) -> Bytes {
    let (edges, vertices) = (u128::from(spec.edges()), u128::from(spec.vertices()));
    // 8 for the pair, at most 16 in buckets, at most 4 in head columns, tail lists and temporary buffers; 40 per
    // vertex.
    Bytes(u64::try_from(edges * 28 + vertices * 40).unwrap_or(u64::MAX))
}

/// Fails early if the graph needs more memory for its construction than is available.
pub fn check_fits(spec: &Spec) -> Result<(), Error> {
    spec.check()?;
    let needed = bytes_needed(spec);
    match machine::memory::available() {
        Some(available) if needed > available => Err(Error::TooLarge { scale: spec.scale, needed, available }),
        // If the system does not report its free memory, only an attempt can show.
        _ => Ok(()),
    }
}

/// Constructs the graph with `columns` head columns.
pub fn build<C: Team>(team: &C, tuples: &Tuples, columns: u32, placement: &ArrayPlacement) -> Result<Layout, C::Error> {
    build_in_order(team, tuples, columns, TieOrder::Label, placement)
}

/// [`build`] with this order of vertices with equal degree.
pub(crate) fn build_in_order<C: Team>(
    team: &C,
    tuples: &Tuples,
    columns: u32,
    ties: TieOrder,
    placement: &ArrayPlacement,
) -> Result<Layout, C::Error> {
    check_columns(columns)?;
    let mut buckets = Buckets::deal(team, tuples, &placement.for_temporaries())?;
    let lists = buckets.gather(team, &placement.for_temporaries())?;
    let levels = (ties == TieOrder::Neighbour).then(|| buckets.levels(team, &lists)).transpose()?;
    let mut ranking = Ranking::new(&lists, levels.as_ref(), placement).map_err(Error::Memory)?;
    drop(levels);
    if ranking.ranks == 0 {
        return Err(Error::NoEdges.into());
    }
    ranking.rows = ranking.steps.rows_of(columns);
    let written = write(team, &buckets, &lists, &ranking, placement)?;
    drop(buckets);
    let (head, tail, tail_at) = join(team, &ranking, written, placement)?;
    let parts = LayoutLists::near(head, tail, &tail_at, placement).map_err(Error::Memory)?;
    Ok(finish(tuples.spec(), ranking, parts, placement).map_err(Error::Memory)?)
}

/// Both directions of all edges except self-loops, by source vertex.
struct Buckets {
    /// Log2 of the vertices per bucket.
    bits: u32,
    /// Start of each bucket and end of the last one.
    at: Vec<usize>,
    /// True if the vertex within its bucket and its neighbour fit into one number, which holds up to scale 22;
    /// otherwise they take two.
    narrow: bool,
    /// After distribution: the vertex in the upper bits, its neighbour in the lower ones. After gathering: the lists of
    /// each bucket in sequence.
    entries: Array<u32>,
    vertices: usize,
}

struct ListIndex {
    /// By label: neighbours after removal of duplicates.
    degree: Array<u32>,
    /// By label: start of the list, as an index into `Buckets::entries`.
    start: Array<u64>,
}

impl Buckets {
    fn deal<C: Team>(team: &C, tuples: &Tuples, placement: &ArrayPlacement) -> Result<Self, C::Error> {
        let scale = tuples.spec().scale;
        let bits = BUCKET_BITS_MIN.max(scale.saturating_sub(BUCKETS_BITS_MAX)).min(scale);
        let count = 1 << (scale - bits);
        let counts = collect(team, |worker| {
            let mut counts = vec![0_usize; count];
            for (a, b) in tuples.part(worker).filter(|(a, b)| a != b) {
                counts[(a >> bits) as usize] += 1;
                counts[(b >> bits) as usize] += 1;
            }
            Ok(counts)
        })?;
        let (mut at, mut cursors, mut end) = (vec![0], vec![Vec::new(); counts.len()], 0);
        for bucket in 0..count {
            for (thread, counts) in counts.iter().enumerate() {
                cursors[thread].push(end);
                end += counts[bucket];
            }
            at.push(end);
        }
        let narrow = bits + scale <= u32::BITS;
        let mut entries: Array<u32> = placement.array(if narrow { end } else { 2 * end }).map_err(Error::Memory)?;
        if narrow {
            let slots: &[AtomicU32] = entries.as_mut();
            let mask = (1 << bits) - 1;
            let pair = |from: u32, to: u32| (from & mask) << scale | to;
            team.run(&|worker| {
                let cursors = &mut cursors[worker.index].clone();
                let edges = tuples.part(worker).filter(|(a, b)| a != b);
                put(edges, bits, cursors, |at, from, to| slots[at].store(pair(from, to), Ordering::Relaxed));
                Ok(())
            })?;
        } else {
            let slots: &[AtomicU64] = entries.as_mut();
            let pair = |from: u32, to: u32| u64::from(from) << 32 | u64::from(to);
            team.run(&|worker| {
                let cursors = &mut cursors[worker.index].clone();
                let edges = tuples.part(worker).filter(|(a, b)| a != b);
                put(edges, bits, cursors, |at, from, to| slots[at].store(pair(from, to), Ordering::Relaxed));
                Ok(())
            })?;
        }
        Ok(Self { bits, narrow, at, entries, vertices: 1 << scale })
    }

    /// Builds the lists of each bucket, without duplicates.
    fn gather<C: Team>(&mut self, team: &C, placement: &ArrayPlacement) -> Result<ListIndex, C::Error> {
        let vertices = self.vertices;
        let mut degree: Array<u32> = placement.array(vertices).map_err(Error::Memory)?;
        let mut start: Array<u64> = placement.array(vertices).map_err(Error::Memory)?;
        let (degrees, starts): (&[AtomicU32], &[AtomicU64]) = (degree.as_mut(), start.as_mut());
        let (bits, at, narrow) = (self.bits, &self.at, self.narrow);
        let (words, scale) = (if narrow { 1 } else { 2 }, vertices.ilog2());
        let mut rest = &mut self.entries[..];
        let buckets: Vec<(usize, &mut [u32])> = (0..at.len() - 1)
            .map(|bucket| {
                let (own, others) = std::mem::take(&mut rest).split_at_mut(words * (at[bucket + 1] - at[bucket]));
                rest = others;
                (bucket, own)
            })
            .collect();
        let next = Mutex::new(buckets.into_iter());
        team.run(&|_| {
            let mut space =
                BucketScratch { ends: Vec::new(), neighbours: Vec::new(), seen: vec![0; vertices.div_ceil(64)] };
            let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((bucket, entries)) = take() {
                let found = |vertex: usize, from: usize, length: usize| {
                    let label = (bucket << bits) + vertex;
                    degrees[label].store(length as u32, Ordering::Relaxed);
                    starts[label].store((words * at[bucket] + from) as u64, Ordering::Relaxed);
                };
                if narrow {
                    let unpack = |entry: &[u32; 1]| (entry[0] >> scale, entry[0] & (vertices as u32 - 1));
                    gather_bucket(entries, bits, unpack, &mut space, found);
                } else {
                    let mask = (1 << bits) - 1;
                    gather_bucket(entries, bits, |entry: &[u32; 2]| (entry[1] & mask, entry[0]), &mut space, found);
                }
            }
            Ok(())
        })?;
        Ok(ListIndex { degree, start })
    }

    /// Returns the level of each vertex, by its largest neighbour.
    fn levels<C: Team>(&self, team: &C, lists: &ListIndex) -> Result<NeighbourLevels, C::Error> {
        let levels = NeighbourLevels::new(&lists.degree);
        team.run(&|worker| {
            let own = worker.share(self.vertices);
            for label in own.start as u32..own.end as u32 {
                let neighbours = self.list(lists, label).iter();
                neighbours.for_each(|neighbour| levels.add(label, lists.degree[*neighbour as usize]));
            }
            Ok(())
        })?;
        Ok(levels)
    }

    fn list(&self, lists: &ListIndex, label: u32) -> &[u32] {
        let start = lists.start[label as usize] as usize;
        &self.entries[start..start + lists.degree[label as usize] as usize]
    }
}

/// Working memory of a thread, reused from bucket to bucket.
struct BucketScratch {
    ends: Vec<u32>,
    neighbours: Vec<u32>,
    /// One bit per vertex, all clear between lists. It fits into the private cache of a core up to scale 23.
    seen: Vec<u64>,
}

/// Passes both directions of the edges to `store`, each with its position, which follows the previous one of its
/// bucket.
#[inline(always)]
fn put(edges: impl Iterator<Item = (u32, u32)>, bits: u32, cursors: &mut [usize], store: impl Fn(usize, u32, u32)) {
    let mut one = |from: u32, to: u32| {
        let cursor = &mut cursors[(from >> bits) as usize];
        store(*cursor, from, to);
        *cursor += 1;
    };
    for (a, b) in edges {
        one(a, b);
        one(b, a);
    }
}

/// Gathers the entries of a bucket into lists, each neighbour once and in no particular order, and writes them from the
/// start of the bucket. `unpack` splits an entry into the vertex within the bucket and its neighbour; `found` is called
/// with each vertex (relative to the bucket), the start of its list and its length.
#[inline(always)]
fn gather_bucket<const WORDS: usize>(
    entries: &mut [u32],
    bits: u32,
    unpack: impl Fn(&[u32; WORDS]) -> (u32, u32),
    space: &mut BucketScratch,
    mut found: impl FnMut(usize, usize, usize),
) {
    let BucketScratch { ends, neighbours, seen } = space;
    let (packed, _) = entries.as_chunks::<WORDS>();
    ends.clear();
    ends.resize(1 << bits, 0);
    packed.iter().for_each(|entry| ends[unpack(entry).0 as usize] += 1);
    to_starts(ends);
    neighbours.resize(neighbours.len().max(packed.len()), 0);
    for entry in packed {
        let (vertex, neighbour) = unpack(entry);
        let at = &mut ends[vertex as usize];
        neighbours[*at as usize] = neighbour;
        *at += 1;
    }
    let (mut from, mut written) = (0, 0);
    for (vertex, end) in ends.iter().enumerate() {
        let list = &neighbours[from..*end as usize];
        let start = written;
        for neighbour in list {
            let (word, bit) = (&mut seen[*neighbour as usize / 64], 1 << (neighbour % 64));
            entries[written] = *neighbour;
            written += usize::from(*word & bit == 0);
            *word |= bit;
        }
        list.iter().for_each(|neighbour| seen[*neighbour as usize / 64] = 0);
        found(vertex, start, written - start);
        from = *end as usize;
    }
}

/// The rank of each vertex, and the degree distribution.
pub(crate) struct Ranking {
    pub(crate) ranks: u32,
    pub(crate) neighbours: u64,
    pub(crate) rank: Array<u32>,
    pub(crate) label: Array<u32>,
    pub(crate) steps: DegreeRuns,
    pub(crate) rows: Vec<u32>,
    /// First rank of each chunk, and the end of the last one.
    pub(crate) chunks: Vec<u32>,
}

impl Ranking {
    fn new(
        lists: &ListIndex,
        levels: Option<&NeighbourLevels>,
        placement: &ArrayPlacement,
    ) -> Result<Self, machine::memory::MemoryError> {
        let degrees = &lists.degree;
        let (steps, mut next) = DegreeRuns::of(degrees, levels);
        let mut rank: Array<u32> = placement.array(degrees.len())?;
        let ranks = rank.iter_mut().zip(&degrees[..]).enumerate();
        ranks.for_each(|(vertex, (rank, degree))| *rank = next.rank(vertex, *degree));
        let chunks = chunks(&steps.0);
        Ok(Self { chunks, ..Self::of(rank, steps, placement)? })
    }

    /// Ranks vertices with these degrees.
    pub(crate) fn of(
        rank: Array<u32>,
        steps: DegreeRuns,
        placement: &ArrayPlacement,
    ) -> Result<Self, machine::memory::MemoryError> {
        let ranks = steps.ranks();
        let mut label = placement.array(ranks as usize + ROWS_ALIGNED)?;
        label[ranks as usize..].fill(NO_LABEL);
        for (vertex, own) in rank.iter().enumerate().filter(|(_, own)| **own != NO_LABEL) {
            label[*own as usize] = vertex as u32;
        }
        let neighbours = steps.neighbours();
        Ok(Self { ranks, neighbours, rank, label, steps, rows: Vec::new(), chunks: Vec::new() })
    }
}

/// Divides the ranks into chunks with about the same number of neighbours.
fn chunks(steps: &[(u32, u32)]) -> Vec<u32> {
    let (mut borders, mut full, mut from) = (vec![0], 0, 0);
    for (degree, end) in steps {
        for rank in from..*end {
            full += u64::from(*degree);
            if full >= CHUNK_NEIGHBOURS {
                borders.push(rank + 1);
                full = 0;
            }
        }
        from = *end;
    }
    if borders.last() != Some(&from) {
        borders.push(from);
    }
    borders
}

/// Prefetches the lists of upcoming ranks, which are at random addresses: first the start of the list, later its
/// contents.
#[inline(always)]
fn ask_ahead(buckets: &Buckets, lists: &ListIndex, ranking: &Ranking, rank: u32) {
    let label = |ahead: u32| ranking.label.get((rank + ahead) as usize).map_or(usize::MAX, |label| *label as usize);
    let later = label(AHEAD);
    lists.start.get(later).into_iter().for_each(|start| prefetch(start));
    lists.degree.get(later).into_iter().for_each(|degree| prefetch(degree));
    let soon = lists.start.get(label(AHEAD / 2)).and_then(|start| buckets.entries.get(*start as usize));
    soon.into_iter().for_each(|entry| prefetch(entry));
}

/// Returns a rank's neighbours as ranks, in no particular order.
#[inline(always)]
fn ranked(buckets: &Buckets, lists: &ListIndex, ranking: &Ranking, rank: u32, list: &mut Vec<u32>) {
    list.clear();
    let old = buckets.list(lists, ranking.label[rank as usize]);
    list.extend(old.iter().map(|label| ranking.rank[*label as usize]));
}

/// The head columns, and the tail lists in pieces that are not yet joined.
struct HeadAndTail {
    head: Array<u32>,
    coded: Vec<Vec<u8>>,
    /// By rank: start of its list within its chunk.
    tail_at: Array<u64>,
}

fn write<C: Team>(
    team: &C,
    buckets: &Buckets,
    lists: &ListIndex,
    ranking: &Ranking,
    placement: &ArrayPlacement,
) -> Result<HeadAndTail, C::Error> {
    let columns = ranking.rows.len() - 1;
    let column_at = Layout::columns_at(&ranking.rows[..columns]);
    // Readers take whole vectors from the last row too.
    let mut head: Array<u32> = placement.array(column_at[columns] + ROWS_ALIGNED).map_err(Error::Memory)?;
    let mut tail_at: Array<u64> = placement.array(ranking.rows[columns] as usize + 1).map_err(Error::Memory)?;
    let (heads, tails): (&[AtomicU32], &[AtomicU64]) = (head.as_mut(), tail_at.as_mut());
    let bits = u32::BITS - ranking.ranks.leading_zeros();
    let pieces = Chunks::new(ranking.chunks.len() - 1, 1);
    let coded = collect(team, |_| {
        let (mut own, mut list, mut sorter) = (Vec::new(), Vec::new(), Sorter::default());
        while let Some(piece) = pieces.take() {
            let mut bytes = Vec::with_capacity(CHUNK_NEIGHBOURS as usize * 2);
            for rank in ranking.chunks[piece.start]..ranking.chunks[piece.start + 1] {
                ask_ahead(buckets, lists, ranking, rank);
                ranked(buckets, lists, ranking, rank, &mut list);
                sorter.sort(&mut list, bits);
                for (column, neighbour) in column_at.iter().zip(&list).take(columns) {
                    heads[column + rank as usize].store(*neighbour, Ordering::Relaxed);
                }
                if list.len() > columns {
                    tails[rank as usize].store(bytes.len() as u64, Ordering::Relaxed);
                    coded::encode(&list[columns..], &mut bytes);
                }
            }
            own.push((piece.start, bytes));
        }
        Ok(own)
    })?;
    fill_up(heads, &column_at, ranking);
    let mut coded: Vec<(usize, Vec<u8>)> = coded.into_iter().flatten().collect();
    coded.sort_unstable_by_key(|(chunk, _)| *chunk);
    Ok(HeadAndTail { head, coded: coded.into_iter().map(|(_, bytes)| bytes).collect(), tail_at })
}

/// Fills padding rows with a neighbour that is never in a frontier.
fn fill_up(heads: &[AtomicU32], column_at: &[usize], ranking: &Ranking) {
    for (column, rows) in column_at.windows(2).zip(&ranking.rows) {
        heads[column[0] + *rows as usize..column[1]].iter().for_each(|row| row.store(ranking.ranks, Ordering::Relaxed));
    }
    let end = column_at.last().copied().unwrap_or(0);
    heads[end..].iter().for_each(|row| row.store(ranking.ranks, Ordering::Relaxed));
}

/// Joins the pieces of the tail lists.
fn join<C: Team>(
    team: &C,
    ranking: &Ranking,
    written: HeadAndTail,
    placement: &ArrayPlacement,
) -> Result<JoinedLists, C::Error> {
    let HeadAndTail { head, coded, mut tail_at } = written;
    let rows = ranking.rows[ranking.rows.len() - 1] as usize;
    let mut starts = vec![0];
    starts.extend(coded.iter().scan(0, |end, bytes| {
        *end += bytes.len();
        Some(*end)
    }));
    let total = starts[coded.len()];
    for (chunk, start) in ranking.chunks.windows(2).zip(&starts) {
        tail_at[(chunk[0] as usize).min(rows)..(chunk[1] as usize).min(rows)]
            .iter_mut()
            .for_each(|at| *at += *start as u64);
    }
    tail_at[rows] = total as u64;
    let mut tail: Array<u8> = placement.array(total + PADDING).map_err(Error::Memory)?;
    let mut rest = &mut tail[..];
    let parts: Vec<(&mut [u8], Vec<u8>)> = coded
        .into_iter()
        .map(|bytes| {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            rest = others;
            (own, bytes)
        })
        .collect();
    let next = Mutex::new(parts.into_iter());
    team.run(&|_| {
        let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some((own, bytes)) = take() {
            own.copy_from_slice(&bytes);
        }
        Ok::<(), TeamStopped>(())
    })?;
    drop(next);
    Ok((head, tail, tail_at))
}

/// Head columns, joined tail lists, and the start of each tail list.
type JoinedLists = (Array<u32>, Array<u8>, Array<u64>);

/// The lists of a layout.
pub(crate) struct LayoutLists {
    pub(crate) head: HeadColumns,
    pub(crate) tail: Array<u8>,
    pub(crate) index: Index,
    pub(crate) beginnings: Prefixes,
    pub(crate) first_far: u32,
    pub(crate) long_lists: Vec<(u32, Vec<u64>)>,
}

impl LayoutLists {
    /// Lists whose tail lists are all in DRAM.
    pub(crate) fn near(
        head: Array<u32>,
        tail: Array<u8>,
        tail_at: &[u64],
        placement: &ArrayPlacement,
    ) -> Result<Self, machine::memory::MemoryError> {
        let index = Index::new(tail_at, placement)?;
        let (beginnings, first_far) = (Prefixes::none(placement)?, index.lists() as u32);
        Ok(Self { head: HeadColumns::Four(head), tail, index, beginnings, first_far, long_lists: Vec::new() })
    }
}

/// Assembles the layout and derives its remaining fields.
pub(crate) fn finish(
    spec: &Spec,
    ranking: Ranking,
    listed: LayoutLists,
    placement: &ArrayPlacement,
) -> Result<Layout, machine::memory::MemoryError> {
    let classes =
        LabelBlocks::new(|rank| ranking.steps.degree(rank), &ranking.label, ranking.ranks, spec.vertices(), placement)?;
    let mean_degree = mean_degrees(&ranking, placement)?;
    let Ranking { ranks, neighbours, rank, label, rows, .. } = ranking;
    let LayoutLists { head, tail, index, beginnings, first_far, long_lists } = listed;
    let column_at = Layout::columns_at(&rows[..rows.len() - 1]);
    Ok(Layout {
        spec: *spec,
        ranks,
        neighbours,
        rows,
        column_at,
        head,
        tail,
        first_far,
        index,
        beginnings,
        long_lists,
        label,
        rank,
        mean_degree,
        classes,
    })
}

fn mean_degrees(ranking: &Ranking, placement: &ArrayPlacement) -> Result<Array<f32>, machine::memory::MemoryError> {
    let mut means: Array<f32> = placement.array((ranking.ranks as usize).div_ceil(64) + 1)?;
    let mut from = 0;
    for (degree, end) in &ranking.steps.0 {
        for rank in from..*end {
            means[rank as usize / 64] += *degree as f32;
        }
        from = *end;
    }
    for (group, mean) in means.iter_mut().enumerate() {
        *mean /= (ranking.ranks as usize).saturating_sub(group * 64).clamp(1, 64) as f32;
    }
    Ok(means)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kronecker::Generator;
    use crate::team::PlainTeam;

    fn built(tuples: &Tuples, threads: usize, columns: u32) -> Layout {
        build(&PlainTeam(threads), tuples, columns, &ArrayPlacement::kernel_default()).unwrap()
    }

    /// Returns the adjacency sets of the edges, without self-loops and duplicates.
    fn plain(edges: &[[u64; 2]]) -> Vec<BTreeSet<u64>> {
        let most = edges.iter().flatten().max().unwrap();
        let mut lists = vec![BTreeSet::new(); *most as usize + 1];
        for [a, b] in edges.iter().filter(|[a, b]| a != b) {
            lists[*a as usize].insert(*b);
            lists[*b as usize].insert(*a);
        }
        lists
    }

    fn check(layout: &Layout, lists: &[BTreeSet<u64>]) {
        let connected: Vec<usize> = (0..lists.len()).filter(|label| !lists[*label].is_empty()).collect();
        assert_eq!(layout.vertices(), connected.len() as u64);
        assert_eq!(layout.edges() * 2, lists.iter().map(|list| list.len() as u64).sum::<u64>());
        for label in connected {
            let rank = layout.rank_of(label as u64).unwrap();
            assert_eq!(layout.label[rank as usize] as usize, label);
            let found: BTreeSet<u64> =
                layout.list(rank).unwrap().iter().map(|rank| u64::from(layout.label[*rank as usize])).collect();
            assert_eq!(found, lists[label], "{label}");
        }
        let degrees: Vec<usize> = (0..layout.ranks).map(|rank| layout.list(rank).unwrap().len()).collect();
        assert!(degrees.windows(2).all(|pair| pair[0] >= pair[1]), "degrees are in descending order");
        let is_tie = |rank: &usize| degrees[*rank] == degrees[*rank + 1];
        assert!((0..degrees.len() - 1).filter(is_tie).all(|rank| layout.label[rank] < layout.label[rank + 1]));
    }

    #[test]
    fn built_graphs_equal_their_edge_lists() {
        for (scale, threads, columns) in [(4, 1, 1), (8, 2, 4), (10, 3, 16), (12, 2, 10), (13, 5, 64)] {
            let spec = Spec::graph500(scale);
            let mut edges = vec![[0; 2]; spec.edges() as usize];
            Generator::new(&spec).unwrap().fill(0, &mut edges);
            let tuples = Tuples::generate(&PlainTeam(threads), &spec, &ArrayPlacement::kernel_default()).unwrap();
            check(&built(&tuples, threads, columns), &plain(&edges));
        }
    }

    #[test]
    fn entries_of_large_scales_take_two_numbers() {
        // From scale 23 on, an entry takes two numbers. A few edges, one of them three times, between the first and the
        // last vertices.
        let last = (1 << 23) - 1;
        let edges = [(0, last), (last, 0), (0, last), (5, last - 7), (last, last), (1 << 22, last), (5, 0)];
        let tuples = Tuples::of(23, &edges);
        assert!(!Buckets::deal(&PlainTeam(2), &tuples, &ArrayPlacement::kernel_default()).unwrap().narrow);
        let plain = plain(&edges.map(|(a, b)| [u64::from(a), u64::from(b)]));
        check(&built(&tuples, 2, 2), &plain);
    }

    #[test]
    fn counts_equal_those_of_the_golden_graphs() {
        // The numbers of isolated vertices are those in the table of the specification. With 1 column, the tail lists
        // hold all neighbours but one.
        for (scale, isolated) in [(8, 15), (10, 125), (14, 3834), (16, 18_721)] {
            let spec = Spec::graph500(scale);
            let tuples = Tuples::generate(&PlainTeam(2), &spec, &ArrayPlacement::kernel_default()).unwrap();
            let layout = built(&tuples, 2, 1);
            assert_eq!(spec.vertices() - layout.vertices(), isolated, "scale {scale}");
            assert_eq!(layout.head_neighbours(), layout.vertices());
        }
    }

    #[test]
    fn edgeless_graphs_and_invalid_columns_return_errors() {
        let loops = Tuples::of(3, &[(1, 1), (5, 5)]);
        let refused =
            |tuples, columns| build(&PlainTeam(2), tuples, columns, &ArrayPlacement::kernel_default()).err().unwrap();
        assert_eq!(refused(&loops, 4), Error::NoEdges);
        assert!(refused(&loops, 0).to_string().contains("k = 0"));
        assert!(refused(&loops, 65).to_string().contains("1 to 64"));
    }

    #[test]
    fn chunks_cover_all_ranks() {
        let steps = [(100_000, 1), (300, 700), (2, 100_000), (1, 100_001)];
        let borders = chunks(&steps);
        assert_eq!((borders[0], borders[1], borders.last()), (0, 1, Some(&100_001)));
        assert!(borders.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
