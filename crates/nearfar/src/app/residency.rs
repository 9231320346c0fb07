//! Runs a command and inspects its memory until it ends.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use machine::foreground::ForegroundProcess;
use machine::residency::{InspectError, inspect_tree};
use model::analysis::residency::{Residency, ResidencySample};

use crate::app::forwarded_signals::is_forwarded;
use crate::error::CliError;

/// Interval between the first two inspections; it doubles up to [`INTERVAL_LONGEST`], so that short commands are seen.
const INTERVAL_FIRST: Duration = Duration::from_millis(10);
const INTERVAL_LONGEST: Duration = Duration::from_secs(1);
/// Inspections use at most 1/20 of the time of one CPU.
const INSPECTION_SHARE: u32 = 20;
/// Maximum number of samples; if there are more, every second one is dropped.
const SAMPLES_MAX: usize = 1024;

/// The result of a command that was inspected while it ran.
pub struct WatchedCommand {
    pub status: ExitStatus,
    /// The last inspection, or the error of the last attempt.
    pub last: Result<Residency, InspectError>,
    pub samples: Vec<ResidencySample>,
    /// From the start of the command to its end.
    pub elapsed: Duration,
}

/// Starts a command. The inner error is the exit status of a failure, with the values of env(1).
pub fn start(command: &[OsString]) -> Result<ForegroundProcess, ExitCode> {
    ForegroundProcess::start_with_stdout_on_stderr(command).map_err(|error| {
        CliError::failure(format!("cannot run '{}': {error}", command[0].display())).print();
        ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
    })
}

/// Inspects a command and forwards signals to it until it ends.
pub fn watch(program: &mut ForegroundProcess, signals: &Receiver<i32>) -> Result<WatchedCommand, CliError> {
    let started = Instant::now();
    let mut samples = Vec::new();
    let mut last = Err(InspectError::Ended(program.id()));
    let (mut interval, mut next) = (INTERVAL_FIRST, INTERVAL_FIRST);
    loop {
        let signal = signals.recv_timeout(next.saturating_sub(started.elapsed())).ok();
        let wait_error = |error| CliError::failure(format!("cannot wait for the command: {error}"));
        if let Some(status) = program.try_wait().map_err(wait_error)? {
            return Ok(WatchedCommand { status, last, samples, elapsed: started.elapsed() });
        }
        if let Some(signal) = signal.filter(|signal| is_forwarded(*signal)) {
            program.signal(signal);
        }
        if started.elapsed() < next {
            continue;
        }
        let began = Instant::now();
        if let Some(found) = sample(program.id(), &mut last) {
            samples.push(ResidencySample {
                after_seconds: began.duration_since(started).as_secs_f64(),
                memory: found.total.clone(),
                remote_percent: found.remote_percent,
            });
            thin(&mut samples);
        }
        interval = (interval * 2).min(INTERVAL_LONGEST).max(began.elapsed() * INSPECTION_SHARE);
        next = started.elapsed() + interval;
    }
}

/// Inspects the command once. An attempt that fails does not replace an earlier inspection.
fn sample(pid: u32, last: &mut Result<Residency, InspectError>) -> Option<&Residency> {
    let found = inspect_tree(pid);
    let is_new = found.is_ok();
    if is_new || last.is_err() {
        *last = found;
    }
    last.as_ref().ok().filter(|_| is_new)
}

/// Drops every second sample once there are too many; keeps the last one.
fn thin(samples: &mut Vec<ResidencySample>) {
    if samples.len() > SAMPLES_MAX {
        let parity = samples.len() % 2;
        let mut index = 0;
        samples.retain(|_| {
            index += 1;
            index % 2 == parity
        });
    }
}
