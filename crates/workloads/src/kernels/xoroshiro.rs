//! xoroshiro128+ (Blackman and Vigna 2016, with the constants of that year: 55, 14, 36), from which sysbench draws
//! offsets within a block. Untimed code uses the simpler `crate::random`.
#![allow(unsafe_code)]

use std::ptr;

use crate::random::Random;

/// A stream of numbers that depends only on the seed.
#[derive(Clone, Debug)]
pub(super) struct Xoroshiro([u64; 2]);

impl Xoroshiro {
    /// Creates the stream of one thread.
    pub(super) fn for_thread(seed: u64, thread: usize) -> Self {
        let mut random = Random::of_thread(seed, thread);
        // A state of all zeros would never change.
        Self([random.next() | 1, random.next()])
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        let (number, state) = step(self.0);
        self.0 = state;
        number
    }

    /// Like [`Xoroshiro::next`], but reads the state from memory and writes it back each time. So does sysbench if the
    /// loop also writes to a block. This round trip is the longest dependency chain of such a loop.
    #[inline]
    pub(super) fn next_by_memory(&mut self) -> u64 {
        let state = ptr::from_mut(&mut self.0);
        // SAFETY: the pointer is made from a live reference, and no other code accesses the state during the call.
        let (number, new) = step(unsafe { state.read_volatile() });
        // SAFETY: as above.
        unsafe { state.write_volatile(new) };
        number
    }
}

#[inline]
fn step([first, second]: [u64; 2]) -> (u64, [u64; 2]) {
    let mixed = first ^ second;
    (first.wrapping_add(second), [first.rotate_left(55) ^ mixed ^ (mixed << 14), mixed.rotate_left(36)])
}

/// Returns an index below `count`, computed from the upper 52 bits of a number through floating point, as sysbench
/// does.
#[inline]
pub(super) fn below(number: u64, count: usize) -> usize {
    let from_0_to_1 = f64::from_bits((number >> 12) | 1.0f64.to_bits()) - 1.0;
    let index = from_0_to_1 * count as i64 as f64;
    // SAFETY: counts of words are below 2^60, so the product is a number from 0 to below 2^63, which i64 can represent.
    (unsafe { index.to_int_unchecked::<i64>() }) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_matches_the_published_algorithm() {
        // Computed by hand from state 1, 2: 1 + 2; then (rotl(1, 55) ^ 3 ^ (3 << 14)) + rotl(3, 36).
        for by_memory in [false, true] {
            let mut random = Xoroshiro([1, 2]);
            let mut next = || if by_memory { random.next_by_memory() } else { random.next() };
            assert_eq!((next(), next()), (3, ((1 << 55) ^ 3 ^ (3 << 14)) + (3 << 36)));
        }
    }

    #[test]
    fn indices_stay_below_the_count_and_reach_all() {
        let mut random = Xoroshiro::for_thread(7, 1);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[below(random.next(), 10)] = true);
        assert_eq!(seen, [true; 10]);
        assert_eq!((below(u64::MAX, 128), below(0, 128)), (127, 0));
    }
}
