//! Storage for data of a construction that does not fit into its memory. Must not depend on files: the caller
//! implements it.

use std::fmt;
use std::io::ErrorKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// Each edge once, in blocks; direct I/O if possible.
    Pairs,
    /// Both directions of each edge by source rank, in blocks; direct I/O if possible.
    Ranked,
    /// Degree of each vertex, in two copies, so that one is complete while the other is written.
    Degrees,
    /// Length of each tail list.
    Lengths,
    /// The graph file, or only the tail lists if the head columns are in memory.
    Graph,
}

impl PartKind {
    pub const ALL: [Self; 5] = [Self::Pairs, Self::Ranked, Self::Degrees, Self::Lengths, Self::Graph];

    /// Returns its name, which is valid in a file name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Ranked => "ranked",
            Self::Degrees => "degrees",
            Self::Lengths => "lengths",
            Self::Graph => "graph",
        }
    }

    /// Returns true if it is read and written in whole blocks, aligned to [`crate::PAGE_BYTES`] in the part and in
    /// memory.
    pub fn is_blocked(self) -> bool {
        matches!(self, Self::Pairs | Self::Ranked)
    }
}

/// Parts of any size, which all threads use concurrently, and a checkpoint of the construction.
pub trait Storage: Sync {
    /// Writes all bytes at this offset of a part, which may be beyond its end.
    fn write(&self, part: PartKind, at: u64, bytes: &[u8]) -> Result<(), StorageError>;

    /// Fills the buffer from this offset of a part. A part that ends earlier is truncated, which is an error.
    fn read(&self, part: PartKind, at: u64, bytes: &mut [u8]) -> Result<(), StorageError>;

    /// Waits until all data written to a part is durable.
    fn sync(&self, part: PartKind) -> Result<(), StorageError>;

    /// Deletes a part. It is not an error if the part does not exist.
    fn discard(&self, part: PartKind) -> Result<(), StorageError>;

    /// Replaces the checkpoint atomically: after a crash, either the old or the new one exists.
    fn note(&self, note: &[u8]) -> Result<(), StorageError>;

    /// Returns the checkpoint, if there is one.
    fn noted(&self) -> Result<Option<Vec<u8>>, StorageError>;
}

/// Failure of a read or write of a part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct StorageError {
    pub kind: StorageErrorKind,
    /// The operation, its object and the system's error.
    pub what: String,
}

/// Kinds of failure that need different actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// No space is left.
    Full,
    /// The data is truncated or modified.
    Damaged,
    /// The data belongs to a different construction.
    Foreign,
    Other,
}

impl From<ErrorKind> for StorageErrorKind {
    /// Classifies an error of the system.
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::Full,
            ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::Other,
        }
    }
}

impl StorageError {
    pub(crate) fn damaged(part: PartKind, how: impl fmt::Display) -> Self {
        Self { kind: StorageErrorKind::Damaged, what: format!("scratch file {} is damaged: {how}", part.name()) }
    }
}
