//! Arguments of `nearfar live`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use model::values::live_metric::source_lines;

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
    /// Compare placements of a running service by its own rate of work, and put the service back
    Try(LiveTryArgs),
    /// Place a running service until it ends or the placement is undone: its threads, and its memory if the placement names
    /// memory
    Apply(LiveApplyArgs),
    /// Undo an applied placement: every thread and page as they were found
    Undo(LiveUndoArgs),
    /// List applied placements, and report which of them are lost; with --metric, also whether they still gain anything
    Watch(LiveWatchArgs),
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

/// `nearfar live try`
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(group = ArgGroup::new("service").required(true).multiple(false).args(["pid", "unit", "cgroup", "container", "pod"]))]
pub struct LiveTryArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Metric of its work, such as tcp:PORT for requests on its own connections; --help lists all
    #[arg(long, value_name = "SOURCE", long_help = metric_help())]
    pub metric: String,
    /// Limit that it must keep, such as 'prom:URL#NAME<20ms' or 'log:FILE#ERROR<1/s'. A placement that violates it is undone
    /// at once and leaves [repeatable]
    #[arg(long = "guard", value_name = "SOURCE<NUMBER")]
    pub guards: Vec<String>,
    /// Policy or CPUs to compare with the placement that it has [repeatable] [default: each NUMA node and each L3 cache]
    #[arg(long = "placement", value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placements: Vec<String>,
    /// Also move its memory: to the nodes that a placement names, or else to the nodes of its CPUs
    #[arg(long)]
    pub move_memory: bool,
    /// Device of the service, such as its network or disk adapter: counts its interrupts, and places them with the irq: part of placements, or else,
    /// without placements, on the CPUs of each
    /// [repeatable]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Exclude placed interrupts from irqbalance
    #[arg(long)]
    pub ban_irqbalance: bool,
    /// Duration of the experiment
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    pub budget: String,
    /// Also write a page with the rate of every period
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Begin a new experiment, even if an interrupted one could continue
    #[arg(long)]
    pub fresh: bool,
    /// Move processes that may crash of it: Java virtual machines of some versions
    #[arg(long)]
    pub yes: bool,
    /// Print what would be done, without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until no other measurement uses the machine
    #[arg(long)]
    pub wait: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar live apply`
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(group = ArgGroup::new("service").required(true).multiple(false).args(["pid", "unit", "cgroup", "container", "pod"]))]
pub struct LiveApplyArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Policy, numactl's options or CPUs. node:N also moves the memory to node N
    #[arg(long, value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placement: String,
    /// Device of the service, such as its network or disk adapter, whose interrupts the irq: part of the placement places
    /// [repeatable]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Exclude placed interrupts from irqbalance
    #[arg(long)]
    pub ban_irqbalance: bool,
    /// Move processes that may crash of it: Java virtual machines of some versions
    #[arg(long)]
    pub yes: bool,
    /// Print what would be done, without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until no other measurement uses the machine
    #[arg(long)]
    pub wait: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar live undo`
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("service").required(true).multiple(false).args(["pid", "unit", "cgroup", "container", "pod", "all"]))]
pub struct LiveUndoArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// All applied placements
    #[arg(long)]
    pub all: bool,
    /// Wait until no other measurement uses the machine
    #[arg(long)]
    pub wait: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar live watch`
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("service").multiple(false).args(["pid", "unit", "cgroup", "container", "pod"]))]
pub struct LiveWatchArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Interval between checks
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub every: String,
    /// Also measure their gain: undo a placement, compare it with the one before by this metric, and apply it again. Use a
    /// long interval, such as --every 1d
    #[arg(long, value_name = "SOURCE", long_help = metric_help())]
    pub metric: Option<String>,
    /// Limit that the service must keep while placements are compared [repeatable]
    #[arg(long = "guard", value_name = "SOURCE<NUMBER", requires = "metric")]
    pub guards: Vec<String>,
    /// Duration of each comparison
    #[arg(long, value_name = "DURATION", default_value = "15m", requires = "metric")]
    pub budget: String,
    /// Check once; the exit status is 1 if a placement is lost
    #[arg(long, conflicts_with = "every")]
    pub once: bool,
    /// Output format; with json, each check is one line
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

fn metric_help() -> String {
    format!("Metric of its work, one of:\n\n{}", source_lines())
}
