//! The flags of `nearfar size`.

use clap::{Args, ValueEnum};

use super::{HoldArgs, MachineArgs, RepetitionArgs, TextOrJson};

/// `nearfar size`
#[derive(Args, Debug)]
pub struct SizeArgs {
    /// How much DRAM: sizes, or percent of what the command holds when nothing bounds it
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "25%,50%,75%,100%")]
    pub dram: Vec<String>,
    /// Who decides what is near and what is far
    #[arg(long, value_enum, default_value = "both")]
    pub engine: Engines,
    /// Within this share of full speed it counts as fast
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    pub within: String,
    /// How often, how long
    #[command(flatten)]
    pub repeats: RepetitionArgs,
    /// What is measured on
    #[command(flatten)]
    pub subject: MachineArgs,
    /// Having the machine for oneself
    #[command(flatten)]
    pub hold: HoldArgs,
    /// How to show the answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// The command
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<String>,
}

/// Which engines are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engines {
    /// Steered, as nearfar expand
    Steered,
    /// The kernel's own swap
    Plain,
    /// One beside the other
    Both,
}
