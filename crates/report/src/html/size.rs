//! The slowdown of a command with less DRAM as curves, one per tier: paging controller or the kernel's swap, each with or
//! without compression. Also shows the 95 % interval of each budget, the memory of the command, the allowed slowdown, and
//! the result. The axis of times is logarithmic, because they range from 1 % to a hundredfold. Decides layout only.

use askama::Template;
use model::analysis::size::{SizeAnswer, SizePoint, SizeTier};
use model::values::units::Bytes;

use super::figure::FigurePart;
use super::table::HtmlTable;
use crate::axis::Axis;
use crate::frame::{Frame, through};
use crate::number::{signed_percent, significant};
use crate::race::metric_words;
use crate::style::Tone;
use crate::svg::{Svg, SvgDot, SvgPath, pixels};
use crate::table::size_grid;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 30.0;
const HEADING: f64 = 30.0;
const HEIGHT: f64 = 250.0;
const AXIS: f64 = 26.0;
const LEGEND: f64 = 24.0;
/// Maximum number of intervals of the DRAM axis.
const STEPS: u64 = 8;
/// Minimum distance of ticks.
const TICK_APART: f64 = 17.0;
/// Horizontal offset of the points of a budget, so that all whiskers are visible.
const ASIDE: f64 = 2.5;
/// Candidates for ticks, the most readable first.
const TICKS: [f64; 22] = [
    1.0, 10.0, 100.0, 1000.0, 0.1, 2.0, 5.0, 20.0, 50.0, 200.0, 500.0, 0.5, 0.2, 1.5, 3.0, 7.0, 30.0, 1.2, 1.1, 1.05,
    0.9, 0.95,
];

/// The result in words and its figure.
pub(crate) struct SizePart {
    pub(crate) answer: String,
    pub(crate) class: &'static str,
    /// The budgets of the other tiers, and the compressibility of the memory.
    pub(crate) details: Vec<String>,
    /// `None` if no budget has a result.
    pub(crate) figure: Option<FigurePart>,
}

impl SizePart {
    pub(crate) fn new(answer: &SizeAnswer, rows_max: usize) -> Self {
        Self {
            answer: answer.sentence(),
            class: if answer.saves.is_some() { Tone::Good } else { Tone::Plain }.class(),
            details: answer.other_sentences().into_iter().chain(answer.compressibility_sentence()).collect(),
            figure: (!answer.points.is_empty()).then(|| figure(answer, rows_max)),
        }
    }
}

fn figure(answer: &SizeAnswer, rows_max: usize) -> FigurePart {
    let grid = size_grid(answer).without("slower");
    FigurePart {
        svg: drawn(answer).render().expect("the template renders"),
        caption: format!(
            "{} relative to that with all memory in DRAM, by DRAM limit; the horizontal line is {} % more, whiskers are \
             95 % intervals.",
            quantity(answer),
            answer.within_percent
        ),
        table: HtmlTable::new("The same data as a table", grid, rows_max).folded(),
    }
}

/// The frame: the ratio of times over bytes of DRAM.
fn frame(answer: &SizeAnswer) -> Frame {
    let most = answer.points.iter().map(|point| point.dram.0).chain([answer.need.0]).max().unwrap_or(0).max(1);
    let slowest = answer.points.iter().map(|point| times(point.slower_percent));
    let low = slowest.clone().fold(1.0, f64::min) / 1.1;
    // Whiskers may leave the plot; otherwise the wide interval of a few trials would flatten the curves.
    let high = slowest.fold(times(answer.within_percent), f64::max) * 1.25;
    Frame {
        x: Axis { low: 0.0, high: most as f64 * 1.04, logarithmic: false },
        y: Axis { low, high, logarithmic: true },
        left: LEFT,
        right: WIDTH - RIGHT,
        top: HEADING,
        height: HEIGHT,
        inside: 0.0,
    }
}

/// The ticks of the axis of times.
fn ticks(plot: &Frame) -> Vec<f64> {
    let mut ticks: Vec<f64> = Vec::new();
    for tick in TICKS.into_iter().filter(|tick| (plot.y.low..=plot.y.high).contains(tick)) {
        if ticks.iter().all(|other| (plot.y(*other) - plot.y(tick)).abs() >= TICK_APART) {
            ticks.push(tick);
        }
    }
    ticks
}

/// The ratio of times; at least 0.01, for the logarithm. No interval of a real command ends there.
fn times(slower_percent: f64) -> f64 {
    (1.0 + slower_percent / 100.0).max(0.01)
}

fn drawn(answer: &SizeAnswer) -> Svg {
    let plot = frame(answer);
    let mut picture = Svg {
        title: "Slowdown with less DRAM".into(),
        description: description(answer),
        width: pixels(WIDTH),
        height: pixels(HEADING + HEIGHT + AXIS + LEGEND * answer.tiers.len() as f64),
        ..Svg::default()
    };
    picture.label("h", 4.0, 16.0, &format!("{} relative to all memory in DRAM, by DRAM limit", quantity(answer)));
    axes(&mut picture, &plot);
    marks(&mut picture, &plot, answer);
    for (row, tier) in answer.tiers.iter().map(|answer| answer.tier).enumerate() {
        let own: Vec<&SizePoint> = answer.points.iter().filter(|point| point.tier == tier).collect();
        curve(&mut picture, &plot, &own, tier);
        let y = HEADING + HEIGHT + AXIS + LEGEND * (row as f64 + 0.5);
        picture.lines.push(SvgPath { class: class(tier), path: format!("M{} {}h24", pixels(LEFT), pixels(y)) });
        picture.label("q", LEFT + 30.0, y + 4.0, name(tier));
    }
    picture
}

fn name(tier: SizeTier) -> &'static str {
    match (tier.steered, tier.compressed) {
        (true, false) => "paging controller (nearfar expand)",
        (true, true) => "paging controller with compression (nearfar expand --compressed)",
        (false, false) => "kernel swap",
        (false, true) => "kernel swap with compression",
    }
}

/// The curves of the kernel's swap differ in colour and open dots, and all in dashes, so they can be distinguished
/// without colour.
fn class(tier: SizeTier) -> String {
    match (tier.steered, tier.compressed) {
        (true, false) => "curve",
        (true, true) => "curve l2",
        (false, false) => "curve warm l1",
        (false, true) => "curve warm l3",
    }
    .into()
}

fn axes(picture: &mut Svg, plot: &Frame) {
    for tick in ticks(plot) {
        plot.level(picture, tick, &format!("{tick}x"));
        plot.across(picture, "grid", tick);
    }
    plot.edges(picture);
    // A power of two such that the axis has few intervals.
    let end = plot.x.high as u64;
    let step = (end / STEPS).max(1).next_power_of_two();
    for bytes in (0..=end).step_by(step as usize) {
        plot.below(picture, plot.x(bytes as f64), &Bytes(bytes).to_string());
    }
}

/// Marks the memory of the command, the allowed slowdown, and the result.
fn marks(picture: &mut Svg, plot: &Frame, answer: &SizeAnswer) {
    let mut upright = |bytes: Bytes, class: &str, words: &str, row: f64| {
        plot.upright(picture, class, bytes.0 as f64);
        picture.label("e", plot.x(bytes.0 as f64) - 4.0, plot.top + 12.0 + 14.0 * row, words);
    };
    upright(answer.need, "step", &format!("uses {}", answer.need), 0.0);
    if let Some(enough) = answer.enough {
        upright(enough, "step answer", &format!("{enough} is enough"), 1.0);
    }
    let within = times(answer.within_percent);
    plot.across(picture, "step", within);
    picture.label("q", LEFT + 4.0, plot.y(within) - 4.0, &format!("within {} %", answer.within_percent));
}

fn curve(picture: &mut Svg, plot: &Frame, own: &[&SizePoint], tier: SizeTier) {
    let (whisker, dot, side) =
        if tier.steered { ("whisker", "point", -1.0) } else { ("whisker warm", "point open", 1.0) };
    let aside = side * ASIDE * if tier.compressed { 3.0 } else { 1.0 };
    let place = |point: &&SizePoint| (plot.x(point.dram.0 as f64) + aside, plot.y(times(point.slower_percent)));
    let places: Vec<(f64, f64)> = own.iter().map(place).collect();
    for (point, (x, y)) in own.iter().zip(&places) {
        plot.whisker(picture, whisker, *x, (point.ci_low.map(times), point.ci_high.map(times)));
        picture.points.push(SvgDot { class: dot, x: pixels(*x), y: pixels(*y), title: caption(point) });
    }
    picture.lines.push(SvgPath { class: class(tier), path: through(&places) });
}

fn caption(point: &SizePoint) -> String {
    let swap = if point.tier.steered { "paging controller" } else { "kernel swap" };
    let compressed = if point.tier.compressed { " with compression" } else { "" };
    let interval = point
        .ci_low
        .zip(point.ci_high)
        .map_or(String::new(), |(low, high)| format!(" ({} to {})", significant(times(low)), significant(times(high))));
    let longer = signed_percent(point.slower_percent);
    format!(
        "{}, {swap}{compressed}: {} times{interval}, {longer}",
        point.dram,
        significant(times(point.slower_percent))
    )
}

/// The quantity of the vertical axis. Half the rate is twice the slowdown.
fn quantity(answer: &SizeAnswer) -> String {
    match answer.metric.as_str() {
        "wall" => "Run time".into(),
        metric => format!("Slowdown ({})", metric_words(metric)),
    }
}

/// A description of the figure for screen readers.
fn description(answer: &SizeAnswer) -> String {
    let points: String = answer.points.iter().map(|point| format!(" {}.", caption(point))).collect();
    format!("{} relative to all of its {} in DRAM, by DRAM limit.{points}", quantity(answer), answer.need)
}

#[cfg(test)]
mod tests {
    use model::analysis::size::TierAnswer;

    use super::*;

    fn answer(points: &[(u64, bool, f64)], enough: Option<u64>) -> SizeAnswer {
        let point = |(mib, steered, slower): &(u64, bool, f64)| SizePoint {
            dram: Bytes(mib << 20),
            tier: SizeTier { steered: *steered, compressed: false },
            slower_percent: *slower,
            ci_low: Some(slower - 1.0),
            ci_high: Some(slower + 1.0),
            compressed_dram: None,
            cpu_percent: None,
        };
        let (need, enough) = (Bytes(400 << 20), enough.map(|mib| Bytes(mib << 20)));
        let points: Vec<SizePoint> = points.iter().map(point).collect();
        let of = |steered| points.iter().any(|point| point.tier.steered == steered);
        let tiers = [true, false].into_iter().filter(|steered| of(*steered)).map(|steered| TierAnswer {
            tier: SizeTier { steered, compressed: false },
            enough: enough.filter(|_| steered),
            unresolved: false,
            compressed_dram: None,
        });
        let tiers = tiers.collect();
        let saves = enough.map(|enough| Bytes(need.0 - enough.0));
        SizeAnswer {
            program: "app".into(),
            metric: "wall".into(),
            need,
            within_percent: 5.0,
            compressibility: None,
            points,
            tiers,
            enough,
            enough_plain: None,
            saves,
        }
    }

    #[test]
    fn figure_has_two_curves_with_intervals_memory_and_result() {
        let points = [(100, true, 60.0), (100, false, 900.0), (200, true, 2.0), (200, false, 300.0), (400, true, 0.0)];
        let part = SizePart::new(&answer(&points, Some(200)), 50);
        assert_eq!(part.class, "good");
        assert!(
            part.answer.contains("needs 200MiB of DRAM to be within 5 % of full speed; that saves 200MiB"),
            "{}",
            part.answer
        );
        let svg = part.figure.expect("there are points").svg;
        let count = |words: &str| svg.matches(words).count();
        assert_eq!((count("class=\"point\""), count("class=\"point open\"")), (3, 2), "{svg}");
        assert_eq!((count("class=\"whisker\""), count("class=\"whisker warm\"")), (3, 2), "{svg}");
        // One is the curve and one its line in the legend.
        assert_eq!((count("class=\"curve\""), count("class=\"curve warm l1\"")), (2, 2), "{svg}");
        for words in [">uses 400MiB<", ">200MiB is enough<", ">within 5 %<", ">10x<", ">1x<", ">0B<", ">384MiB<"] {
            assert_eq!(count(words), 1, "{words}: {svg}");
        }
        assert!(svg.contains("100MiB, kernel swap: 10.00 times (9.990 to 10.01), +900 %"), "{svg}");
        assert!(svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn figure_names_the_metric_of_the_slowdown() {
        let drawn_with = |metric: &str| {
            drawn(&SizeAnswer { metric: metric.into(), ..answer(&[(100, true, 60.0)], None) }).render().unwrap()
        };
        assert!(drawn_with("wall").contains(">Run time relative to all memory in DRAM"));
        let rate = drawn_with("tps");
        assert!(
            rate.contains(">Slowdown (tps) relative to all memory in DRAM") && !rate.contains("Run time"),
            "{rate}"
        );
    }

    #[test]
    fn faster_is_lower_and_more_dram_is_further_right() {
        let plot = frame(&answer(&[(100, true, 60.0), (200, false, 300.0)], None));
        assert!(plot.y(4.0) < plot.y(1.6) && plot.y(1.6) < plot.y(1.0));
        let x = |bytes: u64| plot.x(bytes as f64);
        assert!(x(1) < x(100 << 20) && x(400 << 20) <= WIDTH - RIGHT);
        assert!((HEADING..=HEADING + HEIGHT).contains(&plot.y(4.0)) && plot.y(1e9) >= HEADING);
        // The axis of a single curve near full speed still has ticks.
        let flat = ticks(&frame(&answer(&[(100, true, 1.0)], None)));
        assert!(flat.len() >= 3, "{flat:?}");
    }

    #[test]
    fn result_without_points_has_no_figure() {
        let part = SizePart::new(&answer(&[], None), 50);
        assert!(part.figure.is_none() && part.details.is_empty() && part.class.is_empty());
        let one = SizePart::new(&answer(&[(100, true, 60.0)], None), 50);
        assert!(
            one.figure.is_some_and(|figure| !figure.svg.contains("is enough") && !figure.svg.contains("point open"))
        );
    }

    #[test]
    fn compressed_tiers_have_separate_curves() {
        let mut found = answer(&[(100, true, 60.0), (200, true, 2.0)], Some(200));
        let compressed = SizeTier { steered: true, compressed: true };
        found.points.push(SizePoint { tier: compressed, ..found.points[0] });
        found.tiers.push(TierAnswer { tier: compressed, ..found.tiers[0] });
        let part = SizePart::new(&found, 50);
        assert_eq!(part.details, ["with compression it needs 200MiB"]);
        let svg = part.figure.expect("there are points").svg;
        assert_eq!(
            (svg.matches("class=\"curve\"").count(), svg.matches("class=\"curve l2\"").count()),
            (2, 2),
            "{svg}"
        );
        assert!(svg.contains("100MiB, paging controller with compression: 1.600 times"), "{svg}");
    }
}
