//! Communicates with nearfar on other machines: node selection, engines, requests and responses, and their errors.
//! Must not depend on measurements: the experiment and the results of a node are opaque text and bytes here.
//!
//! Nodes store their jobs and results, and the coordinator stores nothing. The state of a fleet is always read from the
//! nodes, so a coordinator may be killed at any time, and every request may be repeated.
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]
#![forbid(unsafe_code)]

mod child;
mod engine;
mod error;
mod host_list;
mod host_pattern;
pub mod kubernetes;
mod launcher;
mod name;
#[cfg(test)]
#[path = "../../model/tests/nasty/mod.rs"]
mod nasty;
mod node_engine;
mod parallel;
mod protocol;
mod session;
mod slurm;
mod ssh;

pub use child::ChildExit;
pub use engine::{Engine, FleetJob, Manifest, Reply};
pub use error::{NodeError, NodeErrorKind, PerNode, plain};
pub use host_list::HostList;
pub use launcher::{Launcher, QueueState, Scheduler};
pub use name::{JobName, NODES_MAX, NodeName, NodeSelector};
pub use node_engine::{FollowOptions, JobCopy, NodeCopies, NodeEngine, NodeEvent, NodeJobs};
pub use protocol::{
    JobSpec, JobState, JobStatus, NODE_PLACEHOLDER, OtherVersion, PROTOCOL_VERSION, REQUEST_BYTES_MAX, Request,
    RequestBody, Response, ResponseBody, SAME_VERSION_HINT, StoreCopy, for_node, version,
};
pub use slurm::Slurm;
pub use ssh::Ssh;
