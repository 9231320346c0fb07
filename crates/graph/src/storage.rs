//! Where construction keeps what does not fit into its memory. Knows no file: who calls gives the way to each part.

use std::fmt;
use std::io::ErrorKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// Every edge once, in blocks: read and written past the page cache where that can be.
    Pairs,
    /// Both directions of every edge by the rank that they leave, in blocks likewise.
    Ranked,
    /// How many neighbours each vertex has, twice, so that one is whole while the other is written.
    Degrees,
    /// How long each list of TAIL is.
    Lengths,
    /// The graph's own bytes, or where HEAD is in memory TAIL alone.
    Graph,
}

impl PartKind {
    pub const ALL: [Self; 5] = [Self::Pairs, Self::Ranked, Self::Degrees, Self::Lengths, Self::Graph];

    /// A word for it, fit for a file's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Ranked => "ranked",
            Self::Degrees => "degrees",
            Self::Lengths => "lengths",
            Self::Graph => "graph",
        }
    }

    /// Whether it is read and written in whole blocks, at multiples of [`crate::PAGE_BYTES`] in it and in memory.
    pub fn is_blocked(self) -> bool {
        matches!(self, Self::Pairs | Self::Ranked)
    }
}

/// Parts of any size, which all threads use at once, and a note of how far construction has come.
pub trait Storage: Sync {
    /// Writes all of it to this place of a part, which may lie beyond its end.
    fn write(&self, part: PartKind, at: u64, bytes: &[u8]) -> Result<(), StorageError>;

    /// Fills all of it from this place of a part; what ends before that was cut.
    fn read(&self, part: PartKind, at: u64, bytes: &mut [u8]) -> Result<(), StorageError>;

    /// Waits until what was written of a part would be there after a crash.
    fn sync(&self, part: PartKind) -> Result<(), StorageError>;

    /// Gives its room back. What is not there is no trouble.
    fn discard(&self, part: PartKind) -> Result<(), StorageError>;

    /// Puts a note in place of the one before: after a crash one of both is there, whole.
    fn note(&self, note: &[u8]) -> Result<(), StorageError>;

    /// The note, if there is one.
    fn noted(&self) -> Result<Option<Vec<u8>>, StorageError>;
}

/// Why a part was not written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    pub kind: StorageErrorKind,
    /// What, on what, and the system's answer.
    pub what: String,
}

/// Kinds of trouble that have a next step of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// There is no room left.
    Full,
    /// It is not what was written: cut or changed.
    Damaged,
    /// It is of another construction than was asked for.
    Foreign,
    Other,
}

impl From<ErrorKind> for StorageErrorKind {
    /// What a system's refusal comes to.
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

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
