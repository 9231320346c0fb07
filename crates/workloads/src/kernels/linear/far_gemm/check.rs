//! Whether C in the file is A B: Freivalds' test of all of it, and dot products of some of its elements.

use std::sync::{Mutex, PoisonError};

use super::super::element::{Element, dot};
use super::super::random::Elements;
use super::GemmContext;
use super::thread::GemmThread;
use crate::job::Failure;
use crate::random::Random;

/// Random vectors of Freivalds' test. A single wrong element is found by each, errors in one row that cancel each other are
/// missed by one at most every second time.
const VECTORS: usize = 3;
/// Elements of each thread's part of each super-tile that are compared with dot products.
const SAMPLED: usize = 16;
/// Freivalds' vectors and what the matrices make of them, each as long as a column. Threads add up their own shares and then
/// put them together here.
pub(super) struct Sums {
    /// Of ones and minus ones.
    pub r: Vectors,
    pub br: Mutex<Vectors>,
    pub abr: Mutex<Vectors>,
    /// C r, of C as it is in the file.
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

/// Reads this thread's parts of C back from the file: times the vectors, and some elements against dot products.
pub(super) fn examine<T: Element>(lane: &mut GemmThread<'_, T>) -> Result<(), Failure> {
    let GemmContext { shape, sums, seed, .. } = lane.work;
    let (n, seed) = (shape.n, *seed);
    let mut share = zeros(n);
    let mut random = Random::of_thread(seed, lane.member.index);
    for row in 0..shape.tiles() {
        for column in 0..shape.tiles() {
            let mut seen: Vec<(usize, usize, f64)> = Vec::new();
            let mut columns = 0;
            lane.read_back(row, column, |column, first, values| {
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
                // So that each column has the same chance (reservoir sampling).
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

/// One element of C against the dot product of the row and the column that made it.
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
    // The bound of any order of summing up; the last unit is the store's.
    let tolerance = (n + 1) as f64 * T::ROUNDING * size;
    if (value - expected).abs() <= tolerance {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "the product is wrong: C({row}, {column}) in the file is {value}, it should be {expected} give or take {tolerance:e}"
    )))
}

/// Freivalds' test, with the bound that `gemm` explains.
pub(super) fn compare<T: Element>(sums: &Sums, n: usize) -> Result<(), Failure> {
    let tolerance = T::ROUNDING * n as f64 * (n as f64).sqrt();
    let lock = |sum: &Mutex<Vectors>| sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (left, right) = (lock(&sums.cr), lock(&sums.abr));
    for (left, right) in left.iter().zip(&right) {
        // A difference that is no number is not near either.
        let near = |(left, right): (&f64, &f64)| (left - right).abs() <= tolerance;
        if let Some(row) = left.iter().zip(right).position(|pair| !near(pair)) {
            return Err(Failure::Failed(format!(
                "the product is wrong: row {row} of C in the file times a vector is {}, of A times B times it {}; they may \
                 differ by {tolerance:e}",
                left[row], right[row]
            )));
        }
    }
    Ok(())
}
