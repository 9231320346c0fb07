//! One pair of CPUs of each equivalence class, for measuring latencies between CPUs.

use std::collections::BTreeMap;

use super::canonical::{CanonicalForm, Canonicalizer, Labels};
use super::tree::Tree;
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::topology::Topology;

/// Two CPUs that represent all equivalent pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPair {
    /// The first in logical order.
    pub a: CpuId,
    pub b: CpuId,
    /// Number of equivalent pairs, including this one.
    pub alike: usize,
}

/// Returns one pair of each class, those nearest to the first CPUs first. Empty on a machine with one usable CPU.
pub fn pairs(topology: &Topology) -> Vec<CpuPair> {
    let core_index = CoreIndex::new(topology);
    let Some(mut tree) = Tree::new(&core_index, &[]) else { return Vec::new() };
    let mut forms = Canonicalizer::new(&mut tree);
    let mut cpus: Vec<CpuId> = forms.tree().cpus_below(0);
    core_index.sort(&mut cpus);
    let alone: Vec<CanonicalForm> = cpus.iter().map(|cpu| forms.form(&Labels::for_cpus(&[*cpu]))).collect();
    let first_of: BTreeMap<&CanonicalForm, usize> =
        alone.iter().enumerate().rev().map(|(at, form)| (form, at)).collect();
    let mut classes: BTreeMap<CanonicalForm, CpuPair> = BTreeMap::new();
    // Any pair is equivalent to one whose first CPU is the first of its class, so these pairs suffice.
    for (own, first) in &first_of {
        let size = alone.iter().filter(|form| form == own).count();
        let mut from_here: BTreeMap<CanonicalForm, (CpuPair, usize)> = BTreeMap::new();
        for other in (0..cpus.len()).filter(|other| other != first) {
            let (a, b) = (cpus[*first.min(&other)], cpus[*first.max(&other)]);
            let same_kind = alone[other] == **own;
            let entry = from_here.entry(forms.form(&Labels::for_cpus(&[a, b])));
            // A pair of two CPUs of one class is counted from both of its CPUs.
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

/// Whether equivalent pairs of CPUs always have the same value, so that exchanging equivalent parts keeps the measured
/// values. `measured` are classes of CPUs that are already distinguished.
pub fn pairs_keep<V: PartialEq>(topology: &Topology, measured: &[CpuSet], value: impl Fn(CpuId, CpuId) -> V) -> bool {
    let core_index = CoreIndex::new(topology);
    let Some(mut tree) = Tree::new(&core_index, measured) else { return true };
    let mut forms = Canonicalizer::new(&mut tree);
    let mut known: BTreeMap<CanonicalForm, V> = BTreeMap::new();
    all_pairs(topology).into_iter().all(|CpuPair { a, b, .. }| {
        let measured_value = value(a, b);
        *known.entry(forms.form(&Labels::for_cpus(&[a, b]))).or_insert(measured_value) == value(a, b)
    })
}

/// Returns every pair, each representing only itself.
pub fn all_pairs(topology: &Topology) -> Vec<CpuPair> {
    let core_index = CoreIndex::new(topology);
    let mut cpus: Vec<CpuId> = topology.allowed_cpus.iter().filter(|cpu| core_index.core_of(*cpu).is_some()).collect();
    core_index.sort(&mut cpus);
    let pairs_from = |first: usize| cpus[first + 1..].iter().map(move |b| (first, *b));
    (0..cpus.len()).flat_map(pairs_from).map(|(first, b)| CpuPair { a: cpus[first], b, alike: 1 }).collect()
}
