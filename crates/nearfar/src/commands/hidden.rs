//! The processes that the program starts itself as: a kernel's worker, the reader of untrusted topologies, and on another machine
//! the node's side of a fleet.

use std::process::ExitCode;

use machine::topology::Source;

use crate::cli::{Common, Node};
use crate::failure::{Failure, Outcome};

/// Runs one kernel: the trial comes on stdin, the report goes to stdout.
pub fn worker() -> Outcome {
    workloads::worker::serve(std::io::stdin().lock(), std::io::stdout().lock()).map_err(Failure::of)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a topology and prints it as JSON; hwloc may crash here without harm.
pub fn read_topology(source: &str) -> Outcome {
    let source = Source::parse(source).map_err(|error| Failure::topology(&error))?;
    Ok(ExitCode::from(machine::topology::serve_read(&source)))
}

/// Answers a coordinator, or does what lies written there.
pub fn node(args: &Node, common: &Common) -> Outcome {
    if let (Some(order), Some(node)) = (&args.order, &args.node) {
        return crate::node::obey(order, node, common);
    }
    crate::node::serve(common)?;
    Ok(ExitCode::SUCCESS)
}
