//! Seat rules: which cpus a policy gives to how many threads.

use super::cores::{ClusterNoun, CoreIndex};
use super::reason::{self, count};
use super::region::{SpreadRule, choose, choose_cores, choose_over_clusters, slowness};
use crate::values::id_set::{CpuId, NodeId};

/// What the name of a policy says about cpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuRule {
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
    /// Cpus of this memory node.
    Node(NodeId),
    /// Cpus of whichever one memory node suits best: the seats that the memory policies share.
    OneNode,
}

/// Thread i sits on the i-th cpu; the cpus are in logical order, so that a policy decides only which they are.
pub(super) struct CpuList {
    pub cpus: Vec<CpuId>,
    pub threads: usize,
    pub reason: String,
}

/// What a rule means on this machine. Without a number of threads each rule takes its natural one.
pub(super) fn choose_cpus(ground: &CoreIndex, rule: CpuRule, threads: Option<usize>) -> Result<CpuList, String> {
    if ground.cores.is_empty() {
        return Err("this process may use no cpu of this machine".into());
    }
    let all = ground.all_cores();
    match rule {
        CpuRule::Kernel => Ok(CpuList {
            cpus: Vec::new(),
            // As many as compact and spread take, so that the reference does the same work.
            threads: threads.unwrap_or(all.len()),
            reason: "no binding: the kernel chooses".into(),
        }),
        CpuRule::OneCore => Ok(one_core(ground, threads.unwrap_or(1))),
        CpuRule::Compact => some_of(ground, &all, threads, SpreadRule::Near, "this process may use"),
        CpuRule::Spread => some_of(ground, &all, threads, SpreadRule::Far, "this process may use"),
        CpuRule::CoresOneL3 => cores_one_l3(ground, threads),
        CpuRule::CoresAcrossL3 => cores_across_l3(ground, threads),
        CpuRule::SmtOneL3 => smt_one_l3(ground, threads),
        CpuRule::SmtPairs => smt_pairs(ground, threads),
        CpuRule::Big => one_kind(ground, threads, "big"),
        CpuRule::Little => one_kind(ground, threads, "little"),
        CpuRule::Node(node) => on_node(ground, node, threads),
        CpuRule::OneNode => one_node(ground, threads),
    }
}

fn seated(ground: &CoreIndex, cpus: Vec<CpuId>) -> CpuList {
    CpuList { reason: reason::seats(ground, &cpus), threads: cpus.len(), cpus }
}

/// One thread per core while there are cores. `owner` completes "needs 30 cpus, ... 24".
fn some_of(
    ground: &CoreIndex,
    cores: &[usize],
    threads: Option<usize>,
    reach: SpreadRule,
    owner: &str,
) -> Result<CpuList, String> {
    let threads = threads.unwrap_or(cores.len());
    let cpus = ground.cpu_count(cores);
    if threads > cpus {
        return Err(format!("needs {}, {owner} {cpus}", count(threads, "cpu")));
    }
    Ok(seated(ground, choose(ground, cores, threads, reach)))
}

/// The only rule that lets threads share cpus: that everything runs on one core is its whole point.
fn one_core(ground: &CoreIndex, threads: usize) -> CpuList {
    let core = choose_cores(ground, &ground.all_cores(), 1, SpreadRule::Near)[0];
    let cpus = &ground.cores[core].cpus;
    let seats: Vec<CpuId> = cpus.iter().copied().cycle().take(threads).collect();
    let reason = match (threads, cpus.len()) {
        (1, _) => format!("one core, cpu {}", seats[0]),
        (threads, 1) => format!("{threads} threads share one core, cpu {}", cpus[0]),
        (threads, all) if threads > all => format!("{threads} threads share the {all} cpus of one core"),
        (threads, _) => format!("one core, {threads} threads on {threads} of its hardware threads"),
    };
    CpuList { cpus: seats, threads, reason }
}

/// Clusters stand in for L3s on machines without; the reason says so.
fn instead_of_l3(ground: &CoreIndex) -> String {
    match ground.cluster_noun {
        ClusterNoun::Cache(3) | ClusterNoun::Nothing => String::new(),
        noun => format!("no L3 here, so by {}: ", noun.one()),
    }
}

fn need_clusters(ground: &CoreIndex) -> Result<(), String> {
    if ground.cluster_noun == ClusterNoun::Nothing {
        return Err("this machine shows no L3 and no other cache that cores share".into());
    }
    Ok(())
}

fn for_clusters(ground: &CoreIndex, mut seats: CpuList) -> CpuList {
    seats.reason.insert_str(0, &instead_of_l3(ground));
    seats
}

/// The cluster for `threads` threads: fast cores first, then the lowest. Without a number, the one with most room.
/// `room` says which of a cluster's cores count, and `places` how many threads they take.
fn best_cluster(
    ground: &CoreIndex,
    threads: Option<usize>,
    room: impl Fn(&[usize]) -> Vec<usize>,
    places: impl Fn(&[usize]) -> usize,
) -> Result<Vec<usize>, usize> {
    let candidates: Vec<Vec<usize>> = ground.clusters.iter().map(|cluster| room(&cluster.cores)).collect();
    let largest = candidates.iter().map(|cores| places(cores)).max().unwrap_or(0);
    let pace = |cores: &Vec<usize>| slowness(ground, cores, threads.unwrap_or(cores.len()));
    let spare = |cores: &Vec<usize>| if threads.is_some() { 0 } else { largest - places(cores) };
    candidates
        .into_iter()
        .filter(|cores| places(cores) >= threads.unwrap_or(1))
        .min_by_key(|cores| (pace(cores), spare(cores)))
        .ok_or(largest)
}

fn cores_one_l3(ground: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    need_clusters(ground)?;
    let noun = ground.cluster_noun.one();
    let cores = best_cluster(ground, threads, <[usize]>::to_vec, <[usize]>::len).map_err(|largest| {
        format!(
            "needs {} in one {noun}, this machine's largest {noun} has {largest}",
            count(threads.unwrap_or(1), "core")
        )
    })?;
    let threads = threads.unwrap_or(cores.len());
    Ok(for_clusters(ground, seated(ground, choose(ground, &cores, threads, SpreadRule::Near))))
}

fn cores_across_l3(ground: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    need_clusters(ground)?;
    let noun = ground.cluster_noun.one();
    if ground.clusters.len() < 2 {
        return Err(format!("{}this machine has one {noun}", instead_of_l3(ground)));
    }
    if threads.is_some_and(|threads| threads < 2) {
        return Err(format!("one thread cannot be over two {noun}s"));
    }
    let clustered = ground.cores_where(|core| core.cluster.is_some());
    let cores = smallest_span(ground, &clustered, threads).ok_or_else(|| {
        format!("needs {}, this process may use {}", count(threads.unwrap_or(2), "core"), clustered.len())
    })?;
    let chosen = choose_over_clusters(ground, &cores, threads.unwrap_or(cores.len()));
    Ok(for_clusters(ground, seated(ground, choose(ground, &chosen, chosen.len(), SpreadRule::Near))))
}

/// The cores of one memory node, else of one package, else of the machine, that fill at least two clusters.
fn smallest_span(ground: &CoreIndex, clustered: &[usize], threads: Option<usize>) -> Option<Vec<usize>> {
    let of = |holds: &dyn Fn(&super::cores::Core) -> bool| -> Vec<usize> {
        clustered.iter().copied().filter(|core| holds(&ground.cores[*core])).collect()
    };
    let packages = ground.cores.iter().filter_map(|core| core.package).max().map_or(0, |last| last + 1);
    let nodes = ground.homes().into_iter().map(|node| of(&|core| core.home == Some(node))).collect();
    let packages = (0..packages).map(|package| of(&|core| core.package == Some(package))).collect();
    let levels: [Vec<Vec<usize>>; 3] = [nodes, packages, vec![clustered.to_vec()]];
    let fits = |cores: &Vec<usize>| {
        let first = cores.first().map(|core| ground.cores[*core].cluster);
        cores.iter().any(|core| Some(ground.cores[*core].cluster) != first) && cores.len() >= threads.unwrap_or(2)
    };
    let spare = |cores: &Vec<usize>| if threads.is_some() { 0 } else { usize::MAX - cores.len() };
    levels.into_iter().find_map(|level| level.into_iter().filter(fits).min_by_key(spare))
}

fn smt_cores(ground: &CoreIndex) -> Result<Vec<usize>, String> {
    let cores = ground.cores_where(|core| core.cpus.len() > 1);
    if cores.is_empty() {
        return Err("no core here has more than one usable cpu: SMT is off or absent".into());
    }
    Ok(cores)
}

/// All hardware threads of one core before the next core.
fn smt_one_l3(ground: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    need_clusters(ground)?;
    let smt = smt_cores(ground)?;
    if threads.is_some_and(|threads| threads < 2) {
        return Err("needs at least 2 threads to share a core".into());
    }
    let noun = ground.cluster_noun.one();
    let room = |cores: &[usize]| -> Vec<usize> { cores.iter().copied().filter(|core| smt.contains(core)).collect() };
    let cores = best_cluster(ground, threads, room, |cores| ground.cpu_count(cores)).map_err(|largest| {
        let wanted = count(threads.unwrap_or(2), "SMT cpu");
        format!("{}needs {wanted} in one {noun}, this machine's largest {noun} has {largest}", instead_of_l3(ground))
    })?;
    let by_speed = (0..ground.kinds.len().max(1))
        .flat_map(|kind| cores.iter().filter(move |core| ground.cores[**core].kind == kind));
    let every = by_speed.flat_map(|core| ground.cores[*core].cpus.iter().copied());
    let mut cpus: Vec<CpuId> = every.take(threads.unwrap_or(usize::MAX)).collect();
    ground.sort(&mut cpus);
    Ok(for_clusters(ground, seated(ground, cpus)))
}

/// Two threads on each core, also where a core has room for four or eight.
fn smt_pairs(ground: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    let smt = smt_cores(ground)?;
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
    let cores = choose_cores(ground, &smt, threads / 2, SpreadRule::Near);
    Ok(seated(ground, choose(ground, &cores, threads, SpreadRule::Near)))
}

fn one_kind(ground: &CoreIndex, threads: Option<usize>, name: &str) -> Result<CpuList, String> {
    let wanted = if name == "big" { 0 } else { ground.kinds.len().saturating_sub(1) };
    if ground.kinds.len() < 2 {
        return Err("all cores that this process may use are of one kind".into());
    }
    let cores = ground.cores_where(|core| core.kind == wanted);
    let mut seats = some_of(ground, &cores, threads, SpreadRule::Near, &format!("the {name} cores have"))?;
    if let Some((low, high)) = ground.kinds[wanted].capacity {
        let capacity = if low == high { low.to_string() } else { format!("{low}-{high}") };
        seats.reason = format!("{}; their capacity is {capacity} of 1024", seats.reason);
    }
    Ok(seats)
}

fn on_node(ground: &CoreIndex, node: NodeId, threads: Option<usize>) -> Result<CpuList, String> {
    super::memory::check_node(ground, node)?;
    let cores = ground.topology.node(node).map(|node| ground.cores_within(&node.cpus)).unwrap_or_default();
    if cores.is_empty() {
        return Err(format!(
            "memory node {node} has no cpus that this process may use; for its memory alone write compact+node:{node} or -m {node}"
        ));
    }
    some_of(ground, &cores, threads, SpreadRule::Near, &format!("memory node {node} has"))
}

/// The lowest node with a core for each thread, else with a cpu for each; without a number, the one with most cores.
fn one_node(ground: &CoreIndex, threads: Option<usize>) -> Result<CpuList, String> {
    let nodes: Vec<Vec<usize>> =
        ground.homes().into_iter().map(|node| ground.cores_where(|core| core.home == Some(node))).collect();
    let largest = nodes.iter().map(|cores| ground.cpu_count(cores)).max().unwrap_or(0);
    let Some(wanted) = threads.or_else(|| nodes.iter().map(Vec::len).max()) else {
        return Err("no usable cpu has a memory node of its own that this process may use".into());
    };
    let with_cores = nodes.iter().find(|cores| cores.len() >= wanted);
    let cores = with_cores.or_else(|| nodes.iter().find(|cores| ground.cpu_count(cores) >= wanted));
    let cores =
        cores.ok_or_else(|| format!("needs {} on one memory node, the largest has {largest}", count(wanted, "cpu")))?;
    some_of(ground, cores, Some(wanted), SpreadRule::Near, "the node has")
}
