//! The linear algebra of the model: Cholesky factors of small matrices, and low-rank factors of large ones. Must not
//! depend on what the numbers mean.

/// A symmetric matrix of `size` rows, all entries stored row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Square {
    pub size: usize,
    pub values: Vec<f64>,
}

/// The lower triangular factor of a positive definite matrix.
#[derive(Clone, Debug)]
pub(super) struct Cholesky(Square);

/// A covariance as the product of a tall matrix with its transpose, plus a diagonal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LowRank {
    /// Number of columns of the factor.
    pub rank: usize,
    /// The factor, row by row.
    factor: Vec<f64>,
    /// Variance that the factor does not explain, by row.
    pub rest: Vec<f64>,
}

/// Minimum pivot: entries below are rounding errors.
const PIVOT_MIN: f64 = 1e-12;

impl Square {
    pub fn zero(size: usize) -> Self {
        Self { size, values: vec![0.0; size * size] }
    }

    /// Creates a symmetric matrix from the entries of its lower triangle.
    pub fn symmetric(size: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let mut square = Self::zero(size);
        for row in 0..size {
            for column in 0..=row {
                let value = entry(row, column);
                square.values[row * size + column] = value;
                square.values[column * size + row] = value;
            }
        }
        square
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.size..(row + 1) * self.size]
    }

    pub fn add(&mut self, factor: f64, other: &Self) {
        self.values.iter_mut().zip(&other.values).for_each(|(value, other)| *value += factor * other);
    }

    pub fn add_to_diagonal(&mut self, row: usize, value: f64) {
        self.values[row * self.size + row] += value;
    }
}

impl Cholesky {
    /// Returns the factor of a matrix; non-positive pivots are raised to the smallest allowed.
    pub fn new(mut matrix: Square) -> Self {
        let size = matrix.size;
        for row in 0..size {
            let (above, rest) = matrix.values.split_at_mut(row * size);
            let current = &mut rest[..size];
            for column in 0..row {
                let other = &above[column * size..column * size + size];
                let sum = current[column] - dot(&current[..column], &other[..column]);
                current[column] = sum / other[column];
            }
            let pivot = current[row] - dot(&current[..row], &current[..row]);
            current[row] = pivot.max(PIVOT_MIN).sqrt();
            current[row + 1..].fill(0.0);
        }
        Self(matrix)
    }

    /// Returns the sum of the logarithms of the pivots: half of the logarithm of the determinant.
    pub fn log_determinant_half(&self) -> f64 {
        (0..self.0.size).map(|row| self.0.row(row)[row].ln()).sum()
    }

    /// Solves with the lower factor only.
    pub fn forward(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = Vec::with_capacity(right.len());
        for (row, value) in right.iter().enumerate() {
            let factors = self.0.row(row);
            let sum = value - dot(&factors[..row], &solution);
            solution.push(sum / factors[row]);
        }
        solution
    }

    /// Solves with the matrix.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = self.forward(right);
        for row in (0..solution.len()).rev() {
            let factors = self.0.row(row);
            solution[row] /= factors[row];
            let value = solution[row];
            solution[..row].iter_mut().zip(factors).for_each(|(other, factor)| *other -= factor * value);
        }
        solution
    }

    /// Returns the diagonal of the inverse.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        let size = self.0.size;
        let unit = |index: usize| (0..size).map(|row| f64::from(u8::from(row == index))).collect::<Vec<_>>();
        let entry = |index: usize| {
            let column = self.forward(&unit(index));
            dot(&column, &column)
        };
        (0..size).map(entry).collect()
    }
}

impl LowRank {
    /// Approximates a covariance by the columns of its largest remaining variances (pivoted Cholesky factorisation:
    /// Harbrecht, Peters and Schneider, Applied Numerical Mathematics 62, 2012), which needs only its diagonal and
    /// `rank` of its columns.
    pub fn new(diagonal: Vec<f64>, rank: usize, column: impl Fn(usize) -> Vec<f64>) -> Self {
        let (rows, mut rest) = (diagonal.len(), diagonal);
        let mut columns: Vec<Vec<f64>> = Vec::new();
        while columns.len() < rank {
            let largest = (0..rows).max_by(|one, other| rest[*one].total_cmp(&rest[*other]).then(other.cmp(one)));
            let Some(pivot) = largest.filter(|pivot| rest[*pivot] > PIVOT_MIN) else { break };
            let scale = rest[pivot].sqrt();
            let mut next = column(pivot);
            for known in &columns {
                let factor = known[pivot];
                next.iter_mut().zip(known).for_each(|(value, known)| *value -= factor * known);
            }
            next.iter_mut().for_each(|value| *value /= scale);
            rest.iter_mut().zip(&next).for_each(|(rest, value)| *rest = (*rest - value * value).max(0.0));
            rest[pivot] = 0.0;
            columns.push(next);
        }
        let rank = columns.len();
        let factor = (0..rows).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
        Self { rank, factor, rest }
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.factor[row * self.rank..(row + 1) * self.rank]
    }
}

pub(super) fn dot(one: &[f64], other: &[f64]) -> f64 {
    // Four sums, because the compiler may not reorder a single one.
    let mut sums = [0.0; 4];
    let (chunks, rest) = (one.len() / 4, one.len() / 4 * 4);
    for index in 0..chunks {
        let (a, b) = (&one[4 * index..4 * index + 4], &other[4 * index..4 * index + 4]);
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    let tail: f64 = one[rest..].iter().zip(&other[rest..]).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that is positive definite.
    fn kernel(size: usize) -> Square {
        Square::symmetric(size, |row, column| (-((row as f64 - column as f64) / 3.0).powi(2)).exp())
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-8
    }

    #[test]
    fn solution_satisfies_the_equations() {
        let mut matrix = kernel(9);
        (0..9).for_each(|row| matrix.add_to_diagonal(row, 0.1));
        let right: Vec<f64> = (0..9).map(|row| f64::from(row * row % 7) - 2.0).collect();
        let solution = Cholesky::new(matrix.clone()).solve(&right);
        for (row, expected) in right.iter().enumerate() {
            assert!(close(dot(matrix.row(row), &solution), *expected), "{row}");
        }
    }

    #[test]
    fn inverse_and_determinant_of_a_diagonal_matrix_are_known() {
        let matrix = Square::symmetric(3, |row, column| if row == column { [4.0, 9.0, 1.0][row] } else { 0.0 });
        let factor = Cholesky::new(matrix);
        assert!(close(factor.log_determinant_half(), 6f64.ln()));
        let diagonal = factor.inverse_diagonal();
        assert!(close(diagonal[0], 0.25) && close(diagonal[1], 1.0 / 9.0) && close(diagonal[2], 1.0), "{diagonal:?}");
    }

    #[test]
    fn low_rank_factor_keeps_the_diagonal_and_nearly_the_rest() {
        let matrix = kernel(30);
        let low = LowRank::new(vec![1.0; 30], 20, |column| matrix.row(column).to_vec());
        for row in 0..30 {
            assert!(close(dot(low.row(row), low.row(row)) + low.rest[row], 1.0), "{row}");
            for column in 0..row {
                let error = dot(low.row(row), low.row(column)) - matrix.row(row)[column];
                // The remainder is a covariance, so its entries are bounded by its diagonal.
                let bound = (low.rest[row] * low.rest[column]).sqrt() + 1e-9;
                assert!(error.abs() <= bound && bound < 0.01, "{row} {column}: {error} {bound}");
            }
        }
    }

    #[test]
    fn low_rank_factor_of_a_plane_has_two_columns() {
        let of = |row: usize| [row as f64, 1.0 - 0.1 * row as f64];
        let entry = |row: usize, column: usize| of(row)[0] * of(column)[0] + of(row)[1] * of(column)[1];
        let diagonal = (0..12).map(|row| entry(row, row)).collect();
        let low = LowRank::new(diagonal, 8, |column| (0..12).map(|row| entry(row, column)).collect());
        assert_eq!(low.rank, 2);
        assert!(low.rest.iter().all(|rest| *rest < 1e-9), "{:?}", low.rest);
    }
}
