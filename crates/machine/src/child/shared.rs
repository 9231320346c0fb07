//! A value in memory that a process shares with its forks. Does not know what the value means.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{self, NonNull};

/// A value that forks of this process can replace. Reads and writes are not synchronised: the reader must know that the
/// writer has finished.
pub(super) struct Shared<T: Copy>(NonNull<T>);

impl<T: Copy> Shared<T> {
    /// Maps pages for the value, at least one. Fails if no memory can be mapped.
    pub(super) fn new(value: T) -> io::Result<Self> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096, "mmap returns pages") };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), size_of::<T>(), protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let shared = Self(start);
        shared.set(value);
        Ok(shared)
    }

    pub(super) fn set(&self, value: T) {
        // SAFETY: the mapping is aligned, large enough, and lives as long as this value. Volatile, because another
        // process reads it.
        unsafe { self.0.write_volatile(value) }
    }

    pub(super) fn get(&self) -> T {
        // SAFETY: see `set`; `new` has written a value. Volatile, because another process writes it.
        unsafe { self.0.read_volatile() }
    }
}

impl<T: Copy> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more. The kernel rounds its size up to pages.
        let _ = unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}
