//! Advice about the memory of other processes: `process_madvise(2)`, on what of a range is far or in memory as
//! `PAGEMAP_SCAN` tells (Linux 6.7; before it, on the whole range). Advice changes where contents are and never what they
//! are, so a wrong address does no harm. Must not know why it is given.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use machine::expand_probes::PAGEMAP_SCAN;

use crate::predict::RANGES_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdviceKind {
    /// Bring in what is far.
    WillNeed,
    /// Write out what is in memory and has no file behind it.
    PageOut,
}

const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
/// Beyond the addresses of any program, with four levels of page tables.
const ADDRESSES: u64 = 1 << 47;
/// So many processes' descriptors are kept open.
const SPACES_MAX: usize = 64;

/// struct `pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
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

/// struct `page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// A process that can be advised.
struct Space {
    handle: OwnedFd,
    pagemap: File,
    stamp: u64,
}

/// The processes that are advised.
#[derive(Default)]
pub(crate) struct Processes {
    open: BTreeMap<u32, Space>,
    stamp: u64,
    /// Up to where a process was paged out for want of anything better.
    cursors: BTreeMap<u32, u64>,
    /// Whether the kernel has no `PAGEMAP_SCAN`.
    blind: bool,
    refused: u64,
}

impl Processes {
    /// Ranges of processes that are there about which the kernel took no advice: it has moved nothing, and nobody else tells.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// A process is gone, or has become another program.
    pub(crate) fn forget(&mut self, process: u32) {
        self.open.remove(&process);
        self.cursors.remove(&process);
    }

    /// Advises on a range; gives the bytes that were advised on. A process that has ended has none.
    pub(crate) fn advise(&mut self, process: u32, range: &Range<u64>, verb: AdviceKind) -> u64 {
        let blind = self.blind;
        let Some(space) = self.space(process) else { return 0 };
        if blind {
            let advised = advise_all(&space.handle, &[vector(range)], verb);
            return self.count(advised);
        }
        let AdviceProgress { at, mut advised, stopped } = space.walk(range, verb, u64::MAX);
        let unknown = stopped.is_some_and(|error| matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)));
        // Else it has seen all of the range, or the process is ending.
        if unknown {
            advised.add(advise_all(&space.handle, &[vector(&(at..range.end))], verb));
            self.blind = true;
        }
        self.count(advised)
    }

    /// Pages out so many bytes of a process wherever they are, going on where the last time it stopped.
    pub(crate) fn page_out_anywhere(&mut self, process: u32, bytes: u64) -> u64 {
        let from = self.cursors.get(&process).copied().unwrap_or(0);
        let mut done = 0;
        for range in [from..ADDRESSES, 0..from] {
            let Some(space) = self.space(process) else { break };
            let walk = space.walk(&range, AdviceKind::PageOut, bytes - done);
            done += self.count(walk.advised);
            if walk.stopped.is_some() {
                break;
            }
            self.cursors.insert(process, walk.at);
            if done >= bytes {
                break;
            }
        }
        done
    }

    /// Fetches single ranges without asking where they are.
    pub(crate) fn fetch_each(&mut self, process: u32, ranges: &[Range<u64>]) {
        let vectors: Vec<libc::iovec> = ranges.iter().map(vector).collect();
        if let Some(space) = self.space(process) {
            let advised = advise_all(&space.handle, &vectors, AdviceKind::WillNeed);
            self.count(advised);
        }
    }

    /// Its bytes.
    fn count(&mut self, advised: AdviceResult) -> u64 {
        self.refused += advised.refused;
        advised.bytes
    }

    fn space(&mut self, process: u32) -> Option<&Space> {
        self.stamp += 1;
        if !self.open.contains_key(&process) {
            let space = open(process, self.stamp).ok()?;
            if self.open.len() >= SPACES_MAX {
                let oldest = self.open.iter().min_by_key(|(_, space)| space.stamp).map(|(process, _)| *process)?;
                self.open.remove(&oldest);
            }
            self.open.insert(process, space);
        }
        let space = self.open.get_mut(&process)?;
        space.stamp = self.stamp;
        Some(space)
    }
}

#[derive(Clone, Copy, Default)]
struct AdviceResult {
    /// Bytes that were advised on.
    bytes: u64,
    /// Ranges about which the kernel took none.
    refused: u64,
}

impl AdviceResult {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.refused += other.refused;
    }
}

/// How far the advice on a range came.
struct AdviceProgress {
    at: u64,
    advised: AdviceResult,
    /// Why it could not look further.
    stopped: Option<io::Error>,
}

impl Space {
    /// Advises on what of a range is in the state for it, until so many bytes are done.
    fn walk(&self, range: &Range<u64>, verb: AdviceKind, bytes_max: u64) -> AdviceProgress {
        let mut regions = [Region::default(); RANGES_MAX];
        let mut walk = AdviceProgress { at: range.start, advised: AdviceResult::default(), stopped: None };
        while walk.at < range.end && walk.advised.bytes < bytes_max {
            match scan(&self.pagemap, walk.at..range.end, verb, &mut regions) {
                Ok((found, next)) => {
                    let vectors: Vec<libc::iovec> =
                        found.iter().map(|region| vector(&(region.start..region.end))).collect();
                    walk.advised.add(advise_all(&self.handle, &vectors, verb));
                    if next <= walk.at {
                        break;
                    }
                    walk.at = next;
                }
                Err(error) => {
                    walk.stopped = Some(error);
                    break;
                }
            }
        }
        walk
    }
}

fn open(process: u32, stamp: u64) -> io::Result<Space> {
    let pagemap = File::open(format!("/proc/{process}/pagemap"))?;
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0_u32) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    Ok(Space { handle: unsafe { OwnedFd::from_raw_fd(fd as i32) }, pagemap, stamp })
}

fn vector(range: &Range<u64>) -> libc::iovec {
    libc::iovec { iov_base: range.start as *mut libc::c_void, iov_len: (range.end - range.start) as usize }
}

/// The regions in the state that the advice is for, clipped to what is mapped, and where the kernel stopped looking.
fn scan<'a>(
    pagemap: &File,
    range: Range<u64>,
    verb: AdviceKind,
    regions: &'a mut [Region; RANGES_MAX],
) -> io::Result<(&'a [Region], u64)> {
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        start: range.start,
        end: range.end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: RANGES_MAX as u64,
        ..Scan::default()
    };
    match verb {
        AdviceKind::WillNeed => (scan.category_mask, scan.return_mask) = (IS_SWAPPED, IS_SWAPPED),
        // Clean pages of files are the kernel's business.
        AdviceKind::PageOut => {
            scan.category_mask = IS_PRESENT | IS_FILE;
            scan.category_inverted = IS_FILE;
            scan.return_mask = IS_PRESENT;
        }
    }
    // SAFETY: the kernel reads and writes a live struct of the layout that it has published, and writes at most vec_len
    // regions into a live array of that length.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((&regions[..found as usize], scan.walk_end))
}

/// `process_madvise(2)` over all of these; what was unmapped meanwhile is left out.
fn advise_all(handle: &OwnedFd, mut vectors: &[libc::iovec], verb: AdviceKind) -> AdviceResult {
    let advice = match verb {
        AdviceKind::WillNeed => libc::MADV_WILLNEED,
        AdviceKind::PageOut => libc::MADV_PAGEOUT,
    };
    let mut done = AdviceResult::default();
    while !vectors.is_empty() {
        // SAFETY: the kernel reads a live array of ranges; they are addresses of the other process, where advice changes
        // no contents.
        let advised = unsafe {
            libc::syscall(libc::SYS_process_madvise, handle.as_raw_fd(), vectors.as_ptr(), vectors.len(), advice, 0_u32)
        };
        if advised < 0 {
            match io::Error::last_os_error().raw_os_error() {
                // The process has ended.
                Some(libc::ESRCH) => return done,
                Some(libc::ENOMEM | libc::EAGAIN | libc::EINTR) => {}
                _ => done.refused += 1,
            }
            vectors = &vectors[1..];
            continue;
        }
        done.bytes += advised as u64;
        let mut left = advised as usize;
        while let Some(first) = vectors.first().filter(|first| left >= first.iov_len) {
            left -= first.iov_len;
            vectors = &vectors[1..];
        }
        // Where it stopped inside a range, the rest of that is left out; a range that it did not begin with says why when it is tried again.
        if left > 0 {
            vectors = vectors.get(1..).unwrap_or_default();
        }
    }
    done
}
