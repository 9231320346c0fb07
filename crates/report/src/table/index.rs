//! UnixBench's index: a table per set of tests, with one row per test, a last row for the index, and one column per
//! compared object.

use model::import::unixbench::{Index, IndexGroup, IndexTable, ScoreIndex, TESTS, TestIndex};

use super::{csv_number, csv_text};
use crate::claim_text::column_by;
use crate::grid::{Grid, GridCell, html_paragraphs, markdown_text};
use crate::number::{signed_percent, significant};
use crate::stamp;
use crate::style::{HARD_SPACE, TextStyle, Tone, clean, paragraph, with_symbol};

pub fn index(table: &IndexTable, style: &TextStyle) -> String {
    let mut out: String = index_notes(table).iter().map(|note| paragraph(note, style)).collect();
    for group in &table.groups {
        out += &paragraph(&with_symbol(&caption(table, group), Tone::Strong), style);
        out += &index_grid(table, group).terminal(style);
        out += "\n";
    }
    out
}

/// Notes above the tables: the stamps, and limits on the interpretation.
pub(crate) fn index_notes(table: &IndexTable) -> Vec<String> {
    stamp::of(table.stamp).into_iter().chain(table.notes.iter().map(|note| clean(note))).collect()
}

pub fn index_markdown(table: &IndexTable) -> String {
    let group = |group: &IndexGroup| {
        format!("{}\n\n{}\n", markdown_text(&caption(table, group)), index_grid(table, group).markdown())
    };
    let notes: String = index_notes(table).iter().map(|note| format!("{}\n\n", markdown_text(note))).collect();
    notes + &table.groups.iter().map(group).collect::<String>()
}

/// As an HTML fragment.
pub fn index_html(table: &IndexTable) -> String {
    let tables = table.groups.iter().map(|group| index_grid(table, group).html(&caption(table, group)));
    html_paragraphs(&index_notes(table)) + &tables.collect::<String>()
}

/// Every value, unrounded, one per line; the indices are the lines with the test `index`.
pub fn index_csv(table: &IndexTable) -> String {
    let header = "group,test,unit,baseline,column,score,index,passes,tests,change_percent,simulated,smoke";
    let mut rows: Vec<Vec<String>> = vec![header.split(',').map(str::to_string).collect()];
    for group in &table.groups {
        for test in &group.tests {
            let scores = table.columns.iter().zip(&test.scores);
            rows.extend(scores.filter_map(|(column, score)| Some(csv_score(group, test, column, (*score)?))));
        }
        let indices = table.columns.iter().zip(&group.indices);
        rows.extend(indices.filter_map(|(column, index)| Some(csv_index(group, column, (*index)?))));
    }
    let stamp = [table.stamp.simulated, table.stamp.smoke].map(|stamped| stamped.to_string());
    rows.iter_mut().skip(1).for_each(|row| row.extend(stamp.clone()));
    csv_text(&rows)
}

fn csv_score(group: &IndexGroup, test: &TestIndex, column: &str, score: ScoreIndex) -> Vec<String> {
    vec![
        group.name.clone(),
        test.name.clone(),
        test.unit.clone(),
        test.baseline.to_string(),
        column.into(),
        score.score.to_string(),
        score.index.to_string(),
        score.passes.to_string(),
        String::new(),
        String::new(),
    ]
}

fn csv_index(group: &IndexGroup, column: &str, index: Index) -> Vec<String> {
    let mut fields = vec![String::new(); 10];
    fields[0].clone_from(&group.name);
    fields[1] = "index".into();
    fields[4] = column.into();
    fields[6] = index.value.to_string();
    fields[8] = index.tests.to_string();
    fields[9] = csv_number(index.change_percent);
    fields
}

/// The title of a group's table.
pub(crate) fn caption(table: &IndexTable, group: &IndexGroup) -> String {
    let of = if group.name.is_empty() { String::new() } else { format!("{}, ", group.name) };
    clean(&format!("UnixBench index, {of}by {}", table.by))
}

/// One row per test with its indices, and one for the total index.
pub(crate) fn index_grid(table: &IndexTable, group: &IndexGroup) -> Grid {
    let columns: Vec<String> = table.columns.iter().map(|column| column_by(&table.by, column)).collect();
    let mut titles = vec!["test", "baseline"];
    titles.extend(columns.iter().map(String::as_str));
    let mut grid = Grid::new(&titles);
    for test in &group.tests {
        let mut cells = vec![
            GridCell::plain(&test.name),
            GridCell::trusted(&format!("{}{HARD_SPACE}{}", test.baseline, clean(&test.unit)), Tone::Quiet),
        ];
        cells.extend(test.scores.iter().map(|score| score_cell(test, *score)));
        grid.rows.push(cells);
    }
    let mut cells = vec![GridCell::new("index", Tone::Strong), GridCell::plain("")];
    cells.extend(group.indices.iter().map(|index| index_cell(*index)));
    grid.rows.push(cells);
    grid
}

/// `571.6 (6670000 lps)`.
fn score_cell(test: &TestIndex, score: Option<ScoreIndex>) -> GridCell {
    let Some(score) = score else { return GridCell::muted("not measured") };
    let raw = format!("({}{HARD_SPACE}{})", significant(score.score), clean(&test.unit));
    GridCell::trusted(&format!("{:.1}{HARD_SPACE}{raw}", score.index), Tone::Plain)
}

/// `571.6 (+12.3 %), 9 of 12 tests`.
fn index_cell(index: Option<Index>) -> GridCell {
    let Some(index) = index else { return GridCell::muted("not measured") };
    let change = index.change_percent.map_or(String::new(), |change| format!(" ({})", signed_percent(change)));
    let partial =
        if index.tests < TESTS.len() { format!(", {} of {} tests", index.tests, TESTS.len()) } else { String::new() };
    GridCell::trusted(
        &format!("{:.1}{change}{partial}", index.value).replace(' ', &HARD_SPACE.to_string()),
        Tone::Strong,
    )
}
