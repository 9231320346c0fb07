//! What `numactl --hardware` (2.0.16) would print, also for a machine that is only a file.

use std::collections::BTreeMap;
use std::fmt::Write;

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
    let mut out = format!("available: {} nodes ({numbers})\n", nodes.len());
    for node in &nodes {
        write_node(&mut out, node, free);
    }
    write_distances(&mut out, topology, &numbers);
    out
}

fn write_node(out: &mut String, node: &MemoryNode, free: Option<&BTreeMap<NodeId, Bytes>>) {
    let cpus: String = node.cpus.iter().map(|cpu| format!(" {cpu}")).collect();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "node {} cpus:{cpus}", node.os);
    // A size of 0 is how a topology says that it knows none.
    let size = Some(node.bytes).filter(|bytes| bytes.0 > 0);
    let _ = writeln!(out, "node {} size: {}", node.os, megabytes(size));
    if let Some(free) = free {
        let _ = writeln!(out, "node {} free: {}", node.os, megabytes(free.get(&node.os).copied()));
    }
}

fn megabytes(bytes: Option<Bytes>) -> String {
    bytes.map_or("<not available>".into(), |bytes| format!("{} MB", bytes.0 >> 20))
}

fn write_distances(out: &mut String, topology: &Topology, nodes: &NodeSet) {
    let stated = topology.node_distances();
    if stated.is_none() && nodes.len() != 1 {
        out.push_str("No distance information available.\n");
        return;
    }
    let distance = |from: NodeId, to: NodeId| {
        let own = (from == to).then_some(LOCAL_DISTANCE);
        let known = stated.and_then(|matrix| matrix.between(from, to)).or(own);
        known.map_or_else(|| "  -".into(), |distance| column(&distance))
    };
    let header: String = nodes.iter().map(|node| format!("{} ", column(&node))).collect();
    let _ = writeln!(out, "node distances:\nnode {header}");
    for from in nodes.iter() {
        let row: String = nodes.iter().map(|to| format!("{} ", distance(from, to))).collect();
        let _ = writeln!(out, "{}: {row}", column(&from));
    }
}

/// C's `% 3d`: three wide, and always a space in front.
fn column(number: &impl std::fmt::Display) -> String {
    format!("{:>3}", format!(" {number}"))
}
