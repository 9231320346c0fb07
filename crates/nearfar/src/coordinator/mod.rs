//! The coordinator of a fleet: builds the engine and the job of a command, merges and prints the results of the nodes.
//! It stores no state; the nodes do. Must not depend on the engine, except in `engine.rs`.

mod collect;
mod engine;
mod job;
mod status_lines;

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::{Engine, JobState, JobStatus, NodeError, NodeErrorKind, NodeName, PerNode, plain};
use indicatif::HumanDuration;
use serde_json::{Value, json};

use crate::error::{CliError, CliStatus};
use crate::output;

pub use collect::{Collected, merge_copies};
pub use engine::engine;
pub use job::job;
pub use status_lines::StatusLines;

/// Larger clock offsets are reported, because changes over time are found by date. Smaller ones can be latency.
const CLOCK_OFF_MAX: Duration = Duration::from_secs(60);

/// Warns about nodes whose clock differs from the local one.
pub fn warn_about_clocks(engine: &dyn Engine) {
    let clocks = engine.clocks_ahead_ms();
    let offset = |ahead: i64| Duration::from_millis(ahead.unsigned_abs());
    let wrong: Vec<_> = clocks.iter().filter(|(_, ahead)| offset(**ahead) > CLOCK_OFF_MAX).collect();
    for (node, ahead) in &wrong {
        let side = if **ahead > 0 { "ahead of" } else { "behind" };
        let duration = HumanDuration(offset(**ahead));
        message!("nearfar: {node}: its clock is {duration} {side} this machine's; dates of its runs are wrong");
    }
    if !wrong.is_empty() {
        message!("hint: run 'timedatectl set-ntp true' on the node before the next run; stored trials remain valid");
    }
}

/// Prints the error of each node on stderr, and each distinct hint once.
pub fn warn<'a>(errors: impl IntoIterator<Item = (&'a NodeName, &'a NodeError)>) {
    let mut hints = BTreeSet::new();
    for (node, error) in errors {
        message!("nearfar: {node}: {}", error.what);
        hints.extend(error.hint.as_deref());
    }
    hints.iter().for_each(|hint| message!("hint: {hint}"));
}

/// Returns the common exit status of the errors, `Failure` if they differ, or `None` without errors.
pub fn status<'a>(errors: impl IntoIterator<Item = &'a NodeError>) -> Option<CliStatus> {
    let mut statuses = errors.into_iter().map(status_of);
    let first = statuses.next()?;
    Some(if statuses.all(|status| status == first) { first } else { CliStatus::Failure })
}

/// Describes the failure of a job that no node has accepted.
pub fn common_failure<'a>(errors: impl IntoIterator<Item = (&'a NodeName, &'a NodeError)>) -> &'static str {
    if errors.into_iter().all(|(_, error)| error.kind == NodeErrorKind::Away) {
        "no node could be reached"
    } else {
        "no node accepted the job"
    }
}

/// Returns the error of a request that the engine rejected for all nodes.
pub fn engine_error(error: &NodeError) -> CliError {
    CliError::with(status_of(error), error)
}

fn status_of(error: &NodeError) -> CliStatus {
    match error.kind {
        NodeErrorKind::Unknown | NodeErrorKind::Unsupported => CliStatus::Usage,
        NodeErrorKind::NotPermitted => CliStatus::NotPermitted,
        NodeErrorKind::NotInstalled => CliStatus::Skipped,
        NodeErrorKind::Away
        | NodeErrorKind::JobEnded
        | NodeErrorKind::OtherVersion
        | NodeErrorKind::Refused
        | NodeErrorKind::Engine => CliStatus::Failure,
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
