//! ioctl `PAGEMAP_SCAN` (Linux 6.7), which reports the pages of a process by their state. Must not know what the pages are
//! for.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use libc::{c_long, c_ulong};

use crate::syscall::checked;

/// Categories of pages: include/uapi/linux/fs.h.
pub const PAGE_IS_FILE: u64 = 1 << 2;
pub const PAGE_IS_PRESENT: u64 = 1 << 3;
pub const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// The shared page of zeros.
pub const PAGE_IS_PFNZERO: u64 = 1 << 5;
pub const PAGE_IS_HUGE: u64 = 1 << 6;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: c_ulong = 0xc000_0000 | (size_of::<ScanArg>() as c_ulong) << 16 | (b'f' as c_ulong) << 8 | 16;

/// Contiguous pages of the same categories: `struct page_region`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct PageRegion {
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

/// Which pages are reported, and what about them.
#[derive(Clone, Copy, Debug)]
pub struct PageQuery {
    /// Pages have all of these categories.
    pub with: u64,
    /// Pages have none of these categories.
    pub without: u64,
    /// Categories that [`PageRegion::categories`] states.
    pub reported: u64,
}

/// Writes the regions of matching pages in `range` to `regions`, in order. Returns their number, and the address up to
/// which pages were scanned.
///
/// # Errors
/// Errors of the kernel: ENOTTY before Linux 6.7.
pub fn scan(
    pagemap: &File,
    range: Range<u64>,
    query: PageQuery,
    regions: &mut [PageRegion],
) -> io::Result<(usize, u64)> {
    let mut arg = ScanArg {
        size: size_of::<ScanArg>() as u64,
        start: range.start,
        end: range.end,
        vec: regions.as_mut_ptr().addr() as u64,
        vec_len: regions.len() as u64,
        category_inverted: query.without,
        category_mask: query.with | query.without,
        return_mask: query.reported,
        ..ScanArg::default()
    };
    // Makes the address in `arg` usable by the kernel.
    let _ = regions.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel reads and writes one live argument of the stated size, and writes at most `vec_len` regions to
    // the borrowed slice. Without flags, it changes no page table.
    let count = checked(|| unsafe { c_long::from(libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut arg)) })?;
    Ok((count as usize, arg.walk_end))
}

/// Whether the kernel supports the request.
pub fn is_supported(pagemap: &File) -> bool {
    let any = PageQuery { with: 0, without: 0, reported: 0 };
    scan(pagemap, 0..0, any, &mut [PageRegion::default()]).is_ok()
}
