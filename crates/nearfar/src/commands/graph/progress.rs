//! How far a construction is and how much time is left, once it has taken more than a second: a line that changes where stderr is
//! a terminal, else lines.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use graph::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use model::values::units::Nanos;

const SILENT: Duration = Duration::from_secs(1);
/// A terminal's line changes so often at most, and plain lines come so far apart.
const CHANGES_APART: Duration = Duration::from_millis(200);
const LINES_APART: Duration = Duration::from_secs(5);

pub struct Eta {
    began: Instant,
    terminal: bool,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    bar: Option<ProgressBar>,
    last: Option<Instant>,
    /// What was done before this process began.
    before: Option<u64>,
}

impl Eta {
    pub fn new() -> Self {
        Self { began: Instant::now(), terminal: std::io::stderr().is_terminal(), shown: Mutex::default() }
    }

    /// Hears how far it is, from any thread.
    pub fn show(&self, progress: Progress) {
        // Who finds another thread here has nothing newer to say.
        let Ok(mut shown) = self.shown.try_lock() else { return };
        let before = *shown.before.get_or_insert(progress.done);
        let apart = if self.terminal { CHANGES_APART } else { LINES_APART };
        let elapsed = self.began.elapsed();
        if elapsed < SILENT || shown.last.is_some_and(|last| last.elapsed() < apart) {
            return;
        }
        shown.last = Some(Instant::now());
        let words = words(progress, before, elapsed);
        if !self.terminal {
            return eprintln!("{words}");
        }
        let bar = shown.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:24} {msg}").expect("the template is constant and right");
            ProgressBar::new(1000).with_style(style)
        });
        bar.set_position(progress.done * 1000 / progress.of.max(1));
        bar.set_message(words);
    }

    pub fn finish(&self) {
        if let Some(bar) = self.shown.lock().unwrap_or_else(PoisonError::into_inner).bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn words(progress: Progress, before: u64, elapsed: Duration) -> String {
    let Progress { step, done, of } = progress;
    let percent = 100 * u128::from(done) / u128::from(of.max(1));
    let here = done.saturating_sub(before);
    if here == 0 {
        return format!("{step}, {percent} %");
    }
    let left = elapsed.as_secs_f64() * of.saturating_sub(done) as f64 / here as f64;
    // Whole seconds: it is a guess.
    format!("{step}, {percent} %, about {} left", Nanos(left.ceil() as u64 * 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_from_what_was_done_here() {
        let progress = Progress { step: "writing lists", done: 700, of: 1000 };
        let said = |before| words(progress, before, Duration::from_secs(20));
        assert_eq!(said(600), "writing lists, 70 %, about 1m00s left");
        assert_eq!(said(300), "writing lists, 70 %, about 15s left");
        assert_eq!(said(700), "writing lists, 70 %");
    }
}
