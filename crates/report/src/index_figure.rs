//! A figure of indices: one bar per column, from zero on one axis, in a group per number of copies. Decides layout and
//! labels only; every value comes from the index table.

use askama::Template;
use model::import::unixbench::{Index, IndexGroup, IndexTable, TESTS};

use crate::axis::Axis;
use crate::claim_text::column_by;
use crate::figure_style::{DARK, FigureStyle, LIGHT, Palette};
use crate::number::signed_percent;
use crate::stamp;
use crate::style::{clean, shortened};
use crate::svg::pixels;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 570.0;
/// Space between a bar and its value.
const GAP: f64 = 7.0;
const TOP: f64 = 44.0;
const HEAD_HEIGHT: f64 = 24.0;
const LINE_HEIGHT: f64 = 24.0;
const BAR_HEIGHT: f64 = 16.0;
const AXIS_HEIGHT: f64 = 62.0;
/// Approximate width of a character.
const CHARACTER: f64 = 6.6;

/// Draws the index of each column. `None` without an index.
pub fn svg(table: &IndexTable, style: &FigureStyle) -> Option<String> {
    let values: Vec<f64> = table.groups.iter().flat_map(|group| &group.indices).flatten().map(|it| it.value).collect();
    let most = values.iter().copied().reduce(f64::max)?;
    // Bars need zero, and equal lengths for equal values.
    let axis = Axis { low: 0.0, high: most, logarithmic: false };
    let mut y = TOP;
    let groups: Vec<BarGroup> = table.groups.iter().map(|group| bars(table, group, &axis, &mut y)).collect();
    let x = |tick: f64| LEFT + axis.share(tick) * (RIGHT - LEFT);
    let title = clean(&format!("{}UnixBench index by {}", stamp::prefix(table.stamp), table.by));
    let words = groups.iter().flat_map(|group| &group.bars).map(|bar| format!(" {}: {}.", bar.title, bar.text));
    let chart = IndexChart {
        description: format!("{title}; more is better.{}", words.collect::<String>()),
        title,
        stamp: stamp::of(table.stamp).join("; "),
        width: pixels(WIDTH),
        height: pixels(y + AXIS_HEIGHT),
        left: pixels(LEFT),
        top: pixels(TOP),
        bottom: pixels(y + 2.0),
        ticks: axis.ticks().into_iter().map(|(tick, text)| (pixels(x(tick)), text)).collect(),
        groups,
        bar_height: pixels(BAR_HEIGHT),
        source: shortened(&style.source, (WIDTH / CHARACTER) as usize),
        colours: style.theme.palette(),
        light: LIGHT.variables(),
        dark: DARK.variables(),
    };
    Some(chart.render().expect("the template renders"))
}

#[derive(Template)]
#[template(path = "index.svg")]
struct IndexChart {
    title: String,
    description: String,
    stamp: String,
    width: String,
    height: String,
    left: String,
    top: String,
    bottom: String,
    ticks: Vec<(String, String)>,
    groups: Vec<BarGroup>,
    bar_height: String,
    source: String,
    colours: Palette,
    light: String,
    dark: String,
}

struct BarGroup {
    name: String,
    y: String,
    bars: Vec<Bar>,
}

struct Bar {
    name: String,
    title: String,
    y: String,
    middle: String,
    width: String,
    end: String,
    text: String,
}

fn bars(table: &IndexTable, group: &IndexGroup, axis: &Axis, y: &mut f64) -> BarGroup {
    let head = *y + 15.0;
    if !group.name.is_empty() {
        *y += HEAD_HEIGHT;
    }
    let bar = |(column, index): (&String, &Option<Index>)| {
        let index = (*index)?;
        let width = axis.share(index.value) * (RIGHT - LEFT);
        let (top, name) = (*y + (LINE_HEIGHT - BAR_HEIGHT) / 2.0, column_by(&table.by, column));
        let middle = *y + LINE_HEIGHT / 2.0;
        *y += LINE_HEIGHT;
        Some(Bar {
            name: shortened(&name, (LEFT / CHARACTER) as usize - 2),
            title: name,
            y: pixels(top),
            middle: pixels(middle),
            width: pixels(width),
            end: pixels(LEFT + width + GAP),
            text: text(index),
        })
    };
    let bars = table.columns.iter().zip(&group.indices).filter_map(bar).collect();
    BarGroup { name: clean(&group.name), y: pixels(head), bars }
}

/// `571.6 (+12.3 %), 9 of 12 tests`.
fn text(index: Index) -> String {
    let change = index.change_percent.map_or(String::new(), |change| format!(" ({})", signed_percent(change)));
    let is_partial = index.tests < TESTS.len();
    let partial = if is_partial { format!(", {} of {} tests", index.tests, TESTS.len()) } else { String::new() };
    format!("{:.1}{change}{partial}", index.value)
}
