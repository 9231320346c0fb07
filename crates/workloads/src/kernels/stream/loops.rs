//! The four inner loops of STREAM and the single-array loops. Compiled once per instruction set; the variant is chosen
//! once, outside the timed region.
#![allow(unsafe_code)]
// Without inlining, a body would be compiled without the target features of the surrounding function.
#![allow(clippy::inline_always)]

use crate::job::Failure;

/// `to[i] = f(from[i])`.
type UnaryLoop = unsafe fn(&mut [f64], &[f64], f64);
/// `to[i] = f(left[i], right[i])`.
type BinaryLoop = unsafe fn(&mut [f64], &[f64], &[f64], f64);
/// Returns the wrapping sum of all words of an array.
type ReadLoop = unsafe fn(&[f64]) -> u64;
/// `to[i] = value`.
type Write = unsafe fn(&mut [f64], f64);

/// The loops for this CPU. Created only by [`Loops::choose`], which verifies the CPU features that they need.
pub(super) struct Loops {
    copy: UnaryLoop,
    scale: UnaryLoop,
    add: BinaryLoop,
    triad: BinaryLoop,
    read: ReadLoop,
    write: Write,
}

/// The kind of stores that the loops use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stores {
    /// As the compiler emits them; a line is read before it is overwritten.
    Ordinary,
    NonTemporal,
}

impl Loops {
    /// Chooses the widest loops that this CPU supports.
    pub(super) fn choose(stores: Stores) -> Result<Self, Failure> {
        match stores {
            Stores::Ordinary => Ok(ordinary()),
            Stores::NonTemporal => non_temporal(),
        }
    }

    pub(super) fn copy(&self, to: &mut [f64], from: &[f64]) {
        // SAFETY: `choose` selected this function only after it verified the CPU features.
        unsafe { (self.copy)(to, from, 0.0) }
    }

    pub(super) fn scale(&self, to: &mut [f64], from: &[f64], factor: f64) {
        // SAFETY: as for `copy`.
        unsafe { (self.scale)(to, from, factor) }
    }

    pub(super) fn add(&self, to: &mut [f64], left: &[f64], right: &[f64]) {
        // SAFETY: as for `copy`.
        unsafe { (self.add)(to, left, right, 0.0) }
    }

    pub(super) fn triad(&self, to: &mut [f64], left: &[f64], right: &[f64], factor: f64) {
        // SAFETY: as for `copy`.
        unsafe { (self.triad)(to, left, right, factor) }
    }

    /// Sums the elements as integers. The sum is the same in any order, so it can be checked exactly.
    pub(super) fn read(&self, from: &[f64]) -> u64 {
        // SAFETY: as for `copy`. The compiler cannot remove the reads, because it does not look through a call by
        // pointer.
        unsafe { (self.read)(from) }
    }

    pub(super) fn write(&self, to: &mut [f64], value: f64) {
        // SAFETY: as for `copy`.
        unsafe { (self.write)(to, value) }
    }
}

/// memcpy, because gcc and clang compile STREAM's copy loop to it. For large sizes, the C library's memcpy bypasses the
/// caches.
#[inline(always)]
fn copy_body(to: &mut [f64], from: &[f64], _: f64) {
    to.copy_from_slice(from);
}

#[inline(always)]
fn scale_body(to: &mut [f64], from: &[f64], factor: f64) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = factor * from;
    }
}

#[inline(always)]
fn add_body(to: &mut [f64], left: &[f64], right: &[f64], _: f64) {
    for ((to, left), right) in to.iter_mut().zip(left).zip(right) {
        *to = left + right;
    }
}

#[inline(always)]
fn triad_body(to: &mut [f64], left: &[f64], right: &[f64], factor: f64) {
    for ((to, left), right) in to.iter_mut().zip(left).zip(right) {
        *to = left + factor * right;
    }
}

/// The plainest form: the compiler makes several vector sums of it. Hand-written lanes prevented the use of AVX-512.
#[inline(always)]
fn read_body(from: &[f64]) -> u64 {
    from.iter().fold(0, |sum, value| sum.wrapping_add(value.to_bits()))
}

#[inline(always)]
fn write_body(to: &mut [f64], value: f64) {
    for to in to {
        *to = value;
    }
}

/// The ordinary loops, compiled with the features of an instruction set.
macro_rules! ordinary_loops {
    ($module:ident $(, $feature:literal)?) => {
        mod $module {
            $(#[target_feature(enable = $feature)])?
            fn copy(to: &mut [f64], from: &[f64], unused: f64) {
                super::copy_body(to, from, unused);
            }
            $(#[target_feature(enable = $feature)])?
            fn scale(to: &mut [f64], from: &[f64], factor: f64) {
                super::scale_body(to, from, factor);
            }
            $(#[target_feature(enable = $feature)])?
            fn add(to: &mut [f64], left: &[f64], right: &[f64], unused: f64) {
                super::add_body(to, left, right, unused);
            }
            $(#[target_feature(enable = $feature)])?
            fn triad(to: &mut [f64], left: &[f64], right: &[f64], factor: f64) {
                super::triad_body(to, left, right, factor);
            }
            $(#[target_feature(enable = $feature)])?
            fn read(from: &[f64]) -> u64 {
                super::read_body(from)
            }
            $(#[target_feature(enable = $feature)])?
            fn write(to: &mut [f64], value: f64) {
                super::write_body(to, value);
            }
            pub(super) const LOOPS: super::Loops = super::Loops { copy, scale, add, triad, read, write };
        }
    };
}

ordinary_loops!(plain);
#[cfg(target_arch = "x86_64")]
ordinary_loops!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
ordinary_loops!(avx512, "avx512f");

#[cfg(target_arch = "x86_64")]
fn ordinary() -> Loops {
    if is_x86_feature_detected!("avx512f") {
        avx512::LOOPS
    } else if is_x86_feature_detected!("avx2") {
        avx2::LOOPS
    } else {
        plain::LOOPS
    }
}

/// On other architectures the base instruction set includes vectors (Neon on aarch64).
#[cfg(not(target_arch = "x86_64"))]
fn ordinary() -> Loops {
    plain::LOOPS
}

/// The loops with non-temporal stores. Whole aligned vectors are streamed; the few elements before and after them use
/// ordinary stores. A store fence ends the loop, since the data may not be written before it.
macro_rules! non_temporal_loops {
    ($module:ident, $feature:literal, $vector:ident, $load:ident, $splat:ident, $stream:ident, $mul:ident, $add:ident) => {
        mod $module {
            use std::arch::x86_64::{_mm_sfence, $add, $load, $mul, $splat, $stream, $vector};

            const LANES: usize = size_of::<$vector>() / size_of::<f64>();

            /// `vector` and `single` are the same arithmetic; `single` processes the unaligned ends.
            #[inline(always)]
            fn each(
                to: &mut [f64],
                left: &[f64],
                right: &[f64],
                vector: impl Fn($vector, $vector) -> $vector,
                single: impl Fn(f64, f64) -> f64,
            ) {
                assert!(left.len() == to.len() && right.len() == to.len());
                // SAFETY: any eight bytes are a valid f64, so vectors of them are valid in both directions.
                let (head, body, tail) = unsafe { to.align_to_mut::<$vector>() };
                let from = head.len();
                let after = from + body.len() * LANES;
                for (index, to) in body.iter_mut().enumerate() {
                    let at = from + index * LANES;
                    // SAFETY: `Loops::choose` verified the CPU feature. `at + LANES` is at most `to.len()`, which is
                    // the length of both sources (asserted), and `to` is an aligned vector of the slice.
                    unsafe {
                        let result = vector($load(left.as_ptr().add(at)), $load(right.as_ptr().add(at)));
                        $stream(std::ptr::from_mut(to).cast::<f64>(), result);
                    }
                }
                for (index, to) in head.iter_mut().enumerate() {
                    *to = single(left[index], right[index]);
                }
                for (index, to) in tail.iter_mut().enumerate() {
                    *to = single(left[after + index], right[after + index]);
                }
                // SAFETY: every x86-64 CPU has it.
                unsafe { _mm_sfence() };
            }

            #[target_feature(enable = $feature)]
            fn copy(to: &mut [f64], from: &[f64], _: f64) {
                each(to, from, from, |from, _| from, |from, _| from);
            }
            #[target_feature(enable = $feature)]
            fn scale(to: &mut [f64], from: &[f64], factor: f64) {
                let factors = $splat(factor);
                each(to, from, from, |from, _| $mul(factors, from), |from, _| factor * from);
            }
            #[target_feature(enable = $feature)]
            fn add(to: &mut [f64], left: &[f64], right: &[f64], _: f64) {
                each(to, left, right, |left, right| $add(left, right), |left, right| left + right);
            }
            #[target_feature(enable = $feature)]
            fn triad(to: &mut [f64], left: &[f64], right: &[f64], factor: f64) {
                let factors = $splat(factor);
                each(
                    to,
                    left,
                    right,
                    |left, right| $add(left, $mul(factors, right)),
                    |left, right| left + factor * right,
                );
            }
            /// Ordinary loads: non-temporal loads are for uncached memory.
            #[target_feature(enable = $feature)]
            fn read(from: &[f64]) -> u64 {
                super::read_body(from)
            }
            #[target_feature(enable = $feature)]
            fn write(to: &mut [f64], value: f64) {
                let values = $splat(value);
                // SAFETY: any eight bytes are a valid f64, so vectors of them are valid in both directions.
                let (head, body, tail) = unsafe { to.align_to_mut::<$vector>() };
                for to in body {
                    // SAFETY: `Loops::choose` verified the CPU feature, and `to` is an aligned vector of the slice.
                    unsafe { $stream(std::ptr::from_mut(to).cast::<f64>(), values) };
                }
                head.fill(value);
                tail.fill(value);
                _mm_sfence();
            }
            pub(super) const LOOPS: super::Loops = super::Loops { copy, scale, add, triad, read, write };
        }
    };
}

#[cfg(target_arch = "x86_64")]
non_temporal_loops!(
    stream_avx512,
    "avx512f",
    __m512d,
    _mm512_loadu_pd,
    _mm512_set1_pd,
    _mm512_stream_pd,
    _mm512_mul_pd,
    _mm512_add_pd
);
#[cfg(target_arch = "x86_64")]
non_temporal_loops!(
    stream_avx,
    "avx",
    __m256d,
    _mm256_loadu_pd,
    _mm256_set1_pd,
    _mm256_stream_pd,
    _mm256_mul_pd,
    _mm256_add_pd
);

#[cfg(target_arch = "x86_64")]
fn non_temporal() -> Result<Loops, Failure> {
    if is_x86_feature_detected!("avx512f") {
        Ok(stream_avx512::LOOPS)
    } else if is_x86_feature_detected!("avx") {
        Ok(stream_avx::LOOPS)
    } else {
        Err(Failure::Unavailable("non-temporal stores need AVX, which this CPU lacks".into()))
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn non_temporal() -> Result<Loops, Failure> {
    Err(Failure::Unavailable("non-temporal stores are supported on x86-64 only; hint: non-temporal=false".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every variant that this CPU supports.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    fn variants() -> Vec<(&'static str, Loops)> {
        let mut variants = vec![("plain", plain::LOOPS)];
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = is_x86_feature_detected!("avx512f");
            variants.extend(is_x86_feature_detected!("avx2").then_some(("avx2", avx2::LOOPS)));
            variants.extend(is_x86_feature_detected!("avx").then_some(("stream_avx", stream_avx::LOOPS)));
            variants.extend(avx512.then_some(("avx512", avx512::LOOPS)));
            variants.extend(avx512.then_some(("stream_avx512", stream_avx512::LOOPS)));
        }
        variants
    }

    #[test]
    fn all_variants_agree_at_every_alignment_and_length() {
        let left: Vec<f64> = (0..64).map(f64::from).collect();
        let right: Vec<f64> = (0..64).map(|i| 0.5 * f64::from(i * i)).collect();
        for (name, loops) in variants() {
            for start in 0..9 {
                for end in start..64 {
                    let range = start..end;
                    let (left, right) = (&left[range.clone()], &right[range.clone()]);
                    let results = |run: &dyn Fn(&mut [f64])| {
                        let mut to = vec![-1.0; 64];
                        run(&mut to[range.clone()]);
                        assert!(
                            to[..start].iter().chain(&to[end..]).all(|x| x.to_bits() == f64::to_bits(-1.0)),
                            "{name} wrote out of bounds"
                        );
                        to[range.clone()].to_vec()
                    };
                    let expected = |f: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
                        left.iter().zip(right).map(|(left, right)| f(*left, *right)).collect()
                    };
                    assert_eq!(results(&|to| loops.copy(to, left)), expected(&|left, _| left), "{name} copy");
                    assert_eq!(results(&|to| loops.scale(to, left, 3.0)), expected(&|left, _| 3.0 * left), "{name}");
                    assert_eq!(results(&|to| loops.add(to, left, right)), expected(&|a, b| a + b), "{name} add");
                    assert_eq!(
                        results(&|to| loops.triad(to, left, right, 3.0)),
                        expected(&|a, b| a + 3.0 * b),
                        "{name}"
                    );
                    assert_eq!(results(&|to| loops.write(to, 3.0)), vec![3.0; range.len()], "{name} write");
                    let sum = left.iter().fold(0, |sum: u64, x| sum.wrapping_add(x.to_bits()));
                    assert_eq!(loops.read(left), sum, "{name} read {range:?}");
                }
            }
        }
    }
}
