//! Hidden commands, as which the program starts itself: the worker of a trial, the reader of untrusted topologies, and
//! the node side of a fleet.

use std::process::ExitCode;

use machine::topology::TopologySource;

use crate::cli::{GlobalArgs, NodeCommandArgs};
use crate::error::{CliError, CommandResult};

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

/// Serves a coordinator, or runs a job file.
pub fn node(args: &NodeCommandArgs, common: &GlobalArgs) -> CommandResult {
    if let (Some(order), Some(node)) = (&args.order, &args.node) {
        return crate::node::handle(order, node, common);
    }
    crate::node::serve(common)?;
    Ok(ExitCode::SUCCESS)
}
