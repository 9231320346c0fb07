//! Samples as pictures: one strip per placement, its trials from top to bottom, the median and its interval over
//! them. Decides pixels only; every number comes from the finding.

use askama::Template;
use model::finding::{CellFinding, MetricFinding};

use crate::look::clean;
use crate::number::{Scale, significant};
use crate::picture::pixels;

/// The width of a figure in its own units; the page scales it.
const WIDTH: f64 = 760.0;
const STRIP_HEIGHT: f64 = 46.0;
/// Room for samples inside a strip.
const STRIP_INSIDE: f64 = 32.0;
const AXIS_HEIGHT: f64 = 34.0;
const RIGHT: f64 = 14.0;
/// About one character of the labels.
const CHARACTER: f64 = 7.0;
const LABEL_WIDTH_MAX: f64 = 230.0;
/// Values that differ by more than this are shown on a logarithmic axis.
const LOGARITHMIC_FROM: f64 = 30.0;

/// Which samples of a cell are drawn, and what is said of it.
pub(crate) struct Strip<'a> {
    pub(crate) cell: &'a CellFinding,
    pub(crate) metric: &'a MetricFinding,
    pub(crate) baseline: bool,
    /// One per sample: whether its trial was disturbed.
    pub(crate) suspect: Vec<bool>,
}

/// A figure, ready for its template.
#[derive(Template)]
#[template(path = "strips.svg")]
pub(crate) struct Figure {
    title: String,
    description: String,
    width: String,
    height: String,
    /// Where the strips end and the axis begins.
    bottom: String,
    left: String,
    ticks: Vec<(String, String)>,
    axis: String,
    strips: Vec<DrawnStrip>,
}

struct DrawnStrip {
    label: String,
    /// Anchors in its middle.
    label_y: String,
    line_y: String,
    class: &'static str,
    points: String,
    crosses: String,
    median: Option<DrawnMedian>,
    title: String,
}

struct DrawnMedian {
    x: String,
    y: String,
    bottom: String,
    band_x: String,
    band_width: String,
    height: String,
}

/// Draws a figure with at most so many points in each strip; none when there is no sample.
pub(crate) fn figure(test: &str, strips: &[Strip], points_max: usize) -> Option<Figure> {
    let first = strips.first()?.metric;
    let longest = strips.iter().map(|strip| label(strip).chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHARACTER + 14.0).min(LABEL_WIDTH_MAX);
    let axis = Axis::over(strips, left)?;
    let bottom = STRIP_HEIGHT * strips.len() as f64 + 4.0;
    let title = clean(&format!("{test}: {} in {}", first.name, first.unit));
    Some(Figure {
        description: description(strips, &title),
        title,
        width: pixels(WIDTH),
        height: pixels(bottom + AXIS_HEIGHT),
        bottom: pixels(bottom),
        left: pixels(left),
        ticks: axis.ticks().into_iter().map(|(tick, text)| (pixels(axis.x(tick)), text)).collect(),
        axis: axis_label(first, axis.logarithmic),
        strips: strips.iter().enumerate().map(|(index, strip)| drawn(strip, index, &axis, points_max)).collect(),
    })
}

/// What the eye sees, for those who do not see it.
fn description(strips: &[Strip], title: &str) -> String {
    let mut text = format!("Samples of {title}.");
    for strip in strips {
        let median = strip.metric.median.map_or("no result".into(), |median| format!("median {}", significant(median)));
        text += &format!(" {}: {median}.", label(strip));
    }
    text
}

fn label(strip: &Strip) -> String {
    clean(&strip.cell.placement)
}

fn axis_label(metric: &MetricFinding, logarithmic: bool) -> String {
    let better = match metric.better {
        model::workload::Better::Higher => "more is better",
        model::workload::Better::Lower => "less is better",
    };
    let scale = if logarithmic { ", logarithmic" } else { "" };
    clean(&format!("{}, {} ({better}{scale})", metric.name, metric.unit))
}

fn drawn(strip: &Strip, index: usize, axis: &Axis, points_max: usize) -> DrawnStrip {
    let top = STRIP_HEIGHT * index as f64 + 4.0;
    let (points, crosses) = marks(strip, axis, top, points_max);
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
    let room = ((LABEL_WIDTH_MAX - 14.0) / CHARACTER) as usize;
    DrawnStrip {
        label: if shown.chars().count() > room {
            format!("{}…", shown.chars().take(room - 1).collect::<String>())
        } else {
            shown.clone()
        },
        label_y: pixels(top + STRIP_HEIGHT / 2.0),
        line_y: pixels(top + STRIP_HEIGHT - 4.0),
        class: if strip.baseline { "base" } else { "other" },
        points,
        crosses,
        median,
        title: clean(&format!("{shown}: {words}")),
    }
}

/// Every sample as a short path: dots, and crosses for disturbed trials.
fn marks(strip: &Strip, axis: &Axis, top: f64, points_max: usize) -> (String, String) {
    let samples = &strip.metric.samples;
    let (mut points, mut crosses) = (String::new(), String::new());
    for index in chosen(samples, points_max) {
        let value = samples[index];
        if !value.is_finite() || (axis.logarithmic && value <= 0.0) {
            continue;
        }
        let depth = if samples.len() < 2 { 0.5 } else { index as f64 / (samples.len() - 1) as f64 };
        let (x, y) = (pixels(axis.x(value)), pixels(top + 3.0 + STRIP_INSIDE * depth));
        if strip.suspect.get(index) == Some(&true) {
            crosses += &format!("M{x} {y}m-3-3l6 6m0-6l-6 6");
        } else {
            points += &format!("M{x} {y}h0");
        }
    }
    (points, crosses)
}

/// Which samples are drawn: all of them, or every so many-th with the smallest and the largest.
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

/// Maps values to pixels.
struct Axis {
    low: f64,
    high: f64,
    left: f64,
    logarithmic: bool,
}

impl Axis {
    fn over(strips: &[Strip], left: f64) -> Option<Self> {
        let medians = strips.iter().filter_map(|strip| strip.metric.median);
        let values = strips.iter().flat_map(|strip| strip.metric.samples.iter().copied()).chain(medians);
        let finite = values.filter(|value| value.is_finite());
        let (least, most) =
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if !least.is_finite() {
            return None;
        }
        // Two trials far apart have an interval over many powers of ten, beside which nothing else could be seen.
        let beyond = (most - least).max(most.abs() * 0.1);
        let ends = strips.iter().flat_map(|strip| [strip.metric.ci_low, strip.metric.ci_high]).flatten();
        let near = ends.map(|end| end.clamp(if least > 0.0 { least / 3.0 } else { least - beyond }, most + beyond));
        let (low, high) = near.fold((least, most), |(low, high), end| (low.min(end), high.max(end)));
        let logarithmic = low > 0.0 && high / low > LOGARITHMIC_FROM;
        let margin = if high > low { (high - low) * 0.04 } else { high.abs().max(1.0) * 0.05 };
        let (low, high) = if logarithmic { (low / 1.15, high * 1.15) } else { (low - margin, high + margin) };
        Some(Self { low, high, left, logarithmic })
    }

    fn x(&self, value: f64) -> f64 {
        // An interval that goes on beyond the axis ends at its edge.
        let value = value.clamp(self.low, self.high);
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.left + share * (WIDTH - RIGHT - self.left)
    }

    /// Where ticks stand and what they say: multiples of 1, 2 or 5 times a power of ten.
    fn ticks(&self) -> Vec<(f64, String)> {
        let ticks = if self.logarithmic { self.logarithmic_ticks() } else { self.linear_ticks() };
        ticks.into_iter().map(|(tick, step)| (tick, tick_text(tick, step))).collect()
    }

    /// About six, each with the distance to the next.
    fn linear_ticks(&self) -> Vec<(f64, f64)> {
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil();
        let ticks = (0..10).map(|index| (first + f64::from(index)) * step);
        ticks.take_while(|tick| *tick <= self.high).map(|tick| (tick, step)).collect()
    }

    /// The leading digits 1, 2 and 5; only 1 where that would crowd the axis.
    fn logarithmic_ticks(&self) -> Vec<(f64, f64)> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let factors: &[f64] = if last - first > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        // So many powers of ten that a crowded axis keeps ten ticks at most.
        let stride = ((last - first) / 10 + 1) as usize;
        let powers = (first..=last).step_by(stride).map(|power| 10f64.powi(power));
        let ticks = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
        ticks.filter(|tick| (self.low..=self.high).contains(tick)).map(|tick| (tick, tick)).collect()
    }
}

/// A tick without digits that all ticks share: `18500`, `0.25`, `24.5M`.
fn tick_text(tick: f64, step: f64) -> String {
    let (divisor, suffix) = match tick.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / divisor).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{:.decimals$}", tick / divisor);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text.as_str() };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_strip_keeps_its_extremes_and_its_order() {
        let mut samples: Vec<f64> = (0..1000).map(|index| f64::from(index % 97)).collect();
        samples[501] = -5.0;
        samples[502] = 500.0;
        let chosen = chosen(&samples, 50);
        assert!(chosen.len() <= 50, "{}", chosen.len());
        assert!(chosen.contains(&501) && chosen.contains(&502));
        assert!(chosen.is_sorted());
        assert_eq!(super::chosen(&samples[..50], 50).len(), 50);
    }

    #[test]
    fn ticks_are_round_numbers_inside_the_axis() {
        let axis = |low, high, logarithmic| Axis { low, high, left: 0.0, logarithmic };
        let written = |axis: &Axis| -> Vec<String> { axis.ticks().into_iter().map(|(_, text)| text).collect() };
        assert_eq!(written(&axis(14_700.0, 22_900.0, false)), ["16000", "18000", "20000", "22000"]);
        assert_eq!(written(&axis(0.11, 0.37, false)), ["0.15", "0.2", "0.25", "0.3", "0.35"]);
        assert_eq!(written(&axis(-1.0, 1.0, false)), ["-1", "-0.5", "0", "0.5", "1"]);
        assert_eq!(written(&axis(24.1e6, 25.2e6, false)), ["24.2M", "24.4M", "24.6M", "24.8M", "25M", "25.2M"]);
        assert_eq!(written(&axis(1.5, 60.0, true)), ["2", "5", "10", "20", "50"]);
    }
}
