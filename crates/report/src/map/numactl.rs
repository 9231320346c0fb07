//! The output of `numactl --hardware` (2.0.16) for any topology, including captures; with measured distances if a
//! measured map exists.

use std::collections::BTreeMap;

use model::placements::measured_map::{MeasuredMap, NodeDistance};
use model::values::id_set::{NodeId, NodeSet};
use model::values::record::RunRecord;
use model::values::topology::{MemoryNode, Topology};
use model::values::units::Bytes;

use crate::stamp;

/// The kernel's distance from a node to itself (`LOCAL_DISTANCE`), which a machine with one node may omit.
const LOCAL_DISTANCE: u64 = 10;

/// The output of numactl. Free memory is included only for a live machine.
pub fn numactl(topology: &Topology, free: Option<&BTreeMap<NodeId, Bytes>>) -> String {
    let (nodes, numbers) = node_part(topology, free);
    format!("{nodes}{}", distance_lines(topology, &numbers))
}

/// The output with measured distances instead of the firmware's, followed by their sources: latencies in ns and triad
/// bandwidths in MB/s. A node without CPUs has no row. Stamps of the run come last, so that the first lines stay those
/// of numactl.
pub fn numactl_measured(record: &RunRecord, map: &MeasuredMap) -> String {
    let topology = &record.machine.topology;
    let (nodes, numbers) = node_part(topology, None);
    let table = |title: &str, value: &dyn Fn(&NodeDistance) -> Option<f64>| {
        let shown = |from, to| map.distance(from, to).and_then(value);
        matrix(title, &numbers, &|from, to| shown(from, to).map(|value| format!("{value:.0}")))
    };
    let distances = table("node distances:", &|hop| Some(hop.distance as f64));
    let latencies = table("node latencies, ns:", &|hop| Some(hop.latency_ns));
    let bandwidths = table("node bandwidths, MB/s:", &|hop| hop.bandwidth_mb_s);
    let stamps: String = stamp::of_run(record).iter().map(|stamp| format!("{stamp}\n")).collect();
    format!("{nodes}{distances}{latencies}{bandwidths}{stamps}")
}

fn node_part(topology: &Topology, free: Option<&BTreeMap<NodeId, Bytes>>) -> (String, NodeSet) {
    let mut nodes: Vec<&MemoryNode> = topology.nodes.iter().collect();
    nodes.sort_by_key(|node| node.os);
    let numbers: NodeSet = nodes.iter().map(|node| node.os).collect();
    let nodes_text: String = nodes.iter().map(|node| node_lines(node, free)).collect();
    (format!("available: {} nodes ({numbers})\n{nodes_text}", nodes.len()), numbers)
}

fn node_lines(node: &MemoryNode, free: Option<&BTreeMap<NodeId, Bytes>>) -> String {
    let os = node.os;
    let cpus: String = node.cpus.iter().map(|cpu| format!(" {cpu}")).collect();
    // In a topology, a size of 0 means unknown.
    let size = megabytes(Some(node.bytes).filter(|bytes| bytes.0 > 0));
    let free = free.map_or(String::new(), |free| format!("node {os} free: {}\n", megabytes(free.get(&os).copied())));
    format!("node {os} cpus:{cpus}\nnode {os} size: {size}\n{free}")
}

fn megabytes(bytes: Option<Bytes>) -> String {
    bytes.map_or("<not available>".into(), |bytes| format!("{} MB", bytes.0 >> 20))
}

fn distance_lines(topology: &Topology, nodes: &NodeSet) -> String {
    let stated = topology.node_distances();
    if stated.is_none() && nodes.len() != 1 {
        return "No distance information available.\n".into();
    }
    let distance = |from: NodeId, to: NodeId| {
        let own = (from == to).then_some(LOCAL_DISTANCE);
        let known = stated.and_then(|matrix| matrix.between(from, to)).or(own);
        known.map(|distance| distance.to_string())
    };
    matrix("node distances:", nodes, &distance)
}

/// A square matrix; all columns are as wide as the widest value, at least three.
fn matrix(title: &str, nodes: &NodeSet, value: &dyn Fn(NodeId, NodeId) -> Option<String>) -> String {
    let text = |from, to| value(from, to).unwrap_or_else(|| "-".into());
    let values = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (from, to)));
    let widest = values.map(|(from, to)| text(from, to).len() + 1).max().unwrap_or(0).max(3);
    let wide = |text: &str| format!("{:>widest$} ", format!(" {text}"));
    let header: String = nodes.iter().map(|node| wide(&node.to_string())).collect();
    let row = |from: NodeId| {
        let cells: String = nodes.iter().map(|to| wide(&text(from, to))).collect();
        format!("{}: {cells}\n", column(&from))
    };
    format!("{title}\nnode {header}\n{}", nodes.iter().map(row).collect::<String>())
}

/// As C's `% 3d`: at least three wide, with a leading space.
fn column(number: &impl std::fmt::Display) -> String {
    format!("{:>3}", format!(" {number}"))
}
