//! Matrix elements in double or single precision, their rounding, and a dot product exact enough to check either.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::blas::Real;
use super::random::Elements;
use crate::kernels::arena::Arena;

/// Properties in which the two precisions differ.
pub(super) trait Element: Real + FromBytes + IntoBytes + Immutable {
    /// Unit roundoff: half the distance from 1 to the next number.
    const ROUNDING: f64;
    const ZERO: Self;
    const ONE: Self;
    fn memory(arena: &mut Arena) -> &mut [Self];
    fn random(elements: Elements, row: usize, column: usize) -> Self;
    fn sign(pass: usize) -> Self;
    fn as_f64(self) -> f64;
}

impl Element for f64 {
    const ROUNDING: f64 = f64::EPSILON / 2.0;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn memory(arena: &mut Arena) -> &mut [Self] {
        arena.as_f64()
    }

    fn random(elements: Elements, row: usize, column: usize) -> Self {
        elements.at(row, column)
    }

    fn sign(pass: usize) -> Self {
        if pass.is_multiple_of(2) { 1.0 } else { -1.0 }
    }

    fn as_f64(self) -> f64 {
        self
    }
}

impl Element for f32 {
    const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn memory(arena: &mut Arena) -> &mut [Self] {
        arena.as_f32()
    }

    fn random(elements: Elements, row: usize, column: usize) -> Self {
        elements.at_f32(row, column)
    }

    fn sign(pass: usize) -> Self {
        if pass.is_multiple_of(2) { 1.0 } else { -1.0 }
    }

    fn as_f64(self) -> f64 {
        f64::from(self)
    }
}

/// Returns a dot product as if computed in twice the precision of f64 (Ogita, Rump and Oishi 2005), and the sum of the
/// absolute values of its terms.
pub(super) fn dot(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut sum, mut lost, mut size) = (0.0f64, 0.0f64, 0.0f64);
    for (a, b) in pairs {
        let product = a * b;
        let next = sum + product;
        let back = next - sum;
        lost += a.mul_add(b, -product) + ((sum - (next - back)) + (product - back));
        sum = next;
        size += product.abs();
    }
    (sum + lost, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_product_is_exact_despite_cancellation() {
        let terms = [(1e16, 1.0), (1.0, 1.0), (-1e16, 1.0), (0.5, 0.5)];
        let (sum, size) = dot(terms.into_iter());
        assert_eq!((sum, size), (1.25, 2e16), "plain double precision returns 0.25");
    }
}
