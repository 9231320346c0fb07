//! Notices the end of a process without reaping it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};

/// The end of a child, and when it was first seen to have ended.
pub(super) struct ExitWatch {
    exit: OwnedFd,
    seen: Option<Instant>,
}

impl ExitWatch {
    pub(super) fn of(pid: u32) -> Result<Self, Errno> {
        let mut watch = Self { exit: exit_of(pid)?, seen: None };
        watch.look()?;
        Ok(watch)
    }

    /// Returns when the process was first seen to have ended, at this call or a previous one; `None` if it runs.
    pub(super) fn look(&mut self) -> Result<Option<Instant>, Errno> {
        if self.seen.is_none() && is_readable_within(&self.exit, Duration::ZERO)? {
            self.seen = Some(Instant::now());
        }
        Ok(self.seen)
    }
}

impl AsFd for ExitWatch {
    /// Becomes readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }
}

/// Returns true if a killed process ends within the time; it is not reaped.
pub(super) fn ends_in(pid: u32, time: Duration) -> Result<bool, Errno> {
    is_readable_within(&exit_of(pid)?, time)
}

fn is_readable_within(exit: &OwnedFd, time: Duration) -> Result<bool, Errno> {
    let until = Instant::now() + time;
    loop {
        let mut polled = [PollFd::new(exit, PollFlags::IN)];
        let left = until.saturating_duration_since(Instant::now());
        match rustix::event::poll(&mut polled, Some(&timespec(left))) {
            Err(Errno::INTR) => {}
            result => return Ok(result? > 0),
        }
    }
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// A descriptor that becomes readable when a child ends, without reaping it.
fn exit_of(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(pid as i32).ok_or(Errno::SRCH)?;
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        // Linux before 5.3, or a container that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => exit_by_thread(pid),
        result => result,
    }
}

/// Replacement for a pidfd: a thread waits and then closes its end of a pipe.
fn exit_by_thread(pid: Pid) -> Result<OwnedFd, Errno> {
    let (exit, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    std::thread::spawn(move || {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // A child that cannot be waited for has been reaped, so it has ended too.
        let _ = rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), ended));
        drop(end);
    });
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn pidfd_and_thread_both_report_an_exit() {
        for by_thread in [false, true] {
            let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let pid = Pid::from_raw(child.id() as i32).unwrap();
            let exit = if by_thread { exit_by_thread(pid) } else { exit_of(child.id()) }.unwrap();
            let mut watch = ExitWatch { exit, seen: None };
            assert_eq!(watch.look(), Ok(None), "it still waits for input");
            drop(child.stdin.take());
            let has_ended = is_readable_within(&watch.exit, Duration::from_secs(60)).unwrap();
            assert!(has_ended, "by_thread {by_thread}");
            let seen = watch.look().unwrap();
            assert!(seen.is_some_and(|seen| seen <= Instant::now()));
            assert_eq!(watch.look(), Ok(seen), "the first time counts");
            assert!(child.wait().unwrap().success(), "the exit notification must not reap");
        }
    }
}
