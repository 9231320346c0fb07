//! Choosing some of a machine's cores: near each other or far apart, along the tree of what cores share.

use std::cmp::Reverse;

use super::cores::{ClusterNoun, CoreIndex};
use crate::values::id_set::{CpuId, NodeId};
use crate::values::topology::{Object, ObjectKind};

/// How a choice spreads over the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SpreadRule {
    /// Into as few parts as possible.
    Near,
    /// Evenly into as many parts as possible.
    Far,
}

/// Some cores, and the parts that they fall into.
struct Region {
    cores: Vec<usize>,
    /// Empty, or two or more parts that together have all the cores.
    parts: Vec<Region>,
}

/// One cpu for each of `count` threads out of these cores, in logical order: a core of its own for each thread while
/// there are cores, then second hardware threads, and so on. The cores must have that many cpus.
pub(super) fn choose(ground: &CoreIndex, cores: &[usize], count: usize, reach: SpreadRule) -> Vec<CpuId> {
    debug_assert!(count <= ground.cpu_count(cores));
    let mut seats = Vec::with_capacity(count);
    for sibling in 0.. {
        let layer: Vec<usize> = cores.iter().copied().filter(|core| ground.cores[*core].cpus.len() > sibling).collect();
        let wanted = (count - seats.len()).min(layer.len());
        if wanted == 0 {
            break;
        }
        seats.extend(choose_cores(ground, &layer, wanted, reach).iter().map(|core| ground.cores[*core].cpus[sibling]));
    }
    ground.sort(&mut seats);
    seats
}

/// `count` of these cores.
pub(super) fn choose_cores(ground: &CoreIndex, cores: &[usize], count: usize, reach: SpreadRule) -> Vec<usize> {
    let region = region(ground, 0, cores, &|object| is_part(ground, reach, object));
    match reach {
        SpreadRule::Near => near(ground, &region, count),
        SpreadRule::Far => far(ground, &region, count),
    }
}

/// `count` cores of these, evenly over their clusters.
pub(super) fn choose_over_clusters(ground: &CoreIndex, cores: &[usize], count: usize) -> Vec<usize> {
    let parts: Vec<Vec<usize>> = ground
        .clusters
        .iter()
        .map(|cluster| cluster.cores.iter().copied().filter(|core| cores.contains(core)).collect())
        .filter(|part: &Vec<usize>| !part.is_empty())
        .collect();
    let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
    let shares = even_shares(&sizes, count);
    parts.iter().zip(shares).flat_map(|(part, share)| choose_cores(ground, part, share, SpreadRule::Near)).collect()
}

/// How slow a choice of the fastest `count` of these cores is, in thousandths of a kind; 0 on a uniform machine.
pub(super) fn slowness(ground: &CoreIndex, cores: &[usize], count: usize) -> usize {
    let fastest = fastest(ground, cores, count);
    fastest.iter().map(|core| ground.cores[*core].kind).sum::<usize>() * 1000 / fastest.len().max(1)
}

/// Whether an object divides the machine for this reach. Near: caches that cores share below an L3 do not count,
/// or four slow cores around one L2 would be "nearer" than four fast ones with L2s of their own.
fn is_part(ground: &CoreIndex, reach: SpreadRule, object: &Object) -> bool {
    let level_min = match (reach, ground.cluster_noun) {
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

/// The part of the tree under this object that has these cores.
fn region(ground: &CoreIndex, object: usize, cores: &[usize], is_part: &dyn Fn(&Object) -> bool) -> Region {
    let mut parts = Vec::new();
    collect_parts(ground, object, cores, is_part, &mut parts);
    let mut loose: Vec<usize> = cores.to_vec();
    for part in &parts {
        loose.retain(|core| !part.cores.contains(core));
    }
    if !parts.is_empty() {
        parts.extend(loose.into_iter().map(|core| Region { cores: vec![core], parts: Vec::new() }));
        parts.sort_by_key(|part: &Region| part.cores.first().copied());
    }
    match parts.len() {
        // A package with one L3 is one thing, not two.
        1 => parts.remove(0),
        _ => Region { cores: cores.to_vec(), parts },
    }
}

fn collect_parts(
    ground: &CoreIndex,
    object: usize,
    cores: &[usize],
    is_part: &dyn Fn(&Object) -> bool,
    parts: &mut Vec<Region>,
) {
    for child in &ground.topology.objects.get(object).map(|object| object.children.clone()).unwrap_or_default() {
        let Some(part) = ground.topology.objects.get(*child) else { continue };
        let has = |core: &&usize| ground.cores[**core].cpus.iter().any(|cpu| part.cpus.contains(*cpu));
        let inside: Vec<usize> = cores.iter().filter(has).copied().collect();
        if inside.is_empty() {
            continue;
        }
        if is_part(part) {
            parts.push(region(ground, *child, &inside, is_part));
        } else {
            collect_parts(ground, *child, &inside, is_part, parts);
        }
    }
}

/// The smallest part that has enough cores; where none has, whole parts, those next to the first one first.
fn near(ground: &CoreIndex, region: &Region, count: usize) -> Vec<usize> {
    if count >= region.cores.len() || region.parts.is_empty() {
        return fastest(ground, &region.cores, count);
    }
    let enough = region.parts.iter().filter(|part| part.cores.len() >= count);
    if let Some(part) = enough.min_by_key(|part| slowness(ground, &part.cores, count)) {
        return near(ground, part, count);
    }
    let pace = |part: &Region| slowness(ground, &part.cores, part.cores.len());
    let mut order: Vec<&Region> = region.parts.iter().collect();
    let Some(first) = order.iter().min_by_key(|part| (pace(part), Reverse(part.cores.len()))).copied() else {
        return Vec::new();
    };
    order.sort_by_key(|part| (!std::ptr::eq(*part, first), gap(ground, first, part), pace(part)));
    let mut chosen = Vec::new();
    for part in order {
        let share = (count - chosen.len()).min(part.cores.len());
        chosen.extend(near(ground, part, share));
    }
    chosen
}

/// Even shares of all parts, the farthest from each other first when there are more parts than threads.
fn far(ground: &CoreIndex, region: &Region, count: usize) -> Vec<usize> {
    if count >= region.cores.len() || region.parts.is_empty() {
        return fastest(ground, &region.cores, count);
    }
    let order = farthest_first(ground, &region.parts);
    let sizes: Vec<usize> = order.iter().map(|part| part.cores.len()).collect();
    let shares = even_shares(&sizes, count);
    order.iter().zip(shares).flat_map(|(part, share)| far(ground, part, share)).collect()
}

fn fastest(ground: &CoreIndex, cores: &[usize], count: usize) -> Vec<usize> {
    let mut order = cores.to_vec();
    order.sort_by_key(|core| (ground.cores[*core].kind, *core));
    order.truncate(count);
    order
}

/// Each next part is the one farthest from all before it; fast cores first where distances say nothing.
fn farthest_first<'a>(ground: &CoreIndex, parts: &'a [Region]) -> Vec<&'a Region> {
    let mut rest: Vec<&Region> = parts.iter().collect();
    let mut order: Vec<&Region> = Vec::new();
    while !rest.is_empty() {
        let key = |part: &Region| {
            let nearest = order.iter().map(|chosen| gap(ground, chosen, part)).min();
            (Reverse(nearest.unwrap_or(0)), slowness(ground, &part.cores, 1))
        };
        let next = (0..rest.len()).min_by_key(|index| key(rest[*index])).unwrap_or(0);
        order.push(rest.remove(next));
    }
    order
}

/// The stated distance between two parts' memory; 0 where the machine states none.
fn gap(ground: &CoreIndex, from: &Region, to: &Region) -> u64 {
    let home = |region: &Region| -> Option<NodeId> { ground.cores[*region.cores.first()?].home };
    home(from).zip(home(to)).and_then(|(from, to)| ground.distance(from, to)).unwrap_or(0)
}

/// Shares of `count` that differ by at most one, except where a size is reached; earlier ones get the rest.
fn even_shares(sizes: &[usize], count: usize) -> Vec<usize> {
    let mut shares = vec![0; sizes.len()];
    let mut left = count.min(sizes.iter().sum());
    while left > 0 {
        for (share, size) in shares.iter_mut().zip(sizes) {
            if left > 0 && *share < *size {
                *share += 1;
                left -= 1;
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
