//! The flags of `nearfar expand`, and those about far memory that other commands share with it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use model::values::units::Bytes;

/// `nearfar expand`
#[derive(Args, Debug)]
pub struct ExpandArgs {
    /// At most this much DRAM: 2GiB, or 50% of what the program needs
    #[arg(long, value_name = "SIZE|PERCENT")]
    pub dram: String,
    /// What the program needs at most, for --dram in percent [default: what nearfar size last found for this command line]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub peak: Option<Bytes>,
    /// Who decides what is near and what is far
    #[arg(long, value_enum, default_value = "steered")]
    pub engine: EngineName,
    /// Where the rest goes
    #[command(flatten)]
    pub far: FarArgs,
    /// Write what came of it to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Record the page faults that are seen, and what is ordered then, in this file; with --engine plain every fault, which
    /// slows the program down
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Show how it stands while it runs, even where the program writes to the same terminal
    #[arg(long)]
    pub live: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<OsString>,
}

/// Where far memory is.
#[derive(Args, Debug)]
#[command(next_help_heading = "Far memory")]
pub struct FarArgs {
    /// A folder for the file that takes what DRAM does not, or the file's name there: on a disk of this machine
    /// [default: what `NEARFAR_FAR` names, else /var/tmp]
    #[arg(long = "far-file", value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Its size [default: four times the DRAM, at least 1GiB]
    #[arg(long = "far-size", value_name = "SIZE", value_parser = Bytes::parse)]
    pub size: Option<Bytes>,
    /// Overwrite it at the end
    #[arg(long)]
    pub shred: bool,
    /// Use a disk that is not encrypted where this machine's swap is
    #[arg(long)]
    pub allow_unencrypted: bool,
}

/// Who decides what is near and what is far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// A pilot that fetches ahead of the program and pages out behind it
    Steered,
    /// The kernel's own swap as it is set, for comparison
    Plain,
}
