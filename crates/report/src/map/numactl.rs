//! What `numactl --hardware` (2.0.16) would print, also for a machine that is only a file.

use std::collections::BTreeMap;

use model::id_set::{NodeId, NodeSet};
use model::topology::{MemoryNode, Topology};
use model::units::Bytes;

/// The kernel's distance from a node to itself (`LOCAL_DISTANCE`), which a machine with one node need not state.
const LOCAL_DISTANCE: u64 = 10;

/// The twin. Free memory is printed for a live machine only, where it is known.
pub fn numactl(topology: &Topology, free: Option<&BTreeMap<NodeId, Bytes>>) -> String {
    let mut nodes: Vec<&MemoryNode> = topology.nodes.iter().collect();
    nodes.sort_by_key(|node| node.os);
    let numbers: NodeSet = nodes.iter().map(|node| node.os).collect();
    let nodes_text: String = nodes.iter().map(|node| node_lines(node, free)).collect();
    format!("available: {} nodes ({numbers})\n{nodes_text}{}", nodes.len(), distance_lines(topology, &numbers))
}

fn node_lines(node: &MemoryNode, free: Option<&BTreeMap<NodeId, Bytes>>) -> String {
    let os = node.os;
    let cpus: String = node.cpus.iter().map(|cpu| format!(" {cpu}")).collect();
    // A size of 0 is how a topology says that it knows none.
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
        known.map_or_else(|| "  -".into(), |distance| column(&distance))
    };
    let header: String = nodes.iter().map(|node| format!("{} ", column(&node))).collect();
    let row = |from: NodeId| {
        let cells: String = nodes.iter().map(|to| format!("{} ", distance(from, to))).collect();
        format!("{}: {cells}\n", column(&from))
    };
    format!("node distances:\nnode {header}\n{}", nodes.iter().map(row).collect::<String>())
}

/// C's `% 3d`: three wide, and always a space in front.
fn column(number: &impl std::fmt::Display) -> String {
    format!("{:>3}", format!(" {number}"))
}
