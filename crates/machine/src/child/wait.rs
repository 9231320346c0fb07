//! Waits for a process: reads its output, and stops it at its time limit or on request.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use model::values::units::Bytes;

use super::LaunchError;
use super::awaited::Awaited;
use super::exit::{ExitWatch, timespec};
use super::output::{KeptRange, LineWatch, Stream};
use super::start::Started;
use crate::descendants::Descendants;
use crate::syscall::SyscallError;

/// Bytes of stderr kept, enough for the message that explains a failure.
const STDERR_BYTES_MAX: usize = 64 << 10;
/// Poll interval of flags, because a signal handler that sets one wakes no thread.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// A killed process ends within this time, unless it is stuck in the kernel.
pub(super) const DEATH_MAX: Duration = Duration::from_secs(10);

/// Conditions under which a process is stopped.
pub(super) struct WaitPolicy<'a> {
    /// Maximum number of bytes kept of its standard output.
    pub output_max: Bytes,
    /// Time limit; `None` for no limit.
    pub time_limit: Option<Duration>,
    /// Flags that stop the process.
    pub stop: &'a [&'a AtomicBool],
    /// Closing the other end of this pipe stops the process.
    pub hang_up: Option<OwnedFd>,
    /// Grace period between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Receives the lines of both outputs.
    pub lines: Option<LineWatch>,
    /// The descendants of the process, if those that it leaves in the background are awaited and ended like itself.
    pub background: Option<&'a Descendants>,
}

/// Result of waiting for a process.
pub(super) struct WaitOutcome {
    pub cause: Cause,
    /// Whether processes that it has left outside its group must be ended, too.
    pub may_have_orphans: bool,
    /// Time just before its exec.
    pub began: Instant,
    /// Time at which its end was noticed.
    pub ended: Instant,
    pub stdout: Stream,
    pub stderr: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Itself,
    TimeLimit,
    Stop,
}

/// Progress of ending it.
#[derive(Clone, Copy, Debug)]
enum KillPhase {
    Runs,
    AskedToEnd,
    Killed,
}

impl WaitOutcome {
    /// Reads the remaining output after the process group has ended.
    pub(super) fn drain_rest(mut self) -> Self {
        self.stdout.read_rest();
        self.stderr.read_rest();
        self
    }
}

/// Waits until the process has ended, and those in the background if they count. It is not reaped, so its PID cannot be reused. After an error it may still run,
/// and the caller kills it.
pub(super) fn attend(started: Started, orders: WaitPolicy<'_>) -> Result<WaitOutcome, LaunchError> {
    let refused = |error: Errno| LaunchError::Refused(SyscallError::new("wait for a child", &error.into()));
    let output_max = usize::try_from(orders.output_max.0).unwrap_or(usize::MAX);
    let lines = orders.lines;
    let mut stdout = Stream::new(started.stdout, KeptRange::First(output_max), lines.clone()).map_err(refused)?;
    let mut stderr = Stream::new(started.stderr, KeptRange::Last(STDERR_BYTES_MAX), lines).map_err(refused)?;
    let mut awaited = Awaited::child(started.pid, started.exit.map_err(refused)?, orders.background);
    let (mut phase, mut cause) = (KillPhase::Runs, Cause::Itself);
    let mut until = orders.time_limit.and_then(|limit| started.at.checked_add(limit));
    loop {
        // A closed pipe stays closed, so it is reported only once.
        let hang_up = orders.hang_up.as_ref().filter(|_| matches!(phase, KillPhase::Runs));
        let news = wait_a_while(awaited.exit(), hang_up, [&mut stdout, &mut stderr], until).map_err(refused)?;
        if news == WaitEvent::Ended {
            let may_move_on = matches!(phase, KillPhase::Runs) || awaited.is_background();
            if may_move_on && awaited.move_on().map_err(refused)? {
                continue;
            }
            break;
        }
        let now = Instant::now();
        let late = until.is_some_and(|until| now >= until);
        let told = news == WaitEvent::HungUp || orders.stop.iter().any(|stop| stop.load(Ordering::Relaxed));
        match phase {
            KillPhase::Runs if late || told => {
                cause = if late { Cause::TimeLimit } else { Cause::Stop };
                awaited.signal(Signal::TERM);
                (phase, until) = (KillPhase::AskedToEnd, Some(now + orders.grace));
            }
            KillPhase::AskedToEnd if late => {
                awaited.signal(Signal::KILL);
                (phase, until) = (KillPhase::Killed, Some(now + DEATH_MAX));
            }
            KillPhase::Killed if late => return Err(LaunchError::WillNotDie { pid: started.pid }),
            _ => {}
        }
    }
    let ended = awaited.ended().map_err(refused)?;
    let may_have_orphans = orders.background.is_some();
    Ok(WaitOutcome { cause, may_have_orphans, began: started.at, ended, stdout, stderr })
}

/// Result of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEvent {
    Ended,
    HungUp,
    /// Output was read, or some time passed.
    Nothing,
}

fn wait_a_while(
    exit: &ExitWatch,
    hang_up: Option<&OwnedFd>,
    streams: [&mut Stream; 2],
    until: Option<Instant>,
) -> Result<WaitEvent, Errno> {
    let left = until.map_or(STOP_LOOK, |until| until.saturating_duration_since(Instant::now()).min(STOP_LOOK));
    let mut polled = vec![PollFd::new(exit, PollFlags::IN)];
    polled.extend(hang_up.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    polled.extend(streams.iter().filter_map(|stream| Some(PollFd::from_borrowed_fd(stream.pipe()?, PollFlags::IN))));
    match rustix::event::poll(&mut polled, Some(&timespec(left))) {
        // A signal whose handler may have set a flag of the caller.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    if !polled[0].revents().is_empty() {
        return Ok(WaitEvent::Ended);
    }
    let hung_up = hang_up.is_some() && !polled[1].revents().is_empty();
    streams.into_iter().for_each(Stream::read_some);
    Ok(if hung_up { WaitEvent::HungUp } else { WaitEvent::Nothing })
}

/// Sends a signal to a process group.
pub(super) fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group as i32) {
        // The only possible failure is that the group is empty.
        let _ = rustix::process::kill_process_group(group, signal);
    }
}
