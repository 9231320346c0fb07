//! Progress and remaining time of a build, shown after one second: a progress bar if stderr is a terminal, else lines.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use graph::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use model::values::units::Nanos;

/// Time before the first output.
const DELAY: Duration = Duration::from_secs(1);
/// Minimum intervals between updates of the bar and between lines.
const BAR_INTERVAL: Duration = Duration::from_millis(200);
const LINE_INTERVAL: Duration = Duration::from_secs(5);

pub struct Eta {
    started: Instant,
    terminal: bool,
    display: Mutex<Display>,
}

#[derive(Default)]
struct Display {
    bar: Option<ProgressBar>,
    last: Option<Instant>,
    /// Progress before this process started.
    before: Option<u64>,
}

impl Eta {
    pub fn new() -> Self {
        Self { started: Instant::now(), terminal: std::io::stderr().is_terminal(), display: Mutex::default() }
    }

    /// Displays the progress; callable from any thread.
    pub fn show(&self, progress: Progress) {
        // Another thread is displaying progress that is as recent.
        let Ok(mut display) = self.display.try_lock() else { return };
        let before = *display.before.get_or_insert(progress.done);
        let interval = if self.terminal { BAR_INTERVAL } else { LINE_INTERVAL };
        let elapsed = self.started.elapsed();
        if elapsed < DELAY || display.last.is_some_and(|last| last.elapsed() < interval) {
            return;
        }
        display.last = Some(Instant::now());
        let text = describe(progress, before, elapsed);
        if !self.terminal {
            return message!("{text}");
        }
        let bar = display.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:24} {msg}").expect("the template is valid");
            ProgressBar::new(1000).with_style(style)
        });
        bar.set_position(progress.done * 1000 / progress.of.max(1));
        bar.set_message(text);
    }

    pub fn finish(&self) {
        if let Some(bar) = self.display.lock().unwrap_or_else(PoisonError::into_inner).bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn describe(progress: Progress, before: u64, elapsed: Duration) -> String {
    let Progress { step, done, of } = progress;
    let percent = 100 * u128::from(done) / u128::from(of.max(1));
    let done_here = done.saturating_sub(before);
    if done_here == 0 {
        return format!("{step}, {percent} %");
    }
    let remaining = elapsed.as_secs_f64() * of.saturating_sub(done) as f64 / done_here as f64;
    // In whole seconds, because it is an estimate.
    format!("{step}, {percent} %, about {} left", Nanos(remaining.ceil() as u64 * 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_uses_progress_of_this_process() {
        let progress = Progress { step: "writing lists", done: 700, of: 1000 };
        let text = |before| describe(progress, before, Duration::from_secs(20));
        assert_eq!(text(600), "writing lists, 70 %, about 1m00s left");
        assert_eq!(text(300), "writing lists, 70 %, about 15s left");
        assert_eq!(text(700), "writing lists, 70 %");
    }
}
