//! Writes the data derived from the lists: padding rows, the index of the tail lists, labels, and checksums. The header
//! is written last, when everything else is on the disk, so an unfinished graph has no header.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::blocks::placed_sum;
use super::lists::{LENGTHS_AT, Sizes};
use super::{Built, Effort, Failures, Work, impossible};
use crate::arrays::Array;
use crate::coded::PADDING;
use crate::degrees::DegreeRuns;
use crate::error::Error;
use crate::file::{FileSection, HEADER_BYTES, Header, SECTIONS};
use crate::head::ROWS_ALIGNED;
use crate::index::Index;
use crate::label_blocks::LabelBlocks;
use crate::storage::{PartKind, Storage};
use crate::team::{Chunks, Team};

/// Bytes per read or write.
const BYTES_AT_ONCE: usize = 1 << 18;
/// Indices of the head columns and the tail lists among the sections.
const LISTS: RangeInclusive<usize> = 1..=2;

impl<C: Team> Work<'_, C> {
    pub(super) fn finish(&mut self, ranks: &Array<u32>, steps: &DegreeRuns, sizes: &Sizes) -> Result<Built, C::Error> {
        let storage = self.storage;
        let count = steps.ranks();
        let filled = write_rows(storage, sizes, count)?;
        let index = sizes.tail + self.note.tail;
        let (long, lengths) = write_index(storage, sizes, index, self.note.tail)?;
        let labels = index + 8 * (u64::from(sizes.lists()) + 1);
        self.write_labels(ranks, count, labels)?;
        let ends = [sizes.head, sizes.tail, index, labels, labels + 4 * u64::from(count)];
        let header = Header {
            spec: self.spec,
            columns: self.note.columns,
            ranks: u64::from(count),
            neighbours: steps.neighbours(),
            sections: self.sections(ends, self.note.sum.wrapping_add(filled).wrapping_sub(lengths))?,
        };
        // The header asserts that the rest is complete, so the rest must be synced first.
        let done = storage.sync(PartKind::Graph).and_then(|()| storage.write(PartKind::Graph, 0, &header.bytes()));
        done.and_then(|()| storage.sync(PartKind::Graph)).map_err(Error::Storage)?;
        let vertices = self.spec.vertices();
        let of_ranks = 4 * (u64::from(count) + ROWS_ALIGNED as u64) + 4 * (u64::from(count).div_ceil(64) + 1);
        let index_bytes = Index::bytes_for(sizes.lists() as usize, long) + of_ranks + 4 * vertices;
        Ok(Built {
            header,
            index_bytes: index_bytes + LabelBlocks::bytes_for(vertices),
            tail_bytes: self.note.tail + PADDING as u64,
        })
    }

    /// Writes the labels of ranks, in pieces that fit into the memory of a thread. Each piece needs a pass over all
    /// vertices.
    fn write_labels(&self, ranks: &Array<u32>, count: u32, at: u64) -> Result<(), C::Error> {
        let size = (self.note.split.thread_bytes / 4) as usize;
        let (pieces, failures) = (Chunks::new(count as usize, size), Failures::default());
        let (storage, buffers) = (self.storage, &self.buffers);
        self.team.run(&|_| {
            failures.keep((|| {
                let mut labels: Array<u32> = buffers.array(size.min(count as usize))?;
                while let Some(piece) = pieces.take().filter(|_| failures.none()) {
                    for (label, rank) in ranks.iter().enumerate() {
                        if let Some(slot) =
                            labels[..piece.len()].get_mut(rank.wrapping_sub(piece.start as u32) as usize)
                        {
                            *slot = label as u32;
                        }
                    }
                    let bytes = &labels.view::<u8>()[..4 * piece.len()];
                    storage.write(PartKind::Graph, at + 4 * piece.start as u64, bytes)?;
                }
                Ok(())
            })());
            Ok(())
        })?;
        Ok(failures.first()?)
    }

    /// Returns name, length and checksum of the sections that end at these offsets. Head columns and tail lists must
    /// match their checksum from when they were written.
    fn sections(&self, ends: [u64; SECTIONS.len()], expected: u64) -> Result<Vec<FileSection>, C::Error> {
        let found = Mutex::new([(0, [0; 32]); SECTIONS.len()]);
        let (pieces, failures) = (Chunks::new(SECTIONS.len(), 1), Failures::default());
        let per_byte = self.spec.edges() as f64 / (ends[SECTIONS.len() - 1] as f64).max(1.0);
        let (storage, meter, written) = (self.storage, &self.meter, AtomicU64::new(0));
        self.team.run(&|_| {
            while let Some(piece) = pieces.take() {
                let index = piece.start;
                let from = if index == 0 { HEADER_BYTES as u64 } else { ends[index - 1] };
                let sum = sum(storage, from..ends[index], &|at, bytes| {
                    if LISTS.contains(&index) {
                        written.fetch_add(placed_sum(at, bytes), Relaxed);
                    }
                    meter.add(Effort::Finish, (bytes.len() as f64 * per_byte) as u64);
                });
                let Some(sum) = failures.keep(sum) else { break };
                found.lock().unwrap_or_else(PoisonError::into_inner)[index] = (ends[index] - from, sum);
            }
            Ok(())
        })?;
        failures.first()?;
        if written.into_inner() != expected {
            return Err(impossible(
                PartKind::Graph,
                "the lists or their lengths (scratch file lengths) differ from those written",
            )
            .into());
        }
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(SECTIONS.iter().zip(found).map(|(name, (length, sum))| (*name, length, sum)).collect())
    }
}

/// Returns the SHA-256 of a range, and passes its bytes to `with`.
fn sum(storage: &dyn Storage, range: Range<u64>, with: &dyn Fn(u64, &[u8])) -> Result<[u8; 32], Error> {
    let mut bytes = vec![0; BYTES_AT_ONCE];
    let mut hash = Sha256::new();
    for at in range.clone().step_by(BYTES_AT_ONCE) {
        let part = &mut bytes[..(range.end - at).min(BYTES_AT_ONCE as u64) as usize];
        storage.read(PartKind::Graph, at, part)?;
        hash.update(&*part);
        with(at, part);
    }
    Ok(hash.finalize().into())
}

/// Writes the lengths of the columns, and fills padding rows with a neighbour that no rank has. Returns the checksum of
/// the padding.
fn write_rows(storage: &dyn Storage, sizes: &Sizes, ranks: u32) -> Result<u64, Error> {
    let rows: Vec<u8> = sizes.rows.iter().flat_map(|rows| rows.to_le_bytes()).collect();
    storage.write(PartKind::Graph, HEADER_BYTES as u64, &rows)?;
    let filled = ranks.to_le_bytes().repeat(2 * ROWS_ALIGNED);
    let end = sizes.column_at[sizes.columns()];
    let gaps = sizes.column_at.windows(2).zip(&sizes.rows).map(|(column, rows)| column[0] + *rows as usize..column[1]);
    let mut sum = 0_u64;
    for gap in gaps.chain(std::iter::once(end..end + ROWS_ALIGNED)) {
        let (at, bytes) = (sizes.head + 4 * gap.start as u64, &filled[..4 * gap.len()]);
        storage.write(PartKind::Graph, at, bytes)?;
        sum = sum.wrapping_add(placed_sum(at, bytes));
    }
    Ok(sum)
}

/// Writes the start of each list, from their lengths. Returns the number of ranks up to the last list that is long for
/// the index, and the checksum of the lengths.
fn write_index(storage: &dyn Storage, sizes: &Sizes, at: u64, tail: u64) -> Result<(usize, u64), Error> {
    let lists = sizes.lists() as usize;
    let (mut lengths, mut starts) = (vec![0; BYTES_AT_ONCE / 2], Vec::with_capacity(BYTES_AT_ONCE));
    let (mut start, mut long, mut sum) = (0_u64, 0, 0_u64);
    for first in (0..lists).step_by(BYTES_AT_ONCE / 8) {
        let part = &mut lengths[..4 * (lists - first).min(BYTES_AT_ONCE / 8)];
        storage.read(PartKind::Lengths, 4 * first as u64, part)?;
        sum = sum.wrapping_add(placed_sum(LENGTHS_AT + 4 * first as u64, part));
        starts.clear();
        for (rank, length) in (first..).zip(part.as_chunks::<4>().0) {
            starts.extend(start.to_le_bytes());
            let length = u32::from_le_bytes(*length);
            start += u64::from(length);
            if Index::is_long(u64::from(length)) {
                long = rank + 1;
            }
        }
        storage.write(PartKind::Graph, at + 8 * first as u64, &starts)?;
    }
    if start != tail {
        return Err(impossible(PartKind::Lengths, "the sum of its lengths differs from the size of the tail lists"));
    }
    storage.write(PartKind::Graph, at + 8 * lists as u64, &start.to_le_bytes())?;
    Ok((long, sum))
}
