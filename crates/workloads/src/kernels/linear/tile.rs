//! A rectangle of a column-major matrix that several threads work on at once. Knows where its elements are, not who may
//! touch them: that two threads do not write the same element is for who hands the parts out.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

/// Rows and columns of a matrix that outlives it.
pub(super) struct Tile<'m, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    /// Elements from one column to the next.
    stride: usize,
    matrix: PhantomData<&'m mut [T]>,
}

impl<T> Clone for Tile<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tile<'_, T> {}

// SAFETY: a tile gives nothing by itself; every access to elements is unsafe and says what its caller keeps.
unsafe impl<T: Send> Send for Tile<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Tile<'_, T> {}

impl<'m, T> Tile<'m, T> {
    /// The whole of a matrix in this memory.
    pub(super) fn new(memory: &'m mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows <= stride && stride * columns <= memory.len(), "the matrix lies in its memory");
        Self { start: memory.as_mut_ptr(), rows, columns, stride, matrix: PhantomData }
    }

    /// A matrix in memory that several threads share by an agreement of their own.
    ///
    /// # Safety
    /// `stride * columns` elements from `start` on are live and aligned as long as any copy of this value is used.
    pub(super) unsafe fn at(start: *mut T, rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows <= stride, "columns do not overlap");
        Self { start, rows, columns, stride, matrix: PhantomData }
    }

    pub(super) fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        assert!(columns.start <= columns.end && columns.end <= self.columns, "columns {columns:?} of {}", self.columns);
        // wrapping: the start of an empty part may be past the end, and is then never followed.
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

    /// One column to read.
    ///
    /// # Safety
    /// Nobody writes to it meanwhile.
    pub(super) unsafe fn column(self, column: usize) -> &'m [T] {
        assert!(column < self.columns);
        // SAFETY: `new` and `part` keep the rectangle inside memory that lives for 'm; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start.add(column * self.stride), self.rows) }
    }

    /// One column to write.
    ///
    /// # Safety
    /// Nobody else touches it meanwhile.
    pub(super) unsafe fn column_mut(self, column: usize) -> &'m mut [T] {
        assert!(column < self.columns);
        // SAFETY: as in `column`; the caller keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(column * self.stride), self.rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_parts_are_where_they_should_be() {
        let mut memory: Vec<u32> = (0..40).collect();
        let part = Tile::new(&mut memory, 7, 4, 10).part(1..6, 1..4).part(2..5, 1..3);
        assert_eq!((part.rows(), part.columns(), part.stride()), (3, 2, 10));
        // SAFETY: this thread alone has the tile.
        let columns = unsafe { [part.column(0), part.column(1)] };
        assert_eq!(columns, [[23, 24, 25], [33, 34, 35]]);
        // SAFETY: as above.
        unsafe { part.column_mut(1)[2] = 7 };
        assert_eq!(memory[35], 7);
    }

    #[test]
    fn nothing_outside_the_matrix_is_given() {
        let refused = |make: fn()| std::panic::catch_unwind(make).is_err();
        assert!(refused(|| _ = Tile::new(&mut [0u8; 9], 3, 2, 5)));
        assert!(refused(|| _ = Tile::new(&mut [0u8; 10], 3, 2, 5).part(0..4, 0..1)));
        assert!(refused(|| _ = Tile::new(&mut [0u8; 10], 3, 2, 5).part(0..1, 1..3)));
    }
}
