//! What this kernel says of memory nodes beyond the topology: how much is free, which policies it has.

use std::collections::BTreeMap;
use std::path::Path;

use model::placements::placement::KernelFeatures;
use model::values::id_set::NodeId;
use model::values::units::Bytes;

/// Which memory policies this kernel has that older ones lack.
pub fn kernel_offers() -> KernelFeatures {
    // The folder came with the policy in Linux 6.9.
    let weighted_interleave = Path::new("/sys/kernel/mm/mempolicy/weighted_interleave").exists();
    KernelFeatures { weighted_interleave, ..KernelFeatures::default() }
}

/// Free memory by node, as `numactl --hardware` shows it; nodes that cannot be read are absent.
pub fn free_by_node() -> BTreeMap<NodeId, Bytes> {
    let folder = Path::new("/sys/devices/system/node");
    let Ok(entries) = folder.read_dir() else { return BTreeMap::new() };
    let node = |name: &str| -> Option<(NodeId, Bytes)> {
        let number = name.strip_prefix("node")?.parse().ok()?;
        let text = std::fs::read_to_string(folder.join(name).join("meminfo")).ok()?;
        Some((NodeId(number), free_in(&text)?))
    };
    entries.flatten().filter_map(|entry| node(entry.file_name().to_str()?)).collect()
}

/// The free memory in a node's meminfo: `Node 0 MemFree:  123 kB`.
fn free_in(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find(|line| line.contains(" MemFree:"))?;
    let kib: u64 = line.split_whitespace().nth(3)?.parse().ok()?;
    Some(Bytes(kib * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_from_a_nodes_meminfo() {
        let text = "Node 1 MemTotal:       16384 kB\nNode 1 MemFree:         8192 kB\nNode 1 MemUsed: 8192 kB\n";
        assert_eq!(free_in(text), Some(Bytes(8192 * 1024)));
        assert_eq!(free_in("Node 1 MemTotal: 5 kB\n"), None);
    }
}
