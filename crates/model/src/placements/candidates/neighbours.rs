//! The placements one move of one thread away, for `--refine`: what the regular family may have missed.

use std::collections::{BTreeMap, BTreeSet};

use super::canonical::{CanonicalForm, Canonicalizer, Labels};
use super::names::{Names, sentence};
use super::tree::Tree;
use super::{SearchSpace, Threads, interrupts, search_space};
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::{MemoryPolicy, Placement};
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::Topology;

/// The classes of placements that differ from this one in the cpu of one thread, as far as the wish allows. Memory and
/// the second command stay. None for a placement without seats.
pub fn neighbours(topology: &Topology, wish: &SearchSpace, placement: &Placement) -> Result<Vec<Placement>, String> {
    let limits = search_space::read(topology, wish)?;
    let ground = CoreIndex::new(&limits.topology);
    let as_named = CoreIndex::new(topology);
    let Some(mut tree) = Tree::new(&ground, &interrupts::distinct_routes(topology, wish)?) else {
        return Ok(Vec::new());
    };
    let mut forms = Canonicalizer::new(&mut tree);
    let mut names = Names::new(&as_named, wish.kernel);
    let moved = moves(&mut forms, placement);
    let given = (wish.threads != Threads::Unspecified).then_some(placement.threads);
    let named = moved.into_iter().map(|cpus| {
        let mut seats: Vec<CpuId> = cpus.iter().collect();
        ground.sort(&mut seats);
        let seats: Vec<CpuId> = seats.iter().copied().cycle().take(placement.seats.len()).collect();
        let name = names.name(given, placement.threads, &seats, &placement.memory);
        let mut moved = Placement { name, reason: String::new(), seats, ..placement.clone() };
        moved.reason = sentence(&as_named, &moved, wish.threads == Threads::Unspecified);
        moved
    });
    Ok(named.collect())
}

/// One set of cpus of each class that one move reaches.
fn moves(forms: &mut Canonicalizer, placement: &Placement) -> Vec<CpuSet> {
    let cpus = placement.cpus();
    let usable: Vec<CpuId> = forms.tree().cpus_below(0);
    let mut form = |cpus: &CpuSet, gone: Option<CpuId>| {
        let mut labels = Labels { cpus: cpus.iter().map(|cpu| (cpu, 1)).collect(), nodes: marked(&placement.memory) };
        labels.cpus.extend(placement.second.iter().map(|cpu| (cpu, 2)));
        labels.cpus.extend(gone.map(|cpu| (cpu, 4)));
        forms.form(&labels)
    };
    // Threads that may be exchanged leave behind the same gap.
    let mut leaving: BTreeMap<CanonicalForm, CpuId> = BTreeMap::new();
    for cpu in cpus.iter() {
        leaving.entry(form(&cpus, Some(cpu))).or_insert(cpu);
    }
    let mut seen = BTreeSet::from([form(&cpus, None)]);
    let mut moved = Vec::new();
    for gone in leaving.into_values() {
        for cpu in usable.iter().filter(|cpu| !cpus.contains(**cpu)) {
            let mut set = cpus.clone();
            set.remove(gone);
            set.insert(*cpu);
            if seen.insert(form(&set, None)) {
                moved.push(set);
            }
        }
    }
    moved
}

fn marked(memory: &MemoryPolicy) -> Vec<NodeId> {
    match memory {
        MemoryPolicy::Preferred(node) => vec![*node],
        memory => memory.promised_nodes().map(|nodes| nodes.iter().collect()).unwrap_or_default(),
    }
}
