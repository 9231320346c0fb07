//! The requests of the interface [`Engine`], sent to every node.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::{CONCURRENT_LOGINS, NodeCopies, NodeEngine, NodeJobs};
use crate::engine::{Engine, FleetJob, Reply};
use crate::error::PerNode;
use crate::parallel::map_bounded;
use crate::{JobName, JobSpec, JobStatus, NodeError, NodeName, for_node};

impl Engine for NodeEngine {
    fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    /// The jobs start when they are followed, because a node starts and follows a job over one connection.
    fn submit(&self, job: &FleetJob) -> Result<Reply<NodeJobs<'_>>, NodeError> {
        let order = |node| JobSpec { words: for_node(&job.order.words, node), ..job.order.clone() };
        Ok(Reply::Nodes(NodeJobs { engine: self, orders: self.nodes.iter().map(order).collect() }))
    }

    fn status(&self, jobs: &[JobName]) -> Result<PerNode<Vec<JobStatus>>, NodeError> {
        Ok(map_bounded(&self.nodes, CONCURRENT_LOGINS, |node| (node.clone(), self.status_of(node, jobs))))
    }

    fn collect(&self, jobs: &[JobName]) -> Result<Reply<NodeCopies<'_>>, NodeError> {
        Ok(Reply::Nodes(NodeCopies { engine: self, jobs: jobs.to_vec() }))
    }

    fn clocks_ahead_ms(&self) -> BTreeMap<NodeName, i64> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
