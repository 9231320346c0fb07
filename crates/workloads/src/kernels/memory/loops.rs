//! The operation of one `memory` event on a block: sysbench's five loops over its words, which the compiler must not
//! remove.
//! Sequential: loads of eight bytes whose values are unused; stores of the number of remaining words; or only the
//! counting. Random: draws as many indices as the block has words, and reads these words, or writes eight times the
//! number of previous draws to them. sysbench draws the indices even if it accesses no memory. Must not depend on
//! threads or time.
#![allow(unsafe_code)]

use std::arch::asm;

use crate::kernels::xoroshiro::{Xoroshiro, below};

/// Words per loop iteration, as gcc unrolls sysbench's loops.
const UNROLLED: usize = 8;

/// The memory of a block, which several threads may write at once: only volatile accesses to whole words.
#[derive(Clone, Copy)]
pub(super) struct SharedBlock {
    first: *mut u64,
    words: usize,
}

// SAFETY: all accesses are aligned words, so threads that share a block cannot tear a word, and the values read do not
// matter; this is the definition of the test. `memory::run` keeps the memory alive until the threads have ended.
unsafe impl Send for SharedBlock {}
// SAFETY: as above.
unsafe impl Sync for SharedBlock {}

impl SharedBlock {
    /// The block in this memory, which must outlive the returned value.
    pub(super) fn new(memory: &mut [u64]) -> Self {
        Self { first: memory.as_mut_ptr(), words: memory.len() }
    }

    #[inline]
    fn word(self, index: usize) -> *mut u64 {
        debug_assert!(index < self.words);
        // SAFETY: the loops below stay within the block.
        unsafe { self.first.add(index) }
    }

    #[inline]
    fn load(self, index: usize) -> u64 {
        // SAFETY: within the block, aligned and alive.
        unsafe { self.word(index).read_volatile() }
    }

    #[inline]
    fn store(self, index: usize, value: u64) {
        // SAFETY: within the block, aligned and alive.
        unsafe { self.word(index).write_volatile(value) }
    }

    /// Reads every word and returns the last one.
    #[inline(never)]
    pub(super) fn read(self) -> u64 {
        let mut last = 0;
        let mut index = 0;
        while index + UNROLLED <= self.words {
            for offset in 0..UNROLLED {
                last = self.load(index + offset);
            }
            index += UNROLLED;
        }
        while index < self.words {
            last = self.load(index);
            index += 1;
        }
        last
    }

    #[inline(never)]
    pub(super) fn write(self) {
        let mut index = 0;
        while index + UNROLLED <= self.words {
            for offset in 0..UNROLLED {
                self.store(index + offset, (self.words - index - offset) as u64);
            }
            index += UNROLLED;
        }
        while index < self.words {
            self.store(index, (self.words - index) as u64);
            index += 1;
        }
    }

    /// Counts the words without accessing them.
    #[inline(never)]
    pub(super) fn none(self) -> u64 {
        let mut index = 0;
        while index < self.words {
            index += UNROLLED;
            keep();
        }
        index as u64
    }

    /// Reads as many random words as the block has. Returns whether the last one held its own index.
    #[inline(never)]
    pub(super) fn read_at_random(self, random: &mut Xoroshiro) -> bool {
        let mut last = (0, 0);
        for _ in 0..self.words {
            let index = below(random.next_by_memory(), self.words);
            last = (index as u64, self.load(index));
        }
        last.0 == last.1
    }

    /// Writes as many random words as the block has.
    #[inline(never)]
    pub(super) fn write_at_random(self, random: &mut Xoroshiro) {
        for drawn in 0..self.words {
            let index = below(random.next_by_memory(), self.words);
            self.store(index, 8 * drawn as u64);
        }
    }

    /// Draws as many random numbers as the block has words, without converting them to indices.
    #[inline(never)]
    pub(super) fn none_at_random(self, random: &mut Xoroshiro) -> u64 {
        let mut number = 0;
        for _ in 0..self.words {
            number = random.next();
            keep();
        }
        number
    }
}

/// Emits no instruction; it prevents the removal of the surrounding loop.
#[inline]
fn keep() {
    // SAFETY: the empty assembly text accesses nothing.
    unsafe { asm!("", options(nostack, preserves_flags, nomem)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_access_the_expected_words() {
        for words in [1, 7, 8, 128, 131] {
            let mut memory: Vec<u64> = (0..words).collect();
            let block = SharedBlock::new(&mut memory);
            let mut random = Xoroshiro::for_thread(3, 0);
            assert_eq!(block.read(), words - 1);
            assert!(block.read_at_random(&mut random));
            assert!(block.none() >= words);
            block.none_at_random(&mut random);
            assert_eq!(memory, (0..words).collect::<Vec<u64>>(), "reading and nothing change nothing");
            SharedBlock::new(&mut memory).write();
            assert_eq!(memory, (1..=words).rev().collect::<Vec<u64>>());
            memory.fill(u64::MAX);
            SharedBlock::new(&mut memory).write_at_random(&mut random);
            let written: Vec<u64> = memory.iter().copied().filter(|word| *word != u64::MAX).collect();
            // The last index drawn keeps its value.
            assert!(written.contains(&(8 * (words - 1))), "{words}: {written:?}");
            assert!(written.iter().all(|word| word % 8 == 0 && *word < 8 * words));
        }
    }

    #[test]
    fn read_loop_detects_a_wrong_word() {
        let mut memory: Vec<u64> = vec![9; 16];
        assert!(!SharedBlock::new(&mut memory).read_at_random(&mut Xoroshiro::for_thread(3, 0)));
    }
}
