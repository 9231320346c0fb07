//! The interface of all engines: submits a job to the nodes of a fleet, reads its status and collects its results. An
//! engine either connects to its nodes or writes a manifest, which the user applies.

use std::collections::BTreeMap;

use model::values::units::Nanos;

use crate::error::{NodeError, PerNode};
use crate::node_engine::{NodeCopies, NodeJobs};
use crate::{JobName, JobSpec, JobStatus, NodeName};

/// Runs jobs on the nodes of a fleet.
///
/// # Errors
///
/// Requests return `NodeErrorKind::Unsupported` if the engine cannot handle them, with the next step as hint.
pub trait Engine {
    /// The nodes. Empty if the engine selects them after submission.
    fn nodes(&self) -> &[NodeName];

    /// Submits a job to all nodes.
    fn submit(&self, job: &FleetJob) -> Result<Reply<NodeJobs<'_>>, NodeError>;

    /// Returns the status of these jobs on every node; an empty list means all jobs.
    fn status(&self, jobs: &[JobName]) -> Result<PerNode<Vec<JobStatus>>, NodeError>;

    /// Collects the results of these jobs from every node; an empty list means all jobs.
    fn collect(&self, jobs: &[JobName]) -> Result<Reply<NodeCopies<'_>>, NodeError>;

    /// Clock offset of each node that has responded, in milliseconds; positive if the node is ahead.
    fn clocks_ahead_ms(&self) -> BTreeMap<NodeName, i64> {
        BTreeMap::new()
    }
}

/// A job for all nodes, and its requirements, which some engines declare to a scheduler.
#[derive(Clone, Debug)]
pub struct FleetJob {
    /// The job; each node replaces `{node}` in the arguments by its name.
    pub order: JobSpec,
    /// Parts of the job that require root on the node.
    pub privileges: Vec<String>,
    /// Maximum duration of the run. `None` if it may first wait for the machine lock; an error for an invalid budget,
    /// which the nodes report if the engine does not need the duration.
    pub duration: Result<Option<Nanos>, String>,
}

/// The result of a request to an engine.
#[derive(Debug)]
pub enum Reply<T> {
    /// It connects to the nodes.
    Nodes(T),
    /// The user applies a manifest.
    Manifest(Manifest),
}

/// A file for the program that controls the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub text: String,
    /// Notes and the next commands for the user, one a line.
    pub notes: Vec<String>,
}
