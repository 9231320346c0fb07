//! CPU time of the calling thread, in user and kernel mode; excludes the time waiting for a CPU.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time used so far.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_work_is_counted_but_waiting_is_not() {
        let start = used();
        let mut spun = 0_u64;
        while used().saturating_sub(start) < Duration::from_millis(2) {
            spun += 1;
        }
        assert!(spun > 0);
        let (before, clock) = (used(), std::time::Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| while clock.elapsed() < Duration::from_millis(20) {});
        });
        assert!(used().saturating_sub(before) < Duration::from_millis(15), "the time of another thread is not counted");
    }
}
