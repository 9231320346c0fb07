//! The I/O buffers of one thread: one block per read in flight, and prepared blocks of data for writes.
#![allow(unsafe_code)]

use std::slice;

use super::data::Data;
use super::options::Options;
use crate::kernels::arena::Arena;
use crate::random::Random;

/// Minimum distance before data repeats. File systems and devices that compress or deduplicate detect shorter
/// repetitions.
const DISTINCT_BYTES: usize = 1 << 20;

/// The blocks of an arena, which it borrows: the kernel reads and writes them while requests are in flight.
pub(super) struct Buffers<'m> {
    start: *mut u8,
    blocks: usize,
    block: usize,
    depth: usize,
    /// Index of the first write buffer. The blocks before it are for reads, one per slot.
    first_write: usize,
    /// Number of data blocks per slot, used in turn; a power of two.
    variants: usize,
    turn: usize,
    arena: std::marker::PhantomData<&'m mut Arena>,
}

/// Number of blocks that a thread needs.
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
    /// Splits an arena of [`blocks`] blocks and touches each; write buffers are filled with data.
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

    /// Returns a data block for a write of this slot. No other write in flight uses the same block.
    #[inline]
    pub(super) fn for_write(&mut self, slot: usize) -> usize {
        self.turn = (self.turn + 1) & (self.variants - 1);
        self.first_write + slot + self.turn * self.depth
    }

    /// Address of a block, for the kernel.
    #[inline]
    pub(super) fn address(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.blocks);
        // SAFETY: the arena has that many blocks.
        unsafe { self.start.add(index * self.block) }
    }

    /// The words of a block that no request in flight uses.
    #[inline]
    pub(super) fn words(&mut self, index: usize) -> &mut [u64] {
        // SAFETY: the block is in the arena, which is borrowed as long as this value lives and is page-aligned. Only
        // one of these slices exists at a time, since `self` is borrowed, and the kernel has no request for this block.
        unsafe { slice::from_raw_parts_mut(self.address(index).cast(), self.block / 8) }
    }

    /// The bytes of a block that no request in flight uses.
    pub(super) fn bytes(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as in `words`.
        unsafe { slice::from_raw_parts_mut(self.address(index), self.block) }
    }

    /// Splits the arena into pieces of whole blocks with at most `most` bytes each.
    pub(super) fn pieces(&self, most: usize) -> Vec<libc::iovec> {
        let per_piece = self.blocks_per_piece(most);
        let piece = |first: usize| libc::iovec {
            iov_base: self.address(first).cast(),
            iov_len: (self.blocks - first).min(per_piece) * self.block,
        };
        (0..self.blocks).step_by(per_piece).map(piece).collect()
    }

    /// Number of blocks per piece, except the last one.
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
    fn reads_and_writes_use_separate_blocks() {
        check(&[("iodepth", "5")], 5);
        check(&[("iodepth", "4"), ("rw", "write"), ("data", "zero")], 4);
        check(&[("iodepth", "4"), ("rw", "write")], 256);
        check(&[("iodepth", "4"), ("rw", "rw"), ("bs", "1MiB")], 8);
        check(&[("iodepth", "4"), ("rw", "rw"), ("bs", "128KiB")], 4 + 8);
    }

    #[test]
    fn writes_in_flight_never_share_a_block() {
        let options = options(&[("iodepth", "4"), ("rw", "rw"), ("bs", "64KiB")]);
        let mut arena = Arena::small(&job_for_tests("io"), blocks(&options) * options.block).unwrap();
        let mut buffers = Buffers::new(&mut arena, &options, &mut Random::of_thread(1, 1));
        for round in 0..100 {
            // The remainder of a block index identifies its slot.
            let slot = round % 4;
            let block = buffers.for_write(slot);
            assert!(block >= 4 && block < blocks(&options) && (block - 4) % 4 == slot);
        }
    }

    #[test]
    fn pieces_are_whole_blocks_and_cover_the_arena() {
        let options = options(&[("iodepth", "5"), ("bs", "64KiB")]);
        let mut arena = Arena::small(&job_for_tests("io"), 5 << 16).unwrap();
        let buffers = Buffers::new(&mut arena, &options, &mut Random::of_thread(1, 1));
        let lengths = |most: usize| buffers.pieces(most).iter().map(|piece| piece.iov_len >> 16).collect::<Vec<_>>();
        assert_eq!((lengths(1 << 30), lengths(150_000), lengths(1)), (vec![5], vec![2, 2, 1], vec![1; 5]));
    }
}
