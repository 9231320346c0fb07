//! Starts or finds the job on every node, and follows it until it stops. A node that stops responding is retried until
//! a timeout, which does not affect the job.

use std::cell::Cell;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::{NodeEngine, statuses, unexpected_response};
use crate::error::PerNode;
use crate::launcher::{QueueState, Scheduler};
use crate::{JobSpec, JobState, JobStatus, NodeError, NodeErrorKind, NodeName, Request, RequestBody};

/// Interval of attempts to reach an unreachable node, and of polls of a queue.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A job on every node.
#[derive(Debug)]
pub struct NodeJobs<'a> {
    pub(super) engine: &'a NodeEngine,
    /// The job of each node, in the order of the nodes.
    pub(super) orders: Vec<JobSpec>,
}

#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// Whether to follow the jobs until they stop.
    pub watch: bool,
    /// Time limit for a node that has responded and became unreachable.
    pub patience: Duration,
}

/// Change of a node's status.
#[derive(Debug)]
pub enum NodeEvent {
    Status(JobStatus),
    Away(NodeError),
}

impl NodeJobs<'_> {
    /// Runs the job of every node, calls `show` with the index of the node at each change, and returns their final
    /// statuses.
    pub fn follow(&self, options: FollowOptions, mut show: impl FnMut(usize, &NodeEvent)) -> PerNode<Vec<JobStatus>> {
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            let mut followers = Vec::new();
            for (index, (node, order)) in self.engine.nodes.iter().zip(&self.orders).enumerate() {
                let (engine, events, submitted) = (self.engine, send.clone(), Cell::new(false));
                let follower = Follower { engine, node, order, options, index, events, submitted };
                followers.push(scope.spawn(move || (node.clone(), follower.run().map(|status| vec![status]))));
            }
            drop(send);
            for (index, event) in receive {
                show(index, &event);
            }
            followers.into_iter().map(|follower| follower.join().expect("followers do not panic")).collect()
        })
    }
}

struct Follower<'a> {
    engine: &'a NodeEngine,
    node: &'a NodeName,
    order: &'a JobSpec,
    options: FollowOptions,
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
                Err(error) if error.may_pass() && self.can_retry(last_seen) => {
                    // The end of a batch job is expected, and its node remains reachable.
                    if error.kind != NodeErrorKind::JobEnded {
                        self.report(NodeEvent::Away(error));
                    }
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
        match self.engine.launcher.queue() {
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
                QueueState::Running => match self.request(RequestBody::Follow(job.clone()), last_seen) {
                    // It leaves the queue; then its final status is requested.
                    Err(error) if error.kind == NodeErrorKind::JobEnded => {
                        std::thread::sleep(RETRY_INTERVAL);
                        continue;
                    }
                    result => result?,
                },
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
        let (mut session, mut response) = self.engine.send(self.node, ask)?;
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
