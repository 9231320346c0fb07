//! Arguments of `nearfar live`.

use clap::{ArgGroup, Args, Subcommand};

use super::{SubjectArgs, TextOrJson};

/// `nearfar live`
#[derive(Args, Debug)]
pub struct LiveArgs {
    #[command(subcommand)]
    pub command: LiveCommand,
}

#[derive(Debug, Subcommand)]
pub enum LiveCommand {
    /// Show where the threads and the memory of a running service are, and what disagrees; change nothing
    Audit(LiveAuditArgs),
}

/// `nearfar live audit`
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("service").required(true).multiple(false).args(["pid", "unit", "cgroup", "container", "pod"]))]
pub struct LiveAuditArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Observe its threads for this time
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub duration: String,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
