//! One thread's share of a far product: its part of every super-tile, and its share of the transfers of every panel.
//! Threads wait at a barrier once per panel. Between two barriers, a thread reads only panels that no thread fills, and
//! writes only what no other thread reads.
#![allow(unsafe_code)]

use std::ops::Range;
use std::time::{Duration, Instant};

use farmem::array::{Buffer, Mover, TransferId};

use super::super::element::Element;
use super::super::tile::Tile;
use super::GemmContext;
use super::shape::{Panel, Tiling};
use crate::job::Failure;
use crate::team::Worker;

/// Number of column slices of a part, each half as large as the remaining columns. At the end of a super-tile, one
/// slice is written while the next is computed; at the beginning of the next super-tile, a slice is overwritten only
/// after it was written. The last slice is small, because the end of the product waits for it. There are few slices,
/// because the library packs the panel of A again in each call.
const SLICES: usize = 5;
/// Slices begin at multiples of this number of columns, and therefore at whole pages for any number of rows, because
/// columns consist of whole cache lines.
const SLICE_STEP: usize = 64;

/// A buffer that is available or in transfer.
enum BufferState {
    Here(Buffer),
    Away(TransferId),
    /// Temporary state within a function, or lost by an error that ends the trial.
    Gone,
}

impl BufferState {
    pub(super) fn wait(&mut self, mover: &mut Mover) -> Result<&mut Buffer, Failure> {
        if let Self::Away(_) = self {
            let Self::Away(ticket) = std::mem::replace(self, Self::Gone) else {
                unreachable!("the state was checked above")
            };
            let buffer = mover.finish(ticket).map_err(|failed| super::failure(&failed.error))?;
            *self = Self::Here(buffer);
        }
        match self {
            Self::Here(buffer) => Ok(buffer),
            Self::Away(_) | Self::Gone => Err(Failure::Failed("a buffer was used after a failed transfer".into())),
        }
    }

    fn send(
        &mut self,
        mover: &mut Mover,
        transfer: fn(&mut Mover, Buffer, u64) -> TransferId,
        offset: u64,
    ) -> Result<(), Failure> {
        self.wait(mover)?;
        if let Self::Here(buffer) = std::mem::replace(self, Self::Gone) {
            *self = Self::Away(transfer(mover, buffer, offset));
        }
        Ok(())
    }

    fn read(&mut self, mover: &mut Mover, offset: u64) -> Result<(), Failure> {
        self.send(mover, Mover::read, offset)
    }

    fn write(&mut self, mover: &mut Mover, offset: u64) -> Result<(), Failure> {
        self.send(mover, Mover::write, offset)
    }
}

/// A thread's share of one panel buffer.
struct BufferShare {
    state: BufferState,
    /// Offset in the panel.
    from: usize,
}

/// Some columns of a thread's part.
struct Slice {
    state: BufferState,
    columns: Range<usize>,
    /// Offset in the part.
    from: usize,
}

/// The buffers of one thread.
pub(super) struct ThreadBuffers {
    /// Shares of both panels of A and both panels of B.
    pub shares: [Buffer; 4],
    pub part: Buffer,
}

pub(super) struct GemmThread<'w, T> {
    pub(super) worker: &'w Worker<'w>,
    pub(super) work: &'w GemmContext<'w, T>,
    pub(super) mover: Mover,
    a: [BufferShare; 2],
    b: [BufferShare; 2],
    c: Vec<Slice>,
    /// Number of steps of the product.
    turns: usize,
    /// Time waiting for the other threads.
    pub(super) barrier_time: Duration,
}

/// The product of one panel of A and one of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PanelProduct {
    row: usize,
    column: usize,
    inner: usize,
}

fn steps(shape: &Tiling) -> Vec<PanelProduct> {
    let (tiles, panels) = (shape.tiles(), shape.panels());
    let tile = |at: usize| (at / tiles, at % tiles);
    (0..tiles * tiles)
        .flat_map(|at| (0..panels).map(move |inner| PanelProduct { row: tile(at).0, column: tile(at).1, inner }))
        .collect()
}

impl<'w, T: Element> GemmThread<'w, T> {
    pub(super) fn new(
        worker: &'w Worker<'w>,
        work: &'w GemmContext<'w, T>,
        buffers: ThreadBuffers,
    ) -> Result<Self, Failure> {
        let mover = Mover::new(work.file.clone(), &work.near, work.mover).map_err(|error| super::failure(&error))?;
        let shape = &work.shape;
        let thread = worker.index;
        let (a_from, b_from) = (shape.shares(shape.a_bytes())[thread], shape.shares(shape.b_bytes())[thread]);
        let share = |buffer, from| BufferShare { state: BufferState::Here(buffer), from };
        let [a_0, a_1, b_0, b_1] = buffers.shares;
        let c = slices(shape, thread, buffers.part);
        Ok(Self {
            worker,
            work,
            mover,
            a: [share(a_0, a_from), share(a_1, a_from)],
            b: [share(b_0, b_from), share(b_1, b_from)],
            c,
            turns: steps(shape).len(),
            barrier_time: Duration::ZERO,
        })
    }

    fn thread(&self) -> usize {
        self.worker.index
    }

    /// Writes this thread's share of a panel. `fill` generates it, given the buffer and its offset in the panel.
    pub(super) fn store(
        &mut self,
        panel: Panel,
        turn: usize,
        fill: impl FnOnce(&mut [T], usize),
    ) -> Result<(), Failure> {
        let offset = self.work.shape.offset(panel);
        let share = match panel {
            Panel::A { .. } => &mut self.a[turn % 2],
            Panel::B { .. } => &mut self.b[turn % 2],
        };
        let from = share.from;
        let buffer = share.state.wait(&mut self.mover)?;
        fill(buffer.as_mut_slice(), from / size_of::<T>());
        share.state.write(&mut self.mover, offset + from as u64)
    }

    /// Writes zeros to this thread's parts of C in the file, because overwriting allocated blocks is faster.
    pub(super) fn clear_result(&mut self) -> Result<(), Failure> {
        let tiles = self.work.shape.tiles();
        for slice in &mut self.c {
            slice.state.wait(&mut self.mover)?.as_mut_slice::<u64>().fill(0);
        }
        for at in 0..tiles * tiles {
            for index in 0..self.c.len() {
                self.write_slice(at / tiles, at % tiles, index)?;
            }
        }
        Ok(())
    }

    /// Waits for all transfers in flight.
    pub(super) fn await_transfers(&mut self) -> Result<(), Failure> {
        let shares = self.a.iter_mut().chain(&mut self.b).map(|share| &mut share.state);
        for state in shares.chain(self.c.iter_mut().map(|slice| &mut slice.state)) {
            state.wait(&mut self.mover)?;
        }
        Ok(())
    }

    pub(super) fn multiply(&mut self) -> Result<(), Failure> {
        let steps = steps(&self.work.shape);
        self.load(steps[0], 0)?;
        for (turn, step) in steps.iter().enumerate() {
            self.a[turn % 2].state.wait(&mut self.mover)?;
            self.b[turn % 2].state.wait(&mut self.mover)?;
            let arrived = Instant::now();
            // All shares of this step's panels have been read, and no thread uses the panels of the previous step.
            self.worker.barrier()?;
            self.barrier_time += arrived.elapsed();
            if let Some(next) = steps.get(turn + 1) {
                self.load(*next, turn + 1)?;
            }
            self.step(*step, turn)?;
        }
        self.await_transfers()
    }

    fn load(&mut self, step: PanelProduct, turn: usize) -> Result<(), Failure> {
        let shape = &self.work.shape;
        let a = shape.offset(Panel::A { row: step.row, inner: step.inner });
        let b = shape.offset(Panel::B { inner: step.inner, column: step.column });
        for (share, offset) in [(&mut self.a[turn % 2], a), (&mut self.b[turn % 2], b)] {
            share.state.read(&mut self.mover, offset + share.from as u64)?;
        }
        Ok(())
    }

    fn step(&mut self, step: PanelProduct, turn: usize) -> Result<(), Failure> {
        let shape = &self.work.shape;
        let (first, last) = (step.inner == 0, step.inner + 1 == shape.panels());
        let (a, b, c) = self.tiles(step, turn);
        let beta = if first { T::ZERO } else { T::ONE };
        if !last && self.c.iter().all(|slice| matches!(slice.state, BufferState::Here(_))) {
            // SAFETY: between two barriers panels are only read, only this thread has its part, and no slice is in
            // transfer.
            unsafe { self.work.blas.gemm(T::ONE, a, b, beta, c) };
            return Ok(());
        }
        // The first slice is computed separately, so that computation overlaps with the transfers of the others. In the
        // last step all slices are separate, because nothing overlaps with the final writes.
        let end = turn + 1 == self.turns;
        let groups = if end { (0..self.c.len()).map(|slice| slice..slice + 1).collect() } else { halves(self.c.len()) };
        for group in groups {
            let mut columns = c.columns()..0;
            for slice in &mut self.c[group.clone()] {
                slice.state.wait(&mut self.mover)?;
                columns.start = columns.start.min(slice.columns.start);
                columns.end = slice.columns.end.min(c.columns());
            }
            let columns = columns.start.min(columns.end)..columns.end;
            let (b, c) = (b.part(0..b.rows(), columns.clone()), c.part(0..c.rows(), columns));
            // SAFETY: as above, and the transfers of these slices have completed.
            unsafe { self.work.blas.gemm(T::ONE, a, b, beta, c) };
            if last {
                group.clone().try_for_each(|slice| self.write_slice(step.row, step.column, slice))?;
            } else {
                self.mover.poll();
            }
        }
        Ok(())
    }

    /// The tiles that this thread multiplies in a step.
    fn tiles(&self, step: PanelProduct, turn: usize) -> (Tile<'w, T>, Tile<'w, T>, Tile<'w, T>) {
        let (shape, thread) = (&self.work.shape, self.thread());
        let (rows, columns, inner) =
            (shape.span(step.row).len(), shape.span(step.column).len(), shape.inner(step.inner).len());
        let part = &shape.parts[thread];
        let (own_rows, own_columns) = (clipped(&part.rows, rows), clipped(&part.columns, columns));
        let at = self.work.addresses[thread];
        // SAFETY: each address is that of a buffer in the near memory that is large enough for such a matrix, and the
        // work holds the near memory as long as 'w.
        unsafe {
            let a = Tile::at(self.work.panels[turn % 2].cast(), rows, inner, shape.a_stride());
            let b = Tile::at(self.work.panels[2 + turn % 2].cast(), inner, columns, shape.b_stride());
            let c = Tile::at(at.cast(), own_rows.len(), own_columns.len(), shape.c_stride(thread));
            (a.part(own_rows, 0..inner), b.part(0..inner, own_columns), c)
        }
    }

    fn write_slice(&mut self, row: usize, column: usize, index: usize) -> Result<(), Failure> {
        let offset = self.work.shape.part_offset(row, column, self.thread());
        let slice = &mut self.c[index];
        slice.state.write(&mut self.mover, offset + slice.from as u64)
    }

    /// Reads this thread's part of a super-tile back from the file. Passes each column to the callback: its index in
    /// the matrix, the index of its first row, and the elements.
    pub(super) fn read_back(
        &mut self,
        row: usize,
        column: usize,
        mut see: impl FnMut(usize, usize, &[T]),
    ) -> Result<(), Failure> {
        let (shape, thread) = (&self.work.shape, self.thread());
        let (rows, columns) = (shape.span(row), shape.span(column));
        let part = &shape.parts[thread];
        let (own_rows, own_columns) = (clipped(&part.rows, rows.len()), clipped(&part.columns, columns.len()));
        let (offset, stride) = (shape.part_offset(row, column, thread), shape.c_stride(thread));
        for slice in &mut self.c {
            slice.state.read(&mut self.mover, offset + slice.from as u64)?;
        }
        for slice in &mut self.c {
            let elements: &[T] = slice.state.wait(&mut self.mover)?.as_slice();
            for (index, wait) in slice.columns.clone().take_while(|wait| *wait < own_columns.len()).enumerate() {
                let values = &elements[index * stride..][..own_rows.len()];
                see(columns.start + own_columns.start + wait, rows.start + own_rows.start, values);
            }
        }
        Ok(())
    }
}

/// Clips a range of a part to a super-tile that may be smaller than others.
fn clipped(range: &Range<usize>, length: usize) -> Range<usize> {
    range.start.min(length)..range.end.min(length)
}

/// Two groups: the first slice, and all others together.
fn halves(count: usize) -> Vec<Range<usize>> {
    [0..count.min(1), count.min(1)..count].into_iter().filter(|group| !group.is_empty()).collect()
}

fn slices(shape: &Tiling, thread: usize, mut part: Buffer) -> Vec<Slice> {
    let columns = shape.parts[thread].columns.len();
    let column_bytes = shape.c_stride(thread) * shape.element;
    let mut slices = Vec::new();
    let mut first = 0;
    while first < columns {
        let left = columns - first;
        let half = left.div_ceil(2).next_multiple_of(SLICE_STEP);
        let width = if slices.len() + 1 == SLICES { left } else { half.min(left) };
        let rest = part.split_off(if width == left { part.bytes() } else { width * column_bytes });
        let buffer = std::mem::replace(&mut part, rest);
        slices.push(Slice {
            state: BufferState::Here(buffer),
            columns: first..first + width,
            from: first * column_bytes,
        });
        first += width;
    }
    slices
}
