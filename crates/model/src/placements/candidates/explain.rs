//! How the raw placements became the candidates, in numbers and words (`--explain`).

use super::classes::{self, Classes};
use super::count::Count;
use super::distances::Symmetry;
use super::search_space::ResolvedSearchSpace;
use super::tree::{Tree, TreeLevel};
use super::{SearchSpace, Step, Threads};
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::route::RULES;
use crate::values::units::Bytes;

/// The numbers that need no list of placements.
pub(super) struct Counted {
    pub raw: Count,
    pub seats: Count,
    with_memory: Count,
    usable: usize,
    nodes: usize,
    classes: Classes<Count>,
    /// Ways to exchange units where they had to be listed.
    orders: usize,
}

#[derive(Default)]
pub(super) struct CandidateCounts {
    pub family: usize,
    pub first_stage: usize,
    /// Sets of cpus that are whole places.
    pub places: usize,
    /// Sets of cpus that only named policies have.
    pub policies: usize,
    pub excluded: usize,
    /// Named policies that this machine lacks, and why.
    pub lacking: Vec<String>,
}

/// Memory policies besides binding to one node: kernel, local, interleave.
const PLAIN_POLICIES: usize = 3;

/// Counts raw placements and classes.
pub(super) fn count(tree: &Tree, threads: Threads) -> Counted {
    let usable = tree.places[0].cpus;
    let nodes = tree.memory.len();
    let policies = Count::new(if nodes > 1 { PLAIN_POLICIES + nodes } else { 1 });
    let threads = counted_as(threads, usable);
    let degree = match threads {
        Threads::Fixed(threads) => threads.min(usable.saturating_sub(threads)),
        Threads::Searched | Threads::Unspecified => usable / 2,
    };
    let classes = classes::count(tree, degree);
    let orders = match &tree.exchange {
        Symmetry::All => 1,
        Symmetry::Listed { orders, .. } => orders.len(),
    };
    let empty = Count::ZERO;
    let mut counted = Counted { raw: empty, seats: empty, with_memory: empty, usable, nodes, classes, orders };
    let sizes = match threads {
        Threads::Fixed(threads) => threads..=threads,
        Threads::Searched | Threads::Unspecified => 1..=usable,
    };
    let (mut seats, mut with_node) = (Count::ZERO, Count::ZERO);
    for size in sizes {
        seats = seats.plus(counted.seats_of(size));
        with_node = with_node.plus(counted.at(&counted.classes.with_node, size));
    }
    let sets = match threads {
        Threads::Fixed(threads) => Count::choose(usable, threads),
        Threads::Searched | Threads::Unspecified => Count::two_to(usable).less_one(),
    };
    counted.raw = sets.times(policies);
    counted.seats = seats;
    counted.with_memory = if nodes > 1 { seats.times(Count::new(PLAIN_POLICIES)).plus(with_node) } else { seats };
    counted
}

/// More threads than cpus share sets of any size.
fn counted_as(threads: Threads, usable: usize) -> Threads {
    match threads {
        Threads::Fixed(threads) if threads > usable => Threads::Unspecified,
        threads => threads,
    }
}

impl Counted {
    /// Classes of so many seats. The free cpus have as many classes as the seats.
    pub fn seats_of(&self, threads: usize) -> Count {
        self.at(&self.classes.seats, threads)
    }

    /// How many sets of seats would be listed before exchanges of units merge some.
    pub fn listed(&self, threads: usize) -> Count {
        self.seats_of(threads).times(Count::new(self.orders))
    }

    fn at(&self, counts: &[Count], threads: usize) -> Count {
        let Some(free) = self.usable.checked_sub(threads) else { return Count::ZERO };
        counts.get(threads.min(free)).copied().unwrap_or(Count::ZERO)
    }
}

/// What tells cpus apart here, and what is alike.
pub(super) fn facts(ground: &CoreIndex, tree: &Tree, wish: &SearchSpace) -> Vec<String> {
    let mut facts = vec![alike(tree)];
    if ground.kinds.len() > 1 {
        facts.push(format!("{} kinds of cores are told apart", ground.kinds.len()));
    }
    for level in 2..=4 {
        let mut sizes: Vec<Bytes> = ground
            .topology
            .caches(level)
            .filter(|cache| cache.cpus.intersects(&ground.topology.allowed_cpus))
            .filter_map(|cache| cache.cache.map(|cache| cache.bytes))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() > 1 {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            facts.push(format!("L{level} caches of {} are told apart", sizes.join(" and ")));
        }
    }
    let mut classes: Vec<u32> = tree.memory.iter().map(|memory| memory.class).collect();
    classes.sort_unstable();
    classes.dedup();
    if classes.len() > 1 {
        facts.push(format!("{} classes of memory nodes are told apart by size, tier or distances", classes.len()));
    }
    if !wish.measured.is_empty() {
        facts.push(format!("{} measured classes of cpus are told apart", wish.measured.len()));
    }
    facts.extend(distances(ground, tree));
    facts
}

fn distances(ground: &CoreIndex, tree: &Tree) -> Option<String> {
    let stated = !ground.topology.distances.is_empty() && tree.memory.len() > 1;
    match &tree.exchange {
        Symmetry::All if stated => Some("the distances between memory nodes agree with the tree".into()),
        Symmetry::All => None,
        Symmetry::Listed { too_many: true, units, .. } => Some(format!(
            "the distances between memory nodes break the symmetry of the tree in too many ways to list: the {} parts of the machine are all told apart",
            units.len()
        )),
        Symmetry::Listed { units, orders, .. } => Some(format!(
            "the distances between memory nodes break the symmetry of the tree: {} of its {} parts keep them",
            if orders.len() == 1 { "no exchange".into() } else { format!("{} orders", orders.len()) },
            units.len()
        )),
    }
}

/// Along one path from the machine to a cpu: `alike: 2 parts of the machine, 3 cores in each, 2 hardware threads in each`.
fn alike(tree: &Tree) -> String {
    let mut words = Vec::new();
    let mut place = 0;
    while let Some(most) = tree.alike(place).into_iter().max_by_key(|run| run.len() * tree.places[run[0]].cpus) {
        let below = &tree.places[most[0]];
        let noun = match (tree.places[place].level, below.level) {
            (TreeLevel::Core, _) => "hardware threads",
            (_, TreeLevel::Core | TreeLevel::Cpu) => "cores",
            _ => "parts",
        };
        if most.len() > 1 {
            words.push(format!("{} {noun}", most.len()));
        }
        place = most[0];
    }
    if words.is_empty() { "no two cpus are alike".into() } else { format!("alike: {}", words.join(" of ")) }
}

/// All steps but the last.
pub(super) fn steps(
    limits: &ResolvedSearchSpace,
    wish: &SearchSpace,
    counted: &Counted,
    tally: &CandidateCounts,
    facts: Vec<String>,
) -> Vec<Step> {
    let note = |text: String| Step { name: "note", count: None, text };
    let step = |name, count: Count, text: String| Step { name, count: Some(count), text };
    let mut steps: Vec<Step> = limits.words.iter().map(|words| note(words.clone())).collect();
    let sets = match counted_as(wish.threads, counted.usable) {
        Threads::Fixed(threads) => format!("sets of {threads} of {} cpus", counted.usable),
        Threads::Searched | Threads::Unspecified => format!("sets of any size of {} cpus", counted.usable),
    };
    let policies = if counted.nodes > 1 {
        format!(", each with {} memory policies", PLAIN_POLICIES + counted.nodes)
    } else {
        "; with one memory node every memory policy is the kernel's".into()
    };
    let (routed, interrupts) = match &wish.devices[..] {
        [] => (counted.raw, String::new()),
        names => (
            counted.raw.times(routes(wish)),
            format!("; the interrupts of {} in {} ways", names.join(", "), routes(wish)),
        ),
    };
    if wish.second {
        let text = format!("{sets} for the first command{policies}; sets of any size for the second{interrupts}");
        steps.push(step("raw", routed.times(Count::two_to(counted.usable)), text));
    } else {
        steps.push(step("raw", routed, format!("{sets}{policies}{interrupts}")));
    }
    steps.extend(facts.into_iter().map(note));
    steps.push(step(
        "classes",
        counted.seats,
        "classes of sets of cpus: alike places exchanged make the same set".into(),
    ));
    if counted.nodes > 1 {
        let text = "the same with memory: kernel, local, interleaved, or bound to one node".into();
        steps.push(step("with memory", counted.with_memory, text));
    }
    if !wish.only.is_empty() {
        steps.push(note(format!("--only: {}", wish.only.join(", "))));
        steps.extend(tally.lacking.iter().map(|why| note(format!("not on this machine: {why}"))));
        return steps;
    }
    let regular = "1, 2, 4 .. all children at each level, one or all hardware threads of a core";
    let family = match wish.threads {
        _ if wish.second => "pairs of seats for two commands, with the kernel's memory policy".into(),
        Threads::Unspecified => format!("regular sets of cpus with memory policies: {regular}"),
        Threads::Fixed(_) | Threads::Searched => {
            format!("with memory policies: all classes where they are few, else regular ones: {regular}")
        }
    };
    steps.push(step("family", Count::new(tally.family), family));
    if tally.places > 0 {
        steps.push(note(format!(
            "and {} whole places (a cache, a node, a package, a kind of cores) to move in",
            tally.places
        )));
    }
    if tally.policies > 0 {
        steps.push(note(format!("and {} sets of cpus that only named policies take", tally.policies)));
    }
    if !wish.second {
        let text = "of the family: one or all children at each level; kernel's memory policy or interleaved";
        steps.push(step("first stage", Count::new(tally.first_stage), text.into()));
    }
    if tally.excluded > 0 {
        steps.push(note(format!("--exclude leaves out {}", tally.excluded)));
    }
    if let Some(most) = wish.cpus_max {
        steps.push(note(format!("--cpus-max: no placement has more than {most} cpus")));
    }
    steps
}

/// In how many ways interrupts go: as found and by each rule that has a name; one way where no device is named.
pub(super) fn routes(wish: &SearchSpace) -> Count {
    Count::new(if wish.devices.is_empty() { 1 } else { 1 + RULES.len() })
}

/// What devices do to all that stands before.
pub(super) fn with_interrupts(devices: &[String]) -> Option<Step> {
    let text = format!(
        "each with the interrupts of {} as found, and where irq: rules send them that mean something beside its seats",
        devices.join(", ")
    );
    (!devices.is_empty()).then_some(Step { name: "note", count: None, text })
}

/// The last step.
pub(super) fn offered(all: usize, first: usize) -> Step {
    let text = if first == all {
        "candidates, raced together".to_string()
    } else {
        format!("candidates, {first} of them raced first, then the others that go with the winner")
    };
    Step { name: "offered", count: Some(Count::new(all)), text }
}
