//! The flags of `nearfar bfs`.

use clap::Args;

use super::{GraphArgs, TextOrJson};

/// `nearfar bfs`
#[derive(Args, Debug)]
#[command(after_help = "Example: mpirun -n 4 nearfar bfs --scale 22\n\
                        Example: nearfar bfs --scale 16 --parts 2\n\n\
                        Over MPI each rank is a part. Only builds with the feature have it: cargo build --release -p nearfar --features mpi")]
pub struct BfsArgs {
    /// Which graph
    #[command(flatten)]
    pub which: GraphArgs,
    /// How many searches, from the roots that the Graph500's rule chooses
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub roots: u32,
    /// Search from this vertex instead; may be repeated
    #[arg(long = "root", value_name = "VERTEX", conflicts_with = "roots")]
    pub from: Vec<u64>,
    /// Bottom-up once the frontier has more than 1/A of the unexplored edges
    #[arg(long, value_name = "A", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub alpha: u32,
    /// Top-down again once a shrinking frontier has less than 1/B of the vertices
    #[arg(long, value_name = "B", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub beta: u32,
    /// Vertices with the most edges that all parts know
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub hubs: u32,
    /// Without MPI: so many parts, threads of this process that exchange as ranks do [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub parts: Option<u32>,
    /// How to say what was measured
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
