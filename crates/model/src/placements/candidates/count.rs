//! Large numbers of placements, which may exceed 2^64, and polynomials that count classes by number of threads.
//! Independent of machines.

use std::cmp::Ordering;
use std::fmt;

/// A number of placements, exact below 10^12 and with twelve digits above. A machine with 1152 CPUs has 10^347 raw
/// placements, more than an f64 can represent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Zero, or between 2^-256 and 2^256, so that the product of two fits into an f64.
    mantissa: f64,
    /// The value is `mantissa * 2^(512 * exponent)`.
    exponent: i32,
}

/// 2^256, the mantissa from which 2^512 is carried to the exponent; and 2^512.
const CARRY_FROM: f64 = (1_u128 << 127) as f64 * (1_u128 << 127) as f64 * 4.0;
const CARRY: f64 = CARRY_FROM * CARRY_FROM;

impl Count {
    pub const ZERO: Self = Self { mantissa: 0.0, exponent: 0 };
    pub const ONE: Self = Self { mantissa: 1.0, exponent: 0 };

    pub fn new(number: usize) -> Self {
        Self { mantissa: number as f64, exponent: 0 }
    }

    /// `n` over `k`: the number of subsets of size `k`.
    pub fn choose(n: usize, k: usize) -> Self {
        let k = k.min(n.saturating_sub(k));
        (0..k).fold(Self::ONE, |count, step| count.times(Self::new(n - step)).over(step + 1))
    }

    pub fn two_to(power: usize) -> Self {
        (0..power).fold(Self::ONE, |count, _| count.times(Self::new(2)))
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        if self.mantissa == 0.0 || other.mantissa == 0.0 {
            return if self.mantissa == 0.0 { other } else { self };
        }
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let scaled = match large.exponent - small.exponent {
            0 => small.mantissa,
            1 => small.mantissa / CARRY,
            _ => 0.0,
        };
        Self { mantissa: large.mantissa + scaled, exponent: large.exponent }.carried()
    }

    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { mantissa: self.mantissa * other.mantissa, exponent: self.exponent + other.exponent }.carried()
    }

    /// Divides by a number that is a factor of this one.
    #[must_use]
    pub fn over(self, divisor: usize) -> Self {
        Self { mantissa: self.mantissa / divisor as f64, exponent: self.exponent }.carried()
    }

    /// Subtracts one; zero stays zero.
    #[must_use]
    pub fn less_one(self) -> Self {
        if self.exponent == 0 { Self { mantissa: (self.mantissa - 1.0).max(0.0), exponent: 0 } } else { self }
    }

    /// Converts to an f64; infinite if the number is too large.
    pub fn as_f64(self) -> f64 {
        match self.exponent {
            0 => self.mantissa,
            1 => self.mantissa * CARRY,
            negative if negative < 0 => self.mantissa / CARRY,
            _ => f64::INFINITY,
        }
    }

    fn carried(mut self) -> Self {
        if self.mantissa >= CARRY_FROM {
            self = Self { mantissa: self.mantissa / CARRY, exponent: self.exponent + 1 };
        } else if self.mantissa > 0.0 && self.mantissa < 1.0 / CARRY_FROM {
            self = Self { mantissa: self.mantissa * CARRY, exponent: self.exponent - 1 };
        }
        self
    }

    fn log10(self) -> f64 {
        self.mantissa.log10() + f64::from(self.exponent) * 512.0 * std::f64::consts::LOG10_2
    }
}

impl PartialOrd for Count {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.mantissa == 0.0 || other.mantissa == 0.0 {
            return self.mantissa.partial_cmp(&other.mantissa);
        }
        (self.exponent, self.mantissa).partial_cmp(&(other.exponent, other.mantissa))
    }
}

/// Prints all digits below a million, then `3.7e7`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.exponent == 0 && self.mantissa < 1e6 {
            return f.pad(&format!("{:.0}", self.mantissa));
        }
        let mut power = self.log10().floor();
        let mut leading = 10f64.powf(self.log10() - power);
        if leading >= 9.95 {
            (leading, power) = (1.0, power + 1.0);
        }
        f.pad(&format!("{leading:.1}e{power:.0}"))
    }
}

/// Number type of polynomials: f64, or [`Count`] after an overflow, which is several times slower.
pub(super) trait Number: Copy + PartialEq {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, divisor: usize) -> Self;
    fn from_size(number: usize) -> Self;
    /// `None` after an overflow.
    fn counted(self) -> Option<Count>;
}

impl Number for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn over(self, divisor: usize) -> Self {
        self / divisor as f64
    }
    fn from_size(number: usize) -> Self {
        number as f64
    }
    fn counted(self) -> Option<Count> {
        self.is_finite().then(|| Count { mantissa: self, exponent: 0 }.carried())
    }
}

impl Number for Count {
    const ZERO: Self = Self::ZERO;
    const ONE: Self = Self::ONE;
    fn plus(self, other: Self) -> Self {
        Self::plus(self, other)
    }
    fn times(self, other: Self) -> Self {
        Self::times(self, other)
    }
    fn over(self, divisor: usize) -> Self {
        Self::over(self, divisor)
    }
    fn from_size(number: usize) -> Self {
        Self::new(number)
    }
    fn counted(self) -> Option<Count> {
        Some(self)
    }
}

/// Counts by number of threads: `polynomial[t]` is the number for t threads.
pub(super) type Polynomial<N> = Vec<N>;

/// Returns the product without the terms above `degree`.
pub(super) fn product<N: Number>(one: &[N], other: &[N], degree: usize) -> Polynomial<N> {
    // The longer polynomial is used in the inner loop.
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let mut result = Vec::new();
    add_product(&mut result, short, 1, long, degree);
    result
}

/// Adds the product of `factors`, with x replaced by x to the power `step`, and `terms` to a polynomial.
fn add_product<N: Number>(total: &mut Polynomial<N>, factors: &[N], step: usize, terms: &[N], degree: usize) {
    let top = ((factors.len() * step + terms.len()).saturating_sub(1 + step)).min(degree);
    if total.len() <= top {
        total.resize(top + 1, N::ZERO);
    }
    for (index, factor) in factors.iter().enumerate().take_while(|(index, _)| index * step <= top) {
        if *factor != N::ZERO {
            for (sum, term) in total[index * step..=top].iter_mut().zip(terms) {
                *sum = sum.plus(factor.times(*term));
            }
        }
    }
}

pub(super) fn sum<N: Number>(one: &[N], other: &[N]) -> Polynomial<N> {
    let at = |polynomial: &[N], index: usize| polynomial.get(index).copied().unwrap_or(N::ZERO);
    (0..one.len().max(other.len())).map(|index| at(one, index).plus(at(other, index))).collect()
}

/// Returns the polynomial with x replaced by x to the power `step`.
pub(super) fn stretched<N: Number>(polynomial: &[N], step: usize, degree: usize) -> Polynomial<N> {
    let top = (polynomial.len().saturating_sub(1) * step).min(degree);
    let mut result = vec![N::ZERO; top + 1];
    polynomial.iter().enumerate().take_while(|(power, _)| power * step <= top).for_each(|(power, count)| {
        result[power * step] = *count;
    });
    result
}

/// Returns the multisets of sizes 0 to `size` of the objects that a polynomial counts: Pólya's enumeration with the
/// cycle index of the symmetric group, by k h(k) = sum over j of p(x^j) h(k - j).
pub(super) fn multisets<N: Number>(objects: &[N], size: usize, degree: usize) -> Vec<Polynomial<N>> {
    let mut sets: Vec<Polynomial<N>> = vec![vec![N::ONE]];
    for k in 1..=size {
        let mut total = Vec::new();
        (1..=k).for_each(|j| add_product(&mut total, objects, j, &sets[k - j], degree));
        sets.push(total.into_iter().map(|count| count.over(k)).collect());
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_above_the_range_of_f64_keep_their_magnitude() {
        let cases = [
            (Count::new(0), "0"),
            (Count::choose(96, 2), "4560"),
            (Count::choose(12, 6), "924"),
            (Count::new(999_999), "999999"),
            (Count::new(1_000_000), "1.0e6"),
            (Count::new(99_999_999), "1.0e8"),
            (Count::choose(1152, 32), "2.3e62"),
            (Count::choose(1152, 576), "1.4e345"),
            (Count::two_to(1152), "6.1e346"),
            (Count::two_to(2000).times(Count::two_to(2000)), "1.3e1204"),
            (Count::two_to(700).plus(Count::two_to(700)).over(2), "5.3e210"),
            (Count::two_to(600).plus(Count::ZERO), "4.1e180"),
            (Count::ZERO.plus(Count::two_to(600)), "4.1e180"),
        ];
        for (count, expected) in cases {
            assert_eq!(count.to_string(), expected);
        }
        assert!(
            Count::two_to(600) > Count::new(5) && Count::new(5) > Count::ZERO && Count::two_to(9) < Count::two_to(700)
        );
        assert_eq!(
            (Count::new(7).as_f64(), Count::new(7).less_one(), Count::ZERO.less_one()),
            (7.0, Count::new(6), Count::ZERO)
        );
    }

    /// The number of multisets of size k of n distinct objects is n + k - 1 over k.
    #[test]
    fn multisets_of_distinct_objects_are_counted() {
        for (objects, size) in [(1, 1), (2, 3), (5, 4), (7, 9)] {
            let sets = multisets(&[Count::new(objects)], size, 0);
            assert_eq!(sets[size], vec![Count::choose(objects + size - 1, size)], "{size} of {objects}");
        }
        // Four equivalent CPUs: one class per number of threads.
        assert_eq!(multisets(&[Count::ONE, Count::ONE], 4, 4)[4], vec![Count::ONE; 5]);
        assert_eq!(multisets(&[Count::ONE, Count::ONE], 4, 2)[4], vec![Count::ONE; 3]);
        assert_eq!(multisets(&[1.0, 1.0], 4, 4)[4], vec![1.0; 5]);
    }

    #[test]
    fn overflowed_floats_are_not_counted() {
        assert_eq!(1e300.counted().map(|count| count.to_string()), Some("1.0e300".into()));
        assert_eq!(1e300.times(1e300).counted(), None);
    }
}
