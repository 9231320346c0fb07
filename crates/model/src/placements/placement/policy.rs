//! Named policies: what each makes of a machine. A name is SEATS, MEMORY or SEATS+MEMORY.

use serde::Serialize;

use super::cores::CoreIndex;
use super::cpu_rule::{CpuRule, choose_cpus};
use super::memory::{MemoryRule, place_memory};
use super::{Placement, PlacementError, parse_for, route, same_place};
use crate::values::id_set::NodeId;
use crate::values::suggest::suggestions;
use crate::values::topology::Topology;

/// A policy as `nearfar list policies` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyInfo {
    /// Its name; `node:N` stands for one name per node.
    pub name: &'static str,
    /// What it makes, one line.
    pub about: &'static str,
}

/// What a policy makes of this machine, or why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyResult {
    pub policy: String,
    /// The placement, or the reason why this machine lacks it.
    pub placement: Result<Placement, String>,
    /// An earlier policy that makes the same placement here: measuring both would measure one thing twice.
    pub same_as: Option<String>,
}

/// What the running kernel offers beyond what a topology shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelFeatures {
    /// Whether `/sys/kernel/mm/mempolicy/weighted_interleave` exists.
    pub weighted_interleave: bool,
    /// Whether there is a folder on a disk for arrays beyond DRAM.
    pub far: bool,
}

/// Every policy, in the order in which people read them. `SEATS+MEMORY` combines one that chooses cpus with
/// one that chooses memory: `compact+interleave`, `cores-one-l3+memory-remote`, `compact+node:2`. To either may be added
/// where interrupts of named devices go: `one-core+irq:same-node`.
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo { name: "kernel", about: "no binding: the kernel chooses; the reference" },
    PolicyInfo { name: "one-core", about: "everything on one core, its hardware threads first, then sharing them" },
    PolicyInfo { name: "compact", about: "near each other, one thread per core: one L3 first, then the nearest next" },
    PolicyInfo { name: "spread", about: "as far apart as possible, one thread per core: over packages, nodes, L3s" },
    PolicyInfo { name: "cores-one-l3", about: "cores of a single L3, one thread per core" },
    PolicyInfo { name: "cores-across-l3", about: "cores evenly over several L3s, of one memory node where possible" },
    PolicyInfo { name: "smt-one-l3", about: "all hardware threads of each core before the next core, in a single L3" },
    PolicyInfo { name: "smt-pairs", about: "two threads on each core, on cores near each other" },
    PolicyInfo { name: "big", about: "the fastest kind of cores, one thread per core" },
    PolicyInfo { name: "little", about: "the most frugal kind of cores, one thread per core" },
    PolicyInfo { name: "node:N", about: "the cpus and the memory of memory node N" },
    PolicyInfo { name: "memory-local", about: "cores of one memory node, memory only on that node" },
    PolicyInfo { name: "memory-remote", about: "the same cores, memory only on the farthest other node" },
    PolicyInfo { name: "interleave", about: "the same cores, memory page by page over all nodes" },
    PolicyInfo { name: "weighted-interleave", about: "the same cores, memory over all nodes by the kernel's weights" },
    PolicyInfo {
        name: "far",
        about: "the same cores, arrays in a file on a disk (beyond DRAM), for kernels that measure arrays",
    },
    PolicyInfo {
        name: "irq:same-core",
        about: "the device's interrupts on the very seats, as in one-core+irq:same-core",
    },
    PolicyInfo { name: "irq:same-node", about: "the device's interrupts on other cores of the seats' node" },
    PolicyInfo { name: "irq:other-node", about: "the device's interrupts on the cores of the farthest other node" },
    PolicyInfo { name: "irq:spread", about: "the device's interrupts in turn over all cores" },
    PolicyInfo {
        name: "expand:SIZE",
        about: "at most this much DRAM, the rest far, as nearfar expand: one-core+expand:2GiB",
    },
    PolicyInfo { name: "swap:SIZE", about: "the same by the kernel's own swap, for comparison" },
    PolicyInfo {
        name: "irq:LIST",
        about: "the device's interrupts on these cpus; among numactl's letters '-C 0 irq:4-7'",
    },
];

/// One placement on this machine, named as `--placement` takes it: a policy, a combination `SEATS+MEMORY`, or
/// numactl's letters. Without a number of threads a policy takes its natural one: all cores, or the cores of one L3,
/// or of one node. An error is the user's mistake; what this machine lacks is inside the offer.
pub fn offer(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Result<PolicyResult, String> {
    let placement = match parse_for(topology, text, threads, kernel, devices) {
        Ok(placement) => Ok(placement),
        Err(PlacementError::Unavailable(why)) => Err(why),
        Err(PlacementError::Mistake(why)) => return Err(why),
    };
    Ok(PolicyResult { policy: text.trim().into(), placement, same_as: None })
}

/// Every policy on this machine; `node:N` once per node, `irq:` beside one core for these devices; for all that can be
/// moved where none is named.
pub fn offer_all(
    topology: &Topology,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Vec<PolicyResult> {
    let names = POLICIES.iter().flat_map(|policy| match policy.name {
        "node:N" => topology.nodes.iter().map(|node| format!("node:{}", node.os)).collect(),
        // A list or a size is for the user to name.
        "irq:LIST" | "expand:SIZE" | "swap:SIZE" => Vec::new(),
        name => vec![name.to_string()],
    });
    let ground = CoreIndex::new(topology);
    let mut offers: Vec<PolicyResult> = Vec::new();
    for policy in names {
        let placement = if route::RULES.contains(&policy.as_str()) {
            with_interrupts(topology, &policy, threads, kernel, devices)
        } else {
            named(&ground, &policy, threads, kernel).map_err(|none| none.to_string())
        };
        let same = |earlier: &&PolicyResult| match (&earlier.placement, &placement) {
            (Ok(one), Ok(other)) => same_place(topology, one, other),
            _ => false,
        };
        let same_as = offers.iter().find(same).map(|earlier| earlier.policy.clone());
        offers.push(PolicyResult { policy, placement, same_as });
    }
    offers
}

/// What a rule for interrupts makes beside one core.
fn with_interrupts(
    topology: &Topology,
    rule: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Result<Placement, String> {
    let devices = if devices.is_empty() { route::movable_devices(topology)? } else { devices.to_vec() };
    let placement = parse_for(topology, &format!("one-core+{rule}"), threads, kernel, &devices);
    placement.map_err(|none| none.to_string())
}

/// The placement that a name means on this machine.
pub(crate) fn named(
    ground: &CoreIndex,
    policy: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    let policy = policy.trim();
    let rules = rules(policy).map_err(PlacementError::Mistake)?;
    if threads == Some(0) {
        return Err(PlacementError::Mistake("0 threads do nothing; give at least 1".into()));
    }
    place(ground, policy, rules, threads, kernel).map_err(PlacementError::Unavailable)
}

/// Whether this is a name that some machine could offer.
pub(super) fn check(policy: &str) -> Result<(), String> {
    rules(policy.trim()).map(|_| ())
}

fn place(
    ground: &CoreIndex,
    name: &str,
    (seat_rule, memory_rule): (CpuRule, MemoryRule),
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, String> {
    let seats = choose_cpus(ground, seat_rule, threads)?;
    let (memory, why) = place_memory(ground, memory_rule, &seats.cpus, kernel)?;
    let reason = if why.is_empty() { seats.reason } else { format!("{}; {why}", seats.reason) };
    let mut placement = Placement::kernel(seats.threads);
    (placement.name, placement.reason, placement.seats, placement.memory) = (name.into(), reason, seats.cpus, memory);
    Ok(placement)
}

/// What a name says about cpus and about memory.
fn rules(name: &str) -> Result<(CpuRule, MemoryRule), String> {
    if let Some((seats, memory)) = name.split_once('+') {
        return Ok((
            seat_rule(seats.trim()).ok_or_else(|| wrong_half(seats, "cpus", SEAT_NAMES))?,
            memory_rule(memory.trim()).ok_or_else(|| wrong_half(memory, "memory", MEMORY_NAMES))?,
        ));
    }
    if let Some(node) = node(name) {
        return Ok((CpuRule::Node(node), MemoryRule::Node(node)));
    }
    match (seat_rule(name), memory_rule(name)) {
        (Some(seats), _) => Ok((seats, MemoryRule::Kernel)),
        (None, Some(memory)) => Ok((CpuRule::OneNode, memory)),
        (None, None) => Err(unknown(name)),
    }
}

pub(crate) const SEAT_NAMES: [&str; 11] = [
    "kernel",
    "one-core",
    "compact",
    "spread",
    "cores-one-l3",
    "cores-across-l3",
    "smt-one-l3",
    "smt-pairs",
    "big",
    "little",
    "node:N",
];

pub(crate) const MEMORY_NAMES: [&str; 6] =
    ["memory-local", "memory-remote", "interleave", "weighted-interleave", "far", "node:N"];

fn seat_rule(name: &str) -> Option<CpuRule> {
    Some(match name {
        "kernel" => CpuRule::Kernel,
        "one-core" => CpuRule::OneCore,
        "compact" => CpuRule::Compact,
        "spread" => CpuRule::Spread,
        "cores-one-l3" => CpuRule::CoresOneL3,
        "cores-across-l3" => CpuRule::CoresAcrossL3,
        "smt-one-l3" => CpuRule::SmtOneL3,
        "smt-pairs" => CpuRule::SmtPairs,
        "big" => CpuRule::Big,
        "little" => CpuRule::Little,
        name => CpuRule::Node(node(name)?),
    })
}

pub(crate) fn memory_rule(name: &str) -> Option<MemoryRule> {
    Some(match name {
        "memory-local" => MemoryRule::Local,
        "memory-remote" => MemoryRule::Remote,
        "interleave" => MemoryRule::Interleave,
        "weighted-interleave" => MemoryRule::Weighted,
        "far" => MemoryRule::Far,
        name => MemoryRule::Node(node(name)?),
    })
}

pub(crate) fn node(name: &str) -> Option<NodeId> {
    let number = name.strip_prefix("node:")?;
    number.chars().all(|c| c.is_ascii_digit()).then(|| number.parse().ok().map(NodeId))?
}

fn unknown(name: &str) -> String {
    let names = suggestions(name, POLICIES.iter().map(|policy| policy.name));
    format!(
        "no placement is called '{name}'; there are {}, two of them joined as in compact+interleave, and numactl's letters as in '-C 0-3 -m 0'",
        names.join(", ")
    )
}

fn wrong_half<const N: usize>(half: &str, about: &str, names: [&'static str; N]) -> String {
    let half = half.trim();
    format!("'{half}' does not say where {about} should be; {} does", suggestions(half, names).join(", "))
}

/// `{"policy", "placement"}` or `{"policy", "unavailable": why}`: a reader should not have to know Rust's Result.
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
