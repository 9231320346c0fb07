//! Figures of one machine against its class: for each test a strip with a tick per other machine, and the machine with
//! its 95 % interval. Better is always to the right.

use askama::Template;
use model::analysis::survey::{MachineClass, MachineScore, Test};
use model::values::workload::Better;

use super::heat::caption;
use crate::axis::Axis;
use crate::frame::Frame;
use crate::grid::{Grid, GridCell};
use crate::html::figure::FigurePart;
use crate::html::table::HtmlTable;
use crate::number::{percent_interval, signed_percent};
use crate::style::{clean, shortened};
use crate::svg::{Svg, SvgDot, SvgPath, pixels};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 28.0;
const STRIP: f64 = 26.0;
const AXIS: f64 = 40.0;
/// Half of the height of a tick.
const TICK: f64 = 7.0;
/// Approximate width of a character of names.
const CHARACTER: f64 = 6.6;
/// Maximum number of strips of a figure; the table has all.
const STRIPS_MAX: usize = 24;

/// `None` if the machine has no test.
pub(super) fn figure(class: &MachineClass, machine: &str, rows_max: usize) -> Option<FigurePart> {
    let own = |test: &'_ Test| test.values.iter().find(|value| value.machine == machine).cloned();
    let strips: Vec<(&Test, MachineScore)> =
        class.tests.iter().filter_map(|test| Some((test, own(test)?))).take(STRIPS_MAX).collect();
    let svg = drawn(&strips, machine)?.render().expect("the template renders");
    let mut grid = Grid::new(&["test", "against the others", "95 % interval"]).numbers(&["against the others"]);
    for (test, value) in &strips {
        let ends = value.ci_low.zip(value.ci_high);
        let ends = ends.map_or(String::new(), |(low, high)| percent_interval(low, high, value.change_percent) + " %");
        let change = GridCell::plain(&signed_percent(value.change_percent)).of(value.change_percent, None);
        grid.rows.push(vec![GridCell::plain(&test.test), change, GridCell::muted(&ends)]);
    }
    Some(FigurePart {
        svg,
        caption: format!(
            "{} against its class. A tick is another machine, the dot is this machine, and the line its 95 % \
             interval. Right is better.",
            clean(machine)
        ),
        table: HtmlTable::new("The same data as a table", grid, rows_max).folded(),
    })
}

/// The change in percent, negated for metrics to minimise, so that better is to the right.
fn place(better: Better, change_percent: f64) -> f64 {
    if better == Better::Higher { change_percent } else { 100.0 * (1.0 / (1.0 + change_percent / 100.0) - 1.0) }
}

fn drawn(strips: &[(&Test, MachineScore)], machine: &str) -> Option<Svg> {
    let places = |value: &MachineScore, better| place(better, value.change_percent);
    let all: Vec<f64> = strips
        .iter()
        .flat_map(|(test, _)| test.values.iter().map(|value| places(value, test.better)))
        .chain([0.0])
        .collect();
    let ends: Vec<f64> = strips
        .iter()
        .flat_map(|(test, own)| [own.ci_low, own.ci_high].into_iter().flatten().map(|end| place(test.better, end)))
        .collect();
    let height = STRIP * strips.len() as f64;
    let frame = Frame {
        x: Axis::over(&all, &ends)?,
        y: Axis { low: 0.0, high: 1.0, logarithmic: false },
        left: LEFT,
        right: WIDTH - RIGHT,
        top: TOP,
        height,
        inside: 6.0,
    };
    let lines: String = strips.iter().map(|(test, own)| format!(" {}.", caption(test, machine, Some(own)))).collect();
    let mut picture = Svg {
        title: clean(&format!("{machine} against its class")),
        description: clean(&format!("{machine} against the others of its class; right is better.{lines}")),
        width: pixels(WIDTH),
        height: pixels(TOP + height + AXIS),
        ..Svg::default()
    };
    picture.label("h", 4.0, 16.0, &clean(&format!("{machine} against its class")));
    for (tick, text) in frame.x.ticks() {
        frame.upright(&mut picture, if tick.abs() > 0.0 { "grid" } else { "step" }, tick);
        frame.below(&mut picture, frame.x(tick), &format!("{text} %"));
    }
    frame.edges(&mut picture);
    picture.label("q", LEFT, frame.bottom() + 34.0, "← worse");
    picture.label("q e", WIDTH - RIGHT, frame.bottom() + 34.0, "better →");
    for (at, (test, own)) in strips.iter().enumerate() {
        strip(&mut picture, &frame, test, own, TOP + STRIP * (at as f64 + 0.5));
    }
    Some(picture)
}

fn strip(picture: &mut Svg, frame: &Frame, test: &Test, own: &MachineScore, y: f64) {
    let name = shortened(&clean(&test.test), ((LEFT - 16.0) / CHARACTER) as usize);
    picture.label("", 4.0, y + 4.0, &name);
    let others = test.values.iter().filter(|value| value.machine != own.machine);
    let ticks: String = others
        .map(|value| {
            let x = frame.x(place(test.better, value.change_percent));
            format!("M{} {}v{}", pixels(x), pixels(y - TICK), pixels(2.0 * TICK))
        })
        .collect();
    if !ticks.is_empty() {
        picture.lines.push(SvgPath { class: "other".into(), path: ticks });
    }
    if let Some((low, high)) = own.ci_low.zip(own.ci_high) {
        let ends = [low, high].map(|end| pixels(frame.x(place(test.better, end))));
        picture.lines.push(SvgPath { class: "curve".into(), path: format!("M{} {}H{}", ends[0], pixels(y), ends[1]) });
    }
    let x = frame.x(place(test.better, own.change_percent));
    let class = if own.stands_out.is_some() { "point" } else { "point open" };
    picture.points.push(SvgDot { class, x: pixels(x), y: pixels(y), title: caption(test, &own.machine, Some(own)) });
}
