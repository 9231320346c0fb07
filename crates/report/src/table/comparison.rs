//! A comparison: one row per test and metric, one column per compared object, the geometric mean in the last row.

use std::collections::BTreeSet;

use model::values::comparison::{ComparedValue, Comparison, ComparisonRow, Difference, GeomeanChange};
use model::values::units::thread_count;
use model::values::workload::Better;

use super::columns::better_word;
use crate::grid::{CellKind, Grid, GridCell, markdown_text};
use crate::number::{percent_interval, signed_percent, significant};
use crate::style::{HARD_SPACE, TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// Minimum width of a column of changes; on narrower terminals each change has a separate line.
const CHANGE_WIDTH_MIN: usize = 20;
/// Approximate width of test, metric and the baseline's values.
const FIXED_WIDTH: usize = 56;

const NONE_SEEN: &str = "no difference seen";
/// Replaces the interval, which requires two tests.
const ONE_TEST: &str = "one test only";

pub fn comparison(comparison: &Comparison, style: &TextStyle) -> String {
    let others = comparison.columns.len().saturating_sub(1);
    let grid = if FIXED_WIDTH + others * CHANGE_WIDTH_MIN > style.width {
        long_grid(comparison)
    } else {
        comparison_grid(comparison).without_repeats(1)
    };
    let title = clean(&format!("Against {}, by {}", comparison.baseline, comparison.by));
    let above: String = headnotes(comparison).iter().map(|note| paragraph(note, style)).collect();
    let below: String = footnotes(comparison).iter().map(|note| format!("\n{}", paragraph(note, style))).collect();
    paragraph(&with_symbol(&title, Tone::Strong), style) + &above + &grid.terminal(style) + &below
}

fn paragraph(text: &str, style: &TextStyle) -> String {
    wrapped(text, style.width, style.width).iter().map(|line| format!("{}\n", finished(line, style))).collect()
}

pub fn comparison_markdown(comparison: &Comparison) -> String {
    let above: String = headnotes(comparison).iter().map(|note| format!("{}\n\n", markdown_text(note))).collect();
    let below: String = footnotes(comparison).iter().map(|note| format!("\n{}\n", markdown_text(note))).collect();
    format!("{above}{}{below}", comparison_grid(comparison).markdown())
}

/// One column per compared object.
pub(crate) fn comparison_grid(comparison: &Comparison) -> Grid {
    let baseline = format!("{} (baseline)", comparison.baseline);
    let mut titles = vec!["test", "metric", "better", baseline.as_str()];
    titles.extend(others(comparison));
    let mut grid = Grid::new(&titles);
    for row in &comparison.rows {
        let mut cells = vec![
            GridCell::plain(&row.test),
            GridCell::plain(&row.metric),
            GridCell::muted(better_word(row.better)),
            own(row, row.values.get(&comparison.baseline)),
        ];
        cells.extend(others(comparison).map(|column| joined(parts(row, row.values.get(column)))));
        grid.rows.push(cells);
    }
    for threads in over(comparison) {
        let mut cells = vec![GridCell::new(&mean_name(threads), Tone::Strong), GridCell::plain("main metrics")];
        cells.extend([GridCell::muted("higher"), GridCell::muted("baseline")]);
        cells.extend(others(comparison).map(|column| {
            let mean = means(comparison).iter().find(|mean| mean.name == column && mean.threads == threads);
            mean.map_or_else(missing, |mean| joined(mean_parts(mean)))
        }));
        grid.rows.push(cells);
    }
    grid
}

/// The sets of tests with a mean: all tests, then those of each thread count.
fn over(comparison: &Comparison) -> BTreeSet<Option<usize>> {
    means(comparison).iter().map(|mean| mean.threads).collect()
}

pub(super) fn mean_name(threads: Option<usize>) -> String {
    threads.map_or("geometric mean".into(), |threads| format!("geometric mean, {}", thread_count(threads)))
}

/// One line per compared object, for comparisons that are wider than the terminal.
pub(crate) fn long_grid(comparison: &Comparison) -> Grid {
    let titles = [comparison.by.as_str(), "median", "change", "95 % interval"];
    let mut grid = Grid::new(&titles).holding(CellKind::Word, &["median", "change", "95 % interval"]);
    for row in &comparison.rows {
        grid.heading(&format!("{}: {}, {} is better", row.test, row.metric, better_word(row.better)));
        // Only columns that have the test; others were not requested or are listed as skipped.
        let here = |column: &&String| row.values.contains_key(*column) || **column == comparison.baseline;
        for column in comparison.columns.iter().filter(here) {
            let value = row.values.get(column);
            let mut cells = vec![GridCell::plain(column), own(row, value)];
            cells.extend(if *column == comparison.baseline {
                [GridCell::muted("baseline"), GridCell::plain("")]
            } else {
                parts(row, value)
            });
            grid.rows.push(cells);
        }
    }
    for threads in over(comparison) {
        grid.heading(&format!("{} over the tests, higher is better", mean_name(threads)));
        for mean in means(comparison).iter().filter(|mean| mean.threads == threads) {
            let mut cells = vec![GridCell::plain(&mean.name), GridCell::plain("")];
            cells.extend(mean_parts(mean));
            grid.rows.push(cells);
        }
    }
    grid
}

/// The means. Empty for a single test, whose mean adds no information.
fn means(comparison: &Comparison) -> &[GeomeanChange] {
    let tests = comparison.rows.iter().filter(|row| row.main).count();
    if tests > 1 { &comparison.geomean } else { &[] }
}

fn others(comparison: &Comparison) -> impl Iterator<Item = &str> {
    comparison.columns.iter().filter(|column| **column != comparison.baseline).map(String::as_str)
}

/// A median with its unit.
fn own(row: &ComparisonRow, value: Option<&ComparedValue>) -> GridCell {
    value.map_or_else(missing, |value| {
        let text = format!("{}{HARD_SPACE}{}", significant(value.median), clean(&row.unit));
        GridCell::trusted(&text, Tone::Plain).of(value.median, Some(&row.unit))
    })
}

fn missing() -> GridCell {
    GridCell::muted("not measured")
}

/// The texts of a change: its size or direction, and its interval.
fn parts(row: &ComparisonRow, value: Option<&ComparedValue>) -> [GridCell; 2] {
    let Some(value) = value else { return [missing(), GridCell::plain("")] };
    let Some(change) = value.change_percent else { return [GridCell::muted("no ratio"), GridCell::plain("")] };
    let better = |higher: bool| if higher == (row.better == Better::Higher) { Tone::Good } else { Tone::Bad };
    let tone = match value.difference {
        Some(Difference::Higher) => Some(better(true)),
        Some(Difference::Lower) => Some(better(false)),
        Some(Difference::NoneSeen) => None,
        None => Some(Tone::Plain),
    };
    change_parts(change, value.ci_low.zip(value.ci_high), tone)
}

fn mean_parts(mean: &GeomeanChange) -> [GridCell; 2] {
    let Some((low, high)) = mean.ci_low.zip(mean.ci_high) else {
        let change =
            GridCell::trusted(&held(&signed_percent(mean.change_percent)), Tone::Quiet).of(mean.change_percent, None);
        return [change, GridCell::trusted(&held(ONE_TEST), Tone::Quiet)];
    };
    let tone = match mean.change_percent {
        _ if low <= 0.0 && 0.0 <= high => None,
        change if change > 0.0 => Some(Tone::Good),
        _ => Some(Tone::Bad),
    };
    change_parts(mean.change_percent, Some((low, high)), tone)
}

/// `tone` is `None` if no difference was seen.
fn change_parts(change: f64, ends: Option<(f64, f64)>, tone: Option<Tone>) -> [GridCell; 2] {
    let (words, tone) = match tone {
        Some(tone) => (held(&signed_percent(change)), tone),
        None => (NONE_SEEN.into(), Tone::Quiet),
    };
    let ends = ends.map_or(String::new(), |(low, high)| format!("{} %", percent_interval(low, high, change)));
    [GridCell::trusted(&words, tone).of(change, None), GridCell::trusted(&held(&ends), tone)]
}

/// `+12.3 % (10.1 to 14.5)`, `no difference seen (-0.4 to 0.9 %)`, or `+12.3 %` for a single figure.
fn joined([words, ends]: [GridCell; 2]) -> GridCell {
    if ends.text.is_empty() {
        return words;
    }
    let ends = if words.text == NONE_SEEN { ends.text.as_str() } else { ends.text.trim_end_matches([HARD_SPACE, '%']) };
    GridCell { text: format!("{} ({ends})", words.text), ..words }
}

/// Replaces spaces so that the text stays on one line.
fn held(text: &str) -> String {
    text.replace(' ', &HARD_SPACE.to_string())
}

/// Notes above the table: further differences between the columns.
pub(crate) fn headnotes(comparison: &Comparison) -> Vec<String> {
    comparison.notes.iter().map(|note| clean(note)).collect()
}

/// Notes below the table, which explain its values.
pub(crate) fn footnotes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let changes =
        || comparison.rows.iter().flat_map(|row| row.values.values()).filter(|value| value.change_percent.is_some());
    if changes().any(|value| value.ci_low.is_some()) {
        notes.push("intervals are 95 % intervals; no difference is claimed if the interval contains 0 %".into());
    }
    if changes().any(|value| value.ci_low.is_none()) {
        notes.push("a change without an interval is between single figures: its noise is unknown".into());
    }
    notes
}
