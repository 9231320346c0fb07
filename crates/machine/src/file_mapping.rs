//! Mappings that find and query the cached pages of a file. They never read or change the content of pages.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use libc::{c_long, c_void};

use crate::syscall::{self, checked};

/// A mapping of a part of a file, for reading. Pages are mapped only on request; nothing accesses their content.
#[derive(Debug)]
pub(crate) struct FileMapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl FileMapping {
    /// mmap(2) of the pages of `bytes` bytes (at least one) of a file, from an offset that is a multiple of the page size.
    pub(crate) fn new(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(syscall::page_bytes());
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let mapping = Self { start, bytes };
        // Without it, mapping a page at the end of a read-ahead window would read the next window from the disk.
        mapping.advise(0, bytes, libc::MADV_RANDOM)?;
        Ok(mapping)
    }

    /// mincore(2): returns one byte per page, whose lowest bit is set if the page is in the page cache. Wrong unless this
    /// process owns the file or may write it.
    pub(crate) fn cached(&self, page_bytes: usize) -> io::Result<Vec<u8>> {
        let mut flags = vec![0; self.bytes.div_ceil(page_bytes)];
        // SAFETY: the range is the mapping, and the kernel writes one byte per page of it.
        checked(|| unsafe { c_long::from(libc::mincore(self.first().cast(), self.bytes, flags.as_mut_ptr())) })?;
        Ok(flags)
    }

    /// madvise(2) with `MADV_POPULATE_READ` (Linux 5.14): maps pages without reading their content. Unlike an access, it
    /// cannot raise SIGBUS if the file is truncated.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.advise(offset, bytes, libc::MADV_POPULATE_READ)
    }

    pub(crate) fn address(&self, offset: usize) -> *const u8 {
        self.first().cast_const().cast::<u8>().wrapping_add(offset)
    }

    fn advise(&self, offset: usize, bytes: usize, advice: libc::c_int) -> io::Result<()> {
        assert!(offset + bytes <= self.bytes, "the range is in the mapping");
        // SAFETY: the range is in the mapping (asserted); both kinds of advice change no content.
        checked(|| unsafe { c_long::from(libc::madvise(self.first().byte_add(offset), bytes, advice)) }).map(drop)
    }

    fn first(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more; only this value knew its address.
        let _ = unsafe { libc::munmap(self.first(), self.bytes) };
    }
}
