//! Signals that this process forwards to a program in the foreground.

use std::sync::mpsc::{Receiver, channel};

use machine::foreground;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::error::CliError;

/// Signals forwarded to the program, except those that the terminal already sends to its foreground process group.
const FORWARDED: [i32; 8] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH];
const SENT_BY_TERMINAL: [i32; 4] = [SIGINT, SIGQUIT, SIGCONT, SIGWINCH];

/// Returns a channel of received signals, including SIGCHLD, so that the end of a child interrupts the wait.
pub fn receive() -> Result<Receiver<i32>, CliError> {
    let signal_error = |error: std::io::Error| CliError::failure(format!("cannot install signal handlers: {error}"));
    let handled = FORWARDED.into_iter().filter(|signal| *signal != SIGHUP || !machine::child::is_ignored(SIGHUP));
    let mut signals = Signals::new(handled.chain([signal_hook::consts::SIGCHLD])).map_err(signal_error)?;
    let (send, receive) = channel();
    let forward = move || signals.forever().all(|signal| send.send(signal).is_ok());
    std::thread::Builder::new().name("signals".into()).spawn(forward).map_err(signal_error)?;
    Ok(receive)
}

/// Returns whether a received signal must be sent to the program.
pub fn is_forwarded(signal: i32) -> bool {
    FORWARDED.contains(&signal) && !(SENT_BY_TERMINAL.contains(&signal) && foreground::terminal_signals_us())
}

/// Returns whether a received signal asks this process to end, also if the terminal sent it.
pub fn ends_wait(signal: i32) -> bool {
    [SIGINT, SIGQUIT, SIGTERM, SIGHUP].contains(&signal)
}
