//! The loops of the search, written once over sixteen ranks at a time and compiled for each kind of instructions.
//!
//! Unsafe for the vectors, and because threads write to shared arrays: in a bottom-up level each chunk of vertices belongs to the
//! thread that took it, in a top-down level bits are claimed atomically. Ranks in the layout are below its number of ranks
//! (construction makes them so, reading a file checks it), and every map and array has room for all of them and the one after.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::coded;
use crate::lanes::plain::Plain;
use crate::lanes::{Isa, Lanes, WIDTH, first};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{avx2::Avx2, avx512::Avx512};
use crate::layout::Layout;

/// Words of the maps that are scanned at a time: 4096 vertices, whose survivors stay in the first cache.
pub(crate) const CHUNK_WORDS: usize = 64;

/// What a level works on.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'s> {
    pub(crate) layout: &'s Layout,
    /// A bit for each rank, set for those behind the last.
    pub(crate) visited: &'s [AtomicU64],
    pub(crate) frontier: &'s [AtomicU64],
    pub(crate) next: &'s [AtomicU64],
    /// By rank, the rank of its parent.
    pub(crate) parent: &'s [AtomicU32],
}

/// What a thread has found in a level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) count: u64,
    /// The sum of their degrees, of which the mean of 64 neighbouring ranks stands for each.
    pub(crate) degrees: f64,
}

/// Working space of [`scan`].
pub(crate) type Survivors = [u32; CHUNK_WORDS * 64 + WIDTH];

/// Looks for a neighbour in the frontier for every unvisited rank of these words.
pub(crate) fn scan(isa: Isa, ground: &Ground<'_>, words: Range<usize>, survivors: &mut Survivors) -> Found {
    assert!(words.len() <= CHUNK_WORDS && words.end <= ground.visited.len());
    // SAFETY: `Isa` values come from `Isa::is_here` (see `Search::new`); the rest as the head of this file says.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => scan_avx512(ground, words, survivors),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => scan_avx2(ground, words, survivors),
            _ => scan_with::<Plain>(ground, words, survivors),
        }
    }
}

/// Visits all unvisited neighbours of these ranks, alone; their ranks go to `found`. Gives how many.
pub(crate) fn expand_alone(isa: Isa, ground: &Ground<'_>, list: &[AtomicU32], found: &[AtomicU32]) -> usize {
    // SAFETY: as in `scan`.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => expand_alone_avx512(ground, list, found),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => expand_alone_avx2(ground, list, found),
            _ => expand_alone_with::<Plain>(ground, list, found),
        }
    }
}

/// Claims all unvisited neighbours of these ranks in the next frontier, while other threads do so for others.
pub(crate) fn expand(isa: Isa, ground: &Ground<'_>, list: &[AtomicU32]) -> Found {
    // SAFETY: as in `scan`.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => expand_avx512(ground, list),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => expand_avx2(ground, list),
            _ => expand_with::<Plain>(ground, list),
        }
    }
}

/// The loops, compiled with these instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($features:literal, $lanes:ty, $scan:ident, $alone:ident, $expand:ident) => {
        #[target_feature(enable = $features)]
        unsafe fn $scan(ground: &Ground<'_>, words: Range<usize>, survivors: &mut Survivors) -> Found {
            // SAFETY: as for the caller.
            unsafe { scan_with::<$lanes>(ground, words, survivors) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $alone(ground: &Ground<'_>, list: &[AtomicU32], found: &[AtomicU32]) -> usize {
            // SAFETY: as for the caller.
            unsafe { expand_alone_with::<$lanes>(ground, list, found) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $expand(ground: &Ground<'_>, list: &[AtomicU32]) -> Found {
            // SAFETY: as for the caller.
            unsafe { expand_with::<$lanes>(ground, list) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(
    "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt",
    Avx512,
    scan_avx512,
    expand_alone_avx512,
    expand_avx512
);
#[cfg(target_arch = "x86_64")]
compiled!("avx2,bmi1,bmi2,popcnt,lzcnt", Avx2, scan_avx2, expand_alone_avx2, expand_avx2);

impl Ground<'_> {
    fn column(&self, column: usize) -> *const u32 {
        self.layout.head[self.layout.column_at[column]..].as_ptr()
    }

    fn frontier_map(&self) -> *const u32 {
        self.frontier.as_ptr().cast()
    }

    /// Marks a rank of this thread's chunk as found.
    #[inline(always)]
    unsafe fn mark(&self, rank: u32, found: &mut Found) {
        let (word, bit) = (rank as usize / 64, 1 << (rank % 64));
        // SAFETY: every rank has its bit and a mean degree.
        let (next, visited, degree) = unsafe {
            (
                self.next.get_unchecked(word),
                self.visited.get_unchecked(word),
                self.layout.mean_degree.get_unchecked(word),
            )
        };
        next.store(next.load(Relaxed) | bit, Relaxed);
        visited.store(visited.load(Relaxed) | bit, Relaxed);
        found.count += 1;
        found.degrees += f64::from(*degree);
    }
}

#[inline(always)]
unsafe fn scan_with<L: Lanes>(ground: &Ground<'_>, words: Range<usize>, survivors: &mut Survivors) -> Found {
    let mut found = Found::default();
    // SAFETY: as for the caller.
    let mut left = unsafe { first_column::<L>(ground, words, survivors, &mut found) };
    let rows = &ground.layout.rows;
    for (column, rows) in rows[..rows.len() - 1].iter().enumerate().skip(1) {
        // Survivors ascend, and rows of a column are a prefix of the ranks.
        while left > 0 && survivors[left - 1] >= *rows {
            left -= 1;
        }
        if left == 0 {
            return found;
        }
        // SAFETY: as for the caller; the survivors left have a row in this column.
        left = unsafe { next_column::<L>(ground, column, survivors, left, &mut found) };
    }
    let tails = rows[rows.len() - 1];
    let left = survivors[..left].partition_point(|rank| *rank < tails);
    // SAFETY: as for the caller; these ranks have a list in TAIL.
    unsafe { search_tails::<L>(ground, &survivors[..left], &mut found) };
    found
}

/// Reads the first column in place; ranks that found no parent, and have more neighbours, become a dense ascending list.
#[inline(always)]
unsafe fn first_column<L: Lanes>(
    ground: &Ground<'_>,
    words: Range<usize>,
    survivors: &mut Survivors,
    found: &mut Found,
) -> usize {
    let (column, map, parent) =
        (ground.column(0), ground.frontier_map(), ground.parent.as_ptr().cast_mut().cast::<u32>());
    let more = ground.layout.rows[1];
    let mut left = 0;
    for word in words {
        let unvisited = !ground.visited[word].load(Relaxed);
        let mut hits = 0;
        if unvisited != 0 {
            for quarter in 0..4 {
                let mask = (unvisited >> (16 * quarter)) as u32 & 0xFFFF;
                if mask == 0 {
                    continue;
                }
                let rank = (word * 64 + quarter * 16) as u32;
                // SAFETY: unvisited ranks have a row in the first column, which is filled up to whole words; parents of this
                // chunk are this thread's; at most 64 survivors come of a word.
                unsafe {
                    let neighbours = L::load(column.add(rank as usize));
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
            let count = hits.count_ones();
            found.count += u64::from(count);
            found.degrees += f64::from(count) * f64::from(ground.layout.mean_degree[word]);
        }
        ground.next[word].store(hits, Relaxed);
    }
    left
}

/// Looks at one more neighbour of each survivor, and keeps those without a parent.
#[inline(always)]
unsafe fn next_column<L: Lanes>(
    ground: &Ground<'_>,
    column: usize,
    survivors: &mut Survivors,
    count: usize,
    found: &mut Found,
) -> usize {
    let (column, map) = (ground.column(column), ground.frontier_map());
    let mut left = 0;
    for at in (0..count).step_by(WIDTH) {
        let mask = first(count - at);
        // SAFETY: the survivors of the mask have a row; what is written lies before what is read next.
        unsafe {
            let ranks = L::load(survivors.as_ptr().add(at));
            let neighbours = L::gather(column, ranks, mask);
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

/// Looks for a parent in the rest of these ranks' lists.
#[inline(always)]
unsafe fn search_tails<L: Lanes>(ground: &Ground<'_>, ranks: &[u32], found: &mut Found) {
    for rank in ranks {
        prefetch(std::ptr::from_ref(&ground.layout.tail[ground.layout.tail_at[*rank as usize] as usize]));
    }
    for rank in ranks {
        let mut parent = None;
        // SAFETY: as for the caller.
        unsafe {
            each_of_tail::<L>(ground.layout, *rank, |neighbours, mask| {
                let hit = L::bits(ground.frontier_map(), neighbours, mask);
                if hit != 0 {
                    parent = Some(L::spill(neighbours)[hit.trailing_zeros() as usize]);
                }
                hit == 0
            });
        }
        if let Some(parent) = parent {
            ground.parent[*rank as usize].store(parent, Relaxed);
            // SAFETY: as for the caller.
            unsafe { ground.mark(*rank, found) };
        }
    }
}

/// Calls with up to sixteen neighbours of a rank's list in TAIL at a time, while it wants more.
#[inline(always)]
unsafe fn each_of_tail<L: Lanes>(layout: &Layout, rank: u32, mut more: impl FnMut(L::Vector, u32) -> bool) {
    let (from, to) = (layout.tail_at[rank as usize] as usize, layout.tail_at[rank as usize + 1] as usize);
    debug_assert!(from <= to && to + coded::PADDING <= layout.tail.len());
    let mut at = layout.tail.as_ptr().wrapping_add(from);
    let end = layout.tail.as_ptr().wrapping_add(to);
    while at < end {
        // SAFETY: lists lie in TAIL as they were coded, with so many bytes behind the last as vectors may read.
        unsafe {
            let (mut left, taken) = coded::count([*at, *at.add(1), *at.add(2)]);
            let mut codes = at.add(taken);
            let mut data = codes.add(left.div_ceil(4));
            let mut before = L::zero();
            while left > 0 {
                let count = left.min(WIDTH);
                let (neighbours, bytes) = L::decode(codes.cast::<u32>().read_unaligned(), data, count, before);
                if !more(neighbours, first(count)) {
                    return;
                }
                before = neighbours;
                codes = codes.add(4);
                data = data.add(bytes);
                left -= count;
            }
            at = data;
        }
    }
}

/// Calls with all neighbours of a rank that are not visited when it is looked.
#[inline(always)]
unsafe fn each_unvisited<L: Lanes>(ground: &Ground<'_>, rank: u32, mut with: impl FnMut(u32)) {
    let layout = ground.layout;
    let columns = layout.rows.len() - 1;
    for column in 0..columns {
        if rank >= layout.rows[column] {
            return;
        }
        let neighbour = layout.head[layout.column_at[column] + rank as usize];
        if ground.visited[neighbour as usize / 64].load(Relaxed) >> (neighbour % 64) & 1 == 0 {
            with(neighbour);
        }
    }
    if rank >= layout.rows[columns] {
        return;
    }
    // SAFETY: as for the caller; this rank has a list in TAIL.
    unsafe {
        each_of_tail::<L>(layout, rank, |neighbours, mask| {
            let mut rest = mask & !L::bits(ground.visited.as_ptr().cast(), neighbours, mask);
            if rest != 0 {
                let neighbours = L::spill(neighbours);
                while rest != 0 {
                    with(neighbours[rest.trailing_zeros() as usize]);
                    rest &= rest - 1;
                }
            }
            true
        });
    }
}

#[inline(always)]
unsafe fn expand_alone_with<L: Lanes>(ground: &Ground<'_>, list: &[AtomicU32], found: &[AtomicU32]) -> usize {
    let mut count = 0;
    for rank in list {
        let rank = rank.load(Relaxed);
        // SAFETY: as for the caller.
        unsafe {
            each_unvisited::<L>(ground, rank, |neighbour| {
                let word = &ground.visited[neighbour as usize / 64];
                word.store(word.load(Relaxed) | 1 << (neighbour % 64), Relaxed);
                ground.parent[neighbour as usize].store(rank, Relaxed);
                found[count].store(neighbour, Relaxed);
                count += 1;
            });
        }
    }
    count
}

#[inline(always)]
unsafe fn expand_with<L: Lanes>(ground: &Ground<'_>, list: &[AtomicU32]) -> Found {
    let mut found = Found::default();
    for rank in list {
        let rank = rank.load(Relaxed);
        // SAFETY: as for the caller. Nobody writes to `visited` in such a level.
        unsafe {
            each_unvisited::<L>(ground, rank, |neighbour| {
                let (word, bit) = (neighbour as usize / 64, 1 << (neighbour % 64));
                if ground.next[word].load(Relaxed) & bit == 0 && ground.next[word].fetch_or(bit, Relaxed) & bit == 0 {
                    ground.parent[neighbour as usize].store(rank, Relaxed);
                    found.count += 1;
                    found.degrees += f64::from(ground.layout.mean_degree[word]);
                }
            });
        }
    }
    found
}

/// Asks for a line that will be wanted soon.
#[inline(always)]
fn prefetch(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64; a prefetch changes nothing but caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(byte.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
