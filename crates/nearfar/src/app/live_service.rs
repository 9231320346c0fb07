//! A running service in an experiment: binds its threads to CPUs, and moves its memory and interrupts. Must not depend on
//! how placements are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::live::{GuardState, LiveService, Placed, Reading};
use machine::service_threads::{FoundMask, Mask, ServiceThreads};
use machine::service_usage::ServiceCpuTime;
use model::analysis::live::{CpuTotals, InterruptUse, TcpTraffic, check_sizes};
use model::hint::Hinted;
use model::stats::switchback::ArmId;
use model::values::id_set::CpuSet;
use model::values::units::Bytes;

use crate::app::guard_watch::GuardWatch;
use crate::app::live_interrupts::LiveInterrupts;
use crate::app::live_memory::LiveMemory;
use crate::app::live_meter::LiveMeter;

/// Maximum interval between readings of connections: those that begin and end between two readings are not counted.
const CONNECTION_INTERVAL: Duration = Duration::from_millis(100);

/// The threads of a service, with the placements that they may get, a metric of their work, and guards.
pub struct PlacedService {
    threads: ServiceThreads,
    /// By arm; the first is the one that was found.
    masks: Vec<Mask>,
    /// The CPUs that the kernel reports for each of `masks`.
    visible: Vec<CpuSet>,
    /// Affinities that the program has set itself.
    pinned: BTreeSet<CpuSet>,
    cpu_time: ServiceCpuTime,
    /// `None` if memory is not moved.
    memory: Option<LiveMemory>,
    interrupts: LiveInterrupts,
    /// Set by a signal that ends the experiment.
    stop: Arc<AtomicBool>,
    meter: LiveMeter,
    guards: Vec<GuardWatch>,
    began: Instant,
    arm: ArmId,
    /// Time since which it has its placement.
    placed: Instant,
    connections: Connections,
}

/// Traffic of a port, by placement.
struct Connections {
    read: Instant,
    /// At the begin of the present period.
    before: TcpTraffic,
    periods: BTreeMap<ArmId, Vec<TcpTraffic>>,
}

impl PlacedService {
    pub fn new(
        threads: ServiceThreads,
        found: &FoundMask,
        alternatives: &[CpuSet],
        meter: LiveMeter,
        guards: Vec<GuardWatch>,
        interrupts: LiveInterrupts,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let visible: Vec<CpuSet> = std::iter::once(found.cpus.clone()).chain(alternatives.iter().cloned()).collect();
        let masks = visible.iter().map(|cpus| mask_for(cpus, found)).collect();
        let pinned = found.others.keys().cloned().collect();
        let now = Instant::now();
        let connections = Connections { read: now, before: TcpTraffic::default(), periods: BTreeMap::new() };
        let arm = ArmId::BASELINE;
        let cpu_time = ServiceCpuTime::new(threads.clone());
        Self {
            threads,
            masks,
            visible,
            pinned,
            cpu_time,
            memory: None,
            interrupts,
            stop,
            meter,
            guards,
            began: now,
            arm,
            placed: now,
            connections,
        }
    }

    /// Moves its memory, too.
    pub fn with_memory(self, memory: LiveMemory) -> Self {
        Self { memory: Some(memory), ..self }
    }

    pub fn moves_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub fn into_memory(self) -> Option<LiveMemory> {
        self.memory
    }

    /// Moves its memory to the nodes of a placement. Stops if a guard is violated or a signal ends the experiment, unless it is
    /// moved back.
    fn move_memory(&mut self, arm: ArmId) -> Result<Option<Bytes>, String> {
        let Some(memory) = self.memory.take() else { return Ok(None) };
        let halt = AtomicBool::new(false);
        let moved = memory.place(arm, &halt, &mut || {
            self.poll_connections();
            let is_violated = matches!(self.guards(), GuardState::Violated(_));
            let is_over = is_violated || self.stop.load(Ordering::Relaxed);
            halt.store(is_over && arm != ArmId::BASELINE, Ordering::Relaxed);
        });
        self.memory = Some(memory);
        moved.map(Some)
    }

    /// Counts connections that may end before the next reading of the metric.
    fn poll_connections(&mut self) {
        if self.connections.read.elapsed() >= CONNECTION_INTERVAL {
            self.connections.read = Instant::now();
            let _ = self.meter.tcp_traffic();
        }
    }

    /// Begins another period of connections.
    fn record_connections(&mut self) {
        if let Some((_, traffic)) = self.meter.tcp_traffic() {
            let Connections { before, periods, .. } = &mut self.connections;
            periods.entry(self.arm).or_default().push(traffic.since(before));
            *before = traffic;
        }
    }

    /// Checks that a count of requests by connections is proportional to them.
    fn check_connections(&mut self) -> Result<(), String> {
        let Some((port, traffic)) = self.meter.tcp_traffic() else { return Ok(()) };
        let checked = traffic.check_connections(port).and_then(|()| check_sizes(port, &self.connections.periods));
        checked.map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    }
}

impl LiveService for PlacedService {
    fn place(&mut self, arm: ArmId) -> Result<Placed, String> {
        if self.threads.masks().is_empty() {
            return Err("the service has ended".into());
        }
        let at = arm.0 as usize;
        // Not that of the placement itself: the kernel reports "any CPU" as the CPUs that the cpuset allows.
        let others = self.visible.iter().filter(|cpus| **cpus != self.visible[at]);
        let from: Vec<Mask> = others.cloned().map(Mask::Only).collect();
        let threads = self.threads.replace(&from, &self.masks[at]).map_err(|error| error.to_string())?;
        self.interrupts.place(arm)?;
        self.record_connections();
        (self.arm, self.placed) = (arm, Instant::now());
        let memory = self.move_memory(arm)?;
        Ok(Placed { threads, memory })
    }

    fn verify(&mut self, arm: ArmId) -> Result<(), String> {
        let expected = &self.visible[arm.0 as usize];
        let is_other = |mask: &CpuSet| mask != expected && !self.pinned.contains(mask);
        let interrupts = self.interrupts.verify(arm);
        if let Some(((pid, tid), mask)) = self.threads.masks().iter().find(|(_, mask)| is_other(mask)) {
            return Err(format!("thread {tid} of process {pid} may run on {}", mask.described()));
        }
        interrupts?;
        self.memory.as_ref().map_or(Ok(()), |memory| memory.verify(arm))
    }

    fn read(&mut self) -> Result<Reading, String> {
        self.check_connections()?;
        let began = self.began;
        self.meter.read(|| began.elapsed().as_secs_f64())
    }

    fn cpu_totals(&mut self) -> Option<CpuTotals> {
        let placed = self.visible[self.arm.0 as usize].clone();
        self.cpu_time.totals(&self.pinned.iter().fold(placed, |all, cpus| all.union(cpus)))
    }

    fn interrupts(&self) -> Option<InterruptUse> {
        self.interrupts.observed()
    }

    fn guards(&mut self) -> GuardState {
        let now = Instant::now();
        let states = self.guards.iter().map(|guard| guard.state(self.placed, now, self.began));
        states.fold(GuardState::Hold, |worst, state| match (worst, state) {
            (GuardState::Violated(violated), _) | (_, GuardState::Violated(violated)) => GuardState::Violated(violated),
            (GuardState::Unknown, _) | (_, GuardState::Unknown) => GuardState::Unknown,
            (GuardState::Hold, GuardState::Hold) => GuardState::Hold,
        })
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wait_until(&mut self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.now()));
        self.poll_connections();
    }
}

/// Returns the affinity to set for these CPUs.
fn mask_for(cpus: &CpuSet, found: &FoundMask) -> Mask {
    if *cpus == found.cpus { found.mask.clone() } else { Mask::Only(cpus.clone()) }
}
