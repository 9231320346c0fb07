//! What is run for a measured map: ordinary cells of our own workloads, each named by what it is for.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{CpuGroup, groups};
use super::sizes;
use crate::experiments::experiment::PlanError;
use crate::placements::candidates::{CpuPair, all_pairs, pairs};
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::{KernelFeatures, Placement, parse_explicit};
use crate::values::id_set::{CpuId, NodeId};
use crate::values::plan::{Cell, Plan, SkippedCell, StoppingRule};
use crate::values::topology::Topology;
use crate::values::units::{Bytes, Nanos};
use crate::values::workload::WorkloadSpec;

/// What runs of measured maps are called.
pub const EXPERIMENT: &str = "map";

/// What each cell is for; `result` reads the map by these.
pub(super) const CORE_TO_CORE: &str = "core-to-core";
pub(super) const MEMORY_LATENCY: &str = "memory-latency";
pub(super) const BANDWIDTH: &str = "bandwidth";
pub(super) const BANDWIDTH_NON_TEMPORAL: &str = "bandwidth-non-temporal";
pub(super) const LATENCY_BY_SIZE: &str = "latency-by-size";
pub(super) const LOADED: &str = "loaded-latency";
pub(super) const SMT_COMPUTE: &str = "smt-compute";
pub(super) const SMT_CACHE: &str = "smt-cache";

/// How long readers wait after every 4 KiB, which itself takes some hundred ns: from full load to about a tenth.
const DELAYS: [&str; 3] = ["5us", "1us", "0ns"];
const DELAYS_THOROUGH: [&str; 7] = ["20us", "5us", "2us", "1us", "500ns", "200ns", "0ns"];

/// A plan is kept in memory; every pair of 1152 cpus would be 663 000 cells.
const CELLS_MAX: usize = 10_000;
/// Two minutes are the promise for a small machine; what follows the last block takes some of them.
const BUDGET: Nanos = Nanos(100_000_000_000);
const BUDGET_THOROUGH: Nanos = Nanos(3_600_000_000_000);
/// A larger machine has more cells, and an interval needs several blocks of them.
const BLOCKS_AFFORDED: u64 = 7;

/// What is wanted of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// Every pair of cpus, not one of each class.
    pub all_pairs: bool,
    /// More sizes, more blocks, until intervals are narrow.
    pub thorough: bool,
    /// Parameters at their smoke-test sizes and two blocks: whether it runs, not how fast.
    pub smoke: bool,
}

struct PlanBuilder<'a> {
    topology: &'a Topology,
    specs: &'a [WorkloadSpec],
    wish: MapOptions,
    cells: Vec<Cell>,
    skipped: Vec<SkippedCell>,
}

/// The plan of a measured map of this machine. `specs` describe the workloads that there are.
pub fn plan(topology: &Topology, specs: &[WorkloadSpec], wish: MapOptions) -> Result<Plan, PlanError> {
    let pairs = if wish.all_pairs { all_pairs(topology) } else { pairs(topology) };
    if pairs.len() > CELLS_MAX {
        let (count, classes) = (pairs.len(), super::plan::pairs(topology).len());
        return Err(PlanError::Mistake(format!(
            "--all means {count} pairs of cpus; at most {CELLS_MAX} are possible; without it {classes} stand for them"
        )));
    }
    let mut draft = PlanBuilder { topology, specs, wish, cells: Vec::new(), skipped: Vec::new() };
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
        let why = draft.skipped.first().map_or("this machine shows no memory node", |skip| skip.why.as_str());
        return Err(PlanError::NothingToRun(format!("nothing of this machine can be measured: {why}")));
    }
    Ok(draft.finished())
}

impl PlanBuilder<'_> {
    fn core_to_core(&mut self, pairs: &[CpuPair]) {
        if pairs.is_empty() {
            let why = "there is one cpu, and a line goes between two".to_string();
            self.skipped.push(SkippedCell { test: CORE_TO_CORE.into(), placement: String::new(), why });
        }
        let home = |cpu: CpuId| CoreIndex::new(self.topology).core_of(cpu).and_then(|core| core.home);
        let homes: BTreeMap<CpuId, Option<NodeId>> = pairs.iter().map(|pair| (pair.a, home(pair.a))).collect();
        // A sample of 2000 round trips is some 0.4 ms, against which a tick of the clock is nothing.
        let set = [("op", "store".to_string()), ("rounds", "100".to_string()), ("round-trips", "2000".to_string())];
        for pair in pairs {
            let home = homes.get(&pair.a).copied().flatten();
            self.cell(CORE_TO_CORE, "pingpong", &set, &[pair.a, pair.b], home);
        }
    }

    fn memory(&mut self, group: &CpuGroup, node: NodeId) {
        let bytes = sizes::memory_bytes(self.topology, node);
        let time = if self.wish.thorough { "1s" } else { "500ms" };
        let set = [("size", size(bytes)), ("time", time.to_string())];
        self.cell(MEMORY_LATENCY, "chase", &set, &group.firsts[..1], Some(node));

        let level = self.topology.last_cache_level().unwrap_or(0);
        let caches = self.topology.caches(level).filter(|cache| cache.cpus.intersects(&group.cpus)).count();
        let bytes = sizes::array_bytes(self.topology, caches, node);
        let passes = if self.wish.thorough { "10" } else { "5" };
        for (test, non_temporal) in [(BANDWIDTH, "false"), (BANDWIDTH_NON_TEMPORAL, "true")] {
            let set =
                [("size", size(bytes)), ("passes", passes.to_string()), ("non-temporal", non_temporal.to_string())];
            self.cell(test, "stream", &set, &group.firsts, Some(node));
        }
    }

    /// From the first cpu of each kind of core, through its own caches to its own memory.
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
            for bytes in sizes::sizes(largest, self.wish.thorough) {
                let set = [("size", size(bytes)), ("time", "100ms".to_string())];
                self.cell(LATENCY_BY_SIZE, "chase", &set, &[cpu], Some(node));
            }
        }
    }

    /// The group's first core chases through its own memory, its others read.
    fn loaded(&mut self, group: &CpuGroup) {
        let Some(node) = group.home else { return };
        let threads = group.firsts.len();
        if threads < 2 {
            let why = "it needs a second core to make the load".to_string();
            self.skipped.push(SkippedCell { test: LOADED.into(), placement: format!("-C {}", group.cpus), why });
            return;
        }
        let bytes = sizes::loaded_bytes(self.topology, threads, node);
        let set = |delay: &str| [("size", size(bytes)), ("delay", delay.to_string()), ("time", "300ms".to_string())];
        self.cell(LOADED, "loaded", &set("0ns"), &group.firsts[..1], Some(node));
        let delays: &[&str] = if self.wish.thorough { &DELAYS_THOROUGH } else { &DELAYS };
        for delay in delays {
            self.cell(LOADED, "loaded", &set(delay), &group.firsts, Some(node));
        }
    }

    /// The first core of each kind that has two threads: one alone, then both.
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
            let why = "no core here has two threads".to_string();
            self.skipped.push(SkippedCell { test: SMT_COMPUTE.into(), placement: String::new(), why });
        }
        for (pair, home) in cores {
            let first = sizes::caches(self.topology, pair[0]).first().map_or(32 << 10, |cache| cache.bytes.0);
            // Both threads' buffers together fill half of the cache that they share.
            let chase = [("size", size(Bytes(first / 4))), ("time", "200ms".to_string())];
            for cpus in [&pair[..1], &pair[..]] {
                self.cell(SMT_COMPUTE, "queens", &[("n", "13".to_string())], cpus, home);
                self.cell(SMT_CACHE, "chase", &chase, cpus, home);
            }
        }
    }

    /// One thread on each of these cpus, memory on this node.
    fn cell(&mut self, test: &str, workload: &str, set: &[(&str, String)], cpus: &[CpuId], node: Option<NodeId>) {
        let list = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let memory = node.map_or(String::new(), |node| format!(" -m {node}"));
        let words = format!("-C {list}{memory}");
        let skip = |why: String| SkippedCell { test: test.into(), placement: words.clone(), why };
        let made = self.placed(&words, cpus).and_then(|placement| {
            let spec = self.specs.iter().find(|spec| spec.name == workload);
            let spec = spec.ok_or_else(|| format!("this version has no workload {workload}"))?;
            let mut given: BTreeMap<String, String> =
                set.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect();
            if self.wish.smoke {
                let smoke = spec.parameters.iter().filter_map(|one| Some((one.name.clone(), one.smoke.clone()?)));
                // The size is what a curve is about.
                given.extend(smoke.filter(|(name, _)| name != "size" || ![LATENCY_BY_SIZE, SMT_CACHE].contains(&test)));
            }
            let parameters = spec.resolve(&given, self.topology.last_cache_bytes())?;
            Ok(Cell::new(spec, test.into(), parameters, placement))
        });
        match made {
            // At smoke sizes two cells can become one.
            Ok(cell) if self.cells.iter().any(|other| other.key == cell.key) => {}
            Ok(cell) => self.cells.push(cell),
            Err(why) => self.skipped.push(skip(why)),
        }
    }

    fn placed(&self, words: &str, cpus: &[CpuId]) -> Result<Placement, String> {
        let offers = KernelFeatures::default();
        let placement = parse_explicit(self.topology, words, Some(cpus.len()), offers);
        // Seats are asked for in the order of the list, which need not be the logical one.
        placement.map(|placement| Placement { seats: cpus.to_vec(), ..placement }).map_err(|why| why.to_string())
    }

    fn finished(self) -> Plan {
        let specs = self.specs;
        let used = |spec: &&WorkloadSpec| self.cells.iter().any(|cell| cell.workload == spec.name);
        let workloads: Vec<WorkloadSpec> = specs.iter().filter(used).cloned().collect();
        let repeat = self.repeat();
        Plan {
            experiment: EXPERIMENT.into(),
            question: "How far are this machine's cores and memories from each other?".into(),
            workloads,
            repeat,
            compare_by: "placement".into(),
            baseline: None,
            race: None,
            size: None,
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
        match self.wish {
            MapOptions { smoke: true, .. } => {
                StoppingRule { warmup: 0, min: 2, max: 2, precision: 0.0, budget: afforded.max(BUDGET), time_limit }
            }
            MapOptions { thorough: true, .. } => StoppingRule {
                warmup: 1,
                min: 10,
                max: 40,
                precision: 0.01,
                budget: afforded.max(BUDGET_THOROUGH),
                time_limit,
            },
            // With fewer than six blocks a 95 % bootstrap interval of medians is too narrow.
            _ => StoppingRule { warmup: 0, min: 6, max: 8, precision: 0.02, budget: afforded.max(BUDGET), time_limit },
        }
    }
}

fn size(bytes: Bytes) -> String {
    format!("{}B", bytes.0)
}
