//! Arguments of `nearfar bfs`.

use clap::Args;

use super::{GraphArgs, TextOrJson};

/// `nearfar bfs`
#[derive(Args, Debug)]
#[command(after_help = "Under MPI, each rank holds one shard. MPI needs a build with the feature: \
                        cargo build --release -p nearfar --features mpi")]
pub struct BfsArgs {
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Number of searches, from roots chosen by the rule of the Graph500
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub roots: u32,
    /// Search from this vertex instead [repeatable]
    #[arg(long = "root", value_name = "VERTEX", conflicts_with = "roots")]
    pub from: Vec<u64>,
    /// Switch to bottom-up when the frontier has more than 1/A of the unexplored edges
    #[arg(long, value_name = "A", default_value_t = 40)]
    pub alpha: u32,
    /// Switch back to top-down when a shrinking frontier has less than 1/B of the vertices
    #[arg(long, value_name = "B", default_value_t = 1000)]
    pub beta: u32,
    /// Number of vertices of highest degree that are replicated on all shards
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub hubs: u32,
    /// Number of shards in this process, without MPI; each is a thread [default: 1]
    #[arg(long, value_name = "N")]
    pub parts: Option<u32>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
