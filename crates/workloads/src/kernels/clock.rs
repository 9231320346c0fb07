//! The clock of the core that this thread is on, without a counter of cycles: a chain of additions of which each needs
//! the one before takes one cycle for each.
//! Source: latency of `add` between registers, 1 cycle on every x86-64 core of uops.info (Abel and Reineke 2019) and in
//! Arm's optimisation guides from Cortex-A53 to Neoverse V2. Not `add` of a constant, which newer cores (Golden Cove) do
//! while renaming, several in one cycle. An emulated core has no clock: what comes out there is the emulator's speed.
#![allow(unsafe_code)]

use std::time::Instant;

/// Additions of one chain: some 5 us, in which a clock does not change and few interrupts come.
const CHAIN: u64 = 1 << 14;
/// Additions written out, so that the loop around them is done beside them.
const UNROLLED: u64 = 64;
/// The fastest of so many chains counts: whatever comes between makes one slower.
const CHAINS: u32 = 16;

/// Whether we know the addition of these processors.
const KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Cycles per nanosecond (GHz) of this core now; None on processors whose addition we do not know.
pub(crate) fn cycles_per_ns() -> Option<f64> {
    let fastest = (0..CHAINS).filter(|_| KNOWN).map(|_| chain_ns()).min()?;
    (fastest > 0).then(|| CHAIN as f64 / fastest as f64)
}

/// How many nanoseconds one chain takes.
fn chain_ns() -> u128 {
    let start = Instant::now();
    chain(CHAIN / UNROLLED);
    start.elapsed().as_nanos()
}

#[cfg(target_arch = "x86_64")]
fn chain(rounds: u64) {
    // SAFETY: registers alone, all of them named.
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
    // SAFETY: registers alone, all of them named.
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

    /// A chain that was not one after the other would come out several times faster than any core; one that waited for its
    /// loop, slower. Emulated, it is slower too.
    #[test]
    fn the_clock_is_one_that_a_core_can_have() {
        let Some(clock) = cycles_per_ns() else { return println!("skipped: clock: another processor") };
        assert!((0.005..7.0).contains(&clock), "{clock} GHz");
    }

    #[test]
    fn twice_the_chain_takes_twice_as_long() {
        if !KNOWN {
            return println!("skipped: clock: another processor");
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
