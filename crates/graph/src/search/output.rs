//! The result: a parent for each vertex, in original labels, written block by block.
//!
//! Unsafe because threads write to one array: each block, and then each hub, has one of them.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use machine::memory::MemoryError;
use model::id_set::NodeId;

use crate::classes::BLOCK;
use crate::layout::{Layout, NO_LABEL};
use crate::room::{Array, Room};

/// The parents, by label.
pub(super) struct Output {
    parents: Array<u32>,
    /// Of `parents`, for the threads that write.
    start: *mut u32,
}

// SAFETY: `start` is used by the two writing functions alone, whose callers give each place to one thread.
unsafe impl Sync for Output {}
// SAFETY: the memory belongs to this value.
unsafe impl Send for Output {}

impl Output {
    pub(super) fn new(vertices: usize, room: &Room) -> Result<Self, MemoryError> {
        let mut parents: Array<u32> = room.array(vertices)?;
        // The memory is mapped elsewhere: it stays where it is when the value moves.
        let start = parents.as_mut_ptr();
        Ok(Self { parents, start })
    }

    pub(super) fn parents(&mut self) -> &[u32] {
        &self.parents
    }

    pub(super) fn bytes(&self) -> usize {
        self.parents.bytes()
    }

    pub(super) fn add_pages(&self, most: usize, pages: &mut BTreeMap<NodeId, u64>) -> Result<(), MemoryError> {
        self.parents.add_pages(most, pages)
    }

    /// Touches the memory of these blocks, each of which one thread has.
    pub(super) fn touch(&self, blocks: Range<usize>) {
        let end = self.parents.len().min(blocks.end * BLOCK);
        let start = end.min(blocks.start * BLOCK);
        // SAFETY: these blocks are this thread's, and lie in the array.
        unsafe { self.start.add(start).write_bytes(0, end - start) };
    }

    /// Writes the vertices of a block, hubs left out; one thread has the block.
    pub(super) fn write_block(&self, layout: &Layout, parent: &[AtomicU32], block: usize) {
        let end = self.parents.len().min((block + 1) * BLOCK);
        // Written whole first: the lines need not be read, and stay in the cache for what follows.
        // SAFETY: this block is this thread's, and lies in the array.
        unsafe { self.start.add(block * BLOCK).write_bytes(0xFF, end - block * BLOCK) };
        for run in layout.classes.runs(block) {
            self.write(layout, parent, run);
        }
    }

    /// Writes these hubs, each of which one thread has, after all blocks.
    pub(super) fn write_hubs(&self, layout: &Layout, parent: &[AtomicU32], hubs: Range<usize>) {
        self.write(layout, parent, hubs);
    }

    #[inline(always)]
    fn write(&self, layout: &Layout, parent: &[AtomicU32], ranks: Range<usize>) {
        let labels = &layout.label[..];
        for (label, parent) in labels[ranks.clone()].iter().zip(&parent[ranks]) {
            let parent = parent.load(Relaxed) as usize;
            debug_assert!(parent < labels.len() && (*label as usize) < self.parents.len());
            // SAFETY: parents are ranks or the one after the last, all of which have a label or none; labels of ranks are
            // vertices (construction makes them so, reading a file checks it), and each is written by one thread.
            unsafe { *self.start.add(*label as usize) = *labels.get_unchecked(parent) };
        }
    }
}

/// `write_block` fills with it byte by byte.
const _: () = assert!(NO_LABEL == u32::MAX);
