//! What a trial's JSON says of its placement, in a few questions.

use serde_json::Value;

/// The trials of a placement.
pub fn of<'a>(trials: &'a [Value], placement: &str) -> Vec<&'a Value> {
    trials.iter().filter(|trial| trial["placement"] == placement).collect()
}

/// Pages by node, lowest number first.
pub fn pages(trial: &Value) -> Vec<(u32, u64)> {
    let pages = trial["evidence"]["pages"].as_object().expect("pages by node");
    let mut pages: Vec<(u32, u64)> = pages
        .iter()
        .map(|(node, count)| (node.parse().expect("a node's number"), count.as_u64().expect("a number of pages")))
        .collect();
    pages.sort_unstable();
    pages
}

/// The nodes that have any of its pages.
pub fn nodes(trial: &Value) -> Vec<u32> {
    pages(trial).iter().map(|(node, _)| *node).collect()
}

/// Why it is not valid, in one text.
pub fn reasons(trial: &Value) -> String {
    let reasons = trial["reasons"].as_array().expect("a list of reasons");
    reasons.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
}

/// Checks that its placement is proven. Emulated cpus are slow, so that a kernel thread's few milliseconds may stand
/// out as other work: such a trial is suspect, and proven.
pub fn assert_proven(trial: &Value) {
    let disturbed =
        trial["verdict"] == "suspect" && reasons(trial).split("; ").all(|why| why.contains("other programs"));
    assert!(trial["verdict"] == "valid" || disturbed, "{trial:#}");
    assert!(trial["evidence"]["mask_at_start"].as_str().is_some(), "{trial:#}");
    let seats = trial["cpus"].as_str().expect("a list of cpus");
    assert!(seats.is_empty() || trial["evidence"]["mask_at_start"] == seats, "{trial:#}");
}

/// Checks that it was caught, for this reason.
pub fn assert_caught(trial: &Value, why: &str) {
    assert_eq!(trial["verdict"], "invalid", "{trial:#}");
    assert!(reasons(trial).contains(why), "'{why}' is not among: {}", reasons(trial));
}
