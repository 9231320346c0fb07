//! Flags of `nearfar fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fleet::kubernetes::{FOLDER, Image, Toleration};
use fleet::{JobName, NodeSelector};
use model::values::units::{Bytes, Nanos};

use super::TextOrJson;

/// `nearfar fleet`
#[derive(Args, Debug)]
pub struct FleetArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// What can be done with many machines.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Run an experiment on every node; the same command again goes on where nodes were cut off, and starts nothing twice
    Run(Box<FleetRunArgs>),
    /// How far the nodes are
    Status(FleetQueryArgs),
    /// Fetch what the nodes have stored into the results file here; again and again does no harm
    Collect(FleetCollectArgs),
    /// Machines of the results file side by side: who stands out of its class, what changed when, and which facts go with it
    Compare(FleetCompareArgs),
}

/// Which machines, and how they are reached.
#[derive(Args, Debug)]
pub struct NodeArgs {
    /// The engine and its nodes: hosts as `ssh` knows them, all nodes of a partition of Slurm, or nodes of a cluster of
    /// Kubernetes by names, by labels or all
    #[arg(long, value_name = "ssh:HOST,...|slurm[:PARTITION]|kubernetes[:NODE,...|:LABEL=VALUE,...]", value_parser = NodeSelector::parse)]
    pub on: NodeSelector,
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
                        Example: nearfar fleet run quick --on kubernetes:node-1,node-2 --image registry.example.org/nearfar:0.1 -o job.yaml\n\
                        Then: nearfar fleet collect --on ssh:node-1,node-2; nearfar fleet compare")]
pub struct FleetRunArgs {
    /// A built-in experiment's name or a TOML file on this machine
    pub experiment: String,
    /// Which machines
    #[command(flatten)]
    pub reach: NodeArgs,
    /// What to call it on the nodes; another name runs it once more [default: made of the experiment and its flags]
    #[arg(long, value_name = "NAME", value_parser = JobName::parse)]
    pub name: Option<JobName>,
    /// Start it and do not watch
    #[arg(long)]
    pub detach: bool,
    /// How long a node that went away is waited for
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Nanos::parse)]
    pub patience: Nanos,
    /// How to show how it ended; for Kubernetes how to write the manifest
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// The manifest's
    #[command(flatten)]
    pub manifest: ManifestArgs,
    /// Processors for the pod of each node; with --memory it is guaranteed, and has them for itself where the node's policy is static
    #[arg(long, value_name = "N", requires = "memory", value_parser = clap::value_parser!(u32).range(1..=1 << 20), help_heading = "Kubernetes")]
    pub cpus: Option<u32>,
    /// Memory for the pod of each node
    #[arg(long, value_name = "SIZE", requires = "cpus", value_parser = Bytes::parse, help_heading = "Kubernetes")]
    pub memory: Option<Bytes>,
    /// Further flags of `nearfar run` on the nodes; {node} in them is the node's name
    #[arg(last = true, value_name = "FLAGS OF RUN")]
    pub words: Vec<String>,
}

/// `nearfar fleet compare`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar fleet compare\n\
                        Example: nearfar fleet compare --class cpu.model,rack --workload stream\n\
                        Example: nearfar fleet compare --format json | jq '.classes[].changes'")]
pub struct FleetCompareArgs {
    /// Runs to look at [default: all of the results file, real ones or simulated ones as the latest is]
    pub runs: Vec<String>,
    /// What machines of a class agree in: facts and labels [default: the cpu's model, and how many packages, cores, cpus and
    /// memory nodes there are]
    #[arg(long, value_name = "FACT,...", value_delimiter = ',')]
    pub class: Vec<String>,
    /// Only this workload
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Every metric, not only each workload's main one
    #[arg(long)]
    pub all_metrics: bool,
    /// Of a hundred surveys of machines that do not differ, so many at most may name one or a change
    #[arg(long, value_name = "PERCENT", default_value_t = model::analysis::survey::FALSE_ALARMS_PERCENT)]
    pub false_alarms: f64,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: SurveyFormat,
}

/// How to show a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SurveyFormat {
    /// For people
    Text,
    /// For documents and issues
    Markdown,
    /// For programs
    Json,
    /// The page that nearfar report has of it
    Html,
}

/// `nearfar fleet status` and `nearfar fleet collect`
#[derive(Args, Debug)]
pub struct FleetQueryArgs {
    /// Which of what the nodes ran, by the names that status shows [default: all]
    #[arg(value_name = "NAME", value_parser = JobName::parse)]
    pub names: Vec<JobName>,
    /// Which machines
    #[command(flatten)]
    pub reach: NodeArgs,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar fleet collect`
#[derive(Args, Debug)]
pub struct FleetCollectArgs {
    /// What, from which machines.
    #[command(flatten)]
    pub ask: FleetQueryArgs,
    /// The manifest's
    #[command(flatten)]
    pub manifest: ManifestArgs,
}

/// What is written for Kubernetes.
#[derive(Args, Debug)]
pub struct ManifestArgs {
    /// The image that has nearfar
    #[arg(long, value_name = "IMAGE", value_parser = Image::parse, help_heading = "Kubernetes")]
    pub image: Option<Image>,
    /// Write the manifest to this file; `-` is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Kubernetes")]
    pub output: Option<PathBuf>,
    /// The folder of each node that keeps what is measured [default: /var/lib/nearfar]
    #[arg(long, value_name = "FOLDER", value_parser = folder, help_heading = "Kubernetes")]
    pub results: Option<String>,
    /// A taint that is no obstacle, may be repeated
    #[arg(long = "toleration", value_name = "KEY[=VALUE][:EFFECT]", value_parser = Toleration::parse, help_heading = "Kubernetes")]
    pub tolerations: Vec<Toleration>,
}

impl ManifestArgs {
    /// Where the nodes keep results.
    pub fn folder(&self) -> &str {
        self.results.as_deref().unwrap_or(FOLDER)
    }
}

/// As Kubernetes takes a folder of its nodes: an absolute path without `..`.
fn folder(text: &str) -> Result<String, String> {
    let back = text.split('/').any(|part| part == "..");
    if !text.starts_with('/') || back || text.chars().any(char::is_control) {
        return Err("give the absolute path of a folder, without ..".into());
    }
    Ok(text.into())
}
