//! The two factors of a far product: made element by element, written to the file panel by panel, and multiplied with the
//! check's vectors on the way, so that the check knows them as they were made.

use std::ops::Range;
use std::sync::PoisonError;

use super::super::element::Element;
use super::super::random::Elements;
use super::super::tile::Tile;
use super::check::{Vectors, add, zeros};
use super::shape::{Panel, Tiling};
use super::thread::GemmThread;
use super::{GemmContext, failure};
use crate::job::Failure;

/// Makes B, then A, and writes them to the file; on the way B r and A (B r).
pub(super) fn pack<T: Element>(lane: &mut GemmThread<'_, T>) -> Result<(), Failure> {
    warm_up(lane.work)?;
    let (shape, sums) = (&lane.work.shape, &lane.work.sums);
    let n = shape.n;
    lane.clear_result()?;
    let mut share = zeros(n);
    each_panel(shape, |one, inner, turn| {
        let place = PanelLayout { rows: shape.inner(inner), columns: shape.span(one), stride: shape.b_stride() };
        let elements = Elements::new(lane.work.seed, 'b');
        lane.store(Panel::B { inner, column: one }, turn, |values, from| {
            make(values, from, &place, elements, &sums.r, &mut share);
        })
    })?;
    add(&sums.br, &share);
    lane.member.barrier()?;
    let br = sums.br.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut share = zeros(n);
    each_panel(shape, |one, inner, turn| {
        let place = PanelLayout { rows: shape.span(one), columns: shape.inner(inner), stride: shape.a_stride() };
        let elements = Elements::new(lane.work.seed, 'a');
        lane.store(Panel::A { row: one, inner }, turn, |values, from| {
            make(values, from, &place, elements, &br, &mut share);
        })
    })?;
    add(&sums.abr, &share);
    lane.await_transfers()?;
    lane.work.file.sync().map_err(|error| failure(&error))
}

fn each_panel(
    shape: &Tiling,
    mut visit: impl FnMut(usize, usize, usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let panels = shape.panels();
    (0..shape.tiles() * panels).try_for_each(|at| visit(at / panels, at % panels, at))
}

/// The library makes its buffers in its first product.
#[allow(unsafe_code)]
fn warm_up<T: Element>(work: &GemmContext<'_, T>) -> Result<(), Failure> {
    const N: usize = 256;
    let [mut a, mut b, mut c] = [T::ONE, T::ONE, T::ZERO].map(|value| vec![value; N * N]);
    let [left, right, product] = [&mut a, &mut b, &mut c].map(|memory| Tile::new(memory, N, N, N));
    // SAFETY: this thread alone has the three.
    unsafe { work.blas.gemm(T::ONE, left, right, T::ZERO, product) };
    let sum = c[N * N - 1].as_f64();
    if (sum - N as f64).abs() > 0.0 {
        return Err(Failure::Failed(format!("{} says that {N} ones add up to {sum}", work.blas.name)));
    }
    Ok(())
}

/// Where a panel's elements are in their matrix.
pub(super) struct PanelLayout {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub stride: usize,
}

/// Fills a piece of a panel that begins at an element of it, and adds the piece times vectors to sums.
pub(super) fn make<T: Element>(
    values: &mut [T],
    from: usize,
    place: &PanelLayout,
    elements: Elements,
    vectors: &Vectors,
    sums: &mut Vectors,
) {
    let (rows, stride) = (place.rows.len(), place.stride);
    let mut at = 0;
    while at < values.len() {
        let (column, row) = ((from + at) / stride, (from + at) % stride);
        let length = (stride - row).min(values.len() - at);
        let piece = &mut values[at..at + length];
        at += length;
        let real = if column < place.columns.len() { length.min(rows.saturating_sub(row)) } else { 0 };
        let (piece, rest) = piece.split_at_mut(real);
        rest.fill(T::ZERO);
        let (first, column) = (place.rows.start + row, place.columns.start + column);
        piece.iter_mut().enumerate().for_each(|(index, value)| *value = T::random(elements, first + index, column));
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            if real > 0 {
                let factor = vector[column];
                sum[first..first + real]
                    .iter_mut()
                    .zip(&*piece)
                    .for_each(|(sum, value)| *sum += value.as_f64() * factor);
            }
        }
    }
}
