//! Messages between a coordinator and the nearfar on a node. The request is one JSON value on the node's standard
//! input; the response is lines of JSON on its standard output, and the bytes of a copy follow the line that
//! announces it. Each side sends the protocol version in every message and rejects messages of a different version.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::{JobName, NodeName};

/// Maximum length of a request. Experiments are small.
pub const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// Version of the messages. Increment it when a field or a variant changes on the wire.
pub const PROTOCOL_VERSION: u32 = 1;

/// The package version, for error messages and hints. [`PROTOCOL_VERSION`] decides whether two programs can
/// communicate.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Hint for a message with a different protocol version.
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
    /// The coordinator's name of the node.
    pub node: NodeName,
    pub ask: RequestBody,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestBody {
    /// Start the job unless it is running or has ended; resume it if it was interrupted.
    Start {
        order: JobSpec,
        /// Whether to send the status again whenever it changes, until the job stops.
        watch: bool,
    },
    /// Send the status of the job, and again whenever it changes, until the job stops. Starts nothing.
    Follow(JobName),
    /// Send the status of these jobs; an empty list means all jobs.
    #[serde(rename = "look")]
    Status(Vec<JobName>),
    /// Send a consistent copy of the results file of the job.
    Copy(JobName),
}

/// A job for one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub job: JobName,
    /// Text of the experiment's TOML file.
    pub experiment: String,
    /// Further arguments of `nearfar run`.
    pub words: Vec<String>,
}

/// Placeholder for the node's name in the arguments of a job.
pub const NODE_PLACEHOLDER: &str = "{node}";

/// Replaces `{node}` in the arguments.
pub fn for_node(words: &[String], node: &NodeName) -> Vec<String> {
    words.iter().map(|word| word.replace(NODE_PLACEHOLDER, node.as_str())).collect()
}

/// One line of output, with the version of its sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The sender's protocol version.
    pub protocol: u32,
    /// The sender's package version.
    pub program: String,
    /// Time of sending by the sender's clock: milliseconds since 1970.
    pub unix_ms: u64,
    pub answer: ResponseBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseBody {
    Refused {
        /// Error message, without the name of the node.
        #[serde(rename = "what")]
        what: String,
        /// The next step for the user, if one is known.
        hint: Option<String>,
    },
    /// The status of each requested job.
    #[serde(rename = "looks")]
    Statuses(Vec<JobStatus>),
    /// Announces a results file, whose bytes follow this line.
    Copy(StoreCopy),
}

/// A copy of a results file that follows the response line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCopy {
    /// Length in bytes. It is 0 before the job has a results file.
    pub bytes: u64,
}

/// Status of a job on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    pub job: JobName,
    pub state: JobState,
    /// Whether this request started the job.
    pub started: bool,
    /// The process of the job; `None` if it is not running.
    pub pid: Option<u32>,
    /// The id of the latest run; `None` before the first run.
    pub run: Option<String>,
    /// Number of stored trials of the latest run.
    pub trials: u32,
    /// Maximum number of trials in the plan.
    pub expected: usize,
    /// Number of stored trials that are valid or suspect, without the warm-up.
    pub counted: u32,
    /// The last message of the job.
    pub says: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// A process is running the job.
    Running,
    /// The run has ended.
    Ended,
    /// No process is running the job and its run has not ended: it was killed or failed, or the node lost power.
    Stopped,
    /// Queued for its node.
    Waiting,
    /// Unknown to the node.
    Absent,
}

impl JobStatus {
    /// Creates a status without a run.
    pub fn bare(job: &JobName, state: JobState, says: String) -> Self {
        let job = job.clone();
        Self { job, state, started: false, pid: None, run: None, trials: 0, expected: 0, counted: 0, says }
    }
}

impl JobState {
    /// Returns the name on the wire.
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
    /// Creates a request with the version of this program.
    pub fn new(node: &NodeName, ask: RequestBody) -> Self {
        Self { protocol: PROTOCOL_VERSION, program: version().into(), node: node.clone(), ask }
    }

    /// Returns the request as JSON.
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
    /// Creates a response with the version of this program and the current time.
    pub fn new(answer: ResponseBody) -> Self {
        Self { protocol: PROTOCOL_VERSION, program: version().into(), unix_ms: now_ms(), answer }
    }

    /// Returns the milliseconds by which the sender's clock is ahead of the local one; negative if it is behind.
    /// Call it when the response arrives.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.unix_ms.wrapping_sub(now_ms()).cast_signed()
    }

    /// Returns the response as a line of JSON, without the line feed.
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
    // A clock before 1970 counts as 1970.
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
    fn protocol_version_mismatch_error_names_both_versions() {
        let cases = [
            (
                r#"{"protocol":7,"program":"9.9.9","something":"new"}"#,
                sender(Some("9.9.9"), Some(7)),
                "9.9.9 (protocol version 7)",
            ),
            // Programs without a protocol version, of this and of another package version.
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

    #[test]
    fn different_package_version_is_compatible() {
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, RequestBody::Copy(JobName::of("a", "1")));
        let text = String::from_utf8(request.to_bytes()).unwrap();
        let older = text.replace(&format!("\"program\":\"{}\"", version()), "\"program\":\"0.0.1\"");
        assert_ne!(older, text);
        assert_eq!(Request::read(&older).unwrap().program, "0.0.1");
    }

    /// If a message fails here, increment [`PROTOCOL_VERSION`].
    #[test]
    fn wire_format_of_messages_is_stable() {
        let (node, job) = (NodeName::parse("n").unwrap(), JobName::of("a", "1"));
        let order = JobSpec { job: job.clone(), experiment: "x".into(), words: vec!["--smoke".into()] };
        let requests = [
            (
                RequestBody::Start { order, watch: true },
                r#"{"start":{"order":{"job":"a-1","experiment":"x","words":["--smoke"]},"watch":true}}"#,
            ),
            (RequestBody::Follow(job.clone()), r#"{"follow":"a-1"}"#),
            (RequestBody::Status(vec![job.clone()]), r#"{"look":["a-1"]}"#),
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
        let status = JobStatus {
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
        let responses = [
            (
                ResponseBody::Refused { what: "no".into(), hint: Some("try".into()) },
                r#"{"refused":{"what":"no","hint":"try"}}"#,
            ),
            (
                ResponseBody::Statuses(vec![status]),
                r#"{"looks":[{"job":"a-1","state":"running","started":true,"pid":7,"run":"r","trials":1,"expected":2,"counted":3,"says":"s"}]}"#,
            ),
            (ResponseBody::Copy(StoreCopy { bytes: 7 }), r#"{"copy":{"bytes":7}}"#),
        ];
        for (answer, text) in responses {
            let response = Response { protocol: 1, program: "0.1.0".into(), unix_ms: 5, answer };
            let expected = format!(r#"{{"protocol":1,"program":"0.1.0","unix_ms":5,"answer":{text}}}"#);
            assert_eq!(response.to_line(), expected);
        }
    }

    #[test]
    fn messages_round_trip() {
        let order =
            JobSpec { job: JobName::of("a", "1"), experiment: "x\n\"'$(y)".into(), words: vec!["--smoke".into()] };
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, RequestBody::Start { order, watch: true });
        assert_eq!(Request::read(std::str::from_utf8(&request.to_bytes()).unwrap()), Ok(request));
        let response = Response::new(ResponseBody::Copy(StoreCopy { bytes: 7 }));
        assert_eq!(Response::read(&response.to_line()), Ok(response));
    }

    /// The node uses names from requests as directory names.
    #[test]
    fn invalid_names_in_requests_are_rejected() {
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, RequestBody::Copy(JobName::of("a", "1")));
        let text = String::from_utf8(request.to_bytes()).unwrap();
        assert!(Request::read(&text.replace("a-1", "../a")).unwrap_err().contains("invalid job name"));
        assert!(Request::read(&text.replace("\"n\"", "\"..\"")).unwrap_err().contains("invalid node name"));
    }
}
