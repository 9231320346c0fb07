//! Reads placements in numactl's notation: `-C 0-3 -m 0`.

use super::cores::{CoreIndex, usable};
use super::cpu_location::CpuLocation;
use super::loose::no_cpus;
use super::memory::{KernelFeatures, NO_WEIGHTS};
use super::{PlacementError, reason};
use crate::values::id_set::{CpuId, CpuSet, Id, IdSet, NodeSet};
use crate::values::placement::{MemoryPolicy, Placement};
use crate::values::suggest::suggestions;
use crate::values::topology::Topology;

/// numactl's options: short form, long form, and whether a list follows.
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

/// One option with its list as written.
#[derive(Debug, PartialEq, Eq)]
struct Clause {
    letter: Letter,
    /// The form that the user typed: `-C` or `--physcpubind`.
    option: &'static str,
    list: NumactlList,
}

/// A list in numactl's notation, not yet resolved for a machine.
#[derive(Debug, PartialEq, Eq)]
struct NumactlList {
    /// `!`: all allowed IDs except these.
    inverse: bool,
    /// `+`: positions among the allowed IDs.
    relative: bool,
    members: Members,
}

#[derive(Debug, PartialEq, Eq)]
enum Members {
    All,
    Numbers(CpuSet),
    /// CPUs named by objects of the machine.
    Location(CpuLocation),
}

/// Reads numactl's options. Threads are pinned to the CPUs in logical order. With fewer threads than CPUs, the first
/// CPUs are used; with more, threads share CPUs.
pub fn parse_explicit(
    topology: &Topology,
    words: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    parse(topology, words, threads, kernel, false)
}

/// Like [`parse_explicit`]; with `loose`, every thread may use all of the CPUs.
pub(super) fn parse(
    topology: &Topology,
    words: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    loose: bool,
) -> Result<Placement, PlacementError> {
    let clauses = clauses(words).map_err(PlacementError::Invalid)?;
    if threads == Some(0) {
        return Err(PlacementError::Invalid("the number of threads must be at least 1".into()));
    }
    let index = CoreIndex::new(topology);
    let mut cpus = Vec::new();
    let mut memory = MemoryPolicy::Kernel;
    for clause in &clauses {
        match clause.letter {
            Letter::Cpus | Letter::CpusOfNodes => cpus = cpus_of(&index, clause).map_err(PlacementError::Invalid)?,
            _ => memory = memory_of(topology, clause).map_err(PlacementError::Invalid)?,
        }
    }
    if matches!(memory, MemoryPolicy::WeightedInterleave(_)) && !kernel.weighted_interleave {
        return Err(PlacementError::Unavailable(NO_WEIGHTS.into()));
    }
    if loose && cpus.is_empty() {
        return Err(PlacementError::Invalid(no_cpus()));
    }
    let name = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let shared = loose.then(|| reason::shared_cpus(&index, &cpus));
    let mut placement = bind(&index, name, cpus, memory, threads);
    if let Some(shared) = shared {
        placement.loose = true;
        placement.reason = format!("every thread may use all of {shared}");
        if placement.memory != MemoryPolicy::Kernel {
            placement.reason = format!("{}; memory: {}", placement.reason, placement.memory);
        }
    }
    Ok(placement)
}

/// Checks the notation. Whether the CPUs and nodes exist depends on the machine and is not checked.
pub(super) fn check(words: &str) -> Result<(), String> {
    clauses(words).map(|_| ())
}

fn bind(
    index: &CoreIndex,
    name: String,
    mut cpus: Vec<CpuId>,
    memory: MemoryPolicy,
    threads: Option<usize>,
) -> Placement {
    let threads = threads.unwrap_or(if cpus.is_empty() { index.cores.len() } else { cpus.len() });
    let mut reason =
        if cpus.is_empty() { "no binding: the kernel chooses the CPUs".into() } else { reason::bindings(index, &cpus) };
    if !cpus.is_empty() && threads != cpus.len() {
        let all = cpus.len();
        reason = if threads < all {
            format!("{threads} of {all} CPUs; the CPUs are {reason}")
        } else {
            format!("{threads} threads share {all} CPUs; the CPUs are {reason}")
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
        bindings: cpus,
        loose: false,
        memory,
        server_cpus: CpuSet::default(),
        interrupts: Vec::new(),
        budget: None,
        files: None,
        copies_text: false,
    }
}

fn cpus_of(index: &CoreIndex, clause: &Clause) -> Result<Vec<CpuId>, String> {
    let topology = index.topology;
    let cpus: CpuSet = if clause.letter == Letter::Cpus {
        resolve(&located(topology, clause)?, &topology.allowed_cpus, &topology.complete_cpus)?
    } else {
        let (usable, existing) = nodes(topology);
        let nodes: NodeSet = resolve(clause, &usable, &existing)?;
        let members = topology.nodes.iter().filter(|node| nodes.contains(node.os));
        let cpus = members.fold(CpuSet::new(), |cpus, node| cpus.union(&node.cpus));
        let cpus = cpus.intersection(&topology.allowed_cpus);
        if cpus.is_empty() {
            return Err(format!("{}: {} no CPUs that this process may use", clause.option, has(&nodes)));
        }
        cpus
    };
    let mut cpus: Vec<CpuId> = cpus.iter().collect();
    index.sort(&mut cpus);
    Ok(cpus)
}

/// Returns the clause with the numbers of the CPUs that its list locates.
fn located(topology: &Topology, clause: &Clause) -> Result<Clause, String> {
    let members = match &clause.list.members {
        Members::Location(location) => {
            let cpus = location.resolve(topology).map_err(|error| format!("{}: {error}", clause.option))?;
            Members::Numbers(cpus)
        }
        Members::Numbers(cpus) => Members::Numbers(cpus.clone()),
        Members::All => Members::All,
    };
    Ok(Clause { list: NumactlList { members, ..clause.list }, ..*clause })
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

/// Returns the nodes whose memory this process may use, and all nodes.
fn nodes(topology: &Topology) -> (NodeSet, NodeSet) {
    let existing: NodeSet = topology.nodes.iter().map(|node| node.os).collect();
    (existing.iter().filter(|node| usable(topology, *node)).collect(), existing)
}

/// Returns the members of a list on this machine. Each must exist and be allowed.
fn resolve<T: Id>(clause: &Clause, allowed: &IdSet<T>, existing: &IdSet<T>) -> Result<IdSet<T>, String> {
    let NumactlList { inverse, relative, members } = &clause.list;
    let Members::Numbers(numbers) = members else { return Ok(allowed.clone()) };
    let mut named = IdSet::new();
    for number in numbers.iter().map(|id| id.0) {
        let id = if *relative { allowed.iter().nth(number as usize) } else { Some(T::from_number(number)) };
        let noun = T::NOUN;
        named.insert(id.ok_or_else(|| {
            format!(
                "{}: +{number} exceeds the {} {noun}s that this process may use ({allowed})",
                clause.option,
                allowed.len()
            )
        })?);
    }
    let missing = named.difference(existing);
    if !missing.is_empty() {
        return Err(format!(
            "{}: {}; this machine has {existing}",
            clause.option,
            plural(&missing, "does not exist", "do not exist")
        ));
    }
    let forbidden = named.difference(allowed);
    if !*inverse && !forbidden.is_empty() {
        let problem = plural(&forbidden, "is not usable", "are not usable");
        return Err(format!("{}: {problem} by this process; it may use {allowed}", clause.option));
    }
    let members = if *inverse { allowed.difference(&named) } else { named };
    if members.is_empty() {
        return Err(format!("{}: the list contains no {}; this process may use {allowed}", clause.option, T::NOUN));
    }
    Ok(members)
}

fn plural<T: Id>(ids: &IdSet<T>, one: &str, many: &str) -> String {
    if ids.len() == 1 { format!("{} {ids} {one}", T::NOUN) } else { format!("{}s {ids} {many}", T::NOUN) }
}

/// Returns the options with their lists: at most one for CPUs and one for memory, as numactl requires.
fn clauses(words: &str) -> Result<Vec<Clause>, String> {
    let mut rest = words.split_whitespace();
    let mut clauses: Vec<Clause> = Vec::new();
    while let Some(word) = rest.next() {
        let (letter, option, attached) = option(word)?;
        let takes_list = letter != Letter::Local;
        let list = match (takes_list, attached) {
            (false, Some(extra)) => return Err(format!("{option} does not take a list, but '{extra}' follows")),
            (false, None) => NumactlList { inverse: false, relative: false, members: Members::All },
            (true, attached) => {
                let text = attached
                    .or_else(|| rest.next())
                    .ok_or_else(|| format!("{option} requires a list such as 0-3 or all"))?;
                list(letter, option, text)?
            }
        };
        let is_cpus = |letter| matches!(letter, Letter::Cpus | Letter::CpusOfNodes);
        if let Some(earlier) = clauses.iter().find(|earlier| is_cpus(earlier.letter) == is_cpus(letter)) {
            let subject = if is_cpus(letter) { "CPUs" } else { "memory" };
            return Err(format!("{} and {option} both choose {subject}; use one of them", earlier.option));
        }
        clauses.push(Clause { letter, option, list });
    }
    if clauses.is_empty() { Err("no options; an example is '-C 0-3 -m 0'".into()) } else { Ok(clauses) }
}

/// Splits `-C`, `-C0-3`, `--physcpubind` or `--physcpubind=0-3` into the option and the list attached to it.
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
    Err(format!("'{word}' is not one of numactl's options for placements; valid options: {}", written.join(", ")))
}

/// Reads `0-3,8`, `all`, `+0-3`, `!0-3`, `!+0-3` or a mask; for CPUs, also a location.
fn list(letter: Letter, option: &str, text: &str) -> Result<NumactlList, String> {
    let (inverse, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    let (relative, rest) = rest.strip_prefix('+').map_or((false, rest), |rest| (true, rest));
    if rest == "all" {
        if inverse {
            return Err(format!("{option}: '{text}' contains nothing"));
        }
        return Ok(NumactlList { inverse, relative, members: Members::All });
    }
    let is_named = rest.starts_with(|c: char| c.is_ascii_alphabetic());
    if letter != Letter::Cpus && is_named && rest.contains(':') {
        return Err(format!("{option}: '{text}': nodes of devices are not supported; write the number of the node"));
    }
    let location = CpuLocation::parse(rest);
    let members = match location {
        Ok(CpuLocation::Numbers(numbers)) if numbers.is_empty() => {
            return Err(format!("{option} requires a list such as 0-3 or all"));
        }
        Ok(CpuLocation::Numbers(numbers)) => Members::Numbers(numbers),
        Ok(location) if letter == Letter::Cpus && !relative => Members::Location(location),
        Err(error) if letter == Letter::Cpus && is_named && rest.contains(':') => {
            return Err(format!("{option}: {error}"));
        }
        _ => {
            return Err(format!(
                "{option}: '{text}' is not a list; valid lists: 0-3,8; all; +0-3 (positions among the allowed); !0-3 (all others)"
            ));
        }
    };
    Ok(NumactlList { inverse, relative, members })
}
