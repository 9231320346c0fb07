//! What a tool's trial runs: the measured command and what surrounds it. How processes are started, seated, watched and
//! stopped is for `lab` and `machine`.

use std::collections::BTreeMap;

use machine::child::Readiness;

/// All that one trial of a tool runs.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// Before each run of the command; with a server once, before that is started. Neither timed nor seated.
    pub prepare: Option<CommandLine>,
    /// Beside all runs of the command, on seats of its own.
    pub server: Option<ServerLine>,
    /// How many runs of the command come before the measured one, seated as that.
    pub warmup: u32,
    pub command: CommandLine,
    /// After each run of the command, also a failed one; with a server once, after that has been stopped. Neither timed
    /// nor seated.
    pub cleanup: Option<CommandLine>,
}

/// A command line, run without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

/// A server and the sign that it can be used.
#[derive(Clone, Debug)]
pub struct ServerLine {
    pub command: CommandLine,
    /// When the measured command may begin.
    pub ready: Readiness,
}

impl CommandSpec {
    /// The programs that must be there before anything runs: all of them, unless `prepare` may make the others.
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
