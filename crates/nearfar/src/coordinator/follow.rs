//! A run on every node at once: started or found, watched until none goes on. A node that goes away is waited for a while; what runs
//! there does not notice.

use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use fleet::{
    JobSpec, JobState, JobStatus, NodeError, NodeErrorKind, NodeName, QueueState, Request, RequestBody, Scheduler,
    plain,
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Fleet, PerNode, looks, senseless};

/// Between two tries to reach a node that is away.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Plain lines of one node come at most this often, so that the log of many stays readable.
const LINES_APART: Duration = Duration::from_secs(10);

/// What is to be run, and how it is watched.
pub struct FollowOptions {
    /// What each node is to run, in the order of the nodes.
    pub orders: Vec<JobSpec>,
    /// Whether it is watched at all.
    pub watch: bool,
    /// How long a node that has answered and went away is waited for.
    pub patience: Duration,
    /// Whether nothing is shown meanwhile.
    pub quiet: bool,
}

/// What is heard of a node meanwhile.
enum NodeEvent {
    Look(JobStatus),
    Away(NodeError),
}

/// Has every node run its order, and gives how each stands in the end.
pub fn follow(fleet: &Fleet, wish: &FollowOptions) -> PerNode<Vec<JobStatus>> {
    let (send, receive) = channel();
    let mut shown = StatusLines::new(fleet.nodes(), wish.quiet || !wish.watch);
    std::thread::scope(|scope| {
        let mut followers = Vec::new();
        for (index, (node, order)) in fleet.nodes().iter().zip(&wish.orders).enumerate() {
            let follower =
                Follower { fleet, node, order, wish, index, tell: send.clone(), submitted: Cell::new(false) };
            followers.push(scope.spawn(move || (node.clone(), follower.to_the_end().map(|look| vec![look]))));
        }
        drop(send);
        for (index, news) in receive {
            shown.show(index, &news);
        }
        let came = followers.into_iter().map(|follower| follower.join().expect("asking a node has no reason to panic"));
        let came = came.collect();
        shown.finish();
        came
    })
}

struct Follower<'a> {
    fleet: &'a Fleet,
    node: &'a NodeName,
    order: &'a JobSpec,
    wish: &'a FollowOptions,
    index: usize,
    tell: Sender<(usize, NodeEvent)>,
    /// Whether it has been given to a queue.
    submitted: Cell<bool>,
}

impl Follower<'_> {
    /// Until it does not run any more, or is away for too long. Who never answered is not waited for.
    fn to_the_end(&self) -> Result<JobStatus, NodeError> {
        let mut heard = None;
        loop {
            match self.listen(&mut heard) {
                Err(problem) if problem.kind == NodeErrorKind::Away && self.is_worth_waiting(heard) => {
                    self.tell(NodeEvent::Away(problem));
                    std::thread::sleep(TRY_AGAIN);
                }
                end => return end,
            }
        }
    }

    fn is_worth_waiting(&self, heard: Option<Instant>) -> bool {
        self.wish.watch && heard.is_some_and(|heard| heard.elapsed() < self.wish.patience)
    }

    /// Asking again starts nothing that runs or has ended, and what a reboot cut off goes on.
    fn listen(&self, heard: &mut Option<Instant>) -> Result<JobStatus, NodeError> {
        match self.fleet.engine.queue() {
            None => self.hear(RequestBody::Start { order: self.order.clone(), watch: self.wish.watch }, heard),
            Some(queue) => self.wait_in(queue, heard),
        }
    }

    /// Until its job has had its node. What the node ran before is for the job to find.
    fn wait_in(&self, queue: &dyn Scheduler, heard: &mut Option<Instant>) -> Result<JobStatus, NodeError> {
        let job = &self.order.job;
        loop {
            let stands = queue.stands(self.node, job)?;
            *heard = Some(Instant::now());
            let look = match stands {
                QueueState::Running => self.hear(RequestBody::Follow(job.clone()), heard)?,
                QueueState::Waiting(why) => JobStatus::bare(job, JobState::Waiting, why),
                QueueState::Absent if self.submitted.replace(true) => {
                    return self.hear(RequestBody::Look(vec![job.clone()]), heard);
                }
                QueueState::Absent => {
                    let ask = RequestBody::Start { order: self.order.clone(), watch: true };
                    queue.submit(self.node, job, &Request::new(self.node, ask))?;
                    JobStatus::bare(job, JobState::Waiting, "submitted".into())
                }
            };
            self.tell(NodeEvent::Look(look.clone()));
            if look.state == JobState::Ended || !self.wish.watch {
                return Ok(look);
            }
            std::thread::sleep(TRY_AGAIN);
        }
    }

    fn hear(&self, ask: RequestBody, heard: &mut Option<Instant>) -> Result<JobStatus, NodeError> {
        let (mut talk, mut answer) = self.fleet.ask(self.node, ask)?;
        loop {
            let look = looks(answer)?.pop().ok_or_else(senseless)?;
            *heard = Some(Instant::now());
            self.tell(NodeEvent::Look(look.clone()));
            match talk.next_response()? {
                Some(next) => answer = next,
                None => return Ok(look),
            }
        }
    }

    fn tell(&self, news: NodeEvent) {
        // Who shows it is there until all have ended.
        let _ = self.tell.send((self.index, news));
    }
}

/// One line for each node, on stderr.
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
        let bars = if !quiet && std::io::stderr().is_terminal() { lines(nodes) } else { Vec::new() };
        Self { nodes, width, bars, last: vec![None; nodes.len()], quiet }
    }

    fn show(&mut self, index: usize, news: &NodeEvent) {
        let (kind, words) = in_words(news);
        let line = format!("{:width$}  {words}", self.nodes[index], width = self.width);
        if let Some(bar) = self.bars.get(index) {
            bar.set_message(line);
        } else if !self.quiet {
            let last = &mut self.last[index];
            let due = last.as_ref().is_none_or(|(at, known)| *known != kind || at.elapsed() >= LINES_APART);
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

fn lines(nodes: &[NodeName]) -> Vec<ProgressBar> {
    let style = ProgressStyle::with_template("{wide_msg}").expect("the template is constant and right");
    let all = MultiProgress::new();
    let line = |node: &NodeName| all.add(ProgressBar::new(0)).with_style(style.clone()).with_message(node.to_string());
    nodes.iter().map(line).collect()
}

/// What is told, and by what it differs from the line before.
fn in_words(news: &NodeEvent) -> (String, String) {
    match news {
        NodeEvent::Away(problem) => ("away".into(), format!("away: {}", problem.what)),
        NodeEvent::Look(look) => {
            let kind = look.state.name();
            let words = match look.state {
                JobState::Running => plain(&look.says),
                JobState::Ended => format!("ended with {} trials", look.trials),
                JobState::Waiting => format!("waits: {}", plain(&look.says)),
                _ => format!("{kind} after {} trials: {}", look.trials, plain(&look.says)),
            };
            (kind.into(), if words.is_empty() { kind.into() } else { words })
        }
    }
}
