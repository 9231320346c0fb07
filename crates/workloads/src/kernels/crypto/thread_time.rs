//! How much of the cpus the calling thread has used, in the program and in the kernel for it.
#![allow(unsafe_code)]

use std::time::Duration;

use crate::job::Failure;

/// Its cpu time so far.
pub(super) fn used() -> Result<Duration, Failure> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes one timespec, which lives here.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Failure::Failed(format!("this thread's cpu time cannot be read: {error}")));
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_and_waiting_is_not() {
        let began = used().unwrap();
        let mut spun = 0_u64;
        while used().unwrap().saturating_sub(began) < Duration::from_millis(2) {
            spun += 1;
        }
        assert!(spun > 0);
        let (before, clock) = (used().unwrap(), std::time::Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| while clock.elapsed() < Duration::from_millis(20) {});
        });
        assert!(
            used().unwrap().saturating_sub(before) < Duration::from_millis(15),
            "another thread's time is not ours"
        );
    }
}
