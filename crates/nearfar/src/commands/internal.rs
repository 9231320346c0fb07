//! Hidden commands, as which the program starts itself: the worker of a trial, the reader of untrusted topologies, the
//! guard of changed settings, and the node side of a fleet.

use std::process::ExitCode;

use machine::topology::TopologySource;

use crate::app::restore_guard;
use crate::cli::{GlobalArgs, NodeCommandArgs};
use crate::error::{CliError, CommandResult};
use crate::node::{PodJob, pod_job};

/// Runs one kernel: reads the trial from stdin and writes the report to stdout.
pub fn worker() -> CommandResult {
    workloads::worker::serve(std::io::stdin().lock(), std::io::stdout().lock()).map_err(CliError::failure)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a topology and prints it as JSON. A crash of hwloc ends only this process.
pub fn read_topology(source: &str) -> CommandResult {
    let source = TopologySource::parse(source).map_err(|error| CliError::topology(&error))?;
    Ok(ExitCode::from(machine::topology::serve_read(&source)))
}

/// Waits for the end of the process that started this one, and restores its settings if it was killed.
pub fn restore_guard() -> CommandResult {
    restore_guard::serve()?;
    Ok(ExitCode::SUCCESS)
}

/// Serves a coordinator, or returns the job of a job file, which the caller runs.
pub fn node(args: &NodeCommandArgs, common: &GlobalArgs) -> Result<Option<PodJob>, CliError> {
    if let (Some(order), Some(node)) = (&args.order, &args.node) {
        return pod_job(order, node, common);
    }
    crate::node::serve(common)?;
    Ok(None)
}
