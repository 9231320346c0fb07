//! The placements that differ by moving one thread, for `--refine`. The regular family may not contain them.

use std::collections::{BTreeMap, BTreeSet};

use super::canonical::{CanonicalForm, Canonicalizer, Labels};
use super::names::{Names, sentence};
use super::tree::Tree;
use super::{SearchSpace, Threads, interrupts, search_space};
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::placement::Placement;
use crate::values::topology::Topology;

/// Returns one placement of each class that differs from this one in the CPU of one thread and is in the search space.
/// Memory and the second command are kept. Empty for a placement without bindings.
pub fn neighbours(topology: &Topology, space: &SearchSpace, placement: &Placement) -> Result<Vec<Placement>, String> {
    let limits = search_space::read(topology, space)?;
    let core_index = CoreIndex::new(&limits.topology);
    let full_index = CoreIndex::new(topology);
    let Some(mut tree) = Tree::new(&core_index, &interrupts::distinct_routes(topology, space)?) else {
        return Ok(Vec::new());
    };
    let mut forms = Canonicalizer::new(&mut tree);
    let mut names = Names::new(&full_index, space.kernel);
    let moved = moves(&mut forms, placement);
    let requested = (space.threads != Threads::Unspecified).then_some(placement.threads);
    let named = moved.into_iter().map(|cpus| {
        let mut bindings: Vec<CpuId> = cpus.iter().collect();
        core_index.sort(&mut bindings);
        let bindings: Vec<CpuId> = bindings.iter().copied().cycle().take(placement.bindings.len()).collect();
        let name = names.name(requested, placement.threads, &bindings, &placement.memory);
        let mut moved = Placement { name, reason: String::new(), bindings, ..placement.clone() };
        moved.reason = sentence(&full_index, &moved, space.threads == Threads::Unspecified);
        moved
    });
    Ok(named.collect())
}

/// Returns one set of CPUs of each class that is reachable by one move.
fn moves(forms: &mut Canonicalizer, placement: &Placement) -> Vec<CpuSet> {
    let cpus = placement.cpus();
    let usable: Vec<CpuId> = forms.tree().cpus_below(0);
    let mut form = |cpus: &CpuSet, removed: Option<CpuId>| {
        let nodes = placement.memory.named_nodes().map(|nodes| nodes.iter().collect()).unwrap_or_default();
        let mut labels = Labels { cpus: cpus.iter().map(|cpu| (cpu, 1)).collect(), nodes };
        labels.cpus.extend(placement.server_cpus.iter().map(|cpu| (cpu, 2)));
        labels.cpus.extend(removed.map(|cpu| (cpu, 4)));
        forms.form(&labels)
    };
    // Removing one of several equivalent threads results in equivalent sets.
    let mut leaving: BTreeMap<CanonicalForm, CpuId> = BTreeMap::new();
    for cpu in cpus.iter() {
        leaving.entry(form(&cpus, Some(cpu))).or_insert(cpu);
    }
    let mut seen = BTreeSet::from([form(&cpus, None)]);
    let mut moved = Vec::new();
    for removed in leaving.into_values() {
        for cpu in usable.iter().filter(|cpu| !cpus.contains(**cpu)) {
            let mut set = cpus.clone();
            set.remove(removed);
            set.insert(*cpu);
            if seen.insert(form(&set, None)) {
                moved.push(set);
            }
        }
    }
    moved
}
