//! A heat map of machines by tests: each cell shows a machine's distance from the others of its class, as a number and
//! in colours that are distinguishable with red-green colour blindness.

use askama::Template;
use model::analysis::survey::{MachineClass, MachineScore, OutlierSide, Test};
use model::values::workload::Better;

use crate::number::{percent_interval, signed_percent};
use crate::style::{clean, shortened};
use crate::svg::{Svg, SvgPath, SvgRect, pixels};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 150.0;
const HEADING: f64 = 30.0;
const NUMBERS: f64 = 18.0;
const ROW_HEIGHT: f64 = 22.0;
const COLUMN_WIDTH_MAX: f64 = 92.0;
/// Minimum width, for the number.
const COLUMN_WIDTH_MIN: f64 = 48.0;
const LEGEND_HEIGHT: f64 = 16.0;
/// Approximate width of a character of names.
const CHARACTER: f64 = 6.6;
const ROWS_MAX: usize = 60;
const LEGEND_WIDTH: f64 = 210.0;
/// Text stays readable on the most saturated colour.
const OPACITY_MAX: f64 = 0.4;
/// The minimum of the colour scale in percent, so that noise is not drawn in saturated colours.
const FULLEST_MIN: f64 = 2.0;

/// `None` if there is no machine to compare with.
pub(super) fn svg(class: &MachineClass) -> Option<String> {
    if class.machines.len() < 2 || class.tests.is_empty() {
        return None;
    }
    let tests = &class.tests[..class.tests.len().min(((WIDTH - LEFT) / COLUMN_WIDTH_MIN) as usize)];
    let rows = class.machines.len().min(ROWS_MAX);
    let width = COLUMN_WIDTH_MAX.min((WIDTH - LEFT) / tests.len() as f64);
    let top = HEADING + NUMBERS;
    let bottom = top + ROW_HEIGHT * rows as f64;
    let mut picture = Svg {
        title: clean(&format!("{}: machines by tests", class.name)),
        description: description(class),
        width: pixels(WIDTH),
        height: pixels(bottom + 10.0 + LEGEND_HEIGHT * (tests.len() + 1) as f64),
        ..Svg::default()
    };
    picture.label("h", 4.0, 16.0, "Against the others of the class, percent");
    picture.heat_legend(WIDTH - LEGEND_WIDTH, 16.0);
    let fullest = tests.iter().flat_map(|test| &test.values).map(|value| value.change_percent.abs());
    let fullest = fullest.fold(FULLEST_MIN, f64::max);
    for (column, test) in tests.iter().enumerate() {
        picture.label("c q", LEFT + width * (column as f64 + 0.5), top - 5.0, &(column + 1).to_string());
        for (row, machine) in class.machines[..rows].iter().enumerate() {
            let value = test.values.iter().find(|value| value.machine == machine.name);
            let place = (LEFT + width * column as f64, top + ROW_HEIGHT * row as f64);
            cell(&mut picture, test, &machine.name, value, place, width, fullest);
        }
        let name = format!("{}: {}, {}", column + 1, test.test, test.metric);
        let name = shortened(&clean(&name), (WIDTH / CHARACTER) as usize);
        picture.label("q", 4.0, bottom + 14.0 + LEGEND_HEIGHT * column as f64, &name);
    }
    for (row, machine) in class.machines[..rows].iter().enumerate() {
        let name = shortened(&clean(&machine.name), (LEFT / CHARACTER) as usize);
        picture.label("e", LEFT - 6.0, top + ROW_HEIGHT * (row as f64 + 0.5) + 4.0, &name);
    }
    let left_out = (class.machines.len() - rows, class.tests.len() - tests.len());
    if left_out != (0, 0) {
        let text = format!("{} more machines and {} more tests are in the table", left_out.0, left_out.1);
        picture.label("q", 4.0, bottom + 14.0 + LEGEND_HEIGHT * tests.len() as f64, &text);
    }
    Some(picture.render().expect("the template renders"))
}

fn cell(
    picture: &mut Svg,
    test: &Test,
    machine: &str,
    value: Option<&MachineScore>,
    (x, y): (f64, f64),
    width: f64,
    fullest: f64,
) {
    let (width, height) = (width - 2.0, ROW_HEIGHT - 2.0);
    let heat = value.map(|value| value.change_percent.abs() / fullest * OPACITY_MAX);
    let class = match value {
        None => "none",
        Some(value) if (value.change_percent > 0.0) == (test.better == Better::Higher) => "heat",
        Some(_) => "heat worse",
    };
    let title = caption(test, machine, value);
    let [left, top, wide, high] = [x, y, width, height].map(pixels);
    picture.boxes.push(SvgRect { class, x: left, y: top, width: wide, height: high, heat, title });
    let Some(value) = value else { return };
    let text = signed_percent(value.change_percent);
    picture.label("c", x + width / 2.0, y + height / 2.0 + 4.0, text.trim_end_matches(" %"));
    if value.stands_out.is_some() {
        let path = format!("M{} {}h{}v{}h-{}z", pixels(x), pixels(y), pixels(width), pixels(height), pixels(width));
        picture.lines.push(SvgPath { class: "axis answer".into(), path });
    }
}

pub(super) fn caption(test: &Test, machine: &str, value: Option<&MachineScore>) -> String {
    let name = format!("{machine}, {}", test.test);
    let Some(value) = value else { return clean(&format!("{name}: not measured")) };
    let ends = value.ci_low.zip(value.ci_high).map_or(String::new(), |(low, high)| {
        format!(", 95 % interval {} %", percent_interval(low, high, value.change_percent))
    });
    let worth = match value.stands_out {
        Some(OutlierSide::Better) => ", outlier, better",
        Some(OutlierSide::Worse) => ", outlier, worse",
        None => "",
    };
    clean(&format!("{name}: {}{ends}{worth}", signed_percent(value.change_percent)))
}

/// A description of the figure for screen readers: the range of each test, and the outliers.
fn description(class: &MachineClass) -> String {
    let test = |test: &Test| {
        let changes = test.values.iter().map(|value| value.change_percent);
        let (low, high) = changes.fold((f64::MAX, f64::MIN), |(low, high), change| (low.min(change), high.max(change)));
        let out = test.values.iter().filter(|value| value.stands_out.is_some());
        let out: String = out.map(|value| format!(" {}.", caption(test, &value.machine, Some(value)))).collect();
        format!(" {}: {} to {}.{out}", test.test, signed_percent(low), signed_percent(high))
    };
    let tests = class.tests.iter().filter(|test| !test.values.is_empty());
    clean(&format!("Machines against the others of their class.{}", tests.map(test).collect::<String>()))
}
