//! The placements one move of one thread away, for `--refine`: what the regular family may have missed.

use std::collections::{BTreeMap, BTreeSet};

use super::form::{Form, Forms, Labels};
use super::tree::Tree;
use super::words::{Names, sentence};
use super::{Threads, Wish, limits, routed};
use crate::id_set::{CpuId, CpuSet, NodeId};
use crate::placement::ground::Ground;
use crate::placement::{MemoryPolicy, Placement};
use crate::topology::Topology;

/// The classes of placements that differ from this one in the cpu of one thread, as far as the wish allows. Memory and
/// the second command stay. None for a placement without seats.
pub fn neighbours(topology: &Topology, wish: &Wish, placement: &Placement) -> Result<Vec<Placement>, String> {
    let limits = limits::read(topology, wish)?;
    let ground = Ground::new(&limits.topology);
    let as_named = Ground::new(topology);
    let Some(mut tree) = Tree::new(&ground, &routed::told_apart(topology, wish)?) else { return Ok(Vec::new()) };
    let mut forms = Forms::new(&mut tree);
    let mut names = Names::new(&as_named, wish.kernel);
    let moved = moves(&mut forms, placement);
    let given = (wish.threads != Threads::Natural).then_some(placement.threads);
    let named = moved.into_iter().map(|cpus| {
        let mut seats: Vec<CpuId> = cpus.iter().collect();
        ground.sort(&mut seats);
        let seats: Vec<CpuId> = seats.iter().copied().cycle().take(placement.seats.len()).collect();
        let name = names.name(given, placement.threads, &seats, &placement.memory);
        let mut moved = Placement { name, reason: String::new(), seats, ..placement.clone() };
        moved.reason = sentence(&as_named, &moved, wish.threads == Threads::Natural);
        moved
    });
    Ok(named.collect())
}

/// One set of cpus of each class that one move reaches.
fn moves(forms: &mut Forms, placement: &Placement) -> Vec<CpuSet> {
    let cpus = placement.cpus();
    let usable: Vec<CpuId> = forms.tree().cpus_below(0);
    let mut form = |cpus: &CpuSet, gone: Option<CpuId>| {
        let mut labels = Labels { cpus: cpus.iter().map(|cpu| (cpu, 1)).collect(), nodes: marked(&placement.memory) };
        labels.cpus.extend(placement.second.iter().map(|cpu| (cpu, 2)));
        labels.cpus.extend(gone.map(|cpu| (cpu, 4)));
        forms.form(&labels)
    };
    // Threads that may be exchanged leave behind the same gap.
    let mut leaving: BTreeMap<Form, CpuId> = BTreeMap::new();
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
