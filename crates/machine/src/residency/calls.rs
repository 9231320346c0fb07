//! System calls that inspect page tables and the page cache. They never read or change the content of pages.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use libc::{c_long, c_ulong, c_void};

use crate::syscall::{self, checked};

/// Contiguous pages of the same categories: `struct page_region`, include/uapi/linux/fs.h.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct PageRegion {
    pub start: u64,
    pub end: u64,
    pub categories: u64,
}

/// `struct pm_scan_arg`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

pub(super) const PAGE_IS_FILE: u64 = 1 << 2;
pub(super) const PAGE_IS_HUGE: u64 = 1 << 6;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: c_ulong = 0xc000_0000 | (size_of::<ScanArg>() as c_ulong) << 16 | (b'f' as c_ulong) << 8 | 16;

/// ioctl `PAGEMAP_SCAN` (Linux 6.7): writes the regions of resident pages from `start` on to `regions`. Returns their
/// number, and the address up to which pages were scanned. Fails with ENOTTY on older kernels.
pub(super) fn scan_pagemap(
    pagemap: &File,
    start: u64,
    end: u64,
    regions: &mut [PageRegion],
) -> io::Result<(usize, u64)> {
    let mut arg = ScanArg {
        size: size_of::<ScanArg>() as u64,
        start,
        end,
        vec: regions.as_mut_ptr().addr() as u64,
        vec_len: regions.len() as u64,
        category_inverted: PAGE_IS_PFNZERO,
        category_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
        return_mask: PAGE_IS_FILE | PAGE_IS_HUGE,
        ..ScanArg::default()
    };
    // Makes the address in `arg` usable by the kernel.
    let _ = regions.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel reads and writes one live argument of the stated size, and writes at most `vec_len` regions to
    // the borrowed slice. Without flags, it changes no page table.
    let count = checked(|| unsafe { c_long::from(libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg)) })?;
    Ok((count as usize, arg.walk_end))
}

/// A mapping of a part of a file, for reading. Pages are mapped only on request; nothing accesses their content.
#[derive(Debug)]
pub(super) struct FileMapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl FileMapping {
    /// mmap(2) of the pages of `bytes` bytes (at least one) of a file, from an offset that is a multiple of the page size.
    pub(super) fn new(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
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
    pub(super) fn cached(&self, page_bytes: usize) -> io::Result<Vec<u8>> {
        let mut flags = vec![0; self.bytes.div_ceil(page_bytes)];
        // SAFETY: the range is the mapping, and the kernel writes one byte per page of it.
        checked(|| unsafe { c_long::from(libc::mincore(self.first().cast(), self.bytes, flags.as_mut_ptr())) })?;
        Ok(flags)
    }

    /// madvise(2) with `MADV_POPULATE_READ` (Linux 5.14): maps pages without reading their content. Unlike an access, it
    /// cannot raise SIGBUS if the file is truncated.
    pub(super) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.advise(offset, bytes, libc::MADV_POPULATE_READ)
    }

    pub(super) fn address(&self, offset: usize) -> *const u8 {
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
