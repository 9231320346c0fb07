//! Reaps a trial: all processes of its group have ended and were waited for, and their resource usage is summed.

use std::time::Instant;

use model::values::units::{Bytes, Nanos};
use rustix::process::Signal;

use super::exit;
use super::wait::{self, DEATH_MAX};
use super::{Exit, LaunchError};
use crate::descendants::Descendants;
use crate::proc::Proc;
use crate::syscall::{self, SyscallError, WaitStatus};

/// Resource usage of a trial from wait4(2): its leader, the children that it waited for, and those it left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResourceUsage {
    pub exit: Exit,
    pub user: Nanos,
    pub system: Nanos,
    pub max_rss: Bytes,
    pub switches_voluntary: u64,
    pub switches_involuntary: u64,
    pub faults_major: u64,
    pub faults_minor: u64,
}

/// Kills and reaps the process group of our child `leader`.
pub(super) fn all(leader: u32, proc: &Proc) -> Result<ResourceUsage, LaunchError> {
    // Killed before the leader is reaped: until then, its PID cannot be reused.
    wait::signal_group(leader, Signal::KILL);
    let until = Instant::now() + DEATH_MAX;
    await_end(leader, until)?;
    let first = syscall::reap_child(leader).map_err(|error| refused(&error))?;
    let mut used = first.as_ref().map(ResourceUsage::of).ok_or(LaunchError::WillNotDie { pid: leader })?;
    // Ends when no process is left; each iteration reaps a process or waits for one.
    loop {
        match syscall::reap_in_group(leader) {
            Ok(Some(orphan)) => used.add(&ResourceUsage::of(&orphan)),
            Ok(None) => await_end(orphan_of(leader, proc), until)?,
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(used),
            Err(error) => return Err(refused(&error)),
        }
    }
}

/// Kills and reaps the processes that a server has left outside its process group. Without a cgroup for each command, also
/// those that left the session of the command that was measured meanwhile.
pub(super) fn orphans(descendants: &Descendants, used: &mut ResourceUsage) -> Result<(), LaunchError> {
    let until = Instant::now() + DEATH_MAX;
    loop {
        let orphans = descendants.orphans();
        if orphans.is_empty() {
            return Ok(());
        }
        orphans
            .iter()
            .filter(|orphan| !orphan.has_ended)
            .for_each(|orphan| wait::signal_group(orphan.group, Signal::KILL));
        for orphan in orphans {
            await_end(orphan.pid, until)?;
            let reaped = syscall::reap_child(orphan.pid).map_err(|error| refused(&error))?;
            reaped.iter().for_each(|orphan| used.add(&ResourceUsage::of(orphan)));
        }
    }
}

fn refused(error: &std::io::Error) -> LaunchError {
    LaunchError::Refused(SyscallError::new("wait for a child", error))
}

fn await_end(pid: u32, until: Instant) -> Result<(), LaunchError> {
    let left = until.saturating_duration_since(Instant::now());
    match exit::ends_in(pid, left) {
        Ok(true) => Ok(()),
        // It ended between being found and being waited for; if that repeats, something else is wrong.
        Err(rustix::io::Errno::SRCH) if !left.is_zero() => Ok(()),
        Ok(false) | Err(rustix::io::Errno::SRCH) => Err(LaunchError::WillNotDie { pid }),
        Err(error) => Err(refused(&error.into())),
    }
}

/// A process that is now our child, because its parent has ended.
fn orphan_of(group: u32, proc: &Proc) -> u32 {
    let ours = std::process::id();
    let adopted = proc.children(ours).unwrap_or_else(|| proc.processes_of_group(group));
    let is_one = |pid: &u32| {
        proc.thread_stat(*pid, *pid).is_some_and(|stat| stat.group == group && stat.parent == ours && stat.state != 'Z')
    };
    adopted.into_iter().find(is_one).unwrap_or(0)
}

impl ResourceUsage {
    fn of(reaped: &WaitStatus) -> Self {
        let usage = &reaped.usage;
        let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
        Self {
            exit: exit_of(reaped.status),
            user: nanos(usage.ru_utime),
            system: nanos(usage.ru_stime),
            // Linux reports KiB.
            max_rss: Bytes(count(usage.ru_maxrss).saturating_mul(1024)),
            switches_voluntary: count(usage.ru_nvcsw),
            switches_involuntary: count(usage.ru_nivcsw),
            faults_major: count(usage.ru_majflt),
            faults_minor: count(usage.ru_minflt),
        }
    }

    /// Adds the usage of another process; the exit status of the first is kept.
    fn add(&mut self, other: &Self) {
        self.user.0 += other.user.0;
        self.system.0 += other.system.0;
        self.max_rss = self.max_rss.max(other.max_rss);
        self.switches_voluntary += other.switches_voluntary;
        self.switches_involuntary += other.switches_involuntary;
        self.faults_major += other.faults_major;
        self.faults_minor += other.faults_minor;
    }
}

fn nanos(time: libc::timeval) -> Nanos {
    let (seconds, micros) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_usec).unwrap_or(0));
    Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000))
}

fn exit_of(status: libc::c_int) -> Exit {
    if libc::WIFSIGNALED(status) { Exit::Signal(libc::WTERMSIG(status)) } else { Exit::Code(libc::WEXITSTATUS(status)) }
}
