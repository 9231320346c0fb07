//! Constructs graphs whose edges do not fit into memory: either the same graph file, bit for bit, as construction in
//! memory, or a graph to be searched at once whose tail lists are outside DRAM (`semi_external`).
//!
//! Per-vertex data, first the degree and then the rank, stays in memory with four bytes per vertex. Everything else is
//! buffers. Each edge is distributed once to a bucket on the disk that fits into a thread's memory; there duplicates
//! are removed and neighbours counted, which gives the ranks. Edges are then generated again (reading them back would
//! double the disk traffic) and distributed in both directions to buckets of consecutive ranks. Each bucket is sorted,
//! written to the head columns and, encoded, appended to the tail lists. A checkpoint is written after each step and
//! periodically in long ones; an interrupted construction resumes from it.
//!
//! Must not depend on files or clocks: parts are stored by the caller's [`Storage`].

mod blocks;
mod checkpoint;
mod finish;
mod lists;
mod pairs;
mod semi_external;
mod split;
#[cfg(test)]
pub(crate) mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use machine::memory::HugePages;
use model::values::units::Bytes;

use crate::arrays::{Array, ArrayPlacement};
use crate::degrees::{DegreeRuns, NeighbourLevels, TieOrder};
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

/// Inputs and limits of construction out of core.
pub struct OutOfCore<'o> {
    pub storage: &'o dyn Storage,
    /// Source of the edges; `None` to generate them.
    pub edges: Option<&'o dyn Edges>,
    /// Memory limit of all arrays and buffers.
    pub memory: Bytes,
    /// Receives the progress, from any thread, many times a second.
    pub watch: &'o (dyn Fn(Progress) + Sync),
}

/// Progress of a construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub step: &'static str,
    /// Completed work, in units of which `of` is the total.
    pub done: u64,
    /// Total work of all steps.
    pub of: u64,
}

/// Summary of a constructed graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The header of its part.
    pub header: Header,
    /// Memory of index, labels, ranks and blocks in bytes, as [`crate::Layout::bytes`] counts it.
    pub index_bytes: u64,
    pub tail_bytes: u64,
}

/// Constructs a graph with `columns` head columns, or resumes; afterwards part [`PartKind::Graph`] is its file.
pub fn build_out_of_core<C: Team>(
    team: &C,
    spec: &Spec,
    columns: u32,
    with: &OutOfCore<'_>,
    placement: &ArrayPlacement,
) -> Result<Built, C::Error> {
    check_columns(columns)?;
    let generator = generator(spec)?;
    let note = begun(spec, columns, with, team.threads())?;
    let mut work = Work::new(team, with, &generator, note, placement);
    work.is_resumable = true;
    let vertices = if spec.vertices() >= 1 << 22 { placement.clone() } else { work.buffers.clone() };
    let (ranks, steps) = work.ranks(TieOrder::Label, &vertices)?;
    let sizes = lists::Sizes::new(&steps, columns);
    work.lists(&ranks, &steps, &sizes)?;
    work.finish(&ranks, &steps, &sizes)
}

/// Creates the generator of a graph whose vertices have 32 bits.
fn generator(spec: &Spec) -> Result<Generator, Error> {
    if spec.scale > SCALE_MAX_IN_CORE {
        return Err(Error::Scale { scale: spec.scale, max: SCALE_MAX_IN_CORE });
    }
    Generator::new(spec)
}

/// Returns the stored checkpoint, or a new one if the memory limit suffices.
fn begun(spec: &Spec, columns: u32, with: &OutOfCore<'_>, threads: usize) -> Result<Checkpoint, Error> {
    let Some(note) = Checkpoint::find(with.storage, spec, columns)? else {
        let split = BucketPlan::fitting(spec, threads, columns, with.memory)?;
        // Data without a checkpoint is useless, and could be longer than the new data.
        PartKind::ALL.iter().try_for_each(|part| with.storage.discard(*part))?;
        let note = Checkpoint::new(spec, columns, split);
        note.save(with.storage)?;
        return Ok(note);
    };
    let needed = note.split.memory(spec, threads, columns);
    if needed > with.memory.0 {
        return Err(Error::Little { scale: spec.scale, needed: Bytes(needed), asked: with.memory });
    }
    // Discards parts that were no longer needed at the checkpoint but may still exist.
    if note.step > BuildPhase::Count {
        with.storage.discard(PartKind::Pairs)?;
    }
    if note.step > BuildPhase::Lists {
        with.storage.discard(PartKind::Ranked)?;
    }
    Ok(note)
}

/// A construction in progress.
struct Work<'w, C> {
    team: &'w C,
    storage: &'w dyn Storage,
    edges: &'w dyn Edges,
    spec: Spec,
    memory: Bytes,
    note: Checkpoint,
    /// Whether the construction can be resumed later; if so, checkpoints are written.
    is_resumable: bool,
    meter: Meter<'w>,
    buffers: ArrayPlacement,
}

impl<'w, C: Team> Work<'w, C> {
    fn new(
        team: &'w C,
        with: &OutOfCore<'w>,
        generator: &'w Generator,
        note: Checkpoint,
        placement: &ArrayPlacement,
    ) -> Self {
        let spec = note.spec;
        Self {
            team,
            storage: with.storage,
            edges: with.edges.unwrap_or(generator),
            spec,
            memory: with.memory,
            note,
            is_resumable: false,
            meter: Meter { done: AtomicU64::new(0), of: Meter::all(&spec), watch: with.watch },
            // Buffers are only partly used at times; whole huge pages of them could exceed the limit.
            buffers: ArrayPlacement { policy: placement.policy.clone(), huge_pages: HugePages::Never },
        }
    }

    /// Returns the rank of each vertex, and the degree distribution.
    fn ranks(&mut self, ties: TieOrder, placement: &ArrayPlacement) -> Result<(Array<u32>, DegreeRuns), C::Error> {
        let mut degrees: Array<u32> = placement.array(self.spec.vertices() as usize).map_err(Error::Memory)?;
        self.load(&mut degrees)?;
        self.pairs(&mut degrees)?;
        let levels = (ties == TieOrder::Neighbour).then(|| self.levels(&degrees)).transpose()?;
        let (steps, mut next) = DegreeRuns::of(&degrees, levels.as_ref());
        if steps.0.is_empty() {
            return Err(Error::NoEdges.into());
        }
        degrees.iter_mut().enumerate().for_each(|(vertex, degree)| *degree = next.rank(vertex, *degree));
        Ok((degrees, steps))
    }

    /// Returns the level of each vertex. Needs one byte per vertex, at a time when no buckets are in memory.
    fn levels(&self, degrees: &[u32]) -> Result<NeighbourLevels, C::Error> {
        let levels = NeighbourLevels::new(degrees);
        let add = |(): &mut (), a: u32, b: u32| {
            levels.add(a, degrees[b as usize]);
            levels.add(b, degrees[a as usize]);
            Ok(())
        };
        self.each_edge(0..self.spec.edges(), Effort::Levels, || Ok(()), add, Ok)?;
        Ok(levels)
    }

    /// Passes these edges, except self-loops, to `each`, on all threads, each with its own state.
    fn each_edge<S>(
        &self,
        range: Range<u64>,
        work: Effort,
        start: impl Fn() -> Result<S, Error> + Sync,
        each: impl Fn(&mut S, u32, u32) -> Result<(), Error> + Sync,
        finish: impl Fn(S) -> Result<(), Error> + Sync,
    ) -> Result<(), C::Error> {
        let (pieces, failures) = (split::pieces(&range, BATCH), Failures::default());
        let (edges, meter) = (self.edges, &self.meter);
        self.team.run(&|_| {
            failures.keep((|| {
                let mut state = start()?;
                let mut batch = vec![[0; 2]; BATCH];
                while let Some(piece) = pieces.take().filter(|_| failures.none()) {
                    let part = &mut batch[..piece.len()];
                    edges.fill(range.start + piece.start as u64, part).map_err(Error::Edges)?;
                    for [a, b] in part.iter().filter(|[a, b]| a != b) {
                        each(&mut state, *a as u32, *b as u32)?;
                    }
                    meter.add(work, piece.len() as u64);
                }
                finish(state)
            })());
            Ok(())
        })?;
        Ok(failures.first()?)
    }

    /// Writes the checkpoint.
    fn save_note(&self) -> Result<(), Error> {
        if self.is_resumable { self.note.save(self.storage) } else { Ok(()) }
    }

    /// Loads the degrees counted so far, if any.
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
        Err(StorageError::damaged(PartKind::Degrees, "its checksum does not match").into())
    }

    /// Saves the degrees counted so far, next to the previous copy.
    fn save(&mut self, degrees: &Array<u32>) -> Result<(), Error> {
        if !self.is_resumable {
            return Ok(());
        }
        let bytes: &[u8] = degrees.view();
        self.note.saved += 1;
        self.note.degrees = checksum(bytes);
        self.storage.write(PartKind::Degrees, self.note.saved % 2 * bytes.len() as u64, bytes)?;
        Ok(self.storage.sync(PartKind::Degrees)?)
    }

    /// Distributes edges from the checkpoint on, except self-loops, with the entries that `each` makes of them.
    fn deal<F>(&mut self, form: BlockFormat, (copies, work): (u64, Effort), each: F) -> Result<Blocks<'w>, C::Error>
    where
        F: Fn(&mut BlockWriter<'_>, u32, u32) -> Result<(), Error> + Sync,
    {
        let blocks = Blocks::open(form, self.storage, self.note.blocks, &self.buffers)?;
        let (total, bytes) = (self.spec.edges(), copies * u64::from(entry_bytes(form.bits)));
        let stride = (self.note.split.bytes_per_checkpoint(self.team.threads()) / bytes).max(BATCH as u64);
        while self.note.done < total {
            let range = self.note.done..total.min(self.note.done + stride);
            let start = || BlockWriter::new(&blocks, &self.buffers);
            self.each_edge(range.clone(), work, start, &each, BlockWriter::finish)?;
            self.storage.sync(form.part).map_err(Error::Storage)?;
            (self.note.done, self.note.blocks) = (range.end, blocks.count());
            self.save_note()?;
        }
        Ok(blocks)
    }

    /// Returns the number of buckets, of this size, to process between two checkpoints.
    fn buckets_per_checkpoint(&self, bytes: u64) -> u64 {
        let threads = self.team.threads() as u64;
        (self.note.split.bytes_per_checkpoint(self.team.threads()) / bytes.max(1))
            .next_multiple_of(threads)
            .max(threads)
    }
}

/// Collects the failures of threads; the first one is returned.
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

/// Kind of work of a step.
#[derive(Clone, Copy)]
enum Effort {
    Deal,
    Count,
    Levels,
    DealRanked,
    Lists,
    Finish,
}

impl Effort {
    /// Relative cost per edge, measured on one machine.
    fn per_edge(self) -> u64 {
        match self {
            Self::Deal => 3,
            Self::Count | Self::Levels => 2,
            Self::DealRanked => 6,
            Self::Lists => 5,
            Self::Finish => 1,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Deal => "edges to buckets",
            Self::Count => "counting neighbours",
            Self::Levels => "comparing neighbours",
            Self::DealRanked => "edges to buckets by rank",
            Self::Lists => "writing lists",
            Self::Finish => "checksums",
        }
    }
}

/// Adds up the completed work.
struct Meter<'m> {
    done: AtomicU64,
    of: u64,
    watch: &'m (dyn Fn(Progress) + Sync),
}

impl Meter<'_> {
    fn all(spec: &Spec) -> u64 {
        let efforts = [Effort::Deal, Effort::Count, Effort::DealRanked, Effort::Lists, Effort::Finish];
        spec.edges().saturating_mul(efforts.map(Effort::per_edge).iter().sum())
    }

    fn add(&self, effort: Effort, edges: u64) {
        let more = edges * effort.per_edge();
        let done = self.done.fetch_add(more, Relaxed) + more;
        (self.watch)(Progress { step: effort.words(), done: done.min(self.of), of: self.of });
    }
}

/// Returns the error for a vertex with more neighbours than a thread can hold.
fn too_large_a_list(spec: &Spec, threads: usize, columns: u32, degree: u64, asked: Bytes) -> Error {
    let bytes = degree * split::BYTES_PER_ENTRY * 100 / split::FILLED_PERCENT + 2 * crate::tail_io::PAGE_BYTES;
    let needed = Bytes(BucketPlan::with(spec, bytes).memory(spec, threads, columns));
    Error::Little { scale: spec.scale, needed, asked }
}

/// Returns the error for inconsistent scratch data.
fn impossible(part: PartKind, what: &str) -> Error {
    Error::Storage(StorageError {
        kind: StorageErrorKind::Damaged,
        what: format!("scratch file {}: {what}", part.name()),
    })
}
