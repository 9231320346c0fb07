//! A rectangle of a column-major matrix that several threads access concurrently. It locates elements but does not
//! control access: the caller must ensure that no two threads write the same element.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

/// Rows and columns of a matrix that outlives it.
pub(super) struct Tile<'m, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    /// Elements between consecutive columns.
    stride: usize,
    matrix: PhantomData<&'m mut [T]>,
}

impl<T> Clone for Tile<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tile<'_, T> {}

// SAFETY: a tile gives no safe access; every access to elements is unsafe and states the conditions for the caller.
unsafe impl<T: Send> Send for Tile<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Tile<'_, T> {}

impl<'m, T> Tile<'m, T> {
    /// Creates the tile of a whole matrix in this memory.
    pub(super) fn new(memory: &'m mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows <= stride && stride * columns <= memory.len(), "the matrix fits in its memory");
        Self { start: memory.as_mut_ptr(), rows, columns, stride, matrix: PhantomData }
    }

    /// Creates the tile of a matrix in memory that several threads share.
    ///
    /// # Safety
    /// `stride * columns` elements from `start` on are live and aligned as long as any copy of this value is used.
    pub(super) unsafe fn at(start: *mut T, rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows <= stride, "columns must not overlap");
        Self { start, rows, columns, stride, matrix: PhantomData }
    }

    pub(super) fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        assert!(columns.start <= columns.end && columns.end <= self.columns, "columns {columns:?} of {}", self.columns);
        // wrapping: the start of an empty part may be past the end, but is then never dereferenced.
        let start = self.start.wrapping_add(columns.start * self.stride + rows.start);
        Self { start, rows: rows.len(), columns: columns.len(), ..self }
    }

    pub(super) fn rows(self) -> usize {
        self.rows
    }

    pub(super) fn columns(self) -> usize {
        self.columns
    }

    pub(super) fn stride(self) -> usize {
        self.stride
    }

    pub(super) fn start(self) -> *mut T {
        self.start
    }

    /// Returns one column for reading.
    ///
    /// # Safety
    /// No other thread may write to it as long as the slice is used.
    pub(super) unsafe fn column(self, column: usize) -> &'m [T] {
        assert!(column < self.columns);
        // SAFETY: `new` and `part` keep the rectangle inside memory that lives for 'm; the caller excludes writers.
        unsafe { std::slice::from_raw_parts(self.start.add(column * self.stride), self.rows) }
    }

    /// Returns one column for writing.
    ///
    /// # Safety
    /// No other thread may access it as long as the slice is used.
    pub(super) unsafe fn column_mut(self, column: usize) -> &'m mut [T] {
        assert!(column < self.columns);
        // SAFETY: as in `column`; the caller excludes all other accesses.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(column * self.stride), self.rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_parts_refer_to_the_right_elements() {
        let mut memory: Vec<u32> = (0..40).collect();
        let part = Tile::new(&mut memory, 7, 4, 10).part(1..6, 1..4).part(2..5, 1..3);
        assert_eq!((part.rows(), part.columns(), part.stride()), (3, 2, 10));
        // SAFETY: only this thread has the tile.
        let columns = unsafe { [part.column(0), part.column(1)] };
        assert_eq!(columns, [[23, 24, 25], [33, 34, 35]]);
        // SAFETY: as above.
        unsafe { part.column_mut(1)[2] = 7 };
        assert_eq!(memory[35], 7);
    }

    #[test]
    fn parts_outside_the_matrix_panic() {
        let refused = |make: fn()| std::panic::catch_unwind(make).is_err();
        assert!(refused(|| _ = Tile::new(&mut [0u8; 9], 3, 2, 5)));
        assert!(refused(|| _ = Tile::new(&mut [0u8; 10], 3, 2, 5).part(0..4, 0..1)));
        assert!(refused(|| _ = Tile::new(&mut [0u8; 10], 3, 2, 5).part(0..1, 1..3)));
    }
}
