//! Finds the resident pages of a process in `/proc/PID/pagemap`, in short calls that do not stop the process.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use model::analysis::residency::PageRun;

use crate::pagemap_scan::{self, PAGE_IS_FILE, PAGE_IS_HUGE, PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PageQuery, PageRegion};
use crate::syscall;

/// Size of a transparent huge page, and of the default hugetlb page, on x86-64 and on 64-bit ARM with 4 KiB pages.
pub(super) const HUGE_BYTES: u64 = 2 << 20;
/// Address space per call. A call holds the lock on the mappings of the process for at most 0.5 ms.
const PIECE_BYTES: u64 = 16 << 20;
/// Empty address space is skipped in growing steps: some programs reserve terabytes.
const PIECE_BYTES_MAX: u64 = 1 << 40;
const REGIONS_PER_CALL: usize = 512;
/// Maximum address space that is read page by page on kernels without the scan.
const READ_BYTES_MAX: u64 = 256 << 30;

/// Pages in memory, except the shared page of zeros.
const RESIDENT: PageQuery =
    PageQuery { with: PAGE_IS_PRESENT, without: PAGE_IS_PFNZERO, reported: PAGE_IS_FILE | PAGE_IS_HUGE };

/// Bits of an entry: Documentation/admin-guide/mm/pagemap.rst.
pub(super) const PRESENT: u64 = 1 << 63;
const FILE_OR_SHARED: u64 = 1 << 61;
/// Number of the page frame. The kernel hides it without `CAP_SYS_ADMIN`.
pub(super) const FRAME: u64 = (1 << 55) - 1;
/// Bits of /proc/kpageflags.
const KPF_HUGE: u64 = 1 << 17;
const KPF_THP: u64 = 1 << 22;

/// The page tables of a process.
#[derive(Debug)]
pub(super) struct PageMap {
    file: File,
    has_scan: bool,
    /// Flags of all pages of the machine; `None` without permission.
    flags: Option<File>,
    page_bytes: u64,
    /// Address space read page by page.
    read_bytes: u64,
}

impl PageMap {
    pub(super) fn open(pid: u32) -> io::Result<Self> {
        let file = File::open(format!("/proc/{pid}/pagemap"))?;
        Ok(Self {
            has_scan: pagemap_scan::is_supported(&file),
            file,
            flags: File::open(Path::new("/proc/kpageflags")).ok(),
            page_bytes: syscall::page_bytes() as u64,
            read_bytes: 0,
        })
    }

    /// Whether huge pages can be distinguished from others.
    pub(super) fn shows_huge_pages(&self) -> bool {
        self.has_scan || self.flags.is_some()
    }

    /// Whether the process still has the memory that was opened: it has not ended or started another program.
    pub(super) fn is_alive(&self, address: u64) -> bool {
        let mut entry = [0; 8];
        self.file.read_at(&mut entry, address / self.page_bytes * 8).is_ok_and(|length| length == entry.len())
    }

    /// Calls `found` for each run of resident pages in a range of addresses. Returns the part of the range that was not
    /// inspected.
    pub(super) fn for_each_run(
        &mut self,
        range: Range<u64>,
        mut found: impl FnMut(&PageRun) -> io::Result<()>,
    ) -> io::Result<u64> {
        let (mut at, mut piece) = (range.start, PIECE_BYTES);
        while at < range.end {
            // Pieces end between huge pages.
            let end = ((at + piece) / HUGE_BYTES * HUGE_BYTES).min(range.end);
            let runs = if self.has_scan {
                self.scan(at..end)?
            } else if self.read_bytes >= READ_BYTES_MAX {
                return Ok(range.end - at);
            } else {
                self.read(at..end)?
            };
            piece = if runs.is_empty() && self.has_scan { (piece * 2).min(PIECE_BYTES_MAX) } else { PIECE_BYTES };
            runs.iter().try_for_each(&mut found)?;
            at = end;
        }
        Ok(0)
    }

    fn scan(&self, range: Range<u64>) -> io::Result<Vec<PageRun>> {
        let mut regions = [PageRegion::default(); REGIONS_PER_CALL];
        let (mut runs, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let (count, reached) = pagemap_scan::scan(&self.file, at..range.end, RESIDENT, &mut regions)?;
            runs.extend(regions[..count].iter().map(|region| PageRun {
                range: region.start..region.end,
                is_file: region.categories & PAGE_IS_FILE != 0,
                is_huge: region.categories & PAGE_IS_HUGE != 0,
            }));
            if reached <= at {
                break;
            }
            at = reached;
        }
        Ok(runs)
    }

    fn read(&mut self, range: Range<u64>) -> io::Result<Vec<PageRun>> {
        self.read_bytes += range.end - range.start;
        let count = ((range.end - range.start) / self.page_bytes) as usize;
        let mut bytes = vec![0; count * 8];
        let length = self.file.read_at(&mut bytes, range.start / self.page_bytes * 8)?;
        let entry = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("chunks have 8 bytes"));
        let entries: Vec<u64> = bytes[..length].chunks_exact(8).map(entry).collect();
        Ok(runs(&entries, range.start, self.page_bytes, |frame| self.is_huge(frame)))
    }

    fn is_huge(&self, frame: u64) -> bool {
        let mut flags = [0; 8];
        let file = self.flags.as_ref();
        let length = file.and_then(|file| file.read_at(&mut flags, frame * 8).ok());
        length == Some(flags.len()) && u64::from_ne_bytes(flags) & (KPF_THP | KPF_HUGE) != 0
    }
}

/// Groups the entries of consecutive pages into runs. `is_huge` returns whether a page frame is part of a huge page.
fn runs(entries: &[u64], start: u64, page_bytes: u64, is_huge: impl Fn(u64) -> bool) -> Vec<PageRun> {
    let per_huge = (HUGE_BYTES / page_bytes) as usize;
    let mut runs: Vec<PageRun> = Vec::new();
    let mut index = 0;
    while index < entries.len() {
        let address = start + index as u64 * page_bytes;
        let (entry, frame) = (entries[index], entries[index] & FRAME);
        if entry & PRESENT == 0 {
            index += 1;
            continue;
        }
        // A process has a huge page only if it maps all of it at an aligned address; otherwise it maps single pages of it.
        let last = entries.get(index + per_huge - 1).filter(|last| **last & PRESENT != 0).map(|last| last & FRAME);
        let huge = address.is_multiple_of(HUGE_BYTES)
            && frame != 0
            && frame.is_multiple_of(per_huge as u64)
            && last == Some(frame + per_huge as u64 - 1)
            && is_huge(frame);
        let pages = if huge { per_huge } else { 1 };
        let end = address + pages as u64 * page_bytes;
        let is_file = entry & FILE_OR_SHARED != 0;
        match runs.last_mut() {
            Some(run) if run.range.end == address && run.is_file == is_file && run.is_huge == huge => {
                run.range.end = end;
            }
            _ => runs.push(PageRun { range: address..end, is_file, is_huge: huge }),
        }
        index += pages;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(range: Range<u64>, is_file: bool, is_huge: bool) -> PageRun {
        PageRun { range, is_file, is_huge }
    }

    #[test]
    fn contiguous_pages_of_a_kind_are_one_run() {
        let entries = [PRESENT | 7, PRESENT | 9, 0, PRESENT | FILE_OR_SHARED, PRESENT, 1 << 62];
        let expected =
            [run(0x1000..0x3000, false, false), run(0x4000..0x5000, true, false), run(0x5000..0x6000, false, false)];
        assert_eq!(runs(&entries, 0x1000, 4096, |_| true), expected);
    }

    #[test]
    fn huge_pages_are_aligned_and_complete() {
        let block = |frame: u64| (0..512).map(move |page| PRESENT | (frame + page)).collect::<Vec<_>>();
        let is_huge = |frame| frame < 4096;
        let whole = [block(1024), block(4096)].concat();
        let expected =
            [run(HUGE_BYTES..2 * HUGE_BYTES, false, true), run(2 * HUGE_BYTES..3 * HUGE_BYTES, false, false)];
        assert_eq!(runs(&whole, HUGE_BYTES, 4096, is_huge), expected);
        let moved = [run(HUGE_BYTES + 4096..2 * HUGE_BYTES + 4096, false, false)];
        assert_eq!(runs(&block(1024), HUGE_BYTES + 4096, 4096, is_huge), moved, "not aligned");
        assert_eq!(runs(&block(1024)[..511], HUGE_BYTES, 4096, is_huge).len(), 1);
        assert!(!runs(&block(1024)[..511], HUGE_BYTES, 4096, is_huge)[0].is_huge, "not complete");
        let hidden: Vec<u64> = block(1024).iter().map(|entry| entry & !FRAME).collect();
        assert!(!runs(&hidden, HUGE_BYTES, 4096, is_huge)[0].is_huge, "page frames are hidden without privileges");
    }
}
