//! Arguments of `nearfar size`.

use clap::{Args, ValueEnum};

use super::{GuardArgs, MachineArgs, MetricArgs, RepetitionArgs, ServerArgs, TextOrJson};

/// `nearfar size`
#[derive(Args, Debug)]
pub struct SizeArgs {
    /// Budgets of DRAM: sizes, or percentages of the command's peak memory without a limit
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "25%,50%,75%,100%")]
    pub dram: Vec<String>,
    /// Engine that decides which pages stay in DRAM
    #[arg(long, value_enum, default_value = "both")]
    pub engine: Engines,
    /// Also measure each budget with compression: evicted pages stay in DRAM, in at most half of it, before they go to disk
    #[arg(long)]
    pub compressed: bool,
    /// Maximum slowdown, compared with no limit, for a budget to be large enough
    #[arg(long, alias = "within", value_name = "PERCENT", default_value = "5%")]
    pub max_slowdown: String,
    #[command(flatten, next_help_heading = "Server")]
    pub server: ServerArgs,
    #[command(flatten, next_help_heading = "Metric")]
    pub number: MetricArgs,
    #[command(flatten)]
    pub repeats: RepetitionArgs,
    /// Start no new block after this time; a block is one trial of each size [default: no limit]
    #[arg(long, value_name = "DURATION")]
    pub budget: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Command to run
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<String>,
}

/// The engines to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engines {
    /// The paging controller, as in nearfar expand
    Steered,
    /// The swap of the Linux kernel
    #[value(alias = "plain")]
    Kernel,
    /// Each budget with both
    Both,
}
