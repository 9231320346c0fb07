//! Direction-optimising breadth-first search: each level runs in the direction that reads less (Beamer, Asanović and
//! Patterson 2012). The result is a parent for each vertex in original labels.
//!
//! One thread expands small frontiers from lists; all threads expand large ones and claim bits. Most vertices are found
//! bottom-up, by searching a neighbour in the frontier. All threads of a team call [`Search::run`] together; the caller
//! measures the time. No state is carried over between searches.

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
use crate::error::{Error, TeamStopped};
use crate::lanes::{Isa, WIDTH};
use crate::layout::{Layout, NO_LABEL};
use crate::level::{LevelCount, LevelState};
use crate::nodes::{Nodes, Shares};
use crate::tail_io::{IoCounts, PendingReads, ReadChunk, ReadFailure, TailReader};
use crate::team::TeamWorker;
use crate::top_down::{Visitor, expand, push};
use output::Output;

/// Frontier ranks that a thread takes at a time. It is small because a hub may have a large part of all edges.
const LIST_PIECE: usize = 2;
/// Minimum and maximum number of frontier ranks with lists outside DRAM that a thread takes at a time. Larger batches
/// combine more reads, but every thread must get some.
const FAR_PIECE: [usize; 2] = [4, 64];

/// Execution mode of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Top-down, by the first thread, as long as frontiers stay small.
    Alone,
    Down,
    Up,
    /// The frontier is empty.
    End,
}

/// State of a search. The first thread changes it while the others wait.
#[derive(Clone, Copy, Debug)]
struct SearchState {
    way: Direction,
    frontier: Frontier,
    /// Which of the two maps and lists hold the frontier, and whether they do.
    map: usize,
    list: usize,
    mapped: bool,
    listed: bool,
    length: usize,
    /// Whether reads of the previous level are in flight, and part of the frontier depends on them.
    late: bool,
}

/// The vertices that a thread has found in a level.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadLevel {
    next: LevelCount,
    /// Vertices of the level's own frontier, found in late reads.
    joined: LevelCount,
}

/// Working memory for searches of one graph.
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
    /// Start of each node's vertices, in words of the maps, and the end of the last.
    borders: Vec<usize>,
    /// Each node's copy of the frontier for bottom-up levels. A single node has none.
    copies: Vec<Array<AtomicU64>>,
    /// Work queues of a bottom-up level, in words: ranks with a list outside DRAM, the others, and all ranks, which are
    /// scanned while reads of the previous level are in flight.
    far_chunks: Shares,
    chunks: Shares,
    early_chunks: Shares,
    next: AtomicUsize,
    next_far: AtomicUsize,
    /// Number of edges of the vertices that all threads have found in a level without waiting for reads.
    edges: AtomicU64,
    /// Number of threads whose reads of the previous level are in flight.
    waiting: AtomicUsize,
    blocks: Shares,
    found: Vec<Mutex<ThreadLevel>>,
    /// Each thread's reader of tail lists outside DRAM.
    reads: Vec<Mutex<Option<PendingReads>>>,
    /// Frontier ranks in ascending order, for reads of lists outside DRAM.
    sorted: RwLock<Vec<u32>>,
    lost: Mutex<Option<ReadFailure>>,
}

impl<'l> Search<'l> {
    /// Allocates for threads on these nodes. Falls back to scalar code if the CPU does not support `isa`.
    pub fn new(layout: &'l Layout, isa: Isa, nodes: Nodes, placement: &ArrayPlacement) -> Result<Self, Error> {
        let (ranks, words) = (layout.ranks as usize, layout.words());
        let (map, list) = (|| placement.array(words), || placement.array(ranks + WIDTH));
        let (threads, borders) = (nodes.threads(), layout.borders(&nodes));
        let copies = if nodes.count() > 1 { nodes.count() } else { 0 };
        let far = layout.far_words();
        // Ranks of equal degree ascend with their labels, so that most ranks of a chunk have labels near that of the first
        // one. The thread that searches their parents is therefore the one that writes them to the result.
        let vertices = layout.spec().vertices() as usize;
        let owner = |word: usize, threads: usize| {
            let label =
                layout.label.get(64 * word).filter(|label| **label != NO_LABEL).map_or(0, |label| *label as usize);
            label * threads / vertices
        };
        let shares = |ranges: &[Range<usize>]| Shares::new(&nodes, &borders, ranges, CHUNK_WORDS, owner);
        let blocks = layout.classes.blocks;
        let block_owner = |block: usize, threads: usize| block * threads / blocks;
        Ok(Self {
            layout,
            isa: if isa.is_here() { isa } else { Isa::Plain },
            visited: map()?,
            maps: [map()?, map()?],
            lists: [list()?, list()?],
            parent: placement.array(words * 64 + WIDTH)?,
            output: Output::new(layout.spec().vertices() as usize, placement)?,
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
            blocks: Shares::new(&Nodes::one(threads), &[0, blocks], std::slice::from_ref(&(0..blocks)), 1, block_owner),
            found: (0..threads).map(|_| Mutex::new(ThreadLevel::default())).collect(),
            reads: (0..threads).map(|_| Mutex::new(None)).collect(),
            sorted: RwLock::new(Vec::with_capacity(if layout.has_far() { ranks } else { 0 })),
            lost: Mutex::new(None),
        })
    }

    /// Touches all memory, each page by a thread of its node, so that no page is faulted in during a search.
    pub fn prepare(&self, worker: &TeamWorker<'_>) {
        let own = self.own(worker);
        for map in std::iter::once(&self.visited).chain(&self.maps) {
            clear(&map[own.clone()]);
        }
        if let Some(copy) = self.own_copy(worker) {
            clear(&copy[self.nodes.part(worker.index, 0..copy.len())]);
        }
        // The part after the last word is smaller than a page.
        self.parent[own.start * 64..own.end * 64].iter().for_each(|rank| rank.store(0, Relaxed));
        for list in &self.lists {
            list[worker.share(list.len())].iter().for_each(|rank| rank.store(0, Relaxed));
        }
        self.output.touch(worker.share(self.layout.classes.blocks));
    }

    /// Sets a thread's reader of tail lists outside DRAM, without which such a graph cannot be searched.
    pub fn fetch_by(&self, worker: &TeamWorker<'_>, fetch: Box<dyn TailReader>) {
        *self.reads(worker) = Some(PendingReads::new(fetch));
    }

    /// Returns the I/O counts of the last search. If a read failed, returns the error, and the result is invalid.
    pub fn io(&self) -> Result<IoCounts, String> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut sum = IoCounts::default();
        for reads in &self.reads {
            if let Some(reads) = &mut *reads.lock().unwrap_or_else(PoisonError::into_inner) {
                let io = reads.io();
                sum =
                    IoCounts { reads: sum.reads + io.reads, bytes: sum.bytes + io.bytes, lists: sum.lists + io.lists };
            }
        }
        lost.map_or(Ok(sum), |lost| Err(lost.to_string()))
    }

    /// Returns an error if a search cannot start at this root.
    pub fn check_root(&self, root: u64) -> Result<(), Error> {
        self.layout.rank_of(root).map(drop).ok_or(Error::Root(root))
    }

    /// Searches from a root that [`Search::check_root`] accepts, with all threads of a team. When all threads have
    /// returned, [`Search::parents`] has the result, provided that [`Search::io`] reports no error.
    pub fn run(&self, worker: &TeamWorker<'_>, root: u64, tuning: &Tuning) -> Result<(), TeamStopped> {
        let own = self.own(worker);
        self.visited[own].iter().for_each(|word| word.store(0, Relaxed));
        worker.barrier()?;
        if worker.index == 0 {
            self.begin(root, tuning);
        }
        worker.barrier()?;
        #[expect(clippy::large_stack_arrays, reason = "32 KiB; a search does not allocate")]
        let mut survivors = [[0; CHUNK_WORDS * 64 + WIDTH]; 2];
        loop {
            let standing = *self.standing();
            let found = match standing.way {
                Direction::End => break,
                Direction::Alone if worker.index > 0 => ThreadLevel::default(),
                Direction::Alone => self.alone(worker, tuning),
                Direction::Down => self.down(worker, &standing, tuning)?,
                Direction::Up => self.up(worker, &standing, &mut survivors)?,
            };
            *self.found[worker.index].lock().unwrap_or_else(PoisonError::into_inner) = found;
            worker.barrier()?;
            if worker.index == 0 {
                self.next_level(tuning);
            }
            worker.barrier()?;
        }
        self.forget_reads(worker);
        self.write(worker)
    }

    /// Returns the parent of each vertex in original labels. The root is its own parent; vertices that it does not
    /// reach have `NONE`.
    pub fn parents(&mut self) -> &[u32] {
        self.output.parents()
    }

    /// For tests of the validation, which modify the result.
    #[cfg(test)]
    pub(crate) fn copy(&mut self) -> Vec<u32> {
        self.parents().to_vec()
    }

    /// Returns the size of maps, lists, parents and read buffers in bytes, without the layout.
    pub fn bytes(&self) -> u64 {
        let lock = |reads: &Mutex<Option<PendingReads>>| {
            reads.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(PendingReads::bytes)
        };
        let reads: usize = self.reads.iter().filter_map(lock).sum();
        let sorted = self.sorted.read().unwrap_or_else(PoisonError::into_inner).capacity() * size_of::<u32>();
        let maps = self.visited.bytes() + self.maps.iter().map(Array::bytes).sum::<usize>();
        let maps = maps + self.copies.iter().map(Array::bytes).sum::<usize>();
        let lists = self.lists.iter().map(Array::bytes).sum::<usize>();
        (maps + lists + reads + sorted + self.parent.bytes() + self.output.bytes()) as u64
    }

    /// Returns the instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Returns the number of pages of maps and parents per memory node, from at most `most` pages of each array.
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

    /// Returns this thread's share of the words of the maps.
    fn own(&self, worker: &TeamWorker<'_>) -> Range<usize> {
        let node = self.nodes.of(worker.index);
        self.nodes.part(worker.index, self.borders[node]..self.borders[node + 1])
    }

    /// Returns the node's copy of the frontier.
    fn own_copy(&self, worker: &TeamWorker<'_>) -> Option<&Array<AtomicU64>> {
        self.copies.get(self.nodes.of(worker.index))
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
        let rank = self.layout.rank_of(root).expect("check_root accepted the root");
        let ranks = self.layout.ranks;
        if let Some(last) = self.visited.last() {
            // The bits after the last rank are set, so that they are never searched.
            last.store(u64::MAX << (ranks % 64), Relaxed);
        }
        self.visited[rank as usize / 64].fetch_or(1 << (rank % 64), Relaxed);
        self.parent[rank as usize].store(rank, Relaxed);
        self.lists[0][0].store(rank, Relaxed);
        let mut standing = SearchState::at(rank, self.layout);
        self.choose(&mut standing, tuning);
        *self.standing() = standing;
    }

    /// Runs consecutive levels with small frontiers in one thread.
    fn alone(&self, worker: &TeamWorker<'_>, tuning: &Tuning) -> ThreadLevel {
        let mut standing = *self.standing();
        loop {
            let (list, found) = (&self.lists[standing.list][..standing.length], &self.lists[1 - standing.list]);
            let ground = self.ground(&standing);
            let mut reads = self.reads(worker);
            let mut count = 0;
            let mut visitor = Visitor::Alone(found, &mut count);
            if self.layout.has_far() {
                let mut far = self.sorted.write().unwrap_or_else(PoisonError::into_inner);
                self.far_of(list, &mut far);
                self.with(&mut reads, |reads| {
                    reads.request(self.layout, &far, &mut |given| push(self.isa, &ground, given, &mut visitor))
                });
            }
            expand(self.isa, &ground, list, &mut visitor);
            let mut edges = self.edges_of(&found[..count]);
            if self.layout.has_far() {
                let is_rich = standing.frontier.covers_most(edges, tuning);
                let mut visitor = Visitor::Alone(found, &mut count);
                self.end_reads(&mut reads, is_rich, &mut |given| push(self.isa, &ground, given, &mut visitor));
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

    /// Returns the approximate number of edges of these ranks.
    fn edges_of(&self, ranks: &[AtomicU32]) -> f64 {
        ranks.iter().map(|rank| f64::from(self.layout.mean_degree[rank.load(Relaxed) as usize / 64])).sum()
    }

    fn down(
        &self,
        worker: &TeamWorker<'_>,
        standing: &SearchState,
        tuning: &Tuning,
    ) -> Result<ThreadLevel, TeamStopped> {
        let ground = self.ground(standing);
        let own = self.own(worker);
        // Vertices visited earlier count as found until the end of the level, so that one map is read instead of two.
        let both = || self.visited[own.clone()].iter().zip(&ground.next[own.clone()]);
        both().for_each(|(visited, next)| next.store(visited.load(Relaxed), Relaxed));
        worker.barrier()?;
        let mut found = LevelCount::default();
        let mut reads = self.reads(worker);
        let mut visitor = Visitor::OneOfMany(&mut found);
        if self.layout.has_far() {
            let far = self.sorted.read().unwrap_or_else(PoisonError::into_inner);
            let piece = (far.len() / (2 * worker.of)).clamp(FAR_PIECE[0], FAR_PIECE[1]);
            while let Some(piece) = take(&self.next_far, piece, far.len()) {
                self.with(&mut reads, |reads| {
                    reads.request(self.layout, &far[piece], &mut |given| push(self.isa, &ground, given, &mut visitor))
                });
            }
        }
        while let Some(piece) = take(&self.next, LIST_PIECE, standing.length) {
            expand(self.isa, &ground, &self.lists[standing.list][piece], &mut visitor);
        }
        if self.layout.has_far() {
            self.edges.fetch_add(found.degrees as u64, Relaxed);
            worker.barrier()?;
            let is_rich = standing.frontier.covers_most(self.edges.load(Relaxed) as f64, tuning);
            let mut visitor = Visitor::OneOfMany(&mut found);
            self.end_reads(&mut reads, is_rich, &mut |given| push(self.isa, &ground, given, &mut visitor));
        }
        worker.barrier()?;
        for (visited, next) in both() {
            let (before, now) = (visited.load(Relaxed), next.load(Relaxed));
            visited.store(now, Relaxed);
            next.store(now & !before, Relaxed);
        }
        Ok(ThreadLevel { next: found, ..ThreadLevel::default() })
    }

    fn up(
        &self,
        worker: &TeamWorker<'_>,
        standing: &SearchState,
        survivors: &mut [Unmatched; 2],
    ) -> Result<ThreadLevel, TeamStopped> {
        let ground = self.ground(standing);
        let own = self.own(worker);
        if !standing.mapped {
            clear(&ground.frontier[own.clone()]);
            worker.barrier()?;
            for rank in &self.lists[standing.list][worker.share(standing.length)] {
                let rank = rank.load(Relaxed);
                ground.frontier[rank as usize / 64].fetch_or(1 << (rank % 64), Relaxed);
            }
            worker.barrier()?;
        }
        let mut level = ThreadLevel::default();
        let mut reads = self.reads(worker);
        if standing.late {
            clear(&ground.next[own]);
            worker.barrier()?;
            let near = self.near(worker, ground)?;
            self.meanwhile(&mut reads, || {
                let words = self.early_chunks.take(worker.index);
                words.map(|words| level.next.add(scan(self.isa, &near, words, &mut survivors[0], true).0)).is_some()
            });
            level.joined = self.join(worker, &ground, &mut reads)?;
        }
        let ground = self.near(worker, ground)?;
        self.sweep(&ground, worker.index, standing.late, survivors, &mut reads, &mut level.next);
        Ok(level)
    }

    /// Searches a parent for each unvisited rank. Ranks with a list outside DRAM come first; the others are scanned
    /// while the read queue is full. So the disk is busy from the start, and no thread waits for it as long as there is
    /// other work.
    fn sweep(
        &self,
        ground: &LevelState<'_>,
        thread: usize,
        keep: bool,
        [far, near]: &mut [Unmatched; 2],
        reads: &mut Option<PendingReads>,
        found: &mut LevelCount,
    ) {
        // The number of unmatched ranks with a list outside DRAM, and how many of these lists have been requested.
        let (mut left, mut requested) = (0, 0);
        loop {
            self.with(reads, |reads| {
                let then = &mut |given: &ReadChunk<'_>| pull(self.isa, ground, given, found);
                requested += reads.request_some(self.layout, &far[requested..left], then)?;
                reads.poll(then)
            });
            let has_space = requested == left;
            if has_space && let Some(words) = self.far_chunks.take(thread) {
                let (some, more) = scan(self.isa, ground, words, far, keep);
                found.add(some);
                (left, requested) = (more, 0);
            } else if let Some(words) = self.chunks.take(thread) {
                found.add(scan(self.isa, ground, words, near, keep).0);
            } else if has_space || self.is_lost() {
                break;
            } else {
                self.with(reads, |reads| reads.wait(&mut |given| pull(self.isa, ground, given, found)));
            }
        }
        self.with(reads, |reads| reads.finish(&mut |given| pull(self.isa, ground, given, found)));
    }

    /// Switches to the node's copy of the frontier. If there are several nodes, each thread copies its share of the
    /// frontier to all of them.
    fn near<'g>(&'g self, worker: &TeamWorker<'_>, ground: LevelState<'g>) -> Result<LevelState<'g>, TeamStopped> {
        let Some(copy) = self.own_copy(worker) else { return Ok(ground) };
        for word in self.nodes.part(worker.index, 0..copy.len()) {
            copy[word].store(ground.frontier[word].load(Relaxed), Relaxed);
        }
        worker.barrier()?;
        Ok(LevelState { frontier: copy, ..ground })
    }

    fn reads(&self, worker: &TeamWorker<'_>) -> MutexGuard<'_, Option<PendingReads>> {
        self.reads[worker.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts reads, if any lists are outside DRAM. After a failure no more are started, and the search ends with the
    /// level.
    fn with(&self, reads: &mut Option<PendingReads>, what: impl FnOnce(&mut PendingReads) -> Result<(), ReadFailure>) {
        if !self.layout.has_far() {
            return;
        }
        let failed = match reads {
            None => Err(ReadFailure::Read("no reader is set for the tail lists outside DRAM".into())),
            Some(_) if self.is_lost() => Ok(()),
            Some(reads) => what(reads).inspect_err(|_| reads.give_up()),
        };
        if let Err(lost) = failed {
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(lost);
        }
    }

    fn is_lost(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Collects the ranks of a list whose tail lists are outside DRAM, ascending.
    fn far_of(&self, list: &[AtomicU32], far: &mut Vec<u32>) {
        far.clear();
        far.extend(list.iter().map(|rank| rank.load(Relaxed)).filter(|rank| self.is_far(*rank)));
        far.sort_unstable();
    }

    fn is_far(&self, rank: u32) -> bool {
        (self.layout.first_far..self.layout.index.lists() as u32).contains(&rank)
    }

    /// Moves on to the next level; called by the first thread after each level.
    fn next_level(&self, tuning: &Tuning) {
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
            "only a bottom-up level accepts late reads"
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

    /// Converts the frontier to a list. Returns its length.
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

    /// Writes the parents in original labels.
    fn write(&self, worker: &TeamWorker<'_>) -> Result<(), TeamStopped> {
        // Ranks that were not reached get the rank after the last as their parent, whose label is `NO_LABEL`.
        for word in self.own(worker) {
            let mut unreached = !self.visited[word].load(Relaxed);
            while unreached != 0 {
                self.parent[word * 64 + unreached.trailing_zeros() as usize].store(self.layout.ranks, Relaxed);
                unreached &= unreached - 1;
            }
        }
        worker.barrier()?;
        while let Some(block) = self.blocks.take(worker.index) {
            self.output.write_block(self.layout, &self.parent, block.start);
        }
        worker.barrier()?;
        self.output.write_hubs(self.layout, &self.parent, worker.share(self.layout.classes.hubs as usize));
        worker.barrier()
    }
}

fn clear(map: &[AtomicU64]) {
    map.iter().for_each(|word| word.store(0, Relaxed));
}

/// Returns the next chunk of a level's work.
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
