//! Placements written in numactl's letters: `-C 0-3 -m 0`.

use super::cores::{CoreIndex, usable};
use super::memory::NO_WEIGHTS;
use super::policy::KernelFeatures;
use super::{MemoryPolicy, Placement, PlacementError, reason};
use crate::values::id_set::{CpuId, CpuSet, Id, IdSet, NodeSet};
use crate::values::suggest::suggestions;
use crate::values::topology::Topology;

/// numactl's letters and words, and whether a list follows.
const OPTIONS: [(Letter, &str, &str, bool); 7] = [
    (Letter::Cpus, "-C", "--physcpubind", true),
    (Letter::CpusOfNodes, "-N", "--cpunodebind", true),
    (Letter::Bind, "-m", "--membind", true),
    (Letter::Interleave, "-i", "--interleave", true),
    (Letter::WeightedInterleave, "-w", "--weighted-interleave", true),
    (Letter::Preferred, "-p", "--preferred", true),
    (Letter::Local, "-l", "--localalloc", false),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    Cpus,
    CpusOfNodes,
    Bind,
    Interleave,
    WeightedInterleave,
    Preferred,
    Local,
}

/// One letter with its list as written.
#[derive(Debug, PartialEq, Eq)]
struct Clause {
    letter: Letter,
    /// As the user wrote it: `-C` or `--physcpubind`.
    option: &'static str,
    list: NumactlList,
}

/// A list as numactl reads it, before it is known which machine it is for.
#[derive(Debug, PartialEq, Eq)]
struct NumactlList {
    /// `!`: all allowed ones except these.
    inverse: bool,
    /// `+`: counted among the allowed ones.
    relative: bool,
    /// None for `all`.
    numbers: Option<CpuSet>,
}

/// Reads numactl's letters. The cpus become seats in logical order; fewer threads than cpus sit on the first ones,
/// more of them share cpus.
pub fn parse_explicit(
    topology: &Topology,
    words: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    let clauses = clauses(words).map_err(PlacementError::Mistake)?;
    if threads == Some(0) {
        return Err(PlacementError::Mistake("0 threads do nothing; give at least 1".into()));
    }
    let ground = CoreIndex::new(topology);
    let mut cpus = Vec::new();
    let mut memory = MemoryPolicy::Kernel;
    for clause in &clauses {
        match clause.letter {
            Letter::Cpus | Letter::CpusOfNodes => cpus = cpus_of(&ground, clause).map_err(PlacementError::Mistake)?,
            _ => memory = memory_of(topology, clause).map_err(PlacementError::Mistake)?,
        }
    }
    if matches!(memory, MemoryPolicy::WeightedInterleave(_)) && !kernel.weighted_interleave {
        return Err(PlacementError::Unavailable(NO_WEIGHTS.into()));
    }
    let name = words.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(seat(&ground, name, cpus, memory, threads))
}

/// Whether this is numactl's notation; which cpus and nodes exist is another machine's business.
pub(super) fn check(words: &str) -> Result<(), String> {
    clauses(words).map(|_| ())
}

fn seat(
    ground: &CoreIndex,
    name: String,
    mut cpus: Vec<CpuId>,
    memory: MemoryPolicy,
    threads: Option<usize>,
) -> Placement {
    let threads = threads.unwrap_or(if cpus.is_empty() { ground.cores.len() } else { cpus.len() });
    let mut reason =
        if cpus.is_empty() { "no seats: the kernel chooses the cpus".into() } else { reason::seats(ground, &cpus) };
    if !cpus.is_empty() && threads != cpus.len() {
        let all = cpus.len();
        reason = if threads < all {
            format!("{threads} of {all} cpus; the cpus are {reason}")
        } else {
            format!("{threads} threads share {all} cpus; the cpus are {reason}")
        };
        cpus = cpus.iter().copied().cycle().take(threads.max(all)).collect();
    }
    if memory != MemoryPolicy::Kernel {
        reason = format!("{reason}; memory: {memory}");
    }
    Placement {
        name,
        reason,
        threads,
        seats: cpus,
        memory,
        second: CpuSet::default(),
        interrupts: Vec::new(),
        budget: None,
    }
}

fn cpus_of(ground: &CoreIndex, clause: &Clause) -> Result<Vec<CpuId>, String> {
    let topology = ground.topology;
    let cpus: CpuSet = if clause.letter == Letter::Cpus {
        resolve(clause, &topology.allowed_cpus, &topology.complete_cpus)?
    } else {
        let (usable, existing) = nodes(topology);
        let nodes: NodeSet = resolve(clause, &usable, &existing)?;
        let of = topology.nodes.iter().filter(|node| nodes.contains(node.os));
        let cpus = of.fold(CpuSet::new(), |cpus, node| cpus.union(&node.cpus)).intersection(&topology.allowed_cpus);
        if cpus.is_empty() {
            return Err(format!("{}: {} no cpus that this process may use", clause.option, has(&nodes)));
        }
        cpus
    };
    let mut cpus: Vec<CpuId> = cpus.iter().collect();
    ground.sort(&mut cpus);
    Ok(cpus)
}

fn has(nodes: &NodeSet) -> String {
    if nodes.len() == 1 { format!("memory node {nodes} has") } else { format!("memory nodes {nodes} have") }
}

fn memory_of(topology: &Topology, clause: &Clause) -> Result<MemoryPolicy, String> {
    if clause.letter == Letter::Local {
        return Ok(MemoryPolicy::Local);
    }
    let (usable, existing) = nodes(topology);
    let nodes: NodeSet = resolve(clause, &usable, &existing)?;
    match (clause.letter, nodes.first()) {
        (Letter::Preferred, Some(node)) if nodes.len() == 1 => Ok(MemoryPolicy::Preferred(node)),
        (Letter::Preferred, _) => Err(format!("{} takes one memory node, not {nodes}", clause.option)),
        (Letter::Interleave, _) => Ok(MemoryPolicy::Interleave(nodes)),
        (Letter::WeightedInterleave, _) => Ok(MemoryPolicy::WeightedInterleave(nodes)),
        _ => Ok(MemoryPolicy::Bind(nodes)),
    }
}

/// Nodes whose memory may be used, and all that exist.
fn nodes(topology: &Topology) -> (NodeSet, NodeSet) {
    let existing: NodeSet = topology.nodes.iter().map(|node| node.os).collect();
    (existing.iter().filter(|node| usable(topology, *node)).collect(), existing)
}

/// A list's members on this machine; each must exist and be allowed.
fn resolve<T: Id>(clause: &Clause, allowed: &IdSet<T>, existing: &IdSet<T>) -> Result<IdSet<T>, String> {
    let NumactlList { inverse, relative, numbers } = &clause.list;
    let Some(numbers) = numbers else { return Ok(allowed.clone()) };
    let mut named = IdSet::new();
    for number in numbers.iter().map(|id| id.0) {
        let id = if *relative { allowed.iter().nth(number as usize) } else { Some(T::from_number(number)) };
        let noun = T::NOUN;
        named.insert(id.ok_or_else(|| {
            format!(
                "{}: +{number} counts beyond the {} {noun}s that this process may use ({allowed})",
                clause.option,
                allowed.len()
            )
        })?);
    }
    let wrong = named.difference(existing);
    if !wrong.is_empty() {
        return Err(format!(
            "{}: {} here; this machine has {existing}",
            clause.option,
            plural(&wrong, "does not exist", "do not exist")
        ));
    }
    let barred = named.difference(allowed);
    if !*inverse && !barred.is_empty() {
        let what = plural(&barred, "is not usable", "are not usable");
        return Err(format!("{}: {what} by this process; it may use {allowed}", clause.option));
    }
    let members = if *inverse { allowed.difference(&named) } else { named };
    if members.is_empty() {
        return Err(format!("{}: the list leaves no {}; this process may use {allowed}", clause.option, T::NOUN));
    }
    Ok(members)
}

fn plural<T: Id>(ids: &IdSet<T>, one: &str, many: &str) -> String {
    if ids.len() == 1 { format!("{} {ids} {one}", T::NOUN) } else { format!("{}s {ids} {many}", T::NOUN) }
}

/// The letters with their lists, at most one for cpus and one for memory, as numactl has it.
fn clauses(words: &str) -> Result<Vec<Clause>, String> {
    let mut rest = words.split_whitespace();
    let mut clauses: Vec<Clause> = Vec::new();
    while let Some(word) = rest.next() {
        let (letter, option, attached) = option(word)?;
        let takes_list = letter != Letter::Local;
        let list = match (takes_list, attached) {
            (false, Some(extra)) => return Err(format!("{option} takes no list, and '{extra}' is one")),
            (false, None) => NumactlList { inverse: false, relative: false, numbers: None },
            (true, attached) => {
                let text = attached
                    .or_else(|| rest.next())
                    .ok_or_else(|| format!("{option} needs a list such as 0-3 or all"))?;
                list(option, text)?
            }
        };
        let is_cpus = |letter| matches!(letter, Letter::Cpus | Letter::CpusOfNodes);
        if let Some(earlier) = clauses.iter().find(|earlier| is_cpus(earlier.letter) == is_cpus(letter)) {
            let about = if is_cpus(letter) { "cpus" } else { "memory" };
            return Err(format!("{} and {option} both say where {about} should be; give one of them", earlier.option));
        }
        clauses.push(Clause { letter, option, list });
    }
    if clauses.is_empty() { Err("no letters; write it like '-C 0-3 -m 0'".into()) } else { Ok(clauses) }
}

/// `-C`, `-C0-3`, `--physcpubind`, `--physcpubind=0-3`: which option, and the list if it is in the same word.
fn option(word: &str) -> Result<(Letter, &'static str, Option<&str>), String> {
    let (name, attached) = match word.split_once('=') {
        Some((name, list)) if word.starts_with("--") => (name, Some(list)),
        _ if !word.starts_with("--") && word.is_char_boundary(2) && word.len() > 2 => (&word[..2], Some(&word[2..])),
        _ => (word, None),
    };
    for (letter, short, long, _) in OPTIONS {
        if name == short || name == long {
            return Ok((letter, if name == short { short } else { long }, attached));
        }
    }
    let known = suggestions(name, OPTIONS.iter().map(|(_, _, long, _)| *long));
    let written: Vec<String> = known
        .iter()
        .filter_map(|word| OPTIONS.iter().find(|(_, _, long, _)| long == word))
        .map(|(_, short, long, takes_list)| format!("{short}/{long}{}", if *takes_list { " LIST" } else { "" }))
        .collect();
    Err(format!("'{word}' is not one of numactl's letters for placements; there are {}", written.join(", ")))
}

/// `0-3,8`, `all`, `+0-3`, `!0-3`, `!+0-3`.
fn list(option: &str, text: &str) -> Result<NumactlList, String> {
    let (inverse, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    let (relative, rest) = rest.strip_prefix('+').map_or((false, rest), |rest| (true, rest));
    if rest == "all" {
        if inverse {
            return Err(format!("{option}: '{text}' leaves nothing"));
        }
        return Ok(NumactlList { inverse, relative, numbers: None });
    }
    if rest.contains(':') && rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(format!("{option}: '{text}': nodes by device are numactl's own; write the node's number"));
    }
    let numbers = CpuSet::parse_list(rest).map_err(|_| {
        format!("{option}: '{text}' is not a list; write it like 0-3,8 or all, +0-3 among the allowed ones, !0-3 for all others")
    })?;
    if numbers.is_empty() {
        return Err(format!("{option} needs a list such as 0-3 or all"));
    }
    Ok(NumactlList { inverse, relative, numbers: Some(numbers) })
}
