//! Implements the operations with one AVX-512 vector. Decoding moves bytes into place with `vpexpandb`.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports, reason = "dozens of intrinsics with unique names")]

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use super::{Lanes, WIDTH};

pub(crate) struct Avx512;

/// Loads the 32-bit words at these indices of a bit map that other threads may change concurrently; lanes outside the
/// mask become zero. The instruction loads each word separately, aligned and therefore atomically: each load is
/// equivalent to a relaxed load of the surrounding 64 bits of which one half is kept. [`_mm512_mask_i32gather_epi32`]
/// is the same instruction, but to the compiler it is a plain load, i.e. a data race.
///
/// # Safety
/// The CPU supports AVX-512F, and the words are within the map.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather_shared(map: &[AtomicU64], at: __m512i, mask: u32) -> __m512i {
    let mut words = _mm512_setzero_si512();
    // SAFETY: reads only words that the caller guarantees to be in the map, and writes no memory. The two vector
    // registers are distinct, as the instruction requires, because the written one is not a late output.
    unsafe {
        asm!(
            "vpgatherdd {words} {{{mask}}}, [{map} + 4 * {at}]",
            words = inout(zmm_reg) words,
            mask = inout(kreg) mask as u16 => _,
            at = in(zmm_reg) at,
            map = in(reg) map.as_ptr(),
            options(readonly, nostack, preserves_flags),
        );
    }
    words
}

/// Returns the lanes of a mask whose bit, at this index modulo 32, is set in their word.
#[inline(always)]
unsafe fn test(words: __m512i, of: __m512i, mask: u32) -> u32 {
    // SAFETY: the caller has checked that the CPU supports the instructions.
    unsafe {
        // A rotate takes its count modulo 32, unlike a shift.
        let bit = _mm512_rolv_epi32(_mm512_set1_epi32(1), of);
        u32::from(_mm512_mask_test_epi32_mask(mask as u16, words, bit))
    }
}

// SAFETY (of all functions here): the caller has checked that the CPU supports the instructions; masked loads and
// stores access only the lanes of their mask, and all other accesses are within the memory that the trait requires.
impl Lanes for Avx512 {
    type Vector = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn from(first: u32) -> __m512i {
        // SAFETY: see above.
        unsafe {
            let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            _mm512_add_epi32(lanes, _mm512_set1_epi32(first as i32))
        }
    }

    #[inline(always)]
    unsafe fn gather(base: *const u32, at: __m512i, mask: u32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), mask as u16, at, base.cast()) }
    }

    #[inline(always)]
    unsafe fn load_three(from: *const u8) -> __m512i {
        // SAFETY: see above; 64 bytes may be read. Each quarter first gets the words that contain its four numbers, and
        // then their bytes.
        unsafe {
            let words = _mm512_set_epi32(12, 11, 10, 9, 9, 8, 7, 6, 6, 5, 4, 3, 3, 2, 1, 0);
            let bytes = _mm_set_epi8(-1, 11, 10, 9, -1, 8, 7, 6, -1, 5, 4, 3, -1, 2, 1, 0);
            let quarters = _mm512_permutexvar_epi32(words, _mm512_loadu_si512(from.cast()));
            _mm512_shuffle_epi8(quarters, _mm512_broadcast_i32x4(bytes))
        }
    }

    #[inline(always)]
    unsafe fn gather_three(base: *const u8, at: __m512i, mask: u32) -> __m512i {
        // SAFETY: see above.
        unsafe {
            let three = _mm512_add_epi32(at, _mm512_slli_epi32::<1>(at));
            let four = _mm512_mask_i32gather_epi32::<1>(_mm512_setzero_si512(), mask as u16, three, base.cast());
            _mm512_and_si512(four, _mm512_set1_epi32(0xFF_FFFF))
        }
    }

    #[inline(always)]
    unsafe fn below(vector: __m512i, limit: u32, mask: u32) -> u32 {
        // SAFETY: see above.
        u32::from(unsafe { _mm512_mask_cmplt_epu32_mask(mask as u16, vector, _mm512_set1_epi32(limit as i32)) })
    }

    #[inline(always)]
    unsafe fn bits(map: *const u32, of: __m512i, mask: u32) -> u32 {
        // SAFETY: see above.
        unsafe {
            let words = Self::gather(map, _mm512_srli_epi32::<5>(of), mask);
            test(words, of, mask)
        }
    }

    #[inline(always)]
    unsafe fn shared_bits(map: &[AtomicU64], of: __m512i, mask: u32) -> u32 {
        // SAFETY: see above.
        unsafe {
            let words = gather_shared(map, _mm512_srli_epi32::<5>(of), mask);
            test(words, of, mask)
        }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u32, vector: __m512i, mask: u32) {
        // SAFETY: see above.
        unsafe { _mm512_mask_storeu_epi32(to.cast(), mask as u16, vector) }
    }

    #[inline(always)]
    unsafe fn compress(to: *mut u32, vector: __m512i, mask: u32) {
        // Compressed in a register and stored in full, because compressing to memory takes several hundred cycles on
        // Zen.
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(mask as u16, vector)) }
    }

    #[inline(always)]
    unsafe fn spill(vector: __m512i) -> [u32; WIDTH] {
        let mut stored = [0; WIDTH];
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(stored.as_mut_ptr().cast(), vector) };
        stored
    }

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn decode(codes: u32, data: *const u8, count: usize, before: __m512i) -> (__m512i, usize) {
        // SAFETY: see above; 64 bytes may be read from `data`.
        unsafe {
            let valid = super::first(count);
            let low = _pext_u32(codes, 0x5555_5555) & valid;
            let high = _pext_u32(codes, 0xAAAA_AAAA) & valid;
            // One bit for each byte of the vector that a value uses: the first byte always, the second from width 2 on,
            // and so on.
            let bytes = _pdep_u64(u64::from(valid), 0x1111_1111_1111_1111)
                | _pdep_u64(u64::from(low | high), 0x2222_2222_2222_2222)
                | _pdep_u64(u64::from(high), 0x4444_4444_4444_4444)
                | _pdep_u64(u64::from(low & high), 0x8888_8888_8888_8888);
            let zero = _mm512_setzero_si512();
            let mut sums = _mm512_maskz_expand_epi8(bytes, _mm512_loadu_si512(data.cast()));
            sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<15>(sums, zero));
            sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<14>(sums, zero));
            sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<12>(sums, zero));
            sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<8>(sums, zero));
            let last = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), before);
            (_mm512_add_epi32(sums, last), bytes.count_ones() as usize)
        }
    }
}
