//! The state of a search level, and the compilation of the search loops. Loops are written once for sixteen ranks at a
//! time and compiled for each instruction set and each width of the head columns.
//!
//! The code is unsafe because of the vector instructions, and because threads write to shared arrays. In a bottom-up
//! level each chunk of vertices belongs to the thread that took it, and no thread changes the frontier. In a top-down
//! level with several threads, bits are claimed and read atomically ([`Lanes::shared_bits`]); with one thread, no other
//! thread reads or writes. Ranks in the layout are below its number of ranks (construction guarantees it, reading a
//! file checks it), and every map and array covers all of them and one more.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::coded::{self, PaddedList};
use crate::head::HeadColumns;
#[cfg(target_arch = "aarch64")]
use crate::lanes::neon::Neon;
use crate::lanes::plain::Plain;
use crate::lanes::{Isa, Lanes, WIDTH, first};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{avx2::Avx2, avx512::Avx512};
use crate::layout::Layout;

/// The data that a level works on.
#[derive(Clone, Copy)]
pub(crate) struct LevelState<'s> {
    pub(crate) layout: &'s Layout,
    /// One bit per rank; the bits after the last rank are set.
    pub(crate) visited: &'s [AtomicU64],
    pub(crate) frontier: &'s [AtomicU64],
    pub(crate) next: &'s [AtomicU64],
    /// By rank: the rank of its parent.
    pub(crate) parent: &'s [AtomicU32],
}

/// The vertices that a thread has found in a level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelCount {
    pub(crate) count: u64,
    /// Approximate sum of their degrees, from the mean of each 64 consecutive ranks.
    pub(crate) degrees: f64,
}

impl LevelCount {
    /// Adds the counts of another thread.
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.degrees += other.degrees;
    }
}

/// Tail lists that were read from a disk differ from those written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptList {
    pub(crate) rank: u32,
}

/// A loop that is compiled for each instruction set.
pub(crate) trait LaneKernel {
    type Out;

    /// # Safety
    /// See the head of this file; the CPU must support the instructions.
    unsafe fn run<L: Lanes>(self) -> Self::Out;
}

/// Runs a loop with supported instructions ([`Isa::is_here`]).
#[inline]
pub(crate) fn with<W: LaneKernel>(isa: Isa, work: W) -> W::Out {
    // SAFETY: `Isa` values come from `Isa::is_here` (see `Search::new`); for the rest see the head of this file.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => with_avx512(work),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => with_avx2(work),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => work.run::<Neon>(),
            _ => work.run::<Plain>(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn with_avx512<W: LaneKernel>(work: W) -> W::Out {
    // SAFETY: as for the caller.
    unsafe { work.run::<Avx512>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn with_avx2<W: LaneKernel>(work: W) -> W::Out {
    // SAFETY: as for the caller.
    unsafe { work.run::<Avx2>() }
}

/// Width of the neighbours in the head columns.
pub(crate) trait HeadWidth {
    const BYTES: usize;

    /// Loads sixteen consecutive neighbours of a column.
    ///
    /// # Safety
    /// For all functions: the CPU supports the instructions, and the rows exist.
    unsafe fn load<L: Lanes>(column: *const u8, row: usize) -> L::Vector;

    /// Loads the neighbours in the rows of the mask.
    unsafe fn gather<L: Lanes>(column: *const u8, rows: L::Vector, mask: u32) -> L::Vector;
}

/// Neighbours of four bytes.
pub(crate) struct U32Heads;
/// Neighbours of three bytes.
pub(crate) struct U24Heads;

impl HeadWidth for U32Heads {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<L: Lanes>(column: *const u8, row: usize) -> L::Vector {
        // SAFETY: as for the caller; arrays of u32 are aligned as such.
        unsafe { L::load(column.add(4 * row).cast()) }
    }

    #[inline(always)]
    unsafe fn gather<L: Lanes>(column: *const u8, rows: L::Vector, mask: u32) -> L::Vector {
        // SAFETY: as for the caller.
        unsafe { L::gather(column.cast(), rows, mask) }
    }
}

impl HeadWidth for U24Heads {
    const BYTES: usize = 3;

    #[inline(always)]
    unsafe fn load<L: Lanes>(column: *const u8, row: usize) -> L::Vector {
        // SAFETY: as for the caller; the head columns have 64 bytes of padding.
        unsafe { L::load_three(column.add(3 * row)) }
    }

    #[inline(always)]
    unsafe fn gather<L: Lanes>(column: *const u8, rows: L::Vector, mask: u32) -> L::Vector {
        // SAFETY: as for the caller; the head columns have 64 bytes of padding.
        unsafe { L::gather_three(column, rows, mask) }
    }
}

impl LevelState<'_> {
    #[inline(always)]
    pub(crate) fn column<E: HeadWidth>(&self, column: usize) -> *const u8 {
        let at = self.layout.column_at[column];
        match &self.layout.head {
            HeadColumns::Four(wide) => wide[at..].as_ptr().cast(),
            HeadColumns::Three(bytes) => bytes[E::BYTES * at..].as_ptr(),
        }
    }

    #[inline(always)]
    pub(crate) fn frontier_map(&self) -> *const u32 {
        self.frontier.as_ptr().cast()
    }

    #[inline(always)]
    pub(crate) fn visited_map(&self) -> *const u32 {
        self.visited.as_ptr().cast()
    }

    /// Marks a rank of this thread's chunk as found.
    ///
    /// # Safety
    /// `rank` is less than the number of ranks.
    #[inline(always)]
    pub(crate) unsafe fn mark(&self, rank: u32, found: &mut LevelCount) {
        let (word, bit) = (rank as usize / 64, 1 << (rank % 64));
        // SAFETY: every rank has its bit and a mean degree.
        let (next, visited, degree) = unsafe {
            (
                self.next.get_unchecked(word),
                self.visited.get_unchecked(word),
                self.layout.mean_degree.get_unchecked(word),
            )
        };
        next.store(next.load(Relaxed) | bit, Relaxed);
        visited.store(visited.load(Relaxed) | bit, Relaxed);
        found.count += 1;
        found.degrees += f64::from(*degree);
    }

    /// Returns a rank's list from the part of the tail lists that is in DRAM.
    #[inline(always)]
    pub(crate) fn list(&self, rank: u32) -> PaddedList<'_> {
        let (from, length) = self.layout.index.list(rank);
        PaddedList::new(&self.layout.tail, from as usize, length)
    }
}

/// Calls the closure with up to sixteen neighbours of an encoded list at a time, until it returns false.
///
/// # Safety
/// The CPU supports the instructions, and the bytes are a list as [`coded::encode`] writes it.
#[inline(always)]
pub(crate) unsafe fn each<L: Lanes>(list: PaddedList<'_>, mut more: impl FnMut(L::Vector, u32) -> bool) {
    let (mut at, end) = (list.as_ptr(), list.as_ptr().wrapping_add(list.length()));
    while at < end {
        // SAFETY: as for the caller; no more than the padding is read after the list.
        unsafe {
            let (mut left, taken) = coded::count([*at, *at.add(1), *at.add(2)]);
            let mut codes = at.add(taken);
            let mut data = codes.add(left.div_ceil(4));
            let mut before = L::zero();
            while left > 0 {
                let count = left.min(WIDTH);
                let (neighbours, bytes) = L::decode(codes.cast::<u32>().read_unaligned(), data, count, before);
                if !more(neighbours, first(count)) {
                    return;
                }
                before = neighbours;
                codes = codes.add(4);
                data = data.add(bytes);
                left -= count;
            }
            at = data;
        }
    }
}

/// Does the same for an untrusted list from a disk. Returns `None` if it is not a list of numbers below `limit`.
///
/// # Safety
/// The CPU supports the instructions.
#[inline(always)]
pub(crate) unsafe fn each_checked<L: Lanes>(
    list: PaddedList<'_>,
    limit: u32,
    mut more: impl FnMut(L::Vector, u32) -> bool,
) -> Option<()> {
    let mut at = 0;
    while at < list.length() {
        let rest = list.length() - at;
        // SAFETY: as for the caller. `at` and `data` are checked against the length of the list, and the vectors that
        // are read from there end within the padding.
        unsafe {
            let start = list.as_ptr().add(at);
            let (mut left, taken) = coded::count([*start, *start.add(1), *start.add(2)]);
            let mut codes = taken;
            let mut data = taken + left.div_ceil(4);
            // Each neighbour takes at least one byte.
            if left == 0 || data + left > rest {
                return None;
            }
            let mut before = L::zero();
            while left > 0 {
                let count = left.min(WIDTH);
                let code = start.add(codes).cast::<u32>().read_unaligned();
                let (neighbours, bytes) = L::decode(code, start.add(data), count, before);
                data += bytes;
                if data > rest || L::below(neighbours, limit, first(count)) != first(count) {
                    return None;
                }
                if !more(neighbours, first(count)) {
                    return Some(());
                }
                before = neighbours;
                codes += 4;
                left -= count;
            }
            at += data;
        }
    }
    Some(())
}
