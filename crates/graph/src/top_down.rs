//! Top-down steps: visit all unvisited neighbours of the frontier's ranks, with one or several threads. For the safety
//! conditions see `level`.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::lanes::{Isa, Lanes};
use crate::level::{CorruptList, LaneKernel, LevelCount, LevelState, each, each_checked, with};
use crate::tail_io::ReadChunk;

pub(crate) enum Visitor<'v> {
    /// One thread, which appends the found ranks to a list, and their number.
    Alone(&'v [AtomicU32], &'v mut usize),
    OneOfMany(&'v mut LevelCount),
}

/// Visits all unvisited neighbours of these ranks that are in DRAM.
pub(crate) fn expand(isa: Isa, ground: &LevelState<'_>, list: &[AtomicU32], visitor: &mut Visitor<'_>) {
    match visitor {
        Visitor::Alone(found, count) => {
            **count = with(isa, Expand { ground, list, visit: SingleVisitor { found, count: **count } });
        }
        Visitor::OneOfMany(found) => **found = with(isa, Expand { ground, list, visit: SharedVisitor(**found) }),
    }
}

/// Visits all unvisited neighbours in lists read from a disk.
pub(crate) fn push(
    isa: Isa,
    ground: &LevelState<'_>,
    given: &ReadChunk<'_>,
    visitor: &mut Visitor<'_>,
) -> Result<(), CorruptList> {
    match visitor {
        Visitor::Alone(found, count) => {
            **count = with(isa, Push { ground, given, visit: SingleVisitor { found, count: **count } })?;
        }
        Visitor::OneOfMany(found) => **found = with(isa, Push { ground, given, visit: SharedVisitor(**found) })?,
    }
    Ok(())
}

/// Visits neighbours of the previous frontier in lists whose reads completed late. They belong to the current frontier:
/// ranks that were not found yet, and ranks that were added to the next frontier in the meantime. All threads run this,
/// and no other work, concurrently.
pub(crate) fn join(
    isa: Isa,
    ground: &LevelState<'_>,
    given: &ReadChunk<'_>,
    found: &mut LevelCount,
) -> Result<(), CorruptList> {
    *found = with(isa, Push { ground, given, visit: LateVisitor(*found) })?;
    Ok(())
}

/// Action for a neighbour that was unvisited when it was checked.
trait Visit {
    type Out;
    /// Returns the lanes to visit. The bits may be outdated if other threads set some: `visit` decides.
    ///
    /// # Safety
    /// See `level`; every rank has its bit.
    unsafe fn which<L: Lanes>(ground: &LevelState<'_>, neighbours: L::Vector, mask: u32) -> u32;
    fn visit(&mut self, ground: &LevelState<'_>, rank: u32, neighbour: u32);
    fn out(self) -> Self::Out;
}

struct SingleVisitor<'f> {
    found: &'f [AtomicU32],
    count: usize,
}

impl Visit for SingleVisitor<'_> {
    type Out = usize;

    #[inline(always)]
    unsafe fn which<L: Lanes>(ground: &LevelState<'_>, neighbours: L::Vector, mask: u32) -> u32 {
        // SAFETY: as for the caller, and no other thread sets bits in a single-threaded level.
        mask & !unsafe { L::bits(ground.visited_map(), neighbours, mask) }
    }

    #[inline(always)]
    fn visit(&mut self, ground: &LevelState<'_>, rank: u32, neighbour: u32) {
        let word = &ground.visited[neighbour as usize / 64];
        word.store(word.load(Relaxed) | 1 << (neighbour % 64), Relaxed);
        ground.parent[neighbour as usize].store(rank, Relaxed);
        self.found[self.count].store(neighbour, Relaxed);
        self.count += 1;
    }

    fn out(self) -> usize {
        self.count
    }
}

struct SharedVisitor(LevelCount);

impl Visit for SharedVisitor {
    type Out = LevelCount;

    /// Vertices that are in the next frontier count as unvisited.
    #[inline(always)]
    unsafe fn which<L: Lanes>(ground: &LevelState<'_>, neighbours: L::Vector, mask: u32) -> u32 {
        // SAFETY: as for the caller.
        mask & !unsafe { L::shared_bits(ground.next, neighbours, mask) }
    }

    /// Claims the vertex in the next frontier.
    #[inline(always)]
    fn visit(&mut self, ground: &LevelState<'_>, rank: u32, neighbour: u32) {
        let (word, bit) = (neighbour as usize / 64, 1 << (neighbour % 64));
        if ground.next[word].load(Relaxed) & bit == 0 && ground.next[word].fetch_or(bit, Relaxed) & bit == 0 {
            ground.parent[neighbour as usize].store(rank, Relaxed);
            self.0.count += 1;
            self.0.degrees += f64::from(ground.layout.mean_degree[word]);
        }
    }

    fn out(self) -> LevelCount {
        self.0
    }
}

struct LateVisitor(LevelCount);

impl Visit for LateVisitor {
    type Out = LevelCount;

    #[inline(always)]
    unsafe fn which<L: Lanes>(ground: &LevelState<'_>, neighbours: L::Vector, mask: u32) -> u32 {
        // SAFETY: as for the caller.
        unsafe {
            let visited = L::shared_bits(ground.visited, neighbours, mask);
            mask & !visited | L::shared_bits(ground.next, neighbours, mask)
        }
    }

    /// Several threads may reach the same vertex concurrently; any of their ranks is a valid parent.
    #[inline(always)]
    fn visit(&mut self, ground: &LevelState<'_>, rank: u32, neighbour: u32) {
        let (word, bit) = (neighbour as usize / 64, 1 << (neighbour % 64));
        let is_new = ground.visited[word].fetch_or(bit, Relaxed) & bit == 0;
        if is_new || ground.next[word].load(Relaxed) & bit != 0 {
            ground.next[word].fetch_and(!bit, Relaxed);
            ground.frontier[word].fetch_or(bit, Relaxed);
            ground.parent[neighbour as usize].store(rank, Relaxed);
        }
        if is_new {
            self.0.count += 1;
            self.0.degrees += f64::from(ground.layout.mean_degree[word]);
        }
    }

    fn out(self) -> LevelCount {
        self.0
    }
}

struct Expand<'s, 'g, V> {
    ground: &'s LevelState<'g>,
    list: &'s [AtomicU32],
    visit: V,
}

impl<V: Visit> LaneKernel for Expand<'_, '_, V> {
    type Out = V::Out;

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) -> V::Out {
        for rank in self.list {
            let rank = rank.load(Relaxed);
            // SAFETY: as for the caller.
            unsafe { each_unvisited::<L, V>(self.ground, rank, &mut self.visit) };
        }
        self.visit.out()
    }
}

struct Push<'s, 'g, V> {
    ground: &'s LevelState<'g>,
    given: &'s ReadChunk<'s>,
    visit: V,
}

impl<V: Visit> LaneKernel for Push<'_, '_, V> {
    type Out = Result<V::Out, CorruptList>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) -> Self::Out {
        let (ground, ranks) = (self.ground, self.ground.layout.ranks);
        for rank in self.given.ranks {
            let list = self.given.list(ground.layout, *rank);
            // SAFETY: as for the caller.
            let read = unsafe {
                each_checked::<L>(list, ranks, |neighbours, mask| {
                    unvisited::<L, V>(ground, *rank, neighbours, mask, &mut self.visit);
                    true
                })
            };
            read.ok_or(CorruptList { rank: *rank })?;
        }
        Ok(self.visit.out())
    }
}

/// Visits all neighbours of a rank in DRAM that are unvisited when they are checked.
#[inline(always)]
unsafe fn each_unvisited<L: Lanes, V: Visit>(ground: &LevelState<'_>, rank: u32, visit: &mut V) {
    let layout = ground.layout;
    let columns = layout.rows.len() - 1;
    for column in 0..columns {
        if rank >= layout.rows[column] {
            return;
        }
        let neighbour = layout.head.at(layout.column_at[column] + rank as usize);
        if ground.visited[neighbour as usize / 64].load(Relaxed) >> (neighbour % 64) & 1 == 0 {
            visit.visit(ground, rank, neighbour);
        }
    }
    if rank >= layout.rows[columns] {
        return;
    }
    let list =
        if rank < layout.first_far { ground.list(rank) } else { layout.beginnings.of_rank(rank).unwrap_or_default() };
    // SAFETY: as for the caller.
    unsafe {
        each::<L>(list, |neighbours, mask| {
            unvisited::<L, V>(ground, rank, neighbours, mask, visit);
            true
        });
    }
}

/// Visits the unvisited ones of sixteen neighbours.
#[inline(always)]
unsafe fn unvisited<L: Lanes, V: Visit>(
    ground: &LevelState<'_>,
    rank: u32,
    neighbours: L::Vector,
    mask: u32,
    visit: &mut V,
) {
    // SAFETY: as for the caller; every rank has its bit.
    unsafe {
        let mut rest = V::which::<L>(ground, neighbours, mask);
        if rest != 0 {
            let neighbours = L::spill(neighbours);
            while rest != 0 {
                visit.visit(ground, rank, neighbours[rest.trailing_zeros() as usize]);
                rest &= rest - 1;
            }
        }
    }
}
