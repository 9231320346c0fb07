//! The clocks of a trial: monotonic time, and the CPU time of this process, both in nanoseconds. Plain numbers, because
//! the loops read them once or twice per request.
#![allow(unsafe_code)]

/// Monotonic time in nanoseconds.
#[inline]
pub(super) fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// User and system time of all threads of this process in nanoseconds, including the threads that the kernel creates in
/// it for `io_uring`.
pub(super) fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Sleeps until `ns`; returns at once if that is past.
pub(super) fn sleep_until(ns: u64) {
    let until = timespec(ns);
    // SAFETY: the time is a valid timespec that outlives the call; nothing is written, since no remainder is requested.
    // A signal ends the sleep early, which the caller detects by the clock.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
    };
}

pub(super) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes only to the local variable; both clocks exist on every Linux, so it never fails.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_lasts_its_time_and_uses_no_cpu() {
        let (began, cpu) = (now_ns(), process_cpu_ns());
        sleep_until(began + 2_000_000);
        let slept = now_ns() - began;
        assert!(slept >= 2_000_000, "{slept}");
        assert!(process_cpu_ns() >= cpu);
        sleep_until(0);
        assert_eq!((timespec(3_000_000_007).tv_sec, timespec(3_000_000_007).tv_nsec), (3, 7));
    }
}
