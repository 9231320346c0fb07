//! Figures of a metric against a parameter, one curve per placement, each point with its 95 % interval. Decides layout
//! only; `model::analysis::curves` decides which cells form a curve.

use askama::Template;
use model::analysis::curves::{Curve, CurvePoint, CurveSet};

use super::figure::FigurePart;
use super::table::HtmlTable;
use crate::axis::{Axis, direction_label};
use crate::frame::{Frame, through};
use crate::grid::{CellKind, Grid, GridCell};
use crate::number::{Scale, interval};
use crate::style::{clean, shortened};
use crate::svg::{self, Svg, pixels};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const HEADING: f64 = 30.0;
const HEIGHT: f64 = 260.0;
/// Height of the ticks and the title of the axis.
const AXIS: f64 = 44.0;
/// Distance of the first and the last point from the ends of the axis.
const INSIDE: f64 = 10.0;
/// Approximate width of a character of the labels.
const CHARACTER: f64 = 6.2;
/// Maximum width of the names of curves, so that space remains for the curves.
const NAMES_MAX: f64 = 240.0;
/// Minimum vertical distance of names.
const NAMES_APART: f64 = 14.0;
/// Ratio of the largest to the smallest value from which an axis is logarithmic: such parameters are usually doubled.
const LOGARITHMIC_FROM: f64 = 7.5;
/// Maximum number of curves; more cannot be distinguished by colour, dashes and name.
pub(crate) const LINES_MAX: usize = 8;
/// The classes of a curve by its index; dashes distinguish them without colour.
const LINES: [&str; LINES_MAX] =
    ["curve k0", "curve k1 l1", "curve k2 l2", "curve k3 l3", "curve k4", "curve k5 l1", "curve k6 l2", "curve k7 l3"];
const POINTS: [&str; LINES_MAX] = ["dot k0", "dot k1", "dot k2", "dot k3", "dot k4", "dot k5", "dot k6", "dot k7"];

/// The figure with its caption and its table.
pub(crate) fn figure(sweep: &CurveSet, rows_max: usize) -> Option<FigurePart> {
    let shown = &sweep.lines[..sweep.lines.len().min(LINES_MAX)];
    let svg = drawn(sweep, shown)?.render().expect("the template renders");
    let mut caption = format!(
        "{}: {} against {}. Medians of trials; whiskers are 95 % intervals.",
        clean(&sweep.name),
        clean(&sweep.metric),
        clean(&sweep.over)
    );
    if sweep.lines.len() > shown.len() {
        caption += &format!(" The first {} of {} lines; the table has all.", shown.len(), sweep.lines.len());
    }
    Some(FigurePart { svg, caption, table: HtmlTable::new("The same data as a table", grid(sweep), rows_max).folded() })
}

fn grid(sweep: &CurveSet) -> Grid {
    let titles = ["placement", &sweep.over, &sweep.metric, "95 % interval"];
    let mut grid = Grid::new(&titles).numbers(&titles[1..3]).holding(CellKind::Word, &titles[3..]);
    for line in &sweep.lines {
        for point in &line.points {
            let scale = Scale::of(point.median);
            let ends = interval(point.ci_low, point.ci_high, scale).unwrap_or_default();
            let at = sweep.over_unit.as_ref().map_or(point.written.clone(), |_| Scale::of(point.at).write(point.at));
            let texts = [&line.name, &at, &scale.write(point.median), &ends];
            grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
        }
    }
    grid
}

/// The axes of the figure.
fn frame(sweep: &CurveSet, lines: &[Curve]) -> Option<Frame> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (ats, medians): (Vec<f64>, Vec<f64>) = points().map(|point| (point.at, point.median)).unzip();
    let ends: Vec<f64> = points().flat_map(|point| [point.ci_low, point.ci_high]).flatten().collect();
    let (low, high) =
        ats.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(*at), high.max(*at)));
    let doubled = sweep.over_unit.is_none() && low > 0.0 && high / low > LOGARITHMIC_FROM;
    let x = Axis { low, high, logarithmic: doubled };
    let mut y = Axis::over(&medians, &ends)?;
    // Lengths are proportional to values only on an axis from zero.
    if !y.logarithmic && y.low > 0.0 || medians.iter().all(|median| *median >= 0.0) && y.low < 0.0 {
        y.low = 0.0;
    }
    let longest = lines.iter().map(|line| clean(&line.name).chars().count()).max().unwrap_or(0);
    let right = WIDTH - (longest as f64 * CHARACTER + 22.0).min(NAMES_MAX);
    (low < high).then_some(Frame { x, y, left: LEFT, right, top: HEADING, height: HEIGHT, inside: INSIDE })
}

fn drawn(sweep: &CurveSet, lines: &[Curve]) -> Option<Svg> {
    let plot = frame(sweep, lines)?;
    let mut picture = Svg {
        title: clean(&format!("{}: {} against {}", sweep.name, sweep.metric, sweep.over)),
        description: description(sweep, lines),
        width: pixels(WIDTH),
        height: pixels(HEADING + HEIGHT + AXIS),
        ..Svg::default()
    };
    let scale = if plot.y.logarithmic { ", logarithmic" } else { "" };
    let heading = format!("{}, {} ({}{scale})", sweep.metric, sweep.unit, direction_label(sweep.better));
    picture.label("h", 4.0, 16.0, &clean(&heading));
    axes(&mut picture, &plot, sweep, lines);
    for (index, line) in lines.iter().enumerate() {
        curve(&mut picture, &plot, sweep, line, index);
    }
    names(&mut picture, &plot, lines);
    Some(picture)
}

fn axes(picture: &mut Svg, plot: &Frame, sweep: &CurveSet, lines: &[Curve]) {
    for (tick, text) in plot.y.ticks() {
        plot.level(picture, tick, &text);
        plot.across(picture, "grid", tick);
    }
    plot.edges(picture);
    let mut free_from = f64::NEG_INFINITY;
    for (at, text) in ticks(plot, sweep, lines) {
        let (x, half) = (plot.x(at), text.chars().count() as f64 * CHARACTER / 2.0);
        if x - half >= free_from {
            plot.below(picture, x, &clean(&text));
            free_from = x + half + CHARACTER;
        }
    }
    let unit = sweep.over_unit.as_ref().map_or(String::new(), |unit| format!(", {unit}"));
    let scale = if plot.x.logarithmic { " (logarithmic)" } else { "" };
    picture.label(
        "c",
        f64::midpoint(LEFT, plot.right),
        plot.bottom() + 35.0,
        &clean(&format!("{}{unit}{scale}", sweep.over)),
    );
}

/// Ticks: the values of a parameter as written by the user, or round values of a metric.
fn ticks(plot: &Frame, sweep: &CurveSet, lines: &[Curve]) -> Vec<(f64, String)> {
    if sweep.over_unit.is_some() {
        return plot.x.ticks();
    }
    let mut values: Vec<(f64, String)> =
        lines.iter().flat_map(|line| &line.points).map(|point| (point.at, point.written.clone())).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    values.dedup_by(|a, b| a.0.to_bits() == b.0.to_bits());
    values
}

fn curve(picture: &mut Svg, plot: &Frame, sweep: &CurveSet, line: &Curve, index: usize) {
    let places: Vec<(f64, f64)> = line.points.iter().map(|point| (plot.x(point.at), plot.y(point.median))).collect();
    for (point, (x, y)) in line.points.iter().zip(&places) {
        plot.whisker(picture, &format!("range k{index}"), *x, (point.ci_low, point.ci_high));
        let title = clean(&format!("{}, {}", line.name, caption(sweep, point)));
        picture.points.push(svg::SvgDot { class: POINTS[index], x: pixels(*x), y: pixels(*y), title });
    }
    picture.lines.push(svg::SvgPath { class: LINES[index].into(), path: through(&places) });
}

/// Each curve's name at its right end, moved down if it would overlap another name.
fn names(picture: &mut Svg, plot: &Frame, lines: &[Curve]) {
    let end = |line: &Curve| {
        line.points
            .iter()
            .map(|point| (plot.x(point.at), plot.y(point.median)))
            .reduce(|a, b| if b.0 >= a.0 { b } else { a })
    };
    let mut ends: Vec<(f64, &Curve, usize)> =
        lines.iter().enumerate().filter_map(|(index, line)| Some((end(line)?.1, line, index))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let space = ((WIDTH - plot.right - 18.0) / CHARACTER) as usize;
    let mut free_from = HEADING;
    let below = ends.len();
    for (rank, (preferred, line, index)) in ends.into_iter().enumerate() {
        // Leaves space for the names below it.
        let lowest = HEADING + HEIGHT - (below - 1 - rank) as f64 * NAMES_APART;
        let y = preferred.min(lowest).max(free_from);
        free_from = y + NAMES_APART;
        let sample = format!("M{} {}h12", pixels(plot.right + 2.0), pixels(y));
        picture.lines.push(svg::SvgPath { class: LINES[index].into(), path: sample });
        picture.label("", plot.right + 17.0, y + 4.0, &shortened(&clean(&line.name), space));
    }
}

fn caption(sweep: &CurveSet, point: &CurvePoint) -> String {
    let scale = Scale::of(point.median);
    let ends =
        interval(point.ci_low, point.ci_high, scale).map_or(String::new(), |ends| format!(", 95 % interval {ends}"));
    let at = match &sweep.over_unit {
        Some(unit) => format!("{} {} {unit}", sweep.over, Scale::of(point.at).write(point.at)),
        None => format!("{} {}", sweep.over, point.written),
    };
    format!("{at}: {} {}{ends}", scale.write(point.median), sweep.unit)
}

/// A description of the figure for screen readers.
fn description(sweep: &CurveSet, lines: &[Curve]) -> String {
    let line = |line: &Curve| {
        let points: Vec<String> = line.points.iter().map(|point| caption(sweep, point)).collect();
        format!(" {}: {}.", line.name, points.join("; "))
    };
    clean(&format!("{} by {}.{}", sweep.metric, sweep.over, lines.iter().map(line).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use model::values::workload::Better;

    use super::*;

    fn line(name: &str, points: &[(f64, f64)]) -> Curve {
        let point = |(at, median): &(f64, f64)| CurvePoint {
            at: *at,
            written: format!("{at}B"),
            median: *median,
            ci_low: Some(median - 1.0),
            ci_high: Some(median + 1.0),
        };
        Curve { name: name.into(), points: points.iter().map(point).collect() }
    }

    fn sweep(lines: Vec<Curve>) -> CurveSet {
        CurveSet {
            name: "stream".into(),
            over: "size".into(),
            over_unit: None,
            metric: "triad".into(),
            unit: "MB/s".into(),
            better: Better::Higher,
            lines,
        }
    }

    fn svg(sweep: &CurveSet) -> String {
        figure(sweep, 50).expect("it has several values").svg
    }

    #[test]
    fn each_placement_has_a_curve_with_intervals_and_a_name() {
        let lines = vec![line("kernel", &[(1.0, 10.0), (2.0, 20.0), (16.0, 30.0)]), line("far <b>", &[(1.0, 5.0)])];
        let svg = svg(&sweep(lines));
        let count = |words: &str| svg.matches(words).count();
        assert_eq!((count("class=\"dot k0\""), count("class=\"dot k1\"")), (3, 1), "{svg}");
        assert_eq!((count("class=\"range k0\""), count("class=\"range k1\"")), (3, 1), "{svg}");
        assert_eq!((count(">kernel</text>"), count("far &#60;b&#62;</text>")), (1, 1), "{svg}");
        for words in [">1B<", ">2B<", ">16B<", ">size (logarithmic)<", ">triad, MB/s (more is better)<"] {
            assert_eq!(count(words), 1, "{words}: {svg}");
        }
        assert!(svg.contains("kernel, size 16B: 30.00 MB/s, 95 % interval 29.00 to 31.00"), "{svg}");
        assert!(svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn larger_values_are_higher_and_larger_parameters_further_right() {
        let of = |points: &[(f64, f64)]| frame(&sweep(Vec::new()), &[line("a", points)]);
        let plot = of(&[(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]).expect("three values");
        assert!(plot.y(30.0) < plot.y(10.0) && (plot.y(0.0) - HEADING - HEIGHT).abs() < 0.01);
        assert!(plot.x(1.0) < plot.x(2.0) && plot.x(3.0) < plot.right);
        assert!((plot.x(2.0) - f64::midpoint(plot.x(1.0), plot.x(3.0))).abs() < 0.01, "a narrow range is linear");
        assert!(of(&[(1.0, 10.0)]).is_none(), "one value has no axis");
    }

    #[test]
    fn names_do_not_overlap_and_stay_in_the_figure() {
        let names: Vec<String> = (0..10).map(|index| format!("placement {index}")).collect();
        let lines = names.iter().map(|name| line(name, &[(1.0, 100.0), (2.0, 100.0), (3.0, 1.0)])).collect();
        let sweep = sweep(lines);
        let picture = drawn(&sweep, &sweep.lines[..LINES_MAX]).expect("three values");
        let html = picture.render().expect("renders");
        let y = |name: &String| -> f64 {
            let before = html.split(&format!(">{name}</text>")).next().expect("there is a first part");
            before
                .rsplit("y=\"")
                .next()
                .and_then(|rest| rest.split('"').next())
                .expect("a place")
                .parse()
                .expect("a number")
        };
        let places: Vec<f64> = names[..LINES_MAX].iter().map(y).collect();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAMES_APART - 0.1), "{places:?}");
        assert!(places.iter().all(|y| *y <= HEADING + HEIGHT + 5.0), "{places:?}");
        let part = figure(&sweep, 50).expect("three values");
        assert!(part.caption.contains("The first 8 of 10 lines"), "{}", part.caption);
    }

    #[test]
    fn axis_of_another_metric_has_round_ticks_and_its_unit() {
        let mut sweep = sweep(vec![line("kernel", &[(9_000.0, 300.0), (5_000.0, 120.0), (1_000.0, 100.0)])]);
        (sweep.over, sweep.over_unit) = ("load".into(), Some("GB/s".into()));
        let svg = svg(&sweep);
        assert!(svg.contains(">load, GB/s<") && svg.contains(">2000<"), "{svg}");
        assert!(svg.contains("kernel, load 9000 GB/s: 300.0 MB/s"), "{svg}");
    }
}
