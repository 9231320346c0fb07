//! Figures of a comparison: each change against the baseline as a point with its 95 % interval, on an axis where better
//! is to the right and a doubling is as far from the middle as a halving. Decides layout and labels only; every value
//! comes from the comparison. Omits tests without a comparable value, and states how many lines it omits.

use askama::Template;
use model::values::comparison::{ComparedValue, Comparison, ComparisonRow, Difference};
use model::values::workload::Better;

use crate::claim_text::column;
use crate::comparison_notes::{baseline_value, remarks};
use crate::figure_style::{DARK, FigureStyle, LIGHT, Palette, Theme};
use crate::number::{percent_interval, signed_percent, significant};
use crate::stamp;
use crate::style::{clean, shortened};
use crate::svg::pixels;

const WIDTH: f64 = 760.0;
/// Horizontal range of the points and intervals; names are to the left of it, numbers to the right.
const LEFT: f64 = 182.0;
const RIGHT: f64 = 566.0;
const NUMBERS: f64 = 580.0;
const HEAD_HEIGHT: f64 = 23.0;
const LINE_HEIGHT: f64 = 19.0;
const TOP: f64 = 12.0;
const AXIS_HEIGHT: f64 = 42.0;
const MARGIN: f64 = 10.0;
/// Approximate width of a character of names.
const CHARACTER: f64 = 7.0;
/// Approximate width of a character of the source line.
const SMALL_CHARACTER: f64 = 6.2;
/// Height of the title and the stamp above a standalone figure.
const TITLE_HEIGHT: f64 = 38.0;
const SOURCE_HEIGHT: f64 = 18.0;
/// Maximum number of lines; the table has all.
const LINES_MAX: usize = 60;
/// Ratios with a tick.
const TICKS: [f64; 15] = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10_000.0];
/// Width of a tick's label.
const TICK_WIDTH: f64 = 46.0;
/// Minimum extent of the axis: half a percent to either side, so that noise does not look like a large change.
const SPAN_MIN: f64 = 0.005;

/// Draws the main metrics of a comparison for a page, which has the title. `None` if nothing is comparable.
pub(crate) fn svg(comparison: &Comparison) -> Option<String> {
    picture(comparison, None).map(|picture| picture.render().expect("the template renders"))
}

/// Draws the main metrics of a comparison with a title and the source of the values. `None` if nothing is comparable.
pub fn standalone(comparison: &Comparison, style: &FigureStyle) -> Option<String> {
    picture(comparison, Some(style)).map(|picture| picture.render().expect("the template renders"))
}

#[derive(Template)]
#[template(path = "changes.svg")]
struct ChangeChart {
    title: String,
    description: String,
    width: String,
    /// The size with a margin, for a standalone figure.
    outer_width: String,
    outer_height: String,
    margin: String,
    groups: Vec<TestGroup>,
    ticks: Vec<(String, String)>,
    equal: String,
    top: String,
    bottom: String,
    baseline: String,
    /// The stamp of the compared runs; empty for measurements of machines.
    stamp: &'static str,
    left: String,
    right: String,
    numbers: String,
    /// Number of lines that are only in the table.
    left_out: usize,
    /// The stamp in words and the source line, for a standalone figure.
    heading: Option<(String, String)>,
    colours: Palette,
    light: String,
    dark: String,
}

struct TestGroup {
    name: String,
    own: String,
    y: String,
    rule_y: String,
    lines: Vec<ChangeRow>,
}

/// The change of one column.
struct ChangeRow {
    name: String,
    title: String,
    class: &'static str,
    x: String,
    y: String,
    /// The left and the right end of the interval.
    ends: Option<(String, String)>,
    text: String,
}

fn picture(comparison: &Comparison, style: Option<&FigureStyle>) -> Option<ChangeChart> {
    let mut rows: Vec<(&ComparisonRow, Vec<(&str, &ComparedValue)>)> =
        comparison.rows.iter().filter(|row| row.main).map(|row| (row, changes(comparison, row))).collect();
    rows.retain(|(_, changes)| !changes.is_empty());
    let all: usize = rows.iter().map(|(_, changes)| changes.len()).sum();
    let mut space = LINES_MAX;
    for (_, changes) in &mut rows {
        changes.truncate(space);
        space -= changes.len();
    }
    rows.retain(|(_, changes)| !changes.is_empty());
    let axis = Axis::over(&rows)?;
    let top = if style.is_some() { TOP + TITLE_HEIGHT } else { TOP };
    let mut y = top;
    let groups: Vec<TestGroup> =
        rows.iter().map(|(row, changes)| group(comparison, row, changes, &axis, &mut y)).collect();
    let baseline = column(comparison, &comparison.baseline);
    let stamp = stamp::prefix(comparison.stamp);
    let title = clean(&format!("{stamp}Changes against {baseline}, by {}", comparison.by));
    Some(ChangeChart {
        description: description(&title, &groups),
        title,
        width: pixels(WIDTH),
        outer_width: pixels(WIDTH + 2.0 * MARGIN),
        outer_height: pixels(y + AXIS_HEIGHT + MARGIN + if style.is_some() { SOURCE_HEIGHT } else { 0.0 }),
        margin: pixels(MARGIN),
        groups,
        ticks: axis.ticks(),
        equal: pixels(axis.x(0.0)),
        top: pixels(top - 6.0),
        bottom: pixels(y + 2.0),
        baseline,
        stamp,
        left: pixels(LEFT),
        right: pixels(RIGHT),
        numbers: pixels(NUMBERS),
        left_out: all - (LINES_MAX - space),
        heading: style.map(|style| heading(comparison, style)),
        colours: style.map_or(Theme::Auto, |style| style.theme).palette(),
        light: LIGHT.variables(),
        dark: DARK.variables(),
    })
}

/// The stamps and the source line.
fn heading(comparison: &Comparison, style: &FigureStyle) -> (String, String) {
    let source = shortened(&style.source, (WIDTH / SMALL_CHARACTER) as usize);
    (stamp::of(comparison.stamp).join("; "), source)
}

/// The columns with a change in this row, in the comparison's order.
fn changes<'a>(comparison: &'a Comparison, row: &'a ComparisonRow) -> Vec<(&'a str, &'a ComparedValue)> {
    let values = comparison.compared().filter_map(|column| Some((column, row.values.get(column)?)));
    values.filter(|(_, value)| value.change_percent.and_then(|change| place(change, row.better)).is_some()).collect()
}

fn group(
    comparison: &Comparison,
    row: &ComparisonRow,
    changes: &[(&str, &ComparedValue)],
    axis: &Axis,
    y: &mut f64,
) -> TestGroup {
    let own = row.values.get(&comparison.baseline);
    let own = own.map_or(String::new(), |own| format!("{} {}", significant(own.median), clean(&row.unit)));
    let (head, rule) = (*y + 13.0, *y);
    *y += HEAD_HEIGHT;
    let lines = changes.iter().map(|(name, value)| {
        let baseline = baseline_value(comparison, row, name);
        let line = line(row, &column(comparison, name), (value, baseline), axis, *y + LINE_HEIGHT / 2.0 - 2.0);
        *y += LINE_HEIGHT;
        line
    });
    let lines = lines.collect();
    *y += 4.0;
    let name = shortened(&clean(&format!("{}: {}", row.test, row.metric)), (RIGHT / CHARACTER) as usize);
    TestGroup { name, own, y: pixels(head), rule_y: pixels(rule), lines }
}

fn line(
    row: &ComparisonRow,
    name: &str,
    (value, baseline): (&ComparedValue, Option<&ComparedValue>),
    axis: &Axis,
    y: f64,
) -> ChangeRow {
    let change = value.change_percent.unwrap_or_default();
    let ends = value.ci_low.zip(value.ci_high);
    let interval = ends.map_or(String::new(), |(low, high)| format!(" [{}]", percent_interval(low, high, change)));
    let text = format!("{}{interval}", signed_percent(change));
    let drawn = ends.and_then(|(low, high)| place(low, row.better).zip(place(high, row.better)));
    let class = match (value.difference, row.better) {
        (Some(Difference::Higher), Better::Higher) | (Some(Difference::Lower), Better::Lower) => "good",
        (Some(Difference::Higher), Better::Lower) | (Some(Difference::Lower), Better::Higher) => "bad",
        (Some(Difference::NoneSeen) | None, _) => "none",
    };
    let word = match class {
        "good" => "better",
        "bad" => "worse",
        _ if ends.is_none() => "no interval",
        _ if value.difference.is_none() => "no difference claimed",
        _ => "no difference seen",
    };
    let remarks: String = remarks(value, baseline).iter().map(|remark| format!(", {remark}")).collect();
    ChangeRow {
        title: format!("{name} for {}: {text}, {word}{remarks}", clean(&row.test)),
        name: shortened(name, ((LEFT - 26.0) / CHARACTER) as usize),
        class,
        x: pixels(axis.x(place(change, row.better).unwrap_or_default())),
        y: pixels(y),
        ends: drawn.map(|(one, other)| (pixels(axis.x(one.min(other))), pixels(axis.x(one.max(other))))),
        text: if value.rests_on_suspect(baseline) { format!("{text} suspect") } else { text },
    }
}

/// The position of a change: the logarithm of its ratio, positive if better. `None` if the ratio is not positive.
fn place(change_percent: f64, better: Better) -> Option<f64> {
    let place = (1.0 + change_percent / 100.0).ln();
    let oriented = if better == Better::Higher { place } else { -place };
    oriented.is_finite().then_some(oriented)
}

/// A description of the figure for screen readers.
fn description(title: &str, groups: &[TestGroup]) -> String {
    let lines = groups.iter().flat_map(|group| &group.lines).map(|line| format!(" {}.", line.title));
    format!("{title}, with 95 % intervals; right is better.{}", lines.collect::<String>())
}

/// Maps logarithms of ratios to pixels; intervals are clipped at the ends of the axis.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn over(rows: &[(&ComparisonRow, Vec<(&str, &ComparedValue)>)]) -> Option<Self> {
        let values = rows.iter().flat_map(|(row, changes)| changes.iter().map(|(_, value)| (row.better, *value)));
        let places = |of: fn(&ComparedValue) -> Vec<Option<f64>>| -> Vec<f64> {
            let all = values.clone().flat_map(|(better, value)| of(value).into_iter().map(move |end| (better, end)));
            all.filter_map(|(better, end)| place(end?, better)).collect()
        };
        let points = places(|value| vec![value.change_percent]);
        // A longer interval carries no information, and would compress the others.
        let most = points.iter().fold(0.0_f64, |most, point| most.max(point.abs())) * 1.5 + std::f64::consts::LN_2;
        let mut ends = places(|value| vec![value.ci_low, value.ci_high]);
        ends.iter_mut().for_each(|end| *end = end.clamp(-most, most));
        ends.extend(&points);
        let (low, high) = ends.iter().fold((0.0_f64, 0.0_f64), |(low, high), end| (low.min(*end), high.max(*end)));
        let margin = ((high - low) * 0.06).max(SPAN_MIN);
        (!ends.is_empty()).then_some(Self { low: low - margin, high: high + margin })
    }

    fn x(&self, place: f64) -> f64 {
        LEFT + (place.clamp(self.low, self.high) - self.low) / (self.high - self.low) * (RIGHT - LEFT)
    }

    /// As many ticks as fit, the outermost first; zero has a separate label.
    fn ticks(&self) -> Vec<(String, String)> {
        let mut taken = vec![self.x(0.0)];
        let mut ticks = Vec::new();
        for ratio in TICKS.into_iter().rev() {
            for side in [-1.0, 1.0] {
                let place = side * ratio.ln();
                let x = self.x(place);
                let inside = (self.low..=self.high).contains(&place);
                if inside && taken.iter().all(|other| (other - x).abs() >= TICK_WIDTH) {
                    taken.push(x);
                    ticks.push((pixels(x), format!("{ratio}×")));
                }
            }
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_and_halving_are_equally_far_and_less_time_is_better() {
        let faster = place(100.0, Better::Higher).unwrap();
        assert!(faster > 0.0, "better is on the right");
        assert!((faster + place(-50.0, Better::Higher).unwrap()).abs() < 1e-12);
        assert!((faster - place(-50.0, Better::Lower).unwrap()).abs() < 1e-12);
        assert_eq!(place(-100.0, Better::Higher), None, "zero is not a valid ratio");
    }

    #[test]
    fn ticks_do_not_overlap() {
        for (low, high) in [(-0.01, 0.02), (-0.5, 0.3), (-9.0, 0.1), (-0.1, 4.0)] {
            let axis = Axis { low, high };
            let mut xs: Vec<f64> = axis.ticks().iter().map(|(x, _)| x.parse().unwrap()).collect();
            xs.push(axis.x(0.0));
            xs.sort_by(f64::total_cmp);
            assert!(xs.len() >= 2, "{low} to {high} has no tick");
            assert!(xs.windows(2).all(|pair| pair[1] - pair[0] >= TICK_WIDTH - 0.2), "{xs:?}");
        }
    }
}
