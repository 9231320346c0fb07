//! The search: breadth first from a root, level by level, in whichever direction reads less (Beamer, Asanović and Patterson
//! 2012), to a parent for each vertex in original labels.
//!
//! Small frontiers are expanded by one thread from lists; large ones by all, claiming bits; most vertices are found bottom-up,
//! by looking for a neighbour in the frontier. All threads of a crew call [`Search::run`] together; who calls has the clock.
//! Nothing is kept from one search for the next.

mod late_reads;
mod output;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::{Array, ArrayPlacement};
use crate::bottom_up::{CHUNK_WORDS, Unmatched, pull, scan};
use crate::direction::{Frontier, Tuning};
use crate::error::Error;
use crate::lanes::{Isa, WIDTH};
use crate::layout::Layout;
use crate::level::{LevelCount, LevelState};
use crate::nodes::{Nodes, Shares};
use crate::tail_io::{IoCounts, PendingReads, ReadChunk, ReadFailure, TailReader};
use crate::team::{Chunks, TeamStopped, TeamWorker};
use crate::top_down::{Visitor, expand, push};
use output::Output;

/// Ranks of a frontier that a thread takes at a time; hubs may have half of all neighbours.
const LIST_PIECE: usize = 2;
/// Ranks of a frontier whose lists are wanted from elsewhere that a thread takes at a time, at least and at most: the more the more of them are
/// read together, but every thread is to have some.
const FAR_PIECE: [usize; 2] = [4, 64];

/// How a level is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Top-down, as long as frontiers stay small, by the first thread.
    Alone,
    Down,
    Up,
    /// There is no frontier any more.
    End,
}

/// Where a search stands; changed by the first thread while the others wait.
#[derive(Clone, Copy, Debug)]
struct SearchState {
    way: Direction,
    frontier: Frontier,
    /// Which of two maps and lists hold the frontier, and whether they do.
    map: usize,
    list: usize,
    mapped: bool,
    listed: bool,
    length: usize,
    /// Whether reads of the level before are under way, and with them a part of the frontier.
    late: bool,
}

/// What a thread has found in a level.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadLevel {
    next: LevelCount,
    /// Of the level's own frontier, by reads that were late.
    joined: LevelCount,
}

/// Room to search one graph in.
pub struct Search<'l> {
    layout: &'l Layout,
    isa: Isa,
    visited: Array<AtomicU64>,
    maps: [Array<AtomicU64>; 2],
    lists: [Array<AtomicU32>; 2],
    parent: Array<AtomicU32>,
    output: Output,
    standing: Mutex<SearchState>,
    nodes: Nodes,
    /// Where each node's vertices begin, in words of the maps, and the end of the last.
    borders: Vec<usize>,
    /// Each node's copy of the frontier, for levels bottom-up; of one node there is none.
    copies: Vec<Array<AtomicU64>>,
    /// Words of a level bottom-up: those of ranks with a list elsewhere, the others, and all, which are scanned while reads of the level
    /// before are under way.
    far_chunks: Shares,
    chunks: Shares,
    early_chunks: Shares,
    next: AtomicUsize,
    next_far: AtomicUsize,
    /// Edges of what all have found in a level without waiting for reads.
    edges: AtomicU64,
    /// Threads whose reads of the level before are under way.
    waiting: AtomicUsize,
    blocks: Chunks,
    found: Vec<Mutex<ThreadLevel>>,
    /// Each thread's way to what of TAIL is elsewhere.
    wants: Vec<Mutex<Option<PendingReads>>>,
    /// Of the frontier, ascending, for what is elsewhere.
    sorted: RwLock<Vec<u32>>,
    lost: Mutex<Option<ReadFailure>>,
}

impl<'l> Search<'l> {
    /// For threads on these nodes, with instructions that this processor has (else with those of every processor).
    pub fn new(layout: &'l Layout, isa: Isa, nodes: Nodes, room: &ArrayPlacement) -> Result<Self, Error> {
        let (ranks, words) = (layout.ranks as usize, layout.words());
        let (map, list) = (|| room.array(words), || room.array(ranks + WIDTH));
        let (threads, borders) = (nodes.threads(), nodes.borders(layout));
        let copies = if nodes.count() > 1 { nodes.count() } else { 0 };
        let far = layout.far_words();
        let shares = |ranges: &[Range<usize>]| Shares::new(&borders, ranges, CHUNK_WORDS);
        Ok(Self {
            layout,
            isa: if isa.is_here() { isa } else { Isa::Plain },
            visited: map()?,
            maps: [map()?, map()?],
            lists: [list()?, list()?],
            parent: room.array(words * 64 + WIDTH)?,
            output: Output::new(layout.spec().vertices() as usize, room)?,
            standing: Mutex::new(SearchState::at(0, layout)),
            copies: (0..copies).map(|_| map()).collect::<Result<_, _>>()?,
            far_chunks: shares(std::slice::from_ref(&far)),
            chunks: shares(&[0..far.start, far.end..words]),
            early_chunks: shares(std::slice::from_ref(&(0..words))),
            nodes,
            borders,
            next: AtomicUsize::new(0),
            next_far: AtomicUsize::new(0),
            edges: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            blocks: Chunks::new(layout.classes.blocks, 1),
            found: (0..threads).map(|_| Mutex::new(ThreadLevel::default())).collect(),
            wants: (0..threads).map(|_| Mutex::new(None)).collect(),
            sorted: RwLock::new(Vec::with_capacity(if layout.has_far() { ranks } else { 0 })),
            lost: Mutex::new(None),
        })
    }

    /// Touches all memory, each thread its node's, so that no page is given in a search.
    pub fn prepare(&self, hand: &TeamWorker<'_>) {
        let own = self.own(hand);
        for map in std::iter::once(&self.visited).chain(&self.maps) {
            clear(&map[own.clone()]);
        }
        if let Some(copy) = self.own_copy(hand) {
            clear(&copy[self.nodes.part(hand.index, 0..copy.len())]);
        }
        // What is behind the last word is less than a page.
        self.parent[own.start * 64..own.end * 64].iter().for_each(|rank| rank.store(0, Relaxed));
        for list in &self.lists {
            list[hand.share(list.len())].iter().for_each(|rank| rank.store(0, Relaxed));
        }
        self.output.touch(hand.share(self.layout.classes.blocks));
    }

    /// Gives a thread its way to what of TAIL is elsewhere; without, such a graph cannot be searched.
    pub fn fetch_by(&self, hand: &TeamWorker<'_>, fetch: Box<dyn TailReader>) {
        *self.wants(hand) = Some(PendingReads::new(fetch));
    }

    /// What the last search read from elsewhere; an error when it did not get it, and then its result is none.
    pub fn io(&self) -> Result<IoCounts, String> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut sum = IoCounts::default();
        for wants in &self.wants {
            if let Some(wants) = &mut *wants.lock().unwrap_or_else(PoisonError::into_inner) {
                let io = wants.io();
                sum =
                    IoCounts { reads: sum.reads + io.reads, bytes: sum.bytes + io.bytes, lists: sum.lists + io.lists };
            }
        }
        lost.map_or(Ok(sum), |lost| Err(lost.to_string()))
    }

    /// Whether a root can be searched from.
    pub fn check_root(&self, root: u64) -> Result<(), Error> {
        self.layout.rank_of(root).map(drop).ok_or(Error::Root(root))
    }

    /// Searches from a root that [`Search::check_root`] has let through, with all threads of a crew. When all have come back,
    /// [`Search::parents`] has the result, if [`Search::io`] says that everything was read that was wanted.
    pub fn run(&self, hand: &TeamWorker<'_>, root: u64, tuning: &Tuning) -> Result<(), TeamStopped> {
        let own = self.own(hand);
        self.visited[own].iter().for_each(|word| word.store(0, Relaxed));
        hand.barrier()?;
        if hand.index == 0 {
            self.begin(root, tuning);
        }
        hand.barrier()?;
        #[expect(clippy::large_stack_arrays, reason = "32 KiB; nothing is allocated in a search")]
        let mut survivors = [[0; CHUNK_WORDS * 64 + WIDTH]; 2];
        loop {
            let standing = *self.standing();
            let found = match standing.way {
                Direction::End => break,
                Direction::Alone if hand.index > 0 => ThreadLevel::default(),
                Direction::Alone => self.alone(hand, tuning),
                Direction::Down => self.down(hand, &standing, tuning)?,
                Direction::Up => self.up(hand, &standing, &mut survivors)?,
            };
            *self.found[hand.index].lock().unwrap_or_else(PoisonError::into_inner) = found;
            hand.barrier()?;
            if hand.index == 0 {
                self.go_on(tuning);
            }
            hand.barrier()?;
        }
        self.forget_reads(hand);
        self.write(hand)
    }

    /// The parent of each vertex in original labels: the root's is itself, and `NONE` that of vertices that it does not reach.
    pub fn parents(&mut self) -> &[u32] {
        self.output.parents()
    }

    /// For tests of the validation: the result, to be spoilt.
    #[cfg(test)]
    pub(crate) fn copy(&mut self) -> Vec<u32> {
        self.parents().to_vec()
    }

    /// Bytes of the maps, lists, parents and room for reads beside the layout.
    pub fn bytes(&self) -> u64 {
        let lock = |wants: &Mutex<Option<PendingReads>>| {
            wants.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(PendingReads::bytes)
        };
        let reads: usize = self.wants.iter().filter_map(lock).sum();
        let sorted = self.sorted.read().unwrap_or_else(PoisonError::into_inner).capacity() * size_of::<u32>();
        let maps = self.visited.bytes() + self.maps.iter().map(Array::bytes).sum::<usize>();
        let maps = maps + self.copies.iter().map(Array::bytes).sum::<usize>();
        let lists = self.lists.iter().map(Array::bytes).sum::<usize>();
        (maps + lists + reads + sorted + self.parent.bytes() + self.output.bytes()) as u64
    }

    /// The instructions that are used.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// On which nodes the pages of maps and parents are; of each array at most `most` are asked about.
    pub fn pages_by_node(&self, most: usize) -> Result<BTreeMap<NodeId, u64>, MemoryError> {
        let mut pages = BTreeMap::new();
        self.visited.add_pages(most, &mut pages)?;
        self.maps.iter().chain(&self.copies).try_for_each(|map| map.add_pages(most, &mut pages))?;
        self.parent.add_pages(most, &mut pages)?;
        self.output.add_pages(most, &mut pages)?;
        Ok(pages)
    }

    fn standing(&self) -> MutexGuard<'_, SearchState> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The words of the maps that are this thread's where each has some.
    fn own(&self, hand: &TeamWorker<'_>) -> Range<usize> {
        let node = self.nodes.of(hand.index);
        self.nodes.part(hand.index, self.borders[node]..self.borders[node + 1])
    }

    /// Its node's copy of the frontier.
    fn own_copy(&self, hand: &TeamWorker<'_>) -> Option<&Array<AtomicU64>> {
        self.copies.get(self.nodes.of(hand.index))
    }

    fn ground(&self, standing: &SearchState) -> LevelState<'_> {
        LevelState {
            layout: self.layout,
            visited: &self.visited,
            frontier: &self.maps[standing.map],
            next: &self.maps[1 - standing.map],
            parent: &self.parent,
        }
    }

    fn begin(&self, root: u64, tuning: &Tuning) {
        let rank = self.layout.rank_of(root).expect("check_root has let the root through");
        let ranks = self.layout.ranks;
        if let Some(last) = self.visited.last() {
            // Those behind the last rank are never looked for.
            last.store(u64::MAX << (ranks % 64), Relaxed);
        }
        self.visited[rank as usize / 64].fetch_or(1 << (rank % 64), Relaxed);
        self.parent[rank as usize].store(rank, Relaxed);
        self.lists[0][0].store(rank, Relaxed);
        let mut standing = SearchState::at(rank, self.layout);
        self.choose(&mut standing, tuning);
        *self.standing() = standing;
    }

    /// Levels of small frontiers, one after the other.
    fn alone(&self, hand: &TeamWorker<'_>, tuning: &Tuning) -> ThreadLevel {
        let mut standing = *self.standing();
        loop {
            let (list, found) = (&self.lists[standing.list][..standing.length], &self.lists[1 - standing.list]);
            let ground = self.ground(&standing);
            let mut wants = self.wants(hand);
            let mut count = 0;
            let mut visitor = Visitor::Alone(found, &mut count);
            if self.layout.has_far() {
                let mut far = self.sorted.write().unwrap_or_else(PoisonError::into_inner);
                self.far_of(list, &mut far);
                self.with(&mut wants, |wants| {
                    wants.request(self.layout, &far, &mut |given| push(self.isa, &ground, given, &mut visitor))
                });
            }
            expand(self.isa, &ground, list, &mut visitor);
            let mut edges = self.edges_of(&found[..count]);
            if self.layout.has_far() {
                let is_rich = standing.frontier.covers_most(edges, tuning);
                let mut visitor = Visitor::Alone(found, &mut count);
                self.end_reads(&mut wants, is_rich, &mut |given| push(self.isa, &ground, given, &mut visitor));
                edges = self.edges_of(&found[..count]);
            }
            standing.list = 1 - standing.list;
            standing.length = count;
            standing.frontier.advance(count as u64, edges);
            if count == 0 || edges >= tuning.alone_edges || edges * tuning.alpha >= standing.frontier.unexplored {
                break;
            }
        }
        (standing.listed, standing.mapped) = (true, false);
        *self.standing() = standing;
        ThreadLevel::default()
    }

    /// Edges of these ranks, about.
    fn edges_of(&self, ranks: &[AtomicU32]) -> f64 {
        ranks.iter().map(|rank| f64::from(self.layout.mean_degree[rank.load(Relaxed) as usize / 64])).sum()
    }

    fn down(&self, hand: &TeamWorker<'_>, standing: &SearchState, tuning: &Tuning) -> Result<ThreadLevel, TeamStopped> {
        let ground = self.ground(standing);
        let own = self.own(hand);
        // Who was visited before counts as found, until the end: one map to look at instead of two.
        let both = || self.visited[own.clone()].iter().zip(&ground.next[own.clone()]);
        both().for_each(|(visited, next)| next.store(visited.load(Relaxed), Relaxed));
        hand.barrier()?;
        let mut found = LevelCount::default();
        let mut wants = self.wants(hand);
        let mut visitor = Visitor::OneOfMany(&mut found);
        if self.layout.has_far() {
            let far = self.sorted.read().unwrap_or_else(PoisonError::into_inner);
            let piece = (far.len() / (2 * hand.of)).clamp(FAR_PIECE[0], FAR_PIECE[1]);
            while let Some(piece) = take(&self.next_far, piece, far.len()) {
                self.with(&mut wants, |wants| {
                    wants.request(self.layout, &far[piece], &mut |given| push(self.isa, &ground, given, &mut visitor))
                });
            }
        }
        while let Some(piece) = take(&self.next, LIST_PIECE, standing.length) {
            expand(self.isa, &ground, &self.lists[standing.list][piece], &mut visitor);
        }
        if self.layout.has_far() {
            self.edges.fetch_add(found.degrees as u64, Relaxed);
            hand.barrier()?;
            let is_rich = standing.frontier.covers_most(self.edges.load(Relaxed) as f64, tuning);
            let mut visitor = Visitor::OneOfMany(&mut found);
            self.end_reads(&mut wants, is_rich, &mut |given| push(self.isa, &ground, given, &mut visitor));
        }
        hand.barrier()?;
        for (visited, next) in both() {
            let (before, now) = (visited.load(Relaxed), next.load(Relaxed));
            visited.store(now, Relaxed);
            next.store(now & !before, Relaxed);
        }
        Ok(ThreadLevel { next: found, ..ThreadLevel::default() })
    }

    fn up(
        &self,
        hand: &TeamWorker<'_>,
        standing: &SearchState,
        survivors: &mut [Unmatched; 2],
    ) -> Result<ThreadLevel, TeamStopped> {
        let ground = self.ground(standing);
        let own = self.own(hand);
        if !standing.mapped {
            clear(&ground.frontier[own.clone()]);
            hand.barrier()?;
            for rank in &self.lists[standing.list][hand.share(standing.length)] {
                let rank = rank.load(Relaxed);
                ground.frontier[rank as usize / 64].fetch_or(1 << (rank % 64), Relaxed);
            }
            hand.barrier()?;
        }
        let mut level = ThreadLevel::default();
        let mut wants = self.wants(hand);
        let node = self.nodes.of(hand.index);
        if standing.late {
            clear(&ground.next[own]);
            hand.barrier()?;
            let near = self.near(hand, ground)?;
            self.meanwhile(&mut wants, || {
                let words = self.early_chunks.take(node);
                words.map(|words| level.next.add(scan(self.isa, &near, words, &mut survivors[0], true).0)).is_some()
            });
            level.joined = self.join(hand, &ground, &mut wants)?;
        }
        let ground = self.near(hand, ground)?;
        self.sweep(&ground, node, standing.late, survivors, &mut wants, &mut level.next);
        Ok(level)
    }

    /// Looks for a parent of every unvisited rank. Those with a list elsewhere come first, and the others where there is no room for more
    /// reads: so the disk has something to do from the beginning, and who scans does not wait for it as long as anything else is to do.
    fn sweep(
        &self,
        ground: &LevelState<'_>,
        node: usize,
        keep: bool,
        [far, near]: &mut [Unmatched; 2],
        wants: &mut Option<PendingReads>,
        found: &mut LevelCount,
    ) {
        // Of the survivors with a list elsewhere: how many, and how many of them were wanted.
        let (mut left, mut wanted) = (0, 0);
        loop {
            self.with(wants, |wants| {
                let then = &mut |given: &ReadChunk<'_>| pull(self.isa, ground, given, found);
                wanted += wants.request_some(self.layout, &far[wanted..left], then)?;
                wants.poll(then)
            });
            let is_room = wanted == left;
            if is_room && let Some(words) = self.far_chunks.take(node) {
                let (some, more) = scan(self.isa, ground, words, far, keep);
                found.add(some);
                (left, wanted) = (more, 0);
            } else if let Some(words) = self.chunks.take(node) {
                found.add(scan(self.isa, ground, words, near, keep).0);
            } else if is_room || self.is_lost() {
                break;
            } else {
                self.with(wants, |wants| wants.wait(&mut |given| pull(self.isa, ground, given, found)));
            }
        }
        self.with(wants, |wants| wants.finish(&mut |given| pull(self.isa, ground, given, found)));
    }

    /// With the frontier as this thread's node has it: where there are several, all bring their part of it to a copy on each.
    fn near<'g>(&'g self, hand: &TeamWorker<'_>, ground: LevelState<'g>) -> Result<LevelState<'g>, TeamStopped> {
        let Some(copy) = self.own_copy(hand) else { return Ok(ground) };
        for word in self.nodes.part(hand.index, 0..copy.len()) {
            copy[word].store(ground.frontier[word].load(Relaxed), Relaxed);
        }
        hand.barrier()?;
        Ok(LevelState { frontier: copy, ..ground })
    }

    fn wants(&self, hand: &TeamWorker<'_>) -> MutexGuard<'_, Option<PendingReads>> {
        self.wants[hand.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something read, if anything is elsewhere. After a failure no more is wanted, and the search ends with the level.
    fn with(&self, wants: &mut Option<PendingReads>, what: impl FnOnce(&mut PendingReads) -> Result<(), ReadFailure>) {
        if !self.layout.has_far() {
            return;
        }
        let failed = match wants {
            None => Err(ReadFailure::Read("there is no way to what of TAIL is not in memory".into())),
            Some(_) if self.is_lost() => Ok(()),
            Some(wants) => what(wants).inspect_err(|_| wants.give_up()),
        };
        if let Err(lost) = failed {
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(lost);
        }
    }

    fn is_lost(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The ranks of a list whose lists of TAIL are elsewhere, ascending.
    fn far_of(&self, list: &[AtomicU32], far: &mut Vec<u32>) {
        far.clear();
        far.extend(list.iter().map(|rank| rank.load(Relaxed)).filter(|rank| self.is_far(*rank)));
        far.sort_unstable();
    }

    fn is_far(&self, rank: u32) -> bool {
        (self.layout.first_far..self.layout.index.lists() as u32).contains(&rank)
    }

    /// After a level, by the first thread.
    fn go_on(&self, tuning: &Tuning) {
        let mut standing = *self.standing();
        if standing.way != Direction::Alone {
            let mut sum = ThreadLevel::default();
            for found in &self.found {
                let found = *found.lock().unwrap_or_else(PoisonError::into_inner);
                sum.next.add(found.next);
                sum.joined.add(found.joined);
            }
            standing.frontier.join(sum.joined.count, sum.joined.degrees);
            standing.frontier.advance(sum.next.count, sum.next.degrees);
            standing.map = 1 - standing.map;
            (standing.listed, standing.mapped) = (false, true);
        }
        self.choose(&mut standing, tuning);
        *self.standing() = standing;
    }

    fn choose(&self, standing: &mut SearchState, tuning: &Tuning) {
        self.next.store(0, Relaxed);
        self.next_far.store(0, Relaxed);
        self.far_chunks.again();
        self.chunks.again();
        self.early_chunks.again();
        self.edges.store(0, Relaxed);
        self.waiting.store(self.found.len(), Relaxed);
        self.blocks.again();
        standing.way =
            if self.is_lost() { Direction::End } else { standing.choice(tuning, f64::from(self.layout.ranks)) };
        standing.late = self.some_are_late();
        debug_assert!(
            !standing.late || standing.way == Direction::Up || self.is_lost(),
            "only a level bottom-up takes late reads"
        );
        if matches!(standing.way, Direction::Alone | Direction::Down) && !standing.listed {
            standing.length = self.list(standing);
            standing.listed = true;
        }
        if standing.way == Direction::Down && self.layout.has_far() {
            let mut far = self.sorted.write().unwrap_or_else(PoisonError::into_inner);
            self.far_of(&self.lists[standing.list][..standing.length], &mut far);
        }
    }

    /// The frontier as a list.
    fn list(&self, standing: &SearchState) -> usize {
        let mut slots = self.lists[standing.list].iter();
        let mut length = 0;
        for (word, bits) in self.maps[standing.map].iter().enumerate() {
            let mut bits = bits.load(Relaxed);
            while bits != 0 {
                if let Some(slot) = slots.next() {
                    slot.store((word * 64) as u32 + bits.trailing_zeros(), Relaxed);
                    length += 1;
                }
                bits &= bits - 1;
            }
        }
        length
    }

    /// Writes the parents by original labels.
    fn write(&self, hand: &TeamWorker<'_>) -> Result<(), TeamStopped> {
        // The parent of who was not reached is the rank after the last, whose label is none.
        for word in self.own(hand) {
            let mut missed = !self.visited[word].load(Relaxed);
            while missed != 0 {
                self.parent[word * 64 + missed.trailing_zeros() as usize].store(self.layout.ranks, Relaxed);
                missed &= missed - 1;
            }
        }
        hand.barrier()?;
        while let Some(block) = self.blocks.take() {
            self.output.write_block(self.layout, &self.parent, block.start);
        }
        hand.barrier()?;
        self.output.write_hubs(self.layout, &self.parent, hand.share(self.layout.classes.hubs as usize));
        hand.barrier()
    }
}

fn clear(map: &[AtomicU64]) {
    map.iter().for_each(|word| word.store(0, Relaxed));
}

/// The next piece of a level's work.
fn take(next: &AtomicUsize, size: usize, end: usize) -> Option<Range<usize>> {
    let start = next.fetch_add(size, Relaxed);
    (start < end).then(|| start..(start + size).min(end))
}

impl SearchState {
    fn at(root: u32, layout: &Layout) -> Self {
        let edges = f64::from(layout.mean_degree[root as usize / 64]);
        let frontier = Frontier { count: 1, before: 0, edges, unexplored: layout.neighbours as f64 };
        Self { way: Direction::End, frontier, map: 0, list: 0, mapped: false, listed: true, length: 1, late: false }
    }

    fn choice(&self, tuning: &Tuning, ranks: f64) -> Direction {
        if self.frontier.count == 0 {
            Direction::End
        } else if self.frontier.is_bottom_up(self.way == Direction::Up, tuning, ranks) {
            Direction::Up
        } else if self.frontier.edges < tuning.alone_edges {
            Direction::Alone
        } else {
            Direction::Down
        }
    }
}

#[cfg(test)]
mod tests;
