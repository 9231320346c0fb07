//! HTML tables: long ones are collapsed and very long ones truncated, with a note.

use askama::Template;

use crate::grid::{CellKind, Grid, GridCell, NumericCell};

/// Longer tables are collapsed, so that the page can be read from top to bottom.
const FOLD_FROM: usize = 40;

/// A table, ready for its template.
#[derive(Template)]
#[template(path = "table.html")]
pub(crate) struct HtmlTable {
    caption: String,
    folded: bool,
    columns: Vec<(String, &'static str)>,
    rows: Vec<HtmlRow>,
    rows_all: usize,
}

/// A row, and the heading above it if one begins.
struct HtmlRow {
    heading: Option<String>,
    cells: Vec<HtmlCell>,
}

struct HtmlCell {
    text: String,
    class: String,
    /// The values by which the page's script sorts, and that it converts.
    measure: Option<NumericCell>,
    /// Whether the cell is the unit of the values in its row.
    names_unit: bool,
}

impl HtmlTable {
    /// A table with at most `rows_max` rows.
    pub(crate) fn new(caption: &str, grid: Grid, rows_max: usize) -> Self {
        let class = |holds| match holds {
            CellKind::Text => "",
            CellKind::Word => "word",
            CellKind::Number => "number",
        };
        let columns: Vec<(String, &'static str)> =
            grid.columns.into_iter().map(|column| (column.title, class(column.holds))).collect();
        let rows_all = grid.rows.len();
        let mut headings = grid.headings.into_iter().peekable();
        let row = |(index, cells): (usize, Vec<GridCell>)| {
            let cells = cells.into_iter().zip(&columns).map(|(cell, (title, class))| HtmlCell {
                names_unit: title == "unit" && !cell.text.is_empty(),
                text: cell.text,
                class: joined(class, cell.tone.class()),
                measure: cell.measure,
            });
            HtmlRow { heading: headings.next_if(|(at, _)| *at == index).map(|(_, text)| text), cells: cells.collect() }
        };
        let rows = grid.rows.into_iter().take(rows_max).enumerate().map(row).collect();
        Self { caption: caption.into(), folded: rows_all > FOLD_FROM, columns, rows, rows_all }
    }

    /// Collapses the table regardless of its length.
    pub(crate) fn folded(self) -> Self {
        Self { folded: true, ..self }
    }
}

fn joined(one: &str, other: &str) -> String {
    [one, other].into_iter().filter(|class| !class.is_empty()).collect::<Vec<_>>().join(" ")
}
