//! Reads the kernel's files about a machine. Every reader takes the directory that contains `sys` and `proc`, so that
//! tests can use a recorded tree. Must not depend on hwloc.

mod cgroup;
mod interrupts;
#[cfg(test)]
pub(crate) mod test_tree;

pub(crate) use cgroup::{
    Limit, available_memory, cpuset_of, limits, memory_mount, throttled, throttled_between, throttled_of,
    unified_group, unified_group_of,
};
pub(crate) use interrupts::{InterruptLine, interrupt, interrupt_counts, interrupt_lines};

use std::path::Path;

use model::values::id_set::{CpuSet, Id, IdSet, NodeId, NodeSet};
use model::values::units::Bytes;

/// Facts about a memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub os: NodeId,
    pub cpus: CpuSet,
    pub bytes: Bytes,
    /// Distances from this node to all online nodes, in ascending order of their numbers.
    pub distances: Vec<u64>,
}

/// CPUs and memory nodes that the affinity mask and the cpuset permit; `None` if the kernel does not report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub cpus: Option<CpuSet>,
    pub nodes: Option<NodeSet>,
}

/// Returns the trimmed text of a file under the root.
pub(crate) fn read_text(root: &Path, path: &str) -> std::io::Result<String> {
    // Lossy, because a device tree or a command line may contain any byte.
    let bytes = std::fs::read(root.join(path))?;
    Ok(String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
}

/// Returns the word in brackets, as in `always [madvise] never`, or the whole text if it has no brackets.
pub(crate) fn selected(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word)
}

/// Reads a set in list notation; `None` if the file is missing or invalid.
pub(crate) fn read_list<T: Id>(root: &Path, path: &str) -> Option<IdSet<T>> {
    IdSet::parse_list(&read_text(root, path).ok()?).ok()
}

/// Returns the sorted names in a directory, or an empty list if it does not exist.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Returns the online memory nodes in ascending order; empty on a kernel without NUMA.
pub(crate) fn nodes(root: &Path) -> Vec<NodeFacts> {
    let number = |name: &String| name.strip_prefix("node")?.parse().ok();
    let mut numbers: Vec<u32> = names(&root.join("sys/devices/system/node")).iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|os| node(root, os)).collect()
}

fn node(root: &Path, os: u32) -> NodeFacts {
    let dir = format!("sys/devices/system/node/node{os}");
    let meminfo = read_text(root, &format!("{dir}/meminfo")).unwrap_or_default();
    let distances = read_text(root, &format!("{dir}/distance")).unwrap_or_default();
    NodeFacts {
        os: NodeId(os),
        cpus: read_list(root, &format!("{dir}/cpulist")).unwrap_or_default(),
        bytes: meminfo_bytes(&meminfo, "MemTotal").unwrap_or_default(),
        distances: distances.split_whitespace().filter_map(|value| value.parse().ok()).collect(),
    }
}

/// Parses the value of `name` in a meminfo file: `MemTotal: 16 kB`, with the prefix `Node 0` in the file of a node.
pub(crate) fn meminfo_bytes(text: &str, name: &str) -> Option<Bytes> {
    let of_name = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.split_whitespace().last()? == name).then(|| value.split_whitespace().next()?.parse::<u64>().ok())?
    };
    text.lines().find_map(of_name)?.checked_mul(1024).map(Bytes)
}

/// Returns the CPUs and memory nodes that this thread may use.
pub(crate) fn allowed(root: &Path) -> Allowed {
    let status = read_text(root, "proc/thread-self/status").or_else(|_| read_text(root, "proc/self/status"));
    parse_allowed(&status.unwrap_or_default())
}

/// Parses the CPUs and memory nodes that a thread may use from its `status`.
pub(crate) fn parse_allowed(status: &str) -> Allowed {
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    Allowed {
        cpus: value("Cpus_allowed_list").and_then(|list| CpuSet::parse_list(list).ok()),
        nodes: value("Mems_allowed_list").and_then(|list| NodeSet::parse_list(list).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::test_tree::tree;
    use super::*;

    #[test]
    fn nodes_are_read_in_ascending_order() {
        let dir = tree(&[
            ("sys/devices/system/node/node10/cpulist", ""),
            ("sys/devices/system/node/node10/meminfo", "Node 10 MemTotal:  2048 kB"),
            ("sys/devices/system/node/node2/cpulist", "0-3,8\n"),
            ("sys/devices/system/node/node2/meminfo", "Node 2 MemFree: 1 kB\nNode 2 MemTotal: 1024 kB\n"),
            ("sys/devices/system/node/node2/distance", "10 20\n"),
            ("sys/devices/system/node/possible", "0-10"),
        ]);
        let nodes = nodes(dir.path());
        assert_eq!(nodes.iter().map(|node| node.os.0).collect::<Vec<_>>(), [2, 10]);
        assert_eq!(
            (nodes[0].cpus.to_string(), nodes[0].bytes, &nodes[0].distances[..]),
            ("0-3,8".into(), Bytes(1 << 20), &[10, 20][..])
        );
        assert_eq!((nodes[1].cpus.len(), nodes[1].bytes, nodes[1].distances.len()), (0, Bytes(2 << 20), 0));
        assert!(super::nodes(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn invalid_and_too_large_meminfo_sizes_are_rejected() {
        let cases = [
            ("MemTotal: 16 kB", Some(16 << 10)),
            ("MemTotal2: 16 kB", None),
            ("MemTotal: x kB", None),
            ("MemTotal: 18446744073709551615 kB", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(meminfo_bytes(text, "MemTotal"), expected.map(Bytes), "{text}");
        }
    }

    #[test]
    fn permitted_cpus_and_nodes_are_read_from_status() {
        let dir = tree(&[(
            "proc/self/status",
            "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,7\nMems_allowed_list:\t1\n",
        )]);
        let allowed = allowed(dir.path());
        assert_eq!(allowed.cpus.unwrap().to_string(), "0-3,7");
        assert_eq!(allowed.nodes.unwrap().to_string(), "1");
        assert_eq!(super::allowed(Path::new("/nowhere")), Allowed::default());
    }
}
