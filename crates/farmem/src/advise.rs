//! Advice on the memory of other processes with `process_madvise(2)`, for the pages of a range that are swapped out or
//! in memory as `PAGEMAP_SCAN` reports (Linux 6.7; on older kernels, for the whole range). Advice moves data and never
//! changes them, so a wrong address does no harm. Must not know the reason for an advice.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use machine::pagemap_scan::{self, PAGE_IS_FILE, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PageQuery, PageRegion};

use crate::predict::RANGES_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdviceKind {
    /// Read swapped-out pages.
    WillNeed,
    /// Write out anonymous pages in memory.
    PageOut,
}

impl AdviceKind {
    /// The pages to which the advice applies.
    fn pages(self) -> PageQuery {
        match self {
            Self::WillNeed => PageQuery { with: PAGE_IS_SWAPPED, without: 0, reported: PAGE_IS_SWAPPED },
            // Clean file pages are left to the kernel.
            Self::PageOut => PageQuery { with: PAGE_IS_PRESENT, without: PAGE_IS_FILE, reported: PAGE_IS_PRESENT },
        }
    }
}

/// Maximum number of open process descriptors.
const SPACES_MAX: usize = 64;

/// A process that receives advice.
struct Space {
    handle: OwnedFd,
    pagemap: File,
    stamp: u64,
}

/// The processes that receive advice.
#[derive(Default)]
pub(crate) struct Processes {
    open: BTreeMap<u32, Space>,
    stamp: u64,
    /// Address up to which a process was evicted regardless of its accesses.
    cursors: BTreeMap<u32, u64>,
    /// Whether the kernel lacks `PAGEMAP_SCAN`.
    blind: bool,
    refused: u64,
}

impl Processes {
    /// Ranges of live processes whose advice the kernel rejected; it moved nothing and reports this nowhere else.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Forgets a process that has ended or executed another program.
    pub(crate) fn forget(&mut self, process: u32) {
        self.open.remove(&process);
        self.cursors.remove(&process);
    }

    /// Advises on a range. Returns the number of bytes advised on, 0 for a process that has ended.
    pub(crate) fn advise(&mut self, process: u32, range: &Range<u64>, verb: AdviceKind) -> u64 {
        let blind = self.blind;
        let Some(space) = self.space(process) else { return 0 };
        if blind {
            let advised = advise_all(&space.handle, &[vector(range)], verb);
            return self.count(advised);
        }
        let AdviceProgress { at, mut advised, stopped } = space.walk(range, verb, u64::MAX);
        let unknown = stopped.is_some_and(|error| matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)));
        // The whole range was scanned, or the process is ending.
        if unknown {
            advised.add(advise_all(&space.handle, &[vector(&(at..range.end))], verb));
            self.blind = true;
        }
        self.count(advised)
    }

    /// Evicts this many bytes of a process, continuing at the address where the last call stopped.
    pub(crate) fn page_out_anywhere(&mut self, process: u32, bytes: u64) -> u64 {
        let from = self.cursors.get(&process).copied().unwrap_or(0);
        [from..u64::MAX, 0..from].into_iter().fold(0, |done, range| {
            done + if done < bytes { self.advise_from(process, range, AdviceKind::PageOut, bytes - done) } else { 0 }
        })
    }

    /// Reads this many swapped-out bytes of a process back into DRAM, starting where the last call stopped.
    pub(crate) fn fetch_next(&mut self, process: u32, bytes: u64) -> u64 {
        let from = self.cursors.get(&process).copied().unwrap_or(0);
        self.advise_from(process, from..u64::MAX, AdviceKind::WillNeed, bytes)
    }

    /// Advises on this many bytes of a range, up to the last mapping of the process.
    fn advise_from(&mut self, process: u32, range: Range<u64>, verb: AdviceKind, bytes: u64) -> u64 {
        let range = range.start..range.end.min(end_of_memory(process));
        let Some(space) = self.space(process) else { return 0 };
        let walk = space.walk(&range, verb, bytes);
        if walk.stopped.is_none() {
            self.cursors.insert(process, walk.at);
        }
        self.count(walk.advised)
    }

    /// Prefetches ranges without scanning them.
    pub(crate) fn fetch_each(&mut self, process: u32, ranges: &[Range<u64>]) {
        let vectors: Vec<libc::iovec> = ranges.iter().map(vector).collect();
        if let Some(space) = self.space(process) {
            let advised = advise_all(&space.handle, &vectors, AdviceKind::WillNeed);
            self.count(advised);
        }
    }

    /// Size in bytes.
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
    /// Bytes advised on.
    bytes: u64,
    /// Ranges whose advice the kernel rejected.
    refused: u64,
}

impl AdviceResult {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.refused += other.refused;
    }
}

/// Progress of the advice on a range.
struct AdviceProgress {
    at: u64,
    advised: AdviceResult,
    /// The error that ended the scan.
    stopped: Option<io::Error>,
}

impl Space {
    /// Advises on the pages of a range in the required state, until `bytes_max` bytes are done.
    fn walk(&self, range: &Range<u64>, verb: AdviceKind, bytes_max: u64) -> AdviceProgress {
        let mut regions = [PageRegion::default(); RANGES_MAX];
        let mut walk = AdviceProgress { at: range.start, advised: AdviceResult::default(), stopped: None };
        while walk.at < range.end && walk.advised.bytes < bytes_max {
            match pagemap_scan::scan(&self.pagemap, walk.at..range.end, verb.pages(), &mut regions) {
                Ok((count, next)) => {
                    let found = regions[..count].iter();
                    let vectors: Vec<libc::iovec> = found.map(|region| vector(&(region.start..region.end))).collect();
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
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(Space { handle: unsafe { OwnedFd::from_raw_fd(fd as i32) }, pagemap, stamp })
}

/// Returns the end of the last mapping of a process, or 0 if it has ended. Kernels reject scans beyond the addresses of a
/// program, which depend on the architecture, and `[vsyscall]` is beyond them.
fn end_of_memory(process: u32) -> u64 {
    let maps = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    last_end(&String::from_utf8_lossy(&maps))
}

fn last_end(maps: &str) -> u64 {
    let mappings = maps.lines().filter(|line| !line.ends_with("[vsyscall]"));
    let end = |line: &str| u64::from_str_radix(line.split_once(' ')?.0.split_once('-')?.1, 16).ok();
    mappings.filter_map(end).next_back().unwrap_or(0)
}

fn vector(range: &Range<u64>) -> libc::iovec {
    libc::iovec { iov_base: range.start as *mut libc::c_void, iov_len: (range.end - range.start) as usize }
}

/// Calls `process_madvise(2)` for all ranges; ranges that were unmapped in the meantime are skipped.
fn advise_all(handle: &OwnedFd, mut vectors: &[libc::iovec], verb: AdviceKind) -> AdviceResult {
    let advice = match verb {
        AdviceKind::WillNeed => libc::MADV_WILLNEED,
        AdviceKind::PageOut => libc::MADV_PAGEOUT,
    };
    let mut done = AdviceResult::default();
    while !vectors.is_empty() {
        // SAFETY: the kernel reads a live array of ranges. They are addresses of the other process, whose contents
        // advice does not change.
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
        // If it stopped inside a range, the rest of the range is skipped; for a range that it did not start, the next
        // call returns the error.
        if left > 0 {
            vectors = vectors.get(1..).unwrap_or_default();
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_with_the_last_mapping_of_a_program() {
        let maps = "5555-6666 r-xp 0 fe:01 9    /bin/true\n7ff0-7fff rw-p 0 00:00 0  [stack]\n\
                    ffffffffff600000-ffffffffff601000 --xp 0 00:00 0    [vsyscall]\n";
        assert_eq!((last_end(maps), last_end("")), (0x7fff, 0));
    }

    /// The kernel must accept the whole range: a scan that it rejects frees nothing, and it then kills a process.
    #[test]
    fn memory_up_to_its_end_can_be_scanned() {
        let pagemap = File::open("/proc/self/pagemap").expect("it is readable");
        if !pagemap_scan::is_supported(&pagemap) {
            println!("skipped: memory_up_to_its_end_can_be_scanned: no PAGEMAP_SCAN");
            return;
        }
        let end = end_of_memory(std::process::id());
        let mut regions = [PageRegion::default(); RANGES_MAX];
        let (found, _) = pagemap_scan::scan(&pagemap, 0..end, AdviceKind::PageOut.pages(), &mut regions)
            .expect("the kernel accepts the range");
        assert!(found > 0);
    }
}
