//! Asking a node, whatever reaches it: one question, its answers, and in words why there are none.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::process::Command;

use crate::child::{ChildExit, ChildSession, IDLE_TIMEOUT};
use crate::error::{NodeError, NodeErrorKind, plain};
use crate::protocol::{OtherVersion, Request, RequestBody, Response, ResponseBody, SAME_VERSION_HINT, version};
use crate::{JobName, NodeName};

/// An answer is a line; a longer one is none.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Shells greet people, some also programs: so many lines before an answer are not ours.
const NOISE_LINES_MAX: usize = 100;

/// The subcommand by which a nearfar is asked.
pub const NODE_SUBCOMMAND: &str = "__node";

/// What reaches nodes.
pub trait Engine: Sync {
    /// A process here whose standard input and output are those of the nearfar on a node, called with this word.
    fn command(&self, node: &NodeName, word: &str) -> Command;

    /// Whether it was the way to the node that failed, and why; none when it was the nearfar there.
    fn explain(&self, ended: &ChildExit) -> Option<NodeError>;

    /// The program on the nodes, as it was given.
    fn program(&self) -> &str;

    /// Where nodes are waited for, and give runs a process only as a job of theirs; none where whoever reaches a node may leave a process.
    fn queue(&self) -> Option<&dyn Scheduler> {
        None
    }
}

/// What gives out nodes.
pub trait Scheduler: Sync {
    /// Whether a job has its node.
    fn stands(&self, node: &NodeName, job: &JobName) -> Result<QueueState, NodeError>;

    /// Has a request answered on a node when that is free, with the node for itself until the answer is complete.
    fn submit(&self, node: &NodeName, job: &JobName, request: &Request) -> Result<(), NodeError>;
}

/// How a job stands in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// It waits, and why.
    Waiting(String),
    /// It has its node.
    Running,
    /// There is none.
    Absent,
}

/// A question on its way.
pub struct NodeSession<'a> {
    engine: &'a dyn Engine,
    node: &'a NodeName,
    lines: BufReader<ChildSession>,
    /// At its last answer; none before it has said anything.
    clock_ahead_ms: Option<i64>,
}

impl<'a> NodeSession<'a> {
    /// Asks a node.
    pub fn begin(engine: &'a dyn Engine, node: &'a NodeName, ask: RequestBody) -> Result<Self, NodeError> {
        let child = start(engine, node, NODE_SUBCOMMAND, Request::new(node, ask).to_bytes())?;
        Ok(Self { engine, node, lines: BufReader::new(child), clock_ahead_ms: None })
    }

    /// Its next answer; none when it has said all.
    pub fn next_response(&mut self) -> Result<Option<ResponseBody>, NodeError> {
        for _ in 0..NOISE_LINES_MAX {
            let mut line = Vec::new();
            let read = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            read.map_err(|error| lost(&error))?;
            if !line.ends_with(b"\n") {
                return self.ended();
            }
            match Response::read(&String::from_utf8_lossy(&line)) {
                Ok(Response { answer: ResponseBody::Refused { what, hint }, .. }) => {
                    return Err(NodeError { hint, ..NodeError::new(NodeErrorKind::Refused, what) });
                }
                Ok(reply) => {
                    self.clock_ahead_ms = Some(reply.clock_ahead_ms());
                    return Ok(Some(reply.answer));
                }
                Err(Some(theirs)) => return Err(other_version(&theirs)),
                Err(None) => {}
            }
        }
        Err(NodeError::new(NodeErrorKind::Refused, "what it says is no answer of a nearfar")
            .hint("a file that its shell reads at the start may print too much"))
    }

    /// Its only answer.
    pub fn answer(&mut self) -> Result<ResponseBody, NodeError> {
        self.next_response()?.ok_or_else(|| NodeError::new(NodeErrorKind::Refused, "it ended without an answer"))
    }

    /// By how many milliseconds its clock was ahead of ours at its last answer; none before that.
    pub fn clock_ahead_ms(&self) -> Option<i64> {
        self.clock_ahead_ms
    }

    /// What follows an answer that says so: exactly so many bytes.
    pub fn copy(&mut self, bytes: u64, to: &mut dyn std::io::Write) -> Result<(), NodeError> {
        let mut left = bytes;
        while left > 0 {
            let chunk = self.lines.fill_buf().map_err(|error| lost(&error))?;
            if chunk.is_empty() {
                self.ended()?;
                return Err(NodeError::new(NodeErrorKind::Away, format!("{left} of {bytes} bytes did not come")));
            }
            let taken = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let written = to.write_all(&chunk[..taken]);
            written.map_err(|error| {
                NodeError::new(NodeErrorKind::Engine, format!("its results cannot be kept here: {error}"))
            })?;
            self.lines.consume(taken);
            left -= taken as u64;
        }
        Ok(())
    }

    fn ended(&mut self) -> Result<Option<ResponseBody>, NodeError> {
        let ended = self.lines.get_mut().end().map_err(|error| lost(&error))?;
        if ended.status.success() {
            return Ok(None);
        }
        if let Some(error) = self.engine.explain(&ended) {
            return Err(error);
        }
        Err(if self.clock_ahead_ms.is_some() { broken(&ended) } else { self.refused(&ended) })
    }

    /// What a nearfar means that ended without a word of ours.
    fn refused(&self, ended: &ChildExit) -> NodeError {
        let program = self.engine.program();
        match ended.status.code() {
            Some(127) => NodeError::new(NodeErrorKind::NotInstalled, format!("there is no program {program}")).hint(format!(
                "install nearfar {} there where a shell without a terminal finds it, or say with --program where it is",
                version()
            )),
            Some(126) => {
                NodeError::new(NodeErrorKind::NotInstalled, format!("{program} cannot be run: {}", last(&ended.complaint)))
                    .hint("--program says where nearfar is there")
            }
            Some(2) if ended.complaint.contains(NODE_SUBCOMMAND) => match asked_version(self.engine, self.node) {
                Some(theirs) => other_version(&OtherVersion { program: Some(theirs), protocol: None }),
                None => NodeError::new(NodeErrorKind::OtherVersion, format!("{program} there is no nearfar that knows of fleets"))
                    .hint(format!("install version {} there", version())),
            },
            _ => broken(ended),
        }
    }
}

fn start(engine: &dyn Engine, node: &NodeName, word: &str, input: Vec<u8>) -> Result<ChildSession, NodeError> {
    let command = engine.command(node, word);
    let program = command.get_program().to_string_lossy().into_owned();
    ChildSession::start(command, input, IDLE_TIMEOUT).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            NodeError::new(NodeErrorKind::Engine, format!("there is no program {program} on this machine"))
                .hint(format!("install {program}"))
        }
        _ => NodeError::new(NodeErrorKind::Engine, format!("cannot start {program}: {error}")),
    })
}

/// What a nearfar too old for the question says of itself.
fn asked_version(engine: &dyn Engine, node: &NodeName) -> Option<String> {
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

fn lost(error: &std::io::Error) -> NodeError {
    match error.kind() {
        ErrorKind::TimedOut => {
            NodeError::new(NodeErrorKind::Away, format!("it has said nothing for {} s", IDLE_TIMEOUT.as_secs()))
        }
        _ => NodeError::new(NodeErrorKind::Away, format!("the connection is lost: {error}")),
    }
}

fn broken(ended: &ChildExit) -> NodeError {
    let words = last(&ended.complaint);
    let words = if words.is_empty() { "it said nothing" } else { words };
    NodeError::new(NodeErrorKind::Refused, format!("its nearfar ended with {}: {words}", ended.status))
}

/// The last line that says anything.
pub fn last(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
