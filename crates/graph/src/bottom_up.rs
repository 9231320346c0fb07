//! Bottom-up steps: search a parent in the frontier for each unvisited rank, first in the head columns, then in the
//! tail lists. For the safety conditions see `level`.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::coded::{self, PaddedList};
use crate::head::HeadColumns;
use crate::lanes::{Isa, Lanes, WIDTH, first, prefetch};
use crate::level::{
    CorruptList, HeadWidth, LaneKernel, LevelCount, LevelState, U24Heads, U32Heads, each, each_checked, with,
};
use crate::tail_io::ReadChunk;

/// Words of the bit maps in one chunk: 4096 vertices, whose unmatched ranks fit into the L1 cache.
pub(crate) const CHUNK_WORDS: usize = 64;

/// Working memory of [`scan`].
pub(crate) type Unmatched = [u32; CHUNK_WORDS * 64 + WIDTH];

/// Searches a neighbour in the frontier for each unvisited rank of these words, in the data in DRAM. Returns the counts
/// and the number of ranks, stored first in `survivors`, whose lists outside DRAM must still be searched. Ranks that
/// are already in the next frontier stay there if `keep` is set.
pub(crate) fn scan(
    isa: Isa,
    ground: &LevelState<'_>,
    words: Range<usize>,
    survivors: &mut Unmatched,
    keep: bool,
) -> (LevelCount, usize) {
    assert!(words.len() <= CHUNK_WORDS && words.end <= ground.visited.len());
    if !keep {
        ground.next[words.clone()].iter().for_each(|word| word.store(0, Relaxed));
    }
    with(isa, Scan { ground, words, survivors })
}

/// Searches a neighbour in the frontier in lists read from a disk. Ranks that already have a parent are skipped.
pub(crate) fn pull(
    isa: Isa,
    ground: &LevelState<'_>,
    given: &ReadChunk<'_>,
    found: &mut LevelCount,
) -> Result<(), CorruptList> {
    with(isa, Pull { ground, given, found })
}

struct Scan<'s, 'g> {
    ground: &'s LevelState<'g>,
    words: Range<usize>,
    survivors: &'s mut Unmatched,
}

impl LaneKernel for Scan<'_, '_> {
    type Out = (LevelCount, usize);

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Out {
        // SAFETY: as for the caller; the entries have the width of the head columns.
        unsafe {
            match self.ground.layout.head {
                HeadColumns::Four(_) => scan_with::<L, U32Heads>(self.ground, self.words, self.survivors),
                HeadColumns::Three(_) => scan_with::<L, U24Heads>(self.ground, self.words, self.survivors),
            }
        }
    }
}

#[inline(always)]
unsafe fn scan_with<L: Lanes, E: HeadWidth>(
    ground: &LevelState<'_>,
    words: Range<usize>,
    survivors: &mut Unmatched,
) -> (LevelCount, usize) {
    let mut found = LevelCount::default();
    // SAFETY: as for the caller.
    let mut left = unsafe { first_column::<L, E>(ground, words, survivors, &mut found) };
    let rows = &ground.layout.rows;
    for (column, rows) in rows[..rows.len() - 1].iter().enumerate().skip(1) {
        // Unmatched ranks ascend, and the rows of a column are a prefix of the ranks.
        while left > 0 && survivors[left - 1] >= *rows {
            left -= 1;
        }
        if left == 0 {
            return (found, 0);
        }
        // SAFETY: as for the caller; the remaining unmatched ranks have a row in this column.
        left = unsafe { next_column::<L, E>(ground, column, survivors, left, &mut found) };
    }
    let tails = rows[rows.len() - 1];
    let left = survivors[..left].partition_point(|rank| *rank < tails);
    let near = survivors[..left].partition_point(|rank| *rank < ground.layout.first_far);
    // SAFETY: as for the caller; these ranks have a tail list.
    unsafe { search_tails::<L>(ground, &survivors[..near], &mut found) };
    // SAFETY: as for the caller; the lists of these ranks are outside DRAM.
    let far = unsafe { search_beginnings::<L>(ground, survivors, near..left, &mut found) };
    (found, far)
}

/// Reads the first column in place. Ranks without a parent that have more neighbours are written to a dense ascending
/// list.
#[inline(always)]
unsafe fn first_column<L: Lanes, E: HeadWidth>(
    ground: &LevelState<'_>,
    words: Range<usize>,
    survivors: &mut Unmatched,
    found: &mut LevelCount,
) -> usize {
    let (column, map, parent) =
        (ground.column::<E>(0), ground.frontier_map(), ground.parent.as_ptr().cast_mut().cast::<u32>());
    let more = ground.layout.rows[1];
    let mut left = 0;
    for word in words {
        let unvisited = !ground.visited[word].load(Relaxed);
        if unvisited != 0 {
            let mut hits = 0;
            for quarter in 0..4 {
                let mask = (unvisited >> (16 * quarter)) as u32 & 0xFFFF;
                if mask == 0 {
                    continue;
                }
                let rank = (word * 64 + quarter * 16) as u32;
                // SAFETY: unvisited ranks have a row in the first column, which is padded to whole words; the parents
                // of this chunk belong to this thread; each word yields at most 64 unmatched ranks.
                unsafe {
                    let neighbours = E::load::<L>(column, rank as usize);
                    let hit = L::bits(map, neighbours, mask);
                    L::store(parent.add(rank as usize), neighbours, hit);
                    hits |= u64::from(hit) << (16 * quarter);
                    let rest = mask & !hit;
                    if rest != 0 && rank < more {
                        L::compress(survivors.as_mut_ptr().add(left), L::from(rank), rest);
                        left += rest.count_ones() as usize;
                    }
                }
            }
            ground.visited[word].store(!unvisited | hits, Relaxed);
            ground.next[word].store(ground.next[word].load(Relaxed) | hits, Relaxed);
            let count = hits.count_ones();
            found.count += u64::from(count);
            found.degrees += f64::from(count) * f64::from(ground.layout.mean_degree[word]);
        }
    }
    left
}

/// Reads one more neighbour of each unmatched rank, and keeps the ranks without a parent.
#[inline(always)]
unsafe fn next_column<L: Lanes, E: HeadWidth>(
    ground: &LevelState<'_>,
    column: usize,
    survivors: &mut Unmatched,
    count: usize,
    found: &mut LevelCount,
) -> usize {
    let (column, map) = (ground.column::<E>(column), ground.frontier_map());
    let mut left = 0;
    for at in (0..count).step_by(WIDTH) {
        let mask = first(count - at);
        // SAFETY: the ranks of the mask have a row; writes are always before the next read position.
        unsafe {
            let ranks = L::load(survivors.as_ptr().add(at));
            let neighbours = E::gather::<L>(column, ranks, mask);
            let mut hit = L::bits(map, neighbours, mask);
            let rest = mask & !hit;
            if hit != 0 {
                let (ranks, neighbours) = (L::spill(ranks), L::spill(neighbours));
                while hit != 0 {
                    let lane = hit.trailing_zeros() as usize;
                    hit &= hit - 1;
                    ground.parent.get_unchecked(ranks[lane] as usize).store(neighbours[lane], Relaxed);
                    ground.mark(ranks[lane], found);
                }
            }
            L::compress(survivors.as_mut_ptr().add(left), ranks, rest);
            left += rest.count_ones() as usize;
        }
    }
    left
}

/// Searches a parent in the rest of these ranks' lists, which are in DRAM.
#[inline(always)]
unsafe fn search_tails<L: Lanes>(ground: &LevelState<'_>, ranks: &[u32], found: &mut LevelCount) {
    for rank in ranks {
        prefetch(ground.list(*rank).as_ptr());
    }
    for rank in ranks {
        // SAFETY: as for the caller.
        unsafe { search_list::<L>(ground, *rank, ground.list(*rank), found) };
    }
}

/// Searches a parent in the prefixes of these ranks' lists. Ranks that have no parent there and more neighbours outside
/// DRAM are moved to the start of the buffer. Returns their number.
#[inline(always)]
unsafe fn search_beginnings<L: Lanes>(
    ground: &LevelState<'_>,
    survivors: &mut Unmatched,
    of: Range<usize>,
    found: &mut LevelCount,
) -> usize {
    let beginnings = &ground.layout.beginnings;
    let lists = ground.layout.index.lists() as u32;
    for rank in &survivors[of.clone()] {
        beginnings.of_rank(*rank).map(PaddedList::as_ptr).into_iter().for_each(prefetch);
    }
    let mut left = 0;
    for at in of {
        let rank = survivors[at];
        let begins = beginnings.of_rank(rank).unwrap_or_default();
        // SAFETY: as for the caller.
        let is_found = unsafe { search_list::<L>(ground, rank, begins, found) };
        survivors[left] = rank;
        left += usize::from(!is_found && rank < lists);
    }
    left
}

/// Searches a parent of a rank in this list. Returns true if there is one.
#[inline(always)]
unsafe fn search_list<L: Lanes>(
    ground: &LevelState<'_>,
    rank: u32,
    list: PaddedList<'_>,
    found: &mut LevelCount,
) -> bool {
    let mut parent = None;
    // SAFETY: as for the caller.
    unsafe {
        each::<L>(list, |neighbours, mask| in_frontier::<L>(ground, neighbours, mask, &mut parent));
        if let Some(parent) = parent {
            ground.parent[rank as usize].store(parent, Relaxed);
            ground.mark(rank, found);
        }
    }
    parent.is_some()
}

/// Returns true if none of these neighbours is in the frontier; otherwise sets `parent` to the first one that is.
#[inline(always)]
unsafe fn in_frontier<L: Lanes>(
    ground: &LevelState<'_>,
    neighbours: L::Vector,
    mask: u32,
    parent: &mut Option<u32>,
) -> bool {
    // SAFETY: as for the caller; every rank has its bit.
    let hit = unsafe { L::bits(ground.frontier_map(), neighbours, mask) };
    if hit != 0 {
        // SAFETY: as above.
        *parent = Some(unsafe { L::spill(neighbours) }[hit.trailing_zeros() as usize]);
    }
    hit == 0
}

struct Pull<'s, 'g> {
    ground: &'s LevelState<'g>,
    given: &'s ReadChunk<'s>,
    found: &'s mut LevelCount,
}

impl LaneKernel for Pull<'_, '_> {
    type Out = Result<(), CorruptList>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Out {
        let Self { ground, given, found } = self;
        for rank in given.ranks {
            // Another piece of the same list may have matched this rank already.
            if ground.next[*rank as usize / 64].load(Relaxed) >> (rank % 64) & 1 == 1 {
                continue;
            }
            let list = given.list(ground.layout, *rank);
            let mut parent = None;
            // SAFETY: as for the caller.
            let read = unsafe {
                each_checked::<L>(list, ground.layout.ranks, |neighbours, mask| {
                    in_frontier::<L>(ground, neighbours, mask, &mut parent)
                })
            };
            read.ok_or(CorruptList { rank: *rank })?;
            if let Some(parent) = parent {
                ground.parent[*rank as usize].store(parent, Relaxed);
                // SAFETY: as for the caller.
                unsafe { ground.mark(*rank, found) };
            }
        }
        Ok(())
    }
}

/// `decode` reads up to 128 bytes after the end of a list.
const _: () = assert!(coded::PADDING >= 128);
