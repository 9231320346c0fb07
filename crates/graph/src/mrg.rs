//! The random numbers of the Graph500: a multiple recursive generator that can skip any number of steps. x(n) =
//! 107374182 x(n-1) + 104480 x(n-5) modulo 2^31 - 1 (L'Ecuyer, Blouin and Couture 1993, table 3; also in the GNU
//! Scientific Library). A skip multiplies the state by a power of the step matrix.

/// The modulus, a Mersenne prime, so that remainders need only shifts and additions.
pub(crate) const MODULUS: u64 = 0x7FFF_FFFF;
const NEAR: u64 = 107_374_182;
const FAR: u64 = 104_480;

/// The last five numbers, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MrgState(pub(crate) [u64; 5]);

/// The matrix of a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JumpMatrix(pub(crate) [[u64; 5]; 5]);

/// Returns the next number from the newest and the oldest of a state; both must be below the modulus.
#[inline(always)]
pub(crate) fn next(newest: u64, oldest: u64) -> u64 {
    reduce(NEAR * newest + FAR * oldest)
}

/// Returns a number modulo 2^31 - 1; it must be below 2^62, as all products here are.
#[inline(always)]
pub(crate) fn reduce(number: u64) -> u64 {
    let folded = (number & MODULUS) + (number >> 31);
    let folded = (folded & MODULUS) + (folded >> 31);
    if folded >= MODULUS { folded - MODULUS } else { folded }
}

impl MrgState {
    /// Expands two seeds to five non-zero numbers, as the Graph500's `make_mrg_seed` does.
    pub(crate) fn seeded(seed: (u64, u64)) -> Self {
        const LOW: u64 = 0x3FFF_FFFF;
        let (one, two) = seed;
        Self([
            (one & LOW) + 1,
            ((one >> 30) & LOW) + 1,
            (two & LOW) + 1,
            ((two >> 30) & LOW) + 1,
            ((two >> 60) << 4) + (one >> 60) + 1,
        ])
    }

    /// Makes one step and returns its number, below 2^31 - 1.
    pub(crate) fn draw(&mut self) -> u64 {
        let [newest, second, third, fourth, oldest] = self.0;
        self.0 = [next(newest, oldest), newest, second, third, fourth];
        self.0[0]
    }

    /// Returns a number in [0, 1) from two draws.
    #[allow(clippy::excessive_precision, reason = "written as the definition writes it")]
    pub(crate) fn fraction(&mut self) -> f64 {
        // 1 / (2^31 - 1) and its square, with the digits of the specification: the last bit affects the roots.
        let high = self.draw() as f64 * 0.000_000_000_465_661_287_524_579_692;
        high + self.draw() as f64 * 0.000_000_000_000_000_000_216_840_434_699_049_278_7
    }

    /// Returns the state after `high` 2^128 + `middle` 2^64 + `low` steps.
    pub(crate) fn skipped(self, high: u64, middle: u64, low: u64) -> Self {
        let middle_step = JumpMatrix::one().squared(64);
        let high_step = middle_step.squared(64);
        let steps = JumpMatrix::one().times(low).then(&middle_step.times(middle)).then(&high_step.times(high));
        steps.of(self)
    }
}

impl JumpMatrix {
    pub(crate) fn one() -> Self {
        let mut rows = [[0; 5]; 5];
        rows[0] = [NEAR, 0, 0, 0, FAR];
        for row in 1..5 {
            rows[row][row - 1] = 1;
        }
        Self(rows)
    }

    fn none() -> Self {
        let mut rows = [[0; 5]; 5];
        (0..5).for_each(|row| rows[row][row] = 1);
        Self(rows)
    }

    /// Returns the matrix of both jumps. The order does not matter for powers of one matrix.
    fn then(&self, other: &Self) -> Self {
        let mut rows = [[0; 5]; 5];
        for (row, result) in rows.iter_mut().enumerate() {
            for (column, element) in result.iter_mut().enumerate() {
                *element = (0..5).fold(0, |sum, at| reduce(sum + reduce(self.0[row][at] * other.0[at][column])));
            }
        }
        Self(rows)
    }

    /// Returns the matrix of 2^`times` such jumps.
    pub(crate) fn squared(self, times: u32) -> Self {
        (0..times).fold(self, |steps, _| steps.then(&steps))
    }

    /// Returns the matrix of `count` such jumps.
    pub(crate) fn times(&self, mut count: u64) -> Self {
        let (mut result, mut power) = (Self::none(), *self);
        while count > 0 {
            if count & 1 == 1 {
                result = result.then(&power);
            }
            power = power.then(&power);
            count >>= 1;
        }
        result
    }

    pub(crate) fn of(&self, state: MrgState) -> MrgState {
        let row = |row: usize| (0..5).fold(0, |sum, at| reduce(sum + reduce(self.0[row][at] * state.0[at])));
        MrgState(std::array::from_fn(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_equal_single_steps() {
        let start = MrgState::seeded((2, 3));
        let mut stepped = start;
        for steps in 0..300 {
            assert_eq!(start.skipped(0, 0, steps), stepped, "{steps}");
            stepped.draw();
        }
        // 2^64 steps are 2^32 times 2^32 steps.
        let far = JumpMatrix::one().times(1 << 32).times(1 << 32);
        assert_eq!(far.of(start), start.skipped(0, 1, 0));
        assert_eq!(far.times(1 << 32).times(1 << 32).of(start), start.skipped(1, 0, 0));
    }

    #[test]
    fn remainders_equal_those_of_division() {
        for number in [0, 1, MODULUS - 1, MODULUS, MODULUS + 1, MODULUS * MODULUS, (1 << 62) - 1, MODULUS * 5] {
            assert_eq!(reduce(number), number % MODULUS, "{number}");
        }
    }

    #[test]
    fn seeds_are_expanded_as_specified() {
        assert_eq!(MrgState::seeded((2, 3)).0, [3, 1, 4, 1, 1]);
        let all = u64::MAX;
        assert_eq!(MrgState::seeded((all, all)).0, [1 << 30, 1 << 30, 1 << 30, 1 << 30, (15 << 4) + 16]);
    }
}
