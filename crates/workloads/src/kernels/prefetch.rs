//! Prefetches a line before it is needed. This is a hint: on architectures without a known instruction it does nothing.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;

/// Prefetches the line of a word that will be read and written.
#[inline]
pub(super) fn for_writing(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads and writes nothing; every x86-64 CPU has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(word.as_ptr().cast::<i8>());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint that reads and writes nothing; every 64-bit ARM CPU has it.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) word.as_ptr(), options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = word;
}
