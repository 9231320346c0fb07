//! Writes the result, a parent for each vertex in original labels, block by block.
//!
//! The code is unsafe because threads write to one array. Each block, and afterwards each hub, belongs to one thread.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use machine::memory::MemoryError;
use model::values::id_set::NodeId;

use crate::arrays::{Array, ArrayPlacement};
use crate::label_blocks::BLOCK;
use crate::layout::{Layout, NO_LABEL};

pub(super) struct Output {
    /// Threads write through its pointer; references to its elements require exclusive access to this value.
    parents: Array<u32>,
    vertices: usize,
}

impl Output {
    pub(super) fn new(vertices: usize, placement: &ArrayPlacement) -> Result<Self, MemoryError> {
        Ok(Self { parents: placement.array(vertices)?, vertices })
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

    /// Touches the memory of these blocks, each of which belongs to one thread.
    pub(super) fn touch(&self, blocks: Range<usize>) {
        let end = self.vertices.min(blocks.end * BLOCK);
        let start = end.min(blocks.start * BLOCK);
        // SAFETY: these blocks belong to this thread and are within the array.
        unsafe { self.parents.start().add(start).write_bytes(0, end - start) };
    }

    /// Writes the vertices of a block, except hubs. The block belongs to one thread.
    pub(super) fn write_block(&self, layout: &Layout, parent: &[AtomicU32], block: usize) {
        let end = self.vertices.min((block + 1) * BLOCK);
        // The block is filled first: its cache lines need not be read, and stay in the cache for the writes below.
        // SAFETY: this block belongs to this thread and is within the array.
        unsafe { self.parents.start().add(block * BLOCK).write_bytes(0xFF, end - block * BLOCK) };
        for run in layout.classes.runs(block) {
            self.write(layout, parent, run);
        }
    }

    /// Writes these hubs, each of which belongs to one thread, after all blocks.
    pub(super) fn write_hubs(&self, layout: &Layout, parent: &[AtomicU32], hubs: Range<usize>) {
        self.write(layout, parent, hubs);
    }

    #[inline(always)]
    fn write(&self, layout: &Layout, parent: &[AtomicU32], ranks: Range<usize>) {
        let (labels, parents) = (&layout.label[..], self.parents.start());
        for (label, parent) in labels[ranks.clone()].iter().zip(&parent[ranks]) {
            let parent = parent.load(Relaxed) as usize;
            debug_assert!(parent < labels.len() && (*label as usize) < self.vertices);
            // SAFETY: parents are ranks or the one after the last, all of which have a label or `NO_LABEL`; labels of
            // ranks are vertices (construction guarantees it, reading a file checks it), and each is written by one
            // thread.
            unsafe { *parents.add(*label as usize) = *labels.get_unchecked(parent) };
        }
    }
}

/// `write_block` fills blocks with this value byte by byte.
const _: () = assert!(NO_LABEL == u32::MAX);
