//! The second half of construction: distributes both directions of each edge to buckets of ranks, and writes each
//! bucket to the head columns, in the graph's file or in memory, and to the tail lists.
//!
//! Buckets are converted in rounds, one bucket per thread. Then all threads know the lengths of the encoded lists
//! before theirs, and each appends its own to the tail lists at its offset.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::blocks::{BlockFormat, Blocks, BucketIndex, ReadBuffers, placed_sum};
use super::checkpoint::BuildPhase;
use super::split::{BucketPlan, STAGED_ROWS, bounds};
use super::{Effort, Failures, Work, impossible, too_large_a_list};
use crate::arrays::{Array, ArrayPlacement};
use crate::budget::COLUMNS_CHOSEN;
use crate::coded;
use crate::degrees::DegreeRuns;
use crate::error::{Error, TeamStopped};
use crate::file;
use crate::head::HeadWriter;
use crate::head::ROWS_ALIGNED;
use crate::layout::Layout;
use crate::prefixes::PrefixCost;
use crate::storage::{PartKind, Storage};
use crate::team::{Chunks, Team, TeamWorker};

/// Offset at which the lengths of lists enter the checksum of the written data.
pub(super) const LENGTHS_AT: u64 = 1 << 50;
/// A thread has no list in this round because of an error, and all must stop.
const STOP: u64 = u64::MAX;

/// Sizes of the head columns, and the offsets of head columns and tail lists in the graph.
pub(super) struct Sizes {
    pub(super) rows: Vec<u32>,
    pub(super) column_at: Vec<usize>,
    pub(super) head: u64,
    pub(super) tail: u64,
}

impl Sizes {
    pub(super) fn new(steps: &DegreeRuns, columns: u32) -> Self {
        let rows = steps.rows_of(columns);
        let column_at = Layout::columns_at(&rows[..columns as usize]);
        let head = (file::HEADER_BYTES + 4 * rows.len()) as u64;
        let tail = head + 4 * (column_at[columns as usize] + ROWS_ALIGNED) as u64;
        Self { rows, column_at, head, tail }
    }

    /// Sizes of a graph whose part has only tail lists.
    pub(super) fn of_tail(steps: &DegreeRuns, columns: u32) -> Self {
        Self { head: 0, tail: 0, ..Self::new(steps, columns) }
    }

    /// Returns the capacity of the head columns in neighbours, without the padding after the last column.
    pub(super) fn head_entries(&self) -> usize {
        self.column_at[self.columns()]
    }

    /// Returns the number of ranks that have a tail list.
    pub(super) fn lists(&self) -> u32 {
        self.rows[self.rows.len() - 1]
    }

    pub(super) fn columns(&self) -> usize {
        self.rows.len() - 1
    }
}

impl<'w, C: Team> Work<'w, C> {
    /// Writes head columns and tail lists, or resumes writing them.
    pub(super) fn lists(&mut self, ranks: &Array<u32>, steps: &DegreeRuns, sizes: &Sizes) -> Result<(), C::Error> {
        let edges = self.spec.edges();
        if self.note.step == BuildPhase::Finish {
            self.meter.add(Effort::DealRanked, edges);
            self.meter.add(Effort::Lists, edges);
            return Ok(());
        }
        let dealt = self.deal_ranked(ranks, steps)?;
        self.write_lists(&dealt, steps, sizes, None)?;
        self.note.next(BuildPhase::Finish);
        self.save_note()?;
        self.storage.discard(PartKind::Ranked).map_err(Error::Storage)?;
        Ok(())
    }

    /// Distributes both directions of edges to buckets of ranks, or resumes it.
    pub(super) fn deal_ranked(&mut self, ranks: &Array<u32>, steps: &DegreeRuns) -> Result<RankedEdges<'w>, C::Error> {
        let edges = self.spec.edges();
        let bounds = self.bounds(steps)?;
        let scale = self.spec.scale;
        let widest = bounds.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
        let form = BlockFormat {
            part: PartKind::Ranked,
            stamp: self.note.stamp(),
            block: self.note.split.block(bounds.len() - 1),
            buckets: bounds.len() - 1,
            bits: scale + (u32::BITS - (widest - 1).leading_zeros()),
        };
        let dealt = if self.note.step == BuildPhase::DealRanked {
            self.meter.add(Effort::DealRanked, self.note.done);
            let blocks = self.deal(form, (2, Effort::DealRanked), |dealer, a, b| {
                let (a, b) = (ranks[a as usize], ranks[b as usize]);
                let mut put = |from: u32, to: u32| {
                    let bucket = bounds.partition_point(|bound| *bound <= from) - 1;
                    dealer.put(bucket, u64::from(from - bounds[bucket]) << scale | u64::from(to))
                };
                put(a, b)?;
                put(b, a)
            })?;
            self.note.next(BuildPhase::Lists);
            (self.note.tail, self.note.sum) = (0, 0);
            self.save_note()?;
            blocks
        } else {
            self.meter.add(Effort::DealRanked, edges);
            Blocks::open(form, self.storage, self.note.blocks, &self.buffers)?
        };
        Ok(RankedEdges { ranked: dealt.sorted(), bounds, scale })
    }

    /// Returns the size in bytes of all lists, fully encoded without head columns, and the cost of prefixes after the
    /// default columns.
    pub(super) fn coded_bytes(
        &self,
        dealt: &RankedEdges<'_>,
        steps: &DegreeRuns,
    ) -> Result<(u64, PrefixCost), C::Error> {
        let (pieces, failures) = (Chunks::new(dealt.buckets(), 1), Failures::default());
        let sum = Mutex::new((0, PrefixCost::NONE));
        let (entries, buffers) = (self.note.split.entries(), &self.buffers);
        self.team.run(&|_| {
            failures.keep((|| {
                let mut held = ReadBuffers::new(entries, &dealt.ranked.form, buffers)?;
                let (mut coded, mut bytes) = (Vec::new(), 0);
                let mut begun = PrefixCost::NONE;
                while let Some(piece) = pieces.take().filter(|_| failures.none()) {
                    let (ranks, count) = dealt.read(piece.start, steps, &mut held)?;
                    let mut rest = &held.entries.view::<u32>()[..count];
                    for degree in steps.degrees(ranks) {
                        let (list, others) = rest.split_at(degree as usize);
                        coded.clear();
                        coded::encode(list, &mut coded);
                        bytes += coded.len() as u64;
                        begun.add(list.get(COLUMNS_CHOSEN as usize..).unwrap_or_default());
                        rest = others;
                    }
                }
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                sum.0 += bytes;
                sum.1.join(&begun);
                Ok(())
            })());
            Ok(())
        })?;
        failures.first()?;
        Ok(sum.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the boundaries of the buckets of ranks. If a hub has more neighbours than expected, memory is divided
    /// again, provided that there is enough.
    fn bounds(&mut self, steps: &DegreeRuns) -> Result<Vec<u32>, Error> {
        let found = bounds(&steps.0, self.note.split.filled());
        let Err(degree) = found else { return Ok(found.unwrap_or_default()) };
        let threads = self.team.threads();
        let columns = self.note.columns;
        let split = BucketPlan::fitting(&self.spec, threads, columns, self.memory)?;
        if self.note.step != BuildPhase::DealRanked || self.note.done > 0 || split.filled() < degree {
            return Err(too_large_a_list(&self.spec, threads, columns, degree, self.memory));
        }
        self.note.split = split;
        self.save_note()?;
        bounds(&steps.0, split.filled()).map_err(|_| Error::Bucket)
    }

    /// Writes the tail lists and, unless they are kept in memory, the head columns.
    pub(super) fn write_lists(
        &mut self,
        dealt: &RankedEdges<'_>,
        steps: &DegreeRuns,
        sizes: &Sizes,
        head: Option<HeadWriter<'_>>,
    ) -> Result<(), C::Error> {
        let buckets = dealt.buckets() as u64;
        let edges = self.spec.edges() / buckets;
        self.meter.add(Effort::Lists, self.note.done * edges);
        let together = self.buckets_per_checkpoint(edges * 16);
        while self.note.done < buckets {
            let range = self.note.done as usize..buckets.min(self.note.done + together) as usize;
            let failures = Failures::default();
            let lengths: Vec<[AtomicU64; 2]> = (0..self.team.threads()).map(|_| [0, 0].map(AtomicU64::new)).collect();
            let (tail, sum) = (AtomicU64::new(0), AtomicU64::new(self.note.sum));
            let shared = BuildShared {
                dealt,
                steps,
                sizes,
                head,
                storage: self.storage,
                failures: &failures,
                lengths: &lengths,
                sum: &sum,
                done: &|| self.meter.add(Effort::Lists, edges),
            };
            self.team.run(&|worker| {
                let lists = failures.keep(BucketBuffers::new(&shared, self.note.split.entries(), &self.buffers));
                let end = shared.rounds(worker, lists, range.clone(), self.note.tail)?;
                // All threads store the same value.
                tail.store(end, Relaxed);
                Ok(())
            })?;
            failures.first()?;
            self.storage
                .sync(PartKind::Graph)
                .and_then(|()| self.storage.sync(PartKind::Lengths))
                .map_err(Error::Storage)?;
            (self.note.done, self.note.tail, self.note.sum) = (range.end as u64, tail.into_inner(), sum.into_inner());
            self.save_note()?;
        }
        Ok(())
    }
}

/// Both directions of each edge, by source rank.
pub(super) struct RankedEdges<'d> {
    ranked: BucketIndex<'d>,
    /// First rank of each bucket, and the end of the last one.
    bounds: Vec<u32>,
    scale: u32,
}

impl RankedEdges<'_> {
    fn buckets(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Reads a bucket. Returns its ranks and their total number of neighbours, which are the first 32-bit numbers of
    /// the buffer.
    fn read(&self, bucket: usize, steps: &DegreeRuns, held: &mut ReadBuffers) -> Result<(Range<u32>, usize), Error> {
        let ranks = self.bounds[bucket]..self.bounds[bucket + 1];
        let count = self.ranked.read(bucket, held, |entry| entry)?;
        self.check(&ranks, steps, &held.entries[..count])?;
        // Only the neighbour of each number remains, which is half as wide.
        let words: &mut [u32] = &mut held.entries.as_mut()[..2 * count];
        let mask = ((1_u64 << self.scale) - 1) as u32;
        (0..count).for_each(|at| words[at] = words[2 * at] & mask);
        Ok((ranks, count))
    }

    /// Returns an error unless the entries are the lists of these ranks, with the known lengths.
    fn check(&self, ranks: &Range<u32>, steps: &DegreeRuns, entries: &[u64]) -> Result<(), Error> {
        let is_of = |at: usize, own: u64| entries.get(at).is_some_and(|entry| entry >> self.scale == own);
        let mut at = 0;
        for (own, degree) in (0..).zip(steps.degrees(ranks.clone())) {
            let end = at + degree as usize;
            if !is_of(at, own) || !is_of(end - 1, own) {
                return Err(impossible(PartKind::Ranked, "the edges differ from those counted"));
            }
            at = end;
        }
        if at == entries.len() {
            return Ok(());
        }
        Err(impossible(PartKind::Ranked, "it has more edges than were counted"))
    }
}

/// State shared by the threads.
struct BuildShared<'s> {
    dealt: &'s RankedEdges<'s>,
    steps: &'s DegreeRuns,
    sizes: &'s Sizes,
    /// Destination of the head columns if they are kept in memory.
    head: Option<HeadWriter<'s>>,
    storage: &'s dyn Storage,
    failures: &'s Failures,
    /// For each thread, the size of its encoded lists in this round and in the previous one.
    lengths: &'s [[AtomicU64; 2]],
    /// Checksum of everything written to the graph's file and of the lengths.
    sum: &'s AtomicU64,
    done: &'s (dyn Fn() + Sync),
}

impl BuildShared<'_> {
    /// Writes a part of the head columns or tail lists.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.storage.write(PartKind::Graph, at, bytes)?;
        self.sum.fetch_add(placed_sum(at, bytes), Relaxed);
        Ok(())
    }

    /// Writes these buckets in rounds. Returns the end of the tail lists.
    fn rounds(
        &self,
        worker: &TeamWorker<'_>,
        mut lists: Option<BucketBuffers<'_>>,
        range: Range<usize>,
        mut tail: u64,
    ) -> Result<u64, TeamStopped> {
        for (round, first) in range.clone().step_by(worker.of).enumerate() {
            let own = first + worker.index;
            let made = lists.as_mut().filter(|_| own < range.end).map(|lists| self.failures.keep(lists.make(own)));
            let length = match (&lists, made) {
                (Some(lists), Some(Some(()))) => lists.coded.len() as u64,
                (Some(_), None) => 0,
                _ => STOP,
            };
            // A thread whose write failed in the previous round reports it in this one, so that all stop together.
            let length = if self.failures.none() { length } else { STOP };
            self.lengths[worker.index][round % 2].store(length, Relaxed);
            worker.barrier()?;
            // No thread stores to these before all have passed the next barrier.
            let lengths: Vec<u64> = self.lengths.iter().map(|of| of[round % 2].load(Relaxed)).collect();
            if lengths.contains(&STOP) {
                break;
            }
            if let Some(lists) = lists.as_ref().filter(|_| length > 0) {
                let before: u64 = lengths[..worker.index].iter().sum();
                self.failures.keep(lists.append(tail + before));
            }
            tail += lengths.iter().sum::<u64>();
            (self.done)();
        }
        Ok(tail)
    }
}

/// A thread's buffers for converting a bucket to lists.
struct BucketBuffers<'s> {
    shared: &'s BuildShared<'s>,
    held: ReadBuffers,
    /// Rows to be written to the head columns, column by column.
    staged: Array<u32>,
    coded: Vec<u8>,
}

impl<'s> BucketBuffers<'s> {
    fn new(shared: &'s BuildShared<'s>, entries: usize, placement: &ArrayPlacement) -> Result<Self, Error> {
        let held = ReadBuffers::new(entries, &shared.dealt.ranked.form, placement)?;
        let staged = placement.array(shared.sizes.columns() * STAGED_ROWS)?;
        // Maximum capacity: pages that are not needed are never touched.
        Ok(Self { shared, held, staged, coded: Vec::with_capacity(entries / 2 * 9 + 64) })
    }

    /// Writes a bucket's part of the head columns and the lengths of its lists, and encodes its tail lists.
    fn make(&mut self, bucket: usize) -> Result<(), Error> {
        let BuildShared { dealt, steps, sizes, .. } = self.shared;
        let (ranks, count) = dealt.read(bucket, steps, &mut self.held)?;
        let columns = sizes.columns();
        self.coded.clear();
        let (mut at, mut staged) = (0, ranks.start..ranks.start);
        for (rank, degree) in ranks.clone().zip(steps.degrees(ranks.clone())) {
            // Neighbours are in the first half; the lengths of lists go to the other.
            let (values, lengths) = self.held.entries.as_mut::<u32>()[..2 * count].split_at_mut(count);
            let list = &values[at..at + degree as usize];
            let row = (rank - staged.start) as usize;
            for (column, neighbour) in list.iter().take(columns).enumerate() {
                self.staged[column * STAGED_ROWS + row] = *neighbour;
            }
            let before = self.coded.len();
            if list.len() > columns {
                coded::encode(&list[columns..], &mut self.coded);
            }
            lengths[(rank - ranks.start) as usize] = (self.coded.len() - before) as u32;
            at += list.len();
            staged.end = rank + 1;
            if staged.len() == STAGED_ROWS {
                self.write_rows(&staged)?;
                staged = staged.end..staged.end;
            }
        }
        self.write_rows(&staged)?;
        let listed = ranks.end.min(sizes.lists()).saturating_sub(ranks.start) as usize;
        let lengths = &self.held.entries.view::<u8>()[4 * count..][..4 * listed];
        let at = 4 * u64::from(ranks.start);
        self.shared.storage.write(PartKind::Lengths, at, lengths)?;
        self.shared.sum.fetch_add(placed_sum(LENGTHS_AT + at, lengths), Relaxed);
        Ok(())
    }

    fn write_rows(&self, staged: &Range<u32>) -> Result<(), Error> {
        let sizes = self.shared.sizes;
        for (column, rows) in sizes.rows[..sizes.columns()].iter().enumerate() {
            let rows = staged.end.min(*rows).saturating_sub(staged.start) as usize;
            if rows == 0 {
                break;
            }
            let at = sizes.column_at[column] + staged.start as usize;
            if let Some(head) = self.shared.head {
                head.store(at, &self.staged[column * STAGED_ROWS..][..rows]);
                continue;
            }
            let bytes = &self.staged.view::<u8>()[4 * column * STAGED_ROWS..][..4 * rows];
            self.shared.write(sizes.head + 4 * at as u64, bytes)?;
        }
        Ok(())
    }

    fn append(&self, at: u64) -> Result<(), Error> {
        self.shared.write(self.shared.sizes.tail + at, &self.coded)
    }
}
