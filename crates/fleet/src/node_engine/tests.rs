//! Runs the engine with a launcher that starts a shell script in place of nearfar.

use std::process::Command;
use std::time::Duration;

use super::*;
use crate::engine::{Engine, FleetJob, Reply};
use crate::launcher::{QueueState, Scheduler};
use crate::{ChildExit, JobSpec, JobState, Request, Response, StoreCopy};

/// Exit status of a request whose batch job ended.
const JOB_ENDED: i32 = 9;

/// Exit status of a request to an unreachable node.
const AWAY: i32 = 8;

/// Runs a script with the name of the node as argument and the request in `$request`.
struct Script(String);

impl Launcher for Script {
    fn command(&self, node: &NodeName, _: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("read -r request; {}", self.0), "sh", node.as_str()]);
        command
    }

    fn explain(&self, exit: &ChildExit) -> Option<NodeError> {
        match exit.status.code() {
            Some(JOB_ENDED) => Some(NodeError::new(NodeErrorKind::JobEnded, "the job ended")),
            Some(AWAY) => Some(NodeError::new(NodeErrorKind::Away, "no connection")),
            _ => None,
        }
    }

    fn program(&self) -> &'static str {
        "nearfar"
    }
}

/// A script for nodes of a scheduler whose jobs end at once.
struct Queued(Script);

impl Launcher for Queued {
    fn command(&self, node: &NodeName, arg: &str) -> Command {
        self.0.command(node, arg)
    }

    fn explain(&self, exit: &ChildExit) -> Option<NodeError> {
        self.0.explain(exit)
    }

    fn program(&self) -> &str {
        self.0.program()
    }

    fn queue(&self) -> Option<&dyn Scheduler> {
        Some(self)
    }
}

impl Scheduler for Queued {
    fn queue_state(&self, _: &NodeName, _: &JobName) -> Result<QueueState, NodeError> {
        Ok(QueueState::Absent)
    }

    fn submit(&self, _: &NodeName, _: &JobName, _: &Request) -> Result<(), NodeError> {
        Ok(())
    }
}

fn nodes() -> Vec<NodeName> {
    ["a", "b"].map(|node| NodeName::parse(node).unwrap()).into()
}

fn engine(script: String) -> NodeEngine {
    NodeEngine::new(Script(script), nodes())
}

fn job() -> FleetJob {
    let order = JobSpec { job: status().job, experiment: String::new(), words: vec!["--label={node}".into()] };
    FleetJob { order, privileges: vec![], duration: Ok(None) }
}

fn status() -> JobStatus {
    JobStatus::bare(&JobName::of("quick", "1"), JobState::Ended, String::new())
}

fn line(answer: ResponseBody) -> String {
    Response::new(answer).to_line()
}

#[test]
fn each_node_starts_its_own_job() {
    let statuses = line(ResponseBody::Statuses(vec![status()]));
    let engine =
        engine(format!("case $1:$request in a:*label=a*) echo '{statuses}';; *) echo full >&2; exit 3;; esac"));
    let Ok(Reply::Nodes(jobs)) = engine.submit(&job()) else { panic!("the engine connects to its nodes") };
    assert_eq!(jobs.orders[1].words, ["--label=b"]);
    let mut events = Vec::new();
    let options = FollowOptions { watch: false, patience: Duration::ZERO };
    let results = jobs.follow(options, |node, event| events.push(format!("{node} {event:?}")));
    assert_eq!(results[0], (engine.nodes[0].clone(), Ok(vec![status()])));
    let error = results[1].1.as_ref().unwrap_err();
    assert_eq!((error.kind, &*error.what), (NodeErrorKind::Refused, "nearfar ended with exit status: 3: full"));
    assert_eq!(events, [format!("0 {:?}", NodeEvent::Status(status()))]);
    assert_eq!(engine.clocks_ahead_ms().into_keys().collect::<Vec<_>>(), engine.nodes[..1]);
}

#[test]
fn results_of_all_jobs_are_copied_to_one_directory_per_node() {
    let statuses = line(ResponseBody::Statuses(vec![status()]));
    let copy = line(ResponseBody::Copy(StoreCopy { bytes: 2 }));
    let engine = engine(format!("case $request in *look*) echo '{statuses}';; *) echo '{copy}'; echo $1;; esac"));
    let Ok(Reply::Nodes(copies)) = engine.collect(&[]) else { panic!("the engine connects to its nodes") };
    let dir = tempfile::tempdir().unwrap();
    let copied = copies.fetch(dir.path()).into_iter().map(|(_, jobs)| jobs.unwrap());
    for (index, (jobs, text)) in copied.zip(["a\n", "b\n"]).enumerate() {
        let file = dir.path().join(index.to_string()).join("quick-1");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        assert_eq!(jobs, [JobCopy { job: status().job, file: Some(file) }]);
    }
}

#[test]
fn only_an_unreachable_node_is_reported_as_away() {
    let dir = tempfile::tempdir().unwrap();
    let (statuses, first) = (line(ResponseBody::Statuses(vec![status()])), dir.path().display());
    // The first request ends with the job that it runs in on node a, and with the connection on node b.
    let script = format!(
        "if mkdir {first}/$1; then case $1 in a) exit {JOB_ENDED};; *) exit {AWAY};; esac; fi; echo '{statuses}'"
    );
    let engine = NodeEngine::new(Queued(Script(script)), nodes());
    let Ok(Reply::Nodes(jobs)) = engine.submit(&job()) else { panic!("the engine connects to its nodes") };
    let mut away = Vec::new();
    let options = FollowOptions { watch: true, patience: Duration::from_secs(60) };
    let results = jobs.follow(options, |node, event| {
        if let NodeEvent::Away(error) = event {
            away.push((node, error.what.clone()));
        }
    });
    assert!(results.iter().all(|(_, statuses)| *statuses == Ok(vec![status()])), "{results:?}");
    assert_eq!(away, [(1, "no connection".to_string())]);
}

#[test]
fn request_in_a_job_that_ended_is_repeated_once() {
    let dir = tempfile::tempdir().unwrap();
    let (statuses, copy) =
        (line(ResponseBody::Statuses(vec![status()])), line(ResponseBody::Copy(StoreCopy { bytes: 2 })));
    // The copy of node a is interrupted once, that of node b always.
    let first = dir.path().join("first").display().to_string();
    let engine = engine(format!(
        "case $1:$request in *look*) echo '{statuses}';; \
         a:*) echo '{copy}'; if mkdir {first}; then printf x; exit {JOB_ENDED}; fi; echo $1;; \
         *) echo '{copy}'; exit {JOB_ENDED};; esac"
    ));
    let Ok(Reply::Nodes(copies)) = engine.collect(&[]) else { panic!("the engine connects to its nodes") };
    let copied = copies.fetch(&dir.path().join("out"));
    let file = copied[0].1.as_ref().unwrap()[0].file.clone().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "a\n");
    assert_eq!(copied[1].1.as_ref().unwrap_err().kind, NodeErrorKind::JobEnded);
}

#[test]
fn login_shell_that_refuses_commands_is_quoted() {
    let refused = |script: &str| engine(script.into()).status(&[]).unwrap().remove(0).1.unwrap_err();
    let error = refused("echo 'This account is currently not available.'; exit 1");
    assert_eq!(error.kind, NodeErrorKind::Refused);
    assert_eq!(error.what, "nearfar ended with exit status: 1: This account is currently not available.");
    assert!(error.hint.is_some_and(|hint| hint.contains("nologin")));
    assert_eq!(refused("printf 'no newline'; exit 1").what, "nearfar ended with exit status: 1: no newline");
    assert_eq!(refused("exit 1").what, "nearfar ended with exit status: 1: no output");
    assert_eq!(refused("echo why >&2; exit 1").what, "nearfar ended with exit status: 1: why");
}
