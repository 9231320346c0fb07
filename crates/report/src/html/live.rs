//! An experiment on a running service as a page: the answer, and the rate of every period over time.

use askama::Template;
use model::analysis::live::{LiveId, LivePeriod, LivePhase, LiveTrial};
use model::stats::switchback::ArmId;

use super::table::HtmlTable;
use super::{ReportPage, render, unbroken};
use crate::axis::Axis;
use crate::frame::Frame;
use crate::live_trial::{answer, grid, notes, so_far};
use crate::number::significant;
use crate::style::clean;
use crate::svg::{Svg, SvgDot, SvgPath, pixels};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
/// Space for the names of the parts.
const TOP: f64 = 24.0;
/// Height of the strip of a placement, and of its name above it.
const STRIP: f64 = 84.0;
const NAME: f64 = 26.0;
const AXIS: f64 = 44.0;
/// Space for the legend below the axis.
const LEGEND: f64 = 20.0;
const ROWS_MAX: usize = 100;
/// Colours of the placements, in order, and that of the periods that measure the wash-out.
const COLOURS: [&str; 7] = ["dot k0", "dot k1", "dot k2", "dot k3", "dot k4", "dot k5", "dot k6"];
const WASH_OUT: &str = "dot k7";
const NOT_COUNTED: &str = "point open";

/// An experiment on a running service.
#[derive(Clone, Copy, Debug)]
pub struct LiveSection<'a> {
    pub id: &'a LiveId,
    pub trial: &'a LiveTrial,
}

/// An experiment, ready for the template.
pub(crate) struct LivePart {
    pub(crate) anchor: String,
    pub(crate) subject: String,
    pub(crate) metric: String,
    pub(crate) answer: String,
    pub(crate) class: &'static str,
    /// The fresh pairs so far, if there is no answer.
    pub(crate) so_far: Option<String>,
    pub(crate) quantity: String,
    pub(crate) picture: Option<String>,
    pub(crate) table: HtmlTable,
    pub(crate) notes: Vec<String>,
}

impl LivePart {
    pub(crate) fn new(section: &LiveSection<'_>) -> Self {
        let trial = section.trial;
        let (answer, tone) = answer(trial);
        Self {
            anchor: format!("live-{}", clean(&section.id.0)),
            subject: clean(&trial.subject),
            metric: clean(&trial.metric),
            answer: unbroken(&answer),
            class: tone.class(),
            so_far: so_far(trial).as_deref().map(unbroken),
            quantity: clean(&trial.quantity),
            picture: picture(trial),
            table: HtmlTable::new("Placements", grid(trial), ROWS_MAX),
            notes: notes(trial),
        }
    }
}

/// Renders a page with one experiment. Equal input yields equal bytes.
pub fn live_trial(id: &LiveId, trial: &LiveTrial, generated_by: &str) -> String {
    render(&ReportPage {
        live: vec![LiveSection { id, trial }],
        generated_by: generated_by.into(),
        ..ReportPage::default()
    })
}

/// One strip of points for each placement, below each other on the same axes. `None` without a rate.
fn picture(trial: &LiveTrial) -> Option<String> {
    let rates: Vec<f64> = trial.periods.iter().filter_map(|period| period.rate).collect();
    Axis::over(&rates, &[])?;
    let height = TOP + trial.placements.len() as f64 * (STRIP + NAME) + AXIS + LEGEND;
    let title = clean(&format!("{}: {} by placement over time", trial.subject, trial.quantity));
    let mut picture =
        Svg { description: description(trial), title, width: pixels(WIDTH), height: pixels(height), ..Svg::default() };
    let mut last = None;
    for at in 0..trial.placements.len() {
        let frame = Frame {
            x: Axis { low: 0.0, high: trial.seconds.max(1.0) / 60.0, logarithmic: false },
            y: Axis::over(&rates, &[])?,
            left: LEFT,
            right: WIDTH - RIGHT,
            top: TOP + at as f64 * (STRIP + NAME) + NAME,
            height: STRIP,
            inside: 6.0,
        };
        strip(&mut picture, &frame, trial, ArmId(at as u32));
        last = Some(frame);
    }
    let last = last?;
    for (tick, text) in last.x.ticks() {
        last.below(&mut picture, last.x(tick), &text);
    }
    picture.label("c", f64::midpoint(LEFT, WIDTH - RIGHT), last.bottom() + 36.0, "minutes since the begin");
    parts(&mut picture, &last, trial);
    legend(&mut picture, height - 8.0);
    picture.render().ok()
}

fn strip(picture: &mut Svg, frame: &Frame, trial: &LiveTrial, arm: ArmId) {
    if let Some(placement) = trial.placement(arm) {
        let name = clean(&format!("{}, {}", placement.name, placement.cpus.described()));
        picture.label("h", LEFT, frame.top - 8.0, &name);
    }
    // A strip is low: every second label would overlap the next.
    for (tick, text) in frame.y.ticks().into_iter().step_by(2) {
        frame.level(picture, tick, &text);
        frame.across(picture, "grid", tick);
    }
    frame.edges(picture);
    if let (Some(median), _) = trial.rate(arm) {
        frame.across(picture, "axis answer", median);
    }
    for period in trial.periods.iter().filter(|period| period.arm == arm) {
        let (class, y) = match (period.rate, period.phase) {
            (None, _) => (NOT_COUNTED, frame.bottom()),
            (Some(rate), LivePhase::WashOut) => (WASH_OUT, frame.y(rate)),
            (Some(rate), LivePhase::Race | LivePhase::Confirm) => {
                (COLOURS[arm.0 as usize % COLOURS.len()], frame.y(rate))
            }
        };
        let (x, y, title) = (pixels(frame.x(period.at_s / 60.0)), pixels(y), point_title(trial, period));
        picture.points.push(SvgDot { class, x, y, title });
    }
}

/// Explains the points that do not have the colour of their placement.
fn legend(picture: &mut Svg, y: f64) {
    let entries = [(WASH_OUT, LEFT, "measures the wash-out"), (NOT_COUNTED, LEFT + 170.0, "does not count")];
    for (class, x, text) in entries {
        picture.points.push(SvgDot { class, x: pixels(x), y: pixels(y - 4.0), title: text.into() });
        picture.label("q", x + 8.0, y, text);
    }
}

/// `83.2 s, in the race: 37800/s`.
fn point_title(trial: &LiveTrial, period: &LivePeriod) -> String {
    let what = match (period.rate, &period.unproven) {
        (Some(rate), _) => format!("{}{}", significant(rate), clean(&trial.unit)),
        (None, reason) => format!("does not count: {}", clean(reason.as_deref().unwrap_or("no rate"))),
    };
    format!("{:.1} s, {}: {what}", period.at_s, part_name(period.phase))
}

fn part_name(phase: LivePhase) -> &'static str {
    match phase {
        LivePhase::WashOut => "measuring the wash-out",
        LivePhase::Race => "race",
        LivePhase::Confirm => "fresh pairs",
    }
}

/// A vertical line where each part begins, with its name above all strips.
fn parts(picture: &mut Svg, last: &Frame, trial: &LiveTrial) {
    for phase in [LivePhase::WashOut, LivePhase::Race, LivePhase::Confirm] {
        let Some(first) = trial.periods.iter().find(|period| period.phase == phase) else { continue };
        let x = last.x(first.at_s / 60.0);
        picture.label("q", x, TOP - 8.0, part_name(phase));
        picture.lines.push(SvgPath {
            class: "step".into(),
            path: format!("M{} {}V{}", pixels(x), pixels(TOP - 4.0), pixels(last.bottom())),
        });
    }
}

/// A description of the picture for screen readers.
fn description(trial: &LiveTrial) -> String {
    let rates = trial.placements.iter().enumerate().filter_map(|(at, placement)| {
        let (rate, periods) = trial.rate(ArmId(at as u32));
        let unit = clean(&trial.unit);
        Some(format!("{}: {}{unit} in {periods} periods", clean(&placement.name), significant(rate?)))
    });
    format!("Medians: {}.", rates.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_trial::tests::trial;
    use model::analysis::live::LiveAnswer;

    fn page(trial: &LiveTrial) -> String {
        live_trial(&LiveId("ab12".into()), trial, "nearfar 1.0")
    }

    #[test]
    fn page_shows_every_period_and_the_answer() {
        let stopped = LiveAnswer::Stopped { reason: "<b>it was interrupted".into() };
        let page = page(&trial(stopped));
        assert!(page.contains("unit redis: no claim: &#60;b&#62;it was interrupted"), "{page}");
        assert_eq!(page.matches("<circle").count(), 5 + 2, "one point per period, and two in the legend");
        assert_eq!(page.matches("class=\"point open\"").count(), 1 + 1, "a period that does not count");
        for class in ["dot k0", "dot k1", "dot k2"] {
            assert_eq!(page.matches(&format!("class=\"{class}\"")).count(), 1, "{class}: the race of a placement");
        }
        assert!(page.contains("does not count: thread 8 of process 7 may run on CPU 3"));
        for part in ["measuring the wash-out", "race", "fresh pairs", "node:1, CPUs 6-11"] {
            assert!(page.contains(&format!(">{part}</text>")), "{part}");
        }
    }

    #[test]
    fn experiment_without_rates_has_no_picture() {
        let mut trial = trial(LiveAnswer::Stopped { reason: "the service has ended".into() });
        trial.periods.clear();
        let page = page(&trial);
        assert!(!page.contains("<svg") && page.contains("the service has ended"));
    }
}
