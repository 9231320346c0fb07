//! A simulated machine: a topology from a file, a performance model, noise and faults. Outcomes are functions of the
//! seed and the trial, so a resumed run gives identical results. Runs are marked as simulated.

mod fault;
mod files;
mod noise;
mod performance;
mod samples;
mod speed;
mod storage;

pub use fault::Faults;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use model::values::id_set::{CpuSet, NodeId};
use model::values::placement::Route;
use model::values::plan::stream;
use model::values::topology::Topology;
use model::values::trial::{
    CompressedTraffic, DeviceInterrupt, DramBudgetUse, Evidence, FarMemory, ThreadBinding, Trial, TrialOutcome,
    TrialStatus,
};
use model::values::units::{Bytes, Nanos};
use model::values::workload::WorkloadSpec;

use crate::executor::Executor;

/// Start of simulated time (Unix, ms). It is fixed, so that reports do not depend on the current date.
pub const EPOCH_UNIX_MS: u64 = 1_700_000_000_000;

/// Interval between the start times of simulated trials, whatever their duration.
const TRIAL_DISTANCE_MS: u64 = 1_000;

/// Number of trials that this process has stored, over all its runs.
static STORED: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
pub struct SimExecutor {
    topology: Topology,
    specs: Vec<WorkloadSpec>,
    seed: u64,
    faults: Faults,
}

impl SimExecutor {
    /// Creates a machine with this topology; `specs` describes the workloads that it can run.
    pub fn new(topology: Topology, specs: Vec<WorkloadSpec>, seed: u64, faults: Faults) -> Self {
        Self { topology, specs, seed, faults }
    }

    fn evidence(&self, trial: &Trial, wall: Nanos) -> Evidence {
        let second = (!trial.placement.server_cpus.is_empty()).then(|| Box::new(second_evidence(trial, wall)));
        let cpus = trial.placement.cpus();
        let pinned = if trial.placement.loose { &[][..] } else { &trial.placement.bindings };
        let binding =
            |cpu| ThreadBinding { requested: cpu, mask: [cpu].into_iter().collect(), before: cpu, after: cpu };
        let mut evidence = Evidence {
            mask_at_start: trial.placement.is_pinned().then(|| cpus.clone()),
            mask_at_end: trial.placement.is_pinned().then(|| cpus.clone()),
            cpus_seen: if trial.placement.is_pinned() { cpus } else { self.topology.allowed_cpus.clone() },
            polls: 1,
            threads_seen: trial.placement.threads as u64,
            thread_bindings: pinned.iter().map(|cpu| binding(*cpu)).collect(),
            pages: pages(trial),
            far: far(trial),
            budget: budget(trial),
            device_interrupts: self.interrupts(trial),
            wall,
            second,
            unavailable: BTreeMap::from([("counters".into(), "the machine is simulated".into())]),
            ..Evidence::default()
        };
        files::observe(&self.topology, trial, &mut evidence);
        evidence
    }
}

/// Count of each simulated interrupt per trial.
const INTERRUPTS: u64 = 1000;

/// Evidence of a server that stays on its CPUs.
fn second_evidence(trial: &Trial, wall: Nanos) -> Evidence {
    let cpus = trial.placement.server_cpus.clone();
    Evidence {
        mask_at_start: Some(cpus.clone()),
        mask_at_end: Some(cpus.clone()),
        cpus_seen: cpus,
        polls: 1,
        pages: pages(trial),
        wall,
        ..Evidence::default()
    }
}

/// Evidence of a DRAM budget that was kept, with half of the data in swap.
fn budget(trial: &Trial) -> Option<DramBudgetUse> {
    let asked = trial.placement.budget?;
    let (fetched, pilot_cpu) = (asked.steered.then_some(asked.dram), asked.steered.then_some(Nanos(1_000_000)));
    Some(DramBudgetUse {
        dram: asked.dram,
        read: asked.dram,
        written: asked.dram,
        killed: 0,
        prefetched: fetched,
        controller_cpu: pilot_cpu,
        compressed: asked.compressed.then(CompressedTraffic::default),
        other_swap: Vec::new(),
    })
}

/// Evidence of an array in a file, if the memory policy is one.
fn far(trial: &Trial) -> Option<FarMemory> {
    let bytes = Bytes(1 << 30);
    let file = FarMemory { bytes, of_file: bytes, resident: Some(bytes), file_system: "simulated".into() };
    trial.placement.memory.is_beyond_dram().then_some(file)
}

/// Pages on every memory node that the policy promises.
fn pages(trial: &Trial) -> BTreeMap<NodeId, u64> {
    let promised = trial.placement.memory.promised_nodes();
    promised.map(|nodes| nodes.iter().map(|node| (node, 1000)).collect()).unwrap_or_default()
}

impl SimExecutor {
    fn interrupts(&self, trial: &Trial) -> Vec<DeviceInterrupt> {
        trial.placement.interrupts.iter().map(|route| self.interrupt(route)).collect()
    }

    /// An interrupt that arrives at one of the CPUs of its route, or else of the capture. Interrupts with the same CPUs
    /// take turns, as the kernel spreads them.
    fn interrupt(&self, route: &Route) -> DeviceInterrupt {
        let all = self.topology.devices.iter().flat_map(|device| &device.interrupts);
        let found = all.into_iter().find(|interrupt| interrupt.number == route.number);
        let found = found.map(|interrupt| interrupt.affinity.clone()).unwrap_or_default();
        let cpus = if route.cpus.is_empty() { found } else { route.cpus.clone() };
        let turn = route.number as usize % cpus.len().max(1);
        let effective: CpuSet = cpus.iter().nth(turn).into_iter().collect();
        DeviceInterrupt {
            device: route.device.clone(),
            number: route.number,
            name: route.name.clone(),
            affinity_at_start: cpus.clone(),
            affinity_at_end: cpus,
            arrived: effective.iter().map(|cpu| (cpu, INTERRUPTS)).collect(),
            effective_at_start: effective.clone(),
            effective_at_end: effective,
        }
    }
}

impl Executor for SimExecutor {
    fn run(&mut self, position: u32, trial: &Trial) -> Option<TrialOutcome> {
        self.faults.kill_after_stored(STORED.fetch_add(1, Ordering::Relaxed));
        let seed = stream(self.seed, &trial.id.0);
        let slowdown = noise::slowdown(self.seed, trial, position);
        let started_unix_ms = EPOCH_UNIX_MS + u64::from(position) * TRIAL_DISTANCE_MS;
        let Some(spec) = self.specs.iter().find(|spec| spec.name == trial.workload) else {
            let status = TrialStatus::Unavailable(format!("the simulator has no workload '{}'", trial.workload));
            return Some(TrialOutcome { started_unix_ms, ..TrialOutcome::new(Err(status), Evidence::default()) });
        };
        let took = Nanos((spec.guess(&trial.parameters).0 as f64 * slowdown) as u64);
        let (topology, mut evidence) = (&self.topology, self.evidence(trial, took));
        let samples = if storage::is_storage(trial) {
            let requests = storage::requests(topology, trial, &evidence.device_interrupts);
            evidence.cpu_times = requests.cpu_times(topology, took, slowdown);
            samples::of_requests(spec, &requests, slowdown)
        } else {
            samples::of(topology, trial, spec, (self.seed, slowdown))
        };
        let outcome = TrialOutcome::new(Ok(samples), evidence);
        let mut outcome = TrialOutcome { started_unix_ms, took, ..outcome };
        self.faults.inject(trial, seed, &mut outcome);
        Some(outcome)
    }
}
