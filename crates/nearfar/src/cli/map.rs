//! The flags of `nearfar map`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{HoldArgs, MachineArgs};

/// `nearfar map`
#[derive(Args, Debug)]
pub struct MapCommandArgs {
    /// A hwloc XML file, a capture, or a hwloc synthetic string such as 'pack:2 core:4 pu:2' [default: this machine]
    #[arg(long, value_name = "FILE|STRING", conflicts_with = "measure")]
    pub from: Option<String>,
    /// Also every interrupt of the devices: whether it can be moved, which cpus may take it and do, how often it came
    #[arg(long, conflicts_with_all = ["measure", "run"])]
    pub interrupts: bool,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: MapFormat,
    /// What is measured
    #[command(flatten, next_help_heading = "Measured maps")]
    pub measured: MeasureArgs,
    /// What is measured on
    #[command(flatten, next_help_heading = "Measured maps")]
    pub subject: MachineArgs,
    /// Having the machine for oneself
    #[command(flatten)]
    pub hold: HoldArgs,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What of a machine is measured.
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// Measure: from core to core, from cpus to memory, by working-set size; the same command again goes on
    #[arg(long)]
    pub measure: bool,
    /// Show the measured map of this run again: a run's id or its beginning, or `latest`
    #[arg(long, value_name = "RUN", conflicts_with = "measure")]
    pub run: Option<String>,
    /// More sizes, longer, until intervals are narrow
    #[arg(long, requires = "measure")]
    pub thorough: bool,
    /// Every pair of cpus, not one of each class of alike pairs
    #[arg(long, requires = "measure")]
    pub all: bool,
    /// Begin a new run even when an unfinished one could go on
    #[arg(long, requires = "measure")]
    pub fresh: bool,
    /// Show the plan and the estimate, measure nothing
    #[arg(long, requires = "measure")]
    pub dry_run: bool,
    /// Parameters at their smoke-test sizes
    #[arg(long, requires = "measure")]
    pub smoke: bool,
}

/// How to show a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapFormat {
    /// A drawn tree
    Text,
    /// The contract of counts, nodes, distances and kinds, with everything else
    Json,
    /// The numbers of a measured map, one per line
    Csv,
    /// hwloc XML; of a measured map with its latencies and bandwidths as memory attributes
    Xml,
    /// A picture in lstopo's manner; of a measured map heat maps and the curve
    Svg,
    /// What `numactl --hardware` would print; of a measured map with measured distances
    Numactl,
    /// Everything that Nearfar knows, to be read back with --from or --sim
    Capture,
}
