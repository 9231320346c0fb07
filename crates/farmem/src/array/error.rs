//! Why there is no far memory, or why bytes did not get there.

use std::fmt;
use std::io;
use std::path::PathBuf;

use machine::memory::MemoryError;
use model::values::units::Bytes;

/// What went wrong, on what, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarError {
    /// The folder lies in DRAM, so a file in it is not beyond DRAM.
    InMemory { folder: PathBuf, file_system: String },
    /// No folder was named, and none of those that are tried lies on a disk.
    NoFolder {
        /// The folders that were tried, and why not each.
        tried: String,
    },
    /// The disk has no room for the whole file.
    NoRoom {
        /// Where it was to lie.
        folder: PathBuf,
        /// How large it was to be.
        asked: Bytes,
        /// What the file system has for this process.
        free: Option<Bytes>,
    },
    /// The file system writes every block to a new place, so a mapped write can find the disk full.
    CopyOnWrite { folder: PathBuf, file_system: String },
    /// The DRAM that may be used is too little to work with.
    Budget { asked: Bytes, least: Bytes },
    /// DRAM that may be used is not there.
    Memory(MemoryError),
    Refused {
        /// What was tried, on what.
        what: String,
        errno: i32,
        /// The next step, where one is known.
        hint: Option<&'static str>,
    },
    /// A read or a write of the file failed. What was to be written is still in its buffer.
    Transfer {
        /// What was tried: `write 1MiB at 3MiB of the far file`.
        what: String,
        errno: i32,
    },
    /// Fewer bytes were moved than asked for.
    Short {
        /// What was tried, as above.
        what: String,
        /// How many bytes were moved.
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

    /// The next step, where one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InMemory { folder, .. } => {
                Some(format!("name a folder on a disk, or write memory:{} to have it all the same", folder.display()))
            }
            Self::NoFolder { .. } => Some(format!("{}=FOLDER names one", super::FOLDER_VARIABLE)),
            Self::NoRoom { .. } => Some("take a smaller size, make room, or name a folder on another disk".into()),
            Self::CopyOnWrite { .. } => Some("name a folder on ext4, xfs or another that writes in place".into()),
            Self::Budget { least, .. } => Some(format!("give it {least} or more")),
            Self::Memory(error) => error.hint().map(str::to_string),
            Self::Refused { hint, .. } => hint.map(str::to_string),
            Self::Transfer { errno, .. } if *errno == libc::EIO => {
                Some("the kernel's log says what the disk did: dmesg".into())
            }
            Self::Transfer { .. } | Self::Short { .. } => None,
        }
    }

    /// Whether this machine lacks what is needed, as against something that went wrong on the way.
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
            Self::InMemory { folder, file_system } => {
                write!(f, "a file in {} would lie in memory ({file_system}) and not beyond it", folder.display())
            }
            Self::NoFolder { tried } => write!(f, "there is no folder on a disk for far memory: {tried}"),
            Self::NoRoom { folder, asked, free: Some(free) } => {
                write!(f, "{asked} of far memory do not fit on the disk of {}: {free} are free", folder.display())
            }
            Self::NoRoom { folder, asked, free: None } => {
                write!(f, "{asked} of far memory do not fit on the disk of {}", folder.display())
            }
            Self::CopyOnWrite { folder, file_system } => write!(
                f,
                "{} is on {file_system}, which writes every block to a new place: memory mapped from a file there can find the disk full when it is written",
                folder.display()
            ),
            Self::Budget { asked, least } => write!(f, "{asked} of DRAM are too little: {least} are needed"),
            Self::Memory(error) => error.fmt(f),
            Self::Refused { what, errno, .. } | Self::Transfer { what, errno } => {
                write!(f, "cannot {what}: {}", words(*errno))
            }
            Self::Short { what, moved } => write!(f, "cannot {what}: only {} were moved", Bytes(*moved as u64)),
        }
    }
}

impl std::error::Error for FarError {}
