//! Errors of construction and search.

use machine::memory::MemoryError;
use model::hint::Hinted;
use model::values::units::Bytes;

use crate::storage::{StorageError, StorageErrorKind};

/// Reason why a graph cannot be constructed or searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scale is out of range.
    #[error("scale {scale} is out of range: it must be 1 to {max}")]
    Scale { scale: u32, max: u32 },
    /// The edge factor is out of range.
    #[error("edge factor {edge_factor} is out of range: it must be 1 to {max}")]
    EdgeFactor { edge_factor: u64, max: u64 },
    /// Construction and search need more memory than is available.
    #[error("constructing a graph of scale {scale} needs {needed} of memory; only {available} is available")]
    TooLarge { scale: u32, needed: Bytes, available: Bytes },
    /// Construction out of core needs more memory than its limit.
    #[error(
        "constructing a graph of scale {scale} out of core needs at least {needed} of memory for its arrays; the limit is \
         {asked}"
    )]
    Little {
        scale: u32,
        /// Minimum memory.
        needed: Bytes,
        asked: Bytes,
    },
    /// A bucket of edges does not fit into the memory of a thread.
    #[error("a bucket has more distinct edges than fit into the memory of a thread")]
    Bucket,
    /// Reading or writing a scratch file failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Reading the edges failed.
    #[error("{0}")]
    Edges(String),
    /// The number of head columns is out of range.
    #[error("k = {columns} is out of range: the number of head columns must be 1 to {max}")]
    Columns { columns: u32, max: u32 },
    /// The head columns and the index do not fit into the DRAM limit.
    #[error("the head columns (k = {columns}) and the index need {needed} of DRAM; the limit is {asked}")]
    Dram {
        asked: Bytes,
        /// Size with the requested columns.
        needed: Bytes,
        columns: u32,
    },
    /// Memory could not be allocated or placed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The graph cannot be distributed to this many shards.
    #[error("{vertices} vertices cannot be distributed to {parts} shards")]
    Parts {
        vertices: u64,
        /// Requested number of shards.
        parts: usize,
    },
    /// No vertex has an edge, so there is no root.
    #[error("the graph has no edge between two different vertices")]
    NoEdges,
    /// The root is not a vertex of the graph, or has no edges.
    #[error("invalid root {0}: the graph has no such vertex, or the vertex has no edge to another one")]
    Root(u64),
    #[error("the threads were stopped")]
    Stopped,
}

impl Hinted for Error {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::TooLarge { .. } => "choose a smaller scale, or stop other programs that use memory",
            Self::Little { .. } | Self::Bucket => "raise the memory limit",
            Self::Storage(StorageError { kind: StorageErrorKind::Full, .. }) => {
                "free space, or choose a directory on another disk"
            }
            Self::Dram { columns: 1, .. } => "raise the limit, for example dram=50%",
            Self::Dram { .. } => "raise the limit, or let the number of columns be chosen automatically: k=0",
            Self::Parts { .. } => "choose a larger scale, or fewer shards",
            Self::Memory(error) => return error.hint(),
            _ => return None,
        };
        Some(hint.into())
    }
}

/// The team was stopped: the work must end now. The provider of the threads has the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamStopped;

impl From<TeamStopped> for Error {
    fn from(_: TeamStopped) -> Self {
        Self::Stopped
    }
}
