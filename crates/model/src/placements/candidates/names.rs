//! Names that `placement::parse` turns back into the same place, and reasons a performance engineer would give.

use std::collections::BTreeMap;

use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::memory::place_memory;
use crate::placements::placement::policy::{MEMORY_NAMES, SEAT_NAMES, memory_rule, named};
use crate::placements::placement::{KernelFeatures, MemoryPolicy, Placement, command_lines, reason};
use crate::values::id_set::{CpuId, CpuSet};

/// Finds names on the machine as the user will name it: without the limits of one search.
pub(super) struct Names<'a> {
    ground: &'a CoreIndex<'a>,
    offers: KernelFeatures,
    /// What the policies make of a number of threads.
    policies: BTreeMap<Option<usize>, Vec<Placement>>,
}

impl<'a> Names<'a> {
    pub fn new(ground: &'a CoreIndex<'a>, offers: KernelFeatures) -> Self {
        Self { ground, offers, policies: BTreeMap::new() }
    }

    /// A policy where one makes exactly this place, else numactl's letters. `given` is what `parse` will be given:
    /// a command with its own number of threads has none.
    pub fn name(&mut self, given: Option<usize>, threads: usize, seats: &[CpuId], memory: &MemoryPolicy) -> String {
        let (ground, offers) = (self.ground, self.offers);
        let policies = self.policies.entry(given).or_insert_with(|| policies(ground, given, offers));
        let here = |placement: &&Placement| placement.threads == threads && placement.seats == seats;
        if let Some(policy) = policies.iter().find(|policy| here(policy) && policy.memory == *memory) {
            return policy.name.clone();
        }
        let seats_alone = policies.iter().find(|policy| here(policy) && policy.memory == MemoryPolicy::Kernel);
        let memory_name = memory_name(ground, seats, memory, offers);
        let combined = seats_alone.zip(memory_name).map(|(seats, memory)| format!("{}+{memory}", seats.name));
        combined.unwrap_or_else(|| letters(seats, memory))
    }
}

/// The name of a memory policy beside one for seats.
fn memory_name(ground: &CoreIndex, seats: &[CpuId], memory: &MemoryPolicy, offers: KernelFeatures) -> Option<String> {
    let node = match memory {
        MemoryPolicy::Bind(nodes) if nodes.len() == 1 => nodes.first().map(|node| format!("node:{node}")),
        _ => None,
    };
    let names = MEMORY_NAMES.iter().filter(|name| **name != "node:N").map(|name| (*name).to_string());
    names.chain(node).find(|name| {
        let made = memory_rule(name).map(|rule| place_memory(ground, rule, seats, offers));
        matches!(made, Some(Ok((made, _))) if made == *memory)
    })
}

fn policies(ground: &CoreIndex, threads: Option<usize>, offers: KernelFeatures) -> Vec<Placement> {
    let nodes = ground.homes().into_iter().map(|node| format!("node:{node}"));
    let fixed =
        SEAT_NAMES.iter().chain(&MEMORY_NAMES).filter(|name| **name != "node:N").map(|name| (*name).to_string());
    fixed.chain(nodes).filter_map(|name| named(ground, &name, threads, offers).ok()).collect()
}

/// `-C 0-2,6-8 -m 0`, or `kernel` where nothing is bound.
pub(super) fn letters(seats: &[CpuId], memory: &MemoryPolicy) -> String {
    let letters = command_lines::letters(&seats.iter().copied().collect(), memory);
    if letters.is_empty() { "kernel".into() } else { letters.join(" ") }
}

/// One sentence that says what a placement is.
pub(super) fn sentence(ground: &CoreIndex, placement: &Placement, own_threads: bool) -> String {
    let cpus: CpuSet = placement.cpus();
    let distinct: Vec<CpuId> = cpus.iter().collect();
    let seats = match (placement.threads, cpus.len()) {
        (_, 0) => "no binding: the kernel chooses the cpus".into(),
        (threads, all) if threads == all && !own_threads => reason::seats(ground, &distinct),
        (threads, all) if threads > all && !own_threads => {
            format!("{threads} threads share {}: {}", reason::count(all, "cpu"), reason::shared_cpus(ground, &distinct))
        }
        (_, 1) => format!("one cpu: {}", reason::shared_cpus(ground, &distinct)),
        (_, all) => format!("any of {}: {}", reason::count(all, "cpu"), reason::shared_cpus(ground, &distinct)),
    };
    match memory(ground, placement) {
        Some(memory) => format!("{seats}; {memory}"),
        None => seats,
    }
}

fn memory(ground: &CoreIndex, placement: &Placement) -> Option<String> {
    let own = |node| placement.seats.iter().any(|cpu| ground.core_of(*cpu).is_some_and(|core| core.home == Some(node)));
    let seated = placement.is_pinned();
    Some(match &placement.memory {
        MemoryPolicy::Kernel => return None,
        MemoryPolicy::Local => "memory on the node of the cpu that touches it first".into(),
        MemoryPolicy::Bind(nodes) => {
            let whose = match nodes.first() {
                Some(node) if seated && own(node) => ", where threads are",
                Some(_) if seated => ", where no thread is",
                _ => "",
            };
            format!("memory only on {}{whose}", reason::nodes(nodes))
        }
        MemoryPolicy::Interleave(nodes) => format!("memory page by page over {}", reason::nodes(nodes)),
        MemoryPolicy::WeightedInterleave(nodes) => {
            format!("memory over {} by the kernel's weights", reason::nodes(nodes))
        }
        MemoryPolicy::Preferred(node) => format!("memory on node {node} while it has room"),
        MemoryPolicy::Far => "arrays in a file on a disk".into(),
    })
}
