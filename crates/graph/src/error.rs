//! Errors of construction and search.

use std::fmt;

use machine::memory::MemoryError;
use model::values::units::Bytes;

use crate::storage::{StorageError, StorageErrorKind};
use crate::team::TeamStopped;

/// Reason why a graph cannot be constructed or searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The scale is out of range.
    Scale {
        scale: u32,
        max: u32,
    },
    /// The edge factor is out of range.
    EdgeFactor {
        edge_factor: u64,
        max: u64,
    },
    /// Construction and search need more memory than is available.
    TooLarge {
        scale: u32,
        needed: Bytes,
        available: Bytes,
    },
    /// Construction out of core needs more memory than its limit.
    Little {
        scale: u32,
        /// Minimum memory.
        needed: Bytes,
        asked: Bytes,
    },
    /// A bucket of edges does not fit into the memory of a thread.
    Bucket,
    /// Reading or writing a scratch file failed.
    Storage(StorageError),
    /// Reading the edges failed.
    Edges(String),
    /// The number of head columns is out of range.
    Columns {
        columns: u32,
        max: u32,
    },
    /// The head columns and the index do not fit into the DRAM limit.
    Dram {
        asked: Bytes,
        /// Size with the requested columns.
        needed: Bytes,
        columns: u32,
    },
    /// Memory could not be allocated or placed.
    Memory(MemoryError),
    /// The graph cannot be distributed to this many shards.
    Parts {
        vertices: u64,
        /// Requested number of shards.
        parts: usize,
    },
    /// No vertex has an edge, so there is no root.
    NoEdges,
    /// The root is not a vertex of the graph, or has no edges.
    Root(u64),
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { scale, max } => write!(f, "scale {scale} is out of range: it must be 1 to {max}"),
            Self::EdgeFactor { edge_factor, max } => {
                write!(f, "edge factor {edge_factor} is out of range: it must be 1 to {max}")
            }
            Self::TooLarge { scale, needed, available } => {
                write!(
                    f,
                    "constructing a graph of scale {scale} needs {needed} of memory; only {available} is available"
                )
            }
            Self::Little { scale, needed, asked } => write!(
                f,
                "constructing a graph of scale {scale} out of core needs at least {needed} of memory for its arrays; the \
                 limit is {asked}"
            ),
            Self::Bucket => f.write_str("a bucket has more distinct edges than fit into the memory of a thread"),
            Self::Storage(error) => error.fmt(f),
            Self::Edges(why) => f.write_str(why),
            Self::Columns { columns, max } => {
                write!(f, "k = {columns} is out of range: the number of head columns must be 1 to {max}")
            }
            Self::Dram { asked, needed, columns } => {
                write!(f, "the head columns (k = {columns}) and the index need {needed} of DRAM; the limit is {asked}")
            }
            Self::Memory(error) => error.fmt(f),
            Self::Parts { vertices, parts } => write!(f, "{vertices} vertices cannot be distributed to {parts} shards"),
            Self::NoEdges => f.write_str("the graph has no edge between two different vertices"),
            Self::Root(root) => {
                write!(f, "invalid root {root}: the graph has no such vertex, or the vertex has no edge to another one")
            }
            Self::Stopped => f.write_str("the threads were stopped"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Returns the next step, if one is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::TooLarge { .. } => Some("choose a smaller scale, or stop other programs that use memory"),
            Self::Little { .. } | Self::Bucket => Some("raise the memory limit"),
            Self::Storage(StorageError { kind: StorageErrorKind::Full, .. }) => {
                Some("free space, or choose a directory on another disk")
            }
            Self::Dram { columns: 1, .. } => Some("raise the limit, for example dram=50%"),
            Self::Dram { .. } => Some("raise the limit, or let the number of columns be chosen automatically: k=0"),
            Self::Parts { .. } => Some("choose a larger scale, or fewer shards"),
            Self::Memory(error) => error.hint(),
            _ => None,
        }
    }
}

impl From<TeamStopped> for Error {
    fn from(_: TeamStopped) -> Self {
        Self::Stopped
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
