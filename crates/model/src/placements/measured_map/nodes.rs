//! Node-to-node values of a measured map in the forms of other programs: relative distances, hwloc's attributes.

use super::{MeasuredMap, MeasuredValue, MemoryPath, NodeDistance};
use crate::values::id_set::NodeId;
use crate::values::topology::{Distances, MemoryAttribute};

/// The kernel's distance from a node to itself (`LOCAL_DISTANCE`).
pub(super) const LOCAL_DISTANCE: f64 = 10.0;

/// hwloc reports bandwidths in MiB/s.
const MIB: f64 = (1 << 20) as f64;

/// Returns the values from every node with CPUs to every node that these CPUs measured.
pub(super) fn distances(memory: &[MemoryPath]) -> Vec<NodeDistance> {
    let mut found: Vec<NodeDistance> = Vec::new();
    for own in memory.iter().filter(|path| path.local) {
        let Some(own_latency) = &own.latency else { continue };
        // If kinds of cores share a node, its first kind represents it.
        if found.iter().any(|hop| hop.from == own.node) {
            continue;
        }
        for path in memory.iter().filter(|path| path.cpus == own.cpus) {
            let Some(latency) = &path.latency else { continue };
            found.push(NodeDistance {
                from: own.node,
                to: path.node,
                distance: (LOCAL_DISTANCE * latency.median / own_latency.median).round() as u64,
                latency_ns: latency.median,
                bandwidth_mb_s: ordinary(path, "triad").map(|rate| rate.median),
            });
        }
    }
    found.sort_by_key(|hop| (hop.from, hop.to));
    found
}

/// Returns the bandwidth of an access pattern with ordinary stores.
pub(super) fn ordinary<'p>(path: &'p MemoryPath, mix: &str) -> Option<&'p MeasuredValue> {
    path.bandwidth.iter().find(|one| one.mix == mix && !one.non_temporal).map(|one| &one.rate)
}

impl MeasuredMap {
    /// Returns the values from one node's CPUs to another node's memory; `None` if not measured or without CPUs.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<&NodeDistance> {
        self.node_distances.iter().find(|hop| (hop.from, hop.to) == (from, to))
    }

    /// Returns hwloc's attributes from each group of CPUs to each node: `Bandwidth` (MiB/s, triad), `ReadBandwidth` and
    /// `WriteBandwidth`, all with ordinary stores, and `Latency` (ns). It is a load latency, so `ReadLatency` is equal.
    pub fn memory_attributes(&self) -> Vec<MemoryAttribute> {
        let one = |attr: &str, path: &MemoryPath, value: f64| MemoryAttribute {
            attr: attr.into(),
            node: path.node,
            initiator: Some(path.cpus.clone()),
            value: value.round() as u64,
        };
        let latency = |attr: &str, path: &MemoryPath| Some(one(attr, path, path.latency.as_ref()?.median));
        let bandwidth =
            |attr: &str, path: &MemoryPath, mix| Some(one(attr, path, ordinary(path, mix)?.median * 1e6 / MIB));
        let all = |value: &dyn Fn(&MemoryPath) -> Option<MemoryAttribute>| -> Vec<MemoryAttribute> {
            self.memory.iter().filter_map(value).collect()
        };
        [
            all(&|path| bandwidth("Bandwidth", path, "triad")),
            all(&|path| latency("Latency", path)),
            all(&|path| bandwidth("ReadBandwidth", path, "read")),
            all(&|path| bandwidth("WriteBandwidth", path, "write")),
            all(&|path| latency("ReadLatency", path)),
        ]
        .concat()
    }

    /// Returns the latencies in ns between nodes with CPUs, as a square matrix. `None` with fewer than two nodes or if
    /// a value is missing.
    pub fn latency_matrix(&self) -> Option<Distances> {
        let mut nodes: Vec<NodeId> = self.node_distances.iter().map(|hop| hop.from).collect();
        nodes.dedup();
        let between = |from: &NodeId, to: &NodeId| Some(self.distance(*from, *to)?.latency_ns.round() as u64);
        let values: Option<Vec<u64>> =
            nodes.iter().flat_map(|from| nodes.iter().map(move |to| between(from, to))).collect();
        let values = values.filter(|_| nodes.len() > 1)?;
        Some(Distances { name: Some("NearfarLatency".into()), nodes, values })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bandwidth;
    use super::*;
    use crate::values::id_set::CpuSet;

    fn path(cpus: &str, node: u32, local: bool, latency: f64) -> MemoryPath {
        let measured = |unit: &str, median| MeasuredValue {
            unit: unit.into(),
            median,
            ci_low: None,
            ci_high: None,
            samples: vec![median],
            suspect: 0,
        };
        // Unique values, so that confusing two of them fails the test.
        let rate = |mix: &str, past: bool| {
            measured("MB/s", 1e6 / latency * f64::from(if past { 4 } else { 1 + u8::from(mix == "read") }))
        };
        MemoryPath {
            cpus: CpuSet::parse_list(cpus).unwrap(),
            node: NodeId(node),
            local,
            distance: None,
            latency: (latency > 0.0).then(|| measured("ns", latency)),
            bandwidth: [("triad", true), ("triad", false), ("read", false)]
                .map(|(mix, non_temporal)| Bandwidth { mix: mix.into(), non_temporal, rate: rate(mix, non_temporal) })
                .into(),
        }
    }

    fn map(memory: Vec<MemoryPath>) -> MeasuredMap {
        let node_distances = distances(&memory);
        MeasuredMap { memory, node_distances, ..MeasuredMap::default() }
    }

    #[test]
    fn node_distances_are_ten_locally_and_scale_with_latency() {
        let both = map(vec![
            path("0-3", 0, true, 80.0),
            path("0-3", 1, false, 140.0),
            path("4-7", 0, false, 150.0),
            path("4-7", 1, true, 100.0),
            path("0-3", 2, false, 244.0),
        ]);
        let hops: Vec<(u32, u32, u64)> =
            both.node_distances.iter().map(|hop| (hop.from.0, hop.to.0, hop.distance)).collect();
        assert_eq!(hops, [(0, 0, 10), (0, 1, 18), (0, 2, 31), (1, 0, 15), (1, 1, 10)]);
        let matrix = both.latency_matrix().unwrap();
        assert_eq!((matrix.nodes.len(), matrix.values), (2, vec![80, 140, 150, 100]));
    }

    #[test]
    fn missing_pair_gives_no_latency_matrix() {
        assert_eq!(map(vec![path("0-3", 0, true, 80.0)]).latency_matrix(), None);
        let holes = map(vec![path("0-3", 0, true, 80.0), path("0-3", 1, false, 0.0), path("4-7", 1, true, 80.0)]);
        assert_eq!(holes.latency_matrix(), None);
        assert_eq!(holes.distance(NodeId(0), NodeId(1)), None);
    }

    #[test]
    fn attributes_use_the_units_of_hwloc() {
        let one = map(vec![path("0-3", 0, true, 79.6)]);
        let found: Vec<(String, u64)> =
            one.memory_attributes().into_iter().map(|attribute| (attribute.attr, attribute.value)).collect();
        // 12563 MB/s of 10^6 bytes are 11981 MiB/s.
        let expected = [("Bandwidth", 11_981), ("Latency", 80), ("ReadBandwidth", 23_962), ("ReadLatency", 80)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_string(), value)));
    }
}
