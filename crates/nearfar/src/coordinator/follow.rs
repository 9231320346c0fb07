//! Starts or finds the job on every node, and follows it until it stops. A node that stops responding is retried until
//! a timeout, which does not affect the job.

use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use fleet::{
    JobSpec, JobState, JobStatus, NodeError, NodeErrorKind, NodeName, QueueState, Request, RequestBody, Scheduler,
    plain,
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Fleet, PerNode, statuses, unexpected_response};

/// Interval of attempts to reach an unreachable node, and of polls of a queue.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum interval of lines of one node without a terminal, which keeps logs of many nodes readable.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

pub struct FollowOptions {
    /// The job of each node, in the order of the nodes.
    pub orders: Vec<JobSpec>,
    /// Whether to follow the jobs until they stop.
    pub watch: bool,
    /// Time limit for a node that has responded and became unreachable.
    pub patience: Duration,
    pub quiet: bool,
}

/// Change of a node's status.
enum NodeEvent {
    Status(JobStatus),
    Away(NodeError),
}

/// Runs the job of every node, and returns their final statuses.
pub fn follow(fleet: &Fleet, options: &FollowOptions) -> PerNode<Vec<JobStatus>> {
    let (send, receive) = channel();
    let mut lines = StatusLines::new(fleet.nodes(), options.quiet || !options.watch);
    std::thread::scope(|scope| {
        let mut followers = Vec::new();
        for (index, (node, order)) in fleet.nodes().iter().zip(&options.orders).enumerate() {
            let follower =
                Follower { fleet, node, order, options, index, events: send.clone(), submitted: Cell::new(false) };
            followers.push(scope.spawn(move || (node.clone(), follower.run().map(|status| vec![status]))));
        }
        drop(send);
        for (index, event) in receive {
            lines.show(index, &event);
        }
        let results = followers.into_iter().map(|follower| follower.join().expect("followers do not panic"));
        let results = results.collect();
        lines.finish();
        results
    })
}

struct Follower<'a> {
    fleet: &'a Fleet,
    node: &'a NodeName,
    order: &'a JobSpec,
    options: &'a FollowOptions,
    index: usize,
    events: Sender<(usize, NodeEvent)>,
    /// Whether the job has been submitted to the scheduler.
    submitted: Cell<bool>,
}

impl Follower<'_> {
    /// Follows the job until it stops or the node times out. A node that never responded is not retried.
    fn run(&self) -> Result<JobStatus, NodeError> {
        let mut last_seen = None;
        loop {
            match self.try_follow(&mut last_seen) {
                Err(error) if error.kind == NodeErrorKind::Away && self.can_retry(last_seen) => {
                    self.report(NodeEvent::Away(error));
                    std::thread::sleep(RETRY_INTERVAL);
                }
                end => return end,
            }
        }
    }

    fn can_retry(&self, last_seen: Option<Instant>) -> bool {
        self.options.watch && last_seen.is_some_and(|time| time.elapsed() < self.options.patience)
    }

    /// A repeated request does not restart a job that is running or has ended, and resumes one after a reboot.
    fn try_follow(&self, last_seen: &mut Option<Instant>) -> Result<JobStatus, NodeError> {
        match self.fleet.engine.queue() {
            None => {
                self.request(RequestBody::Start { order: self.order.clone(), watch: self.options.watch }, last_seen)
            }
            Some(queue) => self.follow_queue(queue, last_seen),
        }
    }

    /// Submits the job unless it is queued, and follows it until it leaves the queue. The job resumes earlier runs.
    fn follow_queue(&self, queue: &dyn Scheduler, last_seen: &mut Option<Instant>) -> Result<JobStatus, NodeError> {
        let job = &self.order.job;
        loop {
            let state = queue.queue_state(self.node, job)?;
            *last_seen = Some(Instant::now());
            let status = match state {
                QueueState::Running => self.request(RequestBody::Follow(job.clone()), last_seen)?,
                QueueState::Waiting(reason) => JobStatus::bare(job, JobState::Waiting, reason),
                QueueState::Absent if self.submitted.replace(true) => {
                    return self.request(RequestBody::Status(vec![job.clone()]), last_seen);
                }
                QueueState::Absent => {
                    let ask = RequestBody::Start { order: self.order.clone(), watch: true };
                    queue.submit(self.node, job, &Request::new(self.node, ask))?;
                    JobStatus::bare(job, JobState::Waiting, "submitted".into())
                }
            };
            self.report(NodeEvent::Status(status.clone()));
            if status.state == JobState::Ended || !self.options.watch {
                return Ok(status);
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    fn request(&self, ask: RequestBody, last_seen: &mut Option<Instant>) -> Result<JobStatus, NodeError> {
        let (mut session, mut response) = self.fleet.send(self.node, ask)?;
        loop {
            let status = statuses(response)?.pop().ok_or_else(unexpected_response)?;
            *last_seen = Some(Instant::now());
            self.report(NodeEvent::Status(status.clone()));
            match session.next_response()? {
                Some(next) => response = next,
                None => return Ok(status),
            }
        }
    }

    fn report(&self, event: NodeEvent) {
        // The receiver outlives all followers.
        let _ = self.events.send((self.index, event));
    }
}

/// Prints the status of each node on stderr: a live line on a terminal, otherwise lines of a log.
struct StatusLines<'a> {
    nodes: &'a [NodeName],
    width: usize,
    bars: Vec<ProgressBar>,
    last: Vec<Option<(Instant, String)>>,
    quiet: bool,
}

impl<'a> StatusLines<'a> {
    fn new(nodes: &'a [NodeName], quiet: bool) -> Self {
        let width = nodes.iter().map(|node| node.as_str().chars().count()).max().unwrap_or(0);
        let bars = if !quiet && std::io::stderr().is_terminal() { progress_bars(nodes) } else { Vec::new() };
        Self { nodes, width, bars, last: vec![None; nodes.len()], quiet }
    }

    fn show(&mut self, index: usize, event: &NodeEvent) {
        let (kind, text) = describe(event);
        let line = format!("{:width$}  {text}", self.nodes[index], width = self.width);
        if let Some(bar) = self.bars.get(index) {
            bar.set_message(line);
        } else if !self.quiet {
            let last = &mut self.last[index];
            let due = last.as_ref().is_none_or(|(at, known)| *known != kind || at.elapsed() >= LINE_INTERVAL);
            if due {
                *last = Some((Instant::now(), kind));
                anstream::eprintln!("{line}");
            }
        }
    }

    fn finish(&self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn progress_bars(nodes: &[NodeName]) -> Vec<ProgressBar> {
    let style = ProgressStyle::with_template("{wide_msg}").expect("the template is valid");
    let all = MultiProgress::new();
    let line = |node: &NodeName| all.add(ProgressBar::new(0)).with_style(style.clone()).with_message(node.to_string());
    nodes.iter().map(line).collect()
}

/// Returns the kind of an event, whose change is printed at once, and its text.
fn describe(event: &NodeEvent) -> (String, String) {
    match event {
        NodeEvent::Away(error) => ("away".into(), format!("away: {}", error.what)),
        NodeEvent::Status(status) => {
            let kind = status.state.name();
            let text = match status.state {
                JobState::Running => plain(&status.says),
                JobState::Ended => format!("ended with {} trials", status.trials),
                JobState::Waiting => format!("waiting: {}", plain(&status.says)),
                _ => format!("{kind} after {} trials: {}", status.trials, plain(&status.says)),
            };
            (kind.into(), if text.is_empty() { kind.into() } else { text })
        }
    }
}
