//! Kronecker graphs and the search over them, as the Graph500 defines both: generator, construction, layout, search,
//! validation. Must not know a clock, files except through values that it is given, trials or placements: who calls
//! gives the threads (`Team`) and says where memory lies (`ArrayPlacement`).

#![expect(
    clippy::inline_always,
    reason = "loops are compiled once for each kind of vectors, which takes all they call"
)]

#[cfg(target_endian = "big")]
compile_error!("graph files and bitmaps are little-endian here");

mod arrays;
mod bottom_up;
mod budget;
mod build;
mod coded;
mod degrees;
mod direction;
mod distributed;
mod edge_list;
mod edges;
mod error;
mod file;
mod head;
mod index;
mod kronecker;
mod label_blocks;
mod lanes;
mod layout;
mod level;
mod link;
mod mrg;
mod nodes;
mod out_of_core;
mod prefixes;
mod roots;
mod search;
mod sort;
mod statistics;
mod storage;
mod tail_io;
mod team;
mod top_down;
mod validate;

pub use arrays::ArrayPlacement;
pub use budget::{Dram, HeadBudget};
pub use build::{build, bytes_needed, check_fits};
pub use direction::Tuning;
pub use distributed::{GlobalCounts, PartValidator, Shard, ShardSearch, part_bytes_needed};
pub use edge_list::{EdgeEncoding, stream};
pub use edges::{Edges, Tuples};
pub use error::Error;
pub use file::{FileError, FileSection, Header, VERSION, read, read_header, write};
pub use kronecker::{EDGE_FACTOR, Generator, SCALE_MAX, Spec};
pub use lanes::Isa;
pub use layout::{COLUMNS_MAX, Layout, check_columns};
pub use link::{Exchange, Link, Reduce, ThreadLink, reduce_results, together};
pub use nodes::Nodes;
pub use out_of_core::{
    BuildRequirements, Built, OutOfCore, Progress, SearchFootprint, build_beyond, build_out_of_core,
};
pub use roots::Roots;
pub use search::Search;
pub use statistics::{Harmonic, Quartiles};
pub use storage::{PartKind, Storage, StorageError, StorageErrorKind};
pub use tail_io::{IoCounts, PAGE_BYTES, READ_BYTES_MAX, READ_PADDING, TailReader};
pub use team::{PlainTeam, Team, TeamStopped, TeamWorker};
pub use validate::{NONE, TreeError, TreeStats, Validator};
