//! CPU rules: the CPUs that a policy chooses for a number of threads.
//!
//! Must not depend on `policy`.

use super::cores::{ClusterNoun, Core, CoreIndex};
use super::loose;
use super::reason::{self, count};
use super::region::{SpreadRule, choose, choose_cores, choose_over_clusters, slowness};
use crate::values::id_set::{CpuId, NodeId};

/// Rule by which a policy chooses CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuRule {
    Kernel,
    OneCore,
    Compact,
    Spread,
    CoresOneL3,
    CoresAcrossL3,
    SmtOneL3,
    SmtPairs,
    Big,
    Little,
    /// CPUs of this memory node.
    Node(NodeId),
    /// CPUs of the memory node of the devices.
    NearDevice,
    /// CPUs of the farthest other memory node from the devices.
    FarFromDevice,
    /// CPUs of one memory node with enough cores; shared by the policies that only choose memory.
    OneNode,
}

/// Chosen CPUs: thread i is pinned to `cpus[i]`. They are in logical order, so a policy only selects CPUs.
pub(super) struct CpuList {
    pub cpus: Vec<CpuId>,
    pub threads: usize,
    pub reason: String,
}

/// Applies a rule to this machine. If `threads` is `None`, each rule uses its default number.
pub(super) fn choose_cpus(index: &CoreIndex, rule: CpuRule, threads: Option<usize>) -> Result<CpuList, String> {
    if index.cores.is_empty() {
        return Err("this process may not use any CPU of this machine".into());
    }
    let all = index.all_cores();
    match rule {
        CpuRule::Kernel => Ok(CpuList {
            cpus: Vec::new(),
            // As many as `compact` and `spread`, so that the baseline does the same work.
            threads: threads.unwrap_or(all.len()),
            reason: "no binding: the kernel chooses".into(),
        }),
        CpuRule::OneCore => Ok(one_core(index, threads.unwrap_or(1))),
        CpuRule::Compact => choose_from(index, &all, threads, SpreadRule::Near, "this process may use"),
        CpuRule::Spread => choose_from(index, &all, threads, SpreadRule::Far, "this process may use"),
        CpuRule::CoresOneL3 => cores_one_l3(index, threads),
        CpuRule::CoresAcrossL3 => cores_across_l3(index, threads),
        CpuRule::SmtOneL3 => smt_one_l3(index, threads),
        CpuRule::SmtPairs => smt_pairs(index, threads),
        CpuRule::Big => one_kind(index, threads, "big"),
        CpuRule::Little => one_kind(index, threads, "little"),
        CpuRule::Node(node) => on_node(index, node, threads),
        CpuRule::NearDevice => on_node(index, device_node(index)?, threads),
        CpuRule::FarFromDevice => on_node(index, node_far_from_device(index)?, threads),
        CpuRule::OneNode => one_node(index, threads),
    }
}

/// Returns the CPUs that the threads of a loose placement share: all CPUs of the core, kind of cores or memory node that
/// a rule names; of other rules, the chosen CPUs.
pub(super) fn loosened(index: &CoreIndex, rule: CpuRule, chosen: &CpuList) -> Result<CpuList, String> {
    let core_of_first = chosen.cpus.first().and_then(|cpu| index.core_of(*cpu)).ok_or_else(loose::no_cpus)?;
    let all_of = |matches: &dyn Fn(&Core) -> bool| -> Vec<CpuId> {
        index.cores.iter().filter(|core| matches(core)).flat_map(|core| core.cpus.iter().copied()).collect()
    };
    let mut cpus = match rule {
        CpuRule::OneCore => core_of_first.cpus.clone(),
        CpuRule::Big | CpuRule::Little => all_of(&|core| core.kind == core_of_first.kind),
        CpuRule::Node(_) | CpuRule::OneNode => all_of(&|core| core.home == core_of_first.home),
        _ => chosen.cpus.clone(),
    };
    index.sort(&mut cpus);
    let reason = format!("{} may use all of {}", count(chosen.threads, "thread"), reason::shared_cpus(index, &cpus));
    let length = cpus.len().max(chosen.threads);
    Ok(CpuList { cpus: cpus.into_iter().cycle().take(length).collect(), threads: chosen.threads, reason })
}

fn one_thread_each(index: &CoreIndex, cpus: Vec<CpuId>) -> CpuList {
    CpuList { reason: reason::bindings(index, &cpus), threads: cpus.len(), cpus }
}

/// One thread per core while there are cores, then hardware threads. `owner` precedes the maximum in errors.
fn choose_from(
    index: &CoreIndex,
    cores: &[usize],
    threads: Option<usize>,
    spread: SpreadRule,
    owner: &str,
) -> Result<CpuList, String> {
    let threads = threads.unwrap_or(cores.len());
    let cpus = index.cpu_count(cores);
    if threads > cpus {
        return Err(format!("needs {}, {owner} {cpus}", count(threads, "CPU")));
    }
    Ok(one_thread_each(index, choose(index, cores, threads, spread)))
}

/// The only rule by which threads may share CPUs, because it must use a single core for any number of threads.
fn one_core(index: &CoreIndex, threads: usize) -> CpuList {
    let core = choose_cores(index, &index.all_cores(), 1, SpreadRule::Near)[0];
    let cpus = &index.cores[core].cpus;
    let bindings: Vec<CpuId> = cpus.iter().copied().cycle().take(threads).collect();
    let reason = match (threads, cpus.len()) {
        (1, _) => format!("one core, CPU {}", bindings[0]),
        (threads, 1) => format!("{threads} threads share one core, CPU {}", cpus[0]),
        (threads, all) if threads > all => format!("{threads} threads share the {all} CPUs of one core"),
        (threads, _) => format!("one core, {threads} threads on {threads} of its hardware threads"),
    };
    CpuList { cpus: bindings, threads, reason }
}

/// Returns the prefix of reasons on machines without L3, where other clusters replace L3s. Empty if there are L3s.
fn instead_of_l3(index: &CoreIndex) -> String {
    match index.cluster_noun {
        ClusterNoun::Cache(3) | ClusterNoun::Nothing => String::new(),
        noun => format!("no L3 on this machine, by {} instead: ", noun.one()),
    }
}

fn check_clusters(index: &CoreIndex) -> Result<(), String> {
    if index.cluster_noun == ClusterNoun::Nothing {
        return Err("this machine has no known cache that several cores share".into());
    }
    Ok(())
}

fn with_cluster_note(index: &CoreIndex, mut list: CpuList) -> CpuList {
    list.reason.insert_str(0, &instead_of_l3(index));
    list
}

/// Returns the cores of the best cluster for `threads` threads: fast cores first, then the lowest index. If `threads`
/// is `None`, the cluster with the largest capacity is best. `usable` selects cores of a cluster, and `capacity`
/// returns the number of threads that fit on them. The error is the largest capacity.
fn best_cluster(
    index: &CoreIndex,
    threads: Option<usize>,
    usable: impl Fn(&[usize]) -> Vec<usize>,
    capacity: impl Fn(&[usize]) -> usize,
) -> Result<Vec<usize>, usize> {
    let candidates: Vec<Vec<usize>> = index.clusters.iter().map(|cluster| usable(&cluster.cores)).collect();
    let largest = candidates.iter().map(|cores| capacity(cores)).max().unwrap_or(0);
    let slowness = |cores: &Vec<usize>| slowness(index, cores, threads.unwrap_or(cores.len()));
    let spare = |cores: &Vec<usize>| if threads.is_some() { 0 } else { largest - capacity(cores) };
    candidates
        .into_iter()
        .filter(|cores| capacity(cores) >= threads.unwrap_or(1))
        .min_by_key(|cores| (slowness(cores), spare(cores)))
        .ok_or(largest)
}

fn cores_one_l3(index: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    check_clusters(index)?;
    let noun = index.cluster_noun.one();
    let cores = best_cluster(index, threads, <[usize]>::to_vec, <[usize]>::len).map_err(|largest| {
        format!(
            "needs {} in one {noun}, this machine's largest {noun} has {largest}",
            count(threads.unwrap_or(1), "core")
        )
    })?;
    let threads = threads.unwrap_or(cores.len());
    Ok(with_cluster_note(index, one_thread_each(index, choose(index, &cores, threads, SpreadRule::Near))))
}

fn cores_across_l3(index: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    check_clusters(index)?;
    let noun = index.cluster_noun.one();
    if index.clusters.len() < 2 {
        return Err(format!("{}this machine has one {noun}", instead_of_l3(index)));
    }
    if threads.is_some_and(|threads| threads < 2) {
        return Err(format!("one thread cannot use two {noun}s"));
    }
    let clustered = index.cores_where(|core| core.cluster.is_some());
    let cores = smallest_span(index, &clustered, threads).ok_or_else(|| {
        format!("needs {}, this process may use {}", count(threads.unwrap_or(2), "core"), clustered.len())
    })?;
    let chosen = choose_over_clusters(index, &cores, threads.unwrap_or(cores.len()));
    Ok(with_cluster_note(index, one_thread_each(index, choose(index, &chosen, chosen.len(), SpreadRule::Near))))
}

/// Returns the cores of one memory node, else of one package, else of the machine, that span at least two clusters.
fn smallest_span(index: &CoreIndex, clustered: &[usize], threads: Option<usize>) -> Option<Vec<usize>> {
    let matching = |matches: &dyn Fn(&super::cores::Core) -> bool| -> Vec<usize> {
        clustered.iter().copied().filter(|core| matches(&index.cores[*core])).collect()
    };
    let packages = index.cores.iter().filter_map(|core| core.package).max().map_or(0, |last| last + 1);
    let nodes = index.homes().into_iter().map(|node| matching(&|core| core.home == Some(node))).collect();
    let packages = (0..packages).map(|package| matching(&|core| core.package == Some(package))).collect();
    let levels: [Vec<Vec<usize>>; 3] = [nodes, packages, vec![clustered.to_vec()]];
    let fits = |cores: &Vec<usize>| {
        let first = cores.first().map(|core| index.cores[*core].cluster);
        cores.iter().any(|core| Some(index.cores[*core].cluster) != first) && cores.len() >= threads.unwrap_or(2)
    };
    let spare = |cores: &Vec<usize>| if threads.is_some() { 0 } else { usize::MAX - cores.len() };
    levels.into_iter().find_map(|level| level.into_iter().filter(fits).min_by_key(spare))
}

fn smt_cores(index: &CoreIndex) -> Result<Vec<usize>, String> {
    let cores = index.cores_where(|core| core.cpus.len() > 1);
    if cores.is_empty() {
        return Err("no core has more than one usable CPU: SMT is off or not supported".into());
    }
    Ok(cores)
}

/// All hardware threads of one core before the next core.
fn smt_one_l3(index: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    check_clusters(index)?;
    let smt = smt_cores(index)?;
    if threads.is_some_and(|threads| threads < 2) {
        return Err("needs at least 2 threads to share a core".into());
    }
    let noun = index.cluster_noun.one();
    let usable = |cores: &[usize]| -> Vec<usize> { cores.iter().copied().filter(|core| smt.contains(core)).collect() };
    let cores = best_cluster(index, threads, usable, |cores| index.cpu_count(cores)).map_err(|largest| {
        let needed = count(threads.unwrap_or(2), "SMT CPU");
        format!("{}needs {needed} in one {noun}, this machine's largest {noun} has {largest}", instead_of_l3(index))
    })?;
    let by_speed = (0..index.kinds.len().max(1))
        .flat_map(|kind| cores.iter().filter(move |core| index.cores[**core].kind == kind));
    let all = by_speed.flat_map(|core| index.cores[*core].cpus.iter().copied());
    let mut cpus: Vec<CpuId> = all.take(threads.unwrap_or(usize::MAX)).collect();
    index.sort(&mut cpus);
    Ok(with_cluster_note(index, one_thread_each(index, cpus)))
}

/// Two threads on each core, even if a core has four or eight hardware threads.
fn smt_pairs(index: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    let smt = smt_cores(index)?;
    let threads = threads.unwrap_or(smt.len() * 2);
    if threads % 2 == 1 {
        return Err(format!("pairs need an even number of threads, not {threads}"));
    }
    if threads / 2 > smt.len() {
        return Err(format!(
            "needs {} with SMT siblings, this process may use {}",
            count(threads / 2, "core"),
            smt.len()
        ));
    }
    let cores = choose_cores(index, &smt, threads / 2, SpreadRule::Near);
    Ok(one_thread_each(index, choose(index, &cores, threads, SpreadRule::Near)))
}

fn one_kind(index: &CoreIndex, threads: Option<usize>, name: &str) -> Result<CpuList, String> {
    let kind = if name == "big" { 0 } else { index.kinds.len().saturating_sub(1) };
    if index.kinds.len() < 2 {
        return Err("all cores that this process may use are of one kind".into());
    }
    let cores = index.cores_where(|core| core.kind == kind);
    let mut list = choose_from(index, &cores, threads, SpreadRule::Near, &format!("the {name} cores have"))?;
    if let Some((low, high)) = index.kinds[kind].capacity {
        let capacity = if low == high { low.to_string() } else { format!("{low}-{high}") };
        list.reason = format!("{}; their capacity is {capacity} of 1024", list.reason);
    }
    Ok(list)
}

fn on_node(index: &CoreIndex, node: NodeId, threads: Option<usize>) -> Result<CpuList, String> {
    super::memory::check_node(index, node)?;
    let cores = index.topology.node(node).map(|node| index.cores_within(&node.cpus)).unwrap_or_default();
    if cores.is_empty() {
        return Err(format!(
            "memory node {node} has no CPUs that this process may use; use compact+node:{node} or -m {node} for its memory alone"
        ));
    }
    choose_from(index, &cores, threads, SpreadRule::Near, &format!("memory node {node} has"))
}

/// Returns the memory node with CPUs that the devices are attached to.
fn device_node(index: &CoreIndex) -> Result<NodeId, String> {
    let homes = index.homes();
    let Some(first) = index.devices.first() else {
        return Err("no device is named: use --device NAME, or devices = [\"NAME\"] in an experiment".into());
    };
    if let [only] = homes[..] {
        return Ok(only);
    }
    if let Some(unknown) = index.devices.iter().find(|device| device.node.is_none()) {
        return Err(format!("the system does not report the memory node of {}", unknown.name));
    }
    if let Some(other) = index.devices.iter().find(|device| device.node != first.node) {
        return Err(format!("{} and {} are attached to different memory nodes", first.name, other.name));
    }
    let node = first.node.filter(|node| homes.contains(node));
    node.ok_or_else(|| format!("the memory node of {} has no CPUs that this process may use", first.name))
}

fn node_far_from_device(index: &CoreIndex) -> Result<NodeId, String> {
    let near = device_node(index)?;
    let others = index.homes().into_iter().filter(|node| *node != near);
    // `max_by_key` returns the last maximum, so reversing selects the first of equally far nodes.
    let farthest = others.rev().max_by_key(|node| index.distance(near, *node));
    farthest.ok_or_else(|| "this machine has one memory node with CPUs, so none is far from the device".into())
}

/// The lowest node with one core per thread, else with one CPU per thread. Without a number, the node with most cores.
fn one_node(index: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    let nodes: Vec<Vec<usize>> =
        index.homes().into_iter().map(|node| index.cores_where(|core| core.home == Some(node))).collect();
    let largest = nodes.iter().map(|cores| index.cpu_count(cores)).max().unwrap_or(0);
    let Some(threads) = threads.or_else(|| nodes.iter().map(Vec::len).max()) else {
        return Err("no usable CPU has a local memory node that this process may use".into());
    };
    let with_cores = nodes.iter().find(|cores| cores.len() >= threads);
    let cores = with_cores.or_else(|| nodes.iter().find(|cores| index.cpu_count(cores) >= threads));
    let cores = cores
        .ok_or_else(|| format!("needs {} on one memory node, the largest has {largest}", count(threads, "CPU")))?;
    choose_from(index, cores, Some(threads), SpreadRule::Near, "the node has")
}
