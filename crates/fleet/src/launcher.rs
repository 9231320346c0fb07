//! The interface by which an engine starts nearfar on a node. Must not depend on the contents of messages.

use std::process::Command;

use crate::child::ChildExit;
use crate::error::NodeError;
use crate::protocol::Request;
use crate::{JobName, NodeName};

/// A way to start nearfar on nodes.
pub trait Launcher: Sync {
    /// Returns a local command that runs nearfar on the node with this argument and forwards stdin and stdout.
    fn command(&self, node: &NodeName, arg: &str) -> Command;

    /// Returns the error if the connection failed, or `None` if nearfar on the node failed.
    fn explain(&self, exit: &ChildExit) -> Option<NodeError>;

    /// The program on the nodes, as given by the user.
    fn program(&self) -> &str;

    /// The scheduler, if nodes must be allocated by one; `None` if a process may be left running on a node.
    fn queue(&self) -> Option<&dyn Scheduler> {
        None
    }
}

/// A scheduler that allocates nodes to jobs.
pub trait Scheduler: Sync {
    /// Returns the state of a job in the queue.
    fn queue_state(&self, node: &NodeName, job: &JobName) -> Result<QueueState, NodeError>;

    /// Submits a job that handles the request with exclusive use of the node until the response is complete.
    fn submit(&self, node: &NodeName, job: &JobName, request: &Request) -> Result<(), NodeError>;
}

/// State of a job in the scheduler's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// Waiting for its node, with the reason.
    Waiting(String),
    /// Running on its node.
    Running,
    /// Not in the queue.
    Absent,
}
