//! Stores edges in buckets on a disk. A part is a sequence of blocks of one size, each of one bucket, in the order in
//! which they became full, so that all writes are sequential. A block has its number, its bucket and a checksum, so
//! that truncated, modified or foreign blocks are detected on reading.
//!
//! An edge is one number, stored in as few bytes as the largest one needs. Block: u64 identifier of the construction,
//! u64 block number, u32 bucket, u32 number of edges, u64 checksum of the edges' bytes, the edges.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::arrays::{Array, ArrayPlacement};
use crate::error::Error;
use crate::storage::{PartKind, Storage, StorageError};
use crate::tail_io::PAGE_BYTES;

pub(super) const HEADER_BYTES: usize = 32;

/// Returns the number of bytes that this many bits take.
pub(super) fn entry_bytes(bits: u32) -> u32 {
    bits.div_ceil(8).max(1)
}

/// Format of a part's blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFormat {
    pub(super) part: PartKind,
    /// Identifies the construction.
    pub(super) stamp: u64,
    pub(super) block: usize,
    pub(super) buckets: usize,
    /// Width of an edge in bits.
    pub(super) bits: u32,
}

impl BlockFormat {
    fn width(&self) -> usize {
        entry_bytes(self.bits) as usize
    }

    fn most(&self) -> usize {
        // The last edge is written as eight bytes too.
        (self.block - HEADER_BYTES - 8) / self.width() + 1
    }

    fn damaged(&self, number: u64, how: &str) -> Error {
        Error::Storage(StorageError::damaged(self.part, format!("block {number} {how}")))
    }

    /// Parses a block header. Returns the bucket and the number of edges.
    fn parse(&self, number: u64, header: &[u8]) -> Result<(u32, usize), Error> {
        let large = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let small = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (bucket, count) = (small(16), small(20) as usize);
        if large(0) != self.stamp || large(8) != number || bucket as usize >= self.buckets || count > self.most() {
            return Err(self.damaged(number, "does not belong to this construction"));
        }
        Ok((bucket, count))
    }
}

/// A part's blocks and the bucket of each.
pub(super) struct Blocks<'s> {
    pub(super) form: BlockFormat,
    storage: &'s dyn Storage,
    next: AtomicU64,
    bucket: Mutex<Vec<u32>>,
}

impl<'s> Blocks<'s> {
    /// Opens a part that already has this many blocks.
    pub(super) fn open(
        form: BlockFormat,
        storage: &'s dyn Storage,
        count: u64,
        placement: &ArrayPlacement,
    ) -> Result<Self, Error> {
        let mut page = Aligned::new(PAGE_BYTES as usize, placement)?;
        let bucket = (0..count).map(|number| {
            storage.read(form.part, number * form.block as u64, page.bytes())?;
            form.parse(number, page.bytes()).map(|(bucket, _)| bucket)
        });
        let bucket = Mutex::new(bucket.collect::<Result<_, _>>()?);
        Ok(Self { form, storage, next: AtomicU64::new(count), bucket })
    }

    pub(super) fn count(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Writes a full block to the disk.
    fn write(&self, bucket: usize, used: usize, block: &mut [u8]) -> Result<(u64, u32), Error> {
        let number = self.next.fetch_add(1, Relaxed);
        let edges = ((used - HEADER_BYTES) / self.form.width()) as u32;
        block[0..8].copy_from_slice(&self.form.stamp.to_le_bytes());
        block[8..16].copy_from_slice(&number.to_le_bytes());
        block[16..20].copy_from_slice(&(bucket as u32).to_le_bytes());
        block[20..24].copy_from_slice(&edges.to_le_bytes());
        let sum = checksum(&block[HEADER_BYTES..used]);
        block[24..32].copy_from_slice(&sum.to_le_bytes());
        self.storage.write(self.form.part, number * self.form.block as u64, block)?;
        Ok((number, bucket as u32))
    }

    pub(super) fn sorted(self) -> BucketIndex<'s> {
        let bucket = self.bucket.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut from = vec![0_u32; self.form.buckets + 1];
        bucket.iter().for_each(|bucket| from[*bucket as usize + 1] += 1);
        (0..self.form.buckets).for_each(|bucket| from[bucket + 1] += from[bucket]);
        let (mut next, mut numbers) = (from.clone(), vec![0_u32; bucket.len()]);
        for (number, bucket) in bucket.iter().enumerate() {
            let place = &mut next[*bucket as usize];
            numbers[*place as usize] = number as u32;
            *place += 1;
        }
        BucketIndex { form: self.form, storage: self.storage, from, numbers }
    }
}

/// A thread's blocks that are being filled, one per bucket.
pub(super) struct BlockWriter<'b> {
    blocks: &'b Blocks<'b>,
    memory: Aligned,
    used: Vec<u32>,
    written: Vec<(u64, u32)>,
    width: usize,
}

impl<'b> BlockWriter<'b> {
    pub(super) fn new(blocks: &'b Blocks<'b>, placement: &ArrayPlacement) -> Result<Self, Error> {
        let BlockFormat { block, buckets, .. } = blocks.form;
        let memory = Aligned::new(block * buckets, placement)?;
        let used = vec![HEADER_BYTES as u32; buckets];
        Ok(Self { blocks, memory, used, written: Vec::new(), width: blocks.form.width() })
    }

    #[inline]
    pub(super) fn put(&mut self, bucket: usize, entry: u64) -> Result<(), Error> {
        let (size, at) = (self.blocks.form.block, self.used[bucket] as usize);
        let block = &mut self.memory.bytes()[bucket * size..][..size];
        block[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        let end = at + self.width;
        self.used[bucket] = end as u32;
        if end + 8 > size {
            self.used[bucket] = HEADER_BYTES as u32;
            self.written.push(self.blocks.write(bucket, end, block)?);
        }
        Ok(())
    }

    /// Writes the remaining blocks to the disk, and adds the thread's blocks to the list.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let size = self.blocks.form.block;
        for (bucket, used) in self.used.iter().enumerate().filter(|(_, used)| **used as usize > HEADER_BYTES) {
            let block = &mut self.memory.bytes()[bucket * size..][..size];
            self.written.push(self.blocks.write(bucket, *used as usize, block)?);
        }
        let mut known = self.blocks.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, bucket) in self.written {
            let length = known.len().max(number as usize + 1);
            known.resize(length, 0);
            known[number as usize] = bucket;
        }
        Ok(())
    }
}

/// All blocks of a part, indexed by bucket.
pub(super) struct BucketIndex<'s> {
    pub(super) form: BlockFormat,
    storage: &'s dyn Storage,
    from: Vec<u32>,
    numbers: Vec<u32>,
}

impl BucketIndex<'_> {
    /// Reads a bucket, with each number converted by `of`, sorted and without duplicates. Returns the number of
    /// entries.
    pub(super) fn read(&self, bucket: usize, held: &mut ReadBuffers, of: impl Fn(u64) -> u64) -> Result<usize, Error> {
        let ReadBuffers { entries, block } = held;
        let entries = &mut entries[..];
        let (width, mask) = (self.form.width(), (1_u64 << self.form.bits) - 1);
        let mut length = 0;
        for number in &self.numbers[self.from[bucket] as usize..self.from[bucket + 1] as usize] {
            let number = u64::from(*number);
            let bytes = &mut block.bytes()[..self.form.block];
            self.storage.read(self.form.part, number * self.form.block as u64, bytes)?;
            let (own, count) = self.form.parse(number, bytes)?;
            let sum = u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"));
            if own as usize != bucket || checksum(&bytes[HEADER_BYTES..][..count * width]) != sum {
                return Err(self.form.damaged(number, "has a wrong checksum"));
            }
            for at in (0..count).map(|index| HEADER_BYTES + index * width) {
                if length == entries.len() {
                    length = sorted_distinct(entries);
                    // Unless duplicates have freed enough space, each further block would cause another sort of all
                    // entries.
                    if length > entries.len() / 8 * 7 {
                        return Err(Error::Bucket);
                    }
                }
                entries[length] = of(u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) & mask);
                length += 1;
            }
        }
        Ok(sorted_distinct(&mut entries[..length]))
    }
}

/// Sorts the entries and moves the distinct ones to the front. Returns their number.
fn sorted_distinct(entries: &mut [u64]) -> usize {
    entries.sort_unstable();
    let mut kept = 0;
    for at in 0..entries.len() {
        if at == 0 || entries[at] != entries[kept - 1] {
            entries[kept] = entries[at];
            kept += 1;
        }
    }
    kept
}

/// Buffers of a thread for reading buckets.
pub(super) struct ReadBuffers {
    pub(super) entries: Array<u64>,
    block: Aligned,
}

impl ReadBuffers {
    pub(super) fn new(entries: usize, form: &BlockFormat, placement: &ArrayPlacement) -> Result<Self, Error> {
        Ok(Self { entries: placement.array(entries)?, block: Aligned::new(form.block, placement)? })
    }
}

/// Page-aligned bytes, as direct I/O requires.
pub(super) struct Aligned {
    memory: Array<u64>,
    from: usize,
    length: usize,
}

impl Aligned {
    pub(super) fn new(length: usize, placement: &ArrayPlacement) -> Result<Self, Error> {
        let memory: Array<u64> = placement.array((length + PAGE_BYTES as usize) / 8)?;
        let from = memory.view::<u8>().as_ptr().align_offset(PAGE_BYTES as usize);
        Ok(Self { memory, from, length })
    }

    #[inline]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let (from, length) = (self.from, self.length);
        &mut self.memory.as_mut::<u8>()[from..from + length]
    }
}

/// Checksum against truncation, misplaced blocks and accidental changes. Deliberate changes are detected by the graph's
/// SHA-256.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |sum: u64, word: u64| {
        let product = (sum ^ word).wrapping_mul(FACTOR);
        product ^ product >> 29
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64 + 1, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    mix(rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte))), 0)
}

/// Checksum of bytes at an offset of a part. The sums of pieces, written in any order, add up to that of the whole.
pub(super) fn placed_sum(at: u64, bytes: &[u8]) -> u64 {
    let mix = |place: u64, byte: u8| {
        let product = (place << 8 | u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    };
    (at..).zip(bytes).fold(0_u64, |sum, (place, byte)| sum.wrapping_add(mix(place, *byte)))
}
