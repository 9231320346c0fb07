//! Judges the memory nodes of a trial's pages.

use std::collections::BTreeMap;

use super::JudgedCommand;
use crate::values::id_set::{NodeId, NodeSet};
use crate::values::placement::MemoryPolicy;

/// Maximum fraction of pages on other nodes: a few (stack guard, vdso, loader) are allocated before the policy is set.
const PAGES_ELSEWHERE_MAX: f64 = 0.02;
/// Maximum number of pages on other nodes while most pages are on the requested ones: in a program's data segment,
/// `numa_maps` does not distinguish the few pages that still belong to the page cache. In the NUMA guest, two of
/// thirteen did.
const PAGES_ELSEWHERE_FEW: u64 = 8;
/// Maximum excess over an even split that still counts as interleaved. Huge pages are assigned whole, and stack and
/// loader add pages, so the split is not exactly even.
const PAGES_IN_TURN_EXCESS_MAX: f64 = 0.25;
/// Four huge pages of the usual size (2 MiB of 4 KiB pages): less memory per node cannot be split evenly.
const PAGES_IN_TURN_PER_NODE_MIN: u64 = 4 * 512;
/// Minimum share of the peak memory that one reading must contain: the rest may have been anywhere.
const PAGES_SEEN_SHARE_MIN: f64 = 0.5;

/// Returns the reasons why the memory was not on the promised nodes.
pub(super) fn violations(command: &JudgedCommand<'_>) -> Vec<String> {
    [elsewhere(command), too_few(command), uneven_interleaving(command)].into_iter().flatten().collect()
}

fn elsewhere(command: &JudgedCommand<'_>) -> Option<String> {
    let (promised, evidence) = (command.memory.promised_nodes()?, command.evidence);
    if evidence.pages.values().all(|pages| *pages == 0) {
        let reason = evidence.unavailable.get("pages").map_or("no pages were observed", String::as_str);
        let text = format!("memory on nodes {promised} was requested and could not be verified: {reason}");
        return Some(command.reason(text));
    }
    let elsewhere = share_elsewhere(&evidence.pages, promised)?;
    Some(command.reason(format!("{elsewhere}, requested {promised}")))
}

/// A reading near the start of a trial, when it held little memory, proves nothing.
fn too_few(command: &JudgedCommand<'_>) -> Option<String> {
    let (promised, evidence) = (command.memory.promised_nodes()?, command.evidence);
    let seen: u64 = evidence.pages.values().chain(evidence.file_pages.values()).sum();
    let share = seen as f64 / evidence.pages_peak? as f64;
    (seen > 0 && share < PAGES_SEEN_SHARE_MIN).then(|| {
        let share = share * 100.0;
        let text =
            format!("memory on nodes {promised} was requested, but only {share:.0} % of its peak memory was observed");
        command.reason(text)
    })
}

/// Under a preferred or local policy, the kernel uses other nodes if the preferred one is full. It obeyed the policy,
/// but the memory is not on the nodes of the placement.
pub(super) fn spilled(command: &JudgedCommand<'_>) -> Option<String> {
    let (nodes, word) = match command.memory {
        MemoryPolicy::Preferred(node) => ([*node].into_iter().collect(), "preferred"),
        MemoryPolicy::Local => (command.evidence.local_nodes.clone()?, "local is"),
        _ => return None,
    };
    let elsewhere = share_elsewhere(&command.evidence.pages, &nodes)?;
    Some(command.reason(format!("{elsewhere}, {word} {nodes}")))
}

/// Returns `40 % of its pages were on nodes 1`; `None` if too few were.
fn share_elsewhere(pages: &BTreeMap<NodeId, u64>, requested: &NodeSet) -> Option<String> {
    let total: u64 = pages.values().sum();
    let strays = || pages.iter().filter(|(node, pages)| !requested.contains(**node) && **pages > 0);
    let elsewhere: u64 = strays().map(|(_, pages)| pages).sum();
    let share = elsewhere as f64 / total.max(1) as f64;
    if share <= PAGES_ELSEWHERE_MAX || (elsewhere <= PAGES_ELSEWHERE_FEW && share < 0.5) {
        return None;
    }
    let nodes: NodeSet = strays().map(|(node, _)| *node).collect();
    Some(format!("{:.0} % of its pages were on nodes {nodes}", share * 100.0))
}

/// The kernel silently uses another node if one is full, and later migrations are not reported either.
fn uneven_interleaving(command: &JudgedCommand<'_>) -> Option<String> {
    let MemoryPolicy::Interleave(nodes) = command.memory else { return None };
    let pages = &command.evidence.pages;
    let total: u64 = pages.values().sum();
    if total < PAGES_IN_TURN_PER_NODE_MIN * nodes.len() as u64 {
        return None;
    }
    let (node, most) = pages.iter().max_by_key(|(_, pages)| **pages)?;
    let share = *most as f64 / total as f64;
    let excess = share - 1.0 / nodes.len() as f64;
    (excess > PAGES_IN_TURN_EXCESS_MAX).then(|| {
        command.reason(format!(
            "{:.0} % of its pages were on node {node}, requested interleaving on {nodes}",
            share * 100.0
        ))
    })
}
