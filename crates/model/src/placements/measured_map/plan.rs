//! The plan of a measured map: ordinary cells of built-in workloads, each named by its purpose.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{CpuGroup, groups};
use super::sizes;
use crate::experiments::experiment::PlanError;
use crate::placements::candidates::{CpuPair, all_pairs, pairs};
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::{KernelFeatures, parse_explicit};
use crate::values::id_set::{CpuId, NodeId};
use crate::values::placement::Placement;
use crate::values::plan::{Cell, Plan, SkippedCell, StoppingRule};
use crate::values::topology::Topology;
use crate::values::units::{Bytes, Nanos};
use crate::values::workload::WorkloadSpec;

/// Experiment name of runs of measured maps.
pub const EXPERIMENT: &str = "map";

/// Names of the tests, by which `result` reads the map.
pub(super) const CORE_TO_CORE: &str = "core-to-core";
pub(super) const MEMORY_LATENCY: &str = "memory-latency";
pub(super) const BANDWIDTH: &str = "bandwidth";
pub(super) const BANDWIDTH_NON_TEMPORAL: &str = "bandwidth-non-temporal";
pub(super) const LATENCY_BY_SIZE: &str = "latency-by-size";
pub(super) const LOADED: &str = "loaded-latency";
pub(super) const SMT_COMPUTE: &str = "smt-compute";
pub(super) const SMT_CACHE: &str = "smt-cache";

/// Delays of readers after every 4 KiB, which takes some hundred ns itself: from about a tenth to full load.
const DELAYS: [&str; 3] = ["5us", "1us", "0ns"];
const DELAYS_THOROUGH: [&str; 7] = ["20us", "5us", "2us", "1us", "500ns", "200ns", "0ns"];

/// Maximum number of cells, because a plan is kept in memory: all pairs of 1152 CPUs would be 663 000 cells.
const CELLS_MAX: usize = 10_000;
/// Time limit on a small machine: the documented two minutes, less the time after the last block.
const BUDGET: Nanos = Nanos(100_000_000_000);
const BUDGET_THOROUGH: Nanos = Nanos(3_600_000_000_000);
/// Time limit on a larger machine, which has more cells; an interval requires several blocks of them.
const BLOCKS_AFFORDED: u64 = 7;

/// Options of a measured map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// Measure every pair of CPUs, not one of each class.
    pub all_pairs: bool,
    /// Use more sizes and more blocks, until intervals are narrow.
    pub thorough: bool,
    /// Use smoke-test sizes and two blocks, to test that it runs.
    pub smoke: bool,
}

struct PlanBuilder<'a> {
    topology: &'a Topology,
    specs: &'a [WorkloadSpec],
    options: MapOptions,
    cells: Vec<Cell>,
    skipped: Vec<SkippedCell>,
}

/// Returns the plan of a measured map of this machine. `specs` are the available workloads.
pub fn plan(topology: &Topology, specs: &[WorkloadSpec], options: MapOptions) -> Result<Plan, PlanError> {
    let pairs = if options.all_pairs { all_pairs(topology) } else { pairs(topology) };
    if pairs.len() > CELLS_MAX {
        let (count, classes) = (pairs.len(), super::plan::pairs(topology).len());
        return Err(PlanError::Invalid(format!(
            "--all means {count} pairs of CPUs, more than the limit of {CELLS_MAX}; without --all, {classes} pairs represent them"
        )));
    }
    let mut draft = PlanBuilder { topology, specs, options, cells: Vec::new(), skipped: Vec::new() };
    draft.core_to_core(&pairs);
    let mut nodes = CoreIndex::new(topology).memory_nodes();
    nodes.sort();
    for group in groups(topology) {
        for node in &nodes {
            draft.memory(&group, *node);
        }
    }
    draft.by_size();
    for group in groups(topology) {
        draft.loaded(&group);
    }
    draft.smt();
    if draft.cells.is_empty() {
        let reason = draft.skipped.first().map_or("the machine has no known memory node", |skip| skip.why.as_str());
        return Err(PlanError::NothingToRun(format!("this machine has nothing to measure: {reason}")));
    }
    Ok(draft.finished())
}

impl PlanBuilder<'_> {
    fn core_to_core(&mut self, pairs: &[CpuPair]) {
        if pairs.is_empty() {
            let why = "there is only one CPU, but a transfer needs two".to_string();
            self.skipped.push(SkippedCell { test: CORE_TO_CORE.into(), placement: String::new(), why });
        }
        let home = |cpu: CpuId| CoreIndex::new(self.topology).core_of(cpu).and_then(|core| core.home);
        let homes: BTreeMap<CpuId, Option<NodeId>> = pairs.iter().map(|pair| (pair.a, home(pair.a))).collect();
        // A sample of 2000 round trips takes about 0.4 ms, so the resolution of the clock is negligible.
        let set = [("op", "store".to_string()), ("rounds", "100".to_string()), ("round-trips", "2000".to_string())];
        for pair in pairs {
            let home = homes.get(&pair.a).copied().flatten();
            self.cell(CORE_TO_CORE, "pingpong", &set, &[pair.a, pair.b], home);
        }
    }

    fn memory(&mut self, group: &CpuGroup, node: NodeId) {
        let bytes = sizes::memory_bytes(self.topology, node);
        let time = if self.options.thorough { "1s" } else { "500ms" };
        let set = [("size", size(bytes)), ("time", time.to_string())];
        self.cell(MEMORY_LATENCY, "chase", &set, &group.firsts[..1], Some(node));

        let level = self.topology.last_cache_level().unwrap_or(0);
        let caches = self.topology.caches(level).filter(|cache| cache.cpus.intersects(&group.cpus)).count();
        let bytes = sizes::array_bytes(self.topology, caches, node);
        let passes = if self.options.thorough { "10" } else { "5" };
        for (test, non_temporal) in [(BANDWIDTH, "false"), (BANDWIDTH_NON_TEMPORAL, "true")] {
            let set =
                [("size", size(bytes)), ("passes", passes.to_string()), ("non-temporal", non_temporal.to_string())];
            self.cell(test, "stream", &set, &group.firsts, Some(node));
        }
    }

    /// From the first CPU of each kind of core, through its caches to its home memory.
    fn by_size(&mut self) {
        let ground = CoreIndex::new(self.topology);
        let mut kinds = BTreeSet::new();
        let firsts: Vec<(CpuId, Option<NodeId>)> = ground
            .cores
            .iter()
            .filter(|core| kinds.insert(core.kind))
            .filter_map(|core| Some((*core.cpus.first()?, core.home)))
            .collect();
        for (cpu, home) in firsts {
            let Some(node) = home else { continue };
            let largest = sizes::memory_bytes(self.topology, node);
            for bytes in sizes::sizes(largest, self.options.thorough) {
                let set = [("size", size(bytes)), ("time", "100ms".to_string())];
                self.cell(LATENCY_BY_SIZE, "chase", &set, &[cpu], Some(node));
            }
        }
    }

    /// The first core of the group measures latency in its home memory while the others read.
    fn loaded(&mut self, group: &CpuGroup) {
        let Some(node) = group.home else { return };
        let threads = group.firsts.len();
        if threads < 2 {
            let why = "a second core is required to generate load".to_string();
            self.skipped.push(SkippedCell { test: LOADED.into(), placement: format!("-C {}", group.cpus), why });
            return;
        }
        let bytes = sizes::loaded_bytes(self.topology, threads, node);
        let set = |delay: &str| [("size", size(bytes)), ("delay", delay.to_string()), ("time", "300ms".to_string())];
        self.cell(LOADED, "loaded", &set("0ns"), &group.firsts[..1], Some(node));
        let delays: &[&str] = if self.options.thorough { &DELAYS_THOROUGH } else { &DELAYS };
        for delay in delays {
            self.cell(LOADED, "loaded", &set(delay), &group.firsts, Some(node));
        }
    }

    /// The first core of each kind that has two threads: one thread alone, then both.
    fn smt(&mut self) {
        let ground = CoreIndex::new(self.topology);
        let mut kinds = BTreeSet::new();
        let cores: Vec<([CpuId; 2], Option<NodeId>)> = ground
            .cores
            .iter()
            .filter_map(|core| Some((core.kind, [*core.cpus.first()?, *core.cpus.get(1)?], core.home)))
            .filter(|(kind, ..)| kinds.insert(*kind))
            .map(|(_, pair, home)| (pair, home))
            .collect();
        if cores.is_empty() {
            let why = "no core has two threads".to_string();
            self.skipped.push(SkippedCell { test: SMT_COMPUTE.into(), placement: String::new(), why });
        }
        for (pair, home) in cores {
            let first = sizes::caches(self.topology, pair[0]).first().map_or(32 << 10, |cache| cache.bytes.0);
            // The buffers of both threads together fill half of the cache that they share.
            let chase = [("size", size(Bytes(first / 4))), ("time", "200ms".to_string())];
            for cpus in [&pair[..1], &pair[..]] {
                self.cell(SMT_COMPUTE, "queens", &[("n", "13".to_string())], cpus, home);
                self.cell(SMT_CACHE, "chase", &chase, cpus, home);
            }
        }
    }

    /// Adds a cell with one thread on each of these CPUs and memory on this node.
    fn cell(&mut self, test: &str, workload: &str, set: &[(&str, String)], cpus: &[CpuId], node: Option<NodeId>) {
        let list = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let memory = node.map_or(String::new(), |node| format!(" -m {node}"));
        let words = format!("-C {list}{memory}");
        let skip = |why: String| SkippedCell { test: test.into(), placement: words.clone(), why };
        let made = self.placed(&words, cpus).and_then(|placement| {
            let spec = self.specs.iter().find(|spec| spec.name == workload);
            let spec = spec.ok_or_else(|| format!("this version has no workload '{workload}'"))?;
            let mut overrides: BTreeMap<String, String> =
                set.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect();
            if self.options.smoke {
                let smoke = spec.parameters.iter().filter_map(|one| Some((one.name.clone(), one.smoke.clone()?)));
                // Curves vary the size, so the smoke-test size does not replace it.
                overrides
                    .extend(smoke.filter(|(name, _)| name != "size" || ![LATENCY_BY_SIZE, SMT_CACHE].contains(&test)));
            }
            let parameters = spec.resolve(&overrides, self.topology.last_cache_bytes())?;
            Ok(Cell::new(spec, test.into(), parameters, placement))
        });
        match made {
            // At smoke-test sizes, two cells can be equal.
            Ok(cell) if self.cells.iter().any(|other| other.key == cell.key) => {}
            Ok(cell) => self.cells.push(cell),
            Err(why) => self.skipped.push(skip(why)),
        }
    }

    fn placed(&self, words: &str, cpus: &[CpuId]) -> Result<Placement, String> {
        let offers = KernelFeatures::default();
        let placement = parse_explicit(self.topology, words, Some(cpus.len()), offers);
        // Threads are pinned in the order of the list, which may differ from logical order.
        placement.map(|placement| Placement { bindings: cpus.to_vec(), ..placement }).map_err(|why| why.to_string())
    }

    fn finished(self) -> Plan {
        let specs = self.specs;
        let used = |spec: &&WorkloadSpec| self.cells.iter().any(|cell| cell.workload == spec.name);
        let workloads: Vec<WorkloadSpec> = specs.iter().filter(used).cloned().collect();
        let repeat = self.repeat();
        Plan {
            experiment: EXPERIMENT.into(),
            question: "How far apart are the cores and memory nodes of this machine?".into(),
            workloads,
            repeat,
            compare_by: "placement".into(),
            baseline: None,
            efficiency: Vec::new(),
            budget_wins: false,
            race: None,
            size: None,
            gate: None,
            command: Vec::new(),
            cells: self.cells,
            skipped: self.skipped,
        }
    }

    fn repeat(&self) -> StoppingRule {
        let guess = |cell: &Cell| {
            let spec = self.specs.iter().find(|spec| spec.name == cell.workload);
            spec.map_or(0, |spec| spec.guess(&cell.parameters).0)
        };
        let block: u64 = self.cells.iter().map(guess).sum();
        let afforded = Nanos(block.saturating_mul(BLOCKS_AFFORDED));
        let time_limit = Nanos(300_000_000_000);
        match self.options {
            MapOptions { smoke: true, .. } => {
                StoppingRule { warmup: 0, min: 3, max: 3, precision: 0.0, budget: afforded.max(BUDGET), time_limit }
            }
            MapOptions { thorough: true, .. } => StoppingRule {
                warmup: 1,
                min: 10,
                max: 40,
                precision: 0.01,
                budget: afforded.max(BUDGET_THOROUGH),
                time_limit,
            },
            // With fewer than six blocks, a 95 % bootstrap interval of medians would be too narrow.
            _ => StoppingRule { warmup: 0, min: 6, max: 8, precision: 0.02, budget: afforded.max(BUDGET), time_limit },
        }
    }
}

fn size(bytes: Bytes) -> String {
    format!("{}B", bytes.0)
}
