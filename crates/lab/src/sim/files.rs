//! Files of the simulated commands `reader`, which reads a large file, and `mapper`, which maps one and is limited by the
//! bandwidth of its other memory. An earlier program has left the cached pages on the last memory node.

use model::placements::placement::cached_nodes;
use model::values::id_set::NodeSet;
use model::values::topology::Topology;
use model::values::trial::{Evidence, FileKind, FilePages, PageCacheStart, Trial};
use model::values::workload::Value;

use super::speed;

const READER: &str = "reader";
const MAPPER: &str = "mapper";
const PATH: &str = "/data/model";
/// Number of pages that a `mapper` maps.
const PAGES: u64 = 10_000;

/// Returns the nodes that have the cached pages of a command's file; `None` for a command without one, and if they are not
/// cached.
pub(super) fn nodes(topology: &Topology, trial: &Trial) -> Option<NodeSet> {
    if !matches!(speed::program(trial).as_str(), READER | MAPPER) {
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

/// Adds the mapped and cached pages of a command's file to the evidence of its trial.
pub(super) fn observe(topology: &Topology, trial: &Trial, evidence: &mut Evidence) {
    let Some(nodes) = nodes(topology, trial) else { return };
    if speed::program(trial) == MAPPER {
        // Spread evenly.
        evidence.file_pages = nodes.iter().map(|node| (node, PAGES / nodes.len() as u64)).collect();
    }
    let pages = evidence.file_pages.clone();
    evidence.files = vec![FilePages { path: PATH.into(), kind: FileKind::Data, pages, is_shared: false }];
    let start = |nodes| PageCacheStart { nodes, equalised: vec![PATH.into()], ..PageCacheStart::default() };
    evidence.page_cache = placed_nodes(topology, trial).map(start);
}
