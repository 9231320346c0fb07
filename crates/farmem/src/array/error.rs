//! Errors of far memory and of transfers.

use std::io;
use std::path::PathBuf;

use machine::memory::MemoryError;
use model::hint::Hinted;
use model::values::units::Bytes;

/// An error with the object concerned and, if known, the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FarError {
    /// The directory is in DRAM, so far files would not be on a disk.
    #[error("directory '{}' is in memory ({file_system}), not on a disk", dir.display())]
    InMemory { dir: PathBuf, file_system: String },
    /// No directory was named, and no default directory is on a disk.
    #[error("no directory on a disk for far memory: {tried}")]
    NoDir {
        /// The directories tried, each with the reason.
        tried: String,
    },
    /// The disk has not enough free space for the file.
    #[error("{asked} of far memory exceed the free space of the disk of {}{}", dir.display(), free_space(*free))]
    NoSpace {
        /// The directory of the file.
        dir: PathBuf,
        asked: Bytes,
        /// The free space of the file system for this process; `None` if unknown.
        free: Option<Bytes>,
    },
    /// The file system is copy-on-write, so a mapped write can find the disk full.
    #[error(
        "{} is on {file_system}, which is copy-on-write: writing to memory mapped from a file there can fail for lack of \
         space",
        dir.display()
    )]
    CopyOnWrite { dir: PathBuf, file_system: String },
    /// The DRAM budget is too small.
    #[error("{asked} of DRAM are too little: the minimum is {least}")]
    Budget { asked: Bytes, least: Bytes },
    /// The near memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("cannot {what}: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The operation and its object.
        what: String,
        errno: i32,
        /// The next step, if known.
        hint: Option<&'static str>,
    },
    /// A read or write of the file failed. Data to be written are still in the buffer.
    #[error("cannot {what}: {}", io::Error::from_raw_os_error(*errno))]
    Transfer {
        /// The operation: `write 1MiB at 3MiB of the far file`.
        what: String,
        errno: i32,
    },
    /// A transfer was incomplete.
    #[error("cannot {what}: only {} were transferred", Bytes(*moved as u64))]
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

    /// Returns true if this machine lacks a requirement, false if an operation failed.
    pub fn is_unavailable(&self) -> bool {
        !matches!(self, Self::Transfer { .. } | Self::Short { .. })
    }
}

impl Hinted for FarError {
    fn hint(&self) -> Option<String> {
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
            Self::Memory(error) => error.hint(),
            Self::Refused { hint, .. } => hint.map(str::to_string),
            Self::Transfer { errno, .. } if *errno == libc::EIO => Some("see the kernel log: dmesg".into()),
            Self::Transfer { .. } | Self::Short { .. } => None,
        }
    }
}

fn free_space(free: Option<Bytes>) -> String {
    free.map_or_else(String::new, |free| format!(": {free}"))
}
