//! Combines candidates with interrupt affinities of devices: unchanged, and each named rule with a distinct effect.

use super::SearchSpace;
use crate::placements::placement::PlacementError;
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::route::{RULES, devices, with_route};
use crate::values::id_set::CpuSet;
use crate::values::placement::Placement;
use crate::values::topology::Topology;

/// Returns sets of CPUs that are not equivalent to others: measured classes, CPUs near one of the devices, and CPUs that
/// handle interrupts.
pub(super) fn distinct_routes(topology: &Topology, space: &SearchSpace) -> Result<Vec<CpuSet>, String> {
    let homes = devices(topology, &space.devices)?.into_iter().filter_map(|device| topology.node(device.node?));
    let near = homes.map(|node| node.cpus.clone()).filter(|cpus| !cpus.is_empty());
    Ok(space.measured.iter().cloned().chain(near).chain(handling(topology, space)).collect())
}

/// Returns the CPUs that handle the interrupts of devices, if they are at most half of all. A program on them is
/// interrupted, so they are not equivalent to the others. If most CPUs handle some, as with one queue per CPU, the
/// differences are too small to multiply the candidates.
pub(super) fn handling(topology: &Topology, space: &SearchSpace) -> Option<CpuSet> {
    if space.has_moving_interrupts {
        return None;
    }
    let interrupts = topology.devices.iter().flat_map(|device| &device.interrupts);
    let cpus: CpuSet = interrupts.flat_map(|interrupt| interrupt.effective.iter()).collect();
    let cpus = cpus.intersection(&topology.allowed_cpus);
    (!cpus.is_empty() && 2 * cpus.len() <= topology.allowed_cpus.len()).then_some(cpus)
}

/// Returns a placement with unchanged interrupts (route 0) and by each rule (from 1) that is possible for its CPUs and
/// differs from earlier ones.
pub(super) fn route_rules(
    core_index: &CoreIndex,
    placement: &Placement,
    names: &[String],
) -> Result<Vec<(usize, Placement)>, String> {
    let unchanged = with_route(core_index, placement, None, names).map_err(|error| error.to_string())?;
    let mut routes = vec![(0, unchanged)];
    for (route, rule) in (1..).zip(RULES).filter(|_| !names.is_empty()) {
        match with_route(core_index, placement, Some(rule), names) {
            Ok(routed) if routes.iter().all(|(_, other)| other.interrupts != routed.interrupts) => {
                routes.push((route, routed));
            }
            // For example `same-core` without bindings, or `other-node` on one node. Devices with managed interrupts
            // are rejected earlier.
            Ok(_) | Err(PlacementError::Unavailable(_)) => {}
            Err(PlacementError::Invalid(error)) => return Err(error),
        }
    }
    Ok(routes)
}
