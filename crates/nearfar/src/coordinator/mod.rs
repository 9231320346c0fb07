//! The coordinator of a fleet: sends requests to all nodes and prints the results. It stores no state; the nodes do.
//! Must not depend on how a node is reached.

mod collect;
mod follow;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleet::{
    Engine, JobName, JobState, JobStatus, NodeError, NodeErrorKind, NodeName, NodeSelector, NodeSession, RequestBody,
    ResponseBody, Slurm, Ssh, map_bounded, plain,
};
use indicatif::HumanDuration;
use serde_json::{Value, json};

use crate::cli::NodeArgs;
use crate::error::{CliError, CliStatus};
use crate::output;

pub use collect::{Collected, collect};
pub use follow::{FollowOptions, follow};

/// Maximum number of concurrent logins: enough to hide the latency of one, few enough for this machine.
const CONCURRENT_LOGINS: usize = 32;

/// Larger clock offsets are reported, because changes over time are found by date. Smaller ones can be latency.
const CLOCK_OFF_MAX: Duration = Duration::from_secs(60);

/// Nodes and the engine that reaches them.
pub struct Fleet {
    engine: Box<dyn Engine>,
    nodes: Vec<NodeName>,
    /// Clock offset of each node that has responded, in milliseconds; positive if the node is ahead.
    clocks: Mutex<BTreeMap<NodeName, i64>>,
}

/// The result of each node, in the order of the command line.
pub type PerNode<T> = Vec<(NodeName, Result<T, NodeError>)>;

impl Fleet {
    pub fn of(args: &NodeArgs) -> Result<Self, CliError> {
        let program = args.program.clone();
        let (engine, nodes): (Box<dyn Engine>, _) = match args.on.clone() {
            NodeSelector::Ssh(nodes) => (Box::new(Ssh { options: args.ssh_options.clone(), program }), nodes),
            NodeSelector::Slurm(partition) => {
                let slurm = Slurm { partition, program };
                let nodes = slurm.nodes().map_err(|error| CliError::with(status_of(&error), &error))?;
                (Box::new(slurm), nodes)
            }
            NodeSelector::Kubernetes(_) => return Err(crate::commands::kubernetes::no_connection()),
        };
        Ok(Self { engine, nodes, clocks: Mutex::default() })
    }

    pub fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    /// Returns the status of these jobs on every node; an empty list means all jobs.
    pub fn job_status(&self, jobs: &[JobName]) -> PerNode<Vec<JobStatus>> {
        self.each(|node| statuses(self.send(node, RequestBody::Status(jobs.to_vec()))?.1))
    }

    /// Sends a request to a node, and returns the session and the first response.
    fn send<'a>(&'a self, node: &'a NodeName, ask: RequestBody) -> Result<(NodeSession<'a>, ResponseBody), NodeError> {
        let mut session = NodeSession::begin(&*self.engine, node, ask)?;
        let response = session.answer()?;
        if let Some(ahead) = session.clock_ahead_ms() {
            self.clocks.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), ahead);
        }
        Ok((session, response))
    }

    /// Warns about nodes whose clock differs from the local one.
    pub fn warn_about_clocks(&self) {
        let clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = |ahead: i64| Duration::from_millis(ahead.unsigned_abs());
        let wrong: Vec<_> = clocks.iter().filter(|(_, ahead)| offset(**ahead) > CLOCK_OFF_MAX).collect();
        for (node, ahead) in &wrong {
            let side = if **ahead > 0 { "ahead of" } else { "behind" };
            let duration = HumanDuration(offset(**ahead));
            anstream::eprintln!(
                "nearfar: {node}: its clock is {duration} {side} this machine's; dates of its runs are wrong"
            );
        }
        if !wrong.is_empty() {
            anstream::eprintln!(
                "hint: run 'timedatectl set-ntp true' on the node before the next run; stored trials remain valid"
            );
        }
    }

    fn each<T: Send>(&self, request: impl Fn(&NodeName) -> Result<T, NodeError> + Sync) -> PerNode<T> {
        map_bounded(&self.nodes, CONCURRENT_LOGINS, |node| (node.clone(), request(node)))
    }
}

fn statuses(response: ResponseBody) -> Result<Vec<JobStatus>, NodeError> {
    match response {
        ResponseBody::Statuses(statuses) => Ok(statuses),
        _ => Err(unexpected_response()),
    }
}

fn unexpected_response() -> NodeError {
    NodeError::new(NodeErrorKind::Refused, "the response does not match the request")
}

/// Prints the error of each node on stderr, and each distinct hint once.
pub fn warn<'a>(errors: impl IntoIterator<Item = (&'a NodeName, &'a NodeError)>) {
    let mut hints = BTreeSet::new();
    for (node, error) in errors {
        anstream::eprintln!("nearfar: {node}: {}", error.what);
        hints.extend(error.hint.as_deref());
    }
    hints.iter().for_each(|hint| anstream::eprintln!("hint: {hint}"));
}

/// Returns the common exit status of the errors, `Failure` if they differ, or `None` without errors.
pub fn status<'a>(errors: impl IntoIterator<Item = &'a NodeError>) -> Option<CliStatus> {
    let mut statuses = errors.into_iter().map(status_of);
    let first = statuses.next()?;
    Some(if statuses.all(|status| status == first) { first } else { CliStatus::Failure })
}

fn status_of(error: &NodeError) -> CliStatus {
    match error.kind {
        NodeErrorKind::Unknown => CliStatus::Usage,
        NodeErrorKind::NotPermitted => CliStatus::NotPermitted,
        NodeErrorKind::NotInstalled => CliStatus::Skipped,
        NodeErrorKind::Away | NodeErrorKind::OtherVersion | NodeErrorKind::Refused | NodeErrorKind::Engine => {
            CliStatus::Failure
        }
    }
}

pub fn errors<T>(results: &PerNode<T>) -> impl Iterator<Item = (&NodeName, &NodeError)> {
    results.iter().filter_map(|(node, result)| Some((node, result.as_ref().err()?)))
}

/// Returns a table with one row for each job of each node that responded.
pub fn table(results: &PerNode<Vec<JobStatus>>) -> String {
    let rows: Vec<(&NodeName, &JobStatus)> =
        results.iter().flat_map(|(node, jobs)| jobs.iter().flatten().map(move |job| (node, job))).collect();
    let width = |length: fn(&NodeName, &JobStatus) -> usize, min: usize| {
        rows.iter().map(|(node, job)| length(node, job)).max().unwrap_or(0).max(min)
    };
    let nodes = width(|node, _| node.as_str().chars().count(), 4);
    let jobs = width(|_, job| job.job.as_str().len(), 3);
    let mut text = format!("{:nodes$}  {:jobs$}  {:8} {:>13}  {:16}\n", "node", "job", "state", "trials", "run");
    for (node, job) in rows {
        let trials = match job.state {
            JobState::Ended => job.trials.to_string(),
            _ => format!("{} of {}", job.trials, job.expected),
        };
        let run = plain(job.run.as_deref().unwrap_or("-"));
        let line = format!("{node:nodes$}  {:jobs$}  {:8} {trials:>13}  {run:16}", job.job, job.state.name());
        let message = if job.state == JobState::Ended { String::new() } else { plain(&job.says) };
        text.push_str(format!("{line}  {message}").trim_end());
        text.push('\n');
    }
    text
}

pub fn status_json(results: &PerNode<Vec<JobStatus>>) -> Value {
    let node = |(node, result): &(NodeName, Result<Vec<JobStatus>, NodeError>)| match result {
        Ok(jobs) => json!({ "node": node, "jobs": jobs }),
        Err(error) => json!({ "node": node, "problem": error.what, "hint": error.hint }),
    };
    json!({ "nodes": results.iter().map(node).collect::<Vec<_>>() })
}

pub fn show(results: &PerNode<Vec<JobStatus>>, as_json: bool) -> Result<(), CliError> {
    if as_json {
        return output::print_json(&status_json(results));
    }
    output::print(&table(results))
}
