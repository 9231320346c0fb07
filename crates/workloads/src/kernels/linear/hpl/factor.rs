//! LU factorisation with partial pivoting by several threads, right-looking, by blocks of columns, and the back
//! substitution. The right-hand side is the last column and takes part like any other, so the rows of L are never swapped
//! again, as in HPL.
//! While the others still update the trailing matrix, the first thread updates the next block and factors it (look-ahead
//! by one block): what one thread must do alone is hidden as long as it is shorter.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::blas::Blas;
use super::super::grid;
use super::super::tile::Tile;
use super::draw;
use crate::job::Failure;
use crate::team::Worker;

/// Panels of so few columns are factored column by column; above, by halves, so that most of it is a product.
const LEAF: usize = 8;

/// All that the threads share.
pub(super) struct Factorisation<'m> {
    blas: &'m Blas,
    /// n rows, n + 1 columns.
    matrix: Tile<'m, f64>,
    nb: usize,
    threads: usize,
    /// With which row each row was swapped; written by the first thread before a meeting, read by all after it.
    pivots: Vec<AtomicUsize>,
    /// By block, how many of the columns right of the next block are taken.
    taken: Vec<AtomicUsize>,
}

impl<'m> Factorisation<'m> {
    pub(super) fn new(blas: &'m Blas, matrix: Tile<'m, f64>, nb: usize, threads: usize) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicUsize::new(0)).collect();
        let n = matrix.rows();
        Self { blas, matrix, nb, threads, pivots: zeros(n), taken: zeros(n.div_ceil(nb)) }
    }

    /// Each thread's share; in the end the last column holds the solution.
    pub(super) fn run(&self, member: &Worker<'_>) -> Result<(), Failure> {
        let n = self.matrix.rows();
        if member.index == 0 {
            self.factor(&self.block(0));
        }
        member.barrier()?;
        for index in 0..self.taken.len() {
            let (block, next) = (self.block(index), self.block(index + 1));
            if member.index == 0 && !next.is_empty() {
                self.update(&block, next.clone());
                self.factor(&next);
            }
            while let Some(columns) = draw(&self.taken[index], n + 1 - next.end, |left| self.share(left)) {
                self.update(&block, next.end + columns.start..next.end + columns.end);
            }
            member.barrier()?;
        }
        self.substitute(member)
    }

    /// The columns of a block; empty after the last.
    fn block(&self, index: usize) -> Range<usize> {
        let n = self.matrix.rows();
        (index * self.nb).min(n)..((index + 1) * self.nb).min(n)
    }

    /// How much of the columns that are left a thread takes: half of its share, so that the last pieces are small and all
    /// end together, but no less than a block, since the library copies all of L anew for each piece.
    fn share(&self, left: usize) -> usize {
        if self.threads == 1 { left } else { (left / (2 * self.threads)).next_multiple_of(8).max(self.nb) }
    }

    /// Factors a block's columns from its first row on, and notes the pivots.
    fn factor(&self, block: &Range<usize>) {
        let panel = self.matrix.part(block.start..self.matrix.rows(), block.clone());
        let mut pivots = vec![0; block.len()];
        // SAFETY: only the first thread comes here, and nobody else touches these columns until the next meeting.
        unsafe { factor_panel(self.blas, panel, &mut pivots) };
        for (row, pivot) in pivots.into_iter().enumerate() {
            self.pivots[block.start + row].store(block.start + pivot, Ordering::Relaxed);
        }
    }

    /// What a factored block does to columns right of it: swaps, the rows of U, and the product below.
    fn update(&self, block: &Range<usize>, columns: Range<usize>) {
        let n = self.matrix.rows();
        // SAFETY: these columns were given to this thread alone, and the block's are only read until the next meeting.
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

    /// Solves U x = y from the last block to the first: one thread solves the block, all subtract it from the rows above.
    fn substitute(&self, member: &Worker<'_>) -> Result<(), Failure> {
        let n = self.matrix.rows();
        for index in (0..self.taken.len()).rev() {
            let block = self.block(index);
            let x = self.matrix.part(block.clone(), n..n + 1);
            if member.index == 0 {
                // SAFETY: the others wait.
                unsafe { self.blas.solve_upper(self.matrix.part(block.clone(), block.clone()), x) };
            }
            member.barrier()?;
            let borders = grid::borders(block.start, self.threads, 8);
            let rows = borders[member.index]..borders[member.index + 1];
            if !rows.is_empty() {
                let above = self.matrix.part(rows.clone(), block.clone());
                // SAFETY: each thread has rows of its own, and x is only read now.
                unsafe { self.blas.subtract_product(above, x, self.matrix.part(rows, n..n + 1)) };
            }
            member.barrier()?;
        }
        Ok(())
    }
}

/// Factors a panel of at least as many rows as columns in place, recursively (Toledo 1997): the left half, then its
/// effect on the right half, then that. `pivots` are rows of the panel.
///
/// # Safety
/// Nobody else touches the panel meanwhile.
unsafe fn factor_panel(blas: &Blas, panel: Tile<'_, f64>, pivots: &mut [usize]) {
    let (rows, columns) = (panel.rows(), panel.columns());
    // SAFETY: as the caller says; the parts that one call writes do not overlap those that it reads.
    unsafe {
        if columns <= LEAF {
            return factor_leaf(blas, panel, pivots);
        }
        let half = columns / 2;
        let (left, right) = (panel.part(0..rows, 0..half), panel.part(0..rows, half..columns));
        factor_panel(blas, left, &mut pivots[..half]);
        swap_rows(right, 0, &pivots[..half]);
        let (u, below) = (right.part(0..half, 0..columns - half), right.part(half..rows, 0..columns - half));
        blas.solve_lower(left.part(0..half, 0..half), u);
        blas.gemm(-1.0, left.part(half..rows, 0..half), u, 1.0, below);
        factor_panel(blas, below, &mut pivots[half..]);
        pivots[half..].iter_mut().for_each(|pivot| *pivot += half);
        swap_rows(left, half, &pivots[half..]);
    }
}

/// As [`factor_panel`], column by column.
///
/// # Safety
/// As there.
unsafe fn factor_leaf(blas: &Blas, panel: Tile<'_, f64>, pivots: &mut [usize]) {
    let (rows, columns) = (panel.rows(), panel.columns());
    for step in 0..columns {
        // SAFETY: as the caller says.
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

/// Swaps rows from `first` on with those that `pivots` name, in this order.
///
/// # Safety
/// Nobody else touches the tile meanwhile.
unsafe fn swap_rows(tile: Tile<'_, f64>, first: usize, pivots: &[usize]) {
    for column in 0..tile.columns() {
        // SAFETY: as the caller says.
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
    fn the_factors_multiply_to_the_rows_in_pivot_order() {
        let blas = match Blas::load(&job_for_tests("hpl")) {
            Ok(blas) => blas,
            Err(failure) => return println!("skipped: hpl: {failure}"),
        };
        blas.alone().unwrap();
        for (rows, columns) in [(1, 1), (9, 8), (40, 40), (100, 33)] {
            let elements = super::super::Elements::new(1, 'a');
            let mut memory: Vec<f64> =
                (0..rows * columns).map(|place| elements.at(place % rows, place / rows)).collect();
            let mut expected: Vec<usize> = (0..rows).collect();
            let mut pivots = vec![0; columns];
            // SAFETY: this thread alone has the memory.
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
