//! Construction of graphs whose edges do not fit into memory: the same graph file, bit for bit, as construction in memory makes, or a
//! graph to be searched at once, of which TAIL lies elsewhere (`beyond`).
//!
//! In memory stay four bytes for each vertex: first how many neighbours it has, then its rank. Everything else is buffers. Every edge
//! is dealt once to a bucket on the disk that fits a thread's memory; there duplicates fall out, and both ends are counted. That
//! gives the ranks. Edges are then generated anew (which costs no bytes, where reading them back would cost as many as writing them)
//! and dealt in both directions to buckets of neighbouring ranks, of which each is sorted, written to HEAD and, coded, appended to
//! TAIL. After every step, and in long ones now and then, a note says how far it has come; who was killed goes on from there.
//!
//! Must not know files or clocks: parts are kept by the caller's [`Storage`].

mod blocks;
mod checkpoint;
mod finish;
mod lists;
mod pairs;
mod semi_external;
mod split;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use machine::memory::HugePages;
use model::values::units::Bytes;

use crate::arrays::{Array, ArrayPlacement};
use crate::degrees::DegreeRuns;
use crate::edges::{BATCH, Edges, SCALE_MAX_IN_CORE};
use crate::error::Error;
use crate::file::Header;
use crate::kronecker::{Generator, Spec};
use crate::layout::check_columns;
use crate::storage::{PartKind, Storage, StorageError, StorageErrorKind};
use crate::team::Team;
use blocks::{BlockFormat, BlockWriter, Blocks, checksum, entry_bytes};
use checkpoint::{BuildPhase, Checkpoint};
pub use semi_external::{SearchFootprint, build_beyond};
use split::BucketPlan;
pub use split::BuildRequirements;

/// What construction out of core works with.
pub struct OutOfCore<'o> {
    pub storage: &'o dyn Storage,
    /// The graph's edges, where they are not to be generated.
    pub edges: Option<&'o dyn Edges>,
    /// What arrays and buffers may take of memory together.
    pub memory: Bytes,
    /// Hears how far it has come, from any thread, many times a second.
    pub watch: &'o (dyn Fn(Progress) + Sync),
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub step: &'static str,
    /// Work that is done, in parts of `of`.
    pub done: u64,
    /// All work, that of steps to come included.
    pub of: u64,
}

/// A graph that was constructed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// What stands at the beginning of its part.
    pub header: Header,
    /// Bytes that its index, labels, ranks and blocks take in memory, as [`crate::Layout::bytes`] counts them.
    pub index_bytes: u64,
    pub tail_bytes: u64,
}

/// Constructs a graph with `columns` columns in HEAD, or goes on with it; afterwards part [`PartKind::Graph`] is its file.
pub fn build_out_of_core<C: Team>(
    crew: &C,
    spec: &Spec,
    columns: u32,
    with: &OutOfCore<'_>,
    room: &ArrayPlacement,
) -> Result<Built, C::Error> {
    check_columns(columns)?;
    let generator = generator(spec)?;
    let note = begun(spec, columns, with, crew.threads())?;
    let mut work = Work::new(crew, with, &generator, note, room);
    work.goes_on = true;
    let vertices = if spec.vertices() >= 1 << 22 { room.clone() } else { work.buffers.clone() };
    let (ranks, steps) = work.ranks(&vertices)?;
    let sizes = lists::Sizes::new(&steps, columns);
    work.lists(&ranks, &steps, &sizes)?;
    work.finish(&ranks, &steps, &sizes)
}

/// Of a graph whose vertices have 32 bits.
fn generator(spec: &Spec) -> Result<Generator, Error> {
    if spec.scale > SCALE_MAX_IN_CORE {
        return Err(Error::Scale { scale: spec.scale, max: SCALE_MAX_IN_CORE });
    }
    Generator::new(spec)
}

/// The note that is there, or a new one, if memory suffices.
fn begun(spec: &Spec, columns: u32, with: &OutOfCore<'_>, threads: usize) -> Result<Checkpoint, Error> {
    let Some(note) = Checkpoint::find(with.storage, spec, columns)? else {
        let split = BucketPlan::fitting(spec, threads, columns, with.memory)?;
        // What nobody has noted is of no use, and could be longer than what comes.
        PartKind::ALL.iter().try_for_each(|part| with.storage.discard(*part))?;
        let note = Checkpoint::new(spec, columns, split);
        note.save(with.storage)?;
        return Ok(note);
    };
    let needed = note.split.memory(spec, threads, columns);
    if needed > with.memory.0 {
        return Err(Error::Little { scale: spec.scale, needed: Bytes(needed), asked: with.memory });
    }
    // What was no longer needed when it was noted, and perhaps not yet gone.
    if note.step > BuildPhase::Count {
        with.storage.discard(PartKind::Pairs)?;
    }
    if note.step > BuildPhase::Lists {
        with.storage.discard(PartKind::Ranked)?;
    }
    Ok(note)
}

/// A construction that goes on.
struct Work<'w, C> {
    crew: &'w C,
    storage: &'w dyn Storage,
    edges: &'w dyn Edges,
    spec: Spec,
    memory: Bytes,
    note: Checkpoint,
    /// Whether somebody may go on with it later: then it is noted how far it is.
    goes_on: bool,
    meter: Meter<'w>,
    buffers: ArrayPlacement,
}

impl<'w, C: Team> Work<'w, C> {
    fn new(
        crew: &'w C,
        with: &OutOfCore<'w>,
        generator: &'w Generator,
        note: Checkpoint,
        room: &ArrayPlacement,
    ) -> Self {
        let spec = note.spec;
        Self {
            crew,
            storage: with.storage,
            edges: with.edges.unwrap_or(generator),
            spec,
            memory: with.memory,
            note,
            goes_on: false,
            meter: Meter { done: AtomicU64::new(0), of: Meter::all(&spec), watch: with.watch },
            // Buffers are read and written from end to end once and again; whole huge pages of them could leave the budget.
            buffers: ArrayPlacement { policy: room.policy.clone(), huge_pages: HugePages::Never },
        }
    }

    /// The rank of each vertex, and how many have how many neighbours.
    fn ranks(&mut self, room: &ArrayPlacement) -> Result<(Array<u32>, DegreeRuns), C::Error> {
        let mut degrees: Array<u32> = room.array(self.spec.vertices() as usize).map_err(Error::Memory)?;
        self.load(&mut degrees)?;
        self.pairs(&mut degrees)?;
        let (steps, mut next) = DegreeRuns::of(&degrees);
        if steps.0.is_empty() {
            return Err(Error::NoEdges.into());
        }
        degrees.iter_mut().for_each(|degree| *degree = next.rank(*degree));
        Ok((degrees, steps))
    }

    /// Writes down how far it is.
    fn save_note(&self) -> Result<(), Error> {
        if self.goes_on { self.note.save(self.storage) } else { Ok(()) }
    }

    /// How many neighbours were counted before, if any were.
    fn load(&self, degrees: &mut Array<u32>) -> Result<(), Error> {
        let Checkpoint { step, saved, degrees: sum, .. } = self.note;
        if step < BuildPhase::Count || saved == 0 {
            return Ok(());
        }
        let bytes: &mut [u8] = degrees.as_mut();
        self.storage.read(PartKind::Degrees, saved % 2 * bytes.len() as u64, bytes)?;
        if checksum(bytes) == sum {
            return Ok(());
        }
        Err(StorageError::damaged(PartKind::Degrees, "it has another checksum").into())
    }

    /// Writes down how many neighbours were counted, beside what was written last.
    fn save(&mut self, degrees: &Array<u32>) -> Result<(), Error> {
        if !self.goes_on {
            return Ok(());
        }
        let bytes: &[u8] = degrees.view();
        self.note.saved += 1;
        self.note.degrees = checksum(bytes);
        self.storage.write(PartKind::Degrees, self.note.saved % 2 * bytes.len() as u64, bytes)?;
        Ok(self.storage.sync(PartKind::Degrees)?)
    }

    /// Deals edges, from the one that is noted on: all but self-loops, each with what `each` puts.
    fn deal<F>(&mut self, form: BlockFormat, (copies, work): (u64, Effort), each: F) -> Result<Blocks<'w>, C::Error>
    where
        F: Fn(&mut BlockWriter<'_>, u32, u32) -> Result<(), Error> + Sync,
    {
        let blocks = Blocks::open(form, self.storage, self.note.blocks, &self.buffers)?;
        let (total, bytes) = (self.spec.edges(), copies * u64::from(entry_bytes(form.bits)));
        let stride = (self.note.split.noted_every(self.crew.threads()) / bytes).max(BATCH as u64);
        while self.note.done < total {
            let range = self.note.done..total.min(self.note.done + stride);
            let (pieces, failures) = (split::pieces(&range, BATCH), Failures::default());
            let (edges, buffers, meter) = (self.edges, &self.buffers, &self.meter);
            self.crew.run(&|_| {
                failures.keep((|| {
                    let mut dealer = BlockWriter::new(&blocks, buffers)?;
                    let mut batch = vec![[0; 2]; BATCH];
                    while let Some(piece) = pieces.take().filter(|_| failures.none()) {
                        let part = &mut batch[..piece.len()];
                        edges.fill(range.start + piece.start as u64, part).map_err(Error::Edges)?;
                        for [a, b] in part.iter().filter(|[a, b]| a != b) {
                            each(&mut dealer, *a as u32, *b as u32)?;
                        }
                        meter.add(work, piece.len() as u64);
                    }
                    dealer.finish()
                })());
                Ok(())
            })?;
            failures.first()?;
            self.storage.sync(form.part).map_err(Error::Storage)?;
            (self.note.done, self.note.blocks) = (range.end, blocks.count());
            self.save_note()?;
        }
        Ok(blocks)
    }

    /// How many buckets are worked on between two notes, of which each takes so many bytes.
    fn buckets_noted_together(&self, bytes: u64) -> u64 {
        let threads = self.crew.threads() as u64;
        (self.note.split.noted_every(self.crew.threads()) / bytes.max(1)).next_multiple_of(threads).max(threads)
    }
}

/// What threads failed in: the first of it.
#[derive(Default)]
struct Failures {
    first: Mutex<Option<Error>>,
    some: AtomicBool,
}

impl Failures {
    fn keep<T>(&self, result: Result<T, Error>) -> Option<T> {
        result
            .map_err(|error| {
                self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                self.some.store(true, Relaxed);
            })
            .ok()
    }

    fn none(&self) -> bool {
        !self.some.load(Relaxed)
    }

    fn first(self) -> Result<(), Error> {
        self.first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// What a step costs for each edge of the graph, as times on one machine were to each other.
#[derive(Clone, Copy)]
enum Effort {
    Deal = 3,
    Count = 2,
    DealRanked = 6,
    Lists = 5,
    Finish = 1,
}

impl Effort {
    fn words(self) -> &'static str {
        match self {
            Self::Deal => "edges to buckets",
            Self::Count => "counting neighbours",
            Self::DealRanked => "edges to buckets by rank",
            Self::Lists => "writing lists",
            Self::Finish => "checksums",
        }
    }
}

/// Adds up what is done.
struct Meter<'m> {
    done: AtomicU64,
    of: u64,
    watch: &'m (dyn Fn(Progress) + Sync),
}

impl Meter<'_> {
    fn all(spec: &Spec) -> u64 {
        let efforts = [Effort::Deal, Effort::Count, Effort::DealRanked, Effort::Lists, Effort::Finish];
        spec.edges().saturating_mul(efforts.map(|effort| effort as u64).iter().sum())
    }

    fn add(&self, effort: Effort, edges: u64) {
        let more = edges * effort as u64;
        let done = self.done.fetch_add(more, Relaxed) + more;
        (self.watch)(Progress { step: effort.words(), done: done.min(self.of), of: self.of });
    }
}

/// The error for more neighbours of one vertex than a thread can hold.
fn too_large_a_list(spec: &Spec, threads: usize, columns: u32, degree: u64, asked: Bytes) -> Error {
    let bytes = degree * split::BYTES_PER_ENTRY * 100 / split::FILLED_PERCENT + 2 * crate::tail_io::PAGE_BYTES;
    let needed = Bytes(BucketPlan::with(spec, bytes).memory(spec, threads, columns));
    Error::Little { scale: spec.scale, needed, asked }
}

/// A note of something that cannot be.
fn impossible(part: PartKind, what: &str) -> Error {
    Error::Storage(StorageError {
        kind: StorageErrorKind::Damaged,
        what: format!("scratch file {}: {what}", part.name()),
    })
}
