//! DRAM that is lent out in pieces: each [`Buffer`] has its bytes alone, can be cut and put together again, and is given
//! away while the kernel reads or writes it.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use machine::memory::{MemoryError, PlacedMemory};
use model::values::id_set::NodeId;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Buffers that are read or written as values begin at a multiple of this.
const ALIGNMENT: usize = 16;

/// The memory that buffers are pieces of; it lives as long as any of them.
#[derive(Clone, Debug)]
pub struct NearArena(Arc<PlacedMemory>);

/// A piece of near memory that nobody else has.
#[derive(Debug)]
pub struct Buffer {
    /// Only buffers access its bytes, through its pointer; no two of them have the same bytes.
    memory: Arc<PlacedMemory>,
    from: usize,
    bytes: usize,
}

impl NearArena {
    /// Takes memory over; the buffer is all of it.
    pub fn new(placed: PlacedMemory) -> (Self, Buffer) {
        let bytes = placed.bytes().0 as usize;
        let memory = Arc::new(placed);
        (Self(Arc::clone(&memory)), Buffer { memory, from: 0, bytes })
    }

    /// As [`PlacedMemory::pages_by_node`].
    pub fn pages_by_node(&self, pages_max: usize) -> Result<BTreeMap<NodeId, u64>, MemoryError> {
        self.0.pages_by_node(pages_max)
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.0.start().as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes().0 as usize
    }

    pub(super) fn has(&self, buffer: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &buffer.memory)
    }
}

impl Buffer {
    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its place in the near memory.
    pub(super) fn from(&self) -> usize {
        self.from
    }

    /// Cuts off what begins at a byte: this buffer keeps what is before it.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.bytes, "a buffer of {} bytes cannot be cut at {at}", self.bytes);
        let rest = Self { memory: Arc::clone(&self.memory), from: self.from + at, bytes: self.bytes - at };
        self.bytes = at;
        rest
    }

    /// Puts the piece behind it back.
    pub fn join(&mut self, next: Self) {
        let behind = Arc::ptr_eq(&self.memory, &next.memory) && self.from + self.bytes == next.from;
        assert!(behind, "only the piece behind a buffer can be joined to it");
        self.bytes += next.bytes;
        drop(next);
    }

    /// Its bytes as values; at the end may be some that do not make a whole value.
    pub fn as_slice<T: FromBytes + Immutable>(&self) -> &[T] {
        // SAFETY: the bytes lie in live memory and are this buffer's alone, which is borrowed as long as the slice; no shared
        // view of them has interior mutability. T is FromBytes, and `len` has checked its alignment.
        unsafe { slice::from_raw_parts(self.address().cast(), self.len::<T>()) }
    }

    pub fn as_mut_slice<T: FromBytes + IntoBytes>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, borrowed exclusively; T is IntoBytes, so that no byte becomes uninitialised.
        unsafe { slice::from_raw_parts_mut(self.address().cast(), self.len::<T>()) }
    }

    fn len<T>(&self) -> usize {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        self.bytes / size_of::<T>()
    }

    /// Where it begins, for threads that share it by an agreement of their own.
    pub fn address(&self) -> *mut u8 {
        assert!(self.from.is_multiple_of(ALIGNMENT), "a buffer of values begins at a multiple of their size");
        self.memory.start().as_ptr().wrapping_add(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::memory::HugePages;
    use model::placements::placement::MemoryPolicy;

    #[test]
    fn pieces_have_bytes_of_their_own_and_come_together_again() {
        let placed = PlacedMemory::new(8192, &MemoryPolicy::Kernel, HugePages::Never).unwrap();
        let (near, mut all) = NearArena::new(placed);
        assert!(near.has(&all) && all.bytes() == 8192);
        let mut rest = all.split_off(4096);
        all.as_mut_slice::<u64>().fill(1);
        rest.as_mut_slice::<u64>().fill(2);
        assert_eq!((all.as_slice::<u64>()[511], rest.as_slice::<u64>()[0]), (1, 2));
        // The memory outlives what it was made of.
        drop(near);
        all.join(rest);
        assert_eq!(all.as_slice::<u64>().iter().sum::<u64>(), 3 * 512);
        let last = all.split_off(8000);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let mut last = last;
            last.join(all);
        }));
        assert!(refused.is_err(), "the piece before it is not behind it");
    }
}
