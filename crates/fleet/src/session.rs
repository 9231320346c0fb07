//! Sends a request to a node through any launcher, reads the responses, and explains failures.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use crate::NodeName;
use crate::child::{ChildExit, ChildSession, IDLE_TIMEOUT};
use crate::error::{NodeError, NodeErrorKind, plain};
use crate::launcher::Launcher;
use crate::protocol::{OtherVersion, Request, RequestBody, Response, ResponseBody, SAME_VERSION_HINT, version};

/// Maximum length of a response line.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Maximum number of lines without a response. Some shells print a greeting even without a terminal.
const NOISE_LINES_MAX: usize = 100;

/// Hidden subcommand that answers requests on a node.
pub const NODE_SUBCOMMAND: &str = "__node";

/// A request in progress.
pub struct NodeSession<'a> {
    launcher: &'a dyn Launcher,
    node: &'a NodeName,
    lines: BufReader<ChildSession>,
    /// At the last response, in milliseconds; `None` before the first response.
    clock_ahead_ms: Option<i64>,
    /// The last line that is not a response, such as that of a login shell that refuses commands.
    noise: String,
}

impl<'a> NodeSession<'a> {
    /// Sends a request to a node.
    pub fn begin(launcher: &'a dyn Launcher, node: &'a NodeName, ask: RequestBody) -> Result<Self, NodeError> {
        let child = start(launcher, node, NODE_SUBCOMMAND, Request::new(node, ask).to_bytes())?;
        Ok(Self { launcher, node, lines: BufReader::new(child), clock_ahead_ms: None, noise: String::new() })
    }

    /// Returns the next response, or `None` after the last one.
    pub fn next_response(&mut self) -> Result<Option<ResponseBody>, NodeError> {
        for _ in 0..NOISE_LINES_MAX {
            let mut line = Vec::new();
            let read = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            read.map_err(|error| connection_error(&error))?;
            let is_whole = line.ends_with(b"\n");
            let line = String::from_utf8_lossy(&line);
            if !is_whole {
                self.note_noise(&line);
                return self.finish();
            }
            match Response::read(&line) {
                Ok(Response { answer: ResponseBody::Refused { what, hint }, .. }) => {
                    return Err(NodeError { hint, ..NodeError::new(NodeErrorKind::Refused, what) });
                }
                Ok(response) => {
                    self.clock_ahead_ms = Some(response.clock_ahead_ms());
                    return Ok(Some(response.answer));
                }
                Err(Some(theirs)) => return Err(other_version(&theirs)),
                Err(None) => self.note_noise(&line),
            }
        }
        Err(NodeError::new(NodeErrorKind::Refused, "the output is not a response from nearfar")
            .with_hint("check the start-up files of the shell on the node: they may print too much"))
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

    fn note_noise(&mut self, line: &str) {
        if !line.trim().is_empty() {
            self.noise = plain(line.trim());
        }
    }

    fn finish(&mut self) -> Result<Option<ResponseBody>, NodeError> {
        let exit = self.lines.get_mut().end().map_err(|error| connection_error(&error))?;
        if exit.status.success() {
            return Ok(None);
        }
        if let Some(error) = self.launcher.explain(&exit) {
            return Err(error);
        }
        Err(if self.clock_ahead_ms.is_some() { failed(&exit) } else { self.explain_refusal(&exit) })
    }

    /// Returns the error of a program that exited before its first response.
    fn explain_refusal(&self, exit: &ChildExit) -> NodeError {
        let program = self.launcher.program();
        match exit.status.code() {
            Some(127) => NodeError::new(NodeErrorKind::NotInstalled, format!("there is no program {program}")).with_hint(format!(
                "install nearfar {} on the node in PATH of a non-interactive shell, or give its path with --program",
                version()
            )),
            Some(126) => {
                NodeError::new(NodeErrorKind::NotInstalled, format!("cannot run {program}: {}", last_line(&exit.stderr)))
                    .with_hint("set --program to the path of nearfar on the node")
            }
            Some(2) if exit.stderr.contains(NODE_SUBCOMMAND) => match query_version(self.launcher, self.node) {
                Some(theirs) => other_version(&OtherVersion { program: Some(theirs), protocol: None }),
                None => NodeError::new(NodeErrorKind::OtherVersion, format!("{program} is not nearfar, or it does not support fleets"))
                    .with_hint(format!("install nearfar {} on the node", version())),
            },
            _ if last_line(&exit.stderr).is_empty() => self.explain_silence(exit),
            _ => failed(exit),
        }
    }

    /// Returns the error of a program that exited before its first response and without an error message.
    fn explain_silence(&self, exit: &ChildExit) -> NodeError {
        let printed = if self.noise.is_empty() { "no output" } else { &self.noise };
        NodeError::new(NodeErrorKind::Refused, format!("nearfar ended with {}: {printed}", exit.status))
            .with_hint("the login shell of the user must run commands; shells such as nologin and false refuse them")
    }
}

fn start(launcher: &dyn Launcher, node: &NodeName, arg: &str, input: Vec<u8>) -> Result<ChildSession, NodeError> {
    let command = launcher.command(node, arg);
    let program = command.get_program().to_string_lossy().into_owned();
    ChildSession::start(command, input, IDLE_TIMEOUT).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            NodeError::new(NodeErrorKind::Engine, format!("there is no program {program} on this machine"))
                .with_hint(format!("install {program}"))
        }
        _ => NodeError::new(NodeErrorKind::Engine, format!("cannot start {program}: {error}")),
    })
}

/// Returns the output of `--version` of a nearfar that is too old for the request.
fn query_version(launcher: &dyn Launcher, node: &NodeName) -> Option<String> {
    let child = start(launcher, node, "--version", Vec::new()).ok()?;
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
    .with_hint(SAME_VERSION_HINT)
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
