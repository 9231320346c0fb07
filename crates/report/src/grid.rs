//! A table before it has a form: the terminal, Markdown and HTML all show this one, so they agree.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle, Width,
};

use crate::look::{HARD_SPACE, Look, Tone, clean, finished, marked};

/// A rule below the header, and space between columns: lines elsewhere say nothing.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none());

/// Below this many columns words fall apart, so text columns are not squeezed further.
const COLUMN_WIDTH_MIN: u16 = 6;

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GridColumn {
    pub(crate) title: String,
    pub(crate) numeric: bool,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GridCell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

/// A table. What its cells say is clean already: [`GridCell`] sees to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grid {
    pub(crate) columns: Vec<GridColumn>,
    pub(crate) rows: Vec<Vec<GridCell>>,
}

impl GridCell {
    pub(crate) fn new(text: &str, tone: Tone) -> Self {
        Self { text: clean(text), tone }
    }

    /// Words of ours, which may hold together by [`HARD_SPACE`].
    pub(crate) fn ours(text: &str, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }

    pub(crate) fn quiet(text: &str) -> Self {
        Self::new(text, Tone::Quiet)
    }
}

impl Grid {
    /// Text columns by title.
    pub(crate) fn new(titles: &[&str]) -> Self {
        let columns = titles.iter().map(|title| GridColumn { title: clean(title), numeric: false }).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Declares columns as numbers: aligned at the right and never broken.
    pub(crate) fn numeric(mut self, titles: &[&str]) -> Self {
        for column in self.columns.iter_mut().filter(|column| titles.contains(&column.title.as_str())) {
            column.numeric = true;
        }
        self
    }

    /// Leaves out a column.
    pub(crate) fn without(mut self, title: &str) -> Self {
        if let Some(at) = self.columns.iter().position(|column| column.title == title) {
            self.columns.remove(at);
            for row in &mut self.rows {
                row.remove(at);
            }
        }
        self
    }

    /// Leaves a cell empty when it repeats the one above it in this column, as long as all columns before it do too.
    pub(crate) fn without_repeats(mut self, columns: usize) -> Self {
        for index in (1..self.rows.len()).rev() {
            let (before, after) = self.rows.split_at_mut(index);
            let (above, row) = (&before[index - 1], &mut after[0]);
            let same = row.iter().zip(above).take(columns).take_while(|(cell, above)| cell.text == above.text).count();
            row.iter_mut().take(same).for_each(|cell| cell.text.clear());
        }
        self
    }

    /// For the terminal, ending in a line feed.
    pub(crate) fn terminal(&self, look: &Look) -> String {
        let mut table = Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(look.width.min(usize::from(u16::MAX)) as u16);
        table.set_header(self.columns.iter().map(|column| marked(&column.title, Tone::Strong)));
        table.add_rows(self.rows.iter().map(|row| row.iter().map(|cell| marked(&cell.text, cell.tone))));
        for (column, shown) in self.columns.iter().zip(table.column_iter_mut()) {
            shown.set_padding((0, 2));
            if column.numeric {
                shown.set_cell_alignment(CellAlignment::Right);
                shown.set_constraint(ColumnConstraint::ContentWidth);
            } else {
                shown.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(COLUMN_WIDTH_MIN)));
            }
        }
        format!("{}\n", finished(&table.trim_fmt(), look))
    }

    /// As a table of GitHub's Markdown.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(self.columns.iter().map(|column| markdown_text(&column.title)).collect());
        out += &line(self.columns.iter().map(|column| if column.numeric { "---:" } else { "---" }.into()).collect());
        for row in &self.rows {
            out += &line(row.iter().map(|cell| markdown_text(&cell.text)).collect());
        }
        out
    }
}

/// Names come from users: nothing in them may become markup or end the cell.
pub(crate) fn markdown_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            HARD_SPACE => out.push(' '),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_cells_cannot_break_out() {
        let cases = [
            ("a|b", "a\\|b"),
            ("<script>", "&lt;script&gt;"),
            ("`x` *y* [z](u)", "\\`x\\` \\*y\\* \\[z\\](u)"),
            ("plain size=1GiB", "plain size=1GiB"),
        ];
        for (text, expected) in cases {
            assert_eq!(markdown_text(text), expected);
        }
    }

    #[test]
    fn repeats_are_left_out_only_below_their_like() {
        let mut grid = Grid::new(&["a", "b"]);
        for row in [["x", "1"], ["x", "1"], ["y", "1"]] {
            grid.rows.push(row.iter().map(|text| GridCell::plain(text)).collect());
        }
        let texts: Vec<Vec<String>> =
            grid.without_repeats(2).rows.into_iter().map(|row| row.into_iter().map(|cell| cell.text).collect()).collect();
        assert_eq!(texts, [["x", "1"], ["", ""], ["y", "1"]]);
    }
}
