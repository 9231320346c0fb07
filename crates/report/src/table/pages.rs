//! The memory of each cell by memory node, one row per node.

use model::analysis::finding::CellFinding;

use crate::grid::{Grid, GridCell};

/// In the order of the cells and of the nodes.
pub(crate) fn pages_grid(cells: &[&CellFinding]) -> Grid {
    let numbers = ["node", "memory %", "program %", "library %", "data %", "other files %"];
    let titles: Vec<&str> = ["test", "placement", "threads"].into_iter().chain(numbers).collect();
    let mut grid = Grid::new(&titles).numbers(&numbers).numbers(&["threads"]);
    for cell in cells {
        for pages in &cell.node_pages {
            let names = [cell.test.clone(), cell.placement.clone(), cell.threads.to_string(), pages.node.to_string()];
            let percents = [pages.memory, pages.program, pages.library, pages.data, pages.other_files];
            let texts = names.into_iter().chain(percents.map(|percent| format!("{percent:.1}")));
            grid.rows.push(texts.map(|text| GridCell::plain(&text)).collect());
        }
    }
    grid
}
