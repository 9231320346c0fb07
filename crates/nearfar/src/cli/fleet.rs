//! Flags of `nearfar fleet`.

use clap::{Args, Subcommand};
use fleet::{JobName, On};
use model::units::Nanos;

use super::TextOrJson;

/// `nearfar fleet`
#[derive(Args, Debug)]
pub struct Fleet {
    /// What to do.
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// What can be done with many machines.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Run an experiment on every node; the same command again goes on where nodes were cut off, and starts nothing twice
    Run(Box<FleetRun>),
    /// How far the nodes are
    Status(FleetAsk),
    /// Fetch what the nodes have stored into the results file here; again and again does no harm
    Collect(FleetAsk),
}

/// Which machines, and how they are reached.
#[derive(Args, Debug)]
pub struct Reach {
    /// The engine and its nodes: hosts as `ssh` knows them, or all nodes of a partition of Slurm
    #[arg(long, value_name = "ssh:HOST,...|slurm[:PARTITION]", value_parser = On::parse)]
    pub on: On,
    /// nearfar on the nodes: a name that a shell without a terminal finds there, or a path, below the home folder where it is relative
    #[arg(long, value_name = "PATH", default_value = "nearfar")]
    pub program: String,
    /// A word for ssh itself, may be repeated: --ssh-option=-F --ssh-option=FILE
    #[arg(long = "ssh-option", value_name = "WORD", allow_hyphen_values = true)]
    pub ssh_options: Vec<String>,
}

/// `nearfar fleet run`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar fleet run quick --on ssh:node-1,node-2\n\
                        Example: nearfar fleet run my.toml --on ssh:node-1,node-2 --detach -- --budget 1h --wait\n\
                        Then: nearfar fleet collect --on ssh:node-1,node-2; nearfar compare --by host")]
pub struct FleetRun {
    /// A built-in experiment's name or a TOML file on this machine
    pub experiment: String,
    /// Which machines
    #[command(flatten)]
    pub reach: Reach,
    /// What to call it on the nodes; another name runs it once more [default: made of the experiment and its flags]
    #[arg(long, value_name = "NAME", value_parser = JobName::parse)]
    pub name: Option<JobName>,
    /// Start it and do not watch
    #[arg(long)]
    pub detach: bool,
    /// How long a node that went away is waited for
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Nanos::parse)]
    pub patience: Nanos,
    /// How to show how it ended
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// Further flags of `nearfar run` on the nodes; {node} in them is the node's name
    #[arg(last = true, value_name = "FLAGS OF RUN")]
    pub words: Vec<String>,
}

/// `nearfar fleet status` and `nearfar fleet collect`
#[derive(Args, Debug)]
pub struct FleetAsk {
    /// Which of what the nodes ran, by the names that status shows [default: all]
    #[arg(value_name = "NAME", value_parser = JobName::parse)]
    pub names: Vec<JobName>,
    /// Which machines
    #[command(flatten)]
    pub reach: Reach,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
