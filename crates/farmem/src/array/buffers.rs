//! DRAM divided into exclusively owned pieces: each [`Buffer`] owns its bytes, can be split and joined again, and is
//! moved away while the kernel reads or writes it.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use machine::memory::{MemoryError, PlacedMemory};
use model::values::id_set::NodeId;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Alignment of buffers that are accessed as values.
const ALIGNMENT: usize = 16;

/// The memory of all buffers; it lives as long as any of them.
#[derive(Clone, Debug)]
pub struct NearArena(Arc<PlacedMemory>);

/// An exclusively owned piece of near memory.
#[derive(Debug)]
pub struct Buffer {
    /// Only buffers access its bytes, through its pointer; no two of them overlap.
    memory: Arc<PlacedMemory>,
    from: usize,
    bytes: usize,
}

impl NearArena {
    /// Takes ownership of memory and returns one buffer that covers all of it.
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
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its offset in the near memory.
    pub(super) fn from(&self) -> usize {
        self.from
    }

    /// Splits the buffer: it keeps the bytes before `at` and returns the rest.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.bytes, "a buffer of {} bytes cannot be split at {at}", self.bytes);
        let rest = Self { memory: Arc::clone(&self.memory), from: self.from + at, bytes: self.bytes - at };
        self.bytes = at;
        rest
    }

    /// Joins the adjacent next piece to this buffer.
    pub fn join(&mut self, next: Self) {
        let behind = Arc::ptr_eq(&self.memory, &next.memory) && self.from + self.bytes == next.from;
        assert!(behind, "only the adjacent next piece can be joined");
        self.bytes += next.bytes;
        drop(next);
    }

    /// Its bytes as values; bytes at the end that do not form a whole value are left out.
    pub fn as_slice<T: FromBytes + Immutable>(&self) -> &[T] {
        // SAFETY: the bytes are in live memory and belong to this buffer only, which is borrowed as long as the slice;
        // no shared view of them has interior mutability. T is FromBytes, and `len` has checked its alignment.
        unsafe { slice::from_raw_parts(self.address().cast(), self.len::<T>()) }
    }

    pub fn as_mut_slice<T: FromBytes + IntoBytes>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, borrowed exclusively; T is IntoBytes, so no byte becomes uninitialised.
        unsafe { slice::from_raw_parts_mut(self.address().cast(), self.len::<T>()) }
    }

    fn len<T>(&self) -> usize {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        self.bytes / size_of::<T>()
    }

    /// Its address, for threads that coordinate their access to it.
    pub fn address(&self) -> *mut u8 {
        assert!(self.from.is_multiple_of(ALIGNMENT), "the buffer is not aligned");
        self.memory.start().as_ptr().wrapping_add(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::memory::HugePages;
    use model::values::placement::MemoryPolicy;

    #[test]
    fn split_buffers_are_disjoint_and_can_be_joined() {
        let placed = PlacedMemory::new(8192, &MemoryPolicy::Kernel, HugePages::Never).unwrap();
        let (near, mut all) = NearArena::new(placed);
        assert!(near.has(&all) && all.bytes() == 8192);
        let mut rest = all.split_off(4096);
        all.as_mut_slice::<u64>().fill(1);
        rest.as_mut_slice::<u64>().fill(2);
        assert_eq!((all.as_slice::<u64>()[511], rest.as_slice::<u64>()[0]), (1, 2));
        // The memory outlives the arena.
        drop(near);
        all.join(rest);
        assert_eq!(all.as_slice::<u64>().iter().sum::<u64>(), 3 * 512);
        let last = all.split_off(8000);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let mut last = last;
            last.join(all);
        }));
        assert!(refused.is_err(), "the previous piece is not the next one");
    }
}
