//! Arguments of `nearfar expand`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use model::values::units::Bytes;

use super::ServerArgs;

/// `nearfar expand`
#[derive(Args, Debug)]
pub struct ExpandArgs {
    /// Maximum DRAM of the program: a size, or a percentage of its peak memory
    #[arg(long, value_name = "SIZE|PERCENT")]
    pub dram: String,
    /// Peak memory that --dram in percent refers to [default: measured by nearfar size for this command line]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub peak: Option<Bytes>,
    /// Engine that decides which pages stay in DRAM
    #[arg(long, value_enum, default_value = "steered")]
    pub engine: EngineName,
    /// Whether evicted pages stay compressed in DRAM (zswap or zram), in part of the limit, before they go to disk
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always",
          default_value = "never")]
    pub compressed: CompressedName,
    #[command(flatten)]
    pub far: FarArgs,
    #[command(flatten, next_help_heading = "Server")]
    pub server: ServerArgs,
    /// Write a summary of the run to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Record page faults and paging advice in FILE; with --engine kernel every fault, which slows the program down
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Show the status line even if the program writes to the same terminal
    #[arg(long)]
    pub live: bool,
    /// Program and its arguments
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<OsString>,
}

/// Where far memory is stored.
#[derive(Args, Debug)]
#[command(next_help_heading = "Far memory")]
pub struct FarArgs {
    /// Directory on a local disk for the swap file, or the path of a file that does not exist [default: `NEARFAR_FAR`,
    /// else /var/tmp]
    #[arg(long = "far-path", alias = "far-file", value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Size of far memory [default: four times the DRAM, at least 1GiB]
    #[arg(long = "far-size", value_name = "SIZE", value_parser = Bytes::parse)]
    pub size: Option<Bytes>,
    /// Overwrite the swap file at the end
    #[arg(long)]
    pub shred: bool,
    /// Accept an unencrypted disk on a machine whose swap is encrypted
    #[arg(long)]
    pub allow_unencrypted: bool,
}

/// The engine that moves pages between DRAM and far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// A paging controller that prefetches ahead of the program and evicts behind it
    Steered,
    /// The swap of the Linux kernel with its present settings
    #[value(alias = "plain")]
    Kernel,
}

/// When evicted pages are kept compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompressedName {
    /// All evicted pages go to disk
    Never,
    /// Once the program waits for single pages from disk, and for as long as that makes it faster
    Auto,
    /// From the start
    Always,
}
