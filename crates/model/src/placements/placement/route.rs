//! Where the interrupts of named devices go: what the `irq:` part of a placement's name means on a machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cores::CoreIndex;
use super::{Placement, PlacementError};
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::suggest::suggestions;
use crate::values::topology::{Device, Movability, Topology};

/// What the part of a name that says where interrupts go begins with.
const PREFIX: &str = "irq:";

/// The rules that have names.
pub(crate) const RULES: [&str; 4] = ["irq:same-core", "irq:same-node", "irq:other-node", "irq:spread"];

/// One interrupt of a device that the user named, and the cpus that may take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    pub device: String,
    /// The system's number of the interrupt.
    pub number: u32,
    pub name: String,
    /// Cpus that may take it; empty to leave it as it was found.
    pub cpus: CpuSet,
}

impl Route {
    /// What a cell's key has of it. Not the number, which may be another after the next boot.
    pub(crate) fn key(&self) -> String {
        let Self { device, name, cpus, .. } = self;
        format!("{device}:{name}>{}", if cpus.is_empty() { "as-found".into() } else { cpus.to_string() })
    }
}

/// What a name says about interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RouteRule {
    SameCore,
    /// On other cores of the seats' node.
    SameNode,
    /// On the cores of the farthest other node.
    OtherNode,
    /// One after the other, each on a core of its own.
    Spread,
    Cpus(CpuSet),
}

/// Takes a placement's name apart: what it says of cpus and memory, and what it says of interrupts. In policies the
/// rule is a part after `+`, among numactl's letters a word; alone it leaves cpus and memory to the kernel.
pub(super) fn split(text: &str) -> Result<(String, Option<RouteRule>), String> {
    let explicit = text.trim_start().starts_with('-');
    let (parts, joint): (Vec<&str>, &str) = if explicit {
        (text.split_whitespace().collect(), " ")
    } else {
        (text.split('+').map(str::trim).collect(), "+")
    };
    let (rules, rest): (Vec<&str>, Vec<&str>) = parts.into_iter().partition(|part| part.starts_with(PREFIX));
    if let [first, second, ..] = rules[..] {
        return Err(format!("{first} and {second} both say where interrupts go; give one of them"));
    }
    let rule = rules.first().map(|part| rule(part)).transpose()?;
    Ok((if rest.is_empty() { "kernel".into() } else { rest.join(joint) }, rule))
}

fn rule(part: &str) -> Result<RouteRule, String> {
    match part {
        "irq:same-core" => Ok(RouteRule::SameCore),
        "irq:same-node" => Ok(RouteRule::SameNode),
        "irq:other-node" => Ok(RouteRule::OtherNode),
        "irq:spread" => Ok(RouteRule::Spread),
        _ => match CpuSet::parse_list(&part[PREFIX.len()..]) {
            Ok(cpus) if !cpus.is_empty() => Ok(RouteRule::Cpus(cpus)),
            _ => {
                let names = suggestions(part, RULES).join(", ");
                Err(format!("'{part}' does not say where interrupts go; {names} and a list as in irq:0-3 do"))
            }
        },
    }
}

/// The devices of these names, or the user's mistake.
pub fn devices<'a>(topology: &'a Topology, names: &[String]) -> Result<Vec<&'a Device>, String> {
    let find = |name: &String| {
        topology.devices.iter().find(|device| device.name == *name).ok_or_else(|| {
            let known = suggestions(name, topology.devices.iter().map(|device| device.name.as_str()));
            match known.join(", ") {
                none if none.is_empty() => format!("no device is called '{name}'; this machine shows no devices"),
                known => format!("no device is called '{name}'; there are {known}"),
            }
        })
    };
    names.iter().map(find).collect()
}

/// The devices of a machine whose interrupts may be moved, as far as is known.
pub(super) fn movable_devices(topology: &Topology) -> Result<Vec<String>, String> {
    let mut why = "this machine shows no devices".to_string();
    let mut names = Vec::new();
    for device in &topology.devices {
        match check_device(device) {
            Ok(()) => names.push(device.name.clone()),
            Err(reason) => why = reason,
        }
    }
    if names.is_empty() { Err(why) } else { Ok(names) }
}

/// Whether the interrupts of these devices can be moved, as far as is known.
pub fn check_movable(topology: &Topology, names: &[String]) -> Result<(), PlacementError> {
    let devices = devices(topology, names).map_err(PlacementError::Mistake)?;
    devices.into_iter().try_for_each(check_device).map_err(PlacementError::Unavailable)
}

/// A device of whose interrupts the kernel keeps some to itself keeps those that its data come by.
fn check_device(device: &Device) -> Result<(), String> {
    let name = &device.name;
    if device.interrupts.is_empty() {
        return Err(format!("{name} has no interrupts of its own"));
    }
    match device.interrupts.iter().find(|interrupt| interrupt.movability == Movability::Managed) {
        Some(managed) => Err(format!(
            "interrupt {} ({}) of {name} is managed: the kernel has spread the device's queues over the cpus itself and \
             lets nobody move them",
            managed.number, managed.name
        )),
        None => Ok(()),
    }
}

/// A placement with the interrupts of these devices by the rule of this name, or as they were found.
pub(crate) fn with_route(
    ground: &CoreIndex,
    placement: &Placement,
    rule: Option<&str>,
    names: &[String],
) -> Result<Placement, PlacementError> {
    let mut routed = placement.clone();
    if let Some(name) = rule {
        let joint = if placement.name.starts_with('-') { ' ' } else { '+' };
        routed.name = format!("{}{joint}{name}", placement.name);
    }
    let rule = rule.map(self::rule).transpose().map_err(PlacementError::Mistake)?;
    route(ground, &mut routed, rule.as_ref(), names)?;
    Ok(routed)
}

/// Writes into a placement where the interrupts of these devices go, and why.
pub(super) fn route(
    ground: &CoreIndex,
    placement: &mut Placement,
    rule: Option<&RouteRule>,
    names: &[String],
) -> Result<(), PlacementError> {
    let devices = devices(ground.topology, names).map_err(PlacementError::Mistake)?;
    let Some(rule) = rule else {
        placement.interrupts = routes(&devices, |_| CpuSet::new());
        return Ok(());
    };
    if devices.is_empty() {
        return Err(PlacementError::Mistake(nameless(ground.topology)));
    }
    devices.iter().try_for_each(|device| check_device(device)).map_err(PlacementError::Unavailable)?;
    if let RouteRule::Cpus(cpus) = rule {
        let missing = cpus.difference(&ground.topology.complete_cpus);
        if !missing.is_empty() {
            let existing = &ground.topology.complete_cpus;
            return Err(PlacementError::Mistake(format!(
                "irq:{cpus}: there is no cpu {missing} here, only {existing}"
            )));
        }
    }
    let (cpus, why) = cpus_of(ground, rule, &placement.seats).map_err(PlacementError::Unavailable)?;
    let in_turn = matches!(rule, RouteRule::Spread);
    placement.interrupts = routes(&devices, |index| {
        if in_turn { cpus.iter().nth(index % cpus.len()).into_iter().collect() } else { cpus.clone() }
    });
    placement.reason = format!("{}; interrupts of {} {why}", placement.reason, names.join(", "));
    Ok(())
}

/// Every interrupt of the devices once: on a shared line it is the first device's.
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

fn nameless(topology: &Topology) -> String {
    let known: Vec<&str> = topology.devices.iter().map(|device| device.name.as_str()).collect();
    let known =
        if known.is_empty() { "this machine shows none".into() } else { format!("here are {}", known.join(", ")) };
    format!("irq: needs to know of which device: --device NAME, or devices = [\"NAME\"] in an experiment; {known}")
}

fn cpus_of(ground: &CoreIndex, rule: &RouteRule, seats: &[CpuId]) -> Result<(CpuSet, String), String> {
    let seated: CpuSet = seats.iter().copied().collect();
    if seats.is_empty() && matches!(rule, RouteRule::SameCore | RouteRule::SameNode | RouteRule::OtherNode) {
        return Err(
            "without seats no core is the same and no node another; name seats, as in one-core+irq:same-core".into()
        );
    }
    let on = |cpus: &CpuSet| if cpus.len() == 1 { format!("on cpu {cpus}") } else { format!("on cpus {cpus}") };
    match rule {
        RouteRule::SameCore => Ok((seated.clone(), format!("{}, the seats themselves", on(&seated)))),
        RouteRule::SameNode => {
            let cpus = same_node(ground, seats)?;
            let words = format!("{}, other cores of the same node", on(&cpus));
            Ok((cpus, words))
        }
        RouteRule::OtherNode => {
            let (node, cpus) = other_node(ground, seats)?;
            let words = format!("{}, the cores of node {node}", on(&cpus));
            Ok((cpus, words))
        }
        RouteRule::Spread => {
            let cpus: CpuSet = ground.cores.iter().map(|core| core.cpus[0]).collect();
            Ok((cpus.clone(), format!("in turn {}", on(&cpus))))
        }
        RouteRule::Cpus(cpus) => Ok((cpus.clone(), on(cpus))),
    }
}

fn homes(ground: &CoreIndex, seats: &[CpuId]) -> Vec<NodeId> {
    seats.iter().filter_map(|cpu| ground.core_of(*cpu)?.home).collect()
}

/// Without the seats' own cores: with them it would be `irq:same-core` half of the time.
fn same_node(ground: &CoreIndex, seats: &[CpuId]) -> Result<CpuSet, String> {
    let own = homes(ground, seats);
    let near = |core: &super::cores::Core| core.home.is_none_or(|home| own.contains(&home));
    let free = |core: &super::cores::Core| !core.cpus.iter().any(|cpu| seats.contains(cpu));
    let cpus: CpuSet =
        ground.cores.iter().filter(|core| near(core) && free(core)).flat_map(|core| core.cpus.clone()).collect();
    if cpus.is_empty() {
        return Err("the seats take every core of their node, so no other core of it is left for interrupts".into());
    }
    Ok(cpus)
}

/// The farthest other node that has cores.
fn other_node(ground: &CoreIndex, seats: &[CpuId]) -> Result<(NodeId, CpuSet), String> {
    let all = ground.homes();
    if all.len() < 2 {
        return Err("this machine has one memory node with cpus, so none is another".into());
    }
    let own = homes(ground, seats);
    let others = all.into_iter().filter(|node| !own.contains(node));
    let far = |node: &NodeId| own.iter().filter_map(|home| ground.distance(*home, *node)).min();
    // Of equally far ones the first.
    let farthest = others.rev().max_by_key(far);
    let node = farthest.ok_or("the seats are on every memory node with cpus, so none is another")?;
    let cpus = ground.cores.iter().filter(|core| core.home == Some(node)).flat_map(|core| core.cpus.clone()).collect();
    Ok((node, cpus))
}
