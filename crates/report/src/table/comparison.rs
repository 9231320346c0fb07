//! A comparison: one row per test and metric, one column per compared thing, the geometric mean below.

use model::comparison::{ComparedValue, Comparison, ComparisonRow, Difference, GeomeanChange};
use model::workload::Better;

use super::run::better_word;
use super::{csv_number, csv_text};
use crate::grid::{Grid, GridCell, markdown_text};
use crate::look::{HARD_SPACE, Look, Tone, clean, finished, wrapped};
use crate::number::{percent_interval, significant, signed_percent};

/// A column of changes is hard to read when narrower; with less room per column each change gets a line of its own.
const CHANGE_WIDTH_MIN: usize = 14;
/// What test, metric and the baseline's own numbers take of a line, about.
const FIXED_WIDTH: usize = 44;

/// For the terminal.
pub fn comparison(comparison: &Comparison, look: &Look) -> String {
    let others = comparison.columns.len().saturating_sub(1);
    let grid = if FIXED_WIDTH + others * CHANGE_WIDTH_MIN > look.width {
        long_grid(comparison).without_repeats(2)
    } else {
        comparison_grid(comparison).without_repeats(1)
    };
    let mut out = grid.terminal(look);
    for note in footnotes(comparison) {
        out += "\n";
        for line in wrapped(&note, look.width, look.width) {
            out += &finished(&line, look);
        }
    }
    out + "\n"
}

/// The same as Markdown.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let notes: String = footnotes(comparison).iter().map(|note| format!("\n{}\n", markdown_text(note))).collect();
    format!("{}{notes}", comparison_grid(comparison).markdown())
}

/// Every value, unrounded, one per line; the geometric means are the lines without a metric.
pub fn comparison_csv(comparison: &Comparison) -> String {
    let header =
        "test,metric,unit,better,main,column,baseline,median,change_percent,ci_low,ci_high,difference,p_value,samples";
    let mut rows: Vec<Vec<String>> = vec![header.split(',').map(str::to_string).collect()];
    for row in &comparison.rows {
        let columns = comparison.columns.iter().filter_map(|column| Some((column, row.values.get(column)?)));
        rows.extend(columns.map(|(column, value)| csv_value(comparison, row, column, value)));
    }
    rows.extend(comparison.geomean.iter().map(|mean| csv_mean(comparison, mean)));
    csv_text(&rows)
}

fn csv_value(comparison: &Comparison, row: &ComparisonRow, column: &str, value: &ComparedValue) -> Vec<String> {
    let difference = match value.difference {
        Some(Difference::Higher) => "higher",
        Some(Difference::Lower) => "lower",
        Some(Difference::NoneSeen) => "none seen",
        None => "",
    };
    vec![
        row.test.clone(),
        row.metric.clone(),
        row.unit.clone(),
        better_word(row.better).into(),
        row.main.to_string(),
        column.into(),
        comparison.baseline.clone(),
        value.median.to_string(),
        csv_number(value.change_percent),
        csv_number(value.ci_low),
        csv_number(value.ci_high),
        difference.into(),
        csv_number(value.p_value),
        value.samples.to_string(),
    ]
}

fn csv_mean(comparison: &Comparison, mean: &GeomeanChange) -> Vec<String> {
    let mut fields = vec![String::new(); 14];
    fields[0] = "geometric mean".into();
    fields[3] = "higher".into();
    fields[5].clone_from(&mean.name);
    fields[6].clone_from(&comparison.baseline);
    fields[8] = mean.change_percent.to_string();
    fields[9] = csv_number(mean.ci_low);
    fields[10] = csv_number(mean.ci_high);
    fields
}

/// One column per compared thing.
pub(crate) fn comparison_grid(comparison: &Comparison) -> Grid {
    let baseline = format!("{} (baseline)", comparison.baseline);
    let mut titles = vec!["test", "metric", "better", baseline.as_str()];
    titles.extend(others(comparison));
    let mut grid = Grid::new(&titles);
    for row in &comparison.rows {
        let mut cells = vec![
            GridCell::plain(&row.test),
            GridCell::plain(&row.metric),
            GridCell::quiet(better_word(row.better)),
            own(row, row.values.get(&comparison.baseline)),
        ];
        cells.extend(others(comparison).map(|column| change(row, row.values.get(column))));
        grid.rows.push(cells);
    }
    if !comparison.geomean.is_empty() {
        let mut cells = vec![GridCell::new("geometric mean", Tone::Strong), GridCell::plain("")];
        cells.extend([GridCell::quiet("higher"), GridCell::plain("")]);
        cells.extend(others(comparison).map(|column| {
            let mean = comparison.geomean.iter().find(|mean| mean.name == column);
            mean.map_or_else(missing, mean_cell)
        }));
        grid.rows.push(cells);
    }
    grid
}

/// One line per compared thing, for comparisons that are wider than the terminal.
fn long_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(&["test", "metric", comparison.by.as_str(), "median", "change"]);
    for row in &comparison.rows {
        for column in &comparison.columns {
            let value = row.values.get(column);
            let is_baseline = *column == comparison.baseline;
            grid.rows.push(vec![
                GridCell::plain(&row.test),
                GridCell::plain(&format!("{} ({} is better)", row.metric, better_word(row.better))),
                GridCell::plain(column),
                own(row, value),
                if is_baseline { GridCell::quiet("baseline") } else { change(row, value) },
            ]);
        }
    }
    for mean in &comparison.geomean {
        let mut cells = vec![GridCell::new("geometric mean", Tone::Strong), GridCell::plain("(higher is better)")];
        cells.extend([GridCell::plain(&mean.name), GridCell::plain(""), mean_cell(mean)]);
        grid.rows.push(cells);
    }
    grid
}

fn others(comparison: &Comparison) -> impl Iterator<Item = &str> {
    comparison.columns.iter().filter(|column| **column != comparison.baseline).map(String::as_str)
}

/// A median with its unit.
fn own(row: &ComparisonRow, value: Option<&ComparedValue>) -> GridCell {
    value.map_or_else(missing, |value| {
        GridCell::ours(&format!("{}{HARD_SPACE}{}", significant(value.median), clean(&row.unit)), Tone::Plain)
    })
}

fn missing() -> GridCell {
    GridCell::quiet("not measured")
}

/// `+12.3 % (10.1 to 14.5)`, `no difference seen (-0.4 to 0.9 %)`, or `+12.3 %` for a single figure.
pub(crate) fn change(row: &ComparisonRow, value: Option<&ComparedValue>) -> GridCell {
    let Some(value) = value else { return missing() };
    let Some(change) = value.change_percent else { return GridCell::quiet("no ratio to the baseline") };
    let ends = value.ci_low.zip(value.ci_high).map(|(low, high)| percent_interval(low, high, change));
    let better = |higher: bool| if higher == (row.better == Better::Higher) { Tone::Good } else { Tone::Bad };
    let tone = match value.difference {
        Some(Difference::Higher) => better(true),
        Some(Difference::Lower) => better(false),
        Some(Difference::NoneSeen) => return none_seen(ends),
        None => Tone::Plain,
    };
    GridCell::ours(&with_interval(change, ends), tone)
}

fn mean_cell(mean: &GeomeanChange) -> GridCell {
    let change = mean.change_percent;
    let ends = mean.ci_low.zip(mean.ci_high);
    let written = ends.map(|(low, high)| percent_interval(low, high, change));
    let tone = match ends {
        Some((low, high)) if low <= 0.0 && 0.0 <= high => return none_seen(written),
        Some(_) if change > 0.0 => Tone::Good,
        Some(_) => Tone::Bad,
        None => Tone::Plain,
    };
    GridCell::ours(&with_interval(change, written), tone)
}

fn none_seen(ends: Option<String>) -> GridCell {
    let ends = ends.map_or(String::new(), |ends| held(&format!(" ({ends} %)"), 1));
    GridCell::ours(&format!("no difference seen{ends}"), Tone::Quiet)
}

fn with_interval(change: f64, ends: Option<String>) -> String {
    let ends = ends.map_or(String::new(), |ends| held(&format!(" ({ends})"), 1));
    format!("{}{ends}", held(&signed_percent(change), 0))
}

/// Keeps what belongs together on one line, from so many bytes on.
fn held(text: &str, from: usize) -> String {
    let (free, fixed) = text.split_at(from);
    format!("{free}{}", fixed.replace(' ', &HARD_SPACE.to_string()))
}

/// What a reader has to know before believing the numbers.
pub(crate) fn footnotes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let changes = || comparison.rows.iter().flat_map(|row| row.values.values()).filter(|value| value.change_percent.is_some());
    if changes().any(|value| value.ci_low.is_some()) {
        notes.push(format!("changes against {} with 95 % intervals", clean(&comparison.baseline)));
    }
    if changes().any(|value| value.ci_low.is_none()) {
        notes.push("a change without an interval is between single figures: nothing is known of its noise".into());
    }
    notes.extend(comparison.notes.iter().map(|note| clean(note)));
    notes
}
