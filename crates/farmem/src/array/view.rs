//! A far file mapped as memory: pages are read at the first access and evicted when DRAM is short, both through the
//! page cache.
//!
//! A mapped file can end a process by SIGBUS in two cases. If a page has no block: here all blocks are allocated before
//! the mapping, the file has no name by which another process could truncate it, and copy-on-write file systems are
//! rejected. If the disk cannot read a page: this is equivalent to a DRAM failure and cannot be handled. A failed
//! write-back ends no process: the kernel records it, and [`View::sync`] reports it.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::slice;

use model::values::units::Bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{FarError, FarFile};

/// Pages per call of mincore(2).
const PAGES_PER_CALL: usize = 1 << 16;

/// The smallest page size of Linux.
const PAGE_BYTES_MIN: usize = 4096;

/// Expected access pattern of a range (madvise(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No particular pattern: the kernel reads some pages ahead.
    Normal,
    /// Sequential: the kernel reads far ahead and evicts early.
    Sequential,
    /// Random: the kernel reads one page at a time.
    Random,
    /// Needed soon: the kernel starts to read now.
    WillNeed,
    /// No longer needed; written data stay in the file.
    DontNeed,
}

/// The memory behind a view, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Size of the view.
    pub bytes: Bytes,
    /// Bytes that the kernel reports as a shared mapping of this file at the right offset.
    pub of_file: Bytes,
    /// Bytes in DRAM (in the page cache) now; `None` if the kernel does not report it.
    pub resident: Option<Bytes>,
    /// The file system's name.
    pub file_system: String,
}

/// A mapped far file, initially zero.
#[derive(Debug)]
pub struct View {
    start: NonNull<u8>,
    bytes: usize,
    file: FarFile,
}

// SAFETY: the value owns the mapping, like a boxed slice: no other code can open the file, which has no name and one
// descriptor, held here and never written through.
unsafe impl Send for View {}
// SAFETY: as above; a shared reference gives shared slices only.
unsafe impl Sync for View {}

impl View {
    /// Maps a file that was created for mapping.
    pub fn new(file: FarFile) -> Result<Self, FarError> {
        assert!(file.access() == super::Access::Mapped, "a file for direct I/O must not be mapped");
        let bytes = file.bytes();
        // SAFETY: a new mapping at an address chosen by the kernel overlaps nothing.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.file().as_raw_fd(), 0)
        };
        let refused = || {
            FarError::refused(format!("map {} of a far file (mmap)", Bytes(bytes as u64)), &io::Error::last_os_error())
        };
        if start == libc::MAP_FAILED {
            return Err(refused());
        }
        let start = NonNull::new(start.cast()).ok_or_else(refused)?;
        Ok(Self { start, bytes, file })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns all bytes as values without interior mutability.
    pub fn as_slice<T: FromBytes + Immutable>(&self) -> &[T] {
        // SAFETY: the values are in the mapping, which is readable and page-aligned, so aligned for T (asserted in
        // `len`). It is borrowed shared, and no shared view can change it: T has no interior mutability. T is
        // FromBytes, so any content of the file is a valid value. Every page has a block, so a read raises SIGBUS only
        // if the disk fails.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len::<T>()) }
    }

    /// Returns all bytes as values to write, or as atomics that threads share.
    pub fn as_mut_slice<T: FromBytes + IntoBytes>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and the mapping is writable and borrowed exclusively. T is IntoBytes, so no
        // uninitialised bytes are written.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len::<T>()) }
    }

    fn len<T>(&self) -> usize {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= PAGE_BYTES_MIN) };
        self.bytes / size_of::<T>()
    }

    /// Advises the kernel on the use of a range of bytes, extended to whole pages.
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), FarError> {
        let code = match advice {
            Advice::Normal => libc::MADV_NORMAL,
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            Advice::Random => libc::MADV_RANDOM,
            Advice::WillNeed => libc::MADV_WILLNEED,
            // For a shared file mapping, this unmaps pages without discarding data.
            Advice::DontNeed => libc::MADV_DONTNEED,
        };
        let (start, bytes) = self.pages(range);
        // SAFETY: the range is in this mapping, and these kinds of advice keep its content.
        checked(|| unsafe { libc::madvise(start.cast(), bytes, code) })
            .map_err(|error| FarError::refused("advise the kernel on far memory (madvise)", &error))
    }

    /// Waits until written data of a range are on the disk. Returns an error of any write to the file since the last
    /// call, once; the kernel has dropped those pages then.
    pub fn sync(&self, range: Range<usize>) -> Result<(), FarError> {
        let (start, bytes) = self.pages(range);
        // SAFETY: the range is in this mapping; msync changes nothing in it.
        checked(|| unsafe { libc::msync(start.cast(), bytes, libc::MS_SYNC) }).map_err(|error| FarError::Transfer {
            what: format!("write {} of far memory to its disk (msync)", Bytes(bytes as u64)),
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        })
    }

    /// Returns the present state of the memory behind the view.
    pub fn backing(&self) -> Result<Backing, FarError> {
        let maps = std::fs::read_to_string("/proc/self/maps")
            .map_err(|error| FarError::refused("read /proc/self/maps", &error))?;
        let start = self.start.as_ptr() as u64;
        let of_file = of_file(&maps, start..start + self.bytes as u64, self.file.inode());
        let (bytes, resident) = (Bytes(self.bytes as u64), self.resident().ok().map(Bytes));
        Ok(Backing { bytes, of_file: Bytes(of_file), resident, file_system: self.file.file_system() })
    }

    /// Bytes in the page cache.
    fn resident(&self) -> io::Result<u64> {
        let page = page_bytes();
        let mut flags = vec![0_u8; PAGES_PER_CALL];
        let mut pages = 0;
        for from in (0..self.bytes).step_by(PAGES_PER_CALL * page) {
            let bytes = (self.bytes - from).min(PAGES_PER_CALL * page);
            let count = bytes.div_ceil(page);
            let start = self.start.as_ptr().wrapping_add(from);
            // SAFETY: the kernel writes one byte per page of the range, and `flags` is large enough.
            checked(|| unsafe { libc::mincore(start.cast(), bytes, flags.as_mut_ptr()) })?;
            pages += flags[..count].iter().filter(|flag| **flag & 1 == 1).count();
        }
        Ok((pages * page).min(self.bytes) as u64)
    }

    /// Extends a range to whole pages.
    fn pages(&self, range: Range<usize>) -> (*mut u8, usize) {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} of {} bytes", self.bytes);
        let from = range.start / page_bytes() * page_bytes();
        (self.start.as_ptr().wrapping_add(from), range.end - from)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, which no slice borrows any longer.
        let gone = checked(|| unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) });
        gone.expect("an owned mapping can be unmapped");
    }
}

fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every Linux has a page size")
}

fn checked(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    loop {
        if call() == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Counts the bytes of a range that a maps text shows as shared pages of the file with this inode, each at its own
/// offset.
fn of_file(maps: &str, range: Range<u64>, inode: u64) -> u64 {
    maps.lines().filter_map(|line| mapped(line, &range, inode)).sum()
}

/// `7f12c0000000-7f1300000000 rw-s 00000000 fe:00 1234  /var/tmp/#1234 (deleted)`
fn mapped(line: &str, range: &Range<u64>, inode: u64) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (from, to) = (hex(from)?, hex(to)?);
    let (rights, offset, _device, found) = (words.next()?, hex(words.next()?)?, words.next()?, words.next()?);
    let shared = rights.ends_with('s') && found.parse() == Ok(inode);
    let (begin, end) = (from.max(range.start), to.min(range.end));
    if !shared || begin >= end || begin - range.start != offset + (begin - from) {
        return None;
    }
    Some(end - begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_file_at_their_offset_are_counted() {
        let maps = "55d000000000-55d000010000 rw-p 00000000 00:00 0 [heap]\n\
                    7f0000000000-7f0000004000 rw-s 00000000 fe:00 77 /var/tmp/#77 (deleted)\n\
                    7f0000004000-7f0000008000 rw-s 00004000 fe:00 77 /var/tmp/#77 (deleted)\n\
                    7f0000008000-7f000000a000 rw-p 00000000 00:00 0\n\
                    7f000000a000-7f000000c000 rw-s 00000000 fe:00 77 /var/tmp/#77 (deleted)\n";
        let bytes = |from: u64, to: u64, inode| of_file(maps, 0x7f00_0000_0000 + from..0x7f00_0000_0000 + to, inode);
        assert_eq!(bytes(0, 0x8000, 77), 0x8000);
        assert_eq!(bytes(0, 0x6000, 77), 0x6000);
        assert_eq!(bytes(0, 0xa000, 77), 0x8000, "anonymous pages do not count");
        assert_eq!(bytes(0, 0xc000, 77), 0x8000, "pages at another offset do not count");
        assert_eq!(bytes(0, 0x8000, 78), 0, "pages of another file do not count");
    }
}
