//! Corrects hwloc's topology of this machine where the kernel's files disagree, and adds a note for each correction.
//! hwloc before 2.10 reports one node of a live machine whose nodes share their CPUs (`numa=fake`, Raspberry Pi 5).

use std::path::Path;

use model::values::id_set::{CpuSet, NodeId, NodeSet};
use model::values::topology::{Distances, MemoryNode, ObjectKind, Topology};
use model::values::units::Bytes;

use crate::sysfs::{self, NodeFacts};

/// Corrects a live topology using /sys and /proc under `root`.
pub(super) fn with_sysfs(topology: &mut Topology, root: &Path) {
    let facts = sysfs::nodes(root);
    let allowed = sysfs::allowed(root);
    correct_cpus(topology, root);
    correct_nodes(topology, &facts);
    add_nodes(topology, &facts, allowed.nodes.as_ref());
    correct_sizes(topology, &facts, root);
    if let Some(nodes) = allowed.nodes {
        topology.allowed_nodes = topology.allowed_nodes.intersection(&nodes);
    }
}

fn correct_cpus(topology: &mut Topology, root: &Path) {
    let list = |name: &str| sysfs::read_list(root, &format!("sys/devices/system/cpu/{name}"));
    if let Some(present) = list("present") {
        topology.complete_cpus = topology.complete_cpus.union(&present);
    }
    let Some(online) = list("online") else { return };
    let offline = topology.allowed_cpus.difference(&online);
    if !offline.is_empty() {
        topology.allowed_cpus = topology.allowed_cpus.intersection(&online);
        topology.notes.push(format!("hwloc reports cpus {offline}, which are offline according to /sys: using /sys"));
    }
}

/// Adds sizes that hwloc does not report, and corrects the CPUs of nodes.
fn correct_nodes(topology: &mut Topology, facts: &[NodeFacts]) {
    for node in &mut topology.nodes {
        let Some(fact) = facts.iter().find(|fact| fact.os == node.os) else { continue };
        if node.bytes.0 == 0 {
            node.bytes = fact.bytes;
        }
        let cpus = fact.cpus.intersection(&topology.allowed_cpus);
        if cpus == node.cpus {
            continue;
        }
        let (os, reported) = (node.os, &node.cpus);
        // For memory without CPUs (CXL, HBM), hwloc reports the CPUs that the firmware lists as near. The node keeps
        // its position in the tree, but it is local to no CPU for the kernel, and `numactl -N` has no CPUs for it.
        topology.notes.push(if fact.cpus.is_empty() {
            format!("memory node {os} has no cpus in /sys; hwloc attaches it to cpus {reported}")
        } else {
            format!("hwloc reports cpus {reported} at memory node {os}, /sys {cpus}: using /sys")
        });
        node.cpus = cpus;
    }
}

fn add_nodes(topology: &mut Topology, facts: &[NodeFacts], allowed: Option<&NodeSet>) {
    let missing = |fact: &&NodeFacts| {
        let usable = fact.bytes > Bytes(0) && allowed.is_none_or(|allowed| allowed.contains(fact.os));
        usable && topology.node(fact.os).is_none()
    };
    let missing: Vec<NodeFacts> = facts.iter().filter(missing).cloned().collect();
    if missing.is_empty() {
        return;
    }
    let reported = topology.nodes.len();
    let numbers: NodeSet = missing.iter().map(|fact| fact.os).collect();
    for fact in &missing {
        add_node(topology, fact);
    }
    if let Some(distances) = distances(&topology.nodes, facts) {
        topology.distances.retain(|matrix| matrix.name.as_deref() != distances.name.as_deref());
        topology.distances.insert(0, distances);
    }
    let plural = if reported == 1 { "" } else { "s" };
    topology.notes.push(format!(
        "hwloc reports {reported} memory node{plural}, /sys/devices/system/node {}: using /sys, added {numbers}",
        topology.nodes.len()
    ));
}

fn add_node(topology: &mut Topology, fact: &NodeFacts) {
    let cpus = fact.cpus.intersection(&topology.allowed_cpus);
    let parent = parent_of_memory(topology, &cpus);
    topology.objects[parent].memory.push(topology.nodes.len());
    topology.allowed_nodes.insert(fact.os);
    topology.nodes.push(MemoryNode { os: fact.os, cpus, bytes: fact.bytes, subtype: None });
}

/// A kernel that initialises memory late counts it in /proc/meminfo immediately, but in the nodes only after its
/// initialisation.
fn correct_sizes(topology: &mut Topology, facts: &[NodeFacts], root: &Path) {
    let meminfo = sysfs::read_text(root, "proc/meminfo").unwrap_or_default();
    let Some(total) = sysfs::meminfo_bytes(&meminfo, "MemTotal") else { return };
    let total_of_nodes = Bytes(facts.iter().map(|fact| fact.bytes.0).sum());
    // The two may differ by a few pages; only a difference of more than 5 % is noted.
    if facts.is_empty() || total.0 / 20 * 19 <= total_of_nodes.0 {
        return;
    }
    let mut note = format!("the memory nodes have {total_of_nodes} in /sys, the machine has {total} in /proc/meminfo");
    if let ([_], [node]) = (facts, &mut topology.nodes[..]) {
        node.bytes = total;
        note += ": using /proc, because there is one node";
    }
    topology.notes.push(note);
}

/// Returns the parent object for memory near these CPUs: the parent of other memory with the same CPUs, else the
/// smallest object that contains all of them. For memory without CPUs, it is the machine.
fn parent_of_memory(topology: &Topology, cpus: &CpuSet) -> usize {
    if cpus.is_empty() {
        return 0;
    }
    let twin = topology.nodes.iter().position(|node| node.cpus == *cpus);
    let of_twin = twin.and_then(|twin| topology.objects.iter().position(|object| object.memory.contains(&twin)));
    let containing = topology.objects.iter().enumerate().filter(|(_, object)| {
        cpus.is_subset(&object.cpus)
            && matches!(object.kind, ObjectKind::Machine | ObjectKind::Group | ObjectKind::Package)
    });
    of_twin.or_else(|| containing.min_by_key(|(_, object)| object.cpus.len()).map(|(at, _)| at)).unwrap_or(0)
}

/// Returns the kernel's distance matrix for these nodes, or `None` if it lacks one of them.
fn distances(nodes: &[MemoryNode], facts: &[NodeFacts]) -> Option<Distances> {
    let mut order: Vec<NodeId> = nodes.iter().map(|node| node.os).collect();
    order.sort_unstable();
    let column = |os: NodeId| facts.iter().position(|fact| fact.os == os);
    let mut values = Vec::new();
    for from in &order {
        let row = &facts[column(*from)?].distances;
        for to in &order {
            values.push(*row.get(column(*to)?)?);
        }
    }
    Some(Distances { name: Some("NUMALatency".into()), nodes: order, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;
    use crate::topology::{TopologySource, read};

    fn synthetic(text: &str) -> Topology {
        read(&TopologySource::Synthetic(text.into())).unwrap()
    }

    fn node_files(os: u32, cpus: &str, kib: u64, distance: &str) -> Vec<(String, String)> {
        let file = |name: &str, text: String| (format!("sys/devices/system/node/node{os}/{name}"), text);
        vec![
            file("cpulist", format!("{cpus}\n")),
            file("meminfo", format!("\nNode {os} MemTotal:       {kib} kB\nNode {os} MemFree:  1 kB\n")),
            file("distance", format!("{distance}\n")),
        ]
    }

    #[test]
    fn fake_nodes_dropped_by_hwloc_are_added() {
        let mut topology = synthetic("package:1 [numa(memory=1GiB)] l3:1 core:4 pu:1");
        let mut files: Vec<(String, String)> =
            (0..8).flat_map(|os| node_files(os, "0-3", 1 << 20, "10 10 10 10 10 10 10 10")).collect();
        files.push(("sys/devices/system/node/online".into(), "0-7\n".into()));
        files.push(("sys/devices/system/cpu/online".into(), "0-3\n".into()));
        files.push(("proc/self/status".into(), "Name:\tx\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0-6\n".into()));
        with_sysfs(&mut topology, tree(&files).path());
        let numbers: Vec<u32> = topology.nodes.iter().map(|node| node.os.0).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6], "7 is not allowed");
        assert!(topology.nodes.iter().all(|node| node.bytes == Bytes(1 << 30) && node.cpus.to_string() == "0-3"));
        assert_eq!(topology.allowed_nodes.to_string(), "0-6");
        let distances = topology.node_distances().unwrap();
        assert_eq!((distances.nodes.len(), distances.values.clone()), (7, vec![10; 49]));
        let parents: Vec<&Vec<usize>> =
            topology.objects.iter().map(|object| &object.memory).filter(|m| !m.is_empty()).collect();
        assert_eq!(parents, [&[0, 1, 2, 3, 4, 5, 6]]);
        assert_eq!(topology.notes, ["hwloc reports 1 memory node, /sys/devices/system/node 7: using /sys, added 1-6"]);
        model::values::capture::check_topology(&topology).unwrap();
    }

    #[test]
    fn added_nodes_are_attached_near_their_cpus() {
        let mut topology = synthetic("package:2 [numa(memory=1GiB)] core:2 pu:1");
        let mut files = node_files(0, "0-1", 1 << 20, "10 21 24 24");
        files.extend(node_files(1, "2-3", 1 << 20, "21 10 24 24"));
        files.extend(node_files(4, "", 2 << 20, "24 24 10 24"));
        files.extend(node_files(5, "2-3", 4 << 20, "24 24 24 10"));
        // A node without memory, and a directory that is not a node.
        files.extend(node_files(6, "", 0, "24 24 24 24"));
        files.push(("sys/devices/system/node/nodeX/cpulist".into(), "0".into()));
        with_sysfs(&mut topology, tree(&files).path());
        assert_eq!(topology.nodes.iter().map(|node| node.os.0).collect::<Vec<_>>(), [0, 1, 4, 5]);
        assert_eq!(topology.objects[0].memory, [2]);
        let second = topology.of_kind(ObjectKind::Package).nth(1).unwrap();
        assert_eq!(second.memory, [1, 3]);
        assert_eq!(topology.node_distances().unwrap().values[..8], [10, 21, 24, 24, 21, 10, 24, 24]);
    }

    #[test]
    fn disagreements_are_noted() {
        let mut topology = synthetic("package:2 [numa] core:2 pu:1");
        topology.nodes[0].bytes = Bytes(0);
        let mut files = node_files(0, "0", 512, "10 20");
        files.extend(node_files(1, "1-3", 512, "20 10"));
        files.push(("sys/devices/system/cpu/online".into(), "0-2".into()));
        files.push(("sys/devices/system/cpu/present".into(), "0-7".into()));
        with_sysfs(&mut topology, tree(&files).path());
        assert_eq!(topology.allowed_cpus.to_string(), "0-2");
        assert_eq!(topology.complete_cpus.to_string(), "0-7");
        assert_eq!(topology.nodes[0].bytes, Bytes(512 << 10));
        assert_eq!(topology.nodes[1].cpus.to_string(), "1-2");
        assert_eq!(topology.notes.len(), 3, "{:?}", topology.notes);
        assert!(topology.notes[1].contains("cpus 0-1 at memory node 0, /sys 0"), "{:?}", topology.notes);
    }

    #[test]
    fn late_initialised_memory_is_counted() {
        let check = |text: &str, node_kib: &[u64], total_kib: u64, expected: &[u64], note: &str| {
            let mut topology = synthetic(text);
            let node = |os: usize| node_files(os as u32, &format!("{}-{}", 2 * os, 2 * os + 1), node_kib[os], "10 20");
            let mut files: Vec<_> = (0..node_kib.len()).flat_map(node).collect();
            files.push(("proc/meminfo".into(), format!("MemTotal: {total_kib} kB\n")));
            with_sysfs(&mut topology, tree(&files).path());
            assert_eq!(topology.nodes.iter().map(|node| node.bytes.0 >> 10).collect::<Vec<_>>(), expected);
            assert!(topology.notes.join("").contains(note) && topology.notes.len() == usize::from(!note.is_empty()));
        };
        check(
            "[numa(memory=100MiB)] core:2 pu:1",
            &[102_400],
            204_800,
            &[204_800],
            "have 100MiB in /sys, the machine has 200MiB",
        );
        check("[numa(memory=100MiB)] core:2 pu:1", &[102_400], 103_000, &[102_400], "");
        check("[numa(memory=100MiB)] core:2 pu:1", &[], 204_800, &[102_400], "");
        let two = "pack:2 [numa(memory=100MiB)] core:2 pu:1";
        check(two, &[102_400, 102_400], 409_600, &[102_400, 102_400], "the machine has 400MiB in /proc/meminfo");
    }

    /// Observed in the NUMA guest: hwloc reported CPUs 4-7 at a node for which /sys and numactl list none.
    #[test]
    fn memory_without_cpus_keeps_its_parent_but_has_no_cpus() {
        let mut topology = synthetic("package:2 [numa(memory=1GiB)] [numa(memory=1GiB)] core:2 pu:1");
        let objects = topology.objects.clone();
        let mut files = node_files(0, "0-1", 1 << 20, "10 20 20 20");
        files.extend(node_files(1, "", 1 << 20, "20 10 20 20"));
        with_sysfs(&mut topology, tree(&files).path());
        assert!(topology.nodes[1].cpus.is_empty());
        assert_eq!(topology.objects, objects);
        assert_eq!(topology.counts().numa_without_cpus, 1);
        let note = "memory node 1 has no cpus in /sys; hwloc attaches it to cpus 0-1";
        assert_eq!(topology.notes, [note]);
        model::values::capture::check_topology(&topology).unwrap();
    }

    #[test]
    fn topology_without_kernel_files_is_unchanged() {
        let mut topology = synthetic("package:2 [numa] core:2 pu:1");
        let before = topology.clone();
        with_sysfs(&mut topology, tree::<&str, &str>(&[]).path());
        assert_eq!(topology, before);
    }
}
