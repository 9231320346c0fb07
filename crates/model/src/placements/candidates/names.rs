//! Names that `placement::parse` converts back to the same placement, and reasons for placements.

use std::collections::BTreeMap;

use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::memory::choose_memory;
use crate::placements::placement::policy::{memory_policy_names, memory_rule, named, names_without_node};
use crate::placements::placement::{KernelFeatures, command_lines, reason};
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::placement::{MemoryPolicy, Placement};

/// Finds names on the whole machine, without the limits of one search, because the user will type them there.
pub(super) struct Names<'a> {
    core_index: &'a CoreIndex<'a>,
    features: KernelFeatures,
    /// Placements of all policies, by number of threads.
    policies: BTreeMap<Option<usize>, Vec<Placement>>,
}

impl<'a> Names<'a> {
    pub fn new(core_index: &'a CoreIndex<'a>, features: KernelFeatures) -> Self {
        Self { core_index, features, policies: BTreeMap::new() }
    }

    /// Returns the policy with exactly this placement, else numactl's letters. `requested` is the number of threads
    /// that `parse` will get; `None` if the command chooses its number of threads.
    pub fn name(
        &mut self,
        requested: Option<usize>,
        threads: usize,
        bindings: &[CpuId],
        memory: &MemoryPolicy,
    ) -> String {
        let (core_index, features) = (self.core_index, self.features);
        let policies = self.policies.entry(requested).or_insert_with(|| policies(core_index, requested, features));
        let matches = |placement: &&Placement| placement.threads == threads && placement.bindings == bindings;
        if let Some(policy) = policies.iter().find(|policy| matches(policy) && policy.memory == *memory) {
            return policy.name.clone();
        }
        let cpu_policy = policies.iter().find(|policy| matches(policy) && policy.memory == MemoryPolicy::Kernel);
        let memory_name = memory_name(core_index, bindings, memory, features);
        let combined = cpu_policy.zip(memory_name).map(|(cpus, memory)| format!("{}+{memory}", cpus.name));
        combined.unwrap_or_else(|| letters(bindings, memory))
    }

    /// Like [`Names::name`], but a single memory node is named by its number: the memory policy is chosen for a server on
    /// other CPUs, so `memory-local` would mislead.
    pub fn name_with_server(
        &mut self,
        requested: Option<usize>,
        threads: usize,
        bindings: &[CpuId],
        memory: &MemoryPolicy,
    ) -> String {
        let cpus = self.name(requested, threads, bindings, &MemoryPolicy::Kernel);
        match memory {
            MemoryPolicy::Bind(nodes) if nodes.len() == 1 && !cpus.starts_with('-') => format!("{cpus}+node:{nodes}"),
            _ => self.name(requested, threads, bindings, memory),
        }
    }
}

/// Returns the name of a memory policy that can follow a CPU policy.
fn memory_name(
    core_index: &CoreIndex,
    bindings: &[CpuId],
    memory: &MemoryPolicy,
    features: KernelFeatures,
) -> Option<String> {
    let node = match memory {
        MemoryPolicy::Bind(nodes) if nodes.len() == 1 => nodes.first().map(|node| format!("node:{node}")),
        _ => None,
    };
    let names = memory_policy_names().filter(|name| *name != "node:N").map(str::to_string);
    names.chain(node).find(|name| {
        let result = memory_rule(name).map(|rule| choose_memory(core_index, rule, bindings, features));
        matches!(result, Some(Ok((policy, _))) if policy == *memory)
    })
}

fn policies(core_index: &CoreIndex, threads: Option<usize>, features: KernelFeatures) -> Vec<Placement> {
    let nodes = core_index.homes().into_iter().map(|node| format!("node:{node}"));
    names_without_node()
        .map(str::to_string)
        .chain(nodes)
        .filter_map(|name| named(core_index, &name, threads, features).ok())
        .collect()
}

/// Returns `-C 0-2,6-8 -m 0`, or `kernel` if nothing is bound.
pub(super) fn letters(bindings: &[CpuId], memory: &MemoryPolicy) -> String {
    let letters = command_lines::letters(&bindings.iter().copied().collect(), memory);
    if letters.is_empty() { "kernel".into() } else { letters.join(" ") }
}

/// Describes a placement in one sentence. `free_threads`: the command chooses its number of threads.
pub(super) fn sentence(core_index: &CoreIndex, placement: &Placement, free_threads: bool) -> String {
    let cpus: CpuSet = placement.cpus();
    let distinct: Vec<CpuId> = cpus.iter().collect();
    let binding = match (placement.threads, cpus.len()) {
        (_, 0) => "no binding: the kernel chooses the CPUs".into(),
        (threads, all) if threads == all && !free_threads => reason::bindings(core_index, &distinct),
        (threads, all) if threads > all && !free_threads => {
            format!(
                "{threads} threads share {}: {}",
                reason::count(all, "CPU"),
                reason::shared_cpus(core_index, &distinct)
            )
        }
        (_, 1) => format!("one CPU: {}", reason::shared_cpus(core_index, &distinct)),
        (_, all) => format!("any of {}: {}", reason::count(all, "CPU"), reason::shared_cpus(core_index, &distinct)),
    };
    match memory(core_index, placement) {
        Some(memory) => format!("{binding}; {memory}"),
        None => binding,
    }
}

/// Describes the memory policy of a placement, relative to its CPUs; `None` for that of the kernel.
pub(super) fn memory(core_index: &CoreIndex, placement: &Placement) -> Option<String> {
    let is_local = |node| {
        placement.bindings.iter().any(|cpu| core_index.core_of(*cpu).is_some_and(|core| core.home == Some(node)))
    };
    let pinned = placement.is_pinned();
    Some(match &placement.memory {
        MemoryPolicy::Kernel => return None,
        MemoryPolicy::Local => "memory on the node of the CPU that touches it first".into(),
        MemoryPolicy::Bind(nodes) => {
            let relation = match nodes.first() {
                Some(node) if pinned && is_local(node) => ", local to threads",
                Some(_) if pinned => ", remote from all threads",
                _ => "",
            };
            format!("memory only on {}{relation}", nodes.described())
        }
        MemoryPolicy::Interleave(nodes) => format!("memory interleaved over {}", nodes.described()),
        MemoryPolicy::WeightedInterleave(nodes) => {
            format!("memory interleaved over {} by the kernel's weights", nodes.described())
        }
        MemoryPolicy::Preferred(node) => format!("memory on node {node} until it is full"),
        MemoryPolicy::Far => "arrays in a file on a disk".into(),
    })
}
