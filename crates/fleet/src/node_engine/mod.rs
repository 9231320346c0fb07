//! The engine of all launchers: sends each request to nearfar on every node. It stores no state; the nodes do. Must not
//! depend on how nearfar is started on a node.

mod copy;
mod engine;
mod follow;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::launcher::Launcher;
use crate::session::NodeSession;
use crate::{JobName, JobStatus, NodeError, NodeErrorKind, NodeName, RequestBody, ResponseBody};

pub use copy::{JobCopy, NodeCopies};
pub use follow::{FollowOptions, NodeEvent, NodeJobs};

/// Maximum number of concurrent logins: enough to hide the latency of one, few enough for this machine.
const CONCURRENT_LOGINS: usize = 32;

/// Nodes and the launcher that reaches them.
pub struct NodeEngine {
    launcher: Box<dyn Launcher>,
    nodes: Vec<NodeName>,
    /// Clock offset of each node that has responded, in milliseconds; positive if the node is ahead.
    clocks: Mutex<BTreeMap<NodeName, i64>>,
}

impl NodeEngine {
    pub fn new(launcher: impl Launcher + 'static, nodes: Vec<NodeName>) -> Self {
        Self { launcher: Box::new(launcher), nodes, clocks: Mutex::default() }
    }

    /// Sends a request to a node, and returns the session and the first response.
    fn send<'a>(&'a self, node: &'a NodeName, ask: RequestBody) -> Result<(NodeSession<'a>, ResponseBody), NodeError> {
        let mut session = NodeSession::begin(&*self.launcher, node, ask)?;
        let response = session.answer()?;
        if let Some(ahead) = session.clock_ahead_ms() {
            self.clocks.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), ahead);
        }
        Ok((session, response))
    }

    fn status_of(&self, node: &NodeName, jobs: &[JobName]) -> Result<Vec<JobStatus>, NodeError> {
        with_retry(|| statuses(self.send(node, RequestBody::Status(jobs.to_vec()))?.1))
    }
}

/// Repeats a request once if it ran in a batch job that ended meanwhile. Must not be used for requests with an effect.
fn with_retry<T>(request: impl Fn() -> Result<T, NodeError>) -> Result<T, NodeError> {
    match request() {
        Err(error) if error.kind == NodeErrorKind::JobEnded => request(),
        result => result,
    }
}

impl fmt::Debug for NodeEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeEngine").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

fn statuses(response: ResponseBody) -> Result<Vec<JobStatus>, NodeError> {
    match response {
        ResponseBody::Statuses(statuses) => Ok(statuses),
        _ => Err(unexpected_response()),
    }
}

fn unexpected_response() -> NodeError {
    NodeError::new(NodeErrorKind::Refused, "the response does not match the request")
}

#[cfg(test)]
mod tests;
