//! Cells in percent of reference cells, one per row.

use model::values::comparison::{Comparison, Efficiency, EfficiencyCell};
use model::values::units::thread_count;

use super::columns::better_word;
use crate::grid::{CellKind, Grid, GridCell};
use crate::number::Digits;
use crate::style::{HARD_SPACE, Tone, clean};

/// Title of the table.
pub(crate) const EFFICIENCY: &str = "In percent of a reference";

/// The efficiencies of a comparison. Without rows if the experiment defines none.
pub(crate) fn efficiency_grid(comparison: &Comparison, digits: Digits) -> Grid {
    let titles = ["test", "metric", "better", "median", "reference", "its median", "efficiency", "95 % interval"];
    let numbers = ["median", "its median", "efficiency", "95 % interval"];
    let mut grid = Grid::new(&titles).holding(CellKind::Word, &numbers);
    grid.rows.extend(comparison.efficiency.iter().map(|row| cells(row, digits)));
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
