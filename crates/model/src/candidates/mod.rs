//! The placements that `nearfar place` races: every way to put a command on the machine that differs after exchanging
//! alike places, or a regular family of a few dozen where those are too many. Offers only; what is best is measured.

mod classes;
mod count;
mod distances;
mod explain;
mod family;
mod form;
mod gather;
mod limits;
mod memory;
mod neighbours;
#[cfg(test)]
mod orbits;
mod second;
mod tree;
mod words;

pub use count::Count;
pub use memory::MemoryChoice;
pub use neighbours::neighbours;

use crate::id_set::{CpuId, CpuSet};
use crate::placement::ground::Ground;
use crate::placement::{KernelOffers, MemoryPolicy, Placement};
use crate::topology::Topology;
use gather::Gather;
use limits::Limits;
use tree::Tree;

/// With more candidates than this, racing in two stages costs fewer trials than racing all at once.
pub const STAGED_ABOVE: usize = 100;

/// How many threads the command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// So many: each gets a cpu of its own, or all share a larger set.
    Fixed(usize),
    /// As many as it is told: the command has `{threads}`, and the number is searched too.
    Free,
    /// Its own business: it gets sets of cpus of many sizes to use as it likes.
    #[default]
    Natural,
}

/// What is wanted of the candidates.
#[derive(Clone, Debug, Default)]
pub struct Wish {
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
    pub kernel: KernelOffers,
    /// Classes of cpus that a measurement told apart; cpus in different classes are not alike. May be empty.
    pub measured: Vec<CpuSet>,
}

/// The candidates, in an order that depends on the machine and the wish alone. The vectors are parallel.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The first is the kernel's choice, which is not bound by any limit: everything is measured against it.
    pub placements: Vec<Placement>,
    /// Whether each is raced first; all are unless there are more than [`STAGED_ABOVE`].
    pub first_stage: Vec<bool>,
    /// Which share cpus and number of threads, and differ only in memory (or in the second command's cpus).
    pub shape: Vec<usize>,
    /// What each one's memory policy is in relation to its seats.
    pub policy: Vec<MemoryChoice>,
    /// The placements there are without symmetry; of the first command where there are two.
    pub raw: Count,
    /// The classes of seats alone; placements that alike places make equal are one class.
    pub classes: Count,
    /// How the raw placements became the candidates.
    pub steps: Vec<Step>,
    /// Whether the number of threads is searched too.
    threads_free: bool,
}

/// One step from the raw placements to the candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is counted: `raw`, `classes`, `with memory`, `family`, `first stage`, `offered`; several steps may have
    /// the name `note` and count nothing.
    pub name: &'static str,
    /// How many there are after this step; none for notes.
    pub count: Option<Count>,
    /// The step in words.
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
pub fn candidates(topology: &Topology, wish: &Wish) -> Result<Candidates, String> {
    let limits = limits::read(topology, wish)?;
    let ground = Ground::new(&limits.topology);
    let as_named = Ground::new(topology);
    let nothing = || "this process may use no cpu of this machine".to_string();
    let mut tree = Tree::new(&ground, &wish.measured).ok_or_else(nothing)?;
    let reference = match wish.threads {
        Threads::Fixed(threads) => threads,
        Threads::Free | Threads::Natural => as_named.cores.len(),
    };
    let counted = explain::count(&tree, wish.threads);
    let facts = explain::facts(&ground, &tree, wish);
    let mut gather = Gather::new(&ground, &limits, wish, &mut tree, reference);
    let (drafts, tally) = if !wish.only.is_empty() {
        let (drafts, tally) = gather.only()?;
        (if wish.second { second::beside_named(&mut gather, drafts) } else { drafts }, tally)
    } else if wish.second {
        second::drafts(&mut gather)
    } else {
        gather.all(&counted)
    };
    let steps = explain::steps(&limits, wish, &counted, &tally, facts);
    Ok(finish(&as_named, wish, drafts, &counted, steps, reference))
}

/// Names the candidates, puts the kernel's choice first and says which are raced first.
fn finish(
    ground: &Ground,
    wish: &Wish,
    drafts: Vec<Draft>,
    counted: &explain::Counted,
    steps: Vec<Step>,
    reference: usize,
) -> Candidates {
    let kernel = Placement::kernel(reference);
    let same = |draft: &Draft| {
        draft.threads == reference && draft.seats.is_empty() && draft.memory == kernel.memory && draft.second.is_empty()
    };
    let mut all = Candidates {
        placements: vec![kernel.clone()],
        first_stage: vec![true],
        shape: vec![0],
        policy: vec![MemoryChoice::Kernel],
        raw: counted.raw,
        classes: counted.seats,
        steps,
        threads_free: wish.threads == Threads::Free,
    };
    let mut names = words::Names::new(ground, wish.kernel);
    for draft in drafts.into_iter().filter(|draft| !same(draft)) {
        all.first_stage.push(draft.first_stage);
        all.shape.push(draft.shape);
        all.policy.push(draft.choice);
        all.placements.push(placement(ground, &mut names, wish.threads, draft));
    }
    if all.placements.len() <= STAGED_ABOVE {
        all.first_stage.fill(true);
    }
    let offered = all.placements.len();
    all.steps.push(explain::offered(offered, all.first_stage.iter().filter(|first| **first).count()));
    all
}

fn placement(ground: &Ground, names: &mut words::Names, wish: Threads, draft: Draft) -> Placement {
    let Draft { threads, seats, memory, second, second_words, .. } = draft;
    let given = (wish != Threads::Natural).then_some(threads);
    let name = names.name(given, threads, &seats, &memory);
    let mut placement = Placement { name, reason: String::new(), threads, seats, memory, second };
    placement.reason = words::sentence(ground, &placement, wish == Threads::Natural);
    if !second_words.is_empty() {
        placement.reason = format!("{}; second command: {second_words}", placement.reason);
    }
    placement
}

impl Candidates {
    /// Whether the race has two stages.
    pub fn is_staged(&self) -> bool {
        self.first_stage.iter().any(|first| !first)
    }

    /// The candidates of the second stage after this one won the first: its cpus with every memory policy, and all cpus
    /// with its memory policy (with the kernel's where a set of cpus has no such policy). Where the number of threads
    /// is searched, only those with the winner's number, the next smaller and the next larger one. Sorted; the kernel's
    /// choice and the winner are always among them.
    pub fn second_stage(&self, winner: usize) -> Vec<usize> {
        let near = self.near_threads(self.placements[winner].threads);
        let has_policy = |shape: usize| {
            (0..self.shape.len()).any(|other| self.shape[other] == shape && self.policy[other] == self.policy[winner])
        };
        let wanted = |index: &usize| {
            let policy = self.policy[*index];
            let alike =
                policy == self.policy[winner] || (policy == MemoryChoice::Kernel && !has_policy(self.shape[*index]));
            let same_shape = self.shape[*index] == self.shape[winner];
            let near = !self.threads_free || near.contains(&self.placements[*index].threads);
            *index == 0 || *index == winner || same_shape || (alike && near)
        };
        (0..self.placements.len()).filter(wanted).collect()
    }

    fn near_threads(&self, threads: usize) -> Vec<usize> {
        let all = || self.placements.iter().map(|placement| placement.threads);
        let smaller = all().filter(|other| *other < threads).max();
        let larger = all().filter(|other| *other > threads).min();
        [Some(threads), smaller, larger].into_iter().flatten().collect()
    }
}
