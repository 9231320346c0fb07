//! The memory of one thread's requests: a block for each read under way, and blocks of ready data for writes.
#![allow(unsafe_code)]

use std::slice;

use super::data::Data;
use super::options::Options;
use crate::kernels::arena::Arena;
use crate::random::Random;

/// Data that repeat sooner than this after each other are found by file systems and devices that compress.
const DISTINCT_BYTES: usize = 1 << 20;

/// Where blocks lie in an arena, which it borrows: the kernel reads and writes there while requests are under way.
pub(super) struct Buffers<'m> {
    start: *mut u8,
    blocks: usize,
    block: usize,
    depth: usize,
    /// Reads have the first blocks: each place in the queue that of its own number.
    first_write: usize,
    /// For each place in the queue so many blocks of data, in turn; a power of two.
    variants: usize,
    turn: usize,
    arena: std::marker::PhantomData<&'m mut Arena>,
}

/// How many blocks a thread needs.
pub(super) fn blocks(options: &Options) -> usize {
    let reads = if options.reads_percent > 0 { options.depth } else { 0 };
    let writes = if options.writes() { options.depth * variants(options) } else { 0 };
    reads + writes
}

fn variants(options: &Options) -> usize {
    match options.data {
        Data::Zero => 1,
        Data::Random | Data::Compress(_) => {
            (DISTINCT_BYTES / (options.depth * options.block)).max(1).next_power_of_two()
        }
    }
}

impl<'m> Buffers<'m> {
    /// In an arena of [`blocks`] blocks, each of which is touched here: those of writes get their data.
    pub(super) fn new(arena: &'m mut Arena, options: &Options, random: &mut Random) -> Self {
        let (blocks, words_per_block) = (blocks(options), options.block / 8);
        let words = &mut arena.as_u64()[..blocks * words_per_block];
        let first_write = if options.reads_percent > 0 { options.depth } else { 0 };
        let (reads, writes) = words.split_at_mut(first_write * words_per_block);
        reads.fill(0);
        options.data.fill(writes, random);
        Self {
            start: words.as_mut_ptr().cast(),
            blocks,
            block: options.block,
            depth: options.depth,
            first_write,
            variants: variants(options),
            turn: 0,
            arena: std::marker::PhantomData,
        }
    }

    /// A block of data for a write of this place in the queue, in which no other write under way has its own.
    #[inline]
    pub(super) fn for_write(&mut self, slot: usize) -> usize {
        self.turn = (self.turn + 1) & (self.variants - 1);
        self.first_write + slot + self.turn * self.depth
    }

    /// Where a block begins, for the kernel.
    #[inline]
    pub(super) fn address(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.blocks);
        // SAFETY: the arena has that many blocks.
        unsafe { self.start.add(index * self.block) }
    }

    /// The words of a block of which no request is under way.
    #[inline]
    pub(super) fn words(&mut self, index: usize) -> &mut [u64] {
        // SAFETY: the block lies within the arena, which is borrowed as long as this value lives and is aligned to pages; of
        // the slices made here one lives at a time, since `self` is borrowed; the kernel has no request in this block.
        unsafe { slice::from_raw_parts_mut(self.address(index).cast(), self.block / 8) }
    }

    /// The same as bytes.
    pub(super) fn bytes(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as of `words`.
        unsafe { slice::from_raw_parts_mut(self.address(index), self.block) }
    }

    /// Pieces of at most `most` bytes that are whole blocks, which together are all of it.
    pub(super) fn pieces(&self, most: usize) -> Vec<libc::iovec> {
        let per_piece = self.blocks_per_piece(most);
        let piece = |first: usize| libc::iovec {
            iov_base: self.address(first).cast(),
            iov_len: (self.blocks - first).min(per_piece) * self.block,
        };
        (0..self.blocks).step_by(per_piece).map(piece).collect()
    }

    /// How many blocks a piece has, but for the last one.
    pub(super) fn blocks_per_piece(&self, most: usize) -> usize {
        (most / self.block).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::io::for_tests::options;
    use crate::kernels::job_for_tests;

    fn check(pairs: &[(&str, &str)], expected_blocks: usize) {
        let options = options(pairs);
        assert_eq!(blocks(&options), expected_blocks);
        let mut arena = Arena::small(&job_for_tests("io"), expected_blocks * options.block).unwrap();
        let mut buffers = Buffers::new(&mut arena, &options, &mut Random::of_thread(1, 1));
        for index in 0..expected_blocks {
            buffers.words(index)[0] = index as u64;
        }
        assert!((0..expected_blocks).all(|index| buffers.words(index)[0] == index as u64));
    }

    #[test]
    fn reads_and_writes_have_blocks_of_their_own() {
        check(&[("iodepth", "5")], 5);
        check(&[("iodepth", "4"), ("rw", "write"), ("data", "zero")], 4);
        check(&[("iodepth", "4"), ("rw", "write")], 256);
        check(&[("iodepth", "4"), ("rw", "rw"), ("bs", "1MiB")], 8);
        check(&[("iodepth", "4"), ("rw", "rw"), ("bs", "128KiB")], 4 + 8);
    }

    #[test]
    fn writes_under_way_never_share_a_block() {
        let options = options(&[("iodepth", "4"), ("rw", "rw"), ("bs", "64KiB")]);
        let mut arena = Arena::small(&job_for_tests("io"), blocks(&options) * options.block).unwrap();
        let mut buffers = Buffers::new(&mut arena, &options, &mut Random::of_thread(1, 1));
        for round in 0..100 {
            // Whatever came before, the blocks of a place are those with its remainder.
            let slot = round % 4;
            let block = buffers.for_write(slot);
            assert!(block >= 4 && block < blocks(&options) && (block - 4) % 4 == slot);
        }
    }

    #[test]
    fn pieces_are_whole_blocks_and_all_of_it() {
        let options = options(&[("iodepth", "5"), ("bs", "64KiB")]);
        let mut arena = Arena::small(&job_for_tests("io"), 5 << 16).unwrap();
        let buffers = Buffers::new(&mut arena, &options, &mut Random::of_thread(1, 1));
        let lengths = |most: usize| buffers.pieces(most).iter().map(|piece| piece.iov_len >> 16).collect::<Vec<_>>();
        assert_eq!((lengths(1 << 30), lengths(150_000), lengths(1)), (vec![5], vec![2, 2, 1], vec![1; 5]));
    }
}
