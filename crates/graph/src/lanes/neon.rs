//! Implements the operations with four vectors of NEON, which every 64-bit ARM CPU has. It has no gather and no masked
//! store: those lanes are read and written one by one.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports, reason = "dozens of intrinsics with unique names")]

use std::arch::aarch64::*;
use std::sync::atomic::AtomicU64;

use super::plain::Plain;
use super::tables::{LENGTHS, SHUFFLES};
use super::{Lanes, WIDTH};

pub(crate) struct Neon;

/// Lanes of one vector.
const LANES: usize = 4;

/// Indexed by a mask of four lanes: the byte shuffle that moves the selected lanes to the front.
static PACKED: [[u8; 16]; 16] = packed();

const fn packed() -> [[u8; 16]; 16] {
    // An index of 128 makes the byte zero.
    let mut tables = [[128; 16]; 16];
    let mut mask = 0;
    while mask < 16 {
        let (mut lane, mut next) = (0, 0);
        while lane < LANES {
            if mask >> lane & 1 == 1 {
                let mut byte = 0;
                while byte < 4 {
                    tables[mask][4 * next + byte] = (4 * lane + byte) as u8;
                    byte += 1;
                }
                next += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    tables
}

/// Returns the four parts of a mask.
#[inline(always)]
fn quarters(mask: u32) -> [u32; LANES] {
    [0, 4, 8, 12].map(|shift| mask >> shift & 0xF)
}

/// Loads sixteen bytes.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn bytes(from: *const u8) -> uint8x16_t {
    // SAFETY: the caller guarantees it.
    unsafe { vld1q_u8(from) }
}

/// Returns the bytes at these indices; zero for indices above 15.
#[inline(always)]
fn shuffled(bytes: uint8x16_t, by: uint8x16_t) -> uint32x4_t {
    // SAFETY: NEON is part of 64-bit ARM.
    unsafe { vreinterpretq_u32_u8(vqtbl1q_u8(bytes, by)) }
}

/// Returns the prefix sums of the four values, plus the last value of `before`.
#[inline(always)]
fn sums(values: uint32x4_t, before: uint32x4_t) -> uint32x4_t {
    // SAFETY: NEON is part of 64-bit ARM.
    unsafe {
        let zero = vdupq_n_u32(0);
        let two = vaddq_u32(values, vextq_u32::<3>(zero, values));
        let four = vaddq_u32(two, vextq_u32::<2>(zero, two));
        vaddq_u32(four, vdupq_laneq_u32::<3>(before))
    }
}

// SAFETY (of all functions here): every 64-bit ARM CPU has NEON, and only memory is accessed that the trait requires to
// be accessible.
impl Lanes for Neon {
    type Vector = [uint32x4_t; LANES];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self::Vector {
        // SAFETY: see above.
        [0, 1, 2, 3].map(|part| unsafe { vld1q_u32(from.add(LANES * part)) })
    }

    #[inline(always)]
    unsafe fn from(first: u32) -> Self::Vector {
        // SAFETY: see above.
        unsafe {
            let lanes = vld1q_u32([0, 1, 2, 3].as_ptr());
            [0, 4, 8, 12].map(|part| vaddq_u32(lanes, vdupq_n_u32(first.wrapping_add(part))))
        }
    }

    #[inline(always)]
    unsafe fn gather(base: *const u32, at: Self::Vector, mask: u32) -> Self::Vector {
        // SAFETY: see above.
        unsafe { Self::load(Plain::gather(base, Self::spill(at), mask).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_three(from: *const u8) -> Self::Vector {
        const SPREAD: [u8; 16] = [0, 1, 2, 128, 3, 4, 5, 128, 6, 7, 8, 128, 9, 10, 11, 128];
        // SAFETY: see above; 64 bytes may be read.
        unsafe {
            let spread = bytes(SPREAD.as_ptr());
            [0, 12, 24, 36].map(|at| shuffled(bytes(from.add(at)), spread))
        }
    }

    #[inline(always)]
    unsafe fn gather_three(base: *const u8, at: Self::Vector, mask: u32) -> Self::Vector {
        // SAFETY: see above.
        unsafe { Self::load(Plain::gather_three(base, Self::spill(at), mask).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn below(vector: Self::Vector, limit: u32, mask: u32) -> u32 {
        // SAFETY: see above.
        let part = |numbers: uint32x4_t| unsafe {
            let bits = vld1q_u32([1, 2, 4, 8].as_ptr());
            vaddvq_u32(vandq_u32(vcltq_u32(numbers, vdupq_n_u32(limit)), bits))
        };
        let [a, b, c, d] = vector.map(part);
        (a | b << 4 | c << 8 | d << 12) & mask
    }

    #[inline(always)]
    unsafe fn bits(map: *const u32, of: Self::Vector, mask: u32) -> u32 {
        // SAFETY: see above.
        unsafe { Plain::bits(map, Self::spill(of), mask) }
    }

    #[inline(always)]
    unsafe fn shared_bits(map: &[AtomicU64], of: Self::Vector, mask: u32) -> u32 {
        // SAFETY: see above.
        unsafe { Plain::shared_bits(map, Self::spill(of), mask) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u32, vector: Self::Vector, mask: u32) {
        for (part, (numbers, mask)) in vector.into_iter().zip(quarters(mask)).enumerate() {
            let to = to.wrapping_add(LANES * part);
            // SAFETY: see above; only the positions of the mask are written.
            unsafe {
                if mask == 0xF {
                    vst1q_u32(to, numbers);
                } else if mask != 0 {
                    let mut stored = [0; WIDTH];
                    vst1q_u32(stored.as_mut_ptr(), numbers);
                    Plain::store(to, stored, mask);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn compress(to: *mut u32, vector: Self::Vector, mask: u32) {
        let mut next = to;
        for (numbers, mask) in vector.into_iter().zip(quarters(mask)) {
            // SAFETY: see above: sixteen numbers may be written, and at most four per vector are before `next`.
            unsafe {
                let order = bytes(PACKED[mask as usize].as_ptr());
                vst1q_u32(next, shuffled(vreinterpretq_u8_u32(numbers), order));
                next = next.add(mask.count_ones() as usize);
            }
        }
    }

    #[inline(always)]
    unsafe fn spill(vector: Self::Vector) -> [u32; WIDTH] {
        let mut stored = [0; WIDTH];
        for (part, numbers) in stored.chunks_exact_mut(LANES).zip(vector) {
            // SAFETY: the part has four numbers.
            unsafe { vst1q_u32(part.as_mut_ptr(), numbers) };
        }
        stored
    }

    #[inline(always)]
    unsafe fn zero() -> Self::Vector {
        // SAFETY: see above.
        unsafe { [vdupq_n_u32(0); LANES] }
    }

    #[inline(always)]
    unsafe fn decode(codes: u32, data: *const u8, count: usize, before: Self::Vector) -> (Self::Vector, usize) {
        // Codes after the last value belong to other bytes. Cleared codes mean one byte each, which is subtracted
        // again.
        let own = if count < WIDTH { codes & ((1 << (2 * count)) - 1) } else { codes };
        // SAFETY: see above; 64 bytes may be read from `data`.
        unsafe {
            let (mut taken, mut values, mut last) = (0, Self::zero(), before[LANES - 1]);
            for (value, code) in values.iter_mut().zip(own.to_le_bytes()) {
                let shuffle = bytes(SHUFFLES[usize::from(code)].as_ptr());
                last = sums(shuffled(bytes(data.add(taken)), shuffle), last);
                *value = last;
                taken += usize::from(LENGTHS[usize::from(code)]);
            }
            (values, taken - (WIDTH - count))
        }
    }
}
