//! The placements that `nearfar place` races: every way to put a command on the machine that differs after exchanging
//! alike places, or a regular family of a few dozen where those are too many. Offers only; what is best is measured.

mod canonical;
mod classes;
mod collect;
mod count;
mod distances;
mod explain;
mod family;
mod interrupts;
mod memory;
mod names;
mod neighbours;
#[cfg(test)]
mod orbits;
mod pairs;
pub(crate) mod quantise;
mod search_space;
mod server_bindings;
mod stages;
mod tree;

pub use count::Count;
pub use memory::MemoryChoice;
pub use neighbours::neighbours;
pub use pairs::{CpuPair, all_pairs, pairs, pairs_keep};
pub use stages::{STAGED_ABOVE, Stages};

use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::{KernelFeatures, MemoryPolicy, Placement};
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::topology::Topology;
use collect::CandidateSet;
use search_space::ResolvedSearchSpace;
use tree::Tree;

/// How many threads the command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// So many: each gets a cpu of its own, or all share a larger set.
    Fixed(usize),
    /// As many as it is told: the command has `{threads}`, and the number is searched too.
    Searched,
    /// Its own business: it gets sets of cpus of many sizes to use as it likes.
    #[default]
    Unspecified,
}

/// What is wanted of the candidates.
#[derive(Clone, Debug, Default)]
pub struct SearchSpace {
    /// How many threads the command runs.
    pub threads: Threads,
    /// The most cpus that a placement may have (`--cpus-max`).
    pub cpus_max: Option<usize>,
    /// The cpus that may be used (`-C`).
    pub within: Option<CpuSet>,
    /// Only what these policies make (`--only`), as `--placement` takes them. The kernel's choice stays.
    pub only: Vec<String>,
    /// What is not wanted (`--exclude`). A list of cpus: they are not used. `node:N`: neither its cpus nor its memory.
    /// A policy about memory: it is not used with any seats. A policy about cpus: its seats, or seats alike, are not
    /// used with any memory.
    pub exclude: Vec<String>,
    /// A second command runs beside the first and wants seats of its own.
    pub second: bool,
    /// What the running kernel offers.
    pub kernel: KernelFeatures,
    /// Classes of cpus that a measurement told apart; cpus in different classes are not alike. May be empty.
    pub measured: Vec<CpuSet>,
    /// Devices whose interrupts are placed too; see [`crate::placements::placement::check_movable`].
    pub devices: Vec<String>,
}

/// The candidates, in an order that depends on the machine and the wish alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The first is the kernel's choice, which is not bound by any limit: everything is measured against it.
    pub placements: Vec<Placement>,
    /// Who is raced first.
    pub stages: Stages,
    /// The placements there are without symmetry; of the first command where there are two.
    pub raw: Count,
    /// The classes of seats alone; placements that alike places make equal are one class.
    pub classes: Count,
    /// How the raw placements became the candidates.
    pub steps: Vec<Step>,
}

/// One step from the raw placements to the candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is counted: `raw`, `classes`, `with memory`, `family`, `first stage`, `offered`; several steps may have
    /// the name `note` and count nothing.
    pub name: &'static str,
    /// How many there are after this step; none for notes.
    pub count: Option<Count>,
    pub text: String,
}

/// One candidate on its way.
#[derive(Clone, Debug)]
struct Draft {
    threads: usize,
    /// In logical order; empty when the kernel chooses.
    seats: Vec<CpuId>,
    memory: MemoryPolicy,
    choice: MemoryChoice,
    second: CpuSet,
    /// What the second command's cpus are, in words.
    second_words: String,
    shape: usize,
    first_stage: bool,
}

/// The candidates for a machine. An error is the user's mistake.
pub fn candidates(topology: &Topology, wish: &SearchSpace) -> Result<Candidates, String> {
    let limits = search_space::read(topology, wish)?;
    let ground = CoreIndex::new(&limits.topology);
    let as_named = CoreIndex::new(topology);
    let nothing = || "this process may use no cpu of this machine".to_string();
    let apart = interrupts::distinct_routes(topology, wish)?;
    let mut tree = Tree::new(&ground, &apart).ok_or_else(nothing)?;
    let reference = match wish.threads {
        Threads::Fixed(threads) => threads,
        Threads::Searched | Threads::Unspecified => as_named.cores.len(),
    };
    let counted = explain::count(&tree, wish.threads);
    let facts = explain::facts(&ground, &tree, wish);
    let mut gather = CandidateSet::new(&ground, &limits, wish, &mut tree, reference);
    let (drafts, tally) = if !wish.only.is_empty() {
        let (drafts, tally) = gather.only()?;
        (if wish.second { server_bindings::beside_named(&mut gather, drafts) } else { drafts }, tally)
    } else if wish.second {
        server_bindings::drafts(&mut gather)
    } else {
        gather.all(&counted)
    };
    let steps = explain::steps(&limits, wish, &counted, &tally, facts);
    finish(&as_named, wish, drafts, &counted, steps, reference)
}

/// Names the candidates, puts the kernel's choice first and says which are raced first.
fn finish(
    ground: &CoreIndex,
    wish: &SearchSpace,
    drafts: Vec<Draft>,
    counted: &explain::Counted,
    steps: Vec<Step>,
    reference: usize,
) -> Result<Candidates, String> {
    let kernel = Placement::kernel(reference);
    let same = |draft: &Draft| {
        draft.threads == reference && draft.seats.is_empty() && draft.memory == kernel.memory && draft.second.is_empty()
    };
    let mut all = Candidates {
        placements: Vec::new(),
        stages: Stages { threads_searched: wish.threads == Threads::Searched, ..Stages::default() },
        raw: counted.raw.times(explain::routes(wish)),
        classes: counted.seats,
        steps,
    };
    let mut names = names::Names::new(ground, wish.kernel);
    let made = drafts.into_iter().filter(|draft| !same(draft)).map(|draft| {
        let stage = (draft.first_stage, draft.shape, draft.choice, draft.threads);
        (stage, placement(ground, &mut names, wish.threads, draft))
    });
    for ((first, shape, choice, threads), placement) in
        std::iter::once(((true, 0, MemoryChoice::Kernel, reference), kernel.clone())).chain(made)
    {
        for (route, routed) in interrupts::route_rules(ground, &placement, &wish.devices)? {
            all.stages.push(first, shape, (choice, route), threads);
            all.placements.push(routed);
        }
    }
    if all.placements.len() <= STAGED_ABOVE {
        all.stages.first.fill(true);
    }
    let offered = all.placements.len();
    all.steps.extend(explain::with_interrupts(&wish.devices));
    all.steps.push(explain::offered(offered, all.stages.first.iter().filter(|first| **first).count()));
    Ok(all)
}

fn placement(ground: &CoreIndex, names: &mut names::Names, wish: Threads, draft: Draft) -> Placement {
    let Draft { threads, seats, memory, second, second_words, .. } = draft;
    let given = (wish != Threads::Unspecified).then_some(threads);
    let name = names.name(given, threads, &seats, &memory);
    let mut placement = Placement { name, reason: String::new(), seats, memory, second, ..Placement::kernel(threads) };
    placement.reason = names::sentence(ground, &placement, wish == Threads::Unspecified);
    if !second_words.is_empty() {
        placement.reason = format!("{}; second command: {second_words}", placement.reason);
    }
    placement
}
