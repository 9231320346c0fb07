//! The process that is awaited: a child, and after its end what it has left in the background, if that counts. Daemons
//! end their first process as soon as another one serves.

use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::exit::ExitWatch;
use super::wait::signal_group;
use crate::descendants::Descendants;

pub(super) struct Awaited<'a> {
    leader: u32,
    /// The end of the awaited process.
    exit: ExitWatch,
    /// The descendants, if those left in the background count.
    background: Option<&'a Descendants>,
    is_background: bool,
}

impl<'a> Awaited<'a> {
    pub(super) fn child(leader: u32, exit: ExitWatch, background: Option<&'a Descendants>) -> Self {
        Self { leader, exit, background, is_background: false }
    }

    pub(super) fn exit(&self) -> &ExitWatch {
        &self.exit
    }

    /// Returns when the awaited process was seen to have ended; the current time if it runs.
    pub(super) fn ended(&mut self) -> Result<Instant, Errno> {
        Ok(self.exit.look()?.unwrap_or_else(Instant::now))
    }

    /// Whether the child has ended and others continue its work.
    pub(super) fn is_background(&self) -> bool {
        self.is_background
    }

    /// Called when the awaited process has ended: awaits another one that it has left in the background. Returns false if
    /// there is none, or if the child has failed.
    pub(super) fn move_on(&mut self) -> Result<bool, Errno> {
        let Some(background) = self.background else { return Ok(false) };
        if !self.is_background && !has_succeeded(self.leader)? {
            return Ok(false);
        }
        let Some(orphan) = background.orphans().into_iter().find(|orphan| !orphan.has_ended) else { return Ok(false) };
        self.exit = ExitWatch::of(orphan.pid)?;
        self.is_background = true;
        Ok(true)
    }

    /// Sends a signal to the process group of the child, and to those in the background.
    pub(super) fn signal(&self, signal: Signal) {
        signal_group(self.leader, signal);
        let background = self.background.filter(|_| self.is_background);
        for orphan in background.iter().flat_map(|background| background.orphans()) {
            if orphan.group != self.leader {
                signal_group(orphan.group, signal);
            }
        }
    }
}

/// Whether a child that has ended returned status 0; it is not reaped.
fn has_succeeded(pid: u32) -> Result<bool, Errno> {
    let id = WaitId::Pid(Pid::from_raw(pid.cast_signed()).ok_or(Errno::SRCH)?);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = rustix::io::retry_on_intr(|| rustix::process::waitid(id.clone(), options))?;
    Ok(status.is_some_and(|status| status.exit_status() == Some(0)))
}
