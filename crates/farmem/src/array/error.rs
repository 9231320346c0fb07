//! Errors of far memory and of transfers.

use std::fmt;
use std::io;
use std::path::PathBuf;

use machine::memory::MemoryError;
use model::values::units::Bytes;

/// An error with the object concerned and, if known, the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarError {
    /// The directory is in DRAM, so far files would not be on a disk.
    InMemory { dir: PathBuf, file_system: String },
    /// No directory was named, and no default directory is on a disk.
    NoDir {
        /// The directories tried, each with the reason.
        tried: String,
    },
    /// The disk has not enough free space for the file.
    NoSpace {
        /// The directory of the file.
        dir: PathBuf,
        asked: Bytes,
        /// The free space of the file system for this process; `None` if unknown.
        free: Option<Bytes>,
    },
    /// The file system is copy-on-write, so a mapped write can find the disk full.
    CopyOnWrite { dir: PathBuf, file_system: String },
    /// The DRAM budget is too small.
    Budget { asked: Bytes, least: Bytes },
    /// The near memory could not be allocated.
    Memory(MemoryError),
    Refused {
        /// The operation and its object.
        what: String,
        errno: i32,
        /// The next step, if known.
        hint: Option<&'static str>,
    },
    /// A read or write of the file failed. Data to be written are still in the buffer.
    Transfer {
        /// The operation: `write 1MiB at 3MiB of the far file`.
        what: String,
        errno: i32,
    },
    /// A transfer was incomplete.
    Short {
        /// The operation, as above.
        what: String,
        /// Number of bytes transferred.
        moved: usize,
    },
}

impl FarError {
    pub(super) fn refused(what: impl Into<String>, error: &io::Error) -> Self {
        Self::Refused { what: what.into(), errno: error.raw_os_error().unwrap_or(libc::EIO), hint: None }
    }

    #[must_use]
    pub(super) fn with_hint(mut self, new: &'static str) -> Self {
        if let Self::Refused { hint, .. } = &mut self {
            *hint = Some(new);
        }
        self
    }

    /// Returns the next step, if known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InMemory { dir, .. } => {
                Some(format!("name a directory on a disk, or use memory:{} to accept memory", dir.display()))
            }
            Self::NoDir { .. } => Some(format!("set {}=DIR", super::DIR_VARIABLE)),
            Self::NoSpace { .. } => Some("use a smaller size, free space, or name a directory on another disk".into()),
            Self::CopyOnWrite { .. } => {
                Some("name a directory on ext4, xfs or another file system that writes in place".into())
            }
            Self::Budget { least, .. } => Some(format!("use {least} or more")),
            Self::Memory(error) => error.hint().map(str::to_string),
            Self::Refused { hint, .. } => hint.map(str::to_string),
            Self::Transfer { errno, .. } if *errno == libc::EIO => Some("see the kernel log: dmesg".into()),
            Self::Transfer { .. } | Self::Short { .. } => None,
        }
    }

    /// Returns true if this machine lacks a requirement, false if an operation failed.
    pub fn is_unavailable(&self) -> bool {
        !matches!(self, Self::Transfer { .. } | Self::Short { .. })
    }
}

impl From<MemoryError> for FarError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for FarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |errno: i32| io::Error::from_raw_os_error(errno);
        match self {
            Self::InMemory { dir, file_system } => {
                write!(f, "directory '{}' is in memory ({file_system}), not on a disk", dir.display())
            }
            Self::NoDir { tried } => write!(f, "no directory on a disk for far memory: {tried}"),
            Self::NoSpace { dir, asked, free: Some(free) } => {
                write!(f, "{asked} of far memory exceed the free space of the disk of {}: {free}", dir.display())
            }
            Self::NoSpace { dir, asked, free: None } => {
                write!(f, "{asked} of far memory exceed the free space of the disk of {}", dir.display())
            }
            Self::CopyOnWrite { dir, file_system } => write!(
                f,
                "{} is on {file_system}, which is copy-on-write: writing to memory mapped from a file there can fail for lack of space",
                dir.display()
            ),
            Self::Budget { asked, least } => write!(f, "{asked} of DRAM are too little: the minimum is {least}"),
            Self::Memory(error) => error.fmt(f),
            Self::Refused { what, errno, .. } | Self::Transfer { what, errno } => {
                write!(f, "cannot {what}: {}", words(*errno))
            }
            Self::Short { what, moved } => write!(f, "cannot {what}: only {} were transferred", Bytes(*moved as u64)),
        }
    }
}

impl std::error::Error for FarError {}
