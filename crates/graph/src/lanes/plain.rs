//! Implements the operations in scalar code, for CPUs without AVX2 and as the reference in tests.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Lanes, WIDTH};

pub(crate) struct Plain;

/// Calls the closure with each lane of a mask.
#[inline(always)]
fn each(mut mask: u32, mut with: impl FnMut(usize)) {
    while mask != 0 {
        with(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}

// SAFETY (of all functions here): each access is within the memory that the trait requires.
impl Lanes for Plain {
    type Vector = [u32; WIDTH];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self::Vector {
        // SAFETY: sixteen numbers are readable.
        unsafe { from.cast::<Self::Vector>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn from(first: u32) -> Self::Vector {
        std::array::from_fn(|lane| first + lane as u32)
    }

    #[inline(always)]
    unsafe fn gather(base: *const u32, at: Self::Vector, mask: u32) -> Self::Vector {
        let mut gathered = [0; WIDTH];
        // SAFETY: the indices in the lanes of the mask are within the array.
        each(mask, |lane| gathered[lane] = unsafe { *base.add(at[lane] as usize) });
        gathered
    }

    #[inline(always)]
    unsafe fn load_three(from: *const u8) -> Self::Vector {
        // SAFETY: 64 bytes may be read.
        std::array::from_fn(|lane| unsafe { from.add(3 * lane).cast::<u32>().read_unaligned() & 0xFF_FFFF })
    }

    #[inline(always)]
    unsafe fn gather_three(base: *const u8, at: Self::Vector, mask: u32) -> Self::Vector {
        let mut gathered = [0; WIDTH];
        each(mask, |lane| {
            // SAFETY: the indices in the lanes of the mask are within the array, and one byte after it is readable.
            gathered[lane] = unsafe { base.add(3 * at[lane] as usize).cast::<u32>().read_unaligned() } & 0xFF_FFFF;
        });
        gathered
    }

    #[inline(always)]
    unsafe fn below(vector: Self::Vector, limit: u32, mask: u32) -> u32 {
        let mut below = 0;
        each(mask, |lane| below |= u32::from(vector[lane] < limit) << lane);
        below
    }

    #[inline(always)]
    unsafe fn bits(map: *const u32, of: Self::Vector, mask: u32) -> u32 {
        let mut set = 0;
        // SAFETY: the indices in the lanes of the mask are within the map.
        each(mask, |lane| set |= (unsafe { *map.add(of[lane] as usize / 32) } >> (of[lane] % 32) & 1) << lane);
        set
    }

    #[inline(always)]
    unsafe fn shared_bits(map: &[AtomicU64], of: Self::Vector, mask: u32) -> u32 {
        let mut set = 0;
        each(mask, |lane| {
            // SAFETY: the indices in the lanes of the mask are within the map.
            let word = unsafe { map.get_unchecked(of[lane] as usize / 64) }.load(Relaxed);
            set |= ((word >> (of[lane] % 64)) as u32 & 1) << lane;
        });
        set
    }

    #[inline(always)]
    unsafe fn store(to: *mut u32, vector: Self::Vector, mask: u32) {
        // SAFETY: the positions of the lanes of the mask are writable.
        each(mask, |lane| unsafe { *to.add(lane) = vector[lane] });
    }

    #[inline(always)]
    unsafe fn compress(to: *mut u32, vector: Self::Vector, mask: u32) {
        let mut next = to;
        each(mask, |lane| {
            // SAFETY: sixteen numbers may be written.
            unsafe {
                *next = vector[lane];
                next = next.add(1);
            }
        });
    }

    #[inline(always)]
    unsafe fn spill(vector: Self::Vector) -> [u32; WIDTH] {
        vector
    }

    #[inline(always)]
    unsafe fn zero() -> Self::Vector {
        [0; WIDTH]
    }

    #[inline(always)]
    unsafe fn decode(codes: u32, data: *const u8, count: usize, before: Self::Vector) -> (Self::Vector, usize) {
        let (mut values, mut taken, mut value) = ([0; WIDTH], 0, before[WIDTH - 1]);
        for (lane, slot) in values.iter_mut().enumerate().take(count) {
            let width = (codes >> (2 * lane) & 3) as usize + 1;
            // SAFETY: four bytes from here on may be read.
            let four = unsafe { data.add(taken).cast::<u32>().read_unaligned() };
            value = value.wrapping_add(four & u32::MAX >> (32 - 8 * width));
            *slot = value;
            taken += width;
        }
        (values, taken)
    }
}
