//! Random numbers from a trial's seed: `SplitMix64` (Steele, Lea and Flood 2014). It is small and gives the same
//! numbers on every machine, which is sufficient for shuffles and lock choices.

/// A stream of numbers that depends only on the seed.
pub(crate) struct Random(u64);

impl Random {
    /// Returns the stream of one thread. Streams of neighbouring threads do not overlap at any practical length.
    pub(crate) fn of_thread(seed: u64, thread: usize) -> Self {
        let mut start = Self(seed ^ (thread as u64).wrapping_mul(0xA076_1D64_78BD_642F));
        Self(start.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`. The bias of the multiplication is `limit` in 2^64, far below what a walk can
    /// show.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_matches_the_published_numbers() {
        // The first numbers of SplitMix64 from seed 1234567, as in the reference implementation's test vector.
        let mut random = Random(1_234_567);
        assert_eq!(
            [random.next(), random.next(), random.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_below_a_limit_cover_the_whole_range() {
        let mut random = Random::of_thread(7, 3);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[random.below(10)] = true);
        assert_eq!(seen, [true; 10]);
        assert_eq!(random.below(1), 0);
    }
}
