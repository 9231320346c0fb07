//! Parses `/proc/PID/maps`, and determines the kind of memory in a mapping.

use std::collections::BTreeSet;

use super::{MemoryKind, PartKey};

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub is_executable: bool,
    pub is_shared: bool,
    /// Offset of the start in the file.
    pub offset: u64,
    /// Device and inode, which identify the file. The inode is 0 if no file backs the mapping.
    pub device: String,
    pub inode: u64,
    /// Path as in `maps`, or a name such as `[heap]`. Empty for unnamed memory.
    pub path: String,
}

/// File system of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Disk,
    /// The files are memory, as in tmpfs.
    Memory,
    HugePages,
}

/// Names of memory that programs share without a file on a disk.
const SHARED_MEMORY: [&str; 5] = ["/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "[anon_shmem:"];

/// Parses a line of `maps`: `7f00-7f10 r-xp 00001000 fe:01 1234   /usr/lib/libc.so.6`.
pub fn parse_mapping(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let mut fields = rest.splitn(4, ' ');
    let (mode, offset, device) = (fields.next()?, fields.next()?, fields.next()?);
    let inode_and_path = fields.next()?;
    let (inode, path) = inode_and_path.split_once(' ').unwrap_or((inode_and_path, ""));
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        is_executable: mode.as_bytes().get(2)? == &b'x',
        is_shared: mode.as_bytes().get(3)? == &b's',
        offset: hexadecimal(offset)?,
        device: device.into(),
        inode: inode.parse().ok()?,
        path: path.trim_start().into(),
    })
}

impl Mapping {
    /// Whether its pages are memory of the process: not code or data of the kernel.
    pub fn is_memory(&self) -> bool {
        !["[vdso]", "[vsyscall]", "[uprobes]"].contains(&self.path.as_str()) && !self.path.starts_with("[vvar")
    }

    /// Whether it maps memory of a device, such as a graphics card.
    pub fn is_device(&self) -> bool {
        self.path.starts_with("/dev/")
            && !SHARED_MEMORY.iter().any(|prefix| self.path.starts_with(prefix))
            && !self.path.starts_with("/dev/hugepages/")
    }

    /// Whether a file backs it, on a disk or in memory.
    pub fn has_file(&self) -> bool {
        self.inode != 0
    }

    /// Returns the kind of its pages if they belong to the processes that map them; `None` for those of a file on a disk, whose
    /// cached pages are those of all programs. `is_file_page` is false for pages that the process has copied to write.
    pub fn own_kind(&self, system: FileSystem, is_file_page: bool) -> Option<MemoryKind> {
        let kind = self.part("", &BTreeSet::new(), system, is_file_page).kind;
        (kind != MemoryKind::MappedFile).then_some(kind)
    }

    /// Returns the part that its pages belong to. `is_file_page` is false for pages that the process has copied to write.
    pub(super) fn part(
        &self,
        program: &str,
        libraries: &BTreeSet<String>,
        system: FileSystem,
        is_file_page: bool,
    ) -> PartKey {
        let key = |kind, name: &str| PartKey { kind, name: name.into() };
        if self.path.starts_with("/anon_hugepage") {
            return key(MemoryKind::HugePages, "hugetlb");
        }
        let is_shared_memory = SHARED_MEMORY.iter().any(|prefix| self.path.starts_with(prefix))
            || (self.is_shared && (system == FileSystem::Memory || self.path.is_empty()));
        match self.path.as_str() {
            path if system == FileSystem::HugePages => key(MemoryKind::HugePages, path),
            "[heap]" => key(MemoryKind::Heap, ""),
            "[stack]" => key(MemoryKind::Stack, ""),
            path if is_shared_memory => key(MemoryKind::SharedMemory, path),
            _ if !is_file_page || !self.has_file() => key(MemoryKind::Anonymous, ""),
            path if path == program => key(MemoryKind::Program, path),
            path if libraries.contains(path) => key(MemoryKind::Library, path),
            path => key(MemoryKind::MappedFile, path),
        }
    }
}

/// Returns the paths of the files that the process executes code of.
pub(super) fn libraries(mappings: &[Mapping]) -> BTreeSet<String> {
    let executable = mappings.iter().filter(|mapping| mapping.is_executable && mapping.has_file());
    executable.map(|mapping| mapping.path.clone()).collect()
}
