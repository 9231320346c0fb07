//! The C library's own mutex. sysbench's definitions name it: a lock that spins first, as Rust's does, would measure
//! something else when several threads want it.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;

/// A `pthread_mutex_t` with default attributes, in place: arrays of it lie in memory as C's do.
#[repr(transparent)]
pub(super) struct PthreadMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: to be used from several threads at once is what a mutex is for, and it holds no data of its own.
unsafe impl Sync for PthreadMutex {}
// SAFETY: it is only moved while nobody has locked it, since locking borrows it; an unlocked mutex made by the static
// initialiser holds no address of itself.
unsafe impl Send for PthreadMutex {}

impl PthreadMutex {
    pub(super) const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Runs `work` with the lock held.
    #[inline]
    pub(super) fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: the mutex is initialised and outlives the call. The one error of a default mutex is to lock it twice
        // from one thread, which blocks; none of our kernels nests two of them.
        let status = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        debug_assert_eq!(status, 0);
        let _unlock = Unlock(self);
        work()
    }
}

/// Unlocks when `work` returns or panics.
struct Unlock<'m>(&'m PthreadMutex);

impl Drop for Unlock<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made in `hold` only, on the thread that has just locked this mutex.
        let status = unsafe { libc::pthread_mutex_unlock(self.0.0.get()) };
        debug_assert_eq!(status, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_thread_is_inside() {
        struct Counted {
            mutex: PthreadMutex,
            count: UnsafeCell<u64>,
        }
        // SAFETY: the test touches the count only with the mutex held.
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
                            // Here another thread would come in if it could.
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
