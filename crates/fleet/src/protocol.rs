//! Messages between a coordinator and the nearfar on a node. The request is one JSON value on the node's standard
//! input; the response is lines of JSON on its standard output, and the bytes of a copy follow the line that
//! announces it. Each side sends the protocol version in every message and rejects messages of a different version.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::{JobName, NodeName};

/// An experiment is a small text; whatever is longer is no request.
pub const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// Version of the messages. Increment it when a field or a variant changes on the wire.
pub const PROTOCOL_VERSION: u32 = 1;

/// The package version, for error messages and hints. [`PROTOCOL_VERSION`] decides whether two programs can
/// communicate.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// What to do about a message with a different protocol version.
pub const SAME_VERSION_HINT: &str = "install the same version of nearfar on this machine and on all nodes";

/// The sender of a message with a different protocol version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// Its package version; `None` if the message has none.
    pub program: Option<String>,
    /// Its protocol version; `None` if the message has none, as in programs that compared package versions.
    pub protocol: Option<u32>,
}

impl fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.as_deref().unwrap_or("of an unknown version");
        match self.protocol {
            Some(protocol) => write!(f, "nearfar {program} (protocol version {protocol})"),
            None => write!(f, "nearfar {program} (no protocol version)"),
        }
    }
}

impl OtherVersion {
    /// This program, as it appears in messages about another one.
    pub fn this_program() -> Self {
        Self { program: Some(version().into()), protocol: Some(PROTOCOL_VERSION) }
    }
}

/// A request with the version of its sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The sender's protocol version.
    pub protocol: u32,
    /// The sender's package version.
    pub program: String,
    /// What the node is called by who asks.
    pub node: NodeName,
    /// The question.
    pub ask: RequestBody,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestBody {
    /// Run this unless it runs or has ended, and go on with it when it was cut off.
    Start {
        /// What.
        order: JobSpec,
        /// Answer again whenever there is news, until it does not run any more.
        watch: bool,
    },
    /// How far is this job? Answer again whenever there is news, until it does not run any more; nothing is started.
    Follow(JobName),
    /// How far are these jobs? All that there are when none is named.
    #[serde(rename = "look")]
    Look(Vec<JobName>),
    /// A consistent copy of what this job has stored.
    Copy(JobName),
}

/// What a node is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// What it is called.
    pub job: JobName,
    /// The experiment as its file has it.
    pub experiment: String,
    /// The further words of `nearfar run`.
    pub words: Vec<String>,
}

/// One line of an answer, with the version of who answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The sender's protocol version.
    pub protocol: u32,
    /// The sender's package version.
    pub program: String,
    /// When it was said by the clock of who says it: milliseconds since 1970.
    pub unix_ms: u64,
    /// The answer.
    pub answer: ResponseBody,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseBody {
    /// It cannot be done.
    Refused {
        /// Why.
        #[serde(rename = "what")]
        what: String,
        /// The next step, where one is known.
        hint: Option<String>,
    },
    /// How jobs stand.
    #[serde(rename = "looks")]
    Looks(Vec<JobStatus>),
    /// So many bytes of a results file follow.
    Copy(StoreCopy),
}

/// A copy that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCopy {
    /// How long it is; 0 is that there is nothing stored yet.
    pub bytes: u64,
}

/// How a job stands on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Which.
    pub job: JobName,
    /// Whether it goes on.
    pub state: JobState,
    /// Whether this question has started it.
    pub started: bool,
    /// The process that runs it, while it runs.
    pub pid: Option<u32>,
    /// The id of its latest run; none before its first one.
    pub run: Option<String>,
    /// Trials stored of that.
    pub trials: u32,
    /// Trials of its plan, at most.
    pub expected: usize,
    /// How many of those stored count: valid or suspect ones beyond the warm-up.
    pub counted: u32,
    /// The last of what it said.
    pub says: String,
}

/// Whether a job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// A process works at it.
    Running,
    /// Its run has come to its end.
    Ended,
    /// Nobody works at it, and it has not come to its end: killed, switched off, or it could not go on.
    Stopped,
    /// It is in a queue for its node, and so has not begun.
    Waiting,
    /// The node has never heard of it.
    Absent,
}

impl JobStatus {
    /// A job of which no more is known than this.
    pub fn bare(job: &JobName, state: JobState, says: String) -> Self {
        let job = job.clone();
        Self { job, state, started: false, pid: None, run: None, trials: 0, expected: 0, counted: 0, says }
    }
}

impl JobState {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Waiting => "waiting",
            Self::Absent => "absent",
        }
    }
}

impl Request {
    /// A question by this program.
    pub fn new(node: &NodeName, ask: RequestBody) -> Self {
        Self { protocol: PROTOCOL_VERSION, program: version().into(), node: node.clone(), ask }
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// Parses a request. The version is checked first, because another version may differ in everything else.
    ///
    /// # Errors
    ///
    /// The message is not a request, or its protocol version differs; the text names both versions.
    pub fn read(text: &str) -> Result<Self, String> {
        check_version(text).map_err(|sender| {
            let sender = sender.map_or_else(|| "an unknown program".into(), |sender| sender.to_string());
            format!(
                "incompatible protocol: the request is from {sender}, this node has {}",
                OtherVersion::this_program()
            )
        })?;
        serde_json::from_str(text).map_err(|error| format!("invalid request: {error}"))
    }
}

impl Response {
    /// An answer by this program.
    pub fn new(answer: ResponseBody) -> Self {
        Self { protocol: PROTOCOL_VERSION, program: version().into(), unix_ms: now_ms(), answer }
    }

    /// By how many milliseconds the clock of who says it is ahead of this machine's, when it has just arrived; negative where it is behind.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.unix_ms.wrapping_sub(now_ms()).cast_signed()
    }

    /// As it is sent.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// Parses a line of a response.
    ///
    /// # Errors
    ///
    /// The sender if its protocol version differs, `None` if the line is not a response at all.
    pub fn read(line: &str) -> Result<Self, Option<OtherVersion>> {
        check_version(line)?;
        serde_json::from_str(line).map_err(|_| None)
    }
}

/// This machine's clock, in milliseconds since 1970.
fn now_ms() -> u64 {
    // A clock that stands before 1970 is off by all of that.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_millis() as u64
}

/// Checks the protocol version of a message.
///
/// # Errors
///
/// The sender if its protocol version differs, `None` if the text is not a message at all.
pub(crate) fn check_version(text: &str) -> Result<(), Option<OtherVersion>> {
    // A version may change the type of any other field, so a wrong type must not hide a different version.
    let head: serde_json::Value = serde_json::from_str(text).map_err(|_| None)?;
    let protocol =
        head.get("protocol").and_then(serde_json::Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let program = head.get("program").and_then(serde_json::Value::as_str).map(String::from);
    match (protocol, program) {
        (Some(PROTOCOL_VERSION), _) => Ok(()),
        (None, None) => Err(None),
        (protocol, program) => Err(Some(OtherVersion { program, protocol })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(program: Option<&str>, protocol: Option<u32>) -> OtherVersion {
        OtherVersion { program: program.map(String::from), protocol }
    }

    #[test]
    fn messages_of_another_protocol_version_name_both_versions() {
        let cases = [
            (
                r#"{"protocol":7,"program":"9.9.9","something":"new"}"#,
                sender(Some("9.9.9"), Some(7)),
                "9.9.9 (protocol version 7)",
            ),
            // Programs before protocol versions, of this and of another package version.
            (
                r#"{"program":"0.1.0","unix_ms":1,"answer":{"looks":[]}}"#,
                sender(Some("0.1.0"), None),
                "0.1.0 (no protocol version)",
            ),
            (r#"{"program":"9.9.9"}"#, sender(Some("9.9.9"), None), "9.9.9 (no protocol version)"),
            (r#"{"protocol":0}"#, sender(None, Some(0)), "of an unknown version (protocol version 0)"),
        ];
        for (line, sender, text) in cases {
            assert_eq!(Response::read(line), Err(Some(sender)));
            let this = format!("nearfar {} (protocol version {PROTOCOL_VERSION})", version());
            let expected = format!("incompatible protocol: the request is from nearfar {text}, this node has {this}");
            assert_eq!(Request::read(line), Err(expected));
        }
        for noise in ["", "Welcome to node 7!", "{}", "[]", "null"] {
            assert_eq!(Response::read(noise), Err(None), "{noise}");
            assert!(Request::read(noise).unwrap_err().contains("an unknown program"), "{noise}");
        }
    }

    /// The same protocol with another package version is compatible.
    #[test]
    fn the_package_version_alone_does_not_matter() {
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, RequestBody::Copy(JobName::of("a", "1")));
        let text = String::from_utf8(request.to_bytes()).unwrap();
        let older = text.replace(&format!("\"program\":\"{}\"", version()), "\"program\":\"0.0.1\"");
        assert_ne!(older, text);
        assert_eq!(Request::read(&older).unwrap().program, "0.0.1");
    }

    /// A message that fails here needs a new [`PROTOCOL_VERSION`].
    #[test]
    fn messages_have_these_texts_on_the_wire() {
        let (node, job) = (NodeName::parse("n").unwrap(), JobName::of("a", "1"));
        let order = JobSpec { job: job.clone(), experiment: "x".into(), words: vec!["--smoke".into()] };
        let requests = [
            (
                RequestBody::Start { order, watch: true },
                r#"{"start":{"order":{"job":"a-1","experiment":"x","words":["--smoke"]},"watch":true}}"#,
            ),
            (RequestBody::Follow(job.clone()), r#"{"follow":"a-1"}"#),
            (RequestBody::Look(vec![job.clone()]), r#"{"look":["a-1"]}"#),
            (RequestBody::Copy(job.clone()), r#"{"copy":"a-1"}"#),
        ];
        for (ask, text) in requests {
            let request = Request { protocol: 1, program: "0.1.0".into(), node: node.clone(), ask };
            let expected = format!(r#"{{"protocol":1,"program":"0.1.0","node":"n","ask":{text}}}"#);
            assert_eq!(String::from_utf8(request.to_bytes()).unwrap(), expected);
        }
        let states = [
            (JobState::Running, "running"),
            (JobState::Ended, "ended"),
            (JobState::Stopped, "stopped"),
            (JobState::Waiting, "waiting"),
            (JobState::Absent, "absent"),
        ];
        for (state, name) in states {
            assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{name}\""));
            assert_eq!(state.name(), name);
        }
        let look = JobStatus {
            job,
            state: JobState::Running,
            started: true,
            pid: Some(7),
            run: Some("r".into()),
            trials: 1,
            expected: 2,
            counted: 3,
            says: "s".into(),
        };
        let replies = [
            (
                ResponseBody::Refused { what: "no".into(), hint: Some("try".into()) },
                r#"{"refused":{"what":"no","hint":"try"}}"#,
            ),
            (
                ResponseBody::Looks(vec![look]),
                r#"{"looks":[{"job":"a-1","state":"running","started":true,"pid":7,"run":"r","trials":1,"expected":2,"counted":3,"says":"s"}]}"#,
            ),
            (ResponseBody::Copy(StoreCopy { bytes: 7 }), r#"{"copy":{"bytes":7}}"#),
        ];
        for (answer, text) in replies {
            let reply = Response { protocol: 1, program: "0.1.0".into(), unix_ms: 5, answer };
            let expected = format!(r#"{{"protocol":1,"program":"0.1.0","unix_ms":5,"answer":{text}}}"#);
            assert_eq!(reply.to_line(), expected);
        }
    }

    #[test]
    fn what_is_said_is_heard() {
        let order =
            JobSpec { job: JobName::of("a", "1"), experiment: "x\n\"'$(y)".into(), words: vec!["--smoke".into()] };
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, RequestBody::Start { order, watch: true });
        assert_eq!(Request::read(std::str::from_utf8(&request.to_bytes()).unwrap()), Ok(request));
        let reply = Response::new(ResponseBody::Copy(StoreCopy { bytes: 7 }));
        assert_eq!(Response::read(&reply.to_line()), Ok(reply));
    }

    /// A name that came over the wire is a folder's name.
    #[test]
    fn names_are_checked_where_they_arrive() {
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, RequestBody::Copy(JobName::of("a", "1")));
        let text = String::from_utf8(request.to_bytes()).unwrap();
        assert!(Request::read(&text.replace("a-1", "../a")).unwrap_err().contains("is no name of a job"));
        assert!(Request::read(&text.replace("\"n\"", "\"..\"")).unwrap_err().contains("is no name of a node"));
    }
}
