//! Compiles the generator's loop for the widest vectors of this CPU. The only unsafe operation is the call of these
//! functions, right after the CPU feature check.
#![allow(unsafe_code)]

use super::Generator;

/// Implements [`Generator::fill`].
pub(super) fn fill(generator: &Generator, first: u64, edges: &mut [[u64; 2]]) {
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() {
            // SAFETY: the CPU has all of these instructions.
            return unsafe { fill_avx512(generator, first, edges) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has these instructions.
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
