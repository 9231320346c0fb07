//! The interrupts of the devices of a running service in an experiment: gives them the affinity of each placement, and
//! counts them. Must not depend on how placements are compared.

use machine::interrupt::{InterruptMonitor, Routes};
use model::analysis::live::{InterruptUse, LivePlacement, misrouted};
use model::stats::switchback::ArmId;
use model::values::placement::Route;

/// Places and observes interrupts. The undo journal restores their affinity after the experiment.
pub struct LiveInterrupts {
    /// `None` if no placement moves any.
    routes: Option<Routes>,
    /// Interrupts of all named devices, by arm.
    requested: Vec<Vec<Route>>,
    monitor: Option<InterruptMonitor>,
    observed: Option<InterruptUse>,
}

impl LiveInterrupts {
    /// Begins with interrupts whose affinities are journalled.
    pub fn new(routes: Option<Routes>, placements: &[LivePlacement]) -> Self {
        let requested = placements.iter().map(|placement| placement.interrupts.clone()).collect();
        Self { routes, requested, monitor: None, observed: None }
    }

    /// Places the interrupts, and begins to observe them.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn place(&mut self, arm: ArmId) -> Result<(), String> {
        let requested = &self.requested[arm.0 as usize];
        if let Some(routes) = &self.routes {
            routes.send(requested).map_err(|error| error.to_string())?;
        }
        let root = self.routes.as_ref().map_or("/".into(), Routes::root);
        self.monitor = (!requested.is_empty()).then(|| InterruptMonitor::begin(root, requested));
        Ok(())
    }

    /// Checks that interrupts have arrived only on the CPUs of the placement since it was set.
    ///
    /// # Errors
    /// An interrupt that has not, or that another program has moved.
    pub fn verify(&mut self, arm: ArmId) -> Result<(), String> {
        self.observed = None;
        let requested = &self.requested[arm.0 as usize];
        let Some(monitor) = self.monitor.take() else { return Ok(()) };
        let (interrupts, counted) = monitor.observed();
        counted?;
        self.observed = Some(InterruptUse::of(requested, &interrupts));
        misrouted(requested, &interrupts).map_or(Ok(()), Err)
    }

    /// Returns the interrupts of the period that was verified last.
    pub fn observed(&self) -> Option<InterruptUse> {
        self.observed
    }
}
