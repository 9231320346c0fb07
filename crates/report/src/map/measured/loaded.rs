//! Loaded latency as curves: the latency of a load against the bandwidth reached, one curve per group of CPUs,
//! intervals as whiskers. Both axes begin at zero, so that slopes are not exaggerated. Decides layout only.

use model::placements::measured_map::LoadedPoint;
use model::values::id_set::{CpuSet, NodeId};

use super::load_description;
use super::sheet::{WIDTH, caption, shortened, tick};
use crate::axis::Axis;
use crate::frame::{Frame, through};
use crate::number::significant;
use crate::svg::{Svg, SvgDot, SvgPath, pixels};

const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
const HEADING: f64 = 30.0;
const HEIGHT: f64 = 230.0;
const AXIS: f64 = 26.0;
/// Height of a line of the legend, and width of an entry.
const ENTRY: (f64, f64) = (270.0, 18.0);
/// Maximum number of intervals of an axis.
const STEPS: f64 = 8.0;

/// The range from 0 to a round number above the largest value, and ticks at multiples of 1, 2 or 5 times a power of
/// ten.
fn axis_to(largest: f64) -> (Axis, Vec<f64>) {
    let power = 10f64.powf((largest / STEPS).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| largest <= step * STEPS);
    let step = step.unwrap_or(10.0 * power);
    let steps = (largest / step).ceil();
    let ticks = (0..=steps as u32).map(|count| f64::from(count) * step).collect();
    (Axis { low: 0.0, high: steps * step, logarithmic: false }, ticks)
}

/// Draws the curves below `top` and returns their bottom. Draws nothing if no point has a load.
pub(super) fn draw(picture: &mut Svg, points: &[LoadedPoint], top: f64) -> f64 {
    let most = points.iter().map(load_of).fold(0.0, f64::max);
    let slowest = points.iter().map(|point| point.latency.median).fold(0.0, f64::max);
    if most <= 0.0 || slowest <= 0.0 {
        return top;
    }
    // Whiskers may leave the plot; otherwise the wide interval of a few trials would flatten the curve.
    let ((x, loads), (y, times)) = (axis_to(most), axis_to(slowest));
    let plot = Frame { x, y, left: LEFT, right: WIDTH - RIGHT, top: top + HEADING, height: HEIGHT, inside: 0.0 };
    picture.label("h", 4.0, top + 16.0, "Latency of a load while other cores read, ns, by their bandwidth, GB/s");
    for ns in times {
        plot.level(picture, ns, &tick(ns));
        if ns > 0.0 {
            plot.across(picture, "grid", ns);
        }
    }
    plot.edges(picture);
    loads.iter().for_each(|load| plot.below(picture, plot.x(*load), &tick(*load)));
    let mut curves: Vec<(&CpuSet, NodeId)> = points.iter().map(|point| (&point.cpus, point.node)).collect();
    curves.dedup();
    let bottom = plot.bottom() + AXIS;
    for (number, curve) in curves.iter().enumerate() {
        let own: Vec<&LoadedPoint> = points.iter().filter(|point| (&point.cpus, point.node) == *curve).collect();
        line(picture, &plot, number, &own);
        if curves.len() > 1 {
            let last = own[own.len() - 1];
            // Alternately above and below the point, because the last points of similar groups are close together.
            let aside = if number % 2 == 0 { -9.0 } else { 17.0 };
            picture.label("c q", plot.x(load_of(last)), plot.y(last.latency.median) + aside, &mark(number));
        }
    }
    bottom + legend(picture, &curves, bottom)
}

/// The curve's number next to its last point, because there are few dash patterns.
fn mark(number: usize) -> String {
    (number + 1).to_string()
}

/// The load in GB/s. `None` without readers.
fn load_of(point: &LoadedPoint) -> f64 {
    point.load.as_ref().map_or(0.0, |load| load.median / 1e3)
}

fn line(picture: &mut Svg, plot: &Frame, number: usize, own: &[&LoadedPoint]) {
    let place = |point: &&LoadedPoint| (plot.x(load_of(point)), plot.y(point.latency.median));
    let places: Vec<(f64, f64)> = own.iter().map(place).collect();
    for (point, (x, y)) in own.iter().zip(&places) {
        plot.whisker(picture, "whisker", *x, (point.latency.ci_low, point.latency.ci_high));
        let load = point.load.as_ref().map_or(String::new(), |load| format!(", {} MB/s", significant(load.median)));
        let words = format!("cpus {}, {}{load}", point.cpus, load_description(point));
        picture.points.push(SvgDot {
            class: "point",
            x: pixels(*x),
            y: pixels(*y),
            title: caption(&words, Some(&point.latency)),
        });
    }
    picture.lines.push(SvgPath { class: format!("curve l{}", number % 3), path: through(&places) });
}

/// Draws the legend and returns its height.
fn legend(picture: &mut Svg, curves: &[(&CpuSet, NodeId)], top: f64) -> f64 {
    let across = ((WIDTH - LEFT) / ENTRY.0).floor().max(1.0) as usize;
    for (number, (cpus, node)) in curves.iter().enumerate() {
        let (x, y) = (LEFT + ENTRY.0 * (number % across) as f64, top + ENTRY.1 * ((number / across) as f64 + 0.5));
        let path = format!("M{} {}h24", pixels(x), pixels(y));
        picture.lines.push(SvgPath { class: format!("curve l{}", number % 3), path });
        let whose = shortened(&format!("cpus {cpus}, node {node}"));
        let words = if curves.len() > 1 { format!("{}: {whose}", mark(number)) } else { whose };
        picture.label("q", x + 30.0, y + 4.0, &words);
    }
    ENTRY.1 * curves.len().div_ceil(across) as f64 + 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_with_few_steps() {
        let axis = |largest: f64| {
            let (axis, ticks) = axis_to(largest);
            (tick(ticks[1]), tick(axis.high), ticks.len())
        };
        let expected = [
            (0.83, "0.2", "1", 6),
            (8.0, "1", "8", 9),
            (8.1, "2", "10", 6),
            (33.0, "5", "35", 8),
            (99.9, "20", "100", 6),
            (161.0, "50", "200", 5),
        ];
        for (largest, step, end, ticks) in expected {
            assert_eq!(axis(largest), (step.into(), end.into(), ticks), "{largest}");
        }
    }
}
