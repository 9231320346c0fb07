//! Arguments of `nearfar fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fleet::kubernetes::{Image, Toleration};
use fleet::{HostList, JobName, NodeSelector};
use model::values::units::{Bytes, Nanos};

use super::TextOrJson;

/// `nearfar fleet`
#[derive(Args, Debug)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Run an experiment on every node; rerun to watch or resume
    Run(Box<FleetRunArgs>),
    /// Show the progress of the nodes
    Status(FleetQueryArgs),
    /// Copy the results of the nodes to the local results file
    Collect(FleetCollectArgs),
    /// Find machines that differ from their class, and changes over time
    Compare(FleetCompareArgs),
}

/// The nodes, and how to connect to them.
#[derive(Args, Debug)]
pub struct NodeArgs {
    /// Engine and nodes: ssh hosts, listed or in a file, all nodes of a Slurm partition, or Kubernetes nodes by name, by
    /// label or all; names may have ranges, as in node-[01-12,20]
    #[arg(long, value_name = "ssh:HOST,...|ssh:@FILE|slurm[:PARTITION]|kubernetes[:NODE,...|:LABEL=VALUE,...]", value_parser = NodeSelector::parse)]
    pub on: NodeSelector,
    /// Program on the nodes: a name in PATH of a non-interactive shell, or a path; relative to the home directory
    #[arg(long, value_name = "PATH", default_value = "nearfar")]
    pub program: String,
    /// Argument of ssh [repeatable]: --ssh-option=-F --ssh-option=FILE
    #[arg(long = "ssh-option", value_name = "ARG", allow_hyphen_values = true)]
    pub ssh_options: Vec<String>,
    #[command(flatten)]
    pub slurm: SlurmArgs,
}

/// Options of all jobs in Slurm.
#[derive(Args, Debug)]
pub struct SlurmArgs {
    /// Nodes of the partition, such as node-[01-12,20], or @FILE with a list in each line [default: all]
    #[arg(long, value_name = "HOST,...|@FILE", value_parser = HostList::parse, help_heading = "Slurm")]
    pub nodelist: Option<HostList>,
    /// Account of the jobs [default: that of the user]
    #[arg(long, value_name = "ACCOUNT", value_parser = slurm_name, help_heading = "Slurm")]
    pub account: Option<String>,
    /// Quality of service (QOS) of the jobs [default: that of the account]
    #[arg(long, value_name = "QOS", value_parser = slurm_name, help_heading = "Slurm")]
    pub qos: Option<String>,
}

/// `nearfar fleet run`
#[derive(Args, Debug)]
pub struct FleetRunArgs {
    /// Name of a built-in experiment, or a TOML file on this machine
    pub experiment: String,
    #[command(flatten)]
    pub nodes: NodeArgs,
    /// Name of the job on the nodes; a new name runs it again [default: derived from the experiment and its options]
    #[arg(long, value_name = "NAME", value_parser = JobName::parse)]
    pub name: Option<JobName>,
    /// Start the job and exit
    #[arg(long)]
    pub detach: bool,
    /// Time to wait for a node that does not respond
    #[arg(long, alias = "patience", value_name = "DURATION", default_value = "5m", value_parser = Nanos::parse)]
    pub node_timeout: Nanos,
    /// Output format of the result; for Kubernetes, of the manifest
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    #[command(flatten)]
    pub manifest: ManifestArgs,
    /// CPUs of the pod on each node; exclusive if the kubelet has the static CPU policy
    #[arg(long, value_name = "N", requires = "memory", help_heading = "Kubernetes")]
    pub cpus: Option<u32>,
    /// Memory of the pod on each node
    #[arg(long, value_name = "SIZE", requires = "cpus", value_parser = Bytes::parse, help_heading = "Kubernetes")]
    pub memory: Option<Bytes>,
    /// Time limit of the job on each node, as for sbatch [default: that of the partition]
    #[arg(long, value_name = "[DAYS-]HH:MM:SS|MINUTES", value_parser = slurm_time, help_heading = "Slurm")]
    pub time: Option<String>,
    /// Options of `nearfar run` on the nodes; {node} expands to the name of the node
    #[arg(last = true, value_name = "RUN_OPTION")]
    pub run_options: Vec<String>,
}

/// `nearfar fleet compare`
#[derive(Args, Debug)]
pub struct FleetCompareArgs {
    /// Runs to compare [default: all, either real or simulated like the latest]
    pub runs: Vec<String>,
    /// Facts and labels that define a class of machines [default: CPU model, and the numbers of packages, cores, CPUs
    /// and memory nodes]
    #[arg(long, value_name = "FACT,...", value_delimiter = ',')]
    pub class: Vec<String>,
    /// Compare only this workload
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Show all metrics instead of the main metric of each workload
    #[arg(long)]
    pub all_metrics: bool,
    /// Leave out changes before this UTC date or age, such as 2026-11-22, 7d or 2w; earlier runs remain the reference
    #[arg(long, value_name = "DATE|AGE")]
    pub since: Option<String>,
    /// Leave out suspect trials
    #[arg(long)]
    pub strict: bool,
    /// Maximum false-alarm rate, in percent of surveys
    #[arg(long, value_name = "PERCENT", default_value_t = model::analysis::survey::FALSE_ALARMS_PERCENT)]
    pub false_alarms: f64,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: SurveyFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SurveyFormat {
    /// Tables for terminals
    Text,
    /// Markdown tables
    Markdown,
    /// JSON
    Json,
    /// The survey page of nearfar report
    Html,
}

/// `nearfar fleet status` and `nearfar fleet collect`
#[derive(Args, Debug)]
pub struct FleetQueryArgs {
    /// Names of jobs as shown by status, or their beginnings [default: all]
    #[arg(value_name = "NAME", value_parser = JobName::parse)]
    pub names: Vec<JobName>,
    #[command(flatten)]
    pub nodes: NodeArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar fleet collect`
#[derive(Args, Debug)]
pub struct FleetCollectArgs {
    #[command(flatten)]
    pub query: FleetQueryArgs,
    #[command(flatten)]
    pub manifest: ManifestArgs,
}

/// The manifest for Kubernetes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Kubernetes")]
pub struct ManifestArgs {
    /// Image that contains nearfar
    #[arg(long, value_name = "IMAGE", value_parser = Image::parse, help_heading = "Kubernetes")]
    pub image: Option<Image>,
    /// Write the manifest to FILE; - is stdout
    #[arg(short, long, value_name = "FILE", help_heading = "Kubernetes")]
    pub output: Option<PathBuf>,
    /// Directory on each node for the results [default: /var/lib/nearfar]
    #[arg(long, alias = "results", value_name = "DIR", value_parser = node_dir, help_heading = "Kubernetes")]
    pub results_dir: Option<String>,
    /// Tolerate this taint [repeatable]
    #[arg(long = "toleration", value_name = "KEY[=VALUE][:EFFECT]", value_parser = Toleration::parse, help_heading = "Kubernetes")]
    pub tolerations: Vec<Toleration>,
}

/// Parses the name of an account or QOS. Slurm checks whether it exists.
fn slurm_name(text: &str) -> Result<String, String> {
    let is_separator = |c: char| c.is_control() || c.is_whitespace();
    if text.is_empty() || text.contains(is_separator) {
        return Err("expected a name without spaces".into());
    }
    Ok(text.into())
}

/// Parses a time limit in a format of `sbatch --time`: `90` (minutes), `1:30:00`, `1-12` (days and hours).
fn slurm_time(text: &str) -> Result<String, String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<&str> = rest.split(':').collect();
    if !is_number(days) || parts.len() > 3 || !parts.into_iter().all(is_number) {
        return Err("expected MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS, as for sbatch".into());
    }
    Ok(text.into())
}

/// Parses a `hostPath` of Kubernetes: an absolute path without `..`.
fn node_dir(text: &str) -> Result<String, String> {
    let has_parent = text.split('/').any(|part| part == "..");
    if !text.starts_with('/') || has_parent || text.chars().any(char::is_control) {
        return Err("expected an absolute path without '..'".into());
    }
    Ok(text.into())
}
