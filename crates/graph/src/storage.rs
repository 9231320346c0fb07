//! Where construction keeps what does not fit into its memory. Knows no file: who calls gives the way to each part.

use std::fmt;
use std::io::ErrorKind;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
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

impl Kept {
    /// All of them.
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
    pub fn in_blocks(self) -> bool {
        matches!(self, Self::Pairs | Self::Ranked)
    }
}

/// Parts of any size, which all threads use at once, and a note of how far construction has come.
pub trait Storage: Sync {
    /// Writes all of it to this place of a part, which may lie beyond its end.
    fn write(&self, part: Kept, at: u64, bytes: &[u8]) -> Result<(), Trouble>;

    /// Fills all of it from this place of a part; what ends before that was cut.
    fn read(&self, part: Kept, at: u64, bytes: &mut [u8]) -> Result<(), Trouble>;

    /// Waits until what was written of a part would be there after a crash.
    fn sync(&self, part: Kept) -> Result<(), Trouble>;

    /// Gives its room back. What is not there is no trouble.
    fn discard(&self, part: Kept) -> Result<(), Trouble>;

    /// Puts a note in place of the one before: after a crash one of both is there, whole.
    fn note(&self, note: &[u8]) -> Result<(), Trouble>;

    /// The note, if there is one.
    fn noted(&self) -> Result<Option<Vec<u8>>, Trouble>;
}

/// Why a part was not written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Which kind.
    pub kind: TroubleKind,
    /// What, on what, and the system's answer.
    pub what: String,
}

/// Kinds of trouble that have a next step of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// There is no room left.
    Full,
    /// It is not what was written: cut or changed.
    Damaged,
    /// It is of another construction than was asked for.
    Foreign,
    /// Anything else.
    Other,
}

impl From<ErrorKind> for TroubleKind {
    /// What a system's refusal comes to.
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::Full,
            ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::Other,
        }
    }
}

impl Trouble {
    pub(crate) fn damaged(part: Kept, how: impl fmt::Display) -> Self {
        Self { kind: TroubleKind::Damaged, what: format!("scratch file {} is damaged: {how}", part.name()) }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
