//! Latency by working-set size as curves with logarithmic axes: one curve per kind of core, with the caches as labelled
//! levels. Decides layout only.

use model::placements::measured_map::{CacheLevel, LatencyPoint};
use model::values::id_set::CpuId;

use super::sheet::{WIDTH, tick};
use crate::axis::Axis;
use crate::frame::{Frame, through};
use crate::number::significant;
use crate::svg::{Svg, SvgDot, SvgPath, pixels};

const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
const HEADING: f64 = 30.0;
const HEIGHT: f64 = 230.0;
const AXIS: f64 = 26.0;

/// Draws the curves below `top` and returns their bottom. Draws nothing for a single point.
pub(super) fn draw(picture: &mut Svg, points: &[LatencyPoint], steps: &[CacheLevel], top: f64) -> f64 {
    let bytes = points.iter().map(|point| point.bytes.0).filter(|bytes| *bytes > 0);
    let (Some(first), Some(last)) = (bytes.clone().min(), bytes.max()) else { return top };
    let medians = || points.iter().map(|point| point.latency.median).filter(|median| *median > 0.0);
    if first == last || medians().count() < points.len() {
        return top;
    }
    let low = medians().fold(f64::MAX, f64::min).log10().floor() as i32;
    let high = (medians().fold(f64::MIN, f64::max).log10().ceil() as i32).max(low + 1);
    let plot = Frame {
        x: Axis { low: first as f64, high: last as f64, logarithmic: true },
        y: Axis { low: 10f64.powi(low), high: 10f64.powi(high), logarithmic: true },
        left: LEFT,
        right: WIDTH - RIGHT,
        top: top + HEADING,
        height: HEIGHT,
        inside: 0.0,
    };
    picture.label("h", 4.0, top + 16.0, "One load by working-set size, ns");
    plot.edges(picture);
    (low..=high).map(|power| 10f64.powi(power)).for_each(|ns| plot.level(picture, ns, &tick(ns)));
    sizes(picture, &plot, points);
    let mut cpus: Vec<CpuId> = points.iter().map(|point| point.cpu).collect();
    cpus.dedup();
    for (number, cpu) in cpus.iter().enumerate() {
        let own: Vec<&LatencyPoint> = points.iter().filter(|point| point.cpu == *cpu).collect();
        line(picture, &plot, number, &own);
        for step in steps.iter().filter(|step| step.cpu == *cpu && step.cache_bytes.0 > 0) {
            mark(picture, &plot, step, number, cpus.len() > 1);
        }
    }
    top + HEADING + HEIGHT + AXIS
}

fn sizes(picture: &mut Svg, plot: &Frame, points: &[LatencyPoint]) {
    let mut labelled_to = f64::MIN;
    for point in points {
        let x = plot.x(point.bytes.0 as f64);
        // Prevents overlapping labels.
        if x - labelled_to > 62.0 {
            plot.below(picture, x, &point.bytes.to_string());
            labelled_to = x;
        }
    }
}

fn line(picture: &mut Svg, plot: &Frame, number: usize, own: &[&LatencyPoint]) {
    let place = |point: &&LatencyPoint| (plot.x(point.bytes.0 as f64), plot.y(point.latency.median));
    let places: Vec<(f64, f64)> = own.iter().map(place).collect();
    for (point, (x, y)) in own.iter().zip(&places) {
        let title = format!(
            "cpu {}, {}, fits {}: {} ns",
            point.cpu,
            point.bytes,
            point.level,
            significant(point.latency.median)
        );
        picture.points.push(SvgDot { class: "point", x: pixels(*x), y: pixels(*y), title });
    }
    picture.lines.push(SvgPath { class: format!("curve l{}", number % 3), path: through(&places) });
    if let (Some(last), true) = (own.last(), number > 0) {
        let words = format!("cpu {}", last.cpu);
        picture.label("e", WIDTH - RIGHT, plot.y(last.latency.median) - 8.0, &words);
    }
}

/// Marks the capacity of each cache.
fn mark(picture: &mut Svg, plot: &Frame, step: &CacheLevel, number: usize, several: bool) {
    let bytes = step.cache_bytes.0 as f64;
    if !(plot.x.low..=plot.x.high).contains(&bytes) {
        return;
    }
    plot.upright(picture, "step", bytes);
    let whose = if several { format!(" of cpu {}", step.cpu) } else { String::new() };
    let text = format!("{} {}{whose}", step.level, step.cache_bytes);
    picture.label("e q", plot.x(bytes) - 4.0, plot.top + 12.0 + 13.0 * number as f64, &text);
}
