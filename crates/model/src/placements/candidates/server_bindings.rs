//! Seats for two commands side by side, such as a server and its load generator: few seats for the first, and for each
//! the places beside it that differ.

use std::collections::BTreeSet;

use super::canonical::{Canonicalizer, Labels};
use super::collect::{CandidateSet, ThreadShape};
use super::explain::CandidateCounts;
use super::family::Family;
use super::memory::MemoryChoice;
use super::{Draft, Threads};
use crate::placements::placement::cores::{Core, CoreIndex};
use crate::placements::placement::{MemoryPolicy, reason};
use crate::values::id_set::{CpuId, CpuSet};

/// Each of the first command's shapes brings up to eight of the second's.
const FIRST_MAX: usize = 9;

/// Pairs of seats. Both commands have the kernel's memory policy: which memory suits which of two is another question.
pub(super) fn drafts(gather: &mut CandidateSet) -> (Vec<Draft>, CandidateCounts) {
    let places = Family::new(gather.forms.tree()).places();
    match gather.wish.threads {
        Threads::Fixed(threads) => {
            gather.prefer(Some(threads));
            gather.add_sets(
                places.clone().into_iter().filter(|cpus| cpus.len() >= threads).collect(),
                Some(threads),
                true,
            );
            gather.add_policies();
        }
        Threads::Unspecified | Threads::Searched => {
            gather.prefer(None);
            gather.add_sets(places.clone(), None, true);
        }
    }
    let barred = gather.excluded_shapes();
    let shapes: Vec<(usize, ThreadShape)> =
        gather.shapes.iter().cloned().enumerate().filter(|(index, _)| !barred.contains(index)).collect();
    let mut seen = BTreeSet::new();
    let mut drafts = Vec::new();
    for (index, shape) in shapes.into_iter().take(FIRST_MAX) {
        for (second, words) in beside(gather.ground, &shape.seats, &places) {
            let fits = second.len() <= gather.limits.cpus_max;
            let form = pair_form(&mut gather.forms, &shape.seats, &second);
            if !fits || !allowed(gather, &shape.seats, &second) || !seen.insert((shape.threads, form)) {
                continue;
            }
            let draft = gather.draft(index, &shape, MemoryChoice::Kernel, MemoryPolicy::Kernel, true);
            drafts.push(Draft { second, second_words: words, ..draft });
        }
    }
    let tally = CandidateCounts { family: drafts.len(), first_stage: drafts.len(), ..CandidateCounts::default() };
    (drafts, tally)
}

/// What named policies make for the first command, each with the places beside it for the second.
pub(super) fn beside_named(gather: &mut CandidateSet, named: Vec<Draft>) -> Vec<Draft> {
    let places = Family::new(gather.forms.tree()).places();
    let mut drafts = Vec::new();
    for draft in named {
        let mut seen = BTreeSet::new();
        for (second, second_words) in beside(gather.ground, &draft.seats, &places) {
            let fits = second.len() <= gather.limits.cpus_max && allowed(gather, &draft.seats, &second);
            if fits && seen.insert(pair_form(&mut gather.forms, &draft.seats, &second)) {
                drafts.push(Draft { second, second_words, ..draft.clone() });
            }
        }
    }
    drafts
}

fn allowed(gather: &CandidateSet, seats: &[CpuId], second: &CpuSet) -> bool {
    // Under limits nobody is left to the kernel, which would use all cpus.
    !gather.is_limited() || (!seats.is_empty() && !second.is_empty())
}

fn pair_form(forms: &mut Canonicalizer, seats: &[CpuId], second: &CpuSet) -> (bool, bool, Vec<u32>) {
    let mut labels = Labels::seats(seats);
    labels.cpus.extend(second.iter().map(|cpu| (cpu, 2)));
    (seats.is_empty(), second.is_empty(), forms.form(&labels))
}

/// Where the second command may sit beside the first one's seats, with words.
fn beside(ground: &CoreIndex, seats: &[CpuId], places: &[Vec<CpuId>]) -> Vec<(CpuSet, String)> {
    let all: CpuSet = ground.cores.iter().flat_map(|core| core.cpus.iter().copied()).collect();
    let free = (CpuSet::default(), "the kernel chooses its cpus".to_string());
    if seats.is_empty() {
        let bound = places.iter().map(|cpus| cpus.iter().copied().collect::<CpuSet>());
        let bound = bound.filter(|cpus| *cpus != all && !cpus.is_empty()).map(|cpus| {
            let words = reason::shared_cpus(ground, &cpus.iter().collect::<Vec<_>>());
            (cpus, words)
        });
        return [free].into_iter().chain(bound).collect();
    }
    let own: CpuSet = seats.iter().copied().collect();
    let mine: Vec<&Core> = ground.cores.iter().filter(|core| core.cpus.iter().any(|cpu| own.contains(*cpu))).collect();
    let cores_where = |holds: &dyn Fn(&Core) -> bool| -> CpuSet {
        ground.cores.iter().filter(|core| holds(core)).flat_map(|core| core.cpus.iter().copied()).collect()
    };
    let whole = cores_where(&|core| core.cpus.iter().any(|cpu| own.contains(*cpu)));
    let same_cluster =
        cores_where(&|core| core.cluster.is_some() && mine.iter().any(|own| own.cluster == core.cluster));
    let same_node = cores_where(&|core| core.home.is_some() && mine.iter().any(|own| own.home == core.home));
    let same_package =
        cores_where(&|core| core.package.is_some() && mine.iter().any(|own| own.package == core.package));
    let sets = [
        ("on the same cpus", own.clone()),
        ("on the SMT siblings of the first one's cores", whole.difference(&own)),
        ("on the other cores that share its last cache", same_cluster.difference(&whole)),
        ("on the other cores of its memory node", same_node.difference(&whole)),
        ("on another memory node", one_place(ground, &all.difference(&same_node))),
        ("on the other packages", all.difference(&same_package)),
        ("on all other cpus", all.difference(&own)),
    ];
    let bound = sets.into_iter().filter(|(_, cpus)| !cpus.is_empty());
    [free].into_iter().chain(bound.map(|(words, cpus)| (cpus.clone(), format!("{words} ({cpus})")))).collect()
}

/// Of these cpus those of the first memory node.
fn one_place(ground: &CoreIndex, cpus: &CpuSet) -> CpuSet {
    let home = cpus.iter().find_map(|cpu| ground.core_of(cpu)?.home);
    cpus.iter().filter(|cpu| home.is_some() && ground.core_of(*cpu).is_some_and(|core| core.home == home)).collect()
}
