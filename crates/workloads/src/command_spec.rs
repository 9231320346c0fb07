//! The commands of a tool's trial: the measured command and those that surround it. The crates `lab` and `machine`
//! start, pin, supervise and stop the processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::child::Readiness;
use machine::page_cache::PageCache;
use model::values::units::Nanos;

use crate::scratch::Scratch;

/// Default time limit of a server until it is ready.
pub const READY_TIMEOUT: Nanos = Nanos(30_000_000_000);
/// Default time for a server to end before it is killed.
pub const STOP_TIMEOUT: Nanos = Nanos(5_000_000_000);

/// All commands of one trial of a tool.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// Runs before each run of the command, or once before the server starts if there is one. Neither timed nor pinned.
    pub prepare: Option<CommandLine>,
    /// Runs during all runs of the command, on separate CPUs.
    pub server: Option<ServerLine>,
    /// Number of warm-up runs before the measured run, with the same binding.
    pub warmup: u32,
    pub command: CommandLine,
    /// Runs after each run of the command, also after a failed one, or once after the server has stopped. Neither timed
    /// nor pinned.
    pub cleanup: Option<CommandLine>,
    /// State of the page cache in which each run finds the files that earlier trials used.
    pub page_cache: PageCache,
    /// The private directory of the trial, which exists as long as these commands.
    #[expect(dead_code, reason = "it only has to exist")]
    pub(crate) scratch: Option<Arc<Scratch>>,
}

/// A command line, run without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments. Never empty.
    pub argv: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

/// A server and its readiness check.
#[derive(Clone, Debug)]
pub struct ServerLine {
    pub command: CommandLine,
    /// Condition for starting the measured command.
    pub ready: Readiness,
    /// Time limit until it is ready.
    pub ready_timeout: Nanos,
    /// Time between SIGTERM and SIGKILL.
    pub stop_timeout: Nanos,
}

impl CommandSpec {
    /// Only the measured command.
    pub(crate) fn of(command: CommandLine) -> Self {
        Self {
            prepare: None,
            server: None,
            warmup: 0,
            command,
            cleanup: None,
            page_cache: PageCache::AsFound,
            scratch: None,
        }
    }

    /// Returns the programs that must exist before the trial starts: all of them, unless `prepare` may create the
    /// others.
    pub fn programs(&self) -> Vec<&str> {
        let lines = match &self.prepare {
            Some(prepare) => vec![prepare],
            None => {
                self.server.iter().map(|server| &server.command).chain([&self.command]).chain(&self.cleanup).collect()
            }
        };
        lines.into_iter().map(|line| line.argv[0].as_str()).collect()
    }
}
