//! Candidates times where the interrupts of devices go: as they were found, and in each way that has a name and comes to
//! something of its own beside these seats.

use super::SearchSpace;
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::route::{RULES, devices, with_route};
use crate::placements::placement::{Placement, PlacementError};
use crate::values::id_set::CpuSet;
use crate::values::topology::Topology;

/// Classes of cpus that are not alike: those that a measurement told apart, and those near one of the devices.
pub(super) fn distinct_routes(topology: &Topology, wish: &SearchSpace) -> Result<Vec<CpuSet>, String> {
    let homes = devices(topology, &wish.devices)?.into_iter().filter_map(|device| topology.node(device.node?));
    let near = homes.map(|node| node.cpus.clone()).filter(|cpus| !cpus.is_empty());
    Ok(wish.measured.iter().cloned().chain(near).collect())
}

/// A placement with the devices' interrupts as found (0), then by each rule (from 1) that means something beside its
/// seats, and not the same as one before.
pub(super) fn route_rules(
    ground: &CoreIndex,
    placement: &Placement,
    names: &[String],
) -> Result<Vec<(usize, Placement)>, String> {
    let as_found = with_route(ground, placement, None, names).map_err(|none| none.to_string())?;
    let mut ways = vec![(0, as_found)];
    for (route, rule) in (1..).zip(RULES).filter(|_| !names.is_empty()) {
        match with_route(ground, placement, Some(rule), names) {
            Ok(routed) if ways.iter().all(|(_, other)| other.interrupts != routed.interrupts) => {
                ways.push((route, routed));
            }
            // Without seats no core is the same, on one node none is another: that is no candidate. Devices whose
            // interrupts nobody can move are refused before anything is asked.
            Ok(_) | Err(PlacementError::Unavailable(_)) => {}
            Err(PlacementError::Mistake(why)) => return Err(why),
        }
    }
    Ok(ways)
}
