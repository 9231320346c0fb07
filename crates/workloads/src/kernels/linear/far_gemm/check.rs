//! Verifies that C in the file is A B: Freivalds' test of the whole matrix, and dot products of some elements.

use std::sync::{Mutex, PoisonError};

use super::super::element::{Element, dot};
use super::super::random::Elements;
use super::GemmContext;
use super::thread::GemmThread;
use crate::job::Failure;
use crate::random::Random;

/// Number of random vectors in Freivalds' test. Each detects any single wrong element; errors in one row that cancel
/// each other escape a vector with a probability of at most one half.
const VECTORS: usize = 3;
/// Elements per super-tile and thread that are compared with dot products.
const SAMPLED: usize = 16;
/// Freivalds' vectors and their products with the matrices, each as long as a column. Threads sum their shares and then
/// combine them here.
pub(super) struct Sums {
    /// Vectors of ones and minus ones.
    pub r: Vectors,
    pub br: Mutex<Vectors>,
    pub abr: Mutex<Vectors>,
    /// C r, for C as read back from the file.
    pub cr: Mutex<Vectors>,
}

pub(super) type Vectors = [Vec<f64>; VECTORS];

pub(super) fn zeros(n: usize) -> Vectors {
    std::array::from_fn(|_| vec![0.0; n])
}

pub(super) fn add(total: &Mutex<Vectors>, share: &Vectors) {
    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
    for (total, share) in total.iter_mut().flatten().zip(share.iter().flatten()) {
        *total += share;
    }
}

impl Sums {
    pub(super) fn new(n: usize, seed: u64) -> Self {
        let vector = |index| {
            let mut random = Random::of_thread(seed, usize::MAX - index);
            (0..n).map(|_| if random.next() >> 63 == 0 { 1.0 } else { -1.0 }).collect()
        };
        let zero = || Mutex::new(zeros(n));
        Self { r: std::array::from_fn(vector), br: zero(), abr: zero(), cr: zero() }
    }
}

/// Reads this thread's parts of C back from the file, multiplies them with the vectors, and compares some elements with
/// dot products.
pub(super) fn examine<T: Element>(thread: &mut GemmThread<'_, T>) -> Result<(), Failure> {
    let GemmContext { shape, sums, seed, .. } = thread.work;
    let (n, seed) = (shape.n, *seed);
    let mut share = zeros(n);
    let mut random = Random::of_thread(seed, thread.worker.index);
    for row in 0..shape.tiles() {
        for column in 0..shape.tiles() {
            let mut seen: Vec<(usize, usize, f64)> = Vec::new();
            let mut columns = 0;
            thread.read_back(row, column, |column, first, values| {
                for (sum, r) in share.iter_mut().zip(&sums.r) {
                    let factor = r[column];
                    let sum = &mut sum[first..first + values.len()];
                    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.as_f64() * factor);
                }
                columns += 1;
                if values.is_empty() {
                    return;
                }
                let index = random.below(values.len());
                let sample = (first + index, column, values[index].as_f64());
                // Reservoir sampling: each column has the same probability.
                if seen.len() < SAMPLED {
                    seen.push(sample);
                } else {
                    let place = random.below(columns);
                    if place < SAMPLED {
                        seen[place] = sample;
                    }
                }
            })?;
            seen.into_iter().try_for_each(|(row, column, value)| check_element::<T>(n, seed, row, column, value))?;
        }
    }
    add(&sums.cr, &share);
    Ok(())
}

/// Compares an element of C with the dot product of its row and column.
pub(super) fn check_element<T: Element>(
    n: usize,
    seed: u64,
    row: usize,
    column: usize,
    value: f64,
) -> Result<(), Failure> {
    let (a, b) = (Elements::new(seed, 'a'), Elements::new(seed, 'b'));
    let pair = |inner| (T::random(a, row, inner).as_f64(), T::random(b, inner, column).as_f64());
    let (expected, size) = dot((0..n).map(pair));
    // The error bound for any order of summation; the additional unit is the rounding of the store.
    let tolerance = (n + 1) as f64 * T::ROUNDING * size;
    if (value - expected).abs() <= tolerance {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "wrong product: C({row}, {column}) in the file is {value}, expected {expected} with tolerance {tolerance:e}"
    )))
}

/// Freivalds' test with the bound that `gemm` explains.
pub(super) fn compare<T: Element>(sums: &Sums, n: usize) -> Result<(), Failure> {
    let tolerance = T::ROUNDING * n as f64 * (n as f64).sqrt();
    let lock = |sum: &Mutex<Vectors>| sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (left, right) = (lock(&sums.cr), lock(&sums.abr));
    for (left, right) in left.iter().zip(&right) {
        // NaN differences fail as well.
        let near = |(left, right): (&f64, &f64)| (left - right).abs() <= tolerance;
        if let Some(row) = left.iter().zip(right).position(|pair| !near(pair)) {
            return Err(Failure::Failed(format!(
                "wrong product: row {row} of C in the file times a vector is {}, but of A times B times it {}; the \
                 tolerance is {tolerance:e}",
                left[row], right[row]
            )));
        }
    }
    Ok(())
}
