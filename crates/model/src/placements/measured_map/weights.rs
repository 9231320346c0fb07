//! Weights of memory nodes for weighted interleaving, from the bandwidths of a measured map. Must not depend on how the
//! kernel stores weights.

use std::collections::BTreeMap;

use serde::Serialize;

use super::nodes::ordinary;
use super::{MeasuredMap, MemoryPath};
use crate::hint::Hinted;
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuSet, NodeId};
use crate::values::topology::Topology;

/// The kernel's directory of weights, without the first slash. Linux 6.9 introduced it together with the policy.
pub const WEIGHTS_DIR: &str = "sys/kernel/mm/mempolicy/weighted_interleave";

/// Largest weight that the kernel accepts.
const WEIGHT_MAX: u8 = u8::MAX;

/// Maximum error of a weight relative to the measured bandwidth, if weights up to [`WEIGHT_MAX`] allow it. It is half of
/// the difference up to which placements treat measured values as equal.
const ERROR_MAX: f64 = 0.05;

/// The weight of a memory node, and the bandwidth it was computed from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeWeight {
    pub node: NodeId,
    /// The group of CPUs with the highest bandwidth to this node.
    pub cpus: CpuSet,
    /// Bandwidth of triad with ordinary stores from these CPUs, in MB/s.
    pub bandwidth_mb_s: f64,
    /// Fraction of the sum of all nodes' bandwidths.
    pub share: f64,
    /// Number of consecutive pages that the kernel places on this node, 1 to 255.
    pub weight: u8,
}

/// The weights in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelWeights {
    /// Whether the kernel derives the weights from firmware tables; `None` if it cannot (before Linux 6.16).
    pub auto: Option<bool>,
    /// Weight of each node.
    pub weights: BTreeMap<NodeId, u8>,
}

/// Weights of a map, and the values in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WeightsFinding {
    /// In ascending order of nodes.
    pub weights: Vec<NodeWeight>,
    /// The kernel's weights before any change. `None` if it has none, or if the map is of another machine.
    pub kernel: Option<KernelWeights>,
    pub state: WeightsState,
    /// Files and values that are written, in this order; empty unless requested.
    pub writes: Vec<WeightWrite>,
}

/// The use of computed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightsState {
    /// Nothing was requested.
    Computed,
    /// They would be written: nothing was changed.
    Planned,
    /// They were written and read back.
    Applied,
}

/// A value of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeightWrite {
    pub path: String,
    pub value: String,
}

impl WeightsFinding {
    /// Returns the shell commands that set the weights.
    pub fn commands(&self) -> Vec<String> {
        self.weights.iter().map(|one| format!("echo {} > /{}", one.weight, weight_path(one.node))).collect()
    }

    /// Returns the lines of systemd-tmpfiles that set the weights at each boot.
    pub fn boot_lines(&self) -> Vec<String> {
        self.weights.iter().map(|one| format!("w /{} - - - - {}", weight_path(one.node), one.weight)).collect()
    }
}

/// Returns the file of a node's weight, without the first slash.
pub fn weight_path(node: NodeId) -> String {
    format!("{WEIGHTS_DIR}/node{node}")
}

/// The reason why a map has no weights.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WeightError {
    #[error("the machine has one memory node: there is nothing to interleave over")]
    OneNode,
    #[error("the bandwidth of memory node {0} was not measured")]
    NotMeasured(NodeId),
}

impl Hinted for WeightError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::OneNode => None,
            Self::NotMeasured(_) => {
                Some("complete the map with nearfar map --measure; its part 'Not measured' has the reason".into())
            }
        }
    }
}

impl MeasuredMap {
    /// Returns the weights of the memory nodes of the machine: small integers in proportion to the bandwidth of each node,
    /// as measured from the group of CPUs that is fastest there. Other groups measure the links between nodes rather than
    /// the memory.
    ///
    /// # Errors
    /// If there are fewer than two nodes, or if the bandwidth of a node was not measured.
    pub fn interleave_weights(&self, topology: &Topology) -> Result<Vec<NodeWeight>, WeightError> {
        let mut nodes = CoreIndex::new(topology).memory_nodes();
        nodes.sort();
        self.weights_of(&nodes)
    }

    fn weights_of(&self, nodes: &[NodeId]) -> Result<Vec<NodeWeight>, WeightError> {
        if nodes.len() < 2 {
            return Err(WeightError::OneNode);
        }
        let fastest = |node: &NodeId| self.fastest_path(*node).ok_or(WeightError::NotMeasured(*node));
        let paths: Vec<(&MemoryPath, f64)> = nodes.iter().map(fastest).collect::<Result<_, _>>()?;
        let rates: Vec<f64> = paths.iter().map(|(_, rate)| *rate).collect();
        let total: f64 = rates.iter().sum();
        let weighted = |((path, rate), weight): (&(&MemoryPath, f64), u8)| NodeWeight {
            node: path.node,
            cpus: path.cpus.clone(),
            bandwidth_mb_s: *rate,
            share: rate / total,
            weight,
        };
        Ok(paths.iter().zip(smallest_weights(&rates)).map(weighted).collect())
    }

    /// Returns the path with the highest bandwidth to a node, and this bandwidth.
    fn fastest_path(&self, node: NodeId) -> Option<(&MemoryPath, f64)> {
        let rate = |path: &MemoryPath| ordinary(path, "triad").map(|rate| rate.median).filter(|rate| *rate > 0.0);
        let paths = self.memory.iter().filter(|path| path.node == node);
        paths.filter_map(|path| Some((path, rate(path)?))).max_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// Returns the smallest weights within [`ERROR_MAX`] of these positive rates, or else those with the smallest error. Small
/// weights spread short arrays, too: the kernel places as many consecutive pages on a node as its weight.
fn smallest_weights(rates: &[f64]) -> Vec<u8> {
    let greatest = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let scaled = |most: u8| -> (f64, Vec<u8>) {
        let exact = rates.iter().map(|rate| rate / greatest * f64::from(most));
        let rounded: Vec<u8> = exact.clone().map(|exact| exact.round().max(1.0) as u8).collect();
        let errors = exact.zip(&rounded).map(|(exact, weight)| (f64::from(*weight) / exact - 1.0).abs());
        (errors.fold(0.0, f64::max), rounded)
    };
    let all = || (1..=WEIGHT_MAX).map(scaled);
    let smallest = all().find(|(error, _)| *error <= ERROR_MAX);
    let best = smallest.or_else(|| all().min_by(|(a, _), (b, _)| a.total_cmp(b)));
    best.map(|(_, weights)| weights).expect("there is a weight up to the maximum")
}

#[cfg(test)]
mod tests {
    use super::super::{Bandwidth, MeasuredValue};
    use super::*;

    fn path(cpus: &str, node: u32, rates: &[(&str, bool, f64)]) -> MemoryPath {
        let rate = |median| MeasuredValue {
            unit: "MB/s".into(),
            median,
            ci_low: None,
            ci_high: None,
            samples: vec![median],
            suspect: 0,
        };
        let bandwidth = |(mix, non_temporal, median): &(&str, bool, f64)| Bandwidth {
            mix: (*mix).into(),
            non_temporal: *non_temporal,
            rate: rate(*median),
        };
        MemoryPath {
            cpus: CpuSet::parse_list(cpus).unwrap(),
            node: NodeId(node),
            local: false,
            distance: None,
            latency: None,
            bandwidth: rates.iter().map(bandwidth).collect(),
        }
    }

    fn triad(cpus: &str, node: u32, median: f64) -> MemoryPath {
        // Unique values, so that confusing two of them fails the test.
        path(cpus, node, &[("read", false, 7.0 * median), ("triad", true, 5.0 * median), ("triad", false, median)])
    }

    fn nodes(count: u32) -> Vec<NodeId> {
        (0..count).map(NodeId).collect()
    }

    fn map(memory: Vec<MemoryPath>) -> MeasuredMap {
        MeasuredMap { memory, ..MeasuredMap::default() }
    }

    #[test]
    fn weights_follow_the_fastest_path_to_each_node() {
        let cxl = map(vec![
            triad("0-3", 0, 198_000.0),
            triad("0-3", 1, 90_000.0),
            triad("0-3", 2, 50_000.0),
            triad("4-7", 0, 88_000.0),
            triad("4-7", 1, 202_000.0),
            triad("4-7", 2, 31_000.0),
        ]);
        let weights = cxl.weights_of(&nodes(3)).unwrap();
        let found: Vec<(u32, String, u8)> =
            weights.iter().map(|one| (one.node.0, one.cpus.to_string(), one.weight)).collect();
        assert_eq!(found, [(0, "0-3".into(), 4), (1, "4-7".into(), 4), (2, "0-3".into(), 1)]);
        assert_eq!(weights.iter().map(|one| one.bandwidth_mb_s).collect::<Vec<_>>(), [198e3, 202e3, 50e3]);
        let shares: Vec<f64> = weights.iter().map(|one| (one.share * 1000.0).round()).collect();
        assert_eq!(shares, [440.0, 449.0, 111.0]);
    }

    #[test]
    fn weights_are_the_smallest_within_the_error() {
        let cases: [(&[f64], &[u8]); 9] = [
            (&[100.0, 100.0], &[1, 1]),
            // Noise.
            (&[100.0, 98.0, 99.0], &[1, 1, 1]),
            (&[300.0, 100.0], &[3, 1]),
            (&[100.0, 30.0], &[7, 2]),
            (&[100.0, 85.0], &[6, 5]),
            (&[30.0, 100.0, 200.0], &[2, 7, 14]),
            (&[1000.0, 4.0], &[239, 1]),
            // More than the kernel can express.
            (&[1000.0, 1.0], &[255, 1]),
            (&[0.001, 0.003], &[1, 3]),
        ];
        for (rates, expected) in cases {
            assert_eq!(smallest_weights(rates), expected, "{rates:?}");
        }
    }

    #[test]
    fn all_representable_ratios_are_within_the_error() {
        for per_mille in 4..=1000 {
            let share = f64::from(per_mille) / 1000.0;
            let weights = smallest_weights(&[1.0, share]);
            let ratio = f64::from(weights[1]) / f64::from(weights[0]);
            assert!((ratio / share - 1.0).abs() <= ERROR_MAX + 1e-9, "{share}: {weights:?}");
        }
    }

    #[test]
    fn weights_require_two_measured_nodes() {
        let one = map(vec![triad("0-3", 0, 100.0)]);
        assert_eq!(one.weights_of(&nodes(1)), Err(WeightError::OneNode));
        assert_eq!(one.weights_of(&nodes(2)), Err(WeightError::NotMeasured(NodeId(1))));
        for rates in [&[][..], &[("triad", true, 5.0)], &[("triad", false, 0.0)]] {
            let holes = map(vec![triad("0-3", 0, 100.0), path("0-3", 1, rates)]);
            let error = holes.weights_of(&nodes(2)).unwrap_err();
            assert_eq!(error, WeightError::NotMeasured(NodeId(1)), "{rates:?}");
            assert!(error.hint().is_some_and(|hint| hint.contains("nearfar map --measure")));
        }
    }
}
