//! Figures of a search: predicted against measured differences of the candidates that were run, and the learning curve.
//! Decides layout only.

use askama::Template;
use model::analysis::place::{PlaceResult, RankingRow};

use crate::axis::Axis;
use crate::frame::{Frame, through};
use crate::number::signed_percent;
use crate::style::clean;
use crate::svg::{Svg, SvgDot, SvgPath, pixels};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 30.0;
const HEADING: f64 = 30.0;
const HEIGHT: f64 = 220.0;
const AXIS: f64 = 40.0;

/// A figure with its caption.
pub(crate) struct SearchFigure {
    pub(crate) svg: String,
    pub(crate) caption: &'static str,
}

/// Returns the figures of a search. Empty without a search.
pub(crate) fn figures(answer: &PlaceResult) -> Vec<SearchFigure> {
    let predicted = predicted(answer).map(|svg| SearchFigure {
        svg,
        caption: "Difference of each candidate to the kernel's choice, as measured in the search (horizontal) and as predicted \
                  from all trials (vertical, with the 90 % range). Points on the line agree.",
    });
    let learned = curve(answer).map(|svg| SearchFigure {
        svg,
        caption: "The best candidate so far against the kernel's choice, by number of trials. Selection data, so it \
                  overstates the gain.",
    });
    predicted.into_iter().chain(learned).collect()
}

fn frame(x: Axis, y: Axis) -> Frame {
    Frame { x, y, left: LEFT, right: WIDTH - RIGHT, top: HEADING, height: HEIGHT, inside: 4.0 }
}

fn picture(title: &str, heading: &str, below: &str, description: String, plot: &Frame) -> Svg {
    let mut picture = Svg {
        title: title.into(),
        description,
        width: pixels(WIDTH),
        height: pixels(HEADING + HEIGHT + AXIS),
        ..Svg::default()
    };
    picture.label("h", 4.0, 16.0, heading);
    for (tick, text) in plot.y.ticks() {
        plot.level(&mut picture, tick, &format!("{text} %"));
        plot.across(&mut picture, "grid", tick);
    }
    plot.edges(&mut picture);
    picture.label("e q", WIDTH - RIGHT, plot.bottom() + 34.0, below);
    picture
}

/// A candidate that was run: measured and predicted difference.
fn points(answer: &PlaceResult) -> Vec<(&RankingRow, f64, f64)> {
    let point = |row| {
        let row: &RankingRow = row;
        Some((row, row.measured_percent?, row.predicted?.mean))
    };
    answer.standings.iter().filter_map(point).collect()
}

fn predicted(answer: &PlaceResult) -> Option<String> {
    let points = points(answer);
    let measured: Vec<f64> = points.iter().map(|point| point.1).collect();
    let predicted: Vec<f64> = points.iter().map(|point| point.2).collect();
    let ends: Vec<f64> =
        points.iter().filter_map(|point| point.0.predicted).flat_map(|range| [range.low, range.high]).collect();
    let plot = frame(Axis::over(&measured, &[])?, Axis::over(&predicted, &ends)?);
    let texts: String = points.iter().map(|point| format!(" {}.", caption(point))).collect();
    let mut picture = picture(
        "Predicted against measured",
        "Predicted difference to the kernel's choice",
        "measured difference",
        format!("Difference of candidates to the kernel's choice.{texts}"),
        &plot,
    );
    for (tick, text) in plot.x.ticks() {
        plot.below(&mut picture, plot.x(tick), &format!("{text} %"));
    }
    let (low, high) = (plot.x.low.max(plot.y.low), plot.x.high.min(plot.y.high));
    if low < high {
        let path = through(&[(plot.x(low), plot.y(low)), (plot.x(high), plot.y(high))]);
        picture.lines.push(SvgPath { class: "step".into(), path });
    }
    for point in &points {
        let (x, y) = (plot.x(point.1), plot.y(point.2));
        let range = point.0.predicted;
        plot.whisker(&mut picture, "whisker", x, (range.map(|range| range.low), range.map(|range| range.high)));
        picture.points.push(SvgDot { class: "point", x: pixels(x), y: pixels(y), title: caption(point) });
    }
    Some(picture.render().expect("the template renders"))
}

fn caption((row, measured, predicted): &(&RankingRow, f64, f64)) -> String {
    let name = clean(&row.placed.placement);
    format!("{name}: measured {}, predicted {}", signed_percent(*measured), signed_percent(*predicted))
}

fn curve(answer: &PlaceResult) -> Option<String> {
    let last = answer.curve.last()?.trials;
    let values: Vec<f64> = answer.curve.iter().map(|point| point.best_percent).collect();
    let x = Axis { low: 0.0, high: f64::from(last) * 1.02, logarithmic: false };
    let plot = frame(x, Axis::over(&values, &[0.0])?);
    let texts: String = answer
        .curve
        .iter()
        .map(|point| format!(" {}: {}.", point.trials, signed_percent(point.best_percent)))
        .collect();
    let mut picture = picture(
        "Best candidate so far",
        "Best candidate so far, difference to the kernel's choice",
        "trials",
        format!("Difference of the best candidate so far to the kernel's choice, by number of trials.{texts}"),
        &plot,
    );
    for (tick, text) in plot.x.ticks() {
        plot.below(&mut picture, plot.x(tick), &text);
    }
    let places: Vec<(f64, f64)> =
        answer.curve.iter().map(|point| (plot.x(f64::from(point.trials)), plot.y(point.best_percent))).collect();
    for (point, (x, y)) in answer.curve.iter().zip(&places) {
        let title = format!("{} trials: {}", point.trials, signed_percent(point.best_percent));
        picture.points.push(SvgDot { class: "point", x: pixels(*x), y: pixels(*y), title });
    }
    picture.lines.push(SvgPath { class: "curve".into(), path: through(&places) });
    Some(picture.render().expect("the template renders"))
}
