//! Kronecker graphs and breadth-first search on them, as defined by the Graph500: generator, construction, layout,
//! search and validation. Must not depend on clocks, trials or placements, or on files except through traits: the
//! caller provides the threads (`Team`) and the placement of memory (`ArrayPlacement`).
//!
//! # Invariants
//!
//! - Edge lists equal those of the Graph500 reference code, bit for bit. Test:
//!   `edge_lists_are_those_of_the_reference` (kronecker.rs).
//! - A graph built out of core equals the graph built in memory, byte for byte, however often the build was
//!   interrupted. Tests: `graphs_are_those_made_in_core_byte_by_byte` (`out_of_core/tests.rs`),
//!   `killed_build_resumes_and_leaves_no_incomplete_graph` (`nearfar/tests/graph_out_of_core.rs`).
//! - A search counts only after the five checks of the specification against the generated edges. Tests of `validate`
//!   break trees in every way, with an edge list and with regenerated edges.
//! - Shards find the same result as one machine, for any number of shards, and reject the same trees. Tests:
//!   `shards_find_the_same_trees_as_one_machine` and others (distributed/tests.rs); over MPI nearfar/tests/mpi.rs.
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]
#![expect(
    clippy::inline_always,
    reason = "loops are compiled once per instruction set, with everything that they call inlined"
)]

#[cfg(target_endian = "big")]
compile_error!("graph files and bit maps require a little-endian machine");

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
pub use error::{Error, TeamStopped};
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
pub use team::{PlainTeam, Team, TeamWorker};
pub use validate::{NONE, TreeError, TreeStats, Validator};
