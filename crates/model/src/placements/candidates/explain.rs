//! Explains how the raw placements were reduced to the candidates (`--explain`).

use super::classes::{self, Classes};
use super::count::Count;
use super::interrupts::handling;
use super::search_space::ResolvedSearchSpace;
use super::tree::{Symmetry, Tree, TreeLevel};
use super::{SearchSpace, Step, Threads};
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::route::RULES;
use crate::values::units::Bytes;

/// Counts that need no list of placements.
pub(super) struct ClassCounts {
    pub raw: Count,
    pub cpu_sets: Count,
    with_memory: Count,
    usable: usize,
    nodes: usize,
    classes: Classes<Count>,
    /// Number of symmetries of units if they are listed, otherwise 1.
    orders: usize,
}

#[derive(Default)]
pub(super) struct CandidateCounts {
    pub family: usize,
    pub first_stage: usize,
    /// Sets of CPUs that are whole parts.
    pub whole_parts: usize,
    /// Sets of CPUs that only named policies have.
    pub policies: usize,
    pub excluded: usize,
    /// Named policies that this machine does not have, with the reason.
    pub unavailable: Vec<String>,
}

/// Number of memory policies besides binding to one node: kernel, local, interleave.
const PLAIN_POLICIES: usize = 3;

/// Counts raw placements and classes.
pub(super) fn count(tree: &Tree, threads: Threads) -> ClassCounts {
    let usable = tree.parts[0].cpus;
    let nodes = tree.memory.len();
    let policies = Count::new(if nodes > 1 { PLAIN_POLICIES + nodes } else { 1 });
    let threads = counted_as(threads, usable);
    let degree = match threads {
        Threads::Fixed(threads) => threads.min(usable.saturating_sub(threads)),
        Threads::Searched | Threads::Unspecified => usable / 2,
    };
    let classes = classes::count(tree, degree);
    let orders = match &tree.symmetry {
        Symmetry::All => 1,
        Symmetry::Listed { orders, .. } => orders.len(),
    };
    let zero = Count::ZERO;
    let mut counted = ClassCounts { raw: zero, cpu_sets: zero, with_memory: zero, usable, nodes, classes, orders };
    let sizes = match threads {
        Threads::Fixed(threads) => threads..=threads,
        Threads::Searched | Threads::Unspecified => 1..=usable,
    };
    let (mut cpu_sets, mut with_node) = (Count::ZERO, Count::ZERO);
    for size in sizes {
        cpu_sets = cpu_sets.plus(counted.classes_of(size));
        with_node = with_node.plus(counted.at(&counted.classes.with_node, size));
    }
    let sets = match threads {
        Threads::Fixed(threads) => Count::choose(usable, threads),
        Threads::Searched | Threads::Unspecified => Count::two_to(usable).less_one(),
    };
    counted.raw = sets.times(policies);
    counted.cpu_sets = cpu_sets;
    counted.with_memory = if nodes > 1 { cpu_sets.times(Count::new(PLAIN_POLICIES)).plus(with_node) } else { cpu_sets };
    counted
}

/// If there are more threads than CPUs, they share sets of any size.
fn counted_as(threads: Threads, usable: usize) -> Threads {
    match threads {
        Threads::Fixed(threads) if threads > usable => Threads::Unspecified,
        threads => threads,
    }
}

impl ClassCounts {
    /// Returns the number of classes of sets of this many CPUs. The remaining CPUs have the same number of classes.
    pub fn classes_of(&self, threads: usize) -> Count {
        self.at(&self.classes.cpu_sets, threads)
    }

    /// Returns the number of sets that would be listed before symmetries of units merge some.
    pub fn listed(&self, threads: usize) -> Count {
        self.classes_of(threads).times(Count::new(self.orders))
    }

    fn at(&self, counts: &[Count], threads: usize) -> Count {
        let Some(free) = self.usable.checked_sub(threads) else { return Count::ZERO };
        counts.get(threads.min(free)).copied().unwrap_or(Count::ZERO)
    }
}

/// Notes about the properties by which CPUs are distinguished, and about equivalent parts.
pub(super) fn notes(core_index: &CoreIndex, tree: &Tree, space: &SearchSpace) -> Vec<String> {
    let mut notes = vec![equivalent_parts(tree)];
    if core_index.kinds.len() > 1 {
        notes.push(format!("{} kinds of cores are distinguished", core_index.kinds.len()));
    }
    for level in 2..=4 {
        let mut sizes: Vec<Bytes> = core_index
            .topology
            .caches(level)
            .filter(|cache| cache.cpus.intersects(&core_index.topology.allowed_cpus))
            .filter_map(|cache| cache.cache.map(|cache| cache.bytes))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() > 1 {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            notes.push(format!("L{level} caches of {} are distinguished", sizes.join(" and ")));
        }
    }
    let mut classes: Vec<u32> = tree.memory.iter().map(|memory| memory.class).collect();
    classes.sort_unstable();
    classes.dedup();
    if classes.len() > 1 {
        notes.push(format!("{} classes of memory nodes are distinguished by size, tier or distances", classes.len()));
    }
    if let Some(cpus) = handling(core_index.topology, space) {
        notes.push(format!("CPUs {cpus} handle interrupts of devices and are distinguished from the others"));
    }
    if !space.measured.is_empty() {
        notes.push(format!("{} measured classes of CPUs are distinguished", space.measured.len()));
    }
    notes.extend(distances(core_index, tree));
    notes
}

fn distances(core_index: &CoreIndex, tree: &Tree) -> Option<String> {
    let stated = !core_index.topology.distances.is_empty() && tree.memory.len() > 1;
    match &tree.symmetry {
        Symmetry::All if stated => Some("the distances between memory nodes agree with the tree".into()),
        Symmetry::All => None,
        Symmetry::Listed { too_many: true, units, .. } => Some(format!(
            "the distances between memory nodes break the symmetry of the tree in too many ways to list: the {} parts of the machine are all distinguished",
            units.len()
        )),
        Symmetry::Listed { units, orders, .. } => Some(format!(
            "the distances between memory nodes break the symmetry of the tree: {} of its {} parts preserve them",
            if orders.len() == 1 { "no permutation".into() } else { format!("{} permutations", orders.len()) },
            units.len()
        )),
    }
}

/// Describes one path from the machine to a CPU:
/// `equivalent: 2 parts of the machine, 3 cores in each, 2 hardware threads in each`.
fn equivalent_parts(tree: &Tree) -> String {
    let mut words = Vec::new();
    let mut part = 0;
    while let Some(most) =
        tree.equivalent_children(part).into_iter().max_by_key(|run| run.len() * tree.parts[run[0]].cpus)
    {
        let below = &tree.parts[most[0]];
        let noun = match (tree.parts[part].level, below.level) {
            (TreeLevel::Core, _) => "hardware threads",
            (_, TreeLevel::Core | TreeLevel::Cpu) => "cores",
            _ => "parts",
        };
        if most.len() > 1 {
            words.push(format!("{} {noun}", most.len()));
        }
        part = most[0];
    }
    if words.is_empty() { "no two CPUs are equivalent".into() } else { format!("equivalent: {}", words.join(" of ")) }
}

/// Returns all steps except the last.
pub(super) fn steps(
    limits: &ResolvedSearchSpace,
    space: &SearchSpace,
    counted: &ClassCounts,
    counts: &CandidateCounts,
    facts: Vec<String>,
) -> Vec<Step> {
    let note = |text: String| Step { name: "note", count: None, text };
    let step = |name, count: Count, text: String| Step { name, count: Some(count), text };
    let mut steps: Vec<Step> = limits.notes.iter().map(|text| note(text.clone())).collect();
    let sets = match counted_as(space.threads, counted.usable) {
        Threads::Fixed(threads) => format!("sets of {threads} of {} CPUs", counted.usable),
        Threads::Searched | Threads::Unspecified => format!("sets of any size of {} CPUs", counted.usable),
    };
    let policies = if counted.nodes > 1 {
        format!(", each with {} memory policies", PLAIN_POLICIES + counted.nodes)
    } else {
        "; with one memory node, all memory policies equal the kernel's".into()
    };
    let (routed, interrupts) = match &space.devices[..] {
        [] => (counted.raw, String::new()),
        names => (
            counted.raw.times(routes(space)),
            format!("; the interrupts of {} in {} ways", names.join(", "), routes(space)),
        ),
    };
    if space.second {
        let text = format!("{sets} for the first command{policies}; sets of any size for the second{interrupts}");
        steps.push(step("raw", routed.times(Count::two_to(counted.usable)), text));
    } else {
        steps.push(step("raw", routed, format!("{sets}{policies}{interrupts}")));
    }
    steps.extend(facts.into_iter().map(note));
    let classes = if counted.cpu_sets == Count::new(1) { "class" } else { "classes" };
    let text = format!("{classes} of CPU sets: sets are equal if exchanging equivalent parts turns one into the other");
    steps.push(step("classes", counted.cpu_sets, text));
    if counted.nodes > 1 {
        let text = "the same, each with a memory policy: kernel, local, interleaved, or bound to one node".into();
        steps.push(step("with memory", counted.with_memory, text));
    }
    if !space.only.is_empty() {
        steps.push(note(format!("--only: {}", space.only.join(", "))));
        steps.extend(counts.unavailable.iter().map(|reason| note(format!("not on this machine: {reason}"))));
        return steps;
    }
    let regular = "1, 2, 4 .. all children at each level, one or all hardware threads per core";
    let family = match space.threads {
        _ if space.second && counted.nodes > 1 => {
            "pairs of CPU sets for two commands; the memory of both by the kernel, interleaved, or on the server's node"
                .into()
        }
        _ if space.second => "pairs of CPU sets for two commands".into(),
        Threads::Unspecified => format!("regular sets of CPUs with memory policies: {regular}"),
        Threads::Fixed(_) | Threads::Searched => {
            format!("with memory policies: all classes if there are few, otherwise regular sets: {regular}")
        }
    };
    steps.push(step("family", Count::new(counts.family), family));
    if counts.whole_parts > 0 {
        steps.push(note(format!(
            "and {} whole parts (a cache, a node, a package, a kind of cores) in which threads may move",
            counts.whole_parts
        )));
    }
    if counts.policies > 0 {
        steps.push(note(format!("sets of CPUs that only named policies use: {}", counts.policies)));
    }
    if !space.second {
        let text = "of the family: one or all children at each level, with the kernel's memory policy or interleaved";
        steps.push(step("first stage", Count::new(counts.first_stage), text.into()));
    }
    if counts.excluded > 0 {
        steps.push(note(format!("--exclude removes {}", counts.excluded)));
    }
    if let Some(most) = space.cpus_max {
        steps.push(note(format!("--max-cpus: no placement has more than {most} CPUs")));
    }
    steps
}

/// Number of interrupt affinities: unchanged, and one per named rule. 1 if no device is named.
pub(super) fn routes(space: &SearchSpace) -> Count {
    Count::new(if space.devices.is_empty() { 1 } else { 1 + RULES.len() })
}

/// Returns the note about the interrupts of devices.
pub(super) fn with_interrupts(devices: &[String]) -> Option<Step> {
    let text = format!(
        "each with the interrupts of {} unchanged, and placed by every irq: rule that differs for its CPUs",
        devices.join(", ")
    );
    (!devices.is_empty()).then_some(Step { name: "note", count: None, text })
}

/// Returns the last step.
pub(super) fn offered(all: usize, first: usize) -> Step {
    let text = if first == all {
        "candidates, all raced in one stage".to_string()
    } else {
        format!("candidates; {first} are raced first, then those that share CPUs or memory policy with the winner")
    };
    Step { name: "offered", count: Some(Count::new(all)), text }
}
