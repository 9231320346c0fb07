//! Operations on sixteen ranks at a time, in AVX-512, AVX2 and NEON and in scalar code, and prefetching. The search is
//! written once (`bottom_up`, `top_down`) and compiled for each of them. Must not depend on graphs.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod plain;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables;

/// Number of ranks processed together.
pub(crate) const WIDTH: usize = 16;

/// Instruction set that the search uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 with VBMI2 (Ice Lake, Zen 4 and newer), and BMI2.
    Avx512,
    /// AVX2 and BMI2 (Haswell, Zen and newer).
    Avx2,
    /// Every 64-bit ARM CPU.
    Neon,
    Plain,
}

impl Isa {
    /// All instruction sets, the fastest first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Plain];

    /// Returns the fastest one that this CPU supports.
    pub fn best() -> Self {
        Self::ALL.into_iter().find(|isa| isa.is_here()).unwrap_or(Self::Plain)
    }

    /// Returns true if this CPU supports it.
    #[cfg(target_arch = "x86_64")]
    pub fn is_here(self) -> bool {
        match self {
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("lzcnt")
            }
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("lzcnt")
            }
            Self::Neon => false,
            Self::Plain => true,
        }
    }

    /// Returns true if this CPU supports it.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_here(self) -> bool {
        self.is_of_architecture()
    }

    /// Returns true if some CPUs of this architecture support it.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    pub(crate) fn is_of_architecture(self) -> bool {
        match self {
            Self::Avx512 | Self::Avx2 => cfg!(target_arch = "x86_64"),
            Self::Neon => cfg!(target_arch = "aarch64"),
            Self::Plain => true,
        }
    }

    /// Returns its name, as in `--set isa=avx2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Plain => "plain",
        }
    }
}

/// Operations on sixteen numbers. A mask has one bit per lane; memory of lanes outside the mask is not accessed.
///
/// # Safety
/// For all functions: the CPU supports the instructions ([`Isa::is_here`]), and the memory is accessible as each
/// function states.
pub(crate) trait Lanes {
    type Vector: Copy;

    /// Loads sixteen consecutive numbers.
    unsafe fn load(from: *const u32) -> Self::Vector;

    /// Returns `first` and the fifteen numbers after it.
    unsafe fn from(first: u32) -> Self::Vector;

    /// Loads the number at each lane's index, for the lanes of the mask.
    unsafe fn gather(base: *const u32, at: Self::Vector, mask: u32) -> Self::Vector;

    /// Loads sixteen consecutive numbers of three bytes. 64 bytes must be readable.
    unsafe fn load_three(from: *const u8) -> Self::Vector;

    /// Loads the number of three bytes at each lane's index, for the lanes of the mask. Four bytes must be readable at
    /// each.
    unsafe fn gather_three(base: *const u8, at: Self::Vector, mask: u32) -> Self::Vector;

    /// Returns the lanes of the mask that are below a limit.
    unsafe fn below(vector: Self::Vector, limit: u32, mask: u32) -> u32;

    /// Returns the lanes of the mask whose bit is set in a bit map. No thread may change the map during the call.
    unsafe fn bits(map: *const u32, of: Self::Vector, mask: u32) -> u32;

    /// Returns the lanes of the mask whose bit is set in a bit map that other threads may change during the call. Each
    /// lane is a relaxed atomic load.
    unsafe fn shared_bits(map: &[AtomicU64], of: Self::Vector, mask: u32) -> u32;

    /// Stores the lanes of the mask, each at its own position.
    unsafe fn store(to: *mut u32, vector: Self::Vector, mask: u32);

    /// Stores the lanes of the mask contiguously. Up to sixteen numbers may be overwritten.
    unsafe fn compress(to: *mut u32, vector: Self::Vector, mask: u32);

    unsafe fn spill(vector: Self::Vector) -> [u32; WIDTH];

    unsafe fn zero() -> Self::Vector;

    /// Decodes `count` (1 to 16) values of an encoded list. `codes` has two bits per value; 64 bytes must be readable
    /// from `data` on; the last lane of `before` has the previous value. Returns the values and the number of bytes
    /// consumed.
    unsafe fn decode(codes: u32, data: *const u8, count: usize, before: Self::Vector) -> (Self::Vector, usize);
}

/// Returns a mask of the first `count` lanes.
#[inline(always)]
pub(crate) fn first(count: usize) -> u32 {
    if count >= WIDTH { 0xFFFF } else { (1 << count) - 1 }
}

/// Prefetches a cache line.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64; a prefetch affects only caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded;

    /// Compares each operation with scalar code on many inputs.
    unsafe fn check<L: Lanes>() {
        let memory: Vec<u32> = (0..200).map(|index| 2_654_435_761_u32.wrapping_mul(index + 1) % 1000).collect();
        let map: Vec<u32> = (0..40_u32).map(|word| word.wrapping_mul(0x9E37_79B9)).collect();
        for mask in [0, 1, 0x8000, 0xFFFF, 0x5A5A, 0x00FF, 0xFF00, 0x0180] {
            let lanes: Vec<usize> = (0..WIDTH).filter(|lane| mask >> lane & 1 == 1).collect();
            let at: Vec<u32> = (0..WIDTH as u32).map(|lane| lane * 12 % 193).collect();
            // SAFETY: the caller has checked the CPU; all memory belongs to the vectors.
            unsafe {
                let vector = L::load(memory.as_ptr().add(3));
                assert_eq!(L::spill(vector), memory[3..19]);
                assert_eq!(L::spill(L::from(70))[..3], [70, 71, 72]);
                let gathered = L::spill(L::gather(memory.as_ptr(), L::load(at.as_ptr()), mask));
                assert!(lanes.iter().all(|lane| gathered[*lane] == memory[at[*lane] as usize]));
                let bytes: Vec<u8> = memory.iter().flat_map(|number| (number * 9973).to_le_bytes()).collect();
                let three = |at: u32| {
                    u32::from_le_bytes(
                        [0, 1, 2, 3].map(|byte| if byte < 3 { bytes[3 * at as usize + byte] } else { 0 }),
                    )
                };
                let loaded = L::spill(L::load_three(bytes.as_ptr().add(3 * 5)));
                assert_eq!(loaded, std::array::from_fn(|lane| three(5 + lane as u32)));
                let gathered = L::spill(L::gather_three(bytes.as_ptr(), L::load(at.as_ptr()), mask));
                assert!(lanes.iter().all(|lane| gathered[*lane] == three(at[*lane])));
                for limit in [0, memory[7], memory[7] + 1, 1 << 31, u32::MAX] {
                    let below = L::below(vector, limit, mask);
                    let expected = |lane: &usize| (below >> lane & 1 == 1) == (memory[3 + lane] < limit);
                    assert!(lanes.iter().all(expected) && below & !mask == 0, "{limit}");
                }
                let bits = L::bits(map.as_ptr(), vector, mask);
                let (words, _) = map.as_chunks::<2>();
                let words: Vec<AtomicU64> =
                    words.iter().map(|[low, high]| (u64::from(*high) << 32 | u64::from(*low)).into()).collect();
                assert_eq!(L::shared_bits(&words, vector, mask), bits);
                for lane in 0..WIDTH {
                    let value = memory[3 + lane];
                    let expected = lanes.contains(&lane) && map[value as usize / 32] >> (value % 32) & 1 == 1;
                    assert_eq!(bits >> lane & 1 == 1, expected);
                }
                let mut stored = [9; WIDTH];
                L::store(stored.as_mut_ptr(), vector, mask);
                for (lane, value) in stored.iter().enumerate() {
                    assert_eq!(*value, if lanes.contains(&lane) { memory[3 + lane] } else { 9 });
                }
                let mut compressed = [0; 2 * WIDTH];
                L::compress(compressed.as_mut_ptr(), vector, mask);
                let expected: Vec<u32> = lanes.iter().map(|lane| memory[3 + lane]).collect();
                assert_eq!(compressed[..lanes.len()], expected);
            }
        }
        // SAFETY: the caller has checked the CPU.
        unsafe { check_decoding::<L>() };
    }

    unsafe fn check_decoding<L: Lanes>() {
        for count in 1..=120_usize {
            let steps = [1, 200, 300, 66_000, 17_000_000, 5, 900];
            let values: Vec<u32> = (0..count)
                .scan(0, |value: &mut u32, index| {
                    *value += steps[(index * index) % steps.len()];
                    Some(*value)
                })
                .collect();
            let mut bytes = Vec::new();
            coded::encode(&values, &mut bytes);
            let length = bytes.len();
            bytes.resize(length + coded::PADDING, 0xFF);
            let (found, taken) = coded::count([bytes[0], bytes[1], bytes[2]]);
            assert_eq!(found, count);
            let (mut codes, mut data) = (taken, taken + count.div_ceil(4));
            let mut decoded = Vec::new();
            // SAFETY: the padding after the list is readable.
            unsafe {
                let mut before = L::zero();
                while decoded.len() < count {
                    let some = (count - decoded.len()).min(WIDTH);
                    let code = u32::from_le_bytes(bytes[codes..codes + 4].try_into().unwrap());
                    let (vector, taken) = L::decode(code, bytes.as_ptr().add(data), some, before);
                    decoded.extend_from_slice(&L::spill(vector)[..some]);
                    before = vector;
                    (codes, data) = (codes + 4, data + taken);
                }
            }
            assert_eq!(decoded, values, "{count}");
            assert_eq!(data, length, "{count}: all bytes are consumed");
        }
    }

    #[test]
    fn all_instruction_sets_give_the_same_results() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_of_architecture()) {
            if !isa.is_here() {
                println!("skipped: lanes: this CPU does not support {}", isa.name());
                continue;
            }
            // SAFETY: the CPU supports the instructions.
            unsafe {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => check::<avx512::Avx512>(),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => check::<avx2::Avx2>(),
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => check::<neon::Neon>(),
                    _ => check::<plain::Plain>(),
                }
            }
        }
    }
}
