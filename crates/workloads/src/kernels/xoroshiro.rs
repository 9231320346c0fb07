//! xoroshiro128+ (Blackman and Vigna 2016, with the constants of that year: 55, 14, 36), which sysbench draws places in
//! a block with. For what is not timed `crate::random` is simpler.
#![allow(unsafe_code)]

use std::ptr;

use crate::random::Random;

/// A stream of numbers that the seed alone decides.
#[derive(Clone, Debug)]
pub(super) struct Xoroshiro([u64; 2]);

impl Xoroshiro {
    /// The stream of one thread.
    pub(super) fn of_thread(seed: u64, thread: usize) -> Self {
        let mut random = Random::of_thread(seed, thread);
        // All zeros would stay so.
        Self([random.next() | 1, random.next()])
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        let (number, state) = step(self.0);
        self.0 = state;
        number
    }

    /// As [`Xoroshiro::next`], with the state read from and written to memory each time, as sysbench's is where it
    /// writes to a block in between: the way there and back is the longest chain of such a loop.
    #[inline]
    pub(super) fn next_by_memory(&mut self) -> u64 {
        let state = ptr::from_mut(&mut self.0);
        // SAFETY: the pointer is made from a reference that lives on, and nothing else reads or writes meanwhile.
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

/// A place below `count`, from the 52 upper bits of a number, as sysbench makes it: by way of floating point.
#[inline]
pub(super) fn below(number: u64, count: usize) -> usize {
    let from_0_to_1 = f64::from_bits((number >> 12) | 1.0f64.to_bits()) - 1.0;
    let place = from_0_to_1 * count as i64 as f64;
    // SAFETY: a number from 0 to below 2^63, since counts of words are below 2^60, is a value of i64.
    (unsafe { place.to_int_unchecked::<i64>() }) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // By hand from state 1, 2: 1 + 2; then (rotl(1, 55) ^ 3 ^ (3 << 14)) + rotl(3, 36).
        for by_memory in [false, true] {
            let mut random = Xoroshiro([1, 2]);
            let mut next = || if by_memory { random.next_by_memory() } else { random.next() };
            assert_eq!((next(), next()), (3, ((1 << 55) ^ 3 ^ (3 << 14)) + (3 << 36)));
        }
    }

    #[test]
    fn places_stay_below_their_number_and_reach_all() {
        let mut random = Xoroshiro::of_thread(7, 1);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[below(random.next(), 10)] = true);
        assert_eq!(seen, [true; 10]);
        assert_eq!((below(u64::MAX, 128), below(0, 128)), (127, 0));
    }
}
