//! Tiling of three matrices for a budget of DRAM: the panels, their sizes and their offsets in the far file. Pure
//! arithmetic.
//!
//! C is divided into square super-tiles. Each stays in DRAM while the panels of A (its rows, `depth` columns) and B
//! (`depth` rows, its columns) pass through two pairs of buffers: one is multiplied while the other is filled. With an
//! edge of e, the product reads 2 n^3 / e elements and writes n^2, so the edge is the largest that the budget allows.

use std::ops::Range;

use model::values::units::Bytes;

use super::super::grid::{self, TileRange};
use super::super::stride;

/// Alignment of file offsets and of pieces of buffers; all disks support it.
pub(super) const UNIT: usize = 4096;
/// Smaller super-tiles would read more than a disk can deliver: at 64, each element is used 32 times.
const EDGE_MIN: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub n: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Rows and columns of a super-tile; those at the border may have fewer.
    pub edge: usize,
    /// Columns of a panel of A and rows of a panel of B; the last ones may have fewer.
    pub depth: usize,
    /// Each thread's rectangle of a super-tile.
    pub parts: Vec<TileRange>,
}

/// A panel of one of the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    /// Rows of C, and the position along its inner dimension.
    A { row: usize, inner: usize },
    /// Position along its inner dimension, and columns of C.
    B { inner: usize, column: usize },
}

impl Tiling {
    /// Computes the tiling for a budget of DRAM. The error states how much DRAM is required.
    pub(super) fn new(n: usize, element: usize, depth: usize, budget: Bytes, threads: usize) -> Result<Self, String> {
        let depth = even(n, depth.min(n));
        let with = |edge: usize| Self { n, element, edge, depth, parts: grid::parts(edge, edge, threads) };
        let fits = |edge: usize| with(edge).near_bytes() as u64 <= budget.0;
        let least = EDGE_MIN.min(n);
        if !fits(least) {
            let needed = Bytes(with(least).near_bytes() as u64);
            return Err(format!(
                "a budget of {budget} is too small: one super-tile of {least} x {least} with its panels of {depth} \
                 needs {needed}; hint: a larger budget, or a smaller depth"
            ));
        }
        // The memory grows with the edge, so a binary search finds the largest one.
        let (mut edge, mut too_large) = (least, n + 1);
        while edge + 1 < too_large {
            let middle = usize::midpoint(edge, too_large);
            if fits(middle) { edge = middle } else { too_large = middle }
        }
        let even = with(even(n, edge));
        Ok(if even.near_bytes() as u64 <= budget.0 { even } else { with(edge) })
    }

    /// Number of super-tiles per row or column.
    pub(super) fn tiles(&self) -> usize {
        self.n.div_ceil(self.edge)
    }

    /// Number of panels per row or column of super-tiles.
    pub(super) fn panels(&self) -> usize {
        self.n.div_ceil(self.depth)
    }

    /// Rows, or columns, of the super-tiles at this index.
    pub(super) fn span(&self, tile: usize) -> Range<usize> {
        tile * self.edge..((tile + 1) * self.edge).min(self.n)
    }

    /// The part of the inner dimension that a panel covers.
    pub(super) fn inner(&self, panel: usize) -> Range<usize> {
        panel * self.depth..((panel + 1) * self.depth).min(self.n)
    }

    /// Elements between consecutive columns of a panel of A.
    pub(super) fn a_stride(&self) -> usize {
        stride(self.edge, self.element)
    }

    pub(super) fn b_stride(&self) -> usize {
        stride(self.depth, self.element)
    }

    /// Elements between consecutive columns of a thread's part of a super-tile.
    pub(super) fn c_stride(&self, thread: usize) -> usize {
        stride(self.parts[thread].rows.len().max(1), self.element)
    }

    /// Bytes of each panel of A.
    pub(super) fn a_bytes(&self) -> usize {
        (self.a_stride() * self.depth * self.element).next_multiple_of(UNIT)
    }

    /// Bytes of each panel of B.
    pub(super) fn b_bytes(&self) -> usize {
        (self.b_stride() * self.edge * self.element).next_multiple_of(UNIT)
    }

    /// Bytes of a thread's part of a super-tile.
    pub(super) fn part_bytes(&self, thread: usize) -> usize {
        (self.c_stride(thread) * self.parts[thread].columns.len() * self.element).next_multiple_of(UNIT)
    }

    fn tile_bytes(&self) -> usize {
        (0..self.parts.len()).map(|thread| self.part_bytes(thread)).sum()
    }

    /// Bytes in DRAM: a super-tile and two pairs of panels.
    pub(super) fn near_bytes(&self) -> usize {
        self.tile_bytes() + 2 * (self.a_bytes() + self.b_bytes())
    }

    /// Bytes of the file: all of the three matrices.
    pub(super) fn far_bytes(&self) -> usize {
        let (tiles, panels) = (self.tiles(), self.panels());
        tiles * panels * (self.a_bytes() + self.b_bytes()) + tiles * tiles * self.tile_bytes()
    }

    /// File offset of a panel. Panels that are consecutive in the product are consecutive in the file.
    pub(super) fn offset(&self, panel: Panel) -> u64 {
        let at = match panel {
            Panel::A { row, inner } => (row * self.panels() + inner) * self.a_bytes(),
            Panel::B { inner, column } => {
                self.tiles() * self.panels() * self.a_bytes() + (column * self.panels() + inner) * self.b_bytes()
            }
        };
        at as u64
    }

    /// File offset of a thread's part of a super-tile.
    pub(super) fn part_offset(&self, row: usize, column: usize, thread: usize) -> u64 {
        let panels = self.tiles() * self.panels() * (self.a_bytes() + self.b_bytes());
        let before: usize = (0..thread).map(|thread| self.part_bytes(thread)).sum();
        (panels + (row * self.tiles() + column) * self.tile_bytes() + before) as u64
    }

    /// Boundaries of the threads' shares of this many bytes.
    pub(super) fn shares(&self, bytes: usize) -> Vec<usize> {
        grid::borders(bytes / UNIT, self.parts.len(), 1).into_iter().map(|border| border * UNIT).collect()
    }
}

/// Returns the smallest step with the same number of pieces, so that the pieces have similar sizes.
fn even(length: usize, step: usize) -> usize {
    length.div_ceil(length.div_ceil(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(n: usize, element: usize, depth: usize, budget: u64, threads: usize) -> Tiling {
        Tiling::new(n, element, depth, Bytes(budget), threads).unwrap()
    }

    #[test]
    fn tilings_respect_and_use_the_budget() {
        for (n, element, depth, budget, threads) in [
            (9216, 8, 768, 278 << 20, 1),
            (9216, 8, 768, 972 << 20, 2),
            (12288, 4, 768, 247 << 20, 2),
            (1000, 8, 100, 2 << 20, 3),
            (65, 4, 7, 64 << 10, 2),
            (1, 8, 768, 64 << 10, 1),
        ] {
            let shape = shape(n, element, depth, budget, threads);
            assert!(shape.near_bytes() as u64 <= budget, "{shape:?} takes {}", shape.near_bytes());
            // A tiling with one super-tile fewer per row would not fit.
            if shape.tiles() > 1 {
                let fewer = n.div_ceil(shape.tiles() - 1);
                let larger = Tiling { edge: fewer, parts: grid::parts(fewer, fewer, threads), ..shape.clone() };
                assert!(larger.near_bytes() as u64 > budget, "{shape:?} could be {fewer}");
            }
        }
        let study = shape(9216, 8, 768, 278 << 20, 2);
        assert_eq!((study.edge, study.depth, study.tiles(), study.panels()), (4608, 768, 2, 12));
    }

    #[test]
    fn error_states_the_required_budget() {
        let message = Tiling::new(5000, 8, 768, Bytes(1 << 20), 1).unwrap_err();
        assert!(message.contains("a budget of 1MiB is too small") && message.contains("needs 1.4MiB"), "{message}");
    }

    #[test]
    fn file_offsets_are_disjoint_and_cover_the_file() {
        for (n, depth, budget, threads) in [(300, 70, 300 << 10, 1), (300, 70, 300 << 10, 3), (129, 129, 1 << 20, 4)] {
            let shape = shape(n, 8, depth, budget, threads);
            let mut places: Vec<(u64, usize)> = Vec::new();
            for one in 0..shape.tiles() {
                for inner in 0..shape.panels() {
                    places.push((shape.offset(Panel::A { row: one, inner }), shape.a_bytes()));
                    places.push((shape.offset(Panel::B { inner, column: one }), shape.b_bytes()));
                }
                for column in 0..shape.tiles() {
                    for thread in 0..threads {
                        places.push((shape.part_offset(one, column, thread), shape.part_bytes(thread)));
                    }
                }
            }
            places.sort_unstable();
            let mut end = 0;
            for (offset, bytes) in places.into_iter().filter(|(_, bytes)| *bytes > 0) {
                assert_eq!(offset, end, "{shape:?}");
                assert!(offset.is_multiple_of(UNIT as u64) && bytes.is_multiple_of(UNIT));
                end = offset + bytes as u64;
            }
            assert_eq!(end, shape.far_bytes() as u64);
        }
    }

    #[test]
    fn shares_are_whole_units_and_cover_everything() {
        let shape = shape(300, 8, 70, 300 << 10, 3);
        let borders = shape.shares(7 * UNIT);
        assert_eq!(borders.len(), 4);
        assert_eq!((borders[0], borders[3]), (0, 7 * UNIT));
        assert!(borders.is_sorted() && borders.iter().all(|border| border.is_multiple_of(UNIT)));
    }
}
