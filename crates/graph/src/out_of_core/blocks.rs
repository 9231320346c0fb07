//! Edges in buckets on a disk: a part is a row of blocks of one size, each of one bucket, in the order in which they became full, so
//! that all writing is sequential. A block says which it is and what bucket it is of, and has a checksum: what was cut,
//! changed or is of another construction is found when it is read.
//!
//! An edge is one number of as few whole bytes as its largest takes. Block: u64 of the construction, u64 its own number, u32
//! bucket, u32 edges, u64 checksum of the edges' bytes, the edges.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::arrays::{Array, ArrayPlacement};
use crate::error::Error;
use crate::storage::{PartKind, Storage, StorageError};
use crate::tail_io::PAGE_BYTES;

pub(super) const HEADER_BYTES: usize = 32;

/// Whole bytes of numbers of so many bits.
pub(super) fn entry_bytes(bits: u32) -> u32 {
    bits.div_ceil(8).max(1)
}

/// How a part's blocks are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFormat {
    pub(super) part: PartKind,
    /// Of this construction and no other.
    pub(super) stamp: u64,
    pub(super) block: usize,
    pub(super) buckets: usize,
    /// Bits of an edge's number.
    pub(super) bits: u32,
}

impl BlockFormat {
    fn width(&self) -> usize {
        entry_bytes(self.bits) as usize
    }

    fn most(&self) -> usize {
        // The last is written as eight bytes too.
        (self.block - HEADER_BYTES - 8) / self.width() + 1
    }

    fn damaged(&self, number: u64, how: &str) -> Error {
        Error::Storage(StorageError::damaged(self.part, format!("block {number} {how}")))
    }

    /// Bucket and edges of a block that begins like that.
    fn parse(&self, number: u64, header: &[u8]) -> Result<(u32, usize), Error> {
        let large = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let small = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (bucket, count) = (small(16), small(20) as usize);
        if large(0) != self.stamp || large(8) != number || bucket as usize >= self.buckets || count > self.most() {
            return Err(self.damaged(number, "is not what was written there"));
        }
        Ok((bucket, count))
    }
}

/// A part's blocks, and of which bucket each is.
pub(super) struct Blocks<'s> {
    pub(super) form: BlockFormat,
    storage: &'s dyn Storage,
    next: AtomicU64,
    bucket: Mutex<Vec<u32>>,
}

impl<'s> Blocks<'s> {
    /// With so many blocks that are there already.
    pub(super) fn open(
        form: BlockFormat,
        storage: &'s dyn Storage,
        count: u64,
        room: &ArrayPlacement,
    ) -> Result<Self, Error> {
        let mut page = Aligned::new(PAGE_BYTES as usize, room)?;
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

    /// Takes a full block to the disk.
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

/// A thread's blocks that are being filled, one for each bucket.
pub(super) struct BlockWriter<'b> {
    blocks: &'b Blocks<'b>,
    memory: Aligned,
    used: Vec<u32>,
    written: Vec<(u64, u32)>,
    width: usize,
}

impl<'b> BlockWriter<'b> {
    pub(super) fn new(blocks: &'b Blocks<'b>, room: &ArrayPlacement) -> Result<Self, Error> {
        let BlockFormat { block, buckets, .. } = blocks.form;
        let memory = Aligned::new(block * buckets, room)?;
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

    /// Takes what is left to the disk, and says which blocks were written.
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

/// All blocks of a part, found by bucket.
pub(super) struct BucketIndex<'s> {
    pub(super) form: BlockFormat,
    storage: &'s dyn Storage,
    from: Vec<u32>,
    numbers: Vec<u32>,
}

impl BucketIndex<'_> {
    /// Reads a bucket, each number as `of` makes it: ascending, without duplicates, so many.
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
                return Err(self.form.damaged(number, "has another checksum"));
            }
            for at in (0..count).map(|index| HEADER_BYTES + index * width) {
                if length == entries.len() {
                    length = tidied(entries);
                    // Where duplicates have left next to no room, all would be sorted again after ever fewer edges.
                    if length > entries.len() / 8 * 7 {
                        return Err(Error::Bucket);
                    }
                }
                entries[length] = of(u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) & mask);
                length += 1;
            }
        }
        Ok(tidied(&mut entries[..length]))
    }
}

/// Sorts, and puts what is left without duplicates first: so many.
fn tidied(entries: &mut [u64]) -> usize {
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

/// What a thread needs to read buckets.
pub(super) struct ReadBuffers {
    pub(super) entries: Array<u64>,
    block: Aligned,
}

impl ReadBuffers {
    pub(super) fn new(entries: usize, form: &BlockFormat, room: &ArrayPlacement) -> Result<Self, Error> {
        Ok(Self { entries: room.array(entries)?, block: Aligned::new(form.block, room)? })
    }
}

/// Bytes that begin with a page, as reads and writes past the page cache want it.
pub(super) struct Aligned {
    memory: Array<u64>,
    from: usize,
    length: usize,
}

impl Aligned {
    pub(super) fn new(length: usize, room: &ArrayPlacement) -> Result<Self, Error> {
        let memory: Array<u64> = room.array((length + PAGE_BYTES as usize) / 8)?;
        let from = memory.view::<u8>().as_ptr().align_offset(PAGE_BYTES as usize);
        Ok(Self { memory, from, length })
    }

    #[inline]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let (from, length) = (self.from, self.length);
        &mut self.memory.as_mut::<u8>()[from..from + length]
    }
}

/// Finds what was cut, mixed up or changed by accident; who means to deceive finds the graph's own SHA-256 at the end.
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

/// The same for bytes at a place of a part, such that what is written in pieces, in any order, adds up to what is read as a whole.
pub(super) fn placed_sum(at: u64, bytes: &[u8]) -> u64 {
    let mix = |place: u64, byte: u8| {
        let product = (place << 8 | u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    };
    (at..).zip(bytes).fold(0_u64, |sum, (place, byte)| sum.wrapping_add(mix(place, *byte)))
}
