//! The directory of far files, and whether it is on a disk.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::fstatfs;

use super::FarError;

/// Environment variable with the default directory.
pub const DIR_VARIABLE: &str = "NEARFAR_FAR";

/// Directories for large temporary data. By the file system hierarchy standard, /var/tmp is on a disk; /tmp often is
/// not.
const USUAL: [&str; 2] = ["/var/tmp", "/tmp"];

/// Prefix of a directory that may be in memory.
const IN_MEMORY: &str = "memory:";

// statfs(2) types of file systems whose files are pages of DRAM.
const MEMORY_KINDS: [(u64, &str); 3] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];
// statfs(2) types of file systems that never write in place; on btrfs, files can opt out of copy-on-write.
pub(super) const BTRFS: u64 = 0x9123_683e;
const COPY_ON_WRITE_KINDS: [(u64, &str); 2] = [(0x2fc1_2fc1, "zfs"), (0xca45_1a4e, "bcachefs")];
// statfs(2) types of file systems on other machines, or in a process that needs memory to write.
const NETWORK_KINDS: [(u64, &str); 5] =
    [(0x6969, "nfs"), (0xff53_4d42, "cifs"), (0xfe53_4d42, "smb"), (0x6573_5546, "fuse"), (0x0102_1997, "9p")];
const OTHER_KINDS: [(u64, &str); 5] =
    [(0xef53, "ext4"), (0x5846_5342, "xfs"), (BTRFS, "btrfs"), (0xf2f5_2010, "f2fs"), (0x794c_7630, "overlayfs")];

/// The directory for far files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarLocation {
    dir: PathBuf,
    /// The user accepts a directory in memory.
    accepts_memory: bool,
}

impl FarLocation {
    /// Parses a directory, `memory:DIR` for one that may be in memory, or `auto` for the first directory on a disk
    /// among that of [`DIR_VARIABLE`], /var/tmp and /tmp.
    pub fn parse(text: &str) -> Result<Self, FarError> {
        match text.trim() {
            "auto" | "" => Self::found(),
            text => Ok(Self::named(text)),
        }
    }

    /// Resolves `auto`.
    pub fn found() -> Result<Self, FarError> {
        match std::env::var(DIR_VARIABLE) {
            Ok(text) if !text.trim().is_empty() => {
                let place = Self::named(text.trim());
                place.check()?;
                Ok(place)
            }
            _ => Self::first_of(&USUAL),
        }
    }

    fn named(text: &str) -> Self {
        let rest = text.strip_prefix(IN_MEMORY);
        Self { dir: rest.unwrap_or(text).into(), accepts_memory: rest.is_some() }
    }

    pub(super) fn first_of(dirs: &[&str]) -> Result<Self, FarError> {
        let mut tried = Vec::new();
        for dir in dirs {
            let place = Self::named(dir);
            match place.check() {
                Ok(()) => return Ok(place),
                Err(error) => tried.push(error.to_string()),
            }
        }
        Err(FarError::NoDir { tried: tried.join("; ") })
    }

    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Checks that the directory exists and, unless the user accepts memory, is on a disk.
    pub fn check(&self) -> Result<(), FarError> {
        let what = || format!("open directory {}", self.dir.display());
        let opened = File::open(&self.dir).and_then(|dir| {
            if dir.metadata()?.is_dir() { Ok(dir) } else { Err(std::io::ErrorKind::NotADirectory.into()) }
        });
        let dir = opened.map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::ENOTDIR);
            FarError::Refused { what: what(), errno, hint: Some("name an existing directory with write permission") }
        })?;
        let kind = FileSystem::of(&dir).map_err(|error| FarError::refused(what(), &error))?;
        if kind.is_memory() && !self.accepts_memory {
            return Err(FarError::InMemory { dir: self.dir.clone(), file_system: kind.to_string() });
        }
        Ok(())
    }
}

/// The type of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem(pub u64);

impl FileSystem {
    pub(crate) fn of(file: &File) -> std::io::Result<Self> {
        // The kernel's number has 32 bits, whatever its C type on this machine.
        Ok(Self(fstatfs(file)?.f_type as u64 & 0xffff_ffff))
    }

    pub(super) fn is_memory(self) -> bool {
        MEMORY_KINDS.iter().any(|(kind, _)| *kind == self.0)
    }

    pub(crate) fn is_over_a_network(self) -> bool {
        NETWORK_KINDS.iter().any(|(kind, _)| *kind == self.0)
    }

    pub(super) fn never_writes_in_place(self) -> bool {
        COPY_ON_WRITE_KINDS.iter().any(|(kind, _)| *kind == self.0)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = MEMORY_KINDS.iter().chain(&COPY_ON_WRITE_KINDS).chain(&NETWORK_KINDS).chain(&OTHER_KINDS);
        match known.into_iter().find(|(kind, _)| *kind == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "file system {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::hint::Hinted;

    #[test]
    fn memory_file_systems_are_rejected_unless_accepted() {
        let Err(error) = FarLocation::named("/dev/shm").check() else {
            return println!("skipped: /dev/shm is not in memory");
        };
        if !matches!(error, FarError::InMemory { .. }) {
            return println!("skipped: {error}");
        }
        assert_eq!(error.to_string(), "directory '/dev/shm' is in memory (tmpfs), not on a disk");
        assert!(error.hint().unwrap().contains("memory:/dev/shm"), "{error:?}");
        assert_eq!(FarLocation::parse("memory:/dev/shm").unwrap().check(), Ok(()));
        let none = FarLocation::first_of(&["/dev/shm", "/nowhere"]).unwrap_err();
        let words = none.to_string();
        assert!(words.contains("'/dev/shm' is in memory") && words.contains("/nowhere: No such file"), "{words}");
        assert!(none.hint().unwrap().contains(DIR_VARIABLE));
    }

    #[test]
    fn invalid_directories_return_errors() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (path, expected) in [("/nowhere", "No such file"), (file.path().to_str().unwrap(), "Not a directory")] {
            let error = FarLocation::parse(path).unwrap().check().unwrap_err();
            assert!(error.to_string().contains(expected) && error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn file_system_types_have_names() {
        assert_eq!(FileSystem(0xef53).to_string(), "ext4");
        assert_eq!(FileSystem(0x1234).to_string(), "file system 0x1234");
        assert!(FileSystem(0x2fc1_2fc1).never_writes_in_place() && !FileSystem(BTRFS).never_writes_in_place());
    }
}
