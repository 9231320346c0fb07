//! Multithreaded LU factorisation with partial pivoting, right-looking, by blocks of columns, and the back
//! substitution. The right-hand side is the last column and is processed like any other, so the rows of L are never
//! swapped again, as in HPL.
//!
//! While the other threads still update the trailing matrix, the first thread updates and factors the next block
//! (look-ahead by one block). This hides the serial work as long as it is shorter.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::blas::Blas;
use super::super::grid;
use super::super::tile::Tile;
use super::draw;
use crate::job::Failure;
use crate::team::Worker;

/// Panels with at most this many columns are factored column by column; larger ones by halves, so that most of the work
/// is a product.
const LEAF: usize = 8;

/// State shared by the threads.
pub(super) struct Factorisation<'m> {
    blas: &'m Blas,
    /// n rows, n + 1 columns.
    matrix: Tile<'m, f64>,
    nb: usize,
    threads: usize,
    /// Pivot row of each row; written by the first thread before a barrier, read by all threads after it.
    pivots: Vec<AtomicUsize>,
    /// By block, the number of columns after the next block that are taken.
    taken: Vec<AtomicUsize>,
}

impl<'m> Factorisation<'m> {
    pub(super) fn new(blas: &'m Blas, matrix: Tile<'m, f64>, nb: usize, threads: usize) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicUsize::new(0)).collect();
        let n = matrix.rows();
        Self { blas, matrix, nb, threads, pivots: zeros(n), taken: zeros(n.div_ceil(nb)) }
    }

    /// Runs each thread's share; at the end, the last column holds the solution.
    pub(super) fn run(&self, worker: &Worker<'_>) -> Result<(), Failure> {
        let n = self.matrix.rows();
        if worker.index == 0 {
            self.factor(&self.block(0));
        }
        worker.barrier()?;
        for index in 0..self.taken.len() {
            let (block, next) = (self.block(index), self.block(index + 1));
            if worker.index == 0 && !next.is_empty() {
                self.update(&block, next.clone());
                self.factor(&next);
            }
            while let Some(columns) = draw(&self.taken[index], n + 1 - next.end, |remaining| self.share(remaining)) {
                self.update(&block, next.end + columns.start..next.end + columns.end);
            }
            worker.barrier()?;
        }
        self.substitute(worker)
    }

    /// The columns of a block; empty after the last one.
    fn block(&self, index: usize) -> Range<usize> {
        let n = self.matrix.rows();
        (index * self.nb).min(n)..((index + 1) * self.nb).min(n)
    }

    /// Number of the remaining columns that a thread takes at once: half of its share, so that the last pieces are
    /// small and all threads end together; but at least one block, because the library copies all of L for each piece.
    fn share(&self, remaining: usize) -> usize {
        if self.threads == 1 { remaining } else { (remaining / (2 * self.threads)).next_multiple_of(8).max(self.nb) }
    }

    /// Factors the columns of a block from its first row on, and stores the pivots.
    fn factor(&self, block: &Range<usize>) {
        let panel = self.matrix.part(block.start..self.matrix.rows(), block.clone());
        let mut pivots = vec![0; block.len()];
        // SAFETY: only the first thread calls this, and no other thread accesses these columns until the next barrier.
        unsafe { factor_panel(self.blas, panel, &mut pivots) };
        for (row, pivot) in pivots.into_iter().enumerate() {
            self.pivots[block.start + row].store(block.start + pivot, Ordering::Relaxed);
        }
    }

    /// Applies a factored block to columns to its right: swaps, the rows of U, and the product below.
    fn update(&self, block: &Range<usize>, columns: Range<usize>) {
        let n = self.matrix.rows();
        // SAFETY: only this thread has these columns, and those of the block are only read until the next barrier.
        unsafe {
            for column in columns.clone() {
                let values = self.matrix.part(0..n, column..column + 1).column_mut(0);
                for row in block.clone() {
                    values.swap(row, self.pivots[row].load(Ordering::Relaxed));
                }
            }
            let u = self.matrix.part(block.clone(), columns.clone());
            self.blas.solve_lower(self.matrix.part(block.clone(), block.clone()), u);
            if block.end < n {
                let l = self.matrix.part(block.end..n, block.clone());
                self.blas.gemm(-1.0, l, u, 1.0, self.matrix.part(block.end..n, columns));
            }
        }
    }

    /// Solves U x = y from the last block to the first: one thread solves the block, all threads subtract it from the
    /// rows above.
    fn substitute(&self, worker: &Worker<'_>) -> Result<(), Failure> {
        let n = self.matrix.rows();
        for index in (0..self.taken.len()).rev() {
            let block = self.block(index);
            let x = self.matrix.part(block.clone(), n..n + 1);
            if worker.index == 0 {
                // SAFETY: the other threads wait at the barrier.
                unsafe { self.blas.solve_upper(self.matrix.part(block.clone(), block.clone()), x) };
            }
            worker.barrier()?;
            let borders = grid::borders(block.start, self.threads, 8);
            let rows = borders[worker.index]..borders[worker.index + 1];
            if !rows.is_empty() {
                let above = self.matrix.part(rows.clone(), block.clone());
                // SAFETY: each thread has separate rows, and x is only read now.
                unsafe { self.blas.subtract_product(above, x, self.matrix.part(rows, n..n + 1)) };
            }
            worker.barrier()?;
        }
        Ok(())
    }
}

/// Factors a panel with at least as many rows as columns in place, recursively (Toledo 1997): the left half, then its
/// effect on the right half, then the right half. `pivots` are rows of the panel.
///
/// # Safety
/// No other thread may access the panel during the call.
unsafe fn factor_panel(blas: &Blas, panel: Tile<'_, f64>, pivots: &mut [usize]) {
    let (rows, columns) = (panel.rows(), panel.columns());
    // SAFETY: guaranteed by the caller; the parts that a call writes do not overlap those that it reads.
    unsafe {
        if columns <= LEAF {
            return factor_leaf(blas, panel, pivots);
        }
        let half = columns / 2;
        let (remaining, right) = (panel.part(0..rows, 0..half), panel.part(0..rows, half..columns));
        factor_panel(blas, remaining, &mut pivots[..half]);
        swap_rows(right, 0, &pivots[..half]);
        let (u, below) = (right.part(0..half, 0..columns - half), right.part(half..rows, 0..columns - half));
        blas.solve_lower(remaining.part(0..half, 0..half), u);
        blas.gemm(-1.0, remaining.part(half..rows, 0..half), u, 1.0, below);
        factor_panel(blas, below, &mut pivots[half..]);
        pivots[half..].iter_mut().for_each(|pivot| *pivot += half);
        swap_rows(remaining, half, &pivots[half..]);
    }
}

/// Like [`factor_panel`], but column by column.
///
/// # Safety
/// As for [`factor_panel`].
unsafe fn factor_leaf(blas: &Blas, panel: Tile<'_, f64>, pivots: &mut [usize]) {
    let (rows, columns) = (panel.rows(), panel.columns());
    for step in 0..columns {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let pivot = step + blas.largest(&panel.column(step)[step..]);
            pivots[step] = pivot;
            swap_rows(panel, step, &[pivot]);
            let values = panel.column_mut(step);
            let factor = values[step];
            values[step + 1..].iter_mut().for_each(|value| *value /= factor);
            if step + 1 < columns && step + 1 < rows {
                let l = panel.part(step + 1..rows, step..step + 1);
                let u = panel.part(step..step + 1, step + 1..columns);
                blas.subtract_outer(l, u, panel.part(step + 1..rows, step + 1..columns));
            }
        }
    }
}

/// Swaps the rows from `first` on with those in `pivots`, in this order.
///
/// # Safety
/// No other thread may access the tile during the call.
unsafe fn swap_rows(tile: Tile<'_, f64>, first: usize, pivots: &[usize]) {
    for column in 0..tile.columns() {
        // SAFETY: guaranteed by the caller.
        let values = unsafe { tile.column_mut(column) };
        pivots.iter().enumerate().for_each(|(row, pivot)| values.swap(first + row, *pivot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;

    /// P A = L U, element by element.
    #[test]
    fn product_of_factors_equals_the_pivoted_rows() {
        let blas = match Blas::load(&job_for_tests("hpl")) {
            Ok(blas) => blas,
            Err(failure) => return println!("skipped: hpl: {failure}"),
        };
        blas.set_single_thread().unwrap();
        for (rows, columns) in [(1, 1), (9, 8), (40, 40), (100, 33)] {
            let elements = super::super::Elements::new(1, 'a');
            let mut memory: Vec<f64> =
                (0..rows * columns).map(|place| elements.at(place % rows, place / rows)).collect();
            let mut expected: Vec<usize> = (0..rows).collect();
            let mut pivots = vec![0; columns];
            // SAFETY: only this thread has the memory.
            unsafe { factor_panel(&blas, Tile::new(&mut memory, rows, columns, rows), &mut pivots) };
            pivots.iter().enumerate().for_each(|(row, pivot)| expected.swap(row, *pivot));
            let factor = |row: usize, column: usize| memory[column * rows + row];
            for (row, original) in expected.iter().enumerate() {
                for column in 0..columns {
                    let l = |inner: usize| if inner == row { 1.0 } else { factor(row, inner) };
                    let product: f64 = (0..=row.min(column)).map(|inner| l(inner) * factor(inner, column)).sum();
                    assert!(
                        (product - elements.at(*original, column)).abs() < 1e-13,
                        "{rows} x {columns}: {row} {column}"
                    );
                    assert!(row <= column || factor(row, column).abs() <= 1.0, "pivots are the largest");
                }
            }
        }
    }
}
