//! Sends a request to a node through any engine, reads the responses, and explains failures.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::process::Command;

use crate::child::{ChildExit, ChildSession, IDLE_TIMEOUT};
use crate::error::{NodeError, NodeErrorKind, plain};
use crate::protocol::{OtherVersion, Request, RequestBody, Response, ResponseBody, SAME_VERSION_HINT, version};
use crate::{JobName, NodeName};

/// Maximum length of a response line.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Maximum number of lines without a response. Some shells print a greeting even without a terminal.
const NOISE_LINES_MAX: usize = 100;

/// Hidden subcommand that answers requests on a node.
pub const NODE_SUBCOMMAND: &str = "__node";

/// A way to start nearfar on nodes.
pub trait Engine: Sync {
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

/// A request in progress.
pub struct NodeSession<'a> {
    engine: &'a dyn Engine,
    node: &'a NodeName,
    lines: BufReader<ChildSession>,
    /// At the last response, in milliseconds; `None` before the first response.
    clock_ahead_ms: Option<i64>,
}

impl<'a> NodeSession<'a> {
    /// Sends a request to a node.
    pub fn begin(engine: &'a dyn Engine, node: &'a NodeName, ask: RequestBody) -> Result<Self, NodeError> {
        let child = start(engine, node, NODE_SUBCOMMAND, Request::new(node, ask).to_bytes())?;
        Ok(Self { engine, node, lines: BufReader::new(child), clock_ahead_ms: None })
    }

    /// Returns the next response, or `None` after the last one.
    pub fn next_response(&mut self) -> Result<Option<ResponseBody>, NodeError> {
        for _ in 0..NOISE_LINES_MAX {
            let mut line = Vec::new();
            let read = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            read.map_err(|error| connection_error(&error))?;
            if !line.ends_with(b"\n") {
                return self.finish();
            }
            match Response::read(&String::from_utf8_lossy(&line)) {
                Ok(Response { answer: ResponseBody::Refused { what, hint }, .. }) => {
                    return Err(NodeError { hint, ..NodeError::new(NodeErrorKind::Refused, what) });
                }
                Ok(response) => {
                    self.clock_ahead_ms = Some(response.clock_ahead_ms());
                    return Ok(Some(response.answer));
                }
                Err(Some(theirs)) => return Err(other_version(&theirs)),
                Err(None) => {}
            }
        }
        Err(NodeError::new(NodeErrorKind::Refused, "the output is not a response from nearfar")
            .hint("check the start-up files of the shell on the node: they may print too much"))
    }

    pub fn answer(&mut self) -> Result<ResponseBody, NodeError> {
        self.next_response()?.ok_or_else(|| NodeError::new(NodeErrorKind::Refused, "nearfar ended without a response"))
    }

    /// Milliseconds by which the node's clock was ahead at the last response; `None` before the first response.
    pub fn clock_ahead_ms(&self) -> Option<i64> {
        self.clock_ahead_ms
    }

    /// Copies the given number of bytes that follow a [`ResponseBody::Copy`].
    pub fn copy(&mut self, bytes: u64, to: &mut dyn std::io::Write) -> Result<(), NodeError> {
        let mut left = bytes;
        while left > 0 {
            let chunk = self.lines.fill_buf().map_err(|error| connection_error(&error))?;
            if chunk.is_empty() {
                self.finish()?;
                return Err(NodeError::new(NodeErrorKind::Away, format!("{left} of {bytes} bytes are missing")));
            }
            let taken = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let written = to.write_all(&chunk[..taken]);
            written.map_err(|error| {
                NodeError::new(NodeErrorKind::Engine, format!("cannot store its results on this machine: {error}"))
            })?;
            self.lines.consume(taken);
            left -= taken as u64;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<ResponseBody>, NodeError> {
        let exit = self.lines.get_mut().end().map_err(|error| connection_error(&error))?;
        if exit.status.success() {
            return Ok(None);
        }
        if let Some(error) = self.engine.explain(&exit) {
            return Err(error);
        }
        Err(if self.clock_ahead_ms.is_some() { failed(&exit) } else { self.explain_refusal(&exit) })
    }

    /// Returns the error of a program that exited before its first response.
    fn explain_refusal(&self, exit: &ChildExit) -> NodeError {
        let program = self.engine.program();
        match exit.status.code() {
            Some(127) => NodeError::new(NodeErrorKind::NotInstalled, format!("there is no program {program}")).hint(format!(
                "install nearfar {} on the node in PATH of a non-interactive shell, or give its path with --program",
                version()
            )),
            Some(126) => {
                NodeError::new(NodeErrorKind::NotInstalled, format!("cannot run {program}: {}", last_line(&exit.stderr)))
                    .hint("set --program to the path of nearfar on the node")
            }
            Some(2) if exit.stderr.contains(NODE_SUBCOMMAND) => match query_version(self.engine, self.node) {
                Some(theirs) => other_version(&OtherVersion { program: Some(theirs), protocol: None }),
                None => NodeError::new(NodeErrorKind::OtherVersion, format!("{program} is not nearfar, or it does not support fleets"))
                    .hint(format!("install nearfar {} on the node", version())),
            },
            _ => failed(exit),
        }
    }
}

fn start(engine: &dyn Engine, node: &NodeName, arg: &str, input: Vec<u8>) -> Result<ChildSession, NodeError> {
    let command = engine.command(node, arg);
    let program = command.get_program().to_string_lossy().into_owned();
    ChildSession::start(command, input, IDLE_TIMEOUT).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            NodeError::new(NodeErrorKind::Engine, format!("there is no program {program} on this machine"))
                .hint(format!("install {program}"))
        }
        _ => NodeError::new(NodeErrorKind::Engine, format!("cannot start {program}: {error}")),
    })
}

/// Returns the output of `--version` of a nearfar that is too old for the request.
fn query_version(engine: &dyn Engine, node: &NodeName) -> Option<String> {
    let child = start(engine, node, "--version", Vec::new()).ok()?;
    let mut text = String::new();
    child.take(4096).read_to_string(&mut text).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix("nearfar "))?;
    Some(plain(version))
}

fn other_version(theirs: &OtherVersion) -> NodeError {
    let this = OtherVersion::this_program();
    NodeError::new(
        NodeErrorKind::OtherVersion,
        format!("incompatible protocol: the node has {theirs}, this machine has {this}"),
    )
    .hint(SAME_VERSION_HINT)
}

fn connection_error(error: &std::io::Error) -> NodeError {
    match error.kind() {
        ErrorKind::TimedOut => {
            NodeError::new(NodeErrorKind::Away, format!("no output for {} s", IDLE_TIMEOUT.as_secs()))
        }
        _ => NodeError::new(NodeErrorKind::Away, format!("the connection was lost: {error}")),
    }
}

fn failed(exit: &ChildExit) -> NodeError {
    let message = last_line(&exit.stderr);
    let message = if message.is_empty() { "no message" } else { message };
    NodeError::new(NodeErrorKind::Refused, format!("nearfar ended with {}: {message}", exit.status))
}

/// Returns the last line that is not blank, trimmed, or an empty text.
pub fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
