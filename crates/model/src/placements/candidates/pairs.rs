//! Pairs of cpus: one of each class that exchanging alike places makes, for measuring how far cpus are from each other.

use std::collections::BTreeMap;

use super::canonical::{CanonicalForm, Canonicalizer, Labels};
use super::tree::Tree;
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::topology::Topology;

/// Two cpus that stand for all pairs like them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPair {
    /// The first in logical order.
    pub a: CpuId,
    pub b: CpuId,
    /// How many pairs are alike, this one included.
    pub alike: usize,
}

/// One pair of each class, nearest to the first cpus first; empty on a machine with one usable cpu.
pub fn pairs(topology: &Topology) -> Vec<CpuPair> {
    let ground = CoreIndex::new(topology);
    let Some(mut tree) = Tree::new(&ground, &[]) else { return Vec::new() };
    let mut forms = Canonicalizer::new(&mut tree);
    let mut cpus: Vec<CpuId> = forms.tree().cpus_below(0);
    ground.sort(&mut cpus);
    let alone: Vec<CanonicalForm> = cpus.iter().map(|cpu| forms.form(&Labels::seats(&[*cpu]))).collect();
    let first_of: BTreeMap<&CanonicalForm, usize> =
        alone.iter().enumerate().rev().map(|(at, form)| (form, at)).collect();
    let mut classes: BTreeMap<CanonicalForm, CpuPair> = BTreeMap::new();
    // Any pair can be exchanged for one whose first cpu is the first of its class, so these are enough.
    for (own, first) in &first_of {
        let size = alone.iter().filter(|form| form == own).count();
        let mut from_here: BTreeMap<CanonicalForm, (CpuPair, usize)> = BTreeMap::new();
        for other in (0..cpus.len()).filter(|other| other != first) {
            let (a, b) = (cpus[*first.min(&other)], cpus[*first.max(&other)]);
            let same_kind = alone[other] == **own;
            let entry = from_here.entry(forms.form(&Labels::seats(&[a, b])));
            // Seen from both of its ends, a pair of two cpus of one class is counted twice.
            entry.or_insert((CpuPair { a, b, alike: 0 }, if same_kind { 2 } else { 1 })).0.alike += size;
        }
        for (form, (pair, times)) in from_here {
            classes.entry(form).or_insert(CpuPair { alike: pair.alike / times, ..pair });
        }
    }
    let rank = |cpu: CpuId| cpus.iter().position(|other| *other == cpu);
    let mut pairs: Vec<CpuPair> = classes.into_values().collect();
    pairs.sort_by_key(|pair| (rank(pair.a), rank(pair.b)));
    pairs
}

/// Whether pairs of cpus that exchanging alike places maps onto each other always have the same value: then exchanges
/// keep what was measured. `measured` are classes of cpus that are told apart already.
pub fn pairs_keep<V: PartialEq>(topology: &Topology, measured: &[CpuSet], value: impl Fn(CpuId, CpuId) -> V) -> bool {
    let ground = CoreIndex::new(topology);
    let Some(mut tree) = Tree::new(&ground, measured) else { return true };
    let mut forms = Canonicalizer::new(&mut tree);
    let mut known: BTreeMap<CanonicalForm, V> = BTreeMap::new();
    all_pairs(topology).into_iter().all(|CpuPair { a, b, .. }| {
        let found = value(a, b);
        *known.entry(forms.form(&Labels::seats(&[a, b]))).or_insert(found) == value(a, b)
    })
}

/// Every pair, each for itself.
pub fn all_pairs(topology: &Topology) -> Vec<CpuPair> {
    let ground = CoreIndex::new(topology);
    let mut cpus: Vec<CpuId> = topology.allowed_cpus.iter().filter(|cpu| ground.core_of(*cpu).is_some()).collect();
    ground.sort(&mut cpus);
    let from = |first: usize| cpus[first + 1..].iter().map(move |b| (first, *b));
    (0..cpus.len()).flat_map(from).map(|(first, b)| CpuPair { a: cpus[first], b, alike: 1 }).collect()
}
