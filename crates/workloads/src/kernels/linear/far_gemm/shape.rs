//! How three matrices are cut for a budget of DRAM. Pure arithmetic: which panels there are, how large each is, and where
//! it lies in the far file.
//!
//! C is cut into square super-tiles, each of which stays in DRAM while a panel of A (its rows, `depth` columns) and one of B (`depth`
//! rows, its columns) after the other come by, in two pairs of buffers: one to multiply, one to fill. With an edge of e the
//! product reads 2 n^3 / e elements and writes n^2, so the edge is the largest that the budget allows.

use std::ops::Range;

use model::values::units::Bytes;

use super::super::grid::{self, TileRange};
use super::super::stride;

/// Places in the file, and pieces of buffers, begin at multiples of this: every disk takes it.
pub(super) const UNIT: usize = 4096;
/// Smaller super-tiles would read more than a disk gives: at 64 each element is used 32 times.
const EDGE_MIN: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub n: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Rows and columns of a super-tile; the last ones may have fewer.
    pub edge: usize,
    /// Columns of a panel of A and rows of one of B; the last ones may have fewer.
    pub depth: usize,
    /// Each thread's rectangle of a super-tile.
    pub parts: Vec<TileRange>,
}

/// What a panel or block is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    /// Rows of C, and how far down its columns.
    A { row: usize, inner: usize },
    /// How far down its rows, and columns of C.
    B { inner: usize, column: usize },
}

impl Tiling {
    /// The cut for so much DRAM, or in words how much it would need.
    pub(super) fn new(n: usize, element: usize, depth: usize, budget: Bytes, threads: usize) -> Result<Self, String> {
        let depth = even(n, depth.min(n));
        let with = |edge: usize| Self { n, element, edge, depth, parts: grid::parts(edge, edge, threads) };
        let fits = |edge: usize| with(edge).near_bytes() as u64 <= budget.0;
        let least = EDGE_MIN.min(n);
        if !fits(least) {
            let needed = Bytes(with(least).near_bytes() as u64);
            return Err(format!(
                "a budget of {budget} is too little: one super-tile of {least} x {least} with its panels of {depth} needs {needed}; \
                 hint: a larger budget, or a smaller depth"
            ));
        }
        // More edge never takes less room, so that the largest can be found by halving.
        let (mut edge, mut beyond) = (least, n + 1);
        while edge + 1 < beyond {
            let middle = usize::midpoint(edge, beyond);
            if fits(middle) { edge = middle } else { beyond = middle }
        }
        let even = with(even(n, edge));
        Ok(if even.near_bytes() as u64 <= budget.0 { even } else { with(edge) })
    }

    /// How many super-tiles lie beside each other.
    pub(super) fn tiles(&self) -> usize {
        self.n.div_ceil(self.edge)
    }

    /// How many panels make a row or column of super-tiles.
    pub(super) fn panels(&self) -> usize {
        self.n.div_ceil(self.depth)
    }

    /// Rows, or columns, of the super-tiles in one row, or column.
    pub(super) fn span(&self, tile: usize) -> Range<usize> {
        tile * self.edge..((tile + 1) * self.edge).min(self.n)
    }

    /// What one panel covers of the inner dimension.
    pub(super) fn inner(&self, panel: usize) -> Range<usize> {
        panel * self.depth..((panel + 1) * self.depth).min(self.n)
    }

    /// Elements from one column of a panel of A to the next.
    pub(super) fn a_stride(&self) -> usize {
        stride(self.edge, self.element)
    }

    pub(super) fn b_stride(&self) -> usize {
        stride(self.depth, self.element)
    }

    /// The same of a thread's part of a super-tile.
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

    /// DRAM: a super-tile and two pairs of panels.
    pub(super) fn near_bytes(&self) -> usize {
        self.tile_bytes() + 2 * (self.a_bytes() + self.b_bytes())
    }

    /// The file: all of the three matrices.
    pub(super) fn far_bytes(&self) -> usize {
        let (tiles, panels) = (self.tiles(), self.panels());
        tiles * panels * (self.a_bytes() + self.b_bytes()) + tiles * tiles * self.tile_bytes()
    }

    /// Where a panel lies in the file. Those that follow each other in the product follow each other there.
    pub(super) fn offset(&self, panel: Panel) -> u64 {
        let at = match panel {
            Panel::A { row, inner } => (row * self.panels() + inner) * self.a_bytes(),
            Panel::B { inner, column } => {
                self.tiles() * self.panels() * self.a_bytes() + (column * self.panels() + inner) * self.b_bytes()
            }
        };
        at as u64
    }

    /// Where a thread's part of a super-tile lies in the file.
    pub(super) fn part_offset(&self, row: usize, column: usize, thread: usize) -> u64 {
        let panels = self.tiles() * self.panels() * (self.a_bytes() + self.b_bytes());
        let before: usize = (0..thread).map(|thread| self.part_bytes(thread)).sum();
        (panels + (row * self.tiles() + column) * self.tile_bytes() + before) as u64
    }

    /// Borders of the threads' shares of so many bytes.
    pub(super) fn shares(&self, bytes: usize) -> Vec<usize> {
        grid::borders(bytes / UNIT, self.parts.len(), 1).into_iter().map(|border| border * UNIT).collect()
    }
}

/// The smallest step that needs as few pieces as this one: pieces become alike.
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
    fn budgets_are_kept_and_used() {
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
            // One super-tile fewer in a row would not fit.
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
    fn what_is_needed_is_said() {
        let why = Tiling::new(5000, 8, 768, Bytes(1 << 20), 1).unwrap_err();
        assert!(why.contains("a budget of 1MiB is too little") && why.contains("needs 1.4MiB"), "{why}");
    }

    #[test]
    fn places_in_the_file_do_not_overlap_and_are_all_of_it() {
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
    fn shares_are_whole_units_and_all() {
        let shape = shape(300, 8, 70, 300 << 10, 3);
        let borders = shape.shares(7 * UNIT);
        assert_eq!(borders.len(), 4);
        assert_eq!((borders[0], borders[3]), (0, 7 * UNIT));
        assert!(borders.is_sorted() && borders.iter().all(|border| border.is_multiple_of(UNIT)));
    }
}
