//! Chooses cores that are close to each other or far apart, along the tree of shared resources.

use std::cmp::Reverse;

use super::cores::{ClusterNoun, CoreIndex};
use crate::values::id_set::{CpuId, NodeId};
use crate::values::topology::{Object, ObjectKind};

/// Whether chosen cores are close to each other or far apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SpreadRule {
    /// As few parts as possible.
    Near,
    /// As many parts as possible, evenly.
    Far,
}

/// A set of cores and its division into parts.
struct Region {
    cores: Vec<usize>,
    /// Empty, or at least two parts that together contain all cores.
    parts: Vec<Region>,
}

/// Returns one CPU for each of `count` threads, in logical order: separate cores while there are enough, then the
/// second hardware threads, and so on. The cores must have at least `count` CPUs.
pub(super) fn choose(index: &CoreIndex, cores: &[usize], count: usize, spread: SpreadRule) -> Vec<CpuId> {
    debug_assert!(count <= index.cpu_count(cores));
    let mut bindings = Vec::with_capacity(count);
    for sibling in 0.. {
        let layer: Vec<usize> = cores.iter().copied().filter(|core| index.cores[*core].cpus.len() > sibling).collect();
        let needed = (count - bindings.len()).min(layer.len());
        if needed == 0 {
            break;
        }
        bindings
            .extend(choose_cores(index, &layer, needed, spread).iter().map(|core| index.cores[*core].cpus[sibling]));
    }
    index.sort(&mut bindings);
    bindings
}

/// Chooses `count` of these cores.
pub(super) fn choose_cores(index: &CoreIndex, cores: &[usize], count: usize, spread: SpreadRule) -> Vec<usize> {
    let region = region(index, 0, cores, &|object| is_part(index, spread, object));
    match spread {
        SpreadRule::Near => near(index, &region, count),
        SpreadRule::Far => far(index, &region, count),
    }
}

/// Chooses `count` of these cores, evenly over their clusters.
pub(super) fn choose_over_clusters(index: &CoreIndex, cores: &[usize], count: usize) -> Vec<usize> {
    let parts: Vec<Vec<usize>> = index
        .clusters
        .iter()
        .map(|cluster| cluster.cores.iter().copied().filter(|core| cores.contains(core)).collect())
        .filter(|part: &Vec<usize>| !part.is_empty())
        .collect();
    let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
    let shares = even_shares(&sizes, count);
    parts.iter().zip(shares).flat_map(|(part, share)| choose_cores(index, part, share, SpreadRule::Near)).collect()
}

/// Mean index of the kind of the fastest `count` of these cores, times 1000; 0 on a uniform machine.
pub(super) fn slowness(index: &CoreIndex, cores: &[usize], count: usize) -> usize {
    let fastest = fastest(index, cores, count);
    fastest.iter().map(|core| index.cores[*core].kind).sum::<usize>() * 1000 / fastest.len().max(1)
}

/// Whether an object divides the machine under this rule. For `Near`, caches below an L3 do not count: otherwise four
/// slow cores around one L2 would be closer than four fast cores with separate L2s.
fn is_part(index: &CoreIndex, spread: SpreadRule, object: &Object) -> bool {
    let level_min = match (spread, index.cluster_noun) {
        (SpreadRule::Near, ClusterNoun::Cache(level)) => level,
        (SpreadRule::Near, _) => u32::MAX,
        (SpreadRule::Far, _) => 2,
    };
    match object.kind {
        ObjectKind::Package | ObjectKind::Die | ObjectKind::Group => true,
        ObjectKind::Cache => object.cache.is_some_and(|cache| cache.level >= level_min),
        ObjectKind::Machine | ObjectKind::Core | ObjectKind::Pu => false,
    }
}

/// Divides the cores below an object into a tree of parts.
fn region(index: &CoreIndex, object: usize, cores: &[usize], is_part: &dyn Fn(&Object) -> bool) -> Region {
    let mut parts = Vec::new();
    collect_parts(index, object, cores, is_part, &mut parts);
    let mut loose: Vec<usize> = cores.to_vec();
    for part in &parts {
        loose.retain(|core| !part.cores.contains(core));
    }
    if !parts.is_empty() {
        parts.extend(loose.into_iter().map(|core| Region { cores: vec![core], parts: Vec::new() }));
        parts.sort_by_key(|part: &Region| part.cores.first().copied());
    }
    match parts.len() {
        // A package with one L3 is a single part.
        1 => parts.remove(0),
        _ => Region { cores: cores.to_vec(), parts },
    }
}

fn collect_parts(
    index: &CoreIndex,
    object: usize,
    cores: &[usize],
    is_part: &dyn Fn(&Object) -> bool,
    parts: &mut Vec<Region>,
) {
    for child in &index.topology.objects.get(object).map(|object| object.children.clone()).unwrap_or_default() {
        let Some(part) = index.topology.objects.get(*child) else { continue };
        let has = |core: &&usize| index.cores[**core].cpus.iter().any(|cpu| part.cpus.contains(*cpu));
        let inside: Vec<usize> = cores.iter().filter(has).copied().collect();
        if inside.is_empty() {
            continue;
        }
        if is_part(part) {
            parts.push(region(index, *child, &inside, is_part));
        } else {
            collect_parts(index, *child, &inside, is_part, parts);
        }
    }
}

/// Chooses from the smallest part with enough cores; if there is none, whole parts, beginning with the fastest and its
/// neighbours.
fn near(index: &CoreIndex, region: &Region, count: usize) -> Vec<usize> {
    if count >= region.cores.len() || region.parts.is_empty() {
        return fastest(index, &region.cores, count);
    }
    let enough = region.parts.iter().filter(|part| part.cores.len() >= count);
    if let Some(part) = enough.min_by_key(|part| slowness(index, &part.cores, count)) {
        return near(index, part, count);
    }
    let part_slowness = |part: &Region| slowness(index, &part.cores, part.cores.len());
    let mut order: Vec<&Region> = region.parts.iter().collect();
    let Some(first) = order.iter().min_by_key(|part| (part_slowness(part), Reverse(part.cores.len()))).copied() else {
        return Vec::new();
    };
    order.sort_by_key(|part| (!std::ptr::eq(*part, first), gap(index, first, part), part_slowness(part)));
    let mut chosen = Vec::new();
    for part in order {
        let share = (count - chosen.len()).min(part.cores.len());
        chosen.extend(near(index, part, share));
    }
    chosen
}

/// Chooses evenly from all parts. If there are more parts than threads, the parts farthest from each other are used.
fn far(index: &CoreIndex, region: &Region, count: usize) -> Vec<usize> {
    if count >= region.cores.len() || region.parts.is_empty() {
        return fastest(index, &region.cores, count);
    }
    let order = farthest_first(index, &region.parts);
    let sizes: Vec<usize> = order.iter().map(|part| part.cores.len()).collect();
    let shares = even_shares(&sizes, count);
    order.iter().zip(shares).flat_map(|(part, share)| far(index, part, share)).collect()
}

fn fastest(index: &CoreIndex, cores: &[usize], count: usize) -> Vec<usize> {
    let mut order = cores.to_vec();
    order.sort_by_key(|core| (index.cores[*core].kind, *core));
    order.truncate(count);
    order
}

/// Orders parts so that each is the farthest from all before it. Equal distances: fast cores first.
fn farthest_first<'a>(index: &CoreIndex, parts: &'a [Region]) -> Vec<&'a Region> {
    let mut rest: Vec<&Region> = parts.iter().collect();
    let mut order: Vec<&Region> = Vec::new();
    while !rest.is_empty() {
        let key = |part: &Region| {
            let nearest = order.iter().map(|chosen| gap(index, chosen, part)).min();
            (Reverse(nearest.unwrap_or(0)), slowness(index, &part.cores, 1))
        };
        let next = (0..rest.len()).min_by_key(|index| key(rest[*index])).unwrap_or(0);
        order.push(rest.remove(next));
    }
    order
}

/// Returns the distance between the memory of two parts. Returns 0 if unknown.
fn gap(index: &CoreIndex, from: &Region, to: &Region) -> u64 {
    let home = |region: &Region| -> Option<NodeId> { index.cores[*region.cores.first()?].home };
    home(from).zip(home(to)).and_then(|(from, to)| index.distance(from, to)).unwrap_or(0)
}

/// Divides `count` into shares that differ by at most one, except where a size is reached. Earlier parts get the
/// remainder.
fn even_shares(sizes: &[usize], count: usize) -> Vec<usize> {
    let mut shares = vec![0; sizes.len()];
    let mut remaining = count.min(sizes.iter().sum());
    while remaining > 0 {
        for (share, size) in shares.iter_mut().zip(sizes) {
            if remaining > 0 && *share < *size {
                *share += 1;
                remaining -= 1;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_until_a_part_is_full() {
        let cases: [(&[usize], usize, &[usize]); 5] = [
            (&[3, 3], 4, &[2, 2]),
            (&[3, 3], 5, &[3, 2]),
            (&[1, 5], 6, &[1, 5]),
            (&[1, 5, 5], 6, &[1, 3, 2]),
            (&[2, 2], 9, &[2, 2]),
        ];
        for (sizes, count, expected) in cases {
            assert_eq!(even_shares(sizes, count), expected, "{count} over {sizes:?}");
        }
    }
}
