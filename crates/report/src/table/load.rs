//! The load of each CPU and the memory on each node in each cell, one row per CPU or node.

use model::analysis::finding::{CellFinding, CpuLoad, NodePages, RunFinding};
use model::values::record::RunRecord;

use super::section;
use crate::grid::{Grid, GridCell};
use crate::style::{TextStyle, Tone, finished, with_symbol};

/// For the terminal; states if no load was observed.
pub fn cpu_load(record: &RunRecord, finding: &RunFinding, style: &TextStyle) -> String {
    let mut out = section("Load of each CPU, percent of its time, mean of the trials", style);
    let grid = load_grid(&finding.cells);
    if grid.rows.is_empty() {
        let place = if record.simulated.is_some() { "on a simulated machine" } else { "in this run" };
        return out + &finished(&with_symbol(&format!("No CPU load was observed {place}."), Tone::Quiet), style) + "\n";
    }
    out += &grid.without_repeats(3).terminal(style);
    out
}

/// In the order of the cells and of the CPUs.
pub(crate) fn load_grid(cells: &[CellFinding]) -> Grid {
    let kinds = ["user", "system", "irq", "softirq", "iowait", "idle", "steal"];
    shares_grid("cpu", &kinds, cells, |cell| {
        let row = |load: &CpuLoad| {
            let shares = [load.user, load.system, load.irq, load.softirq, load.iowait, load.idle, load.steal];
            (load.cpu.to_string(), shares.into())
        };
        cell.cpu_load.iter().map(row).collect()
    })
}

/// In the order of the cells and of the memory nodes.
pub(crate) fn pages_grid(cells: &[CellFinding]) -> Grid {
    let kinds = ["memory %", "program %", "library %", "data %", "other files %"];
    shares_grid("node", &kinds, cells, |cell| {
        let row = |pages: &NodePages| {
            let shares = [pages.memory, pages.program, pages.library, pages.data, pages.other_files];
            (pages.node.to_string(), shares.into())
        };
        cell.node_pages.iter().map(row).collect()
    })
}

/// One row per CPU or memory node of each cell, with its percentages by kind.
fn shares_grid(
    unit: &str,
    kinds: &[&str],
    cells: &[CellFinding],
    rows: impl Fn(&CellFinding) -> Vec<(String, Vec<f64>)>,
) -> Grid {
    let titles: Vec<&str> = ["test", "placement", "threads", unit].iter().chain(kinds).copied().collect();
    let mut grid = Grid::new(&titles).numbers(kinds).numbers(&["threads", unit]);
    for cell in cells {
        for (number, shares) in rows(cell) {
            let names = [cell.test.clone(), cell.placement.clone(), cell.threads.to_string(), number];
            let texts = names.into_iter().chain(shares.into_iter().map(|share| format!("{share:.1}")));
            grid.rows.push(texts.map(|text| GridCell::plain(&text)).collect());
        }
    }
    grid
}
