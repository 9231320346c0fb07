//! Working-set sizes of latency measurements, and the cache that holds a size.

use crate::values::id_set::{CpuId, NodeId};
use crate::values::topology::{Cache, Topology};
use crate::values::units::Bytes;

/// One page. Smaller sizes would repeat the first cache.
const SMALLEST: u64 = 4 << 10;
/// A random walk through eight times the last cache still hits it for one eighth of the lines. google/multichase's
/// default sizes have the same remainder.
const CACHES_TO_MEMORY: u64 = 8;
/// Default size of google/multichase.
const MEMORY_AT_LEAST: u64 = 256 << 20;

/// Returns the caches of a CPU with known sizes, innermost first.
pub(super) fn caches(topology: &Topology, cpu: CpuId) -> Vec<Cache> {
    let own = topology.objects.iter().filter(|object| object.cpus.contains(cpu));
    let mut caches: Vec<Cache> = own.filter_map(|object| object.cache).filter(|cache| cache.bytes.0 > 0).collect();
    caches.sort_by_key(|cache| (cache.level, cache.bytes));
    caches
}

/// Returns a size that exceeds all caches, limited by the memory of the node.
pub(super) fn memory_bytes(topology: &Topology, node: NodeId) -> Bytes {
    let cache = topology.last_cache_bytes().unwrap_or_default().0;
    let needed = cache.saturating_mul(CACHES_TO_MEMORY).max(MEMORY_AT_LEAST).next_power_of_two();
    Bytes(needed.min(usable_bytes(topology, node)))
}

/// Returns the bytes of each of STREAM's three arrays: four times the sum of all last-level caches of the threads.
pub(super) fn array_bytes(topology: &Topology, caches: usize, node: NodeId) -> Bytes {
    let cache = topology.last_cache_bytes().unwrap_or(Bytes(16 << 20)).0;
    let needed = cache.saturating_mul(4).saturating_mul(caches.max(1) as u64);
    Bytes(needed.max(64 << 20).min(usable_bytes(topology, node) / 2))
}

/// Returns the bytes per thread for loaded latency: four times the last cache, limited by the memory of the node.
pub(super) fn loaded_bytes(topology: &Topology, threads: usize, node: NodeId) -> Bytes {
    let cache = topology.last_cache_bytes().unwrap_or(Bytes(16 << 20)).0;
    let each = (usable_bytes(topology, node) / threads.max(1) as u64).max(64 << 10);
    Bytes(cache.saturating_mul(4).min(each))
}

/// Returns the part of a node's memory that may be used: a quarter, as a power of two; other programs need the rest.
fn usable_bytes(topology: &Topology, node: NodeId) -> u64 {
    let bytes = topology.node(node).map_or(0, |node| node.bytes.0);
    if bytes == 0 { MEMORY_AT_LEAST } else { (bytes / 4 + 1).next_power_of_two() / 2 }
}

/// Returns powers of two below the size that represents memory, optionally with intermediate sizes.
pub(super) fn sizes(largest: Bytes, half_steps: bool) -> Vec<Bytes> {
    let powers = (0..64).map(|power| SMALLEST << power).take_while(|bytes| *bytes < largest.0 && *bytes > 0);
    let with_half = |bytes: u64| [Some(bytes), Some(bytes / 2 * 3).filter(|_| half_steps)];
    powers.flat_map(with_half).flatten().filter(|bytes| *bytes < largest.0).map(Bytes).collect()
}

/// Returns the smallest cache that holds a size, such as `L2`; `memory` if none does.
pub(super) fn cache_holding(caches: &[Cache], bytes: Bytes) -> String {
    let holds = caches.iter().find(|cache| cache.bytes >= bytes);
    holds.map_or("memory".into(), |cache| format!("L{}", cache.level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: u32, bytes: u64) -> Cache {
        Cache { level, bytes: Bytes(bytes), line_bytes: 64 }
    }

    #[test]
    fn sizes_map_to_the_smallest_cache_that_holds_them() {
        let caches = [cache(1, 48 << 10), cache(2, 1 << 20), cache(3, 32 << 20)];
        let cases = [(4 << 10, "L1"), (48 << 10, "L1"), (49 << 10, "L2"), (1 << 20, "L2"), (32 << 20, "L3")];
        for (bytes, expected) in cases {
            assert_eq!(cache_holding(&caches, Bytes(bytes)), expected, "{bytes}");
        }
        assert_eq!(cache_holding(&caches, Bytes((32 << 20) + 1)), "memory");
        assert_eq!(cache_holding(&[], Bytes(1)), "memory");
    }

    #[test]
    fn sizes_grow_up_to_the_maximum() {
        assert_eq!(sizes(Bytes(32 << 10), false), [4, 8, 16].map(|kib| Bytes(kib << 10)));
        assert_eq!(sizes(Bytes(16 << 10), true), [4, 6, 8, 12].map(|kib| Bytes(kib << 10)));
        assert_eq!(sizes(Bytes(12 << 10), true), [4, 6, 8].map(|kib| Bytes(kib << 10)));
        assert_eq!(sizes(Bytes(4 << 10), true), []);
        assert_eq!(sizes(Bytes(u64::MAX), true).len(), 2 * 52);
    }
}
