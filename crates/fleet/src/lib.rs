//! Other machines: which nodes were named, how a word is had with the nearfar on each of them, and what went wrong when none was.
//! Must know nothing of measuring: what a node runs and what it stored are texts and bytes here.
//!
//! A node keeps what it was told to do and what came of it; who asks keeps nothing. So the state of a fleet is found by asking it,
//! a coordinator may die, and every question may be repeated.
#![forbid(unsafe_code)]

mod child;
mod engine;
mod error;
pub mod kubernetes;
mod name;
mod parallel;
mod protocol;
mod slurm;
mod ssh;

pub use child::{ChildExit, ChildSession, IDLE_TIMEOUT};
pub use engine::{Engine, NodeSession, QueueState, Scheduler};
pub use error::{NodeError, NodeErrorKind, plain};
pub use name::{JobName, NODES_MAX, NodeName, NodeSelector};
pub use parallel::map_bounded;
pub use protocol::{
    JobSpec, JobState, JobStatus, OtherVersion, PROTOCOL_VERSION, REQUEST_BYTES_MAX, Request, RequestBody, Response,
    ResponseBody, SAME_VERSION_HINT, StoreCopy, version,
};
pub use slurm::Slurm;
pub use ssh::Ssh;
