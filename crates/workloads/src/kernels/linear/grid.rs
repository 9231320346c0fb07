//! Divides a matrix into one rectangle per thread, for work that is uniform over the elements.

use std::ops::Range;

/// Row boundaries are multiples of this, so that a rectangle starts with a cache line and a whole vector.
const ROW_STEP: usize = 64;

/// Rows and columns of one thread's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TileRange {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

/// Returns one part per thread, as square as the number of threads allows: for a product of n x n, a part reads as many
/// rows of one factor and columns of the other as it has. If the grid cannot be square, it has more columns of parts
/// than rows, because a part of whole columns is contiguous in memory.
pub(super) fn parts(rows: usize, columns: usize, threads: usize) -> Vec<TileRange> {
    let down =
        (1..=threads).take_while(|down| down * down <= threads).filter(|down| threads.is_multiple_of(*down)).last();
    let down = down.expect("one divides every count");
    let across = threads / down;
    let row_borders = borders(rows, down, ROW_STEP);
    let column_borders = borders(columns, across, 1);
    let range = |borders: &[usize], index: usize| borders[index]..borders[index + 1];
    (0..threads)
        .map(|thread| TileRange {
            rows: range(&row_borders, thread % down),
            columns: range(&column_borders, thread / down),
        })
        .collect()
}

/// Boundaries of the pieces of a length: multiples of `step`, except the last.
pub(super) fn borders(length: usize, pieces: usize, step: usize) -> Vec<usize> {
    let border = |piece: usize| match piece {
        piece if piece == pieces => length,
        piece => ((length * piece / pieces + step / 2) / step * step).min(length),
    };
    (0..=pieces).map(border).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_belongs_to_one_part() {
        for (rows, columns, threads) in [(1, 1, 1), (100, 100, 2), (64, 3, 7), (1000, 999, 12), (130, 500, 64)] {
            let mut held = vec![0; rows * columns];
            let parts = parts(rows, columns, threads);
            assert_eq!(parts.len(), threads);
            for part in parts {
                part.columns.for_each(|column| part.rows.clone().for_each(|row| held[column * rows + row] += 1));
            }
            assert!(held.iter().all(|times| *times == 1), "{rows} x {columns} over {threads}");
        }
    }

    #[test]
    fn parts_are_nearly_square_and_of_similar_size() {
        let shape = |threads| {
            let parts = parts(4096, 4096, threads);
            (parts[0].rows.len(), parts[0].columns.len())
        };
        assert_eq!(shape(1), (4096, 4096));
        assert_eq!(shape(2), (4096, 2048));
        assert_eq!(shape(4), (2048, 2048));
        assert_eq!(shape(8), (2048, 1024));
    }
}
