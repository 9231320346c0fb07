//! Placement, pages and verdict in the JSON of a trial.

use serde_json::Value;

pub fn of<'a>(trials: &'a [Value], placement: &str) -> Vec<&'a Value> {
    trials.iter().filter(|trial| trial["placement"] == placement).collect()
}

/// Number of pages by node, in ascending order of nodes.
pub fn pages(trial: &Value) -> Vec<(u32, u64)> {
    let pages = trial["evidence"]["pages"].as_object().expect("pages by node");
    let mut pages: Vec<(u32, u64)> = pages
        .iter()
        .map(|(node, count)| (node.parse().expect("a node's number"), count.as_u64().expect("a number of pages")))
        .collect();
    pages.sort_unstable();
    pages
}

/// Nodes with at least one page.
pub fn nodes(trial: &Value) -> Vec<u32> {
    pages(trial).iter().map(|(node, _)| *node).collect()
}

/// All reasons of the verdict, joined.
pub fn reasons(trial: &Value) -> String {
    let reasons = trial["reasons"].as_array().expect("a list of reasons");
    reasons.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
}

/// Checks that the placement of a trial is verified. Emulated CPUs are slow, so a few milliseconds of a kernel thread
/// may count as other programs: such a trial is suspect, but its placement is verified.
pub fn assert_verified(trial: &Value) {
    let disturbed =
        trial["verdict"] == "suspect" && reasons(trial).split("; ").all(|reason| reason.contains("other programs"));
    assert!(trial["verdict"] == "valid" || disturbed, "{trial:#}");
    assert!(trial["evidence"]["mask_at_start"].as_str().is_some(), "{trial:#}");
    let cpus = trial["cpus"].as_str().expect("a list of cpus");
    assert!(cpus.is_empty() || trial["evidence"]["mask_at_start"] == cpus, "{trial:#}");
}

/// Checks that a trial is invalid for this reason.
pub fn assert_invalid(trial: &Value, reason: &str) {
    assert_eq!(trial["verdict"], "invalid", "{trial:#}");
    assert!(reasons(trial).contains(reason), "'{reason}' is not among: {}", reasons(trial));
}
