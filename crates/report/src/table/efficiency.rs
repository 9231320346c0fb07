//! Cells in percent of reference cells, one per row.

use model::values::comparison::{Efficiency, EfficiencyCell};
use model::values::units::thread_count;

use super::columns::better_word;
use super::run::section;
use crate::grid::{CellKind, Grid, GridCell};
use crate::number::Digits;
use crate::style::{HARD_SPACE, TextStyle, Tone, clean};

/// Title of the table.
pub(crate) const EFFICIENCY: &str = "In percent of a reference";

/// The efficiencies of a run for the terminal. Empty if the experiment defines none.
pub fn efficiency(rows: &[Efficiency], style: &TextStyle) -> String {
    efficiency_with(rows, Digits::default(), style)
}

/// The same as Markdown.
pub fn efficiency_markdown(rows: &[Efficiency]) -> String {
    efficiency_markdown_with(rows, Digits::default())
}

pub(super) fn efficiency_with(rows: &[Efficiency], digits: Digits, style: &TextStyle) -> String {
    if rows.is_empty() {
        return String::new();
    }
    section(EFFICIENCY, style) + &efficiency_grid(rows, digits).without_repeats(1).terminal(style)
}

pub(super) fn efficiency_markdown_with(rows: &[Efficiency], digits: Digits) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{EFFICIENCY}:\n\n{}", efficiency_grid(rows, digits).markdown())
}

/// One line per efficiency.
pub(crate) fn efficiency_grid(rows: &[Efficiency], digits: Digits) -> Grid {
    let titles = ["test", "metric", "better", "median", "reference", "its median", "efficiency", "95 % interval"];
    let numbers = ["median", "its median", "efficiency", "95 % interval"];
    let mut grid = Grid::new(&titles).holding(CellKind::Word, &numbers);
    grid.rows.extend(rows.iter().map(|row| cells(row, digits)));
    grid
}

fn cells(row: &Efficiency, digits: Digits) -> Vec<GridCell> {
    let median = |cell: &EfficiencyCell| {
        let text = format!("{}{HARD_SPACE}{}", digits.value(cell.median), clean(&row.unit));
        GridCell::trusted(&text, Tone::Plain).of(cell.median, Some(&row.unit))
    };
    let ends = row.ci_low.zip(row.ci_high);
    let interval = ends.map_or_else(
        || "no interval".to_string(),
        |(low, high)| format!("{} %", digits.percent_interval(low, high, 0.0)),
    );
    let host = row.host.as_ref().map_or(String::new(), |host| format!("{host}: "));
    vec![
        GridCell::plain(&format!("{host}{}", name(&row.cell))),
        GridCell::plain(&row.metric),
        GridCell::muted(better_word(row.better)),
        median(&row.cell),
        GridCell::plain(&name(&row.reference)),
        median(&row.reference),
        GridCell::trusted(&held(&format!("{} %", digits.percent(row.percent, 0.0))), Tone::Strong)
            .of(row.percent, None),
        GridCell::trusted(&held(&interval), if ends.is_some() { Tone::Plain } else { Tone::Quiet }),
    ]
}

/// `gemm n=6656, kernel+expand:512MiB, 2 threads`.
pub(super) fn name(cell: &EfficiencyCell) -> String {
    format!("{}, {}, {}", cell.test, cell.placement, thread_count(cell.threads))
}

fn held(text: &str) -> String {
    text.replace(' ', &HARD_SPACE.to_string())
}
