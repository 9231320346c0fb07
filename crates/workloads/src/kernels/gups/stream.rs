//! The numbers of `RandomAccess`: x^0, x^1, x^2 and so on modulo x^64 + x^2 + x + 1 over GF(2); the bits of a number
//! are the coefficients. Any position of the stream is reached by squaring, so threads can start anywhere.

/// x^64 modulo the polynomial: x^2 + x + 1.
const POLYNOMIAL: u64 = 0b111;

/// Numbers that are generated in parallel, so that none waits for the previous one. A batch is a multiple of this.
const LANES: usize = 16;

/// The next number: times x.
#[inline]
pub(super) fn after(number: u64) -> u64 {
    (number << 1) ^ if number >> 63 == 1 { POLYNOMIAL } else { 0 }
}

pub(super) fn nth(n: u64) -> u64 {
    let mut power = 1;
    for bit in (0..u64::BITS - n.leading_zeros()).rev() {
        power = times(power, power);
        if n >> bit & 1 == 1 {
            power = after(power);
        }
    }
    power
}

fn times(a: u64, b: u64) -> u64 {
    (0..64).rev().fold(0, |sum, bit| after(sum) ^ if b >> bit & 1 == 1 { a } else { 0 })
}

/// The stream from one position on, one batch at a time.
pub(super) struct Lanes([u64; LANES]);

impl Lanes {
    /// Starts after the number x^n.
    pub(super) fn at(n: u64) -> Self {
        let mut number = nth(n);
        Self([(); LANES].map(|()| {
            number = after(number);
            number
        }))
    }

    /// Generates the next numbers in order.
    #[inline]
    pub(super) fn fill<const COUNT: usize>(&mut self, numbers: &mut [u64; COUNT]) {
        const { assert!(COUNT.is_multiple_of(LANES), "the batch size must be a multiple of the number of lanes") };
        for round in numbers.chunks_exact_mut(LANES) {
            round.copy_from_slice(&self.0);
            for number in &mut self.0 {
                *number = leap(*number);
            }
        }
    }
}

/// Times x^16: the upper bits wrap around as multiples of x^2 + x + 1, and fit again.
#[inline]
fn leap(number: u64) -> u64 {
    let over = number >> (64 - LANES);
    (number << LANES) ^ over ^ (over << 1) ^ (over << 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nth_equals_repeated_steps() {
        let mut number = 1;
        for n in 0..2000 {
            assert_eq!(nth(n), number, "{n}");
            number = after(number);
        }
        assert_eq!(nth(64), POLYNOMIAL);
        // The period that HPC Challenge states for its polynomial.
        assert_eq!(nth(1_317_624_576_693_539_401), 1);
        assert_eq!(nth(u64::MAX), times(nth(u64::MAX / 2), after(nth(u64::MAX / 2))));
    }

    #[test]
    fn batches_follow_the_stream_in_order() {
        for start in [0, 1, 15, 1000, 1 << 40] {
            let mut lanes = Lanes::at(start);
            let mut number = nth(start);
            for _ in 0..5 {
                let mut numbers = [0; 64];
                lanes.fill(&mut numbers);
                for found in numbers {
                    number = after(number);
                    assert_eq!(found, number);
                }
            }
        }
    }
}
