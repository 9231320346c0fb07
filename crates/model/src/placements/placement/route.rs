//! Affinity of the interrupts of named devices: the `irq:` part of a placement's name.

use std::collections::BTreeMap;

use super::cores::CoreIndex;
use super::cpu_location::CpuLocation;
use super::{PlacementError, parts};
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::placement::{Placement, Route};
use crate::values::suggest::suggestions;
use crate::values::topology::{Device, Movability, Topology};

const PREFIX: &str = "irq:";

/// The rules with names; others are lists of CPUs.
pub(crate) const RULES: [&str; 4] = ["irq:same-core", "irq:same-node", "irq:other-node", "irq:spread"];

/// Rule by which a name chooses the CPUs of interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RouteRule {
    SameCore,
    /// On other cores of the threads' node.
    SameNode,
    /// On the cores of the farthest other node.
    OtherNode,
    /// Round-robin, each interrupt on one core.
    Spread,
    Cpus(CpuLocation),
}

/// Splits the name of a placement into the rest and its interrupt rule.
pub(super) fn split(text: &str) -> Result<(String, Option<RouteRule>), String> {
    let (part, rest) = parts::split_one(text, "place interrupts", |part| part.starts_with(PREFIX))?;
    Ok((rest, part.map(rule).transpose()?))
}

fn rule(part: &str) -> Result<RouteRule, String> {
    match part {
        "irq:same-core" => Ok(RouteRule::SameCore),
        "irq:same-node" => Ok(RouteRule::SameNode),
        "irq:other-node" => Ok(RouteRule::OtherNode),
        "irq:spread" => Ok(RouteRule::Spread),
        _ => match CpuLocation::parse(&part[PREFIX.len()..]) {
            Ok(cpus) if cpus != CpuLocation::Numbers(CpuSet::new()) => Ok(RouteRule::Cpus(cpus)),
            Err(error) if CpuLocation::is_location(&part[PREFIX.len()..]) => Err(format!("{PREFIX}{error}")),
            _ => {
                let names = suggestions(part, RULES).join(", ");
                Err(format!("'{part}' is not an interrupt rule; valid rules: {names}, and lists such as irq:0-3"))
            }
        },
    }
}

/// Returns the devices of these names.
///
/// # Errors
///
/// If the machine has no device of a name.
pub fn devices<'a>(topology: &'a Topology, names: &[String]) -> Result<Vec<&'a Device>, String> {
    let find = |name: &String| {
        topology.devices.iter().find(|device| device.name == *name).ok_or_else(|| {
            let known = suggestions(name, topology.devices.iter().map(|device| device.name.as_str()));
            match known.join(", ") {
                none if none.is_empty() => format!("unknown device '{name}'; this machine has no known devices"),
                known => format!("unknown device '{name}'; this machine has {known}"),
            }
        })
    };
    names.iter().map(find).collect()
}

/// Returns the named devices that the machine has; if none is named, its only device with movable interrupts, if there is
/// exactly one.
pub(super) fn known_devices<'a>(topology: &'a Topology, names: &[String]) -> Vec<&'a Device> {
    if names.is_empty() {
        let movable = movable_devices(topology).unwrap_or_default();
        let one = <[String; 1]>::try_from(movable);
        return one.map_or_else(|_| Vec::new(), |one| devices(topology, &one).unwrap_or_default());
    }
    devices(topology, names).unwrap_or_default()
}

/// Returns the devices with interrupts that are not known to be immovable. Fails if there are none.
pub(super) fn movable_devices(topology: &Topology) -> Result<Vec<String>, String> {
    let mut reason = "this machine has no known devices".to_string();
    let mut names = Vec::new();
    for device in &topology.devices {
        match check_device(device) {
            Ok(()) => names.push(device.name.clone()),
            Err(error) => reason = error,
        }
    }
    if names.is_empty() { Err(reason) } else { Ok(names) }
}

/// Checks that the interrupts of these devices can be moved, as far as is known.
pub fn check_movable(topology: &Topology, names: &[String]) -> Result<(), PlacementError> {
    let devices = devices(topology, names).map_err(PlacementError::Invalid)?;
    devices.into_iter().try_for_each(check_device).map_err(PlacementError::Unavailable)
}

/// Rejects devices with managed interrupts, because those are the interrupts of the device's queues.
fn check_device(device: &Device) -> Result<(), String> {
    let name = &device.name;
    if device.interrupts.is_empty() {
        return Err(format!("{name} has no interrupts"));
    }
    match device.interrupts.iter().find(|interrupt| interrupt.movability == Movability::Managed) {
        Some(managed) => Err(format!(
            "interrupt {} ({}) of {name} is managed: the kernel has assigned the device's queues to CPUs and does not \
             allow changes",
            managed.number, managed.name
        )),
        None => Ok(()),
    }
}

/// Returns a placement with the interrupts of these devices set by the rule of this name; `None` does not move them.
pub(crate) fn with_route(
    core_index: &CoreIndex,
    placement: &Placement,
    rule: Option<&str>,
    names: &[String],
) -> Result<Placement, PlacementError> {
    let mut routed = placement.clone();
    if let Some(name) = rule {
        let separator = if placement.name.starts_with('-') { ' ' } else { '+' };
        routed.name = format!("{}{separator}{name}", placement.name);
    }
    let rule = rule.map(self::rule).transpose().map_err(PlacementError::Invalid)?;
    route(core_index, &mut routed, rule.as_ref(), names)?;
    Ok(routed)
}

/// Sets the interrupt affinity of a placement, and adds the rule to its reason.
pub(super) fn route(
    core_index: &CoreIndex,
    placement: &mut Placement,
    rule: Option<&RouteRule>,
    names: &[String],
) -> Result<(), PlacementError> {
    let devices = devices(core_index.topology, names).map_err(PlacementError::Invalid)?;
    let Some(rule) = rule else {
        placement.interrupts = routes(&devices, |_| CpuSet::new());
        return Ok(());
    };
    if devices.is_empty() {
        return Err(PlacementError::Invalid(missing_device(core_index.topology)));
    }
    devices.iter().try_for_each(|device| check_device(device)).map_err(PlacementError::Unavailable)?;
    let (cpus, description) = cpus_of(core_index, rule, &placement.bindings)?;
    let round_robin = matches!(rule, RouteRule::Spread);
    placement.interrupts = routes(&devices, |index| {
        if round_robin { cpus.iter().nth(index % cpus.len()).into_iter().collect() } else { cpus.clone() }
    });
    placement.reason = format!("{}; interrupts of {} {description}", placement.reason, names.join(", "));
    Ok(())
}

/// Lists every interrupt of the devices once. A shared interrupt belongs to the first device.
fn routes(devices: &[&Device], cpus: impl Fn(usize) -> CpuSet) -> Vec<Route> {
    let mut by_number: BTreeMap<u32, (&Device, &str)> = BTreeMap::new();
    for device in devices {
        for interrupt in &device.interrupts {
            by_number.entry(interrupt.number).or_insert((device, &interrupt.name));
        }
    }
    let route = |(index, (number, (device, name))): (usize, (&u32, &(&Device, &str)))| Route {
        device: device.name.clone(),
        number: *number,
        name: (*name).into(),
        cpus: cpus(index),
    };
    by_number.iter().enumerate().map(route).collect()
}

fn missing_device(topology: &Topology) -> String {
    let known: Vec<&str> = topology.devices.iter().map(|device| device.name.as_str()).collect();
    let known = if known.is_empty() { "has no known devices".into() } else { format!("has {}", known.join(", ")) };
    format!("irq: requires a device: --device NAME, or devices = [\"NAME\"] in an experiment; this machine {known}")
}

fn cpus_of(core_index: &CoreIndex, rule: &RouteRule, bindings: &[CpuId]) -> Result<(CpuSet, String), PlacementError> {
    let bound: CpuSet = bindings.iter().copied().collect();
    if bindings.is_empty() && matches!(rule, RouteRule::SameCore | RouteRule::SameNode | RouteRule::OtherNode) {
        return Err(PlacementError::Unavailable(
            "the rule refers to the CPUs of the threads, and none are bound; add a CPU policy, as in one-core+irq:same-core"
                .into(),
        ));
    }
    let on = |cpus: &CpuSet| if cpus.len() == 1 { format!("on CPU {cpus}") } else { format!("on CPUs {cpus}") };
    match rule {
        RouteRule::SameCore => Ok((bound.clone(), format!("{}, the CPUs of the threads", on(&bound)))),
        RouteRule::SameNode => {
            let cpus = same_node(core_index, bindings).map_err(PlacementError::Unavailable)?;
            let description = format!("{}, other cores of the same node", on(&cpus));
            Ok((cpus, description))
        }
        RouteRule::OtherNode => {
            let (node, cpus) = other_node(core_index, bindings).map_err(PlacementError::Unavailable)?;
            let description = format!("{}, the cores of node {node}", on(&cpus));
            Ok((cpus, description))
        }
        RouteRule::Spread => {
            let cpus: CpuSet = core_index.cores.iter().map(|core| core.cpus[0]).collect();
            Ok((cpus.clone(), format!("round-robin {}", on(&cpus))))
        }
        RouteRule::Cpus(location) => {
            let cpus = listed(core_index.topology, location).map_err(PlacementError::Invalid)?;
            let description = on(&cpus);
            Ok((cpus, description))
        }
    }
}

/// Returns the CPUs of a rule `irq:LIST`. Each must exist.
fn listed(topology: &Topology, location: &CpuLocation) -> Result<CpuSet, String> {
    let cpus = location.resolve(topology).map_err(|error| format!("{PREFIX}{error}"))?;
    let missing = cpus.difference(&topology.complete_cpus);
    if missing.is_empty() {
        return Ok(cpus);
    }
    Err(format!("irq:{cpus}: CPU {missing} does not exist; this machine has {}", topology.complete_cpus))
}

fn homes(core_index: &CoreIndex, bindings: &[CpuId]) -> Vec<NodeId> {
    bindings.iter().filter_map(|cpu| core_index.core_of(*cpu)?.home).collect()
}

/// Excludes the cores of the threads; with them, the rule would equal `irq:same-core` for half of the interrupts.
fn same_node(core_index: &CoreIndex, bindings: &[CpuId]) -> Result<CpuSet, String> {
    let local = homes(core_index, bindings);
    let near = |core: &super::cores::Core| core.home.is_none_or(|home| local.contains(&home));
    let free = |core: &super::cores::Core| !core.cpus.iter().any(|cpu| bindings.contains(cpu));
    let cpus: CpuSet =
        core_index.cores.iter().filter(|core| near(core) && free(core)).flat_map(|core| core.cpus.clone()).collect();
    if cpus.is_empty() {
        return Err("the threads use every core of their node, so there is no other core for interrupts".into());
    }
    Ok(cpus)
}

/// Returns the farthest other node that has cores, and its CPUs.
fn other_node(core_index: &CoreIndex, bindings: &[CpuId]) -> Result<(NodeId, CpuSet), String> {
    let all = core_index.homes();
    if all.len() < 2 {
        return Err("this machine has one memory node with CPUs, so there is no other node".into());
    }
    let local = homes(core_index, bindings);
    let others = all.into_iter().filter(|node| !local.contains(node));
    let distance = |node: &NodeId| local.iter().filter_map(|home| core_index.distance(*home, *node)).min();
    // `max_by_key` returns the last maximum, so reversing selects the first of equally far nodes.
    let farthest = others.rev().max_by_key(distance);
    let node = farthest.ok_or("the threads are on every memory node with CPUs, so there is no other node")?;
    let cpus =
        core_index.cores.iter().filter(|core| core.home == Some(node)).flat_map(|core| core.cpus.clone()).collect();
    Ok((node, cpus))
}
