//! Facts about memory nodes that are not part of the topology: free memory, supported policies, and the size of blocks.

use std::collections::BTreeMap;
use std::path::Path;

use model::placements::measured_map::WEIGHTS_DIR;
use model::placements::placement::KernelFeatures;
use model::values::id_set::NodeId;
use model::values::units::Bytes;

/// Size of the blocks in which existing pages are distributed over several nodes. A huge page, or a large folio of the page
/// cache, moves as a whole and is not larger.
pub(crate) const BLOCK_BYTES: u64 = 2 << 20;

/// Returns the memory policies that this kernel supports and older ones lack.
pub fn kernel_offers() -> KernelFeatures {
    let weighted_interleave = Path::new("/").join(WEIGHTS_DIR).exists();
    KernelFeatures { weighted_interleave, ..KernelFeatures::default() }
}

/// Returns the free memory by node, like `numactl --hardware`; nodes that cannot be read are absent.
pub fn free_by_node() -> BTreeMap<NodeId, Bytes> {
    let dir = Path::new("/sys/devices/system/node");
    let Ok(entries) = dir.read_dir() else { return BTreeMap::new() };
    let node = |name: &str| -> Option<(NodeId, Bytes)> {
        let number = name.strip_prefix("node")?.parse().ok()?;
        let text = std::fs::read_to_string(dir.join(name).join("meminfo")).ok()?;
        Some((NodeId(number), free_in(&text)?))
    };
    entries.flatten().filter_map(|entry| node(entry.file_name().to_str()?)).collect()
}

/// Parses the free memory in a node's meminfo: `Node 0 MemFree:  123 kB`.
fn free_in(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find(|line| line.contains(" MemFree:"))?;
    let kib: u64 = line.split_whitespace().nth(3)?.parse().ok()?;
    Some(Bytes(kib * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_parsed_from_the_meminfo_of_a_node() {
        let text = "Node 1 MemTotal:       16384 kB\nNode 1 MemFree:         8192 kB\nNode 1 MemUsed: 8192 kB\n";
        assert_eq!(free_in(text), Some(Bytes(8192 * 1024)));
        assert_eq!(free_in("Node 1 MemTotal: 5 kB\n"), None);
    }
}
