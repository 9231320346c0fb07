//! What a person sees while a run goes on: a bar with trials done, the current cell and the time left; plain
//! lines when stderr is not a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lab::run::{Event, Forecast};
use model::finding::metric_value;
use model::plan::Plan;
use model::record::TrialRecord;
use model::trial::{Grade, Role};

/// Plain lines come at most this often, so that a log stays readable.
const LINES_APART: Duration = Duration::from_secs(2);

/// Shows a run's progress on stderr.
pub struct Progress<'a> {
    plan: &'a Plan,
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    quiet: bool,
}

impl<'a> Progress<'a> {
    /// For one run.
    pub fn new(plan: &'a Plan, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} trials  {msg}")
                .expect("the template is constant and right");
            ProgressBar::new(0).with_style(style)
        });
        Self { plan, bar, last_line: None, quiet }
    }

    /// Shows an event.
    pub fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Begins { trial, forecast } => {
                let cell = &self.plan.cells[trial.cell];
                let warmup = if trial.role == Role::Warmup { "warm-up, " } else { "" };
                let now = format!("{warmup}{} @ {}", cell.test, cell.placement.name);
                self.bar(*forecast, &format!("{now}, {}", left(*forecast)));
            }
            Event::Stored { record, forecast } => self.stored(record, *forecast),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn bar(&self, forecast: Forecast, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(forecast.expected as u64);
            bar.set_position(forecast.done as u64);
            bar.set_message(message.to_string());
        }
    }

    fn stored(&mut self, record: &TrialRecord, forecast: Forecast) {
        let invalid = record.verdict.grade == Grade::Invalid;
        let line = format!("{}/{} {}, {}", forecast.done, forecast.expected, self.result(record), left(forecast));
        match &self.bar {
            Some(bar) if invalid => bar.println(self.result(record)),
            Some(_) => {}
            None => {
                let due = self.last_line.is_none_or(|last| last.elapsed() >= LINES_APART);
                if !self.quiet && (due || invalid) {
                    self.last_line = Some(Instant::now());
                    eprintln!("{line}");
                }
            }
        }
    }

    fn result(&self, record: &TrialRecord) -> String {
        let cell = &self.plan.cells[record.trial.cell];
        let metric = self.plan.spec(&cell.workload).and_then(|spec| spec.metrics.first());
        let value = metric.and_then(|metric| Some((metric, metric_value(metric, &record.outcome.samples)?)));
        let name = format!("{} @ {}", cell.test, cell.placement.name);
        match (value, record.verdict.grade) {
            (_, Grade::Invalid) => format!("{name}: invalid: {}", record.verdict.reasons.join("; ")),
            (Some((metric, value)), _) => format!("{name}: {} {}", report::number::significant(value), metric.unit),
            (None, _) => name,
        }
    }
}

fn left(forecast: Forecast) -> String {
    format!("at most {} left", forecast.left)
}
