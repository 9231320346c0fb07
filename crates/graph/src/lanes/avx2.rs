//! Implements the operations with two AVX2 vectors. Decoding processes four values at a time with a table of shuffles.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports, reason = "dozens of intrinsics with unique names")]

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use super::tables::{LENGTHS, SHUFFLES};
use super::{Lanes, WIDTH};

pub(crate) struct Avx2;

/// For each mask of eight lanes: the indices of its lanes, packed to the front.
static PACKED: [[u32; 8]; 256] = packed();

const fn packed() -> [[u32; 8]; 256] {
    let mut tables = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut next) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                tables[mask][next] = lane;
                next += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    tables
}

/// Returns a vector with all ones in the lanes of a mask.
#[inline(always)]
unsafe fn spread(mask: u32) -> __m256i {
    // SAFETY: the caller has checked that the CPU supports AVX2.
    unsafe {
        let lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask as i32), lanes), lanes)
    }
}

/// Returns both halves of a mask.
#[inline(always)]
fn halves(mask: u32) -> [u32; 2] {
    [mask & 0xFF, mask >> 8 & 0xFF]
}

/// Returns the prefix sums of the four values, plus the last value of `before`.
#[inline(always)]
unsafe fn sums(values: __m128i, before: __m128i) -> __m128i {
    // SAFETY: the caller has checked that the CPU supports AVX2.
    unsafe {
        let two = _mm_add_epi32(values, _mm_slli_si128::<4>(values));
        let four = _mm_add_epi32(two, _mm_slli_si128::<8>(two));
        _mm_add_epi32(four, _mm_shuffle_epi32::<0xFF>(before))
    }
}

/// Loads the 32-bit words at these indices of a bit map that other threads may change concurrently; lanes outside
/// `lanes` become zero. The instruction loads each word separately, aligned and therefore atomically: each load is
/// equivalent to a relaxed load of the surrounding 64 bits of which one half is kept. [`_mm256_mask_i32gather_epi32`]
/// is the same instruction, but to the compiler it is a plain load, i.e. a data race.
///
/// # Safety
/// The CPU supports AVX2, and the words are within the map.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather_shared(map: &[AtomicU64], at: __m256i, lanes: __m256i) -> __m256i {
    let mut words = _mm256_setzero_si256();
    // SAFETY: reads only words that the caller guarantees to be in the map, and writes no memory. The three registers
    // are distinct, as the instruction requires, because the written ones are not late outputs.
    unsafe {
        asm!(
            "vpgatherdd {words}, [{map} + 4 * {at}], {lanes}",
            words = inout(ymm_reg) words,
            lanes = inout(ymm_reg) lanes => _,
            at = in(ymm_reg) at,
            map = in(reg) map.as_ptr(),
            options(readonly, nostack, preserves_flags),
        );
    }
    words
}

/// Returns the lanes of a mask whose bit, at this index modulo 32, is set in their word.
#[inline(always)]
unsafe fn test(words: [__m256i; 2], of: [__m256i; 2], mask: u32) -> u32 {
    // SAFETY: the caller has checked that the CPU supports AVX2.
    let half = |half: usize| unsafe {
        let bit = _mm256_sub_epi32(_mm256_set1_epi32(31), _mm256_and_si256(of[half], _mm256_set1_epi32(31)));
        // The requested bit becomes the sign bit, which movemask collects.
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_sllv_epi32(words[half], bit))) as u32
    };
    (half(0) | half(1) << 8) & mask
}

// SAFETY (of all functions here): the caller has checked that the CPU supports the instructions; masked loads and
// stores access only the lanes of their mask, and all other accesses are within the memory that the trait requires.
impl Lanes for Avx2 {
    type Vector = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self::Vector {
        // SAFETY: see above.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
    }

    #[inline(always)]
    unsafe fn from(first: u32) -> Self::Vector {
        // SAFETY: see above.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            [first, first + 8].map(|first| _mm256_add_epi32(lanes, _mm256_set1_epi32(first as i32)))
        }
    }

    #[inline(always)]
    unsafe fn gather(base: *const u32, at: Self::Vector, mask: u32) -> Self::Vector {
        let [low, high] = halves(mask);
        // SAFETY: see above.
        unsafe {
            let zero = _mm256_setzero_si256();
            [
                _mm256_mask_i32gather_epi32::<4>(zero, base.cast(), at[0], spread(low)),
                _mm256_mask_i32gather_epi32::<4>(zero, base.cast(), at[1], spread(high)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn load_three(from: *const u8) -> Self::Vector {
        // SAFETY: see above; 64 bytes may be read.
        unsafe {
            let spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
            let four = |at: usize| _mm_shuffle_epi8(_mm_loadu_si128(from.add(at).cast()), spread);
            [_mm256_set_m128i(four(12), four(0)), _mm256_set_m128i(four(36), four(24))]
        }
    }

    #[inline(always)]
    unsafe fn gather_three(base: *const u8, at: Self::Vector, mask: u32) -> Self::Vector {
        let half = |at: __m256i, mask: u32| {
            // SAFETY: see above.
            unsafe {
                let three = _mm256_add_epi32(at, _mm256_slli_epi32::<1>(at));
                let zero = _mm256_setzero_si256();
                let four = _mm256_mask_i32gather_epi32::<1>(zero, base.cast(), three, spread(mask));
                _mm256_and_si256(four, _mm256_set1_epi32(0xFF_FFFF))
            }
        };
        let [low, high] = halves(mask);
        [half(at[0], low), half(at[1], high)]
    }

    #[inline(always)]
    unsafe fn below(vector: Self::Vector, limit: u32, mask: u32) -> u32 {
        // SAFETY: see above.
        let half = |numbers: __m256i| unsafe {
            // AVX2 has no unsigned comparison: a number that equals its maximum with the limit is not below the limit.
            let not = _mm256_cmpeq_epi32(_mm256_max_epu32(numbers, _mm256_set1_epi32(limit as i32)), numbers);
            !(_mm256_movemask_ps(_mm256_castsi256_ps(not)) as u32) & 0xFF
        };
        (half(vector[0]) | half(vector[1]) << 8) & mask
    }

    #[inline(always)]
    unsafe fn bits(map: *const u32, of: Self::Vector, mask: u32) -> u32 {
        // SAFETY: see above.
        unsafe {
            let words = Self::gather(map, of.map(|of| _mm256_srli_epi32::<5>(of)), mask);
            test(words, of, mask)
        }
    }

    #[inline(always)]
    unsafe fn shared_bits(map: &[AtomicU64], of: Self::Vector, mask: u32) -> u32 {
        let [low, high] = halves(mask);
        // SAFETY: see above.
        unsafe {
            let words = [
                gather_shared(map, _mm256_srli_epi32::<5>(of[0]), spread(low)),
                gather_shared(map, _mm256_srli_epi32::<5>(of[1]), spread(high)),
            ];
            test(words, of, mask)
        }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u32, vector: Self::Vector, mask: u32) {
        let [low, high] = halves(mask);
        // SAFETY: see above.
        unsafe {
            _mm256_maskstore_epi32(to.cast(), spread(low), vector[0]);
            _mm256_maskstore_epi32(to.wrapping_add(8).cast(), spread(high), vector[1]);
        }
    }

    #[inline(always)]
    unsafe fn compress(to: *mut u32, vector: Self::Vector, mask: u32) {
        let [low, high] = halves(mask);
        // SAFETY: see above: sixteen numbers may be written, and the second eight begin at most eight numbers in.
        unsafe {
            let order = |mask: u32| _mm256_loadu_si256(PACKED[mask as usize].as_ptr().cast());
            _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(vector[0], order(low)));
            let second = to.add(low.count_ones() as usize);
            _mm256_storeu_si256(second.cast(), _mm256_permutevar8x32_epi32(vector[1], order(high)));
        }
    }

    #[inline(always)]
    unsafe fn spill(vector: Self::Vector) -> [u32; WIDTH] {
        let mut stored = [0; WIDTH];
        // SAFETY: see above.
        unsafe {
            _mm256_storeu_si256(stored.as_mut_ptr().cast(), vector[0]);
            _mm256_storeu_si256(stored.as_mut_ptr().add(8).cast(), vector[1]);
        }
        stored
    }

    #[inline(always)]
    unsafe fn zero() -> Self::Vector {
        // SAFETY: see above.
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    unsafe fn decode(codes: u32, data: *const u8, count: usize, before: Self::Vector) -> (Self::Vector, usize) {
        // Codes after the last value belong to other bytes. Cleared codes mean one byte each, which is subtracted
        // again.
        let own = if count < WIDTH { codes & ((1 << (2 * count)) - 1) } else { codes };
        // SAFETY: see above; 64 bytes may be read from `data`.
        unsafe {
            let (mut taken, mut quads) = (0, [_mm_setzero_si128(); 4]);
            let mut last = _mm256_extracti128_si256::<1>(before[1]);
            for (quad, code) in quads.iter_mut().zip(own.to_le_bytes()) {
                let bytes = _mm_loadu_si128(data.add(taken).cast());
                let shuffle = _mm_loadu_si128(SHUFFLES[usize::from(code)].as_ptr().cast());
                last = sums(_mm_shuffle_epi8(bytes, shuffle), last);
                *quad = last;
                taken += usize::from(LENGTHS[usize::from(code)]);
            }
            let values = [_mm256_set_m128i(quads[1], quads[0]), _mm256_set_m128i(quads[3], quads[2])];
            (values, taken - (WIDTH - count))
        }
    }
}
