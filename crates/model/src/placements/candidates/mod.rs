//! The candidates of `nearfar place`: all placements of a command that differ after exchanging equivalent parts of the
//! machine, or a regular family of a few dozen if those are too many. Must not depend on measurements of the race.

mod canonical;
mod classes;
mod collect;
mod count;
mod distances;
mod explain;
mod family;
mod features;
mod interner;
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
mod tree;
mod tree_build;

pub use count::Count;
pub use features::{features, machine_features};
pub use neighbours::neighbours;
pub use pairs::{CpuPair, all_pairs, pairs, pairs_keep};

use crate::placements::placement::KernelFeatures;
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::placement::{MemoryPolicy, Placement};
use crate::values::plan::{MemoryChoice, Stages};
use crate::values::topology::Topology;
use collect::CandidateSet;
use search_space::ResolvedSearchSpace;
use tree::Tree;

/// With more candidates than this, racing in two stages costs fewer trials than racing all at once.
pub const STAGED_ABOVE: usize = 100;

/// Number of threads of the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// A fixed number. Each thread is pinned to one CPU, or all share a larger set.
    Fixed(usize),
    /// The command contains `{threads}`: the number is searched, too.
    Searched,
    /// The command chooses the number itself. It gets sets of CPUs of many sizes to use freely.
    #[default]
    Unspecified,
}

/// The placements that the user allows.
#[derive(Clone, Debug, Default)]
pub struct SearchSpace {
    pub threads: Threads,
    /// Maximum number of CPUs of a placement (`--max-cpus`).
    pub cpus_max: Option<usize>,
    /// CPUs that may be used (`-C`), as a list, a mask or a location; `None` allows all.
    pub within: Option<String>,
    /// Only the placements of these policies (`--only`), in the syntax of `--placement`. The baseline `kernel` stays.
    pub only: Vec<String>,
    /// Excluded placements (`--exclude`). A list of CPUs: these CPUs. `node:N`: CPUs and memory of the node. A memory
    /// policy: this memory policy with any CPUs. A CPU policy: its CPUs, and equivalent ones, with any memory.
    pub exclude: Vec<String>,
    /// Whether a second command runs concurrently and is placed, too.
    pub second: bool,
    /// CPUs of the first command, the load, in every placement (`--load-cpus`), as a list, a mask or a location; `None`:
    /// they are searched. Requires `second`, and excludes `only`.
    pub load_cpus: Option<String>,
    pub kernel: KernelFeatures,
    /// Classes of CPUs that a measurement distinguished. CPUs in different classes are not equivalent. May be empty.
    pub measured: Vec<CpuSet>,
    /// Whether irqbalance moves interrupts, so that the CPUs that handle them now are not special.
    pub has_moving_interrupts: bool,
    /// Devices whose interrupts are placed, too; see [`crate::placements::placement::check_movable`].
    pub devices: Vec<String>,
}

/// The candidates of a race. Their order depends only on the machine and the search space.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The first is the baseline `kernel`, which ignores all limits except the CPUs of the load.
    pub placements: Vec<Placement>,
    pub stages: Stages,
    /// Number of placements without symmetry; if there are two commands, of the first.
    pub raw: Count,
    /// Number of classes of CPU sets, ignoring memory. Exchanging equivalent parts does not change the class.
    pub classes: Count,
    /// Steps of the reduction from the raw placements to the candidates, for `--explain`.
    pub steps: Vec<Step>,
}

/// One step of the reduction from the raw placements to the candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// `raw`, `classes`, `with memory`, `family`, `first stage` or `offered`. Several steps may have the name `note`.
    pub name: &'static str,
    /// Number of placements after this step; `None` for notes.
    pub count: Option<Count>,
    pub text: String,
}

/// A candidate without name and reason.
#[derive(Clone, Debug)]
struct Draft {
    threads: usize,
    /// In logical order. Empty if the kernel chooses.
    bindings: Vec<CpuId>,
    memory: MemoryPolicy,
    choice: MemoryChoice,
    second: CpuSet,
    /// Description of the second command's CPUs.
    second_reason: String,
    /// Index in [`CandidateSet::shapes`].
    shape: usize,
    first_stage: bool,
}

/// Returns the candidates for a machine.
///
/// # Errors
///
/// If the search space is invalid for this machine or contains no placement.
pub fn candidates(topology: &Topology, space: &SearchSpace) -> Result<Candidates, String> {
    let limits = search_space::read(topology, space)?;
    let core_index = CoreIndex::new(&limits.topology);
    let full_index = CoreIndex::new(topology);
    let no_cpus = || "this process may not use any CPU of this machine".to_string();
    let distinct = interrupts::distinct_routes(topology, space)?;
    let mut tree = Tree::new(&core_index, &distinct).ok_or_else(no_cpus)?;
    let baseline_threads = match space.threads {
        Threads::Fixed(threads) => threads,
        // The usual default of programs: a thread on every CPU that they may use.
        Threads::Searched => topology.allowed_cpus.len(),
        Threads::Unspecified => full_index.cores.len(),
    };
    let baseline = match &limits.load_cpus {
        Some(cpus) => server_bindings::baseline(&core_index, cpus, space.threads),
        None => Placement::kernel(baseline_threads),
    };
    let counted = explain::count(&tree, space.threads);
    let notes = explain::notes(&core_index, &tree, space);
    let mut set = CandidateSet::new(&core_index, &limits, space, &mut tree, baseline.threads);
    let (drafts, counts) = if !space.only.is_empty() {
        let (drafts, counts) = set.only()?;
        (if space.second { server_bindings::with_policies(&mut set, drafts) } else { drafts }, counts)
    } else if space.second {
        server_bindings::drafts(&mut set)
    } else {
        set.all(&counted)
    };
    let steps = explain::steps(&limits, space, &counted, &counts, notes);
    finish(&full_index, space, drafts, &counted, steps, &baseline)
}

/// Names the candidates, prepends the baseline, and chooses the candidates of the first stage.
fn finish(
    core_index: &CoreIndex,
    space: &SearchSpace,
    drafts: Vec<Draft>,
    counted: &explain::ClassCounts,
    steps: Vec<Step>,
    baseline: &Placement,
) -> Result<Candidates, String> {
    let is_baseline = |draft: &Draft| {
        draft.threads == baseline.threads
            && draft.bindings == baseline.bindings
            && draft.memory == baseline.memory
            && draft.second.is_empty()
    };
    let mut all = Candidates {
        placements: Vec::new(),
        stages: Stages { threads_searched: space.threads == Threads::Searched, ..Stages::default() },
        raw: counted.raw.times(explain::routes(space)),
        classes: counted.cpu_sets,
        steps,
    };
    let mut names = names::Names::new(core_index, space.kernel);
    let drafts = drafts.into_iter().filter(|draft| !is_baseline(draft)).map(|draft| {
        let stage = (draft.first_stage, draft.shape, draft.choice, draft.threads);
        (stage, placement(core_index, &mut names, space.threads, draft))
    });
    for ((first, shape, choice, threads), placement) in
        std::iter::once(((true, 0, MemoryChoice::Kernel, baseline.threads), baseline.clone())).chain(drafts)
    {
        for (route, routed) in interrupts::route_rules(core_index, &placement, &space.devices)? {
            all.stages.push(first, shape, (choice, route), threads);
            all.placements.push(routed);
        }
    }
    if all.placements.len() <= STAGED_ABOVE {
        all.stages.first.fill(true);
    }
    let offered = all.placements.len();
    all.steps.extend(explain::with_interrupts(&space.devices));
    all.steps.push(explain::offered(offered, all.stages.first.iter().filter(|first| **first).count()));
    Ok(all)
}

fn placement(core_index: &CoreIndex, names: &mut names::Names, mode: Threads, draft: Draft) -> Placement {
    let Draft { threads, bindings, memory, second, second_reason, .. } = draft;
    let requested = (mode != Threads::Unspecified).then_some(threads);
    let name = if second_reason.is_empty() {
        names.name(requested, threads, &bindings, &memory)
    } else {
        names.name_with_server(requested, threads, &bindings, &memory)
    };
    let reason = String::new();
    let mut placement = Placement { name, reason, bindings, memory, server_cpus: second, ..Placement::kernel(threads) };
    let is_free = mode == Threads::Unspecified;
    if second_reason.is_empty() {
        placement.reason = names::sentence(core_index, &placement, is_free);
        return placement;
    }
    // The memory policy is chosen for the server, so it is not described by its distance from the first command.
    let unbound = Placement { memory: placement.memory.clone(), ..Placement::kernel(threads) };
    let first = Placement { memory: MemoryPolicy::Kernel, ..placement.clone() };
    let memory = names::memory(core_index, &unbound).map(|memory| format!("; both: {memory}")).unwrap_or_default();
    let sentence = names::sentence(core_index, &first, is_free);
    placement.reason = format!("server: {second_reason}; load: {sentence}{memory}");
    placement
}
