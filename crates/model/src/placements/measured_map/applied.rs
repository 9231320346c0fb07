//! Replaces the reported speeds of a machine by measured ones, and distinguishes CPUs that are equivalent by the
//! topology but differ in measurements. Values are quantised like reported ones: noise of 10 % is ignored.

use std::collections::BTreeMap;

use super::nodes::LOCAL_DISTANCE;
use super::{CorePair, MeasuredMap};
use crate::placements::candidates::pairs_keep;
use crate::placements::candidates::quantise::quantise;
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{Distances, Topology};

/// A topology with measured speeds.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredTopology {
    /// The topology. Its first distances and its memory attributes are the measured ones, if there are any.
    pub topology: Topology,
    /// Classes of CPUs that the measurement distinguishes. Empty if it distinguishes none.
    pub classes: Vec<CpuSet>,
}

impl MeasuredMap {
    /// Adds the measured values to a topology of the same machine.
    pub fn apply_to(&self, topology: &Topology) -> MeasuredTopology {
        let mut topology = topology.clone();
        if let Some(distances) = self.levelled_distances(&topology) {
            topology.distances.insert(0, distances);
        }
        let measured = self.memory_attributes();
        let replaced = |attr: &str| measured.iter().any(|one| one.attr == attr);
        topology.memory_attributes.retain(|stated| !replaced(&stated.attr));
        topology.memory_attributes.extend(measured);
        let classes = classes(&topology, &self.core_to_core);
        MeasuredTopology { topology, classes }
    }

    /// Returns distances between all nodes: 10 from a node to itself, others by the ratio of latencies. A node without
    /// CPUs is as far from others as they are from it. `None` if a distance is neither measured nor reported.
    fn levelled_distances(&self, topology: &Topology) -> Option<Distances> {
        let nodes: Vec<NodeId> = topology.nodes.iter().map(|node| node.os).collect();
        let latencies: Vec<u64> = self.node_distances.iter().map(|hop| tenths(hop.latency_ns)).collect();
        let level = levelled(&latencies);
        let latency = |from, to| self.distance(from, to).map(|hop| level[&tenths(hop.latency_ns)]);
        let measured = |from: NodeId, to: NodeId| {
            Some((LOCAL_DISTANCE * latency(from, to)? as f64 / latency(from, from)? as f64).round() as u64)
        };
        let stated = |from, to| match topology.node_distances() {
            Some(distances) => distances.between(from, to),
            None => (from == to).then_some(LOCAL_DISTANCE as u64),
        };
        let between = |from, to| measured(from, to).or_else(|| measured(to, from)).or_else(|| stated(from, to));
        let values: Option<Vec<u64>> =
            nodes.iter().flat_map(|from| nodes.iter().map(move |to| between(*from, *to))).collect();
        let values = values.filter(|_| nodes.len() > 1 && !latencies.is_empty())?;
        Some(Distances::measured(nodes, values))
    }
}

/// Tenths of ns: integers are compared and counted exactly, and less cannot be measured.
fn tenths(ns: f64) -> u64 {
    (ns * 10.0).round().max(1.0) as u64
}

/// Maps each value to the median of its level.
fn levelled(values: &[u64]) -> BTreeMap<u64, u64> {
    let level_of = quantise(values.to_vec());
    let mut members: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.iter().for_each(|value| members.entry(level_of[value]).or_default().push(*value));
    values.iter().map(|value| (*value, members[&level_of[value]][members[&level_of[value]].len() / 2])).collect()
}

/// Returns the classes of CPUs that latencies between cores distinguish. `None` unless every pair was measured, because
/// a pair that represents others provides no information about them.
fn classes(topology: &Topology, measured: &[CorePair]) -> Vec<CpuSet> {
    let level_of = quantise(measured.iter().map(|pair| tenths(pair.latency.median)).collect());
    let level: BTreeMap<(CpuId, CpuId), u32> = measured
        .iter()
        .flat_map(|pair| [((pair.a, pair.b), pair), ((pair.b, pair.a), pair)])
        .map(|(ends, pair)| (ends, level_of[&tenths(pair.latency.median)]))
        .collect();
    let mut cpus: Vec<CpuId> = measured.iter().flat_map(|pair| [pair.a, pair.b]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < 2 || level.len() != cpus.len() * (cpus.len() - 1) {
        return Vec::new();
    }
    let between = |a: CpuId, b: CpuId| level.get(&(a, b)).copied();
    let coarse = refined(&cpus, &between);
    let classes = if pairs_keep(topology, &coarse, between) { coarse } else { twins(&cpus, &between) };
    if classes.len() > 1 { classes } else { Vec::new() }
}

/// Splits classes whose CPUs have different levels to the others or their classes, until nothing changes.
fn refined(cpus: &[CpuId], between: &impl Fn(CpuId, CpuId) -> Option<u32>) -> Vec<CpuSet> {
    let mut classes = vec![cpus.iter().copied().collect::<CpuSet>()];
    loop {
        let class_of = |cpu: CpuId| classes.iter().position(|class| class.contains(cpu));
        let seen_from = |cpu: CpuId| {
            let others = cpus.iter().filter(move |other| **other != cpu);
            let mut seen: Vec<_> = others.map(|other| (between(cpu, *other), class_of(*other))).collect();
            seen.sort_unstable();
            (class_of(cpu), seen)
        };
        let mut finer: BTreeMap<_, CpuSet> = BTreeMap::new();
        cpus.iter().for_each(|cpu| finer.entry(seen_from(*cpu)).or_default().insert(*cpu));
        if finer.len() == classes.len() {
            return classes;
        }
        classes = finer.into_values().collect();
    }
}

/// Returns CPUs that can be exchanged without changing a level between any two CPUs.
fn twins(cpus: &[CpuId], between: &impl Fn(CpuId, CpuId) -> Option<u32>) -> Vec<CpuSet> {
    let mut classes: Vec<CpuSet> = Vec::new();
    for cpu in cpus {
        let twin = |class: &&mut CpuSet| {
            class.first().is_some_and(|first| {
                let mut others = cpus.iter().filter(|other| ![first, *cpu].contains(other));
                others.all(|other| between(first, *other) == between(*cpu, *other))
            })
        };
        match classes.iter_mut().find(twin) {
            Some(class) => {
                class.insert(*cpu);
            }
            None => classes.push(CpuSet::from_iter([*cpu])),
        }
    }
    classes
}
