//! Measures the clock rate of the current core without a cycle counter: in a chain of dependent additions, each
//! addition takes one cycle.
//! Source: latency of `add` between registers, 1 cycle on every x86-64 core of uops.info (Abel and Reineke 2019) and in
//! Arm's optimisation guides from Cortex-A53 to Neoverse V2. The addend is not a constant, because newer cores (Golden
//! Cove) execute several such additions per cycle while renaming. On an emulated core the result is the speed of the
//! emulator.
#![allow(unsafe_code)]

use std::time::Instant;

/// Additions per chain, about 5 us. In that time the clock rate does not change and interrupts are rare.
const CHAIN: u64 = 1 << 14;
/// Unrolled additions, so that the loop overhead overlaps with them.
const UNROLLED: u64 = 64;
/// Number of chains. The fastest one counts, because any disturbance makes a chain slower.
const CHAINS: u32 = 16;

/// Whether the latency of an addition is known for this architecture.
const KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Returns the cycles per nanosecond (GHz) of the current core. `None` if the latency of an addition is unknown for
/// this architecture.
pub(crate) fn cycles_per_ns() -> Option<f64> {
    let fastest = (0..CHAINS).filter(|_| KNOWN).map(|_| chain_ns()).min()?;
    (fastest > 0).then(|| CHAIN as f64 / fastest as f64)
}

/// Returns the nanoseconds of the fastest chain.
fn chain_ns() -> u128 {
    let start = Instant::now();
    chain(CHAIN / UNROLLED);
    start.elapsed().as_nanos()
}

#[cfg(target_arch = "x86_64")]
fn chain(rounds: u64) {
    // SAFETY: uses only registers, all of which are declared.
    unsafe {
        std::arch::asm!(
            "2:", ".rept 64", "add {sum}, {one}", ".endr", "dec {left}", "jnz 2b",
            sum = inout(reg) 0u64 => _, one = in(reg) 1u64, left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn chain(rounds: u64) {
    // SAFETY: uses only registers, all of which are declared.
    unsafe {
        std::arch::asm!(
            "2:", ".rept 64", "add {sum}, {sum}, {one}", ".endr", "subs {left}, {left}, #1", "b.ne 2b",
            sum = inout(reg) 0u64 => _, one = in(reg) 1u64, left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn chain(_rounds: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Independent additions would yield a clock several times faster than any core; a chain limited by its loop would
    /// yield a slower one. The lower bound allows for emulation.
    #[test]
    fn measured_clock_rate_is_plausible() {
        let Some(clock) = cycles_per_ns() else { return println!("skipped: clock: unsupported architecture") };
        assert!((0.005..7.0).contains(&clock), "{clock} GHz");
    }

    #[test]
    fn chain_time_is_proportional_to_its_length() {
        if !KNOWN {
            return println!("skipped: clock: unsupported architecture");
        }
        let fastest = |rounds: u64| {
            let time = |_| {
                let start = Instant::now();
                chain(rounds);
                start.elapsed().as_nanos()
            };
            (0..200).map(time).min().unwrap()
        };
        let (once, twice) = (fastest(1 << 10), fastest(1 << 11));
        let ratio = twice as f64 / once as f64;
        assert!((1.5..2.5).contains(&ratio), "{once} ns, {twice} ns");
    }
}
