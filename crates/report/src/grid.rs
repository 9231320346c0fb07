//! A table independent of its format: the terminal, Markdown and HTML render the same one.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle, Width,
};

use crate::style::{HARD_SPACE, TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// A rule below the header and spaces between columns, no other lines.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none());

/// Minimum width of a text column with longer words. If the columns still do not fit, each row becomes a paragraph.
const COLUMN_WIDTH_MIN: usize = 12;
const SPACE: usize = 2;
/// Marks the first row below a heading until the heading is written there; it has width zero.
const HEADED: char = '\u{206c}';

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GridColumn {
    pub(crate) title: String,
    pub(crate) holds: CellKind,
}

/// The content of a column, which determines its alignment and wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// Left-aligned, wrapped if necessary.
    Text,
    /// Left-aligned, never wrapped.
    Word,
    /// Right-aligned, never wrapped.
    Number,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GridCell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// The value of the text, for pages that sort and convert units.
    pub(crate) measure: Option<NumericCell>,
}

/// The value of a text. Of several values with a unit in a row, the first determines the rounding of all: they are a
/// median, its interval and related values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NumericCell {
    /// The value, or the lower end of an interval.
    pub(crate) value: String,
    pub(crate) to: Option<String>,
    /// `None` for values without a unit, such as changes in percent.
    pub(crate) unit: Option<String>,
}

/// Nine digits, more than are ever shown; compact, because a page has thousands of them.
fn attribute(value: f64) -> String {
    let (plain, short) = (value.to_string(), format!("{value:.8e}"));
    if short.len() < plain.len() { short } else { plain }
}

/// A table. The text of its cells is sanitised by [`GridCell`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grid {
    pub(crate) columns: Vec<GridColumn>,
    pub(crate) rows: Vec<Vec<GridCell>>,
    /// Headings above a row, by the index of that row, for values that all rows below have in common. Only the terminal
    /// shows them; other formats have columns instead.
    pub(crate) headings: Vec<(usize, String)>,
}

impl GridCell {
    pub(crate) fn new(text: &str, tone: Tone) -> Self {
        Self::trusted(&clean(text), tone)
    }

    /// Text of this program, which may contain [`HARD_SPACE`].
    pub(crate) fn trusted(text: &str, tone: Tone) -> Self {
        Self { text: text.into(), tone, measure: None }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }

    pub(crate) fn muted(text: &str) -> Self {
        Self::new(text, Tone::Quiet)
    }

    /// Adds the value of the text.
    pub(crate) fn of(self, value: f64, unit: Option<&str>) -> Self {
        let measure = || NumericCell { value: attribute(value), to: None, unit: unit.map(clean) };
        Self { measure: value.is_finite().then(measure), ..self }
    }

    /// Adds the interval of the text.
    pub(crate) fn of_interval(self, ends: Option<(f64, f64)>, unit: &str) -> Self {
        let measure =
            |(low, high)| NumericCell { value: attribute(low), to: Some(attribute(high)), unit: Some(clean(unit)) };
        Self { measure: ends.filter(|(low, high)| low.is_finite() && high.is_finite()).map(measure), ..self }
    }
}

impl Grid {
    pub(crate) fn new(titles: &[&str]) -> Self {
        let columns = titles.iter().map(|title| GridColumn { title: clean(title), holds: CellKind::Text }).collect();
        Self { columns, ..Self::default() }
    }

    pub(crate) fn numbers(self, titles: &[&str]) -> Self {
        self.holding(CellKind::Number, titles)
    }

    pub(crate) fn holding(mut self, holds: CellKind, titles: &[&str]) -> Self {
        for column in self.columns.iter_mut().filter(|column| titles.contains(&column.title.as_str())) {
            column.holds = holds;
        }
        self
    }

    pub(crate) fn without(mut self, title: &str) -> Self {
        if let Some(at) = self.columns.iter().position(|column| column.title == title) {
            self.columns.remove(at);
            for row in &mut self.rows {
                row.remove(at);
            }
        }
        self
    }

    /// Empties a cell that repeats the one above it, if all columns before it do too.
    pub(crate) fn without_repeats(mut self, columns: usize) -> Self {
        for index in (1..self.rows.len()).rev() {
            let (before, after) = self.rows.split_at_mut(index);
            let (above, row) = (&before[index - 1], &mut after[0]);
            let same = row.iter().zip(above).take(columns).take_while(|(cell, above)| cell.text == above.text).count();
            row.iter_mut().take(same).for_each(|cell| cell.text.clear());
        }
        self
    }

    /// Begins rows with a heading above them.
    pub(crate) fn heading(&mut self, text: &str) {
        self.headings.push((self.rows.len(), clean(text)));
    }

    /// For the terminal, with a final line feed.
    pub(crate) fn terminal(&self, style: &TextStyle) -> String {
        match self.word_widths(style.width) {
            Some(words) => self.table(&words, style),
            None => self.paragraphs(style),
        }
    }

    /// One paragraph per row, below the first cell, for terminals that are too narrow for a table.
    fn paragraphs(&self, style: &TextStyle) -> String {
        let mut headings = self.headings.iter().peekable();
        let indent = if self.headings.is_empty() { "" } else { "  " };
        let mut lines = Vec::new();
        let mut add = |text: &str, indent: &str| {
            let width = style.width.saturating_sub(indent.len());
            lines.extend(wrapped(text, width, width).into_iter().map(|line| format!("{indent}{line}")));
        };
        for (index, row) in self.rows.iter().enumerate() {
            while let Some((_, heading)) = headings.next_if(|(at, _)| *at == index) {
                add(&with_symbol(heading, Tone::Strong), "");
            }
            let Some((first, others)) = row.split_first() else { continue };
            if !first.text.is_empty() {
                add(&with_symbol(&first.text, first.tone), indent);
            }
            let filled = self.columns.iter().skip(1).zip(others).filter(|(_, cell)| !cell.text.is_empty());
            let filled: Vec<String> = filled.map(|(column, cell)| titled(&column.title, cell)).collect();
            if !filled.is_empty() {
                add(&filled.join("; "), &format!("{indent}  "));
            }
        }
        format!("{}\n", finished(&lines.join("\n"), style))
    }

    fn table(&self, words: &[usize], style: &TextStyle) -> String {
        let mut table = Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(style.width.min(usize::from(u16::MAX)) as u16);
        table.set_header(self.columns.iter().map(|column| with_symbol(&column.title, Tone::Strong)));
        table.add_rows(self.rows.iter().enumerate().map(|(index, row)| self.terminal_row(index, row)));
        let last = self.columns.len().saturating_sub(1);
        for (index, (column, shown)) in self.columns.iter().zip(table.column_iter_mut()).enumerate() {
            // The junction counts as the separator of two columns.
            let padding = if index == last { 0 } else { SPACE - 1 };
            shown.set_padding((0, padding as u16));
            if column.holds == CellKind::Number {
                shown.set_cell_alignment(CellAlignment::Right);
            }
            shown.set_constraint(match column.holds {
                CellKind::Text => ColumnConstraint::LowerBoundary(Width::Fixed((words[index] + padding) as u16)),
                CellKind::Word | CellKind::Number => ColumnConstraint::ContentWidth,
            });
        }
        format!("{}\n", finished(&self.with_headings(&table), style))
    }

    fn terminal_row(&self, index: usize, row: &[GridCell]) -> Vec<String> {
        let mut cells: Vec<String> = row.iter().map(|cell| with_symbol(&cell.text, cell.tone)).collect();
        if !self.headings.is_empty() {
            cells[0].insert_str(0, "  ");
        }
        if self.headings.iter().any(|(at, _)| *at == index) {
            cells[0].insert(0, HEADED);
        }
        cells
    }

    fn with_headings(&self, table: &Table) -> String {
        let mut headings = self.headings.iter().map(|(_, text)| with_symbol(text, Tone::Strong));
        let mut lines: Vec<String> = Vec::new();
        for line in table.lines() {
            let line = line.trim_end();
            if line.contains(HEADED) {
                lines.extend(headings.next());
            }
            lines.push(line.replace(HEADED, ""));
        }
        lines.join("\n")
    }

    /// The width of the longest word in each column, or less if they do not all fit; `None` if the columns would be too
    /// narrow to read.
    fn word_widths(&self, width: usize) -> Option<Vec<usize>> {
        let longest = |text: &str| text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        let column = |index: usize, column: &GridColumn| {
            let cells = self.rows.iter().map(|row| &row[index].text);
            let texts = cells.chain([&column.title]);
            match column.holds {
                CellKind::Text => texts.map(|text| longest(text)).max(),
                CellKind::Word | CellKind::Number => texts.map(|text| text.chars().count()).max(),
            }
        };
        let indent = if self.headings.is_empty() { 0 } else { SPACE };
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(index, of)| column(index, of).unwrap_or(0)).collect();
        let space = (width + SPACE).saturating_sub(indent + SPACE * widths.len());
        let bounded = |most: usize| -> Vec<usize> {
            let bound = |(width, of): (&usize, &GridColumn)| {
                if of.holds == CellKind::Text { *width.min(&most) } else { *width }
            };
            widths.iter().zip(&self.columns).map(bound).collect()
        };
        let bounds = [usize::MAX, COLUMN_WIDTH_MIN].map(bounded);
        bounds.into_iter().find(|bounds| bounds.iter().sum::<usize>() <= space)
    }

    /// As a Markdown table (GitHub).
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(self.columns.iter().map(|column| markdown_text(&column.title)).collect());
        let rule = |column: &GridColumn| if column.holds == CellKind::Number { "---:".into() } else { "---".into() };
        out += &line(self.columns.iter().map(rule).collect());
        for row in &self.rows {
            out += &line(row.iter().map(|cell| markdown_text(&cell.text)).collect());
        }
        out
    }
}

/// A cell outside of its column, with the title of the column.
fn titled(title: &str, cell: &GridCell) -> String {
    let text = with_symbol(&cell.text, cell.tone);
    if title.is_empty() { text } else { format!("{} {text}", with_symbol(&format!("{title}:"), Tone::Quiet)) }
}

impl Grid {
    /// As a plain HTML table without classes, for pages with their own style.
    pub(crate) fn html(&self, caption: &str) -> String {
        let titles = self.columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", html_text(&column.title)));
        let mut out = format!("<table>\n<caption>{}</caption>\n", html_text(caption));
        out += &format!("<thead>\n<tr>{}</tr>\n</thead>\n<tbody>\n", titles.collect::<String>());
        for row in &self.rows {
            let cells = row.iter().map(|cell| format!("<td>{}</td>", html_text(&cell.text)));
            out += &format!("<tr>{}</tr>\n", cells.collect::<String>());
        }
        out + "</tbody>\n</table>\n"
    }
}

/// Paragraphs of HTML.
pub(crate) fn html_paragraphs(texts: &[String]) -> String {
    texts.iter().map(|text| format!("<p>{}</p>\n", html_text(text))).collect()
}

/// Escapes text for the content of HTML elements.
fn html_text(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    escaped.replace(HARD_SPACE, "&nbsp;")
}

/// Escapes user-provided names so that they cannot become markup or end the cell.
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
    fn markdown_cells_are_escaped() {
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
    fn html_tables_are_escaped() {
        let mut grid = Grid::new(&["a<b"]);
        grid.rows.push(vec![GridCell::plain("<script>\"&")]);
        let html = grid.html("x & y");
        assert!(html.contains("<caption>x &amp; y</caption>") && html.contains("<th scope=\"col\">a&lt;b</th>"));
        assert!(html.contains("<td>&lt;script&gt;&quot;&amp;</td>"), "{html}");
    }

    #[test]
    fn rows_are_paragraphs_on_terminals_that_are_too_narrow_for_a_table() {
        let mut grid = Grid::new(&["placement", "threads", "95 % interval", "trials"]).numbers(&["threads"]);
        grid = grid.holding(CellKind::Word, &["95 % interval"]);
        grid.heading("stream: triad in MB/s");
        for row in [["cores-one-l3", "2", "16283 to 18292", "all valid"], ["", "3", "", "1 suspect"]] {
            grid.rows.push(row.iter().map(|text| GridCell::plain(text)).collect());
        }
        let at = |width| grid.terminal(&TextStyle { width, ascii: false, colour: false });
        assert!(at(60).starts_with("placement"), "{}", at(60));
        let paragraphs = "stream: triad in MB/s\n  cores-one-l3\n    threads: 2; 95 % interval:\n    16283 to 18292; trials: all\n    \
                     valid\n    threads: 3; trials: 1 suspect\n";
        assert_eq!(at(33), paragraphs);
    }

    #[test]
    fn repeats_are_omitted_only_below_equal_prefixes() {
        let mut grid = Grid::new(&["a", "b"]);
        for row in [["x", "1"], ["x", "1"], ["y", "1"]] {
            grid.rows.push(row.iter().map(|text| GridCell::plain(text)).collect());
        }
        let texts: Vec<Vec<String>> = grid
            .without_repeats(1)
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(|cell| cell.text).collect())
            .collect();
        assert_eq!(texts, [["x", "1"], ["", "1"], ["y", "1"]]);
    }
}
