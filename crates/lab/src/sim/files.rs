//! Files of the simulated commands `reader`, which reads a large file, and `mapper`, which maps one and is limited by the
//! bandwidth of its other memory. An earlier program has left the cached pages on the last memory node.

use std::collections::BTreeMap;

use model::placements::placement::cached_nodes;
use model::values::id_set::{NodeId, NodeSet};
use model::values::topology::Topology;
use model::values::trial::{FileKind, FilePages, PageCacheStart, Trial};
use model::values::workload::Value;

use super::speed;

const PATH: &str = "/data/model";
/// Pages of the file that a `mapper` maps.
const PAGES: u64 = 10_000;

/// Returns the nodes that have the cached pages of a command's file; `None` for a command without one, and if they are not
/// cached.
pub(super) fn nodes(topology: &Topology, trial: &Trial) -> Option<NodeSet> {
    if !matches!(speed::program(trial).as_str(), "reader" | "mapper") {
        return None;
    }
    let found = || topology.allowed_nodes.iter().last().into_iter().collect();
    let nodes = placed_nodes(topology, trial).unwrap_or_else(found);
    (!nodes.is_empty()).then_some(nodes)
}

/// Returns the nodes that cached pages were moved to before a trial, an empty set if they were dropped; `None` if they were
/// left where they were.
fn placed_nodes(topology: &Topology, trial: &Trial) -> Option<NodeSet> {
    let placement = &trial.placement;
    if let Some(policy) = &placement.files {
        return Some(policy.nodes(|| topology.local_nodes(&placement.cpus())));
    }
    match trial.parameters.0.get("page-cache") {
        Some(Value::Text(state)) if state == "placed" => Some(cached_nodes(topology, placement)),
        Some(Value::Text(state)) if state == "cold" => Some(NodeSet::new()),
        _ => None,
    }
}

/// Returns the pages that the command maps, by node: in equal parts.
pub(super) fn pages(topology: &Topology, trial: &Trial) -> BTreeMap<NodeId, u64> {
    let nodes = nodes(topology, trial).filter(|_| speed::program(trial) == "mapper").unwrap_or_default();
    nodes.iter().map(|node| (node, PAGES / nodes.len() as u64)).collect()
}

/// Returns the files that the command is seen to use.
pub(super) fn evidence(topology: &Topology, trial: &Trial) -> Vec<FilePages> {
    let pages = pages(topology, trial);
    let file = |_| FilePages { path: PATH.into(), kind: FileKind::Data, pages, is_shared: false };
    nodes(topology, trial).map(file).into_iter().collect()
}

pub(super) fn start(topology: &Topology, trial: &Trial) -> Option<PageCacheStart> {
    nodes(topology, trial)?;
    let nodes = placed_nodes(topology, trial)?;
    Some(PageCacheStart { nodes, equalised: vec![PATH.into()], ..PageCacheStart::default() })
}
