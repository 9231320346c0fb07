//! The flags of `nearfar graph`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use model::values::units::Bytes;

use super::TextOrJson;

/// `nearfar graph`
#[derive(Args, Debug)]
pub struct GraphCommandArgs {
    /// What to do
    #[command(subcommand)]
    pub what: GraphCommand,
}

/// What can be done with graphs.
#[derive(Debug, Subcommand)]
pub enum GraphCommand {
    /// Generate the edge list, bit for bit as the Graph500's reference code does
    Edges(EdgesArgs),
    /// Construct the graph that workload bfs searches, and write it to a file
    Build(BuildArgs),
    /// What a graph of a scale takes, or what a file has
    Info(InfoArgs),
}

/// Which graph.
#[derive(Args, Clone, Copy, Debug)]
pub struct GraphArgs {
    /// 2^S vertices, as in --scale 20
    #[arg(long, value_name = "S")]
    pub scale: u32,
    /// Edges per vertex
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub edge_factor: u64,
}

/// `nearfar graph edges`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar graph edges --scale 20 --sha256\n\
                        Example: nearfar graph edges --scale 16 --edges text --output edges.txt")]
pub struct EdgesArgs {
    /// Which graph
    #[command(flatten)]
    pub which: GraphArgs,
    /// Write the edges to this file; `-` is standard output [default: they are only counted and hashed]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How edges are written
    #[arg(long, value_enum, default_value = "pairs")]
    pub edges: EdgeFormat,
    /// Also the SHA-256 of the list as pairs of 64-bit numbers, whatever is written
    #[arg(long)]
    pub sha256: bool,
    /// How many threads [default: one for each cpu]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// How to say what was done
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// How an edge list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EdgeFormat {
    /// Two little-endian 64-bit numbers for each edge
    Pairs,
    /// The Graph500's packed edges: 48 bits for each end, in 12 bytes
    Packed,
    /// A line for each edge, as GAPBS and SNAP read (.el)
    Text,
}

/// `nearfar graph build`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar graph build --scale 20 --output g20.graph\n\
                        Example: nearfar graph build --scale 26 --dram 2GiB --output g26.graph")]
pub struct BuildArgs {
    /// Which graph
    #[command(flatten)]
    pub which: GraphArgs,
    /// The file; one that is there is left as it is
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// How many neighbours of each vertex lie in columns; the others are coded
    #[arg(short, long, value_name = "K", default_value_t = 16)]
    pub k: u32,
    /// The most memory that the program may take; what does not fit lies in FILE.building meanwhile. Who is stopped goes on when
    /// the command is repeated [default: as much as it takes, all in memory]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub dram: Option<Bytes>,
    /// With --dram: read the edges from a file that `nearfar graph edges` has written, not text, and do not generate them
    #[arg(long, value_name = "EDGES", value_hint = ValueHint::FilePath, requires = "dram")]
    pub from: Option<PathBuf>,
    /// How edges are written there
    #[arg(long, value_enum, default_value = "pairs", requires = "from")]
    pub edges: EdgeFormat,
    /// How many threads [default: one for each cpu]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// How to say what was done
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar graph info`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar graph info --scale 26\nExample: nearfar graph info g20.graph")]
pub struct InfoArgs {
    /// A file that `nearfar graph build` has written; all of it is read and checked
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "scale")]
    pub file: Option<PathBuf>,
    /// Instead: what a graph of 2^S vertices takes, before it is made
    #[arg(long, value_name = "S", conflicts_with = "file")]
    pub scale: Option<u32>,
    /// Edges per vertex of that graph
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub edge_factor: u64,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
