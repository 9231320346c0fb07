//! Lists and reads the resident pages of running processes that the kernel can page out to swap.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use model::analysis::residency::{MemoryKind, SharedFiles};

use super::pagemap::PageMap;
use super::process::{UnseenSet, mappings};
use crate::proc::{MemoryMounts, Proc};
use crate::syscall;

/// Resident pages of a process that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPages {
    pub pid: u32,
    pub kind: MemoryKind,
    pub addresses: Range<u64>,
}

/// Lists the memory of processes that can be paged out to swap, in ascending order of process and address. Memory that
/// they share belongs to the first of them. Processes that end meanwhile or cannot be inspected have none.
pub fn own_pages(pids: &[u32]) -> Vec<OwnPages> {
    let (mounts, mut shared, mut pages) = (Proc::live().memory_mounts(), SharedFiles::default(), Vec::new());
    for pid in pids {
        // A process that ends during the listing leaves the pages that were found.
        let _ = for_each_own_run(*pid, &mounts, &mut shared, |OwnRun { kind, addresses, .. }| {
            // Pages of hugetlbfs stay in memory.
            if kind != MemoryKind::HugePages {
                pages.push(OwnPages { pid: *pid, kind, addresses });
            }
            Ok(())
        });
    }
    pages
}

/// A part of the memory of a process that no earlier mapping or process has.
pub(super) struct OwnRun {
    pub kind: MemoryKind,
    pub addresses: Range<u64>,
    pub is_huge: bool,
}

/// Calls `found` for each part of the memory of a process, without cached files of disks. Returns the size of the address
/// space that was not inspected.
pub(super) fn for_each_own_run(
    pid: u32,
    mounts: &MemoryMounts,
    shared: &mut SharedFiles,
    mut found: impl FnMut(OwnRun) -> io::Result<()>,
) -> io::Result<u64> {
    let (mut pagemap, mut skipped) = (PageMap::open(pid)?, 0);
    for mapping in mappings(pid, &mut UnseenSet::new())? {
        if !mapping.is_memory() || mapping.is_device() {
            continue;
        }
        let system = mounts.file_system(&mapping.path);
        skipped += pagemap.for_each_run(mapping.start..mapping.end, |run| {
            let Some(kind) = mapping.own_kind(system, run.is_file) else { return Ok(()) };
            let mut new = shared.add(&mapping, run).into_iter().filter(|(_, is_new)| *is_new);
            new.try_for_each(|(addresses, _)| found(OwnRun { kind, addresses, is_huge: run.is_huge }))
        })?;
    }
    Ok(skipped)
}

/// Reads pages of processes, given as process and address, and calls `visit` with the index and content of each that
/// could be read. Consecutive pages of a process need one open file.
pub fn read_pages(pages: &[(u32, u64)], mut visit: impl FnMut(usize, &[u8])) {
    let mut content = vec![0; syscall::page_bytes()];
    let mut opened: Option<(u32, Option<File>)> = None;
    for (index, (pid, address)) in pages.iter().enumerate() {
        if opened.as_ref().is_none_or(|(other, _)| other != pid) {
            opened = Some((*pid, File::open(format!("/proc/{pid}/mem")).ok()));
        }
        let file = opened.as_ref().and_then(|(_, file)| file.as_ref());
        if file.is_some_and(|file| file.read_exact_at(&mut content, *address).is_ok()) {
            visit(index, &content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of this process contains a buffer, of which every page is listed and can be read.
    #[test]
    fn pages_of_this_process_are_listed_and_read() {
        let page = syscall::page_bytes();
        let buffer = vec![0xA5_u8; 64 * page];
        let pid = std::process::id();
        let first = (buffer.as_ptr() as u64).next_multiple_of(page as u64);
        let wanted: Vec<(u32, u64)> = (0..63).map(|index| (pid, first + index * page as u64)).collect();
        let listed = own_pages(&[pid]);
        for (_, address) in &wanted {
            let found = listed.iter().find(|pages| pages.addresses.contains(address)).expect("the page is listed");
            assert!(matches!(found.kind, MemoryKind::Heap | MemoryKind::Anonymous), "{found:?}");
        }
        let mut read = Vec::new();
        read_pages(&wanted, |index, content| read.push((index, content.iter().all(|byte| *byte == 0xA5))));
        assert_eq!(read, (0..63).map(|index| (index, true)).collect::<Vec<_>>());
        drop(buffer);
    }

    #[test]
    fn code_and_missing_processes_have_no_own_pages() {
        let code = code_and_missing_processes_have_no_own_pages as *const () as u64;
        let listed = own_pages(&[u32::MAX, std::process::id()]);
        assert!(!listed.is_empty() && listed.iter().all(|pages| !pages.addresses.contains(&code)), "{listed:?}");
        let mut read = 0;
        read_pages(&[(u32::MAX, 4096), (std::process::id(), 0)], |_, _| read += 1);
        assert_eq!(read, 0);
    }
}
