//! The load of each CPU in each cell, one row per CPU.

use model::analysis::finding::{CellFinding, RunFinding};
use model::values::record::RunRecord;

use super::section;
use crate::grid::{Grid, GridCell};
use crate::style::{TextStyle, Tone, finished, with_symbol};

/// For the terminal; states if no load was observed.
pub fn cpu_load(record: &RunRecord, finding: &RunFinding, style: &TextStyle) -> String {
    let mut out = section("Load of each CPU, percent of its time, mean of the trials", style);
    let cells: Vec<&CellFinding> = finding.cells.iter().collect();
    let grid = load_grid(&cells);
    if grid.rows.is_empty() {
        let place = if record.simulated.is_some() { "on a simulated machine" } else { "in this run" };
        return out + &finished(&with_symbol(&format!("No CPU load was observed {place}."), Tone::Quiet), style) + "\n";
    }
    out += &grid.without_repeats(3).terminal(style);
    out
}

/// In the order of the cells and of the CPUs.
pub(crate) fn load_grid(cells: &[&CellFinding]) -> Grid {
    let numbers = ["cpu", "user", "system", "irq", "softirq", "iowait", "idle", "steal"];
    let titles: Vec<&str> = ["test", "placement", "threads"].into_iter().chain(numbers).collect();
    let mut grid = Grid::new(&titles).numbers(&numbers).numbers(&["threads"]);
    for cell in cells {
        for load in &cell.cpu_load {
            let names = [cell.test.clone(), cell.placement.clone(), cell.threads.to_string(), load.cpu.to_string()];
            let percents = [load.user, load.system, load.irq, load.softirq, load.iowait, load.idle, load.steal];
            let texts = names.into_iter().chain(percents.map(|percent| format!("{percent:.1}")));
            grid.rows.push(texts.map(|text| GridCell::plain(&text)).collect());
        }
    }
    grid
}
