//! Reads a measured map from the results of a run. All values are medians that the run's findings contain.

use super::groups::{CpuGroup, groups, relation};
use super::plan::{
    BANDWIDTH, BANDWIDTH_NON_TEMPORAL, CORE_TO_CORE, EXPERIMENT, LATENCY_BY_SIZE, LOADED, MEMORY_LATENCY, SMT_CACHE,
    SMT_COMPUTE,
};
use super::{
    Bandwidth, CacheLevel, CorePair, LatencyPoint, LoadedPoint, MeasuredMap, MeasuredValue, MemoryPath, MissingCell,
    SmtPair,
};
use super::{nodes, sizes};
use crate::analysis::finding::{CellFinding, MetricFinding, RunFinding};
use crate::placements::candidates::pairs;
use crate::stats::statistics::{RESAMPLES, TRIALS_MIN, ratio_of_medians, ratio_of_pairs};
use crate::values::id_set::{CpuId, NodeId};
use crate::values::plan::{Cell, Plan};
use crate::values::topology::Topology;
use crate::values::units::Bytes;
use crate::values::workload::Value;

/// The loops of `stream` that a map contains: they differ in the ratio of reads and writes.
const MIXES: [&str; 4] = ["read", "write", "copy", "triad"];

/// Fixed seed, so that intervals do not change when a map is read again.
const RATIO_SEED: u64 = 1;

/// Returns the map of a finished or unfinished run; `None` if the run belongs to another experiment.
pub fn measured_map(plan: &Plan, topology: &Topology, finding: &RunFinding) -> Option<MeasuredMap> {
    if plan.experiment != EXPERIMENT {
        return None;
    }
    let cells: Vec<(&Cell, &CellFinding)> = plan.cells.iter().zip(&finding.cells).collect();
    let of = |test: &'static str| cells.iter().filter(move |(cell, _)| cell.test == test);
    let groups = groups(topology);
    let mut sizes: Vec<LatencyPoint> = of(LATENCY_BY_SIZE).filter_map(|both| size_point(topology, both)).collect();
    // The memory's own measurement is the last point of the curve.
    let curves: Vec<(CpuId, NodeId)> = sizes.iter().map(|point| (point.cpu, point.node)).collect();
    let last = of(MEMORY_LATENCY).filter_map(|both| size_point(topology, both));
    sizes.extend(last.filter(|point| curves.contains(&(point.cpu, point.node))));
    sizes.sort_by_key(|point| (point.cpu, point.bytes));
    let memory = memory(topology, &groups, &cells);
    Some(MeasuredMap {
        core_to_core: core_pairs(topology, &of(CORE_TO_CORE).collect::<Vec<_>>()),
        node_distances: nodes::distances(&memory),
        memory,
        steps: steps(topology, &sizes),
        sizes,
        loaded: of(LOADED).filter_map(|both| loaded_point(&groups, both)).collect(),
        smt: smt(&cells),
        missing: missing(&cells, finding),
    })
}

fn core_pairs(topology: &Topology, cells: &[&(&Cell, &CellFinding)]) -> Vec<CorePair> {
    let classes = pairs(topology);
    // If there are more pairs than classes, all pairs were requested, and none represents others.
    let by_class = cells.len() <= classes.len();
    let pair = |(cell, finding): &&(&Cell, &CellFinding)| {
        let [a, b] = cell.placement.bindings[..] else { return None };
        let class = classes.iter().find(|class| by_class && (class.a, class.b) == (a, b));
        let (home, latency) = (home(cell), measured(finding, "latency")?);
        let alike = class.map_or(1, |class| class.alike);
        // Runs stored before `op` existed transferred lines by stores.
        let op = cell.parameters.0.get("op").map_or("store".into(), ToString::to_string);
        Some(CorePair { a, b, relation: relation(topology, a, b), alike, home, op, latency })
    };
    cells.iter().filter_map(pair).collect()
}

fn memory(topology: &Topology, groups: &[CpuGroup], cells: &[(&Cell, &CellFinding)]) -> Vec<MemoryPath> {
    let mut paths: Vec<MemoryPath> = Vec::new();
    for (cell, finding) in cells {
        let test = cell.test.as_str();
        if ![MEMORY_LATENCY, BANDWIDTH, BANDWIDTH_NON_TEMPORAL].contains(&test) {
            continue;
        }
        let first = cell.placement.bindings.first().copied();
        let Some((group, node)) =
            groups.iter().find(|group| first.is_some_and(|cpu| group.cpus.contains(cpu))).zip(home(cell))
        else {
            continue;
        };
        let at = paths.iter().position(|path| (&path.cpus, path.node) == (&group.cpus, node)).unwrap_or_else(|| {
            paths.push(empty_path(topology, group, node));
            paths.len() - 1
        });
        if test == MEMORY_LATENCY {
            paths[at].latency = measured(finding, "latency");
            continue;
        }
        let non_temporal = test == BANDWIDTH_NON_TEMPORAL;
        // Loops without stores are the same with and without non-temporal stores.
        for mix in MIXES.into_iter().filter(|mix| !(non_temporal && *mix == "read")) {
            let rate = measured(finding, mix);
            paths[at].bandwidth.extend(rate.map(|rate| Bandwidth { mix: mix.into(), non_temporal, rate }));
        }
    }
    paths.retain(|path| path.latency.is_some() || !path.bandwidth.is_empty());
    paths
}

fn empty_path(topology: &Topology, group: &CpuGroup, node: NodeId) -> MemoryPath {
    let stated = || topology.node_distances()?.between(group.home?, node);
    MemoryPath {
        cpus: group.cpus.clone(),
        node,
        local: group.home == Some(node),
        distance: stated(),
        latency: None,
        bandwidth: Vec::new(),
    }
}

fn size_point(topology: &Topology, (cell, finding): &(&Cell, &CellFinding)) -> Option<LatencyPoint> {
    let Some(Value::Integer(bytes)) = cell.parameters.0.get("size") else { return None };
    let (cpu, bytes) = (*cell.placement.bindings.first()?, Bytes(u64::try_from(*bytes).ok()?));
    let level = sizes::cache_holding(&sizes::caches(topology, cpu), bytes);
    Some(LatencyPoint { cpu, node: home(cell)?, bytes, level, latency: measured(finding, "latency")? })
}

/// Returns one level for each cache that a measured size fits into, then one for memory.
fn steps(topology: &Topology, sizes: &[LatencyPoint]) -> Vec<CacheLevel> {
    let mut cpus: Vec<CpuId> = sizes.iter().map(|point| point.cpu).collect();
    cpus.dedup();
    let mut steps = Vec::new();
    for cpu in cpus {
        let caches = sizes::caches(topology, cpu);
        let points = || sizes.iter().filter(move |point| point.cpu == cpu);
        let bounds = caches.iter().map(|cache| (format!("L{}", cache.level), cache.bytes));
        for (level, cache_bytes) in bounds.chain([("memory".into(), Bytes(0))]) {
            let inside = points().filter(|point| point.level == level);
            let mut fitting = inside.clone().filter(|point| cache_bytes.0 == 0 || point.bytes.0 <= cache_bytes.0 / 2);
            // If no size uses at most half of the cache, the smallest size that requires this cache.
            if let Some(point) = fitting.next_back().or_else(|| inside.clone().next()) {
                let (at_bytes, latency) = (point.bytes, point.latency.clone());
                steps.push(CacheLevel { cpu, level, cache_bytes, at_bytes, latency });
            }
        }
    }
    steps
}

fn loaded_point(groups: &[CpuGroup], (cell, finding): &(&Cell, &CellFinding)) -> Option<LoadedPoint> {
    let first = *cell.placement.bindings.first()?;
    let group = groups.iter().find(|group| group.cpus.contains(first))?;
    let readers = cell.placement.threads - 1;
    let delay = match cell.parameters.0.get("delay") {
        Some(Value::Integer(ns)) if readers > 0 => u64::try_from(*ns).ok(),
        _ => None,
    };
    Some(LoadedPoint {
        cpus: group.cpus.clone(),
        node: home(cell)?,
        readers,
        delay_ns: delay,
        load: measured(finding, "load").filter(|_| readers > 0),
        latency: measured(finding, "latency")?,
    })
}

/// Returns every core that was measured with one thread and with both.
fn smt(cells: &[(&Cell, &CellFinding)]) -> Vec<SmtPair> {
    let mut found = Vec::new();
    for (test, what, metric) in [(SMT_COMPUTE, "compute", "solutions"), (SMT_CACHE, "cache", "latency")] {
        let of_test = || cells.iter().filter(move |(cell, _)| cell.test == test);
        for (both_cell, both) in of_test() {
            let [a, b] = both_cell.placement.bindings[..] else { continue };
            let alone = of_test().find(|(cell, _)| cell.placement.bindings == [a]);
            let values = alone.and_then(|(_, alone)| Some((measured(alone, metric)?, measured(both, metric)?)));
            let Some((alone, both)) = values else { continue };
            found.extend(smt_pair([a, b], what, alone, both));
        }
    }
    found
}

fn smt_pair(cpus: [CpuId; 2], what: &str, alone: MeasuredValue, both: MeasuredValue) -> Option<SmtPair> {
    // Blocks that both have are compared in pairs; if a trial is missing, they are independent samples.
    let estimate = if alone.samples.len() == both.samples.len() {
        ratio_of_pairs(&alone.samples, &both.samples, RATIO_SEED)?
    } else {
        ratio_of_medians(&alone.samples, &both.samples, RATIO_SEED, RESAMPLES)?
    };
    let is_replicated = alone.samples.len().min(both.samples.len()) >= TRIALS_MIN;
    let interval = estimate.interval.filter(|_| is_replicated);
    Some(SmtPair {
        cpus,
        what: what.into(),
        ratio: estimate.ratio,
        ratio_ci_low: interval.map(|interval| interval.low),
        ratio_ci_high: interval.map(|interval| interval.high),
        alone,
        both,
    })
}

fn home(cell: &Cell) -> Option<NodeId> {
    cell.placement.memory.promised_nodes()?.first()
}

fn measured(finding: &CellFinding, metric: &str) -> Option<MeasuredValue> {
    let metric: &MetricFinding = finding.metrics.iter().find(|found| found.name == metric)?;
    Some(MeasuredValue {
        unit: metric.unit.clone(),
        median: metric.median?,
        ci_low: metric.ci_low,
        ci_high: metric.ci_high,
        samples: metric.samples.clone(),
        suspect: finding.verdicts.suspect,
    })
}

/// Returns the cells that the plan skipped, then those without a valid trial.
fn missing(cells: &[(&Cell, &CellFinding)], finding: &RunFinding) -> Vec<MissingCell> {
    let left_out = finding.skipped.iter().map(|skip| MissingCell {
        what: skip.test.clone(),
        placement: skip.placement.clone(),
        why: skip.why.clone(),
    });
    let empty = cells.iter().filter(|(_, finding)| finding.metrics.iter().all(|metric| metric.median.is_none()));
    let to_nothing = empty.map(|(cell, finding)| MissingCell {
        what: cell.test.clone(),
        placement: cell.placement.name.clone(),
        why: finding.reasons.first().map_or("not measured yet".into(), |(why, _)| why.clone()),
    });
    left_out.chain(to_nothing).collect()
}
