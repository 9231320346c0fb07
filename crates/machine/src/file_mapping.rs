//! Mappings that find and query the cached pages of a file. They never read or change the content of pages.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use libc::{c_long, c_void};

use crate::syscall::{self, checked};

/// Part of a file that is mapped at once.
const PART_BYTES: u64 = 256 << 20;

/// A mapping of a part of a file, for reading. Pages are mapped only on request; nothing accesses their content.
#[derive(Debug)]
pub(crate) struct FileMapping {
    start: NonNull<u8>,
    bytes: usize,
}

/// Maps a file of this size in parts, in order, and calls `visit` with the offset and the mapping of each.
pub(crate) fn for_each_part(
    file: &File,
    size: u64,
    mut visit: impl FnMut(u64, &FileMapping) -> io::Result<()>,
) -> io::Result<()> {
    let mut offset = 0;
    while offset < size {
        let bytes = PART_BYTES.min(size - offset);
        visit(offset, &FileMapping::new(file, offset, bytes as usize)?)?;
        offset += bytes;
    }
    Ok(())
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
    fn cached(&self, page_bytes: usize) -> io::Result<Vec<u8>> {
        let mut flags = vec![0; self.bytes.div_ceil(page_bytes)];
        // SAFETY: the range is the mapping, and the kernel writes one byte per page of it.
        checked(|| unsafe { c_long::from(libc::mincore(self.first().cast(), self.bytes, flags.as_mut_ptr())) })?;
        Ok(flags)
    }

    /// Returns the cached pages as ranges of offsets in bytes, in order. Wrong for the same users as [`Self::cached`].
    pub(crate) fn cached_ranges(&self) -> io::Result<Vec<Range<usize>>> {
        let page_bytes = syscall::page_bytes();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (page, flag) in self.cached(page_bytes)?.into_iter().enumerate() {
            let start = page * page_bytes;
            match ranges.last_mut() {
                _ if flag & 1 == 0 => {}
                Some(range) if range.end == start => range.end += page_bytes,
                _ => ranges.push(start..start + page_bytes),
            }
        }
        Ok(ranges)
    }

    /// madvise(2) with `MADV_POPULATE_READ` (Linux 5.14): maps pages without reading their content. Unlike an access, it
    /// cannot raise SIGBUS if the file is truncated.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.advise(offset, bytes, libc::MADV_POPULATE_READ)
    }

    /// Length in bytes, a multiple of the page size.
    pub(crate) fn len(&self) -> u64 {
        self.bytes as u64
    }

    pub(crate) fn address(&self, offset: usize) -> u64 {
        (self.first().addr() + offset) as u64
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
