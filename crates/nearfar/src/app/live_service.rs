//! A running service whose threads are bound to CPUs, for an experiment. Must not depend on how placements are compared.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lab::live::LiveService;
use machine::service_threads::{FoundMask, Mask, ServiceThreads};
use model::stats::switchback::ArmId;
use model::values::id_set::CpuSet;

use crate::app::live_meter::LiveMeter;

/// The threads of a service, with the placements that they may get and a counter of their work.
pub struct PlacedService {
    threads: ServiceThreads,
    /// By arm; the first is the one that was found.
    masks: Vec<Mask>,
    /// The CPUs that the kernel reports for each of `masks`.
    visible: Vec<CpuSet>,
    /// Affinities that the program has set itself.
    pinned: BTreeSet<CpuSet>,
    meter: LiveMeter,
    began: Instant,
}

impl PlacedService {
    pub fn new(threads: ServiceThreads, found: &FoundMask, alternatives: &[CpuSet], meter: LiveMeter) -> Self {
        let visible: Vec<CpuSet> = std::iter::once(found.cpus.clone()).chain(alternatives.iter().cloned()).collect();
        let masks = std::iter::once(found.mask.clone()).chain(alternatives.iter().cloned().map(Mask::Only)).collect();
        let pinned = found.others.keys().cloned().collect();
        Self { threads, masks, visible, pinned, meter, began: Instant::now() }
    }
}

impl LiveService for PlacedService {
    fn place(&mut self, arm: ArmId) -> Result<(), String> {
        if self.threads.masks().is_empty() {
            return Err("the service has ended".into());
        }
        let arm = arm.0 as usize;
        // Not that of the placement itself: the kernel reports "any CPU" as the CPUs that the cpuset allows.
        let others = self.visible.iter().enumerate().filter(|(other, _)| *other != arm);
        let from: Vec<Mask> = others.map(|(_, cpus)| Mask::Only(cpus.clone())).collect();
        self.threads.replace(&from, &self.masks[arm]).map(drop).map_err(|error| error.to_string())
    }

    fn verify(&mut self, arm: ArmId) -> Result<(), String> {
        let expected = &self.visible[arm.0 as usize];
        let is_other = |mask: &CpuSet| mask != expected && !self.pinned.contains(mask);
        match self.threads.masks().iter().find(|(_, mask)| is_other(mask)) {
            None => Ok(()),
            Some(((pid, tid), mask)) => Err(format!("thread {tid} of process {pid} may run on {}", mask.described())),
        }
    }

    fn count(&mut self) -> Result<f64, String> {
        self.meter.read()
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wait_until(&mut self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.now()));
    }
}
