//! CPU sets for two concurrent commands, such as a server and its load generator: few sets for the first command, each
//! combined with distinct sets for the second, and with memory policies for the second.

use std::collections::BTreeSet;

use super::canonical::{Canonicalizer, Labels};
use super::collect::{CandidateSet, ThreadShape};
use super::explain::CandidateCounts;
use super::family::Family;
use super::memory::{Choice, choices as choices_of_memory};
use super::{Draft, Threads};
use crate::placements::placement::cores::{Core, CoreIndex};
use crate::placements::placement::reason;
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::placement::Placement;
use crate::values::plan::MemoryChoice;

/// Maximum number of sets for the first command. Each is combined with up to eight sets for the second.
const FIRST_MAX: usize = 9;

/// Returns pairs of CPU sets, each with the memory policies that suit the second command, the server. Both commands get
/// the policy: a load generator has little memory.
pub(super) fn drafts(set: &mut CandidateSet) -> (Vec<Draft>, CandidateCounts) {
    let parts = Family::new(set.forms.tree()).whole_parts();
    let shapes = match set.limits.load_cpus.clone() {
        Some(cpus) => {
            let threads = set.shapes[0].threads;
            set.add(threads, cpus.iter().collect(), true)
                .map(|index| (index, set.shapes[index].clone()))
                .into_iter()
                .collect()
        }
        None => shapes(set, &parts),
    };
    let mut seen = BTreeSet::new();
    let mut drafts = Vec::new();
    let mut counts = CandidateCounts::default();
    for (index, shape) in shapes.into_iter().take(FIRST_MAX) {
        for (second, second_reason) in choices(set.core_index, &shape.bindings, &parts) {
            let fits = second.len() <= set.limits.cpus_max;
            let form = pair_form(&mut set.forms, &shape.bindings, &second);
            if !fits || !allowed(set, &shape.bindings, &second) || !seen.insert((shape.threads, form)) {
                continue;
            }
            for (choice, memory, first_stage) in server_memory(set, &second) {
                if set.limits.excludes(choice) {
                    counts.excluded += 1;
                    continue;
                }
                let draft = set.draft(index, &shape, choice, memory, first_stage);
                drafts.push(Draft { second: second.clone(), second_reason: second_reason.clone(), ..draft });
            }
        }
    }
    counts.family = drafts.len();
    counts.first_stage = drafts.iter().filter(|draft| draft.first_stage).count();
    (drafts, counts)
}

/// Returns the baseline whose load is bound to these CPUs.
pub(super) fn baseline(core_index: &CoreIndex, cpus: &CpuSet, threads: Threads) -> Placement {
    let mut bindings: Vec<CpuId> = cpus.iter().collect();
    core_index.sort(&mut bindings);
    let threads = if let Threads::Fixed(threads) = threads { threads } else { bindings.len() };
    let count = threads.max(bindings.len());
    Placement {
        reason: format!("server: no binding: the kernel chooses; load: on CPUs {cpus}"),
        bindings: bindings.into_iter().cycle().take(count).collect(),
        ..Placement::kernel(threads)
    }
}

/// Returns the sets for the first command, with their indices.
fn shapes(set: &mut CandidateSet, parts: &[Vec<CpuId>]) -> Vec<(usize, ThreadShape)> {
    match set.space.threads {
        Threads::Fixed(threads) => {
            set.prefer(Some(threads));
            set.add_sets(parts.iter().filter(|cpus| cpus.len() >= threads).cloned().collect(), Some(threads), true);
            set.add_policies();
        }
        Threads::Unspecified | Threads::Searched => {
            set.prefer(None);
            set.add_sets(parts.to_vec(), None, true);
        }
    }
    let excluded = set.excluded_shapes();
    set.shapes.iter().cloned().enumerate().filter(|(index, _)| !excluded.contains(index)).collect()
}

/// Returns memory policies for a server on these CPUs, or on any CPU if there are none: the kernel's, interleaved, and
/// bound to the only node of its CPUs. Others would have to be better than all of these for a server that is measured by
/// its load.
fn server_memory(set: &CandidateSet, second: &CpuSet) -> Vec<Choice> {
    let cpus: Vec<CpuId> = second.iter().collect();
    let homes: BTreeSet<_> = cpus.iter().filter_map(|cpu| set.core_index.core_of(*cpu)?.home).collect();
    let mut policies = choices_of_memory(set.core_index, set.forms.tree(), &cpus, set.space.kernel);
    policies.retain(|(choice, ..)| match choice {
        MemoryChoice::Kernel | MemoryChoice::Interleave | MemoryChoice::InterleaveUsed => true,
        MemoryChoice::Own => homes.len() == 1,
        _ => false,
    });
    policies
}

/// Combines the placements of named policies, for the first command, with CPU sets for the second.
pub(super) fn with_policies(set: &mut CandidateSet, named: Vec<Draft>) -> Vec<Draft> {
    let parts = Family::new(set.forms.tree()).whole_parts();
    let mut drafts = Vec::new();
    for draft in named {
        let mut seen = BTreeSet::new();
        for (second, second_reason) in choices(set.core_index, &draft.bindings, &parts) {
            let fits = second.len() <= set.limits.cpus_max && allowed(set, &draft.bindings, &second);
            if fits && seen.insert(pair_form(&mut set.forms, &draft.bindings, &second)) {
                drafts.push(Draft { second, second_reason, ..draft.clone() });
            }
        }
    }
    drafts
}

fn allowed(set: &CandidateSet, bindings: &[CpuId], second: &CpuSet) -> bool {
    // With limits, both commands must be bound: the kernel would use all CPUs.
    !set.is_limited() || (!bindings.is_empty() && !second.is_empty())
}

fn pair_form(forms: &mut Canonicalizer, bindings: &[CpuId], second: &CpuSet) -> (bool, bool, Vec<u32>) {
    let mut labels = Labels::for_cpus(bindings);
    labels.cpus.extend(second.iter().map(|cpu| (cpu, 2)));
    (bindings.is_empty(), second.is_empty(), forms.form(&labels))
}

/// Returns the CPU sets for the second command, relative to those of the first, with descriptions.
fn choices(core_index: &CoreIndex, bindings: &[CpuId], parts: &[Vec<CpuId>]) -> Vec<(CpuSet, String)> {
    let all: CpuSet = core_index.cores.iter().flat_map(|core| core.cpus.iter().copied()).collect();
    let free = (CpuSet::default(), "the kernel chooses its CPUs".to_string());
    if bindings.is_empty() {
        let bound = parts.iter().map(|cpus| cpus.iter().copied().collect::<CpuSet>());
        let bound = bound.filter(|cpus| *cpus != all && !cpus.is_empty()).map(|cpus| {
            let description = reason::shared_cpus(core_index, &cpus.iter().collect::<Vec<_>>());
            (cpus, description)
        });
        return [free].into_iter().chain(bound).collect();
    }
    let own: CpuSet = bindings.iter().copied().collect();
    let is_own = |core: &Core| core.cpus.iter().any(|cpu| own.contains(*cpu));
    let own_cores: Vec<&Core> = core_index.cores.iter().filter(|core| is_own(core)).collect();
    let cores_where = |matches: &dyn Fn(&Core) -> bool| -> CpuSet {
        core_index.cores.iter().filter(|core| matches(core)).flat_map(|core| core.cpus.iter().copied()).collect()
    };
    let whole = cores_where(&is_own);
    let same_cluster =
        cores_where(&|core| core.cluster.is_some() && own_cores.iter().any(|own| own.cluster == core.cluster));
    let same_node = cores_where(&|core| core.home.is_some() && own_cores.iter().any(|own| own.home == core.home));
    let same_package =
        cores_where(&|core| core.package.is_some() && own_cores.iter().any(|own| own.package == core.package));
    let sets = [
        ("on the CPUs of the load", own.clone()),
        ("on the SMT siblings of the load's cores", whole.difference(&own)),
        ("on the other cores that share the last cache of the load", same_cluster.difference(&whole)),
        ("on the other cores of the memory node of the load", same_node.difference(&whole)),
        ("on another memory node", cpus_of_first_node(core_index, &all.difference(&same_node))),
        ("on the other packages", all.difference(&same_package)),
        ("on all other CPUs", all.difference(&own)),
    ];
    let bound = sets.into_iter().filter(|(_, cpus)| !cpus.is_empty());
    let bound = bound.map(|(description, cpus)| (cpus.clone(), format!("{description} ({cpus})")));
    [free].into_iter().chain(bound).collect()
}

/// Returns the CPUs of a set that belong to the first memory node in it.
fn cpus_of_first_node(core_index: &CoreIndex, cpus: &CpuSet) -> CpuSet {
    let home = cpus.iter().find_map(|cpu| core_index.core_of(cpu)?.home);
    cpus.iter().filter(|cpu| home.is_some() && core_index.core_of(*cpu).is_some_and(|core| core.home == home)).collect()
}
