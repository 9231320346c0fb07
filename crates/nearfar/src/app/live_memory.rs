//! The memory of a running service in an experiment: moves it to the nodes of each placement, and back to where it was
//! found. Must not depend on how placements are compared.

use std::sync::atomic::AtomicBool;

use machine::residency::inspect;
use machine::service_memory::{Destination, ServiceMemory};
use machine::service_threads::ServiceThreads;
use machine::undo::SettingsRoot;
use model::analysis::live::{AppliedPlacement, LiveMemoryNodes, LivePlacement};
use model::analysis::residency::NodeBytes;
use model::stats::switchback::ArmId;
use model::values::id_set::CpuSet;
use model::values::units::Bytes;

use crate::app::applied::{Applied, pids};
use crate::error::CliError;

/// Share of the memory that may be on other nodes than those of the placement, in percent.
const ELSEWHERE_MAX_PERCENT: f64 = 10.0;

/// Moves the memory of a service. Ends with [`LiveMemory::end`]; if this process is killed, its record remains, with which
/// the memory is moved back.
pub struct LiveMemory {
    threads: ServiceThreads,
    record: Applied,
    found: ServiceMemory,
    /// Memory by node as it was found.
    by_node: NodeBytes,
    /// By arm; `None` for the placement that was found.
    nodes: Vec<Option<LiveMemoryNodes>>,
}

impl LiveMemory {
    /// Records where the memory is. `pinned` are affinities that the program has set itself.
    ///
    /// # Errors
    /// If the memory cannot be inspected or recorded.
    pub fn begin(
        site: &SettingsRoot,
        (subject, options): (&str, &[String]),
        threads: &ServiceThreads,
        placements: &[LivePlacement],
        pinned: Vec<CpuSet>,
    ) -> Result<Self, CliError> {
        let by_node = inspect(&pids(threads)).map_err(CliError::failure)?.total;
        let placement = AppliedPlacement {
            subject: subject.into(),
            options: options.to_vec(),
            processes: threads.processes().clone(),
            placement: "experiment".into(),
            cpus: placements[0].cpus.clone(),
            pinned,
            memory: None,
            cpuset: None,
            interrupts: Vec::new(),
            is_experiment: true,
        };
        let (record, found) = Applied::begin_experiment(site, placement, threads)?;
        let nodes = placements.iter().map(|placement| placement.memory.clone()).collect();
        Ok(Self { threads: threads.clone(), record, found, by_node, nodes })
    }

    /// Moves the memory to the nodes of a placement, and returns the size of the memory that was moved. `observe` is called
    /// every few megabytes.
    ///
    /// # Errors
    /// Why the memory cannot be moved.
    pub fn place(&self, arm: ArmId, stop: &AtomicBool, observe: &mut dyn FnMut()) -> Result<Bytes, String> {
        let mut observe = |_: Bytes| observe();
        let moved = match &self.nodes[arm.0 as usize] {
            None => self.found.move_to(&Destination::AsListed, stop, &mut observe),
            Some(nodes) => {
                // Again each time: memory was allocated and freed since.
                let memory = ServiceMemory::of(&pids(&self.threads)).map_err(|error| error.to_string())?;
                memory.move_to(&destination(nodes), stop, &mut observe)
            }
        };
        moved.map(|moved| moved.moved).map_err(|error| {
            format!("its memory cannot be moved: {error}; its cpuset must allow the nodes (Mems_allowed_list in /proc/PID/status)")
        })
    }

    /// Checks that the memory is where the placement requires it.
    ///
    /// # Errors
    /// Where it is instead.
    pub fn verify(&self, arm: ArmId) -> Result<(), String> {
        let Ok(now) = inspect(&pids(&self.threads)) else { return Err("its memory could not be inspected".into()) };
        let (elsewhere, expected) = match &self.nodes[arm.0 as usize] {
            None => (now.total.moved_percent(&self.by_node).unwrap_or_default(), "the nodes where it was found".into()),
            Some(LiveMemoryNodes { nodes, .. }) => {
                (100.0 - now.total.percent_on(nodes).unwrap_or(100.0), nodes.described())
            }
        };
        if elsewhere > ELSEWHERE_MAX_PERCENT {
            return Err(format!("{elsewhere:.0} % of its memory is not on {expected}"));
        }
        Ok(())
    }

    /// Moves all memory back, and removes the record.
    ///
    /// # Errors
    /// If the kernel refuses. The record then remains.
    pub fn end(self) -> Result<(), CliError> {
        self.record.undo(&AtomicBool::new(false), &mut |_, _| ()).map(drop)
    }
}

/// Returns how memory is distributed over nodes.
pub fn destination(nodes: &LiveMemoryNodes) -> Destination {
    let list = nodes.nodes.iter().collect();
    if nodes.interleaved { Destination::Interleaved(list) } else { Destination::Within(list) }
}
