//! Prints the progress of the jobs of all nodes on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use fleet::{JobState, NodeEvent, NodeName, plain};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Minimum interval of lines of one node without a terminal, which keeps logs of many nodes readable.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Prints the status of each node on stderr: a live line on a terminal, otherwise lines of a log.
pub struct StatusLines<'a> {
    nodes: &'a [NodeName],
    width: usize,
    bars: Vec<ProgressBar>,
    last: Vec<Option<(Instant, String)>>,
    quiet: bool,
}

impl<'a> StatusLines<'a> {
    pub fn new(nodes: &'a [NodeName], quiet: bool) -> Self {
        let width = nodes.iter().map(|node| node.as_str().chars().count()).max().unwrap_or(0);
        let bars = if !quiet && std::io::stderr().is_terminal() { progress_bars(nodes) } else { Vec::new() };
        Self { nodes, width, bars, last: vec![None; nodes.len()], quiet }
    }

    pub fn show(&mut self, index: usize, event: &NodeEvent) {
        let (kind, text) = describe(event);
        let line = format!("{:width$}  {text}", self.nodes[index], width = self.width);
        if let Some(bar) = self.bars.get(index) {
            bar.set_message(line);
        } else if !self.quiet {
            let last = &mut self.last[index];
            let due = last.as_ref().is_none_or(|(at, known)| *known != kind || at.elapsed() >= LINE_INTERVAL);
            if due {
                *last = Some((Instant::now(), kind));
                message!("{line}");
            }
        }
    }

    pub fn finish(&self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn progress_bars(nodes: &[NodeName]) -> Vec<ProgressBar> {
    let style = ProgressStyle::with_template("{wide_msg}").expect("the template is valid");
    let all = MultiProgress::new();
    let line = |node: &NodeName| all.add(ProgressBar::new(0)).with_style(style.clone()).with_message(node.to_string());
    nodes.iter().map(line).collect()
}

/// Returns the kind of an event, whose change is printed at once, and its text.
fn describe(event: &NodeEvent) -> (String, String) {
    match event {
        NodeEvent::Away(error) => ("away".into(), format!("away: {}", error.what)),
        NodeEvent::Status(status) => {
            let kind = status.state.name();
            let text = match status.state {
                JobState::Running => plain(&status.says),
                JobState::Ended => format!("ended with {} trials", status.trials),
                JobState::Waiting => format!("waiting: {}", plain(&status.says)),
                _ => format!("{kind} after {} trials: {}", status.trials, plain(&status.says)),
            };
            (kind.into(), if text.is_empty() { kind.into() } else { text })
        }
    }
}
