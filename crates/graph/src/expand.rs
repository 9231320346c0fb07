//! Top-down: visits all unvisited neighbours of the frontier's ranks, alone or with other threads. Unsafe as `ground` says.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::far::Given;
use crate::ground::{Found, Ground, NoList, Work, each, each_checked, with};
use crate::lanes::{Isa, Lanes};

/// Who visits.
pub(crate) enum Visitor<'v> {
    /// One thread, which keeps a list of who was found, and how many they are.
    Alone(&'v [AtomicU32], &'v mut usize),
    /// One of several.
    OneOfMany(&'v mut Found),
}

/// Visits all unvisited neighbours of these ranks that are in DRAM.
pub(crate) fn expand(isa: Isa, ground: &Ground<'_>, list: &[AtomicU32], visitor: &mut Visitor<'_>) {
    match visitor {
        Visitor::Alone(found, count) => {
            **count = with(isa, Expand { ground, list, visit: Alone { found, count: **count } });
        }
        Visitor::OneOfMany(found) => **found = with(isa, Expand { ground, list, visit: OneOfMany(**found) }),
    }
}

/// Visits all unvisited neighbours in lists that a disk gave.
pub(crate) fn push(isa: Isa, ground: &Ground<'_>, given: &Given<'_>, visitor: &mut Visitor<'_>) -> Result<(), NoList> {
    match visitor {
        Visitor::Alone(found, count) => {
            **count = with(isa, Push { ground, given, visit: Alone { found, count: **count } })?;
        }
        Visitor::OneOfMany(found) => **found = with(isa, Push { ground, given, visit: OneOfMany(**found) })?,
    }
    Ok(())
}

/// Visits neighbours of the frontier before in lists that a disk gave only now. They belong to this frontier: those that were not found yet,
/// and those that have been taken for the next one's. All threads do this, and nothing else.
pub(crate) fn join(isa: Isa, ground: &Ground<'_>, given: &Given<'_>, found: &mut Found) -> Result<(), NoList> {
    *found = with(isa, Push { ground, given, visit: Late(*found) })?;
    Ok(())
}

/// What is done with a neighbour that was not visited when it was looked.
trait Visit {
    type Out;
    /// Which of sixteen are to be visited. The bits may be out of date when other threads set some: `visit` decides.
    ///
    /// # Safety
    /// As `ground` says; every rank has its bit.
    unsafe fn which<L: Lanes>(ground: &Ground<'_>, neighbours: L::Vector, mask: u32) -> u32;
    fn visit(&mut self, ground: &Ground<'_>, rank: u32, neighbour: u32);
    fn out(self) -> Self::Out;
}

struct Alone<'f> {
    found: &'f [AtomicU32],
    count: usize,
}

impl Visit for Alone<'_> {
    type Out = usize;

    #[inline(always)]
    unsafe fn which<L: Lanes>(ground: &Ground<'_>, neighbours: L::Vector, mask: u32) -> u32 {
        // SAFETY: as for the caller, and no other thread sets bits in a level of one thread.
        mask & !unsafe { L::bits(ground.visited_map(), neighbours, mask) }
    }

    #[inline(always)]
    fn visit(&mut self, ground: &Ground<'_>, rank: u32, neighbour: u32) {
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

struct OneOfMany(Found);

impl Visit for OneOfMany {
    type Out = Found;

    /// The next frontier has those that were visited before, too.
    #[inline(always)]
    unsafe fn which<L: Lanes>(ground: &Ground<'_>, neighbours: L::Vector, mask: u32) -> u32 {
        // SAFETY: as for the caller.
        mask & !unsafe { L::shared_bits(ground.next, neighbours, mask) }
    }

    /// Claims it in the next frontier.
    #[inline(always)]
    fn visit(&mut self, ground: &Ground<'_>, rank: u32, neighbour: u32) {
        let (word, bit) = (neighbour as usize / 64, 1 << (neighbour % 64));
        if ground.next[word].load(Relaxed) & bit == 0 && ground.next[word].fetch_or(bit, Relaxed) & bit == 0 {
            ground.parent[neighbour as usize].store(rank, Relaxed);
            self.0.count += 1;
            self.0.degrees += f64::from(ground.layout.mean_degree[word]);
        }
    }

    fn out(self) -> Found {
        self.0
    }
}

struct Late(Found);

impl Visit for Late {
    type Out = Found;

    #[inline(always)]
    unsafe fn which<L: Lanes>(ground: &Ground<'_>, neighbours: L::Vector, mask: u32) -> u32 {
        // SAFETY: as for the caller.
        unsafe {
            let visited = L::shared_bits(ground.visited, neighbours, mask);
            mask & !visited | L::shared_bits(ground.next, neighbours, mask)
        }
    }

    /// Several threads may come with it at the same time: any of their ranks is a parent.
    #[inline(always)]
    fn visit(&mut self, ground: &Ground<'_>, rank: u32, neighbour: u32) {
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

    fn out(self) -> Found {
        self.0
    }
}

struct Expand<'s, 'g, V> {
    ground: &'s Ground<'g>,
    list: &'s [AtomicU32],
    visit: V,
}

impl<V: Visit> Work for Expand<'_, '_, V> {
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
    ground: &'s Ground<'g>,
    given: &'s Given<'s>,
    visit: V,
}

impl<V: Visit> Work for Push<'_, '_, V> {
    type Out = Result<V::Out, NoList>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) -> Self::Out {
        let (ground, ranks) = (self.ground, self.ground.layout.ranks);
        for rank in self.given.ranks {
            let list = self.given.list(ground.layout, *rank);
            // SAFETY: as for the caller: `Given` has bytes behind its last list.
            let read = unsafe {
                each_checked::<L>(list, ranks, |neighbours, mask| {
                    unvisited::<L, V>(ground, *rank, neighbours, mask, &mut self.visit);
                    true
                })
            };
            read.ok_or(NoList { rank: *rank })?;
        }
        Ok(self.visit.out())
    }
}

/// Visits all neighbours of a rank, as far as they are in DRAM, that are not visited when it is looked.
#[inline(always)]
unsafe fn each_unvisited<L: Lanes, V: Visit>(ground: &Ground<'_>, rank: u32, visit: &mut V) {
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
    // SAFETY: as for the caller; there are bytes behind the list.
    unsafe {
        each::<L>(list, |neighbours, mask| {
            unvisited::<L, V>(ground, rank, neighbours, mask, visit);
            true
        });
    }
}

/// Visits those of sixteen that are to be visited.
#[inline(always)]
unsafe fn unvisited<L: Lanes, V: Visit>(
    ground: &Ground<'_>,
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
