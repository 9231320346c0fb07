//! Allocates the arrays of a graph in placed memory, with the requested page size and memory policy.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use machine::memory::{HugePages, MemoryError, PlacedMemory, cast_slice, cast_slice_mut};
use model::values::id_set::NodeId;
use model::values::placement::MemoryPolicy;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Page size and memory policy of arrays.
#[derive(Clone, Debug)]
pub struct ArrayPlacement {
    pub policy: MemoryPolicy,
    pub huge_pages: HugePages,
}

/// Placed memory begins at multiples of 2 MiB. Arrays that are read together would then compete for the same cache
/// sets, so each begins at one of this many offsets, which share neither cache lines nor pages.
/// Miri has no cache, and every access to a slice takes it time in proportion to the size of the mapping.
const COLOURS: usize = if cfg!(miri) { 1 } else { 128 };
const COLOUR_BYTES: usize = 4096 + 64;

static COLOUR: AtomicUsize = AtomicUsize::new(0);

/// A placed array, zero until it is written.
pub(crate) struct Array<T> {
    memory: PlacedMemory<T>,
    /// Elements before the first one, which shift the array to its offset.
    skipped: usize,
    length: usize,
}

impl ArrayPlacement {
    /// The kernel's default placement and page size.
    pub fn kernel_default() -> Self {
        Self { policy: MemoryPolicy::Kernel, huge_pages: HugePages::Wanted }
    }

    /// For temporary arrays of construction: the kernel's default page size, because requesting huge pages may trigger
    /// compaction, which takes longer than they save.
    pub(crate) fn for_temporaries(&self) -> Self {
        Self { policy: self.policy.clone(), huge_pages: HugePages::System }
    }

    pub(crate) fn array<T: FromBytes + IntoBytes>(&self, length: usize) -> Result<Array<T>, MemoryError> {
        // Coprime to the number of offsets, so that arrays allocated in sequence get distant offsets.
        let colour = COLOUR.fetch_add(67, Ordering::Relaxed) % COLOURS;
        let skipped = colour * COLOUR_BYTES / size_of::<T>();
        let bytes = length.saturating_mul(size_of::<T>()).saturating_add(colour * COLOUR_BYTES).max(1);
        let memory = PlacedMemory::new(bytes, &self.policy, self.huge_pages)?;
        Ok(Array { memory, skipped, length })
    }
}

impl<T: FromBytes + IntoBytes> Array<T> {
    /// Returns the elements as values of another type, or as atomics that threads share.
    pub(crate) fn as_mut<U: FromBytes + IntoBytes>(&mut self) -> &mut [U] {
        cast_slice_mut(self)
    }

    /// Returns the elements as values of another type.
    pub(crate) fn view<U: FromBytes + Immutable>(&self) -> &[U]
    where
        T: Immutable,
    {
        cast_slice(self)
    }

    /// Returns a pointer to the first element. It stays valid whichever references to the elements are created.
    pub(crate) fn start(&self) -> *mut T {
        self.memory.start().as_ptr().wrapping_add(self.skipped)
    }

    /// Returns the size of the elements in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.length * size_of::<T>()
    }

    /// Moves the pages of these elements to a memory node. A page belongs to the element that begins it.
    pub(crate) fn move_to(&self, elements: Range<usize>, node: NodeId) -> Result<(), MemoryError> {
        let byte = |element: usize| (self.skipped + element) * size_of::<T>();
        self.memory.move_to(byte(elements.start)..byte(elements.end), node)
    }

    /// Adds the number of resident pages per memory node.
    pub(crate) fn add_pages(&self, most: usize, pages: &mut BTreeMap<NodeId, u64>) -> Result<(), MemoryError> {
        for (node, count) in self.memory.pages_by_node(most)? {
            *pages.entry(node).or_insert(0) += count;
        }
        Ok(())
    }
}

impl<T: FromBytes + IntoBytes> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory.as_slice()[self.skipped..self.skipped + self.length]
    }
}

impl<T: FromBytes + IntoBytes> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory.as_mut_slice()[self.skipped..self.skipped + self.length]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn new_arrays_are_zero_and_convert_to_other_types() {
        for _ in 0..5 {
            let mut array: Array<u64> = ArrayPlacement::kernel_default().array(10).unwrap();
            assert_eq!((array.len(), array.bytes()), (10, 80));
            assert!(array.iter().all(|value| *value == 0));
            array[9] = 5 << 32 | 3;
            assert_eq!(array.as_mut::<u32>()[18..], [3, 5]);
            assert_eq!(array.as_mut::<AtomicU32>()[19].load(Ordering::Relaxed), 5);
            assert_eq!(array.view::<u8>()[72..], [3, 0, 0, 0, 5, 0, 0, 0]);
        }
        assert!(ArrayPlacement::kernel_default().array::<u32>(0).unwrap().is_empty());
    }
}
