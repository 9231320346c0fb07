//! Memory of a cell by node and kind: the mean over its trials, each with the same weight.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::id_set::NodeId;
use crate::values::trial::{Evidence, FileKind};

/// Resident pages on one memory node by kind, in percent of all pages of a trial: the mean over the counted trials whose
/// pages were observed. Over all nodes and kinds, the sum is 100. Field names are part of the JSON contract.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePages {
    pub node: NodeId,
    /// Anonymous memory and, for built-in kernels, their arrays.
    pub memory: f64,
    /// Pages of the program's file.
    pub program: f64,
    pub library: f64,
    /// Pages of other mapped files.
    pub data: f64,
    /// Mapped files of unknown kind, with few pages each.
    pub other_files: f64,
}

impl NodePages {
    /// Returns the share of the node.
    pub fn total(&self) -> f64 {
        self.memory + self.program + self.library + self.data + self.other_files
    }
}

/// Sums of the shares of each node over the counted trials of a cell.
#[derive(Debug, Default)]
pub(super) struct PagesSum {
    nodes: BTreeMap<NodeId, [f64; 5]>,
    trials: f64,
}

impl PagesSum {
    pub(super) fn add(&mut self, evidence: &Evidence) {
        let pages = pages(evidence);
        let total: u64 = pages.values().flatten().sum();
        if total == 0 {
            return;
        }
        for (node, kinds) in pages {
            let sums = self.nodes.entry(node).or_default();
            sums.iter_mut().zip(kinds).for_each(|(sum, pages)| *sum += 100.0 * pages as f64 / total as f64);
        }
        self.trials += 1.0;
    }

    /// Returns the mean of each node.
    pub(super) fn means(&self) -> Vec<NodePages> {
        let mean = |(node, sums): (&NodeId, &[f64; 5])| {
            let [memory, program, library, data, other_files] = sums.map(|sum| sum / self.trials);
            NodePages { node: *node, memory, program, library, data, other_files }
        };
        self.nodes.iter().map(mean).collect()
    }
}

/// Returns the pages of each node by kind, in the order of the fields of [`NodePages`].
fn pages(evidence: &Evidence) -> BTreeMap<NodeId, [u64; 5]> {
    let mut pages: BTreeMap<NodeId, [u64; 5]> =
        evidence.pages.iter().map(|(node, pages)| (*node, [*pages, 0, 0, 0, 0])).collect();
    // A built-in kernel works on its arrays and uses a small part of its program.
    if !evidence.thread_bindings.is_empty() {
        return pages;
    }
    for (node, count) in &evidence.file_pages {
        pages.entry(*node).or_default()[4] = *count;
    }
    for file in &evidence.files {
        let kind = match file.kind {
            FileKind::Program => 1,
            FileKind::Library => 2,
            FileKind::Data => 3,
        };
        for (node, count) in &file.pages {
            let kinds = pages.entry(*node).or_default();
            kinds[kind] += count;
            kinds[4] = kinds[4].saturating_sub(*count);
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::CpuId;
    use crate::values::trial::{FilePages, ThreadBinding};

    /// A trial with memory on node 0, and a data file and ten pages of unlisted files on node 1.
    fn evidence(memory: u64, data: u64) -> Evidence {
        let pages = [(NodeId(1), data)].into();
        Evidence {
            pages: [(NodeId(0), memory)].into(),
            file_pages: [(NodeId(1), data + 10)].into(),
            files: vec![FilePages { path: "/data/a".into(), kind: FileKind::Data, pages, is_shared: false }],
            ..Evidence::default()
        }
    }

    #[test]
    fn shares_are_means_of_the_observed_trials() {
        let mut sum = PagesSum::default();
        [evidence(100, 90), evidence(300, 90), Evidence::default()].iter().for_each(|evidence| sum.add(evidence));
        let [near, far] = sum.means()[..] else { panic!("two nodes: {:?}", sum.means()) };
        assert_eq!((near.node, near.memory, near.total()), (NodeId(0), 62.5, 62.5));
        assert_eq!((far.data, far.other_files, far.total()), (33.75, 3.75, 37.5));
    }

    #[test]
    fn built_in_kernels_have_no_files() {
        let mut sum = PagesSum::default();
        let cpu = CpuId(0);
        let thread = ThreadBinding { requested: cpu, mask: [cpu].into_iter().collect(), before: cpu, after: cpu };
        sum.add(&Evidence { thread_bindings: vec![thread], ..evidence(100, 90) });
        assert_eq!(sum.means().iter().map(|node| (node.node, node.memory)).collect::<Vec<_>>(), [(NodeId(0), 100.0)]);
    }
}
