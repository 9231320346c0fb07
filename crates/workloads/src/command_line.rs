//! What a tool is asked to run, and what is known of it when it has ended. How a process is started, seated,
//! watched and stopped is for `lab` and `machine`.

use std::collections::BTreeMap;
use std::fmt;

use model::units::{Bytes, Nanos};

/// A command line, run without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// Added to the environment.
    pub environment: BTreeMap<String, String>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A program that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// How.
    pub exit: Exit,
    /// What it printed; bounded by whoever ran it.
    pub stdout: Vec<u8>,
    /// The end of what it said on stderr.
    pub stderr_tail: Vec<u8>,
    /// From start to exit.
    pub wall: Nanos,
    /// Cpu time in user space, waited-for children included.
    pub user: Nanos,
    /// Cpu time in the kernel, likewise.
    pub system: Nanos,
    /// The most memory that was resident at once.
    pub max_rss: Bytes,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}
