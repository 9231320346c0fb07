//! Generates the two factors of a far product element by element and writes them to the file panel by panel. Also
//! multiplies them with the check's vectors, so that the check uses the values as generated.

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

/// Generates B, then A, and writes them to the file. Computes B r and A (B r) at the same time.
pub(super) fn pack<T: Element>(thread: &mut GemmThread<'_, T>) -> Result<(), Failure> {
    warm_up(thread.work)?;
    let (shape, sums) = (&thread.work.shape, &thread.work.sums);
    let n = shape.n;
    thread.clear_result()?;
    let mut share = zeros(n);
    each_panel(shape, |one, inner, turn| {
        let place = PanelLayout { rows: shape.inner(inner), columns: shape.span(one), stride: shape.b_stride() };
        let elements = Elements::new(thread.work.seed, 'b');
        thread.store(Panel::B { inner, column: one }, turn, |values, from| {
            make(values, from, &place, elements, &sums.r, &mut share);
        })
    })?;
    add(&sums.br, &share);
    thread.worker.barrier()?;
    let br = sums.br.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut share = zeros(n);
    each_panel(shape, |one, inner, turn| {
        let place = PanelLayout { rows: shape.span(one), columns: shape.inner(inner), stride: shape.a_stride() };
        let elements = Elements::new(thread.work.seed, 'a');
        thread.store(Panel::A { row: one, inner }, turn, |values, from| {
            make(values, from, &place, elements, &br, &mut share);
        })
    })?;
    add(&sums.abr, &share);
    thread.await_transfers()?;
    thread.work.file.sync().map_err(|error| failure(&error))
}

fn each_panel(
    shape: &Tiling,
    mut visit: impl FnMut(usize, usize, usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let panels = shape.panels();
    (0..shape.tiles() * panels).try_for_each(|at| visit(at / panels, at % panels, at))
}

/// The library allocates its buffers in its first product.
#[allow(unsafe_code)]
fn warm_up<T: Element>(work: &GemmContext<'_, T>) -> Result<(), Failure> {
    const N: usize = 256;
    let [mut a, mut b, mut c] = [T::ONE, T::ONE, T::ZERO].map(|value| vec![value; N * N]);
    let [left, right, product] = [&mut a, &mut b, &mut c].map(|memory| Tile::new(memory, N, N, N));
    // SAFETY: only this thread has the three arrays.
    unsafe { work.blas.gemm(T::ONE, left, right, T::ZERO, product) };
    let sum = c[N * N - 1].as_f64();
    if (sum - N as f64).abs() > 0.0 {
        return Err(Failure::Failed(format!("{} computed a sum of {sum} for {N} ones", work.blas.name)));
    }
    Ok(())
}

/// Position of a panel's elements in their matrix.
pub(super) struct PanelLayout {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub stride: usize,
}

/// Fills a piece of a panel, starting at the element `from`, and adds its product with the vectors to the sums.
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
