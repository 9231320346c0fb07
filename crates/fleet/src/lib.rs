//! Other machines: which nodes were named, how a word is had with the nearfar on each of them, and what went wrong when none was.
//! Must know nothing of measuring: what a node runs and what it stored are texts and bytes here.
//!
//! A node keeps what it was told to do and what came of it; who asks keeps nothing. So the state of a fleet is found by asking it,
//! a coordinator may die, and every question may be repeated.
#![forbid(unsafe_code)]

mod conversation;
mod each;
mod engine;
pub mod kubernetes;
mod name;
mod problem;
mod slurm;
mod ssh;
mod talk;

pub use conversation::{Conversation, Ended, SILENCE_MAX};
pub use each::for_each;
pub use engine::{Engine, Queue, Stands, Talk};
pub use name::{JobName, NODES_MAX, NodeName, On};
pub use problem::{Kind, Problem, plain};
pub use slurm::Slurm;
pub use ssh::Ssh;
pub use talk::{
    Answer, Ask, Copied, JobState, Look, Order, OtherVersion, PROTOCOL_VERSION, REQUEST_BYTES_MAX, Reply, Request,
    SAME_VERSION_HINT, version,
};
