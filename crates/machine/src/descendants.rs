//! The processes of a trial: its leader, the descendants, and those that have left the process group, the session, or
//! their parent. Must not depend on what they do.

use std::sync::Arc;

use crate::proc::{Proc, ThreadStat};
use crate::trial_cgroup::TrialCgroup;

/// Finds the processes of a trial while its leader is not reaped, and the orphans among them afterwards, too.
#[derive(Clone, Debug)]
pub(crate) struct Descendants {
    proc: Proc,
    leader: u32,
    /// State of the leader when it was started; `None` if it had ended.
    started: Option<ThreadStat>,
    /// The cgroup that contains it and all descendants, if it could be created.
    group: Option<Arc<TrialCgroup>>,
}

/// A process of a trial whose parent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub pid: u32,
    pub group: u32,
    /// Whether it has ended and only waits to be reaped.
    pub has_ended: bool,
}

impl Descendants {
    /// Must be called directly after the start of `leader`, a child of this process.
    pub(crate) fn of(leader: u32, proc: &Proc, group: Option<Arc<TrialCgroup>>) -> Self {
        Self { proc: proc.clone(), leader, started: proc.thread_stat(leader, leader), group }
    }

    pub(crate) fn leader(&self) -> u32 {
        self.leader
    }

    /// Returns the processes of the trial's cgroup; without one, the leader, its descendants, and their orphans, which
    /// this process adopts as a subreaper. Returns at most `max` processes.
    pub(crate) fn processes(&self, max: usize) -> Vec<u32> {
        let mut pids = match (&self.group, self.proc.children(std::process::id())) {
            (Some(group), _) => {
                // The ended leader is not listed, but not reaped either.
                let others = group.processes().into_iter().filter(|pid| *pid != self.leader);
                std::iter::once(self.leader).chain(others).collect()
            }
            (None, Some(adopted)) => self.with_children(adopted, max),
            (None, None) => self.proc.processes_of_group(self.leader),
        };
        pids.truncate(max);
        pids
    }

    fn with_children(&self, adopted: Vec<u32>, max: usize) -> Vec<u32> {
        let is_of_trial =
            |pid: &u32| self.proc.thread_stat(*pid, *pid).is_some_and(|stat| self.is_of_trial(*pid, stat));
        let mut pids: Vec<u32> = adopted.into_iter().filter(is_of_trial).collect();
        let mut next = 0;
        while let Some(pid) = pids.get(next).copied().filter(|_| pids.len() < max) {
            pids.extend(self.proc.children(pid).unwrap_or_default());
            next += 1;
        }
        pids
    }

    /// Returns the processes that have lost their parent, as daemons do, and are therefore children of this process.
    /// Includes those that have ended and were not reaped; without the leader.
    pub(crate) fn orphans(&self) -> Vec<Orphan> {
        let own = std::process::id();
        let adopted = self.proc.children(own).unwrap_or_else(|| self.proc.processes_of_group(self.leader));
        let members = self.group.as_ref().map(|group| group.processes());
        let orphan = |pid: u32| {
            let stat = self.proc.thread_stat(pid, pid)?;
            let has_ended = stat.state == 'Z';
            // The cgroup does not list processes that have ended.
            let is_member = has_ended || members.as_ref().is_none_or(|members| members.contains(&pid));
            (is_member && stat.parent == own && self.is_of_trial(pid, stat)).then_some(Orphan {
                pid,
                group: stat.group,
                has_ended,
            })
        };
        adopted.into_iter().filter(|pid| *pid != self.leader).filter_map(orphan).collect()
    }

    /// Returns whether a child of this process belongs to the trial: the leader, an orphan of its group, or an orphan
    /// that has left the session since. The helpers of this process leave its session, too, but run the same program.
    fn is_of_trial(&self, pid: u32, child: ThreadStat) -> bool {
        let Some(leader) = self.started else { return false };
        let has_left = child.session != leader.session && child.started >= leader.started;
        child.group == self.leader || (has_left && !self.proc.runs_this_program(pid))
    }
}
