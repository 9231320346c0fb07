//! Why there is no graph.

use std::fmt;

use machine::memory::MemoryError;
use model::values::units::Bytes;

use crate::storage::{StorageError, StorageErrorKind};
use crate::team::TeamStopped;

/// Why there is no graph, or no search in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A scale that no graph has here.
    Scale {
        scale: u32,
        max: u32,
    },
    /// So many edges per vertex cannot be.
    EdgeFactor {
        edge_factor: u64,
        max: u64,
    },
    /// Constructing, keeping and searching it takes more memory than there is.
    TooLarge {
        scale: u32,
        needed: Bytes,
        available: Bytes,
    },
    /// Construction out of core needs more memory than it may take.
    Little {
        scale: u32,
        /// The least that it takes.
        needed: Bytes,
        asked: Bytes,
    },
    /// Edges that belong together do not fit into the memory of a thread.
    Bucket,
    /// What construction keeps outside memory was not written or read.
    Storage(StorageError),
    /// Edges could not be had.
    Edges(String),
    /// HEAD cannot have so many columns.
    Columns {
        columns: u32,
        max: u32,
    },
    /// HEAD and the index do not fit into the DRAM that they may take.
    Dram {
        asked: Bytes,
        /// What so many columns take.
        needed: Bytes,
        columns: u32,
    },
    /// Memory could not be had or placed.
    Memory(MemoryError),
    /// The graph cannot be dealt to so many parts.
    Parts {
        vertices: u64,
        /// How many were asked for.
        parts: usize,
    },
    /// No vertex has an edge, so there is no root.
    NoEdges,
    /// The root is no vertex of the graph, or one without edges.
    Root(u64),
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { scale, max } => write!(f, "scale {scale}: a graph has 2^1 to 2^{max} vertices here"),
            Self::EdgeFactor { edge_factor, max } => {
                write!(f, "edge factor {edge_factor}: a graph has 1 to {max} edges per vertex")
            }
            Self::TooLarge { scale, needed, available } => {
                write!(
                    f,
                    "a graph of scale {scale} needs {needed} of memory for its construction; {available} are available"
                )
            }
            Self::Little { scale, needed, asked } => write!(
                f,
                "construction of a graph of scale {scale} out of core needs at least {needed} of memory for its arrays; it may \
                 take {asked}"
            ),
            Self::Bucket => f.write_str("more different edges lie close together than a thread's memory has room for"),
            Self::Storage(trouble) => trouble.fmt(f),
            Self::Edges(why) => f.write_str(why),
            Self::Columns { columns, max } => write!(f, "k = {columns}: HEAD has 1 to {max} columns"),
            Self::Dram { asked, needed, columns } => write!(
                f,
                "HEAD with k = {columns} and the index take {needed} of DRAM, and {asked} are all that they may take"
            ),
            Self::Memory(error) => error.fmt(f),
            Self::Parts { vertices, parts } => write!(f, "{vertices} vertices cannot be dealt to {parts} parts"),
            Self::NoEdges => f.write_str("no vertex of this graph has an edge to another one"),
            Self::Root(root) => write!(f, "root {root} is no vertex of this graph that has an edge to another one"),
            Self::Stopped => f.write_str("the threads were stopped"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The next step, where one is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::TooLarge { .. } => Some("take a smaller scale, or end what else uses memory"),
            Self::Little { .. } | Self::Bucket => Some("give it more memory"),
            Self::Storage(StorageError { kind: StorageErrorKind::Full, .. }) => {
                Some("make room, or name a folder on another disk")
            }
            Self::Dram { columns: 1, .. } => Some("give it more: dram=50%"),
            Self::Dram { .. } => Some("give it more, or let k be chosen: k=0"),
            Self::Parts { .. } => Some("take a larger scale, or fewer parts"),
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
    fn from(trouble: StorageError) -> Self {
        Self::Storage(trouble)
    }
}
