//! Arguments of `nearfar map`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{GuardArgs, MachineArgs, PictureTheme};

/// `nearfar map`
#[derive(Args, Debug)]
pub struct MapCommandArgs {
    /// hwloc XML file, capture, or hwloc synthetic string such as 'pack:2 core:4 pu:2' [default: this machine]
    #[arg(long, value_name = "FILE|STRING", conflicts_with = "measure")]
    pub from: Option<String>,
    /// Also list the interrupts of each device: movable or not, permitted and effective CPUs, count
    #[arg(long, conflicts_with_all = ["measure", "run"])]
    pub interrupts: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: MapFormat,
    /// Colours of an SVG picture [default: auto]
    #[arg(long, value_enum)]
    pub theme: Option<PictureTheme>,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Measured maps")]
    pub measured: MeasureArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub guard: GuardArgs,
}

/// Selects the measurements of a map.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// Measure core-to-core and memory latency, bandwidth, and latency by working-set size; rerun to resume
    #[arg(long)]
    pub measure: bool,
    /// Show the measured map of this run: the ID of a run or its first digits, or latest
    #[arg(long, value_name = "RUN", conflicts_with = "measure")]
    pub run: Option<String>,
    /// Measure more sizes, until intervals are narrow
    #[arg(long, requires = "measure")]
    pub thorough: bool,
    /// Measure every pair of CPUs instead of one pair of each class
    #[arg(long, requires = "measure")]
    pub all: bool,
    /// Start a new run instead of resuming an unfinished one
    #[arg(long, requires = "measure")]
    pub fresh: bool,
    /// Resume this unfinished run even if the machine has changed
    #[arg(long, value_name = "RUN", conflicts_with = "fresh", requires = "measure")]
    pub resume: Option<String>,
    /// Show the plan and the estimated time, or what --run --apply would write; measure and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Use the smoke-test sizes of all parameters
    #[arg(long, requires = "measure")]
    pub smoke: bool,
    /// Show weights of memory nodes for weighted interleaving, in proportion to their measured bandwidths
    #[arg(long)]
    pub weights: bool,
    /// Set these weights in the Linux kernel until a reboot or nearfar restore
    #[arg(long, requires = "weights")]
    pub apply: bool,
}

/// Output formats of a topology or a measured map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapFormat {
    /// Tree
    Text,
    /// Counts, memory nodes, distances, kinds of CPUs and all other facts
    Json,
    /// Values of a measured map, one per line
    Csv,
    /// hwloc XML; a measured map adds its latencies and bandwidths as memory attributes
    Xml,
    /// Picture like lstopo's; heat maps and the latency curve of a measured map
    Svg,
    /// Output of numactl --hardware; a measured map adds measured distances
    Numactl,
    /// All facts, as input for --from or --sim
    Capture,
}
