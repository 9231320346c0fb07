//! The C library's mutex, which the definitions of sysbench use. Rust's mutex spins before it sleeps, so it would give
//! different results under contention.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;

/// A `pthread_mutex_t` with default attributes, stored inline, so that arrays have the same layout as in C.
#[repr(transparent)]
pub(super) struct PthreadMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is designed for concurrent use, and this one guards no data.
unsafe impl Sync for PthreadMutex {}
// SAFETY: locking borrows the mutex, so it is only moved while unlocked. An unlocked mutex from the static initialiser
// does not contain its own address.
unsafe impl Send for PthreadMutex {}

impl PthreadMutex {
    pub(super) const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Runs `work` with the lock held.
    #[inline]
    pub(super) fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: the mutex is initialised and outlives the call. The one error of a default mutex is a second lock by
        // the same thread, which blocks; no kernel nests two of these locks.
        let status = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        debug_assert_eq!(status, 0);
        let _unlock = Unlock(self);
        work()
    }
}

/// Unlocks the mutex when `work` returns or panics.
struct Unlock<'m>(&'m PthreadMutex);

impl Drop for Unlock<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: created only in `hold`, on the thread that has just locked this mutex.
        let status = unsafe { libc::pthread_mutex_unlock(self.0.0.get()) };
        debug_assert_eq!(status, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutex_excludes_other_threads() {
        struct Counted {
            mutex: PthreadMutex,
            count: UnsafeCell<u64>,
        }
        // SAFETY: the test accesses the count only with the mutex held.
        unsafe impl Sync for Counted {}
        let counted = Counted { mutex: PthreadMutex::new(), count: UnsafeCell::new(0) };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let counted = &counted;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        counted.mutex.hold(|| {
                            // SAFETY: the mutex is held.
                            let before = unsafe { *counted.count.get() };
                            // Without mutual exclusion, another thread would enter here.
                            std::thread::yield_now();
                            // SAFETY: the mutex is held.
                            unsafe { *counted.count.get() = before + 1 };
                        });
                    }
                });
            }
        });
        assert_eq!(counted.count.into_inner(), 8_000);
    }
}
