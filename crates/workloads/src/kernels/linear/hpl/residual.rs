//! HPL's test of a solution: the difference of A x and b, scaled by the expected rounding error. A and b are generated
//! again, column by column, because the factorisation has overwritten them.

use std::sync::atomic::AtomicUsize;

use super::super::random::Elements;
use super::super::tile::Tile;
use super::draw;

/// Columns that a thread takes at once.
const COLUMNS: usize = 32;

/// Sums over some columns, or over all.
pub(super) struct Residual {
    /// A x - b by row.
    residuals: Vec<f64>,
    sizes: Vec<f64>,
    x_max: f64,
    b_max: f64,
}

impl Residual {
    /// Sums the columns that this thread draws. The last column of the matrix holds x.
    #[allow(unsafe_code)]
    pub(super) fn part(matrix: Tile<'_, f64>, elements: Elements, next: &AtomicUsize) -> Self {
        let n = matrix.rows();
        // SAFETY: all threads have passed the barrier after the last write to the solution.
        let x = unsafe { matrix.column(n) };
        let mut part = Self { residuals: vec![0.0; n], sizes: vec![0.0; n], x_max: 0.0, b_max: 0.0 };
        while let Some(columns) = draw(next, n + 1, |_| COLUMNS) {
            columns.for_each(|column| part.add(elements, x, column));
        }
        part
    }

    fn add(&mut self, elements: Elements, x: &[f64], column: usize) {
        if column == x.len() {
            for (row, residuals) in self.residuals.iter_mut().enumerate() {
                let b = elements.at(row, column);
                *residuals -= b;
                self.b_max = largest(self.b_max, b);
            }
            return;
        }
        self.x_max = largest(self.x_max, x[column]);
        for (row, (residuals, size)) in self.residuals.iter_mut().zip(&mut self.sizes).enumerate() {
            let a = elements.at(row, column);
            *residuals += a * x[column];
            *size += a.abs();
        }
    }

    pub(super) fn sum(parts: impl Iterator<Item = Self>) -> Self {
        let together = |mut all: Self, part: Self| {
            all.residuals.iter_mut().zip(part.residuals).for_each(|(sum, residuals)| *sum += residuals);
            all.sizes.iter_mut().zip(part.sizes).for_each(|(sum, size)| *sum += size);
            all.x_max = largest(all.x_max, part.x_max);
            all.b_max = largest(all.b_max, part.b_max);
            all
        };
        parts.reduce(together).expect("a team has at least one thread")
    }

    pub(super) fn scaled(&self) -> f64 {
        let most = |values: &[f64]| values.iter().copied().fold(0.0, largest);
        let eps = f64::EPSILON / 2.0;
        most(&self.residuals) / (eps * (most(&self.sizes) * self.x_max + self.b_max) * self.residuals.len() as f64)
    }
}

/// Returns the larger absolute value; NaN propagates.
fn largest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b.abs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system of two equations with its solution by Cramer's rule.
    fn two(elements: Elements) -> [f64; 2] {
        let a = |row, column| elements.at(row, column);
        let determinant = a(0, 0) * a(1, 1) - a(0, 1) * a(1, 0);
        [(a(0, 2) * a(1, 1) - a(0, 1) * a(1, 2)) / determinant, (a(0, 0) * a(1, 2) - a(0, 2) * a(1, 0)) / determinant]
    }

    fn scaled(elements: Elements, x: [f64; 2]) -> f64 {
        let mut memory = [0.0, 0.0, 0.0, 0.0, x[0], x[1]];
        let matrix = Tile::new(&mut memory, 2, 3, 2);
        let next = AtomicUsize::new(0);
        Residual::sum((0..2).map(|_| Residual::part(matrix, elements, &next))).scaled()
    }

    #[test]
    fn correct_solutions_pass_and_wrong_ones_fail() {
        let elements = Elements::new(3, 'a');
        let x = two(elements);
        assert!(scaled(elements, x) < 16.0);
        assert!(scaled(elements, [x[0] * (1.0 + 1e-12), x[1]]) > 16.0);
        assert!(scaled(Elements::new(4, 'a'), x) > 1e10, "the solution of another system");
        for wrong in [f64::NAN, f64::INFINITY] {
            let scaled = scaled(elements, [x[0], wrong]);
            assert!(super::super::check_residual(scaled).is_err(), "{scaled}");
        }
    }
}
