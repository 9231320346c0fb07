//! Which place is read next: in order, or anywhere by the trial's seed.

use crate::job::Job;
use crate::random::Random;

/// The places of one thread's reads.
pub(super) struct Offsets {
    /// None when they are in order.
    random: Option<Random>,
    next: usize,
    blocks: usize,
    block: usize,
}

impl Offsets {
    /// Of a thread. In order, each thread begins in a part of its own.
    pub(super) fn new(job: &Job, bytes: u64, block: usize, thread: usize) -> Self {
        let random = (job.parameters.text("rw") == "randread").then(|| Random::of_thread(job.seed, thread));
        let blocks = (bytes / block as u64) as usize;
        Self { random, next: blocks / job.threads * thread % blocks, blocks, block }
    }

    /// The next place, in bytes.
    pub(super) fn next(&mut self) -> u64 {
        let index = if let Some(random) = &mut self.random {
            random.below(self.blocks)
        } else {
            let index = self.next;
            self.next = (index + 1) % self.blocks;
            index
        };
        index as u64 * self.block as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{job_for_tests, set};

    #[test]
    fn places_are_whole_blocks_within_the_file() {
        let mut job = Job { threads: 2, ..job_for_tests("io") };
        set(&mut job, "rw", "read");
        let mut second = Offsets::new(&job, 4096 * 5 + 100, 4096, 1);
        assert_eq!((0..4).map(|_| second.next() / 4096).collect::<Vec<_>>(), [2, 3, 4, 0]);
        set(&mut job, "rw", "randread");
        let mut anywhere = Offsets::new(&job, 4096 * 5 + 100, 4096, 1);
        let mut seen = [false; 5];
        (0..200).for_each(|_| {
            let place = anywhere.next();
            assert_eq!(place % 4096, 0);
            seen[(place / 4096) as usize] = true;
        });
        assert_eq!(seen, [true; 5]);
    }
}
