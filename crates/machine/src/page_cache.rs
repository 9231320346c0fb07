//! Brings the cached pages of files to the state in which a trial shall find them. Only pages that no process maps are
//! moved or dropped. Must not know which files a command uses.

use std::fs::File;
use std::path::Path;

use model::analysis::residency::PageStatus;
use model::values::id_set::{CpuSet, NodeId, NodeSet};
use model::values::placement::MemoryPolicy;

use crate::file_mapping::for_each_part;
use crate::nodes::BLOCK_BYTES;
use crate::proc::Proc;
use crate::residency::{FileError, open_own_file, query};
use crate::syscall;

/// Pages that are moved in one call.
const PAGES_PER_CALL: usize = 4096;
/// `f_type` of tmpfs, ramfs and hugetlbfs. Pages of their files are the only copy, and evidence counts them as memory.
const MEMORY_FILE_SYSTEMS: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];

/// State of the page cache in which a trial finds the files of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCache {
    /// As earlier trials and other programs left it.
    AsFound,
    /// Cached pages are on the nodes of the placement.
    Placed,
    /// No page is cached.
    Cold,
}

/// The reason why a file does not have the requested state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageCacheError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("its pages are memory of the file system, not of the page cache")]
    MemoryFileSystem,
    #[error("cannot move its pages: {0}")]
    NotMoved(String),
    #[error("cannot drop its pages: {0}")]
    NotDropped(String),
    #[error("{kept} of its {cached} cached pages were kept: other processes map them")]
    InUse { kept: u64, cached: u64 },
}

/// Moves the cached pages of a file to these nodes, at least one, in alternating blocks if there are several.
///
/// # Errors
/// The reason why some pages are on other nodes.
pub fn place(path: &Path, nodes: &NodeSet) -> Result<(), PageCacheError> {
    let (file, size) = open(path)?;
    let nodes: Vec<NodeId> = nodes.iter().collect();
    let (mut cached, mut kept) = (0, 0);
    for_each_part(&file, size, |_, mapping| {
        let ranges = mapping.cached_ranges()?;
        for range in &ranges {
            mapping.populate(range.start, range.len())?;
        }
        let pages: Vec<usize> = ranges.into_iter().flat_map(|range| range.step_by(syscall::page_bytes())).collect();
        for pages in pages.chunks(PAGES_PER_CALL) {
            let addresses: Vec<u64> = pages.iter().map(|page| mapping.address(*page)).collect();
            let targets: Vec<NodeId> =
                pages.iter().map(|page| nodes[page / BLOCK_BYTES as usize % nodes.len()]).collect();
            move_to(&addresses, &targets)?;
            let stays = |(found, target): (PageStatus, &NodeId)| found != PageStatus::On(*target);
            cached += pages.len() as u64;
            kept += query(0, &addresses)?.into_iter().zip(&targets).filter(|page| stays(*page)).count() as u64;
        }
        Ok(())
    })
    .map_err(|error| PageCacheError::NotMoved(error.to_string()))?;
    check_kept(kept, cached)
}

/// Returns the memory nodes of this machine.
pub fn memory_nodes() -> NodeSet {
    Proc::live().memory_nodes().unwrap_or_default()
}

/// Moves pages of this process that no other process maps.
fn move_to(pages: &[u64], nodes: &[NodeId]) -> std::io::Result<()> {
    let nodes: Vec<i32> = nodes.iter().map(|node| node.0 as i32).collect();
    // The pages are queried afterwards.
    let mut status = vec![0; pages.len()];
    syscall::move_pages(0, pages, &nodes, false, &mut status)
}

/// Writes the dirty pages of a file to the disk and drops all of its pages from the page cache.
///
/// # Errors
/// The reason why some pages are still cached.
pub fn drop_pages(path: &Path) -> Result<(), PageCacheError> {
    let (file, size) = open(path)?;
    let not_dropped = |error: std::io::Error| PageCacheError::NotDropped(error.to_string());
    let count = |file: &File| {
        let mut count = 0;
        for_each_part(file, size, |_, mapping| {
            let bytes: usize = mapping.cached_ranges()?.iter().map(ExactSizeIterator::len).sum();
            count += (bytes / syscall::page_bytes()) as u64;
            Ok(())
        })
        .map(|()| count)
    };
    let cached = count(&file).map_err(not_dropped)?;
    rustix::fs::fdatasync(&file).map_err(|error| not_dropped(error.into()))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|error| not_dropped(error.into()))?;
    check_kept(count(&file).map_err(not_dropped)?, cached)
}

fn check_kept(kept: u64, cached: u64) -> Result<(), PageCacheError> {
    if kept == 0 { Ok(()) } else { Err(PageCacheError::InUse { kept, cached }) }
}

fn open(path: &Path) -> Result<(File, u64), PageCacheError> {
    let (file, metadata) = open_own_file(path)?;
    match rustix::fs::fstatfs(&file) {
        Ok(about) if MEMORY_FILE_SYSTEMS.contains(&(about.f_type as u64)) => Err(PageCacheError::MemoryFileSystem),
        _ => Ok((file, metadata.len())),
    }
}

/// Returns the nodes of a placement; at least one. If the memory policy names none, those of the CPUs are used: which of
/// them first reads a file is a matter of chance.
pub fn nodes_of(cpus: &CpuSet, memory: &MemoryPolicy) -> NodeSet {
    let of_cpus = || if cpus.is_empty() { memory_nodes() } else { Proc::live().nodes_of(cpus) };
    let nodes = memory.named_nodes().unwrap_or_else(of_cpus);
    if nodes.is_empty() { [NodeId(0)].into_iter().collect() } else { nodes }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use model::values::units::Bytes;

    use super::*;
    use crate::file_mapping::FileMapping;
    use crate::residency::cached_file;

    const PAGES: usize = 300;

    fn cached_data() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a temporary directory");
        let path = dir.path().join("data");
        File::create(&path).and_then(|mut file| file.write_all(&vec![1; PAGES * syscall::page_bytes()])).unwrap();
        (dir, path)
    }

    fn cached(path: &Path) -> Bytes {
        cached_file(path).expect("the file is readable").memory.bytes
    }

    #[test]
    fn changed_pages_are_written_and_dropped() {
        let (_dir, path) = cached_data();
        match drop_pages(&path) {
            Err(PageCacheError::MemoryFileSystem) => {
                return println!("skipped: changed_pages_are_written_and_dropped: files of this directory are memory");
            }
            dropped => dropped.unwrap(),
        }
        assert_eq!(cached(&path), Bytes(0));
        let content = std::fs::read(&path).unwrap();
        assert!(content.len() == PAGES * syscall::page_bytes() && content.iter().all(|byte| *byte == 1));
        assert_eq!(drop_pages(&path).map(|()| cached(&path)), Ok(Bytes(0)));
    }

    #[test]
    fn mapped_pages_are_kept_and_counted() {
        let (_dir, path) = cached_data();
        let mapping = FileMapping::new(&File::open(&path).unwrap(), 0, 7 * syscall::page_bytes()).unwrap();
        // An emulation may ignore the advice; it has no query either.
        let populated = mapping.populate(0, 7 * syscall::page_bytes()).and_then(|()| query(0, &[mapping.address(0)]));
        if let Err(error) = populated {
            return println!("skipped: mapped_pages_are_kept_and_counted: {error}");
        }
        match drop_pages(&path) {
            Err(PageCacheError::MemoryFileSystem) => {
                println!("skipped: mapped_pages_are_kept_and_counted: files of this directory are memory");
            }
            // A folio is kept as a whole.
            kept => assert!(matches!(kept, Err(PageCacheError::InUse { kept: 7..300, cached: 300 })), "{kept:?}"),
        }
    }

    #[test]
    fn pages_are_placed_without_reading_others() {
        let (_dir, path) = cached_data();
        let memory = |nodes: &NodeSet| MemoryPolicy::Bind(nodes.clone());
        let nodes = memory_nodes();
        match place(&path, &nodes) {
            Err(PageCacheError::MemoryFileSystem | PageCacheError::NotMoved(_)) => {
                return println!("skipped: pages_are_placed_without_reading_others: files or nodes of this directory");
            }
            placed => placed.unwrap(),
        }
        drop_pages(&path).unwrap();
        for memory in [memory(&nodes), MemoryPolicy::Kernel, MemoryPolicy::Local] {
            place(&path, &nodes_of(&CpuSet::new(), &memory)).unwrap();
            assert_eq!(cached(&path), Bytes(0), "{memory}: only cached pages are moved");
        }
    }

    #[test]
    fn unsuitable_files_are_refused() {
        let missing = drop_pages(Path::new("/nowhere/data")).unwrap_err().to_string();
        assert!(missing.contains("cannot open /nowhere/data"), "{missing}");
        if Path::new("/dev/shm").is_dir() {
            let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
            assert_eq!(drop_pages(file.path()), Err(PageCacheError::MemoryFileSystem));
            assert_eq!(
                place(file.path(), &nodes_of(&CpuSet::new(), &MemoryPolicy::Kernel)),
                Err(PageCacheError::MemoryFileSystem)
            );
        } else {
            println!("skipped: unsuitable_files_are_refused: no /dev/shm");
        }
    }
}
