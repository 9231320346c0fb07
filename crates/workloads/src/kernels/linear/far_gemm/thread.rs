//! One thread's share of a far product: its part of every super-tile, and its share of every panel's way to and from the
//! file. Threads meet once for each panel; between two meetings a thread reads panels that nobody fills and writes what
//! nobody else reads.
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

/// A part's columns are cut into so many slices, each half of what is left: one is written while the next is computed, at
/// the end of a super-tile, and not overwritten before it is, at the next one's beginning. The last one's way to the disk is
/// waited for at the end of the product, so it is small; each call has the library pack the panel of A again, so calls are few.
const SLICES: usize = 5;
/// Slices begin at multiples of this, and so at whole pages whatever their rows are: a column has whole lines.
const SLICE_STEP: usize = 64;

/// A buffer that is here, or on its way.
enum BufferState {
    Here(Buffer),
    Away(TransferId),
    /// Within one function, or lost by an error that ends the trial.
    Gone,
}

impl BufferState {
    pub(super) fn here(&mut self, mover: &mut Mover) -> Result<&mut Buffer, Failure> {
        if let Self::Away(_) = self {
            let Self::Away(ticket) = std::mem::replace(self, Self::Gone) else { unreachable!("looked at just now") };
            let buffer = mover.finish(ticket).map_err(|failed| super::failure(&failed.error))?;
            *self = Self::Here(buffer);
        }
        match self {
            Self::Here(buffer) => Ok(buffer),
            Self::Away(_) | Self::Gone => Err(Failure::Failed("a buffer was used after its loss".into())),
        }
    }

    fn send(
        &mut self,
        mover: &mut Mover,
        way: fn(&mut Mover, Buffer, u64) -> TransferId,
        offset: u64,
    ) -> Result<(), Failure> {
        self.here(mover)?;
        if let Self::Here(buffer) = std::mem::replace(self, Self::Gone) {
            *self = Self::Away(way(mover, buffer, offset));
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
    held: BufferState,
    /// Where it begins in the panel.
    from: usize,
}

/// Some columns of a thread's part.
struct Slice {
    held: BufferState,
    columns: Range<usize>,
    /// Where it begins in the part.
    from: usize,
}

/// The buffers that a thread gets.
pub(super) struct ThreadBuffers {
    /// Of both panels of A, both of B.
    pub shares: [Buffer; 4],
    pub part: Buffer,
}

pub(super) struct GemmThread<'w, T> {
    pub(super) member: &'w Worker<'w>,
    pub(super) work: &'w GemmContext<'w, T>,
    pub(super) mover: Mover,
    a: [BufferShare; 2],
    b: [BufferShare; 2],
    c: Vec<Slice>,
    /// How many steps the product has.
    turns: usize,
    /// How long it waited for the other threads.
    pub(super) met: Duration,
}

/// One panel of A times one of B.
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
        member: &'w Worker<'w>,
        work: &'w GemmContext<'w, T>,
        lent: ThreadBuffers,
    ) -> Result<Self, Failure> {
        let mover = Mover::new(work.file.clone(), &work.near, work.mover).map_err(|error| super::failure(&error))?;
        let shape = &work.shape;
        let thread = member.index;
        let (a_from, b_from) = (shape.shares(shape.a_bytes())[thread], shape.shares(shape.b_bytes())[thread]);
        let share = |buffer, from| BufferShare { held: BufferState::Here(buffer), from };
        let [a_0, a_1, b_0, b_1] = lent.shares;
        let c = slices(shape, thread, lent.part);
        Ok(Self {
            member,
            work,
            mover,
            a: [share(a_0, a_from), share(a_1, a_from)],
            b: [share(b_0, b_from), share(b_1, b_from)],
            c,
            turns: steps(shape).len(),
            met: Duration::ZERO,
        })
    }

    fn thread(&self) -> usize {
        self.member.index
    }

    /// Writes this thread's share of a panel; `fill` makes it, given the buffer and where in the panel it begins.
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
        let buffer = share.held.here(&mut self.mover)?;
        fill(buffer.as_mut_slice(), from / size_of::<T>());
        share.held.write(&mut self.mover, offset + from as u64)
    }

    /// Writes zeros where this thread's parts of C will be: blocks that were written before are written again faster.
    pub(super) fn clear_result(&mut self) -> Result<(), Failure> {
        let tiles = self.work.shape.tiles();
        for slice in &mut self.c {
            slice.held.here(&mut self.mover)?.as_mut_slice::<u64>().fill(0);
        }
        for at in 0..tiles * tiles {
            for index in 0..self.c.len() {
                self.write_slice(at / tiles, at % tiles, index)?;
            }
        }
        Ok(())
    }

    /// Waits for all that is under way.
    pub(super) fn await_transfers(&mut self) -> Result<(), Failure> {
        let shares = self.a.iter_mut().chain(&mut self.b).map(|share| &mut share.held);
        for held in shares.chain(self.c.iter_mut().map(|slice| &mut slice.held)) {
            held.here(&mut self.mover)?;
        }
        Ok(())
    }

    pub(super) fn multiply(&mut self) -> Result<(), Failure> {
        let steps = steps(&self.work.shape);
        self.load(steps[0], 0)?;
        for (turn, step) in steps.iter().enumerate() {
            self.a[turn % 2].held.here(&mut self.mover)?;
            self.b[turn % 2].held.here(&mut self.mover)?;
            let arrived = Instant::now();
            // All shares of this step's panels have come, and nobody works with the last step's any more.
            self.member.barrier()?;
            self.met += arrived.elapsed();
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
            share.held.read(&mut self.mover, offset + share.from as u64)?;
        }
        Ok(())
    }

    fn step(&mut self, step: PanelProduct, turn: usize) -> Result<(), Failure> {
        let shape = &self.work.shape;
        let (first, last) = (step.inner == 0, step.inner + 1 == shape.panels());
        let (a, b, c) = self.tiles(step, turn);
        let beta = if first { T::ZERO } else { T::ONE };
        if !last && self.c.iter().all(|slice| matches!(slice.held, BufferState::Here(_))) {
            // SAFETY: between two meetings panels are only read, this thread alone has its part, and no slice is away.
            unsafe { self.work.blas.gemm(T::ONE, a, b, beta, c) };
            return Ok(());
        }
        // The first slice alone, so that there is something to compute while the others come or something to write while they are
        // computed; at the very end each alone, for what is written then nothing hides.
        let end = turn + 1 == self.turns;
        let groups = if end { (0..self.c.len()).map(|slice| slice..slice + 1).collect() } else { halves(self.c.len()) };
        for group in groups {
            let mut columns = c.columns()..0;
            for slice in &mut self.c[group.clone()] {
                slice.held.here(&mut self.mover)?;
                columns.start = columns.start.min(slice.columns.start);
                columns.end = slice.columns.end.min(c.columns());
            }
            let columns = columns.start.min(columns.end)..columns.end;
            let (b, c) = (b.part(0..b.rows(), columns.clone()), c.part(0..c.rows(), columns));
            // SAFETY: as above, and these slices have been waited for.
            unsafe { self.work.blas.gemm(T::ONE, a, b, beta, c) };
            if last {
                group.clone().try_for_each(|slice| self.write_slice(step.row, step.column, slice))?;
            } else {
                self.mover.poll();
            }
        }
        Ok(())
    }

    /// What this thread multiplies in a step.
    fn tiles(&self, step: PanelProduct, turn: usize) -> (Tile<'w, T>, Tile<'w, T>, Tile<'w, T>) {
        let (shape, thread) = (&self.work.shape, self.thread());
        let (rows, columns, inner) =
            (shape.span(step.row).len(), shape.span(step.column).len(), shape.inner(step.inner).len());
        let part = &shape.parts[thread];
        let (own_rows, own_columns) = (clipped(&part.rows, rows), clipped(&part.columns, columns));
        let at = self.work.addresses[thread];
        // SAFETY: each address is that of a buffer of the near memory with room for such a matrix, and the work holds the
        // near memory as long as 'w.
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
        slice.held.write(&mut self.mover, offset + slice.from as u64)
    }

    /// Reads this thread's part of a super-tile back from the file and shows each column of it: its number in the matrix, the
    /// first row's, and the elements.
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
            slice.held.read(&mut self.mover, offset + slice.from as u64)?;
        }
        for slice in &mut self.c {
            let elements: &[T] = slice.held.here(&mut self.mover)?.as_slice();
            for (index, here) in slice.columns.clone().take_while(|here| *here < own_columns.len()).enumerate() {
                let values = &elements[index * stride..][..own_rows.len()];
                see(columns.start + own_columns.start + here, rows.start + own_rows.start, values);
            }
        }
        Ok(())
    }
}

/// A part of a super-tile that may be smaller than others.
fn clipped(range: &Range<usize>, length: usize) -> Range<usize> {
    range.start.min(length)..range.end.min(length)
}

/// The first, and the others together.
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
            held: BufferState::Here(buffer),
            columns: first..first + width,
            from: first * column_bytes,
        });
        first += width;
    }
    slices
}
