//! The clocks of one trial: time in nanoseconds since the machine started, and the processor time of this process.
//! Plain numbers, because the loops read them once or twice for each request.
#![allow(unsafe_code)]

/// Nanoseconds of the monotonic clock.
#[inline]
pub(super) fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// User and system time of all threads of this process, in nanoseconds: also of those that the kernel starts in it for
/// `io_uring`.
pub(super) fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Sleeps until `ns`; not at all when that is past.
pub(super) fn sleep_until(ns: u64) {
    let until = timespec(ns);
    // SAFETY: the time is a valid timespec that outlives the call; nothing is written, since no remainder is asked for. A
    // signal ends the sleep early, which the caller sees on the clock.
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
    // SAFETY: the time is ours and is written by the call alone; both clocks exist on every Linux, so it never fails.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_ends_after_its_time_and_takes_no_processor() {
        let (began, cpu) = (now_ns(), process_cpu_ns());
        sleep_until(began + 2_000_000);
        let slept = now_ns() - began;
        assert!(slept >= 2_000_000, "{slept}");
        assert!(process_cpu_ns() >= cpu);
        sleep_until(0);
        assert_eq!((timespec(3_000_000_007).tv_sec, timespec(3_000_000_007).tv_nsec), (3, 7));
    }
}
