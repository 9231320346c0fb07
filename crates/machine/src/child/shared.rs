//! Memory that a process shares with its forks: a value, and strings for exec. Does not know what they mean.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::ptr::{self, NonNull};

use libc::c_char;

/// A value that forks of this process can replace. Reads and writes are not synchronised: the reader must know that the
/// writer has finished.
pub(super) struct Shared<T: Copy>(Mapping<T>);

/// Pages that forks of this process share, at the same address.
struct Mapping<T> {
    start: NonNull<T>,
    bytes: usize,
}

impl<T> Mapping<T> {
    /// Reserves address space; the kernel allocates pages when they are written.
    fn new(bytes: usize) -> io::Result<Self> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096, "mmap returns pages") };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags | libc::MAP_NORESERVE, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, bytes })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more. The kernel rounds its size up to pages.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl<T: Copy> Shared<T> {
    /// Maps pages for the value, at least one. Fails if no memory can be mapped.
    pub(super) fn new(value: T) -> io::Result<Self> {
        let shared = Self(Mapping::new(size_of::<T>())?);
        shared.set(value);
        Ok(shared)
    }

    pub(super) fn set(&self, value: T) {
        // SAFETY: the mapping is aligned, large enough, and lives as long as this value. Volatile, because another
        // process reads it.
        unsafe { self.0.start.write_volatile(value) }
    }

    pub(super) fn get(&self) -> T {
        // SAFETY: see `set`; `new` has written a value. Volatile, because another process writes it.
        unsafe { self.0.start.read_volatile() }
    }
}

/// Space for the strings of one exec.
pub(super) struct SharedStrings(Mapping<u8>);

/// Pointers to strings in shared memory, in the form that exec(3) expects. They are valid in this process and its forks
/// until the next call of [`SharedStrings::store`].
#[derive(Clone, Copy)]
pub(super) struct ExecStrings {
    /// The path of the program, or a name to search in PATH.
    pub program: *const c_char,
    /// Ends with null.
    pub argv: *const *const c_char,
    /// `NAME=VALUE`; ends with null.
    pub environment: *const *const c_char,
    /// Null for the current directory.
    pub directory: *const c_char,
}

impl SharedStrings {
    /// More than Linux accepts for an exec: three quarters of 8 MiB.
    const BYTES: usize = 8 << 20;

    pub(super) fn new() -> io::Result<Self> {
        Mapping::new(Self::BYTES).map(Self)
    }

    /// Replaces all strings. Fails with E2BIG if there are too many for any exec.
    pub(super) fn store(
        &mut self,
        program: &CStr,
        argv: &[CString],
        environment: &[CString],
        directory: Option<&CString>,
    ) -> io::Result<ExecStrings> {
        let mut free = 0;
        let program = self.string(program, &mut free)?;
        let argv = self.array(argv, &mut free)?;
        let environment = self.array(environment, &mut free)?;
        let directory = directory.map(|directory| self.string(directory, &mut free)).transpose()?;
        Ok(ExecStrings { program, argv, environment, directory: directory.unwrap_or(ptr::null()) })
    }

    /// Stores strings and then the pointers to them, with a null at the end.
    fn array(&mut self, strings: &[CString], free: &mut usize) -> io::Result<*const *const c_char> {
        let stored: io::Result<Vec<_>> = strings.iter().map(|string| self.string(string, free)).collect();
        let mut pointers = stored?;
        pointers.push(ptr::null());
        self.copy(&pointers, free)
    }

    fn string(&mut self, string: &CStr, free: &mut usize) -> io::Result<*const c_char> {
        self.copy(string.to_bytes_with_nul(), free).map(<*const u8>::cast)
    }

    /// Copies values to the free space, which begins at this offset.
    fn copy<T: Copy>(&mut self, values: &[T], free: &mut usize) -> io::Result<*const T> {
        let start = free.next_multiple_of(align_of::<T>());
        let end = start.checked_add(size_of_val(values)).filter(|end| *end <= Self::BYTES);
        *free = end.ok_or_else(|| io::Error::from_raw_os_error(libc::E2BIG))?;
        // SAFETY: the range is aligned and within the mapping, and nothing borrows it. A fork reads it only when it has
        // received an order, which is sent after this write.
        unsafe {
            let to = self.0.start.add(start).cast::<T>().as_ptr();
            ptr::copy_nonoverlapping(values.as_ptr(), to, values.len());
            Ok(to)
        }
    }
}
