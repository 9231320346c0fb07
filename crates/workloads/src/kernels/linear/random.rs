//! Elements of random matrices by position, so that an element can be generated again at any time: uniform on [-1/2,
//! 1/2), from the trial's seed. The mixing function is that of `SplitMix64`, with the position as its counter.

/// One matrix; each seed and letter yields a different one.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    seed: u64,
}

impl Elements {
    pub(super) fn new(seed: u64, letter: char) -> Self {
        Self { seed: mix(seed ^ mix(u64::from(letter))) }
    }

    /// Returns the element at a row and a column, with 53 random bits.
    #[inline]
    pub(super) fn at(self, row: usize, column: usize) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits(row, column) >> 11) as f64 * SCALE - 0.5
    }

    /// Like [`Elements::at`] in single precision, with 24 random bits, so it needs no rounding.
    #[inline]
    pub(super) fn at_f32(self, row: usize, column: usize) -> f32 {
        const SCALE: f32 = 1.0 / (1u64 << 24) as f32;
        (self.bits(row, column) >> 40) as f32 * SCALE - 0.5
    }

    #[inline]
    fn bits(self, row: usize, column: usize) -> u64 {
        let place = (column as u64) << 32 | row as u64;
        mix(self.seed.wrapping_add(place.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }
}

#[inline]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_depend_on_the_seed_and_are_uniform() {
        let of = |seed, letter| Elements::new(seed, letter);
        assert_eq!(of(1, 'a').at(3, 4).to_bits(), of(1, 'a').at(3, 4).to_bits());
        assert!((of(1, 'a').at(3, 4) - of(2, 'a').at(3, 4)).abs() > 0.0);
        assert!((of(1, 'a').at(3, 4) - of(1, 'b').at(3, 4)).abs() > 0.0);
        let all: Vec<f64> = (0..100).flat_map(|column| (0..100).map(move |row| of(7, 'a').at(row, column))).collect();
        let mean = all.iter().sum::<f64>() / 1e4;
        let square = all.iter().map(|x| x * x).sum::<f64>() / 1e4;
        // The mean square of a uniform variable is 1/12; over 10^4 values the mean deviates by 0.003 and the mean
        // square by 0.0008.
        assert!(mean.abs() < 0.012 && (square - 1.0 / 12.0).abs() < 0.003, "{mean} {square}");
        assert!(all.iter().all(|x| (-0.5..0.5).contains(x)));
        assert!((0..1000).all(|row| (-0.5..0.5).contains(&of(7, 'a').at_f32(row, 0))));
    }
}
