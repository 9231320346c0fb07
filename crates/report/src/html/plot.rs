//! Figures of samples: one strip per placement, its trials from top to bottom, with the median and its interval.
//! Decides layout only; every value comes from the finding.

use askama::Template;
use model::analysis::finding::{CellFinding, MetricFinding};

use crate::axis::{Axis, direction_label};
use crate::number::{Scale, significant};
use crate::style::{clean, shortened};
use crate::svg::pixels;

/// The width of a figure in its user units; the page scales it.
const WIDTH: f64 = 760.0;
const STRIP_HEIGHT: f64 = 46.0;
/// Height for the samples inside a strip.
const STRIP_INSIDE: f64 = 32.0;
const AXIS_HEIGHT: f64 = 34.0;
const RIGHT: f64 = 14.0;
/// Approximate width of a character of the labels.
const CHARACTER: f64 = 7.0;
const LABEL_WIDTH_MAX: f64 = 230.0;
/// Significant digits of a sample in the readout; the figure shows four.
const READOUT_DIGITS: usize = 6;

/// The cell of a strip, and its samples.
pub(crate) struct Strip<'a> {
    pub(crate) cell: &'a CellFinding,
    pub(crate) metric: &'a MetricFinding,
    pub(crate) baseline: bool,
    /// The label: the placement, or the name of the command.
    pub(crate) name: &'a str,
}

/// A figure, ready for its template.
#[derive(Template)]
#[template(path = "strips.svg")]
pub(crate) struct Figure {
    title: String,
    description: String,
    width: String,
    height: String,
    /// The vertical position where the strips end and the axis begins.
    bottom: String,
    left: String,
    ticks: Vec<(String, String)>,
    axis: String,
    unit: String,
    strips: Vec<DrawnStrip>,
}

struct DrawnStrip {
    label: String,
    label_y: String,
    line_y: String,
    class: &'static str,
    points: String,
    crosses: String,
    median: Option<DrawnMedian>,
    title: String,
    /// For the readout: the full name, the number of samples, and each sample drawn.
    name: String,
    of: usize,
    values: String,
}

struct DrawnMedian {
    x: String,
    y: String,
    bottom: String,
    band_x: String,
    band_width: String,
    height: String,
}

/// Draws a figure with at most `points_max` points per strip. `None` without samples.
pub(crate) fn figure(test: &str, strips: &[Strip], points_max: usize) -> Option<Figure> {
    let first = strips.first()?.metric;
    let longest = strips.iter().map(|strip| label(strip).chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHARACTER + 14.0).min(LABEL_WIDTH_MAX);
    let scale = Axis::over(&values(strips), &ends(strips))?;
    let axis = XScale { scale, left };
    let bottom = STRIP_HEIGHT * strips.len() as f64 + 4.0;
    let title = clean(&format!("{test}: {} in {}", first.name, first.unit));
    Some(Figure {
        description: description(strips, &title),
        title,
        width: pixels(WIDTH),
        height: pixels(bottom + AXIS_HEIGHT),
        bottom: pixels(bottom),
        left: pixels(left),
        ticks: axis.scale.ticks().into_iter().map(|(tick, text)| (pixels(axis.x(tick)), text)).collect(),
        axis: axis_label(first, axis.scale.logarithmic),
        unit: clean(&first.unit),
        strips: strips.iter().enumerate().map(|(index, strip)| drawn(strip, index, &axis, points_max)).collect(),
    })
}

/// The horizontal axis, from the labels to the right edge.
struct XScale {
    scale: Axis,
    left: f64,
}

impl XScale {
    fn x(&self, value: f64) -> f64 {
        self.left + self.scale.share(value) * (WIDTH - RIGHT - self.left)
    }
}

fn values(strips: &[Strip]) -> Vec<f64> {
    let medians = strips.iter().filter_map(|strip| strip.metric.median);
    strips.iter().flat_map(|strip| strip.metric.samples.iter().copied()).chain(medians).collect()
}

fn ends(strips: &[Strip]) -> Vec<f64> {
    strips.iter().flat_map(|strip| [strip.metric.ci_low, strip.metric.ci_high]).flatten().collect()
}

/// A description of the figure for screen readers.
fn description(strips: &[Strip], title: &str) -> String {
    let mut text = format!("Samples of {title}.");
    for strip in strips {
        let median = strip.metric.median.map_or("no result".into(), |median| format!("median {}", significant(median)));
        text += &format!(" {}: {median}.", label(strip));
    }
    text
}

fn label(strip: &Strip) -> String {
    clean(strip.name)
}

fn axis_label(metric: &MetricFinding, logarithmic: bool) -> String {
    let better = direction_label(metric.better);
    let scale = if logarithmic { ", logarithmic" } else { "" };
    clean(&format!("{}, {} ({better}{scale})", metric.name, metric.unit))
}

fn drawn(strip: &Strip, index: usize, axis: &XScale, points_max: usize) -> DrawnStrip {
    let top = STRIP_HEIGHT * index as f64 + 4.0;
    let StripMarks { points, crosses, values } = marks(strip, axis, top, points_max);
    let metric = strip.metric;
    let scale = metric.median.map(Scale::of);
    let median = metric.median.filter(|median| median.is_finite()).map(|median| {
        let low = axis.x(metric.ci_low.unwrap_or(median));
        let high = axis.x(metric.ci_high.unwrap_or(median));
        DrawnMedian {
            x: pixels(axis.x(median)),
            y: pixels(top + 1.0),
            bottom: pixels(top + STRIP_HEIGHT - 9.0),
            band_x: pixels(low),
            band_width: pixels((high - low).max(0.5)),
            height: pixels(STRIP_HEIGHT - 10.0),
        }
    });
    let words = metric.median.zip(scale).map_or("no result".into(), |(median, scale)| {
        let ends = crate::number::interval(metric.ci_low, metric.ci_high, scale);
        let ends = ends.map_or(String::new(), |ends| format!(", 95 % interval {ends}"));
        format!("median {} {}{ends}, {} samples", scale.write(median), metric.unit, metric.samples.len())
    });
    let shown = label(strip);
    let width_left = ((LABEL_WIDTH_MAX - 14.0) / CHARACTER) as usize;
    DrawnStrip {
        label: shortened(&shown, width_left),
        label_y: pixels(top + STRIP_HEIGHT / 2.0),
        line_y: pixels(top + STRIP_HEIGHT - 4.0),
        class: if strip.baseline { "base" } else { "other" },
        points,
        crosses,
        median,
        title: clean(&format!("{shown}: {words}")),
        name: shown,
        of: metric.samples.len(),
        values,
    }
}

/// Samples as SVG paths, and as values in drawing order.
#[derive(Default)]
struct StripMarks {
    points: String,
    crosses: String,
    /// `3:1.85321e4` is the third sample, a dot; `4x1.9e4` is the fourth, a cross.
    values: String,
}

/// A short path per sample: dots, and crosses for disturbed trials.
fn marks(strip: &Strip, axis: &XScale, top: f64, points_max: usize) -> StripMarks {
    let samples = &strip.metric.samples;
    let mut marks = StripMarks::default();
    for index in chosen(samples, points_max) {
        let value = samples[index];
        if !value.is_finite() || (axis.scale.logarithmic && value <= 0.0) {
            continue;
        }
        let depth = if samples.len() < 2 { 0.5 } else { index as f64 / (samples.len() - 1) as f64 };
        let (x, y) = (pixels(axis.x(value)), pixels(top + 3.0 + STRIP_INSIDE * depth));
        let kind = if strip.metric.suspect.get(index) == Some(&true) {
            marks.crosses += &format!("M{x} {y}m-3-3l6 6m0-6l-6 6");
            'x'
        } else {
            marks.points += &format!("M{x} {y}h0");
            ':'
        };
        let space = if marks.values.is_empty() { "" } else { " " };
        marks.values += &format!("{space}{}{kind}{value:.*e}", index + 1, READOUT_DIGITS - 1);
    }
    marks
}

/// The samples to draw: all, or every n-th with the minimum and the maximum.
pub(crate) fn chosen(samples: &[f64], points_max: usize) -> Vec<usize> {
    if samples.len() <= points_max {
        return (0..samples.len()).collect();
    }
    let extreme = |better: fn(&f64, &f64) -> bool| {
        (0..samples.len()).reduce(|best, index| if better(&samples[index], &samples[best]) { index } else { best })
    };
    let step = samples.len().div_ceil(points_max.max(3) - 2);
    let mut indices: Vec<usize> = (0..samples.len()).step_by(step).collect();
    indices.extend([extreme(|a, b| a < b), extreme(|a, b| a > b)].into_iter().flatten());
    indices.sort_unstable();
    indices.dedup();
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_strip_keeps_its_extremes_and_order() {
        let mut samples: Vec<f64> = (0..1000).map(|index| f64::from(index % 97)).collect();
        samples[501] = -5.0;
        samples[502] = 500.0;
        let chosen = chosen(&samples, 50);
        assert!(chosen.len() <= 50, "{}", chosen.len());
        assert!(chosen.contains(&501) && chosen.contains(&502));
        assert!(chosen.is_sorted());
        assert_eq!(super::chosen(&samples[..50], 50).len(), 50);
    }
}
