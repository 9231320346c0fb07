//! Memory tiers, on the machine of `unplug`: pages that the kernel moves to the lower tier and to the higher one during a
//! trial are in its evidence. Must not depend on speed: in emulation both tiers are equally fast.

use crate::boot::JobOutput;
use crate::trials::{assert_invalid, assert_verified};
use crate::unplug::job_output;

const MIB: u64 = 1 << 20;

/// Returns the job, unless its kernel has put all nodes into one tier.
fn tiers(test: &str) -> Option<&'static JobOutput> {
    let job = job_output(test)?;
    let count = job.text("tiers-kernel").lines().filter(|name| name.starts_with("memory_tier")).count();
    if count < 2 {
        println!("skipped: {test}: {} has one memory tier here (Linux 6.11)", job.text("kernel").trim());
    }
    (count > 1).then_some(job)
}

/// Bytes that were promoted and demoted during the first trial of a step.
fn moved(job: &JobOutput, step: &str) -> (u64, u64) {
    let evidence = &job.trials(step)[0]["evidence"];
    let bytes = |field: &str| evidence[field].as_u64().unwrap_or_else(|| panic!("{field} is missing: {evidence:#}"));
    (bytes("promoted"), bytes("demoted"))
}

#[test]
fn map_lists_the_nodes_of_each_memory_tier() {
    let Some(job) = tiers("map_lists_the_nodes_of_each_memory_tier") else { return };
    let map = job.json("tiers-map", &[0]);
    let facts = map["settings"].as_array().expect("a list of settings");
    let fact = facts.iter().find(|fact| fact["key"] == "memory.tiers").expect("tiers are recorded");
    let tiers = fact["value"].as_str().expect("a text").split(", ");
    let nodes: Vec<&str> = tiers.filter_map(|tier| tier.split_once(": ")).map(|(_, nodes)| nodes).collect();
    assert_eq!(nodes, ["0-1", "2"], "{fact}");
}

#[test]
fn demoted_pages_are_evidence_of_a_trial() {
    let Some(job) = tiers("demoted_pages_are_evidence_of_a_trial") else { return };
    assert_verified(&job.trials("tiers-quiet")[0]);
    assert_eq!(moved(job, "tiers-quiet"), (0, 0));
    let (promoted, demoted) = moved(job, "tiers-demoted");
    assert!(demoted >= MIB, "demoted {demoted}");
    assert_eq!(promoted, 0);
    // Demotion disregards the memory policy.
    assert_invalid(&job.trials("tiers-demoted")[0], "of its pages were on nodes 2, requested 1");
}

#[test]
fn promoted_pages_are_evidence_of_a_trial() {
    let Some(job) = tiers("promoted_pages_are_evidence_of_a_trial") else { return };
    let (promoted, demoted) = moved(job, "tiers-promoted");
    assert!(demoted >= MIB && promoted >= MIB, "promoted {promoted}, demoted {demoted}");
}
