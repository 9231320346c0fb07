//! Named placement policies and the placements that they produce on a machine. A name is `CPUS`, `MEMORY` or
//! `CPUS+MEMORY`.
//!
//! Must not depend on `candidates`.

use serde::Serialize;

use super::cores::CoreIndex;
use super::cpu_rule::{CpuRule, choose_cpus, loosened};
use super::memory::{KernelFeatures, MemoryRule, choose_memory};
use super::{PlacementError, parse_for, route, same_place};
use crate::values::id_set::NodeId;
use crate::values::placement::Placement;
use crate::values::suggest::suggestions;
use crate::values::topology::Topology;

/// A named placement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Part of stored names of placements. In `node:N`, N stands for the number of a memory node.
    pub name: &'static str,
    /// Description of one line.
    pub about: &'static str,
    pub(crate) cpus: CpuRule,
    pub(crate) memory: MemoryRule,
    /// Whether `place` adds the CPUs of this policy to its candidates. It races memory policies with all sets of CPUs,
    /// so policies that only choose memory are not raced.
    pub(crate) raced: bool,
}

/// Placeholder for the node of `node:N`.
const N: NodeId = NodeId(u32::MAX);

/// All policies, in the order of `nearfar list policies`. `CPUS+MEMORY` combines a policy that chooses CPUs with one
/// that chooses memory: `compact+interleave`, `cores-one-l3+memory-remote`, `compact+node:2`.
pub static POLICIES: &[Policy] = &[
    Policy {
        name: "kernel",
        about: "no binding: the kernel chooses (the baseline)",
        cpus: CpuRule::Kernel,
        memory: MemoryRule::Kernel,
        raced: false,
    },
    Policy {
        name: "one-core",
        about: "all threads on one core: its hardware threads first, then shared",
        cpus: CpuRule::OneCore,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "compact",
        about: "close to each other, one thread per core: fill one L3, then the nearest one",
        cpus: CpuRule::Compact,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "spread",
        about: "as far apart as possible, one thread per core: over packages, nodes, L3s",
        cpus: CpuRule::Spread,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "cores-one-l3",
        about: "cores of a single L3, one thread per core",
        cpus: CpuRule::CoresOneL3,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "cores-across-l3",
        about: "cores evenly over several L3s, of one memory node if possible",
        cpus: CpuRule::CoresAcrossL3,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "smt-one-l3",
        about: "all hardware threads of each core before the next core, in a single L3",
        cpus: CpuRule::SmtOneL3,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "smt-pairs",
        about: "two threads per core, on cores close to each other",
        cpus: CpuRule::SmtPairs,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "big",
        about: "the fastest kind of cores, one thread per core",
        cpus: CpuRule::Big,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "little",
        about: "the most power-efficient kind of cores, one thread per core",
        cpus: CpuRule::Little,
        memory: MemoryRule::Kernel,
        raced: true,
    },
    Policy {
        name: "near-device",
        about: "the memory node of the named device, one thread per core",
        cpus: CpuRule::NearDevice,
        memory: MemoryRule::Kernel,
        raced: false,
    },
    Policy {
        name: "far-from-device",
        about: "the farthest other memory node from the named device, one thread per core",
        cpus: CpuRule::FarFromDevice,
        memory: MemoryRule::Kernel,
        raced: false,
    },
    Policy {
        name: "node:N",
        about: "the CPUs and the memory of memory node N",
        cpus: CpuRule::Node(N),
        memory: MemoryRule::Node(N),
        raced: false,
    },
    Policy {
        name: "memory-local",
        about: "cores of one memory node, memory only on that node",
        cpus: CpuRule::OneNode,
        memory: MemoryRule::Local,
        raced: false,
    },
    Policy {
        name: "memory-remote",
        about: "the same cores, memory only on the farthest other node",
        cpus: CpuRule::OneNode,
        memory: MemoryRule::Remote,
        raced: false,
    },
    Policy {
        name: "interleave",
        about: "the same cores, memory interleaved over all nodes",
        cpus: CpuRule::OneNode,
        memory: MemoryRule::Interleave,
        raced: false,
    },
    Policy {
        name: "weighted-interleave",
        about: "the same cores, memory interleaved by the kernel's weights",
        cpus: CpuRule::OneNode,
        memory: MemoryRule::Weighted,
        raced: false,
    },
    Policy {
        name: "far",
        about: "the same cores, arrays in a file on a disk (for kernels that measure arrays)",
        cpus: CpuRule::OneNode,
        memory: MemoryRule::Far,
        raced: false,
    },
];

/// Parts that can be added to the name of a policy: `one-core+irq:same-node`.
const MODIFIERS: &[PolicyInfo] = &[
    PolicyInfo {
        name: "irq:same-core",
        about: "the device's interrupts on the CPUs of the threads, as in one-core+irq:same-core",
    },
    PolicyInfo { name: "irq:same-node", about: "the device's interrupts on other cores of the same node" },
    PolicyInfo { name: "irq:other-node", about: "the device's interrupts on the cores of the farthest other node" },
    PolicyInfo { name: "irq:spread", about: "the device's interrupts round-robin over all cores" },
    PolicyInfo {
        name: "loose",
        about: "every thread may use all CPUs of the placement, as under taskset: smt-one-l3+loose",
    },
    PolicyInfo {
        name: "files:local",
        about: "cached pages of the command's files on the nodes of its CPUs: compact+interleave+files:local",
    },
    PolicyInfo { name: "files:interleave", about: "cached pages of the command's files interleaved over all nodes" },
    PolicyInfo { name: "files:node:N", about: "cached pages of the command's files on memory node N" },
    PolicyInfo { name: "files:cold", about: "cached pages of the command's files dropped before each trial" },
    PolicyInfo {
        name: "expand:SIZE",
        about: "at most SIZE of DRAM, the rest far, as with nearfar expand: one-core+expand:2GiB",
    },
    PolicyInfo { name: "swap:SIZE", about: "the same with the kernel's own swap, for comparison" },
    PolicyInfo {
        name: "compressed",
        about: "next to expand: or swap:, evicted pages stay in DRAM, compressed, before they go to disk: \
                expand:2GiB+compressed",
    },
    PolicyInfo {
        name: "irq:LIST",
        about: "the device's interrupts on these CPUs; combined with numactl's letters: '-C 0 irq:4-7'",
    },
];

/// A row of `nearfar list policies`: a policy, or a part that can be added to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyInfo {
    pub name: &'static str,
    pub about: &'static str,
}

/// The placement of a policy on a machine, or the reason why the machine does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyResult {
    pub policy: String,
    pub placement: Result<Placement, String>,
    /// An earlier policy with the same placement on this machine. Measuring both would repeat one measurement.
    pub same_as: Option<String>,
}

impl Policy {
    /// Whether the policy can be the first half of `CPUS+MEMORY`.
    fn chooses_cpus(&self) -> bool {
        self.cpus != CpuRule::OneNode
    }

    /// Whether the policy can be the second half of `CPUS+MEMORY`.
    fn chooses_memory(&self) -> bool {
        self.memory != MemoryRule::Kernel
    }

    /// Whether the name contains the number of a node.
    fn has_node(&self) -> bool {
        self.name.ends_with(":N")
    }

    /// Returns the policy of a name; for `node:2`, with node 2 in its rules.
    fn find(name: &str) -> Option<Self> {
        let Some(node) = node(name) else {
            return POLICIES.iter().find(|policy| policy.name == name && !policy.has_node()).copied();
        };
        let policy = POLICIES.iter().find(|policy| policy.has_node())?;
        Some(Self { cpus: CpuRule::Node(node), memory: MemoryRule::Node(node), ..*policy })
    }
}

/// Returns the rows of `nearfar list policies`.
pub fn policy_infos() -> Vec<PolicyInfo> {
    let policies = POLICIES.iter().map(|policy| PolicyInfo { name: policy.name, about: policy.about });
    policies.chain(MODIFIERS.iter().copied()).collect()
}

/// Returns the names of the policies that choose CPUs, with `node:N`.
pub(crate) fn cpu_policy_names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().filter(|policy| policy.chooses_cpus()).map(|policy| policy.name)
}

/// Returns the names of the policies that choose memory, with `node:N`.
pub(crate) fn memory_policy_names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().filter(|policy| policy.chooses_memory()).map(|policy| policy.name)
}

/// Returns the policies whose CPUs `place` races.
pub(crate) fn raced_policies() -> impl Iterator<Item = &'static Policy> {
    POLICIES.iter().filter(|policy| policy.raced)
}

/// Returns the names of the policies that need no node number, CPU policies first.
pub(crate) fn names_without_node() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().filter(|policy| !policy.has_node()).map(|policy| policy.name)
}

/// Reads a placement for this machine: a policy, a combination `CPUS+MEMORY`, or numactl's letters. If `threads` is
/// `None`, a policy uses its default number: all cores, or the cores of one L3 or one node.
///
/// # Errors
///
/// If the text is invalid. A machine without this placement is not an error: the result contains the reason.
pub fn offer(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Result<PolicyResult, String> {
    let placement = match parse_for(topology, text, threads, kernel, devices) {
        Ok(placement) => Ok(placement),
        Err(PlacementError::Unavailable(reason)) => Err(reason),
        Err(PlacementError::Invalid(message)) => return Err(message),
    };
    Ok(PolicyResult { policy: text.trim().into(), placement, same_as: None })
}

/// Applies every policy to this machine: `node:N` once per node, and each interrupt rule together with `one-core`, for
/// these devices or, if `devices` is empty, for all devices with movable interrupts.
pub fn offer_all(
    topology: &Topology,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Vec<PolicyResult> {
    let policies = POLICIES.iter().flat_map(|policy| {
        if policy.has_node() {
            topology.nodes.iter().map(|node| format!("node:{}", node.os)).collect()
        } else {
            vec![policy.name.to_string()]
        }
    });
    let index = CoreIndex::new(topology).with_devices(route::known_devices(topology, devices));
    let placements = policies.map(|policy| {
        let placement = named(&index, &policy, threads, kernel).map_err(|error| error.to_string());
        (policy, placement)
    });
    let routes = route::RULES
        .into_iter()
        .map(|rule| (rule.to_string(), with_interrupts(topology, rule, threads, kernel, devices)));
    let mut results: Vec<PolicyResult> = Vec::new();
    for (policy, placement) in placements.chain(routes) {
        let same = |earlier: &&PolicyResult| match (&earlier.placement, &placement) {
            (Ok(one), Ok(other)) => same_place(topology, one, other),
            _ => false,
        };
        let same_as = results.iter().find(same).map(|earlier| earlier.policy.clone());
        results.push(PolicyResult { policy, placement, same_as });
    }
    results
}

/// Returns the placement of an interrupt rule combined with `one-core`.
fn with_interrupts(
    topology: &Topology,
    rule: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Result<Placement, String> {
    let devices = if devices.is_empty() { route::movable_devices(topology)? } else { devices.to_vec() };
    let placement = parse_for(topology, &format!("one-core+{rule}"), threads, kernel, &devices);
    placement.map_err(|error| error.to_string())
}

/// Returns the placement of a policy or a combination on this machine.
pub(crate) fn named(
    index: &CoreIndex,
    name: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    resolve(index, name, threads, kernel, false)
}

/// Like [`named`], with all CPUs for every thread.
pub(super) fn named_loose(
    index: &CoreIndex,
    name: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    resolve(index, name, threads, kernel, true)
}

fn resolve(
    index: &CoreIndex,
    name: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    loose: bool,
) -> Result<Placement, PlacementError> {
    let name = name.trim();
    let rules = rules(name).map_err(PlacementError::Invalid)?;
    if threads == Some(0) {
        return Err(PlacementError::Invalid("the number of threads must be at least 1".into()));
    }
    place(index, name, rules, threads, kernel, loose).map_err(PlacementError::Unavailable)
}

/// Checks that a name is valid on some machine.
pub(super) fn check(name: &str) -> Result<(), String> {
    rules(name.trim()).map(|_| ())
}

fn place(
    index: &CoreIndex,
    name: &str,
    (cpu_rule, memory_rule): (CpuRule, MemoryRule),
    threads: Option<usize>,
    kernel: KernelFeatures,
    loose: bool,
) -> Result<Placement, String> {
    let chosen = choose_cpus(index, cpu_rule, threads)?;
    let list = if loose { loosened(index, cpu_rule, &chosen)? } else { chosen };
    let (memory, memory_reason) = choose_memory(index, memory_rule, &list.cpus, kernel)?;
    let reason = if memory_reason.is_empty() { list.reason } else { format!("{}; {memory_reason}", list.reason) };
    Ok(Placement { name: name.into(), reason, bindings: list.cpus, loose, memory, ..Placement::kernel(list.threads) })
}

/// Returns the rules for CPUs and memory that a name stands for.
fn rules(name: &str) -> Result<(CpuRule, MemoryRule), String> {
    let Some((cpus, memory)) = name.split_once('+') else {
        let policy = Policy::find(name).ok_or_else(|| unknown(name))?;
        return Ok((policy.cpus, policy.memory));
    };
    let (cpus, memory) = (cpus.trim(), memory.trim());
    let cpu_policy = Policy::find(cpus).filter(Policy::chooses_cpus);
    let cpu_policy = cpu_policy.ok_or_else(|| invalid_half(cpus, "CPUs", cpu_policy_names()))?;
    let memory_rule = memory_rule(memory).ok_or_else(|| invalid_half(memory, "memory", memory_policy_names()))?;
    Ok((cpu_policy.cpus, memory_rule))
}

/// Returns the rule of a policy that chooses memory.
pub(crate) fn memory_rule(name: &str) -> Option<MemoryRule> {
    Policy::find(name).filter(Policy::chooses_memory).map(|policy| policy.memory)
}

/// Returns the node of `node:2`.
pub(crate) fn node(name: &str) -> Option<NodeId> {
    let number = name.strip_prefix("node:")?;
    number.chars().all(|c| c.is_ascii_digit()).then(|| number.parse().ok().map(NodeId))?
}

fn unknown(name: &str) -> String {
    let names =
        suggestions(name, POLICIES.iter().map(|policy| policy.name).chain(MODIFIERS.iter().map(|row| row.name)));
    format!(
        "unknown placement '{name}'; valid names: {}; combinations such as compact+interleave; numactl's letters such as \
         '-C 0-3 -m 0'",
        names.join(", ")
    )
}

fn invalid_half(half: &str, subject: &str, names: impl Iterator<Item = &'static str>) -> String {
    format!("'{half}' does not choose {subject}; these do: {}", suggestions(half, names).join(", "))
}

/// Serialises as `{"policy", "placement"}` or `{"policy", "unavailable": reason}` instead of serde's form of `Result`.
impl Serialize for PolicyResult {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct PolicyName<'a> {
            policy: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            placement: Option<&'a Placement>,
            #[serde(skip_serializing_if = "Option::is_none")]
            unavailable: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            same_as: Option<&'a str>,
        }
        let Self { policy, placement, same_as } = self;
        PolicyName {
            policy,
            placement: placement.as_ref().ok(),
            unavailable: placement.as_ref().err().map(String::as_str),
            same_as: same_as.as_deref(),
        }
        .serialize(serializer)
    }
}
