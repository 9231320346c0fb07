//! A graph distributed over processes, one shard each: which shard owns which vertex, and what each stores. For graphs
//! too large for one machine, each shard is on another.
//!
//! Vertices are assigned round-robin by label. The generator has scrambled the labels, so each shard gets the same
//! number of vertices and, apart from the few largest lists, of edges. A vertex's owner follows from its label alone,
//! so writing parents in original labels needs no communication. The vertices with the most edges are hubs, which all
//! shards know. A hub's list is spread over the shards: each stores the hub's neighbours among its vertices, and checks
//! these edges in both directions. So no shard does the work of an entire hub, and no message concerns one.

mod build;
mod cut;
mod directory;
mod lists;
mod search;
mod validate;

pub use build::{GlobalCounts, Shard, part_bytes_needed};
pub use search::ShardSearch;
pub use validate::PartValidator;

#[cfg(test)]
mod tests;
