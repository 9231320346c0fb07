//! A comparison: one row per test and metric, one column per compared object, the geometric mean in the last row.

use std::collections::BTreeSet;

use model::values::comparison::{ComparedValue, Comparison, ComparisonRow, Difference, GeomeanChange, Replication};
use model::values::units::thread_count;
use model::values::workload::Better;

use super::columns::better_word;
use super::efficiency::{EFFICIENCY, efficiency_grid, efficiency_markdown_with, efficiency_with};
use crate::claim_text;
use crate::comparison_notes::{SUSPECT_MARK, baseline_value, footnotes, mean_table_remarks, table_remarks};
use crate::grid::{CellKind, Grid, GridCell, html_paragraphs, markdown_text};
use crate::number::Digits;
use crate::stamp;
use crate::style::{HARD_SPACE, TextStyle, Tone, clean, paragraph, with_symbol};

/// Minimum width of a column of changes; on narrower terminals each change has a separate line.
const CHANGE_WIDTH_MIN: usize = 20;
/// Approximate width of test, metric and the baseline's values.
const FIXED_WIDTH: usize = 56;

const NONE_SEEN: &str = "no difference seen";
/// Replaces the interval of a mean if a test has too few trials.
const NO_INTERVAL: &str = "no interval";

pub fn comparison(comparison: &Comparison, style: &TextStyle) -> String {
    comparison_with(comparison, Digits::default(), style)
}

/// For the terminal, with this number of digits.
pub fn comparison_with(comparison: &Comparison, digits: Digits, style: &TextStyle) -> String {
    let others = comparison.columns.len().saturating_sub(1);
    let grid = if FIXED_WIDTH + others * CHANGE_WIDTH_MIN > style.width {
        long_grid(comparison, digits)
    } else {
        comparison_grid(comparison, digits).without_repeats(1)
    };
    let above: String = headnotes(comparison).iter().map(|note| paragraph(note, style)).collect();
    let below: String = footnotes(comparison).iter().map(|note| format!("\n{}", paragraph(note, style))).collect();
    let mut out = paragraph(&with_symbol(&caption(comparison), Tone::Strong), style) + &above;
    out += &grid.terminal(style);
    out + &efficiency_with(&comparison.efficiency, digits, style) + &below
}

/// `Against kernel, by placement`.
pub(crate) fn caption(comparison: &Comparison) -> String {
    clean(&format!("Against {}, by {}", comparison.baseline, comparison.by))
}

pub fn comparison_markdown(comparison: &Comparison) -> String {
    comparison_markdown_with(comparison, Digits::default())
}

/// As Markdown, with this number of digits.
pub fn comparison_markdown_with(comparison: &Comparison, digits: Digits) -> String {
    let above: String = headnotes(comparison).iter().map(|note| format!("{}\n\n", markdown_text(note))).collect();
    let below: String = footnotes(comparison).iter().map(|note| format!("\n{}\n", markdown_text(note))).collect();
    let table =
        comparison_grid(comparison, digits).markdown() + &efficiency_markdown_with(&comparison.efficiency, digits);
    format!("{above}{table}{below}")
}

/// As an HTML fragment, with this number of digits.
pub fn comparison_html(comparison: &Comparison, digits: Digits) -> String {
    let efficiency = efficiency_grid(&comparison.efficiency, digits);
    let efficiency = if efficiency.rows.is_empty() { String::new() } else { efficiency.html(EFFICIENCY) };
    let table = comparison_grid(comparison, digits).html(&caption(comparison));
    html_paragraphs(&headnotes(comparison)) + &table + &efficiency + &html_paragraphs(&footnotes(comparison))
}

/// One column per compared object.
pub(crate) fn comparison_grid(comparison: &Comparison, digits: Digits) -> Grid {
    let title = |column: &String| {
        let suffix = if comparison.is_baseline(column) { " (baseline)" } else { "" };
        format!("{}{suffix}", claim_text::column(comparison, column))
    };
    let columns: Vec<String> = comparison.columns.iter().map(title).collect();
    let mut titles = vec!["test", "metric", "better"];
    titles.extend(columns.iter().map(String::as_str));
    let mut grid = Grid::new(&titles);
    for row in &comparison.rows {
        let mut cells =
            vec![GridCell::plain(&row.test), GridCell::plain(&row.metric), GridCell::muted(better_word(row.better))];
        cells.extend(comparison.columns.iter().map(|column| {
            let value = row.values.get(column);
            match comparison.baseline_of(column) {
                Some(_) if value.is_some_and(|value| value.change_percent.is_some()) => {
                    let cell = joined(parts(row, value, digits));
                    remarked(cell, value.map(|value| table_remarks(value, baseline_value(comparison, row, column))))
                }
                // Without a value of the baseline there is no change; the value itself is known.
                _ => remarked(own(row, value, digits), value.map(|value| table_remarks(value, None))),
            }
        }));
        grid.rows.push(cells);
    }
    grid.rows.extend(over(comparison).into_iter().map(|threads| mean_cells(comparison, threads, digits)));
    grid
}

/// The row of the means over one set of tests.
fn mean_cells(comparison: &Comparison, threads: Option<usize>, digits: Digits) -> Vec<GridCell> {
    let theirs: Vec<&GeomeanChange> = means(comparison).iter().filter(|mean| mean.threads == threads).collect();
    let bases: BTreeSet<String> = theirs.iter().map(|mean| basis(mean)).collect();
    let common = bases.first().filter(|_| bases.len() == 1);
    let metric = common.map_or("main metrics", String::as_str);
    let mut cells = vec![GridCell::new(&mean_name(threads), Tone::Strong), GridCell::plain(metric)];
    cells.push(GridCell::muted("higher"));
    cells.extend(comparison.columns.iter().map(|column| {
        if comparison.baseline_of(column).is_none() {
            return GridCell::muted(if comparison.is_baseline(column) { "baseline" } else { "" });
        }
        let Some(mean) = theirs.iter().find(|mean| mean.name == *column) else { return GridCell::muted("no mean") };
        let mut cell = joined_mean(mean, digits);
        if common.is_none() {
            cell.text += &format!(", {}", held(&basis(mean)));
        }
        cell
    }));
    cells
}

/// The sets of tests with a mean: all tests, then those of each thread count.
fn over(comparison: &Comparison) -> BTreeSet<Option<usize>> {
    means(comparison).iter().map(|mean| mean.threads).collect()
}

pub(super) fn mean_name(threads: Option<usize>) -> String {
    threads.map_or("geometric mean".into(), |threads| format!("geometric mean, {}", thread_count(threads)))
}

/// The tests and trials of which a mean is computed.
fn basis(mean: &GeomeanChange) -> String {
    let tests = if mean.tests == 1 { "1 test".into() } else { format!("{} tests", mean.tests) };
    // A single figure on each side.
    if mean.trials <= 2 * mean.tests {
        format!("{tests}, single figures")
    } else {
        format!("{tests}, {} trials", mean.trials)
    }
}

/// One line per compared object, for comparisons that are wider than the terminal.
pub(crate) fn long_grid(comparison: &Comparison, digits: Digits) -> Grid {
    let titles = [comparison.by.as_str(), "median", "change", "95 % interval"];
    let mut grid = Grid::new(&titles).holding(CellKind::Word, &["median", "change", "95 % interval"]);
    for row in &comparison.rows {
        grid.heading(&format!("{}: {}, {} is better", row.test, row.metric, better_word(row.better)));
        // Only columns that have the test; others were not requested or are listed as skipped.
        let here = |column: &&String| row.values.contains_key(*column) || **column == comparison.baseline;
        for column in comparison.columns.iter().filter(here) {
            let value = row.values.get(column);
            let mut cells = vec![GridCell::plain(column), own(row, value, digits)];
            cells.extend(change_cells(comparison, row, column, digits));
            grid.rows.push(cells);
        }
    }
    for threads in over(comparison) {
        grid.heading(&format!("{} over the tests, higher is better", mean_name(threads)));
        for mean in means(comparison).iter().filter(|mean| mean.threads == threads) {
            let mut cells = vec![GridCell::plain(&mean.name), GridCell::muted(&basis(mean))];
            let [words, ends] = mean_parts(mean, digits);
            cells.extend([words, remarked(ends, Some(mean_table_remarks(mean)))]);
            grid.rows.push(cells);
        }
    }
    grid
}

/// The cells of a change and of its interval with remarks; a baseline has none.
fn change_cells(comparison: &Comparison, row: &ComparisonRow, column: &str, digits: Digits) -> [GridCell; 2] {
    let value = row.values.get(column);
    if comparison.baseline_of(column).is_none() {
        let remarks = value.map(|value| table_remarks(value, None));
        return [GridCell::muted("baseline"), remarked(GridCell::plain(""), remarks)];
    }
    let [words, ends] = parts(row, value, digits);
    [words, remarked(ends, value.map(|value| table_remarks(value, baseline_value(comparison, row, column))))]
}

/// The means. Empty for a single test, whose mean adds no information.
pub(crate) fn means(comparison: &Comparison) -> &[GeomeanChange] {
    let tests = comparison.rows.iter().filter(|row| row.main).count();
    if tests > 1 { &comparison.geomean } else { &[] }
}

/// A median with its unit.
fn own(row: &ComparisonRow, value: Option<&ComparedValue>, digits: Digits) -> GridCell {
    value.map_or_else(missing, |value| {
        let text = format!("{}{HARD_SPACE}{}", digits.value(value.median), clean(&row.unit));
        GridCell::trusted(&text, Tone::Plain).of(value.median, Some(&row.unit))
    })
}

fn missing() -> GridCell {
    GridCell::muted("not measured")
}

/// The texts of a change: its size or direction, and its interval.
fn parts(row: &ComparisonRow, value: Option<&ComparedValue>, digits: Digits) -> [GridCell; 2] {
    let Some(value) = value else { return [missing(), GridCell::plain("")] };
    let Some(change) = value.change_percent else { return [GridCell::muted("no ratio"), GridCell::plain("")] };
    let better = |higher: bool| if higher == (row.better == Better::Higher) { Tone::Good } else { Tone::Bad };
    let tone = match value.difference {
        Some(Difference::Higher) => Some(better(true)),
        Some(Difference::Lower) => Some(better(false)),
        Some(Difference::NoneSeen) => None,
        None => Some(Tone::Plain),
    };
    let tone = if value.replication == Some(Replication::Trials) { tone.map(|_| Tone::Quiet) } else { tone };
    let (words, tone) = match tone {
        Some(tone) => (held(&digits.change(change)), tone),
        None => (NONE_SEEN.into(), Tone::Quiet),
    };
    let ends = value.ci_low.zip(value.ci_high);
    let ends = ends.map_or(String::new(), |(low, high)| format!("{} %", digits.percent_interval(low, high, change)));
    [GridCell::trusted(&words, tone).of(change, None), GridCell::trusted(&held(&ends), tone)]
}

/// The texts of a mean: its change, which is always shown, and its interval.
fn mean_parts(mean: &GeomeanChange, digits: Digits) -> [GridCell; 2] {
    let (digits, change) = (digits.of_means(), mean.change_percent);
    let ends = mean.ci_low.zip(mean.ci_high);
    let (ends, tone) = match ends {
        None => (NO_INTERVAL.to_string(), Tone::Quiet),
        Some((low, high)) => (
            format!("{} %", digits.percent_interval(low, high, change)),
            match () {
                () if low <= 0.0 && 0.0 <= high || mean.replication == Some(Replication::Trials) => Tone::Quiet,
                () if change > 0.0 => Tone::Good,
                () => Tone::Bad,
            },
        ),
    };
    [GridCell::trusted(&held(&digits.change(change)), tone).of(change, None), GridCell::trusted(&held(&ends), tone)]
}

/// `+12.34 % (10.12 to 14.56)`, with `no difference seen` if the interval contains zero.
fn joined_mean(mean: &GeomeanChange, digits: Digits) -> GridCell {
    let is_none_seen = mean.ci_low.zip(mean.ci_high).is_some_and(|(low, high)| low <= 0.0 && 0.0 <= high);
    let mut cell = joined(mean_parts(mean, digits));
    if is_none_seen {
        cell.text += &format!(", {}", held(NONE_SEEN));
    }
    remarked(cell, Some(mean_table_remarks(mean)))
}

/// Adds remarks to a cell.
fn remarked(mut cell: GridCell, remarks: Option<Vec<String>>) -> GridCell {
    for remark in remarks.unwrap_or_default() {
        let separator = match (cell.text.is_empty(), remark.as_str()) {
            (true, _) => "",
            (false, SUSPECT_MARK) => " ",
            (false, _) => ", ",
        };
        cell.text += &held(&format!("{separator}{remark}"));
    }
    cell
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

/// Notes above the table: the stamps, and further differences between the columns.
pub(crate) fn headnotes(comparison: &Comparison) -> Vec<String> {
    let notes = comparison.notes.iter().map(|note| clean(note));
    stamp::of(comparison.stamp).into_iter().chain(notes).collect()
}
