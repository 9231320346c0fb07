//! Descriptions of placements: `6 cores over 2 L3s, one thread per core`.

use std::collections::{BTreeMap, BTreeSet};

use super::cores::{Core, CoreIndex};
use crate::values::id_set::{CpuId, NodeId};

/// Describes the CPUs of pinned threads: `6 cores over 2 L3s, one thread per core`.
pub(crate) fn bindings(index: &CoreIndex, bindings: &[CpuId]) -> String {
    let cores: Vec<&Core> = bindings.iter().filter_map(|cpu| index.core_of(*cpu)).collect();
    let mut threads_of: BTreeMap<CpuId, usize> = BTreeMap::new();
    for core in &cores {
        *threads_of.entry(core.cpus[0]).or_default() += 1;
    }
    let distinct: Vec<&Core> = threads_of.keys().filter_map(|cpu| index.core_of(*cpu)).collect();
    format!("{}{}, {}", cores_by_kind(index, &distinct), span(index, &distinct), per_core(&threads_of))
}

/// Describes CPUs on which threads may move: `6 cores over 2 L3s, 2 hardware threads of each`.
pub(crate) fn shared_cpus(index: &CoreIndex, cpus: &[CpuId]) -> String {
    let mut threads_of: BTreeMap<CpuId, usize> = BTreeMap::new();
    cpus.iter()
        .filter_map(|cpu| index.core_of(*cpu))
        .for_each(|core| *threads_of.entry(core.cpus[0]).or_default() += 1);
    let cores: Vec<&Core> = threads_of.keys().filter_map(|cpu| index.core_of(*cpu)).collect();
    let least = threads_of.values().copied().min().unwrap_or(0);
    let most = threads_of.values().copied().max().unwrap_or(0);
    let whole = cores.iter().all(|core| threads_of.get(&core.cpus[0]) == Some(&core.cpus.len()));
    let threads = match (least, most) {
        (1, 1) => "one hardware thread".into(),
        (least, most) if least == most => format!("{most} hardware threads"),
        (least, most) => format!("{least} to {most} hardware threads"),
    };
    let each = match (whole, most) {
        (true, 1) => String::new(),
        (true, _) => ", all hardware threads".into(),
        (false, _) if cores.len() == 1 => format!(", {threads}"),
        (false, _) => format!(", {threads} of each"),
    };
    format!("{}{}{each}", cores_by_kind(index, &cores), span(index, &cores))
}

/// `1 core`, `6 cores`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// `one L3`, `2 L3s`.
fn clusters(index: &CoreIndex, number: usize) -> String {
    let noun = index.cluster_noun.one();
    if number == 1 { format!("one {noun}") } else { count(number, &noun) }
}

/// `6 cores`; on machines with several kinds of cores `2 big cores` or `6 cores (2 big, 4 little)`.
fn cores_by_kind(index: &CoreIndex, cores: &[&Core]) -> String {
    let last = index.kinds.len().saturating_sub(1);
    let name = |kind| match kind {
        0 => "big",
        kind if kind == last => "little",
        _ => "middle",
    };
    if last == 0 {
        return count(cores.len(), "core");
    }
    let mut words: Vec<(&str, usize)> = Vec::new();
    for kind in 0..=last {
        let number = cores.iter().filter(|core| core.kind == kind).count();
        match words.last_mut() {
            _ if number == 0 => {}
            Some((word, total)) if *word == name(kind) => *total += number,
            _ => words.push((name(kind), number)),
        }
    }
    if let [(word, number)] = words.as_slice() {
        return count(*number, &format!("{word} core"));
    }
    let words: Vec<String> = words.iter().map(|(word, number)| format!("{number} {word}")).collect();
    format!("{} ({})", count(cores.len(), "core"), words.join(", "))
}

/// ` of one L3 on memory node 0`, ` over 2 packages, 2 memory nodes and 2 L3s`.
fn span(index: &CoreIndex, cores: &[&Core]) -> String {
    let packages: BTreeSet<usize> = cores.iter().filter_map(|core| core.package).collect();
    let nodes: BTreeSet<NodeId> = cores.iter().filter_map(|core| core.home).collect();
    let mut in_cluster: BTreeMap<usize, usize> = BTreeMap::new();
    cores.iter().filter_map(|core| core.cluster).for_each(|cluster| *in_cluster.entry(cluster).or_default() += 1);
    let mut over = Vec::new();
    if packages.len() > 1 {
        over.push(count(packages.len(), "package"));
    }
    if nodes.len() > 1 {
        over.push(count(nodes.len(), "memory node"));
    }
    if in_cluster.len() > 1 {
        over.push(format!("{}{}", clusters(index, in_cluster.len()), uneven(&in_cluster)));
    }
    let of = if in_cluster.len() == 1 { format!(" of {}", clusters(index, 1)) } else { String::new() };
    let over = match over.as_slice() {
        [] => String::new(),
        [one] => format!(" over {one}"),
        [most @ .., last] => format!(" over {} and {last}", most.join(", ")),
    };
    let on = match (nodes.first(), nodes.len()) {
        (Some(node), 1) if index.homes().len() > 1 => format!(" on memory node {node}"),
        _ => String::new(),
    };
    format!("{of}{over}{on}")
}

/// ` (4+2)` if clusters have different shares.
fn uneven(in_cluster: &BTreeMap<usize, usize>) -> String {
    let shares: BTreeSet<usize> = in_cluster.values().copied().collect();
    // A long list is less useful than the number of clusters.
    if shares.len() < 2 || in_cluster.len() > 8 {
        return String::new();
    }
    let words: Vec<String> = in_cluster.values().map(ToString::to_string).collect();
    format!(" ({})", words.join("+"))
}

fn per_core(threads_of: &BTreeMap<CpuId, usize>) -> String {
    let least = threads_of.values().copied().min().unwrap_or(0);
    let most = threads_of.values().copied().max().unwrap_or(0);
    match (least, most) {
        (1, 1) if threads_of.len() == 1 => "one thread".into(),
        (1, 1) => "one thread per core".into(),
        (least, most) if least == most => format!("{most} threads per core"),
        (least, most) if least + 1 == most => format!("{least} or {most} threads per core"),
        (least, most) => format!("{least} to {most} threads per core"),
    }
}
