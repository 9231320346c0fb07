//! Arguments of `nearfar graph`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use model::values::units::Bytes;

use super::TextOrJson;

/// `nearfar graph`
#[derive(Args, Debug)]
pub struct GraphCommandArgs {
    #[command(subcommand)]
    pub command: GraphCommand,
}

#[derive(Debug, Subcommand)]
pub enum GraphCommand {
    /// Generate the edge list of the Graph500's reference code
    Edges(EdgesArgs),
    /// Build the graph of workload bfs and write it to a file
    Build(BuildArgs),
    /// Show the requirements of a scale, or the contents of a file
    Info(InfoArgs),
}

/// The size of a generated graph.
#[derive(Args, Clone, Copy, Debug)]
pub struct GraphArgs {
    /// Binary logarithm of the number of vertices
    #[arg(long, value_name = "S")]
    pub scale: u32,
    /// Edges per vertex
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub edge_factor: u64,
}

/// `nearfar graph edges`
#[derive(Args, Debug)]
pub struct EdgesArgs {
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Write the edges to FILE; - is stdout [default: only count and hash them]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Encoding of the edges
    #[arg(long, value_enum, default_value = "pairs")]
    pub edges: EdgeFormat,
    /// Also print the SHA-256 hash of the edges as pairs, independent of --edges
    #[arg(long)]
    pub sha256: bool,
    /// Number of threads [default: number of CPUs]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// Encodings of an edge list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EdgeFormat {
    /// Two little-endian 64-bit numbers per edge
    Pairs,
    /// The Graph500's packed edges: two 48-bit numbers in 12 bytes
    Packed,
    /// One line per edge, as GAPBS and SNAP read (.el)
    Text,
}

/// `nearfar graph build`
#[derive(Args, Debug)]
pub struct BuildArgs {
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Graph file to write; an existing file is not overwritten
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Neighbours of each vertex in head columns; the others are in compressed lists
    #[arg(short = 'k', long, alias = "k", value_name = "K", default_value_t = 16)]
    pub columns: u32,
    /// Maximum memory; the rest is in FILE.building. Rerun the command to resume [default: build in memory]
    #[arg(long, alias = "dram", value_name = "SIZE", value_parser = Bytes::parse)]
    pub memory: Option<Bytes>,
    /// Read the edges from a binary file of nearfar graph edges instead of generating them; needs --memory
    #[arg(long, alias = "from", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "memory")]
    pub edge_list: Option<PathBuf>,
    /// Encoding of the edges in that file
    #[arg(long, value_enum, default_value = "pairs", requires = "edge_list")]
    pub edges: EdgeFormat,
    /// Number of threads [default: number of CPUs]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar graph info`
#[derive(Args, Debug)]
pub struct InfoArgs {
    /// File of nearfar graph build; all of it is read and verified
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "scale")]
    pub file: Option<PathBuf>,
    /// Show the requirements of a graph with 2^S vertices instead
    #[arg(long, value_name = "S", conflicts_with = "file")]
    pub scale: Option<u32>,
    /// Edges per vertex of that graph
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub edge_factor: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
