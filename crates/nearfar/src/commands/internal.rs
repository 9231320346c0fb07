//! The processes that the program starts itself as: a kernel's worker, the reader of untrusted topologies, and on another machine
//! the node's side of a fleet.

use std::process::ExitCode;

use machine::topology::TopologySource;

use crate::cli::{GlobalArgs, NodeCommandArgs};
use crate::error::{CliError, CommandResult};

/// Runs one kernel: the trial comes on stdin, the report goes to stdout.
pub fn worker() -> CommandResult {
    workloads::worker::serve(std::io::stdin().lock(), std::io::stdout().lock()).map_err(CliError::of)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a topology and prints it as JSON; hwloc may crash here without harm.
pub fn read_topology(source: &str) -> CommandResult {
    let source = TopologySource::parse(source).map_err(|error| CliError::topology(&error))?;
    Ok(ExitCode::from(machine::topology::serve_read(&source)))
}

/// Answers a coordinator, or does what lies written there.
pub fn node(args: &NodeCommandArgs, common: &GlobalArgs) -> CommandResult {
    if let (Some(order), Some(node)) = (&args.order, &args.node) {
        return crate::node::handle(order, node, common);
    }
    crate::node::serve(common)?;
    Ok(ExitCode::SUCCESS)
}
