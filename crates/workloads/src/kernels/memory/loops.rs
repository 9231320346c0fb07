//! What one event of `memory` does to a block: sysbench's five loops over its words, none of them left out by the compiler.
//!
//! In turn: loads of eight bytes that nobody uses; stores of how many words are left; or only the counting. At random: as
//! many places as the block has words are drawn, and read, or written with eight times how many were drawn before. sysbench
//! also draws them where it touches nothing. Must not know threads or time.
#![allow(unsafe_code)]

use std::arch::asm;

use crate::kernels::xoroshiro::{Xoroshiro, below};

/// Words per pass of a loop, as gcc unrolls sysbench's.
const UNROLLED: usize = 8;

/// A block's memory, which several threads may write at once: only volatile accesses to whole words.
#[derive(Clone, Copy)]
pub(super) struct SharedBlock {
    first: *mut u64,
    words: usize,
}

// SAFETY: threads that share a block tear nothing, since all accesses are aligned words, and read nothing that matters;
// that is the test's definition. The memory outlives the threads: `memory::run` holds it.
unsafe impl Send for SharedBlock {}
// SAFETY: as above.
unsafe impl Sync for SharedBlock {}

impl SharedBlock {
    /// The block in this memory, which must outlive it.
    pub(super) fn new(memory: &mut [u64]) -> Self {
        Self { first: memory.as_mut_ptr(), words: memory.len() }
    }

    #[inline]
    fn word(self, index: usize) -> *mut u64 {
        debug_assert!(index < self.words);
        // SAFETY: the loops below stay within the words.
        unsafe { self.first.add(index) }
    }

    #[inline]
    fn load(self, index: usize) -> u64 {
        // SAFETY: within the words, aligned, alive.
        unsafe { self.word(index).read_volatile() }
    }

    #[inline]
    fn store(self, index: usize, value: u64) {
        // SAFETY: within the words, aligned, alive.
        unsafe { self.word(index).write_volatile(value) }
    }

    /// Reads every word; the last is handed back.
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

    /// Counts the words and touches none.
    #[inline(never)]
    pub(super) fn none(self) -> u64 {
        let mut index = 0;
        while index < self.words {
            index += UNROLLED;
            keep();
        }
        index as u64
    }

    /// Reads as many places as there are words; tells whether the last held the number of its place.
    #[inline(never)]
    pub(super) fn read_at_random(self, random: &mut Xoroshiro) -> bool {
        let mut last = (0, 0);
        for _ in 0..self.words {
            let place = below(random.next_by_memory(), self.words);
            last = (place as u64, self.load(place));
        }
        last.0 == last.1
    }

    /// Writes to as many places as there are words.
    #[inline(never)]
    pub(super) fn write_at_random(self, random: &mut Xoroshiro) {
        for drawn in 0..self.words {
            let place = below(random.next_by_memory(), self.words);
            self.store(place, 8 * drawn as u64);
        }
    }

    /// Draws as many numbers as there are words, and makes no places of them.
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

/// No instruction; it keeps the loop around it.
#[inline]
fn keep() {
    // SAFETY: the empty text touches nothing.
    unsafe { asm!("", options(nostack, preserves_flags, nomem)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_touch_what_they_should() {
        for words in [1, 7, 8, 128, 131] {
            let mut memory: Vec<u64> = (0..words).collect();
            let block = SharedBlock::new(&mut memory);
            let mut random = Xoroshiro::of_thread(3, 0);
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
            // The last place drawn keeps its value.
            assert!(written.contains(&(8 * (words - 1))), "{words}: {written:?}");
            assert!(written.iter().all(|word| word % 8 == 0 && *word < 8 * words));
        }
    }

    #[test]
    fn a_wrong_word_is_seen_by_reading() {
        let mut memory: Vec<u64> = vec![9; 16];
        assert!(!SharedBlock::new(&mut memory).read_at_random(&mut Xoroshiro::of_thread(3, 0)));
    }
}
