//! Figures of a change over time: the runs of a machine or of a class, the change of the level, and its 95 % interval.

use askama::Template;
use model::analysis::survey::{LevelChange, RunTime};

use crate::axis::Axis;
use crate::frame::Frame;
use crate::number::{date, signed_percent};
use crate::style::clean;
use crate::svg::{Svg, SvgDot, SvgRect, pixels};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const HEIGHT: f64 = 150.0;
const AXIS: f64 = 44.0;
/// Width of a date to each side of its position.
const DATE: f64 = 62.0;

/// `None` without points.
pub(super) fn svg(change: &LevelChange) -> Option<String> {
    let values: Vec<f64> = change.points.iter().map(|point| point.change_percent).collect();
    let y = Axis::over(&values, &[])?;
    let line = TimeAxis::of(change)?;
    let ats: Vec<f64> = (0..change.points.len()).map(|at| line.at(at)).collect();
    let x = Axis { low: ats[0], high: ats[ats.len() - 1].max(ats[0] + 1.0), logarithmic: false };
    let frame = Frame { x, y, left: LEFT, right: WIDTH - RIGHT, top: TOP, height: HEIGHT, inside: 10.0 };
    let whose = change.machine.as_deref().unwrap_or("the whole class");
    let title = clean(&format!("{whose}: {} over time", change.test));
    let mut picture = Svg {
        description: description(change, &title),
        title: title.clone(),
        width: pixels(WIDTH),
        height: pixels(TOP + HEIGHT + AXIS),
        ..Svg::default()
    };
    picture.label("h", 4.0, 16.0, &title);
    for (tick, text) in frame.y.ticks() {
        frame.level(&mut picture, tick, &format!("{text} %"));
        frame.across(&mut picture, "grid", tick);
    }
    frame.edges(&mut picture);
    let between = |one: &RunTime, other: &RunTime| Some((line.find(one)?, line.find(other)?));
    if let Some((earliest, latest)) = between(&change.earliest, &change.latest) {
        let (left, right) = (frame.x(earliest), frame.x(latest));
        let [x, y, width, height] = [left, TOP, right - left, HEIGHT].map(pixels);
        let title = format!("between {} and {} (95 %)", date(change.earliest.unix_ms), date(change.latest.unix_ms));
        picture.boxes.push(SvgRect { class: "heat", x, y, width, height, heat: Some(0.15), title });
    }
    if let Some((before, after)) = between(&change.before, &change.after) {
        frame.upright(&mut picture, "axis answer", f64::midpoint(before, after));
    }
    for (point, at) in change.points.iter().zip(&ats) {
        let title =
            clean(&format!("run {}, {}: {}", point.run, date(point.unix_ms), signed_percent(point.change_percent)));
        let (x, y) = (pixels(frame.x(*at)), pixels(frame.y(point.change_percent)));
        picture.points.push(SvgDot { class: "point", x, y, title });
    }
    dates(&mut picture, &frame, change, &line);
    Some(picture.render().expect("the template renders"))
}

/// The first and the last date, and that of the change if it does not overlap them.
fn dates(picture: &mut Svg, frame: &Frame, change: &LevelChange, line: &TimeAxis<'_>) {
    let last = change.points.len() - 1;
    let of_change = change.points.iter().position(|point| point.run == change.after.run).unwrap_or(last);
    let mut taken: Vec<f64> = Vec::new();
    for at in [0, last, of_change] {
        let x = frame.x(line.at(at)).clamp(LEFT + DATE, WIDTH - RIGHT - DATE);
        if taken.iter().all(|other| (other - x).abs() >= 2.0 * DATE) {
            taken.push(x);
            frame.below(picture, x, &date(change.points[at].unix_ms));
        }
    }
    let text = if line.in_time { "start time of the run" } else { "runs in their order" };
    picture.label("c", f64::midpoint(LEFT, WIDTH - RIGHT), frame.bottom() + 36.0, text);
}

/// Horizontal positions of runs: by time, or equally spaced if times do not distinguish them.
struct TimeAxis<'c> {
    change: &'c LevelChange,
    in_time: bool,
}

impl<'c> TimeAxis<'c> {
    fn of(change: &'c LevelChange) -> Option<Self> {
        let in_time = change.points.first()?.unix_ms < change.points.last()?.unix_ms;
        Some(Self { change, in_time })
    }

    fn at(&self, index: usize) -> f64 {
        if self.in_time { self.change.points[index].unix_ms as f64 } else { index as f64 }
    }

    fn find(&self, moment: &RunTime) -> Option<f64> {
        let index = self.change.points.iter().position(|point| point.run == moment.run)?;
        Some(self.at(index))
    }
}

/// A description of the figure for screen readers.
fn description(change: &LevelChange, title: &str) -> String {
    let points = change.points.iter().map(|point| signed_percent(point.change_percent)).collect::<Vec<_>>().join(", ");
    clean(&format!(
        "{title}, run by run against the median: {points}. The level changed by {} before run {} of {}.",
        signed_percent(change.change_percent),
        change.after.run,
        date(change.after.unix_ms)
    ))
}
