//! The coordinator's side of a fleet: asks every node, and says what came of each. Keeps nothing: the nodes know how they stand. Must not
//! know how a node is reached.

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

/// Logins at a time: enough to hide how long one takes, few enough for the machine that makes them all.
const AT_ONCE: usize = 32;

/// Clocks that are farther off than this are told: dates are what changes over time are found by. Less is what a slow line does.
const CLOCK_OFF_MAX: Duration = Duration::from_secs(60);

/// Machines, and the way to them.
pub struct Fleet {
    engine: Box<dyn Engine>,
    nodes: Vec<NodeName>,
    /// By how many milliseconds the clocks of those that have answered are ahead of ours.
    clocks: Mutex<BTreeMap<NodeName, i64>>,
}

/// What came of each node, in the order in which they were named.
pub type PerNode<T> = Vec<(NodeName, Result<T, NodeError>)>;

impl Fleet {
    pub fn of(reach: &NodeArgs) -> Result<Self, CliError> {
        let program = reach.program.clone();
        let (engine, nodes): (Box<dyn Engine>, _) = match reach.on.clone() {
            NodeSelector::Ssh(nodes) => (Box::new(Ssh { options: reach.ssh_options.clone(), program }), nodes),
            NodeSelector::Slurm(partition) => {
                let slurm = Slurm { partition, program };
                let nodes = slurm.nodes().map_err(|problem| CliError::with(status_of(&problem), &problem))?;
                (Box::new(slurm), nodes)
            }
            // Whoever writes a manifest is not a coordinator.
            NodeSelector::Kubernetes(_) => return Err(crate::commands::kubernetes::not_asked()),
        };
        Ok(Self { engine, nodes, clocks: Mutex::default() })
    }

    pub fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    /// How jobs stand on every node, all that there are when none is named.
    pub fn look(&self, jobs: &[JobName]) -> PerNode<Vec<JobStatus>> {
        self.each(|node| looks(self.ask(node, RequestBody::Look(jobs.to_vec()))?.1))
    }

    /// Asks a node; gives its first answer and what else it may say.
    fn ask<'a>(&'a self, node: &'a NodeName, ask: RequestBody) -> Result<(NodeSession<'a>, ResponseBody), NodeError> {
        let mut talk = NodeSession::begin(&*self.engine, node, ask)?;
        let answer = talk.answer()?;
        if let Some(ahead) = talk.clock_ahead_ms() {
            self.clocks.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), ahead);
        }
        Ok((talk, answer))
    }

    /// Says on stderr whose clock is off, of those that were asked.
    pub fn complain_of_clocks(&self) {
        let clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let off = |ahead: i64| Duration::from_millis(ahead.unsigned_abs());
        let wrong: Vec<_> = clocks.iter().filter(|(_, ahead)| off(**ahead) > CLOCK_OFF_MAX).collect();
        for (node, ahead) in &wrong {
            let side = if **ahead > 0 { "ahead of" } else { "behind" };
            let far = HumanDuration(off(**ahead));
            anstream::eprintln!("nearfar: {node}: its clock is {far} {side} this machine's; its runs bear its dates");
        }
        if !wrong.is_empty() {
            anstream::eprintln!(
                "hint: no trial is lost by that; 'timedatectl set-ntp true' there, before the next run"
            );
        }
    }

    fn each<T: Send>(&self, ask: impl Fn(&NodeName) -> Result<T, NodeError> + Sync) -> PerNode<T> {
        map_bounded(&self.nodes, AT_ONCE, |node| (node.clone(), ask(node)))
    }
}

fn looks(answer: ResponseBody) -> Result<Vec<JobStatus>, NodeError> {
    match answer {
        ResponseBody::Looks(looks) => Ok(looks),
        _ => Err(senseless()),
    }
}

fn senseless() -> NodeError {
    NodeError::new(NodeErrorKind::Refused, "it answers what was not asked")
}

/// Says on stderr what went wrong with which node; a hint that many share stands once.
pub fn warn<'a>(problems: impl IntoIterator<Item = (&'a NodeName, &'a NodeError)>) {
    let mut hints = BTreeSet::new();
    for (node, problem) in problems {
        anstream::eprintln!("nearfar: {node}: {}", problem.what);
        hints.extend(problem.hint.as_deref());
    }
    hints.iter().for_each(|hint| anstream::eprintln!("hint: {hint}"));
}

/// The status that all problems have in common; that of a failure when they differ.
pub fn status<'a>(problems: impl IntoIterator<Item = &'a NodeError>) -> Option<CliStatus> {
    let mut statuses = problems.into_iter().map(status_of);
    let first = statuses.next()?;
    Some(if statuses.all(|status| status == first) { first } else { CliStatus::Failure })
}

fn status_of(problem: &NodeError) -> CliStatus {
    match problem.kind {
        NodeErrorKind::Unknown => CliStatus::Usage,
        NodeErrorKind::NotPermitted => CliStatus::NotPermitted,
        NodeErrorKind::NotInstalled => CliStatus::Skipped,
        NodeErrorKind::Away | NodeErrorKind::OtherVersion | NodeErrorKind::Refused | NodeErrorKind::Engine => {
            CliStatus::Failure
        }
    }
}

/// The problems among what came.
pub fn problems<T>(came: &PerNode<T>) -> impl Iterator<Item = (&NodeName, &NodeError)> {
    came.iter().filter_map(|(node, result)| Some((node, result.as_ref().err()?)))
}

/// One line for each job of each node that answered, for stdout.
pub fn table(came: &PerNode<Vec<JobStatus>>) -> String {
    let rows: Vec<(&NodeName, &JobStatus)> =
        came.iter().flat_map(|(node, looks)| looks.iter().flatten().map(move |look| (node, look))).collect();
    let width = |text: fn(&NodeName, &JobStatus) -> usize, least: usize| {
        rows.iter().map(|(node, look)| text(node, look)).max().unwrap_or(0).max(least)
    };
    let nodes = width(|node, _| node.as_str().chars().count(), 4);
    let jobs = width(|_, look| look.job.as_str().len(), 3);
    let mut text = format!("{:nodes$}  {:jobs$}  {:8} {:>13}  {:16}\n", "node", "job", "state", "trials", "run");
    for (node, look) in rows {
        let trials = match look.state {
            JobState::Ended => look.trials.to_string(),
            _ => format!("{} of {}", look.trials, look.expected),
        };
        let run = plain(look.run.as_deref().unwrap_or("-"));
        let line = format!("{node:nodes$}  {:jobs$}  {:8} {trials:>13}  {run:16}", look.job, look.state.name());
        let says = if look.state == JobState::Ended { String::new() } else { plain(&look.says) };
        text.push_str(format!("{line}  {says}").trim_end());
        text.push('\n');
    }
    text
}

pub fn status_json(came: &PerNode<Vec<JobStatus>>) -> Value {
    let node = |(node, result): &(NodeName, Result<Vec<JobStatus>, NodeError>)| match result {
        Ok(looks) => json!({ "node": node, "jobs": looks }),
        Err(problem) => json!({ "node": node, "problem": problem.what, "hint": problem.hint }),
    };
    json!({ "nodes": came.iter().map(node).collect::<Vec<_>>() })
}

pub fn show(came: &PerNode<Vec<JobStatus>>, as_json: bool) -> Result<(), CliError> {
    if as_json {
        return output::print_json(&status_json(came));
    }
    output::print(&table(came))
}
