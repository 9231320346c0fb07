//! Arguments of `nearfar where` and `nearfar files`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use model::analysis::residency::ContainerId;
use model::values::id_set::NodeSet;

use super::TextOrJson;

/// Running processes.
#[derive(Args, Clone, Debug)]
pub struct SubjectArgs {
    /// This process and its descendants
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// The processes of this systemd unit
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// The processes in this cgroup and the cgroups below it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// The processes of this container
    #[arg(long, value_name = "ID", value_parser = container)]
    pub container: Option<Container>,
    /// The processes of this Kubernetes pod
    #[arg(long, value_name = "UID")]
    pub pod: Option<String>,
}

/// `nearfar where`
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("subject").required(true).multiple(false).args(["pid", "unit", "cgroup", "container", "pod", "files", "command"]))]
pub struct WhereArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Inspect the page cache of these files
    #[arg(long = "file", value_name = "PATH", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// Command to run and to inspect every second until it ends; its standard output is redirected to standard error
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `nearfar files`
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("state").required(true).args(["nodes", "drop"]))]
#[command(after_help = "Only pages that no running process maps are moved or dropped.")]
pub struct FilesArgs {
    /// Move the cached pages to these memory nodes, in alternating blocks if there are several
    #[arg(long, visible_alias = "node", value_name = "NODES", value_parser = nodes)]
    pub nodes: Option<NodeSet>,
    /// Write changed pages to the disk and drop all pages from the page cache
    #[arg(long)]
    pub drop: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// Files of this user, or that it may write
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `nearfar copy-text`
#[derive(Args, Debug)]
#[command(
    after_help = "The copies are in memory of the nodes of the CPUs that the command may use. Only the command and \
                        its children see them, and they disappear with the last of these processes. Requires root."
)]
pub struct CopyTextArgs {
    /// Also copy this program or library, which the command runs or loads [repeatable]
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

fn nodes(text: &str) -> Result<NodeSet, String> {
    match NodeSet::parse_list(text) {
        Ok(nodes) if !nodes.is_empty() => Ok(nodes),
        _ => Err("not a list of memory nodes such as 1 or 0-1".into()),
    }
}

/// A container, as typed and parsed.
#[derive(Clone, Debug)]
pub struct Container {
    pub text: String,
    pub id: ContainerId,
}

fn container(text: &str) -> Result<Container, String> {
    Ok(Container { text: text.into(), id: ContainerId::parse(text)? })
}
