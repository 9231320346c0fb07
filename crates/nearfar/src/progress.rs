//! Progress display of a run on stderr: a bar with completed trials, current cell and remaining time, below the ranking
//! of a race; plain lines if stderr is not a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lab::progress::{Forecast, RunEvent};
use model::analysis::finding::metric_value;
use model::analysis::place::{PlaceResult, RaceState};
use model::values::record::{RunRecord, TrialRecord};
use model::values::trial::{Grade, Role};
use model::values::units::Nanos;

use crate::message::visible;
use crate::{message, output, trial_details};

/// Minimum interval between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of candidates in the displayed ranking.
const RANKED: usize = 8;

pub struct Progress<'a> {
    record: &'a RunRecord,
    bar: Option<ProgressBar>,
    ranking: Vec<ProgressBar>,
    last_line: Option<Instant>,
    quiet: bool,
}

impl<'a> Progress<'a> {
    pub fn new(record: &'a RunRecord, quiet: bool) -> Self {
        let mut progress = Self { record, bar: None, ranking: Vec::new(), last_line: None, quiet };
        // Lines of `--verbose` would disturb a bar.
        if !quiet && !message::is_verbose() && std::io::stderr().is_terminal() {
            progress.draw();
        }
        progress
    }

    fn draw(&mut self) {
        let styled = |template| {
            let style = ProgressStyle::with_template(template).expect("the template is valid");
            ProgressBar::new(0).with_style(style)
        };
        let all = message::draw_bars();
        if self.record.plan.race.is_some() {
            let lines = RANKED.min(self.record.plan.cells.len());
            self.ranking = (0..lines).map(|_| all.add(styled("{msg}"))).collect();
        }
        self.bar = Some(all.add(styled("{bar:24} {pos}/{len} trials  {msg}")));
    }

    pub fn show(&mut self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Begins { trial, forecast } => {
                let cell = &self.record.plan.cells[trial.cell];
                let role = match trial.role {
                    Role::Warmup => "warm-up, ",
                    Role::Measured => "",
                    Role::Confirm => "confirming, ",
                };
                let now = format!("{role}{} @ {}", cell.test, cell.placement.name);
                self.bar(*forecast, &format!("{now}, {}", remaining(*forecast)));
                if message::is_verbose() {
                    trial_details::lines(self.record, trial).iter().for_each(|line| message!("{line}"));
                }
            }
            RunEvent::Stored { record, forecast } => self.stored(record, *forecast),
            RunEvent::BlockCompleted { race } => self.raced(race),
        }
    }

    /// Clears the display.
    pub fn finish(&self) {
        for bar in self.ranking.iter().chain(&self.bar) {
            bar.finish_and_clear();
        }
        message::finish_bars();
    }

    fn bar(&self, forecast: Forecast, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(forecast.expected as u64);
            bar.set_position(forecast.done as u64);
            bar.set_message(visible(message));
        }
    }

    fn stored(&mut self, record: &TrialRecord, forecast: Forecast) {
        let invalid = record.verdict.grade == Grade::Invalid;
        let line = format!("{}/{} {}, {}", forecast.done, forecast.expected, self.result(record), remaining(forecast));
        match &self.bar {
            Some(bar) if invalid => bar.println(visible(&self.result(record))),
            Some(_) => {}
            None => {
                let due = self.last_line.is_none_or(|last| last.elapsed() >= LINE_INTERVAL);
                if !self.quiet && (due || invalid) {
                    self.last_line = Some(Instant::now());
                    message!("{line}");
                }
            }
        }
    }

    /// Displays the ranking of a race after a block.
    fn raced(&mut self, course: &RaceState<'_>) {
        if self.quiet {
            return;
        }
        let (blocks, left) = (course.blocks(), course.candidates_left());
        if blocks == 0 && course.stage() == Role::Measured {
            self.begun(course);
        }
        let answer = PlaceResult::from_state(self.record, course);
        if self.bar.is_none() && course.stage() == Role::Measured && blocks > 0 {
            self.last_line = Some(Instant::now());
            message!("{}", report::table::standing(&answer, blocks, left));
        }
        let lines = report::table::ranking(&answer, self.ranking.len(), &output::stderr_style());
        for (bar, line) in self.ranking.iter().zip(lines) {
            bar.set_message(line);
        }
    }

    /// Prints the forecast of the budget.
    fn begun(&self, course: &RaceState<'_>) {
        for line in course.forecast().iter().flat_map(report::table::forecast) {
            match &self.bar {
                Some(bar) => bar.println(line),
                None => message!("{line}"),
            }
        }
    }

    fn result(&self, record: &TrialRecord) -> String {
        let cell = &self.record.plan.cells[record.trial.cell];
        let metric = self.record.plan.main_metric(cell);
        let value = metric.and_then(|metric| Some((metric, metric_value(metric, &record.outcome.samples)?)));
        let name = format!("{} @ {}", cell.test, cell.placement.name);
        match (value, record.verdict.grade) {
            (_, Grade::Invalid) => format!("{name}: invalid: {}", record.verdict.reasons.join("; ")),
            (Some((metric, value)), _) => format!("{name}: {} {}", report::number::significant(value), metric.unit),
            (None, _) => name,
        }
    }
}

fn remaining(forecast: Forecast) -> String {
    // In whole seconds, rounded up: an estimate is not more precise.
    let seconds = forecast.left.0.div_ceil(1_000_000_000);
    if seconds == 0 { "ending".into() } else { format!("at most {} left", Nanos(seconds * 1_000_000_000)) }
}
