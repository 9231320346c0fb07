//! The graph in parts, one for each process: which part has what, and what each keeps of the graph. Where one machine is not enough,
//! each part lies on another.
//!
//! Vertices are dealt in turn by their labels. The generator has scrambled those, so each part gets as many vertices and, the few
//! largest lists apart, as many edges; and a vertex's owner follows from its label alone, so nothing has to be sent to write
//! parents in original labels. The vertices with the most edges are hubs, known to all parts: a hub's list is spread over the
//! parts, each has those of its own vertices that neighbour it, which is where its edges are looked at in both directions. So no
//! part has the work of a whole hub, and no message is about one.

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
