//! Figures of the memory of commands: one bar per memory node. Every value comes from the finding.

use model::analysis::finding::{CellFinding, NodePages};

use super::stacked::{Bar, Bars, StackedFigure, stacked};
use crate::style::clean;

/// The kinds of pages.
const KINDS: [&str; 5] = ["memory", "program", "library", "data", "other-files"];

/// Draws the cells of one test. `None` if no pages were observed.
pub(crate) fn node_pages(test: &str, cells: &[CellFinding]) -> Option<StackedFigure> {
    let of = |cell: &CellFinding| cell.node_pages.iter().map(bar).collect();
    stacked(test, cells, &Bars { subject: "the memory on each node", kinds: &KINDS, of, description })
}

/// A description of the figure for screen readers: the share of each node.
fn description(cells: &[CellFinding]) -> String {
    let mut text = "Memory on each node in percent of all memory and mapped files.".to_string();
    for cell in cells {
        let nodes = cell.node_pages.iter().map(|pages| format!("node {} {:.0} %", pages.node, pages.total()));
        let nodes: Vec<String> = nodes.collect();
        let nodes = if nodes.is_empty() { "not observed".into() } else { nodes.join(", ") };
        text += &format!(" {}: {nodes}.", clean(&cell.placement));
    }
    text
}

/// In the order of [`KINDS`].
fn bar(pages: &NodePages) -> Bar {
    let shares = vec![pages.memory, pages.program, pages.library, pages.data, pages.other_files];
    Bar { number: pages.node.0, shares }
}

#[cfg(test)]
mod tests {
    use model::values::id_set::NodeId;

    use super::super::stacked::tests::cell;
    use super::*;

    #[test]
    fn shares_of_nodes_are_described() {
        let pages = |node, memory, data| NodePages {
            node: NodeId(node),
            memory,
            program: 0.0,
            library: 0.0,
            data,
            other_files: 0.0,
        };
        let cell = CellFinding { node_pages: vec![pages(0, 20.0, 0.0), pages(1, 0.0, 80.0)], ..cell("node:0") };
        assert_eq!(
            description(&[cell]),
            "Memory on each node in percent of all memory and mapped files. node:0: node 0 20 %, node 1 80 %."
        );
    }
}
