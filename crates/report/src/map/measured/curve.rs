//! Latency by size as a curve, both axes logarithmic: a line for each kind of core, the caches as named steps. Decides
//! pixels only.

use model::id_set::CpuId;
use model::measured_map::{SizePoint, Step};

use super::loaded::tick;
use super::svg::WIDTH;
use crate::number::significant;
use crate::picture::{Line, Picture, Point, pixels};

const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
const HEADING: f64 = 30.0;
const HEIGHT: f64 = 230.0;
const AXIS: f64 = 26.0;

/// Logarithms of what the axes show.
struct Scales {
    bytes: (f64, f64),
    ns: (f64, f64),
    top: f64,
}

impl Scales {
    fn x(&self, bytes: u64) -> f64 {
        let share = ((bytes as f64).log2() - self.bytes.0) / (self.bytes.1 - self.bytes.0);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, ns: f64) -> f64 {
        self.top + HEIGHT * (1.0 - (ns.log10() - self.ns.0) / (self.ns.1 - self.ns.0))
    }
}

/// Draws it below `top`; where it ends. Nothing for a single point.
pub(super) fn draw(picture: &mut Picture, points: &[SizePoint], steps: &[Step], top: f64) -> f64 {
    let bytes = points.iter().map(|point| point.bytes.0).filter(|bytes| *bytes > 0);
    let (Some(first), Some(last)) = (bytes.clone().min(), bytes.max()) else { return top };
    let medians = || points.iter().map(|point| point.latency.median).filter(|median| *median > 0.0);
    if first == last || medians().count() < points.len() {
        return top;
    }
    let low = medians().fold(f64::MAX, f64::min).log10().floor();
    let high = medians().fold(f64::MIN, f64::max).log10().ceil().max(low + 1.0);
    let logarithm = |bytes: u64| (bytes as f64).log2();
    let scales = Scales { bytes: (logarithm(first), logarithm(last)), ns: (low, high), top: top + HEADING };
    picture.label("h", 4.0, top + 16.0, "One load by working-set size, ns");
    axes(picture, &scales, points);
    let mut cpus: Vec<CpuId> = points.iter().map(|point| point.cpu).collect();
    cpus.dedup();
    for (number, cpu) in cpus.iter().enumerate() {
        let own: Vec<&SizePoint> = points.iter().filter(|point| point.cpu == *cpu).collect();
        line(picture, &scales, number, &own);
        for step in steps.iter().filter(|step| step.cpu == *cpu && step.cache_bytes.0 > 0) {
            mark(picture, &scales, step, number, cpus.len() > 1);
        }
    }
    top + HEADING + HEIGHT + AXIS
}

fn axes(picture: &mut Picture, scales: &Scales, points: &[SizePoint]) {
    let (bottom, right) = (scales.top + HEIGHT, WIDTH - RIGHT);
    let path = format!("M{} {}V{}H{}", pixels(LEFT), pixels(scales.top), pixels(bottom), pixels(right));
    picture.lines.push(Line { class: "axis".into(), path });
    let mut power = scales.ns.0;
    while power <= scales.ns.1 {
        let ns = 10f64.powf(power);
        picture.label("e q", LEFT - 6.0, scales.y(ns) + 4.0, &tick(ns));
        power += 1.0;
    }
    let mut labelled_to = f64::MIN;
    for point in points {
        let x = scales.x(point.bytes.0);
        // Labels of neighbouring sizes would run into each other.
        if x - labelled_to > 62.0 {
            picture.label("c q", x, bottom + 16.0, &point.bytes.to_string());
            labelled_to = x;
        }
    }
}

fn line(picture: &mut Picture, scales: &Scales, number: usize, own: &[&SizePoint]) {
    let mut path = String::new();
    for (index, point) in own.iter().enumerate() {
        let (x, y) = (scales.x(point.bytes.0), scales.y(point.latency.median));
        path += &format!("{}{} {}", if index == 0 { "M" } else { "L" }, pixels(x), pixels(y));
        let title = format!(
            "cpu {}, {}, fits {}: {} ns",
            point.cpu,
            point.bytes,
            point.level,
            significant(point.latency.median)
        );
        picture.points.push(Point { class: "point", x: pixels(x), y: pixels(y), title });
    }
    picture.lines.push(Line { class: format!("curve l{}", number % 3), path });
    if let (Some(last), true) = (own.last(), number > 0) {
        let words = format!("cpu {}", last.cpu);
        picture.label("e", WIDTH - RIGHT, scales.y(last.latency.median) - 8.0, &words);
    }
}

/// Where a cache ends, by name.
fn mark(picture: &mut Picture, scales: &Scales, step: &Step, number: usize, several: bool) {
    let bytes = step.cache_bytes.0;
    let x = scales.x(bytes);
    if !(LEFT..=WIDTH - RIGHT).contains(&x) {
        return;
    }
    let path = format!("M{} {}V{}", pixels(x), pixels(scales.top), pixels(scales.top + HEIGHT));
    picture.lines.push(Line { class: "step".into(), path });
    let whose = if several { format!(" of cpu {}", step.cpu) } else { String::new() };
    let text = format!("{} {}{whose}", step.level, step.cache_bytes);
    picture.label("e q", x - 4.0, scales.top + 12.0 + 13.0 * number as f64, &text);
}
