//! Divides the memory limit of construction: per-vertex data stays in memory, the rest is buffers, whose size
//! determines the number of buckets. The minimum is checked before construction begins.

use model::values::units::Bytes;

use super::blocks::{HEADER_BYTES, entry_bytes};
use crate::edges::BATCH;
use crate::error::Error;
use crate::kronecker::Spec;
use crate::tail_io::PAGE_BYTES;
use crate::team::Chunks;

/// Memory of a thread per edge of a bucket: 8 bytes for the edge, 4.5 for its encoded list if differences are large,
/// and 2 for the block that is read.
pub(super) const BYTES_PER_ENTRY: u64 = 16;
/// The block that is read takes at most 1 / this of a thread's memory.
const BLOCK_SHARE: u64 = 8;
/// Larger blocks are not faster.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Minimum memory of a thread.
const THREAD_BYTES_MIN: u64 = 32 << 10;
/// Target fill of a bucket, in percent of a thread's capacity; the rest is for duplicates.
pub(super) const FILLED_PERCENT: u64 = 70;
/// Rows of the head columns that a thread collects before it writes them.
pub(super) const STAGED_ROWS: usize = 1 << 10;
/// Minimum number of bytes written between two checkpoints. In a large graph, an interruption loses at most a sixteenth
/// of the work, and half-filled blocks are a sixteenth of all blocks.
const CHECKPOINT_BYTES_MIN: u64 = 256 << 20;

/// Sizes derived from the memory limit. They are part of the checkpoint, so a resumed construction uses the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketPlan {
    /// Memory of each thread for blocks or for a bucket.
    pub(super) thread_bytes: u64,
    /// Log2 of the number of buckets of pairs.
    pub(super) bits: u32,
}

/// Requirements of construction out of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildRequirements {
    /// Minimum memory for arrays and buffers, in addition to that of the program.
    pub memory: Bytes,
}

impl BuildRequirements {
    /// Computes the requirements of this graph with this many threads and columns.
    pub fn of(spec: &Spec, threads: usize, columns: u32) -> Result<Self, Error> {
        spec.check()?;
        let least = BucketPlan::with(spec, least_thread_bytes(spec)).memory(spec, threads, columns);
        Ok(Self { memory: Bytes(least) })
    }

    /// Returns the estimated disk space of construction with this much memory, the graph included. The encoded size is
    /// only known afterwards.
    pub fn disk(spec: &Spec, memory: Bytes) -> Bytes {
        let directions = u128::from(spec.edges()) * 2;
        // Both directions of all edges in blocks; each checkpoint leaves as many half-empty ones as fit into memory.
        let blocks = directions * u128::from(entry_bytes(2 * spec.scale)) * 17 / 16;
        let half_empty = u128::from(memory.0).min(blocks);
        // Degrees twice, and about three bytes per direction in the graph.
        let bytes = blocks + half_empty + directions * 3 + u128::from(spec.vertices()) * 24;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// Returns the likely maximum degree of a generated graph: at each level, a hub's half has 0.76 of the ends.
fn largest_degree(spec: &Spec) -> u64 {
    let ends = 2.0 * spec.edges() as f64 * 0.76_f64.powi(spec.scale as i32);
    (1.05 * ends + 64.0).min(spec.vertices() as f64) as u64
}

fn least_thread_bytes(spec: &Spec) -> u64 {
    // Bounds the number of buckets (see `BucketPlan::with` and `bounds`), each of which needs a page.
    let directions = 2.0 * spec.edges() as f64;
    let by_buckets = (2.0 * directions * (BYTES_PER_ENTRY * PAGE_BYTES) as f64 * 100.0 / FILLED_PERCENT as f64).sqrt();
    let by_hub = largest_degree(spec) * BYTES_PER_ENTRY * 100 / FILLED_PERCENT;
    (by_buckets as u64).max(by_hub).max(THREAD_BYTES_MIN).next_multiple_of(PAGE_BYTES)
}

impl BucketPlan {
    pub(super) fn fitting(spec: &Spec, threads: usize, columns: u32, memory: Bytes) -> Result<Self, Error> {
        let (mut fits, mut above) = (least_thread_bytes(spec), memory.0.max(1));
        let with = |bytes: u64| Self::with(spec, bytes / PAGE_BYTES * PAGE_BYTES);
        let needed = with(fits).memory(spec, threads, columns);
        if needed > memory.0 {
            return Err(Error::Little { scale: spec.scale, needed: Bytes(needed), asked: memory });
        }
        // If everything fits into one bucket, more memory does not help.
        above = above.min(2 * spec.edges() * BYTES_PER_ENTRY * 100 / FILLED_PERCENT + fits);
        while above - fits > PAGE_BYTES {
            let middle = fits + (above - fits) / 2;
            if with(middle).memory(spec, threads, columns) <= memory.0 { fits = middle } else { above = middle }
        }
        Ok(with(fits))
    }

    pub(super) fn with(spec: &Spec, thread_bytes: u64) -> Self {
        let mut split = Self { thread_bytes, bits: 0 };
        // There are no more distinct edges than pairs of vertices.
        let edges = spec.edges().min(1 << (2 * spec.scale).min(63));
        while edges >> split.bits > split.filled() {
            split.bits += 1;
        }
        split
    }

    /// Returns the capacity of a thread in edges.
    pub(super) fn entries(&self) -> usize {
        (self.thread_bytes / BYTES_PER_ENTRY) as usize
    }

    /// Returns the target size of a bucket in edges, without duplicates.
    pub(super) fn filled(&self) -> u64 {
        self.entries() as u64 * FILLED_PERCENT / 100
    }

    /// Returns the size of a block in bytes for this many buckets.
    pub(super) fn block(&self, buckets: usize) -> usize {
        let block = (self.thread_bytes / buckets as u64).min(self.thread_bytes / BLOCK_SHARE).min(BLOCK_BYTES_MAX);
        ((block / PAGE_BYTES).max(1) * PAGE_BYTES) as usize
    }

    pub(super) fn buckets(&self) -> usize {
        1 << self.bits
    }

    /// Returns the number of bytes written between two checkpoints.
    pub(super) fn bytes_per_checkpoint(&self, threads: usize) -> u64 {
        (16 * self.thread_bytes * threads as u64).max(CHECKPOINT_BYTES_MIN)
    }

    /// Returns the total memory of construction with this plan.
    pub(super) fn memory(&self, spec: &Spec, threads: usize, columns: u32) -> u64 {
        let vertices = spec.vertices() * 4;
        // Partially used huge pages, if there are any.
        let rounded = if vertices >= 1 << 24 { 4 << 20 } else { 64 << 10 };
        let batch = (BATCH * 16).max(STAGED_ROWS * 4 * columns as usize) as u64 + 4 * PAGE_BYTES;
        let dealt = 2 * spec.edges() * u64::from(entry_bytes(2 * spec.scale));
        // Blocks, including those that checkpoints left half empty; the bucket and position of each are in memory.
        let ranked = self.buckets() * 4;
        let block = self.block(ranked) as u64;
        let blocks = dealt / (block - HEADER_BYTES as u64 - 16) * 17 / 16 + ranked as u64 * threads as u64;
        vertices + rounded + threads as u64 * (self.thread_bytes + batch) + blocks * 8 + ranked as u64 * 32
    }
}

/// Returns the first rank of each bucket and the end of the last, such that each bucket has about `filled` neighbours.
/// Steps are degrees, descending, with the first rank after each.
pub(super) fn bounds(steps: &[(u32, u32)], filled: u64) -> Result<Vec<u32>, u64> {
    let (mut bounds, mut left, mut from) = (vec![0], filled, 0);
    for (degree, end) in steps {
        let degree = u64::from(*degree);
        if degree > filled {
            return Err(degree);
        }
        while from < *end {
            if degree > left {
                bounds.push(from);
                left = filled;
            }
            let ranks = (left / degree).min(u64::from(end - from));
            left -= ranks * degree;
            from += ranks as u32;
        }
    }
    bounds.push(from);
    Ok(bounds)
}

/// Returns a work queue of the chunks of a range.
pub(super) fn pieces(range: &std::ops::Range<u64>, size: usize) -> Chunks {
    Chunks::new((range.end - range.start) as usize, size)
}
