//! What a coordinator asks the nearfar of a node, and what that answers: one JSON value to its standard input, lines of JSON back; behind
//! a copy's line its bytes. Both sides say their version first, and say nothing else to another one.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::{JobName, NodeName};

/// An experiment is a small text; whatever is longer is no request.
pub const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// Both sides speak alike when this is the same.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// A question with the version of who asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The version.
    pub program: String,
    /// What the node is called by who asks.
    pub node: NodeName,
    /// The question.
    pub ask: Ask,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Run this unless it runs or has ended, and go on with it when it was cut off.
    Start {
        /// What.
        order: Order,
        /// Answer again whenever there is news, until it does not run any more.
        watch: bool,
    },
    /// How far is this job? Answer again whenever there is news, until it does not run any more; nothing is started.
    Follow(JobName),
    /// How far are these jobs? All that there are when none is named.
    Look(Vec<JobName>),
    /// A consistent copy of what this job has stored.
    Copy(JobName),
}

/// What a node is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What it is called.
    pub job: JobName,
    /// The experiment as its file has it.
    pub experiment: String,
    /// The further words of `nearfar run`.
    pub words: Vec<String>,
}

/// One line of an answer, with the version of who answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The version.
    pub program: String,
    /// When it was said by the clock of who says it: milliseconds since 1970.
    pub unix_ms: u64,
    /// The answer.
    pub answer: Answer,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It cannot be done.
    Refused {
        /// Why.
        what: String,
        /// The next step, where one is known.
        hint: Option<String>,
    },
    /// How jobs stand.
    Looks(Vec<Look>),
    /// So many bytes of a results file follow.
    Copy(Copied),
}

/// A copy that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// How long it is; 0 is that there is nothing stored yet.
    pub bytes: u64,
}

/// How a job stands on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
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

impl Look {
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
    pub fn new(node: &NodeName, ask: Ask) -> Self {
        Self { program: version().into(), node: node.clone(), ask }
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// Reads a question; another version's, of which nothing else is known to be the same, is refused by its version alone.
    pub fn read(text: &str) -> Result<Self, String> {
        same_version(text).map_err(|theirs| {
            let theirs = theirs.unwrap_or_else(|| "unknown".into());
            format!("this is nearfar {}, who asks is version {theirs}", version())
        })?;
        serde_json::from_str(text).map_err(|error| format!("what is asked makes no sense: {error}"))
    }
}

impl Reply {
    /// An answer by this program.
    pub fn new(answer: Answer) -> Self {
        Self { program: version().into(), unix_ms: now_ms(), answer }
    }

    /// By how many milliseconds the clock of who says it is ahead of this machine's, when it has just arrived; negative where it is behind.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.unix_ms.wrapping_sub(now_ms()).cast_signed()
    }

    /// As it is sent.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// Reads a line; gives the other version where it is of one, none where it is no line of a nearfar.
    pub fn read(line: &str) -> Result<Self, Option<String>> {
        same_version(line)?;
        serde_json::from_str(line).map_err(|_| None)
    }
}

/// This machine's clock, in milliseconds since 1970.
fn now_ms() -> u64 {
    // A clock that stands before 1970 is off by all of that.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_millis() as u64
}

/// Gives the version that is not ours.
pub(crate) fn same_version(text: &str) -> Result<(), Option<String>> {
    #[derive(Deserialize)]
    struct Head {
        program: String,
    }
    let head: Head = serde_json::from_str(text).map_err(|_| None)?;
    if head.program == version() { Ok(()) } else { Err(Some(head.program)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_told_by_its_number_whatever_else_it_says() {
        let line = r#"{"program":"9.9.9","something":"new"}"#;
        assert_eq!(Reply::read(line), Err(Some("9.9.9".into())));
        let said = Request::read(line).unwrap_err();
        assert_eq!(said, format!("this is nearfar {}, who asks is version 9.9.9", version()));
        for noise in ["", "Welcome to node 7!", "{}", "[]", "null"] {
            assert_eq!(Reply::read(noise), Err(None), "{noise}");
            assert!(Request::read(noise).unwrap_err().ends_with("version unknown"), "{noise}");
        }
    }

    #[test]
    fn what_is_said_is_heard() {
        let order =
            Order { job: JobName::of("a", "1"), experiment: "x\n\"'$(y)".into(), words: vec!["--smoke".into()] };
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, Ask::Start { order, watch: true });
        assert_eq!(Request::read(std::str::from_utf8(&request.to_bytes()).unwrap()), Ok(request));
        let reply = Reply::new(Answer::Copy(Copied { bytes: 7 }));
        assert_eq!(Reply::read(&reply.to_line()), Ok(reply));
    }

    /// A name that came over the wire is a folder's name.
    #[test]
    fn names_are_checked_where_they_arrive() {
        let node = NodeName::parse("n").unwrap();
        let request = Request::new(&node, Ask::Copy(JobName::of("a", "1")));
        let text = String::from_utf8(request.to_bytes()).unwrap();
        assert!(Request::read(&text.replace("a-1", "../a")).unwrap_err().contains("is no name of a job"));
        assert!(Request::read(&text.replace("\"n\"", "\"..\"")).unwrap_err().contains("is no name of a node"));
    }
}
