//! Chooses the next request: read or write, and its offset, sequential or random by the trial's seed.

use super::options::{Options, Spread};
use super::zipf::Zipf;
use crate::random::Random;

/// The sequence of one thread's requests.
pub(super) struct Offsets {
    random: Random,
    order: Order,
    /// 100: only reads; 0: only writes.
    reads_percent: u64,
    /// Indices of the next sequential read and write.
    next: [usize; 2],
    blocks: usize,
    block: usize,
}

enum Order {
    InTurn,
    Uniform,
    Zipf(Zipf),
}

impl Offsets {
    /// Creates the sequence of one of `threads` threads over `bytes`. Sequential access starts in a separate part for
    /// each thread and wraps around at the end; the reads and writes of a mix have separate positions.
    pub(super) fn new(options: &Options, bytes: u64, seed: u64, thread: usize, threads: usize) -> Self {
        let blocks = (bytes / options.block as u64) as usize;
        let order = match options.spread {
            Spread::InTurn => Order::InTurn,
            Spread::Uniform => Order::Uniform,
            Spread::Zipf(theta) => Order::Zipf(Zipf::new(theta, blocks, seed)),
        };
        let first = blocks / threads * thread % blocks;
        Self {
            random: Random::of_thread(seed, thread),
            order,
            reads_percent: options.reads_percent,
            next: [first; 2],
            blocks,
            block: options.block,
        }
    }

    /// Returns whether the next request is a write, and its offset in bytes.
    #[inline]
    pub(super) fn next(&mut self) -> (bool, u64) {
        let write = match self.reads_percent {
            100 => false,
            0 => true,
            percent => self.random.below(100) as u64 >= percent,
        };
        let index = match &self.order {
            Order::Uniform => self.random.below(self.blocks),
            Order::InTurn => {
                let next = &mut self.next[usize::from(write)];
                let index = *next;
                *next = if index + 1 == self.blocks { 0 } else { index + 1 };
                index
            }
            Order::Zipf(zipf) => zipf.next(&mut self.random),
        };
        (write, index as u64 * self.block as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::io::for_tests::options;

    #[test]
    fn offsets_are_whole_blocks_within_the_file() {
        let bytes = 4096 * 5 + 100;
        let mut second = Offsets::new(&options(&[("rw", "read")]), bytes, 1, 1, 2);
        assert_eq!((0..4).map(|_| second.next()).collect::<Vec<_>>(), [2, 3, 4, 0].map(|block| (false, block * 4096)));
        for spread in ["random", "zipf:0.9"] {
            let mut anywhere = Offsets::new(&options(&[("rw", "randwrite"), ("distribution", spread)]), bytes, 1, 0, 1);
            let mut seen = [false; 5];
            (0..400).for_each(|_| {
                let (write, place) = anywhere.next();
                assert!(write && place % 4096 == 0);
                seen[(place / 4096) as usize] = true;
            });
            assert_eq!(seen, [true; 5], "{spread}");
        }
    }

    #[test]
    fn mix_keeps_its_shares_and_separate_positions() {
        let mut places = Offsets::new(&options(&[("rw", "rw"), ("mix", "70")]), 4096 * 1_000_000, 5, 0, 1);
        let drawn: Vec<(bool, u64)> = (0..10_000).map(|_| places.next()).collect();
        for write in [false, true] {
            let of_kind: Vec<u64> =
                drawn.iter().filter(|(is, _)| *is == write).map(|(_, place)| place / 4096).collect();
            assert!(of_kind.iter().enumerate().all(|(index, place)| *place == index as u64));
            // Five standard deviations: sqrt(10000 * 0.7 * 0.3) is 46.
            let expected = if write { 3000 } else { 7000 };
            assert!(of_kind.len().abs_diff(expected) < 230, "{}", of_kind.len());
        }
    }
}
