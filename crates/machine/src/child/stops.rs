//! Measures for how long signals have stopped a child. Does not see its descendants, nor stops by a debugger.

use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, WaitId, WaitIdOptions};

/// Waits until a child has ended, without reaping it, and returns the total time for which it was stopped. Returns early
/// if another thread reaps it.
pub(super) fn measure(pid: u32) -> Duration {
    measure_observed(pid, |_| ())
}

/// Calls `observe` with each event.
fn measure_observed(pid: u32, observe: impl Fn(Event)) -> Duration {
    let (mut total, mut since) = (Duration::ZERO, None);
    // A child that cannot be waited for has been reaped.
    while let Ok(event) = next(pid) {
        observe(event);
        match (event, since) {
            (Event::Stopped, None) => since = Some(Instant::now()),
            (Event::Continued | Event::Ended, Some(began)) => {
                total += Instant::now().duration_since(began);
                since = None;
            }
            _ => {}
        }
        if event == Event::Ended {
            break;
        }
    }
    total
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Stopped,
    Continued,
    Ended,
}

/// Waits for the next event. Stops and continuations are consumed, the end is not.
fn next(pid: u32) -> Result<Event, Errno> {
    let id = WaitId::Pid(Pid::from_raw(pid.cast_signed()).ok_or(Errno::SRCH)?);
    let changes = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    let wait = |options| retry_on_intr(|| rustix::process::waitid(id.clone(), options));
    loop {
        let Some(status) = wait(changes | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)? else { continue };
        if !status.stopped() && !status.continued() {
            return Ok(Event::Ended);
        }
        // It may have continued or ended since.
        if let Some(change) = wait(changes | WaitIdOptions::NOHANG)? {
            return Ok(if change.stopped() { Event::Stopped } else { Event::Continued });
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, kill_process};

    use super::*;

    #[test]
    fn stops_are_measured_until_the_child_continues_or_ends() {
        for resumes in [true, false] {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
            let began = Instant::now();
            let (observe, observed) = std::sync::mpsc::channel();
            let measuring = std::thread::spawn(move || {
                measure_observed(pid.as_raw_pid().cast_unsigned(), |event| observe.send(event).unwrap())
            });
            kill_process(pid, Signal::STOP).unwrap();
            assert_eq!(observed.recv().unwrap(), Event::Stopped);
            if resumes {
                kill_process(pid, Signal::CONT).unwrap();
            }
            kill_process(pid, Signal::KILL).unwrap();
            let total = measuring.join().unwrap();
            assert!(total > Duration::ZERO && total <= began.elapsed(), "resumes {resumes}: {total:?}");
            child.wait().unwrap();
        }
    }
}
