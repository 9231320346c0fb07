//! Messages on stderr, and the only writer of them. A message that cannot be written is lost: it never ends a run or
//! changes the exit status. Must not depend on the content.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::MultiProgress;

/// Prints a message and a newline on stderr, like the one of the standard library, but never panics.
macro_rules! message {
    ($($argument:tt)*) => { $crate::message::print(format_args!($($argument)*)) };
}

/// Prints a message of `--verbose`; its arguments are evaluated only then.
macro_rules! detail {
    ($($argument:tt)*) => { if $crate::message::is_verbose() { $crate::message::print(format_args!($($argument)*)) } };
}

/// The value of `--verbose`, which all messages of the process have in common.
static VERBOSE: AtomicBool = AtomicBool::new(false);

pub fn set_verbose(is_verbose: bool) {
    VERBOSE.store(is_verbose, Ordering::Relaxed);
}

pub fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Prints a message on stderr. Control characters are replaced, because texts of files, of other machines and of
/// command lines could contain terminal escapes.
pub fn print(text: Arguments<'_>) {
    let line = format!("{}\n", visible(&text.to_string()));
    // In one call, so that lines of concurrent processes do not mix. Errors are ignored: stderr may be full or closed.
    let write = || std::io::stderr().lock().write_all(line.as_bytes());
    let _ = match drawn().as_ref() {
        Some(bars) => bars.suspend(write),
        None => write(),
    };
}

/// Draws progress bars; messages are printed above them until they are finished.
pub fn draw_bars() -> MultiProgress {
    let bars = MultiProgress::new();
    *drawn() = Some(bars.clone());
    bars
}

pub fn finish_bars() {
    *drawn() = None;
}

/// The progress bars on the terminal.
fn drawn() -> MutexGuard<'static, Option<MultiProgress>> {
    static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);
    BARS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what prints a line about something that is awaited.
pub fn waiting(quiet: bool) -> fn(&str) {
    if quiet { |_| () } else { |line| message!("{line}") }
}

/// Replaces control characters other than line breaks and tabs, and characters that reverse the direction of text.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if is_visible(c) { c } else { '\u{fffd}' }).collect()
}

fn is_visible(c: char) -> bool {
    let reverses = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    matches!(c, '\n' | '\t') || !(c.is_control() || reverses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_become_visible() {
        assert_eq!(
            visible("a\x1b[2Jb\u{9b}1m\r\nc\td\u{7}\u{202e}"),
            "a\u{fffd}[2Jb\u{fffd}1m\u{fffd}\nc\td\u{fffd}\u{fffd}"
        );
        assert_eq!(visible("über µs → 95 %"), "über µs → 95 %");
    }
}
