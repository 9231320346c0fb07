//! A process that restores the settings of this one if it is killed. Must not depend on what the settings are.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use machine::undo;

use crate::app::applied::Applied;
use crate::app::run_guard::{failure, lock_now, site};
use crate::error::CliError;

/// Sent by a process that has restored its settings itself.
const DONE: &[u8] = b"done";
/// Time limit for the machine lock, which the kernel releases when the killed process is gone.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Runs until this process ends. Dropping it means that the settings are restored, so it must live longer than they do.
pub struct RestoreGuard(Child);

impl RestoreGuard {
    /// Starts the guard in a separate session, so that signals to the group of this process do not end it, too.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start() -> Result<Self, CliError> {
        let started = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.arg("__restore-guard").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            machine::detach::spawn_detached(&mut command)
        });
        started.map(Self).map_err(|error| CliError::failure(format!("cannot start the process that restores: {error}")))
    }
}

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        // Errors mean that it has ended.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(DONE);
        }
        let _ = self.0.wait();
    }
}

/// Waits until standard input is closed. If the other side has not restored its settings, restores them.
pub fn serve() -> Result<(), CliError> {
    machine::priority::raise_priority();
    let mut received = Vec::new();
    // An error means the same as the end: no process can write any more.
    let _ = std::io::stdin().lock().read_to_end(&mut received);
    if received == DONE {
        return Ok(());
    }
    let end = Instant::now() + LOCK_TIMEOUT;
    let _lock = loop {
        match lock_now() {
            Ok(lock) => break lock,
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => std::thread::sleep(LOCK_POLL),
        }
    };
    let site = site(None);
    undo::restore(&site, false).map_err(|error| failure(&error))?;
    Applied::undo_experiments(&site).map(drop)
}
