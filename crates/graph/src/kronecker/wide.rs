//! The generator's loop, compiled for the widest vectors that this processor has. Its only unsafe step is to call what
//! the processor was asked for just before.
#![allow(unsafe_code)]

use super::Generator;

/// As [`Generator::fill`].
pub(super) fn fill(generator: &Generator, first: u64, edges: &mut [[u64; 2]]) {
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() {
            // SAFETY: the processor has all of these instructions.
            return unsafe { fill_avx512(generator, first, edges) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has these instructions.
            return unsafe { fill_avx2(generator, first, edges) };
        }
    }
    generator.fill_here(first, edges);
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn fill_avx512(generator: &Generator, first: u64, edges: &mut [[u64; 2]]) {
    generator.fill_here(first, edges);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2(generator: &Generator, first: u64, edges: &mut [[u64; 2]]) {
    generator.fill_here(first, edges);
}
