//! How much of the cpus the calling thread has had, in the program and in the kernel for it: not the time that it waited
//! for one.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Its cpu time so far.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_and_waiting_is_not() {
        let began = used();
        let mut spun = 0_u64;
        while used().saturating_sub(began) < Duration::from_millis(2) {
            spun += 1;
        }
        assert!(spun > 0);
        let (before, clock) = (used(), std::time::Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| while clock.elapsed() < Duration::from_millis(20) {});
        });
        assert!(used().saturating_sub(before) < Duration::from_millis(15), "another thread's time is not ours");
    }
}
