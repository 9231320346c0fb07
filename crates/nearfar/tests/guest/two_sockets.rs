//! A machine with two sockets and a memory node without CPUs: its topology, placements verified by page locations,
//! detected violations, and a race.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::boot::{Boot, JobOutput, boot};
use crate::trials::{assert_invalid, assert_verified, nodes, of, pages, reasons};

/// One boot for all tests of this file, of `crypto` and of `memory`, which exhausts memory and comes last.
static OUTPUT: LazyLock<Result<JobOutput, String>> = LazyLock::new(|| {
    let job = concat!(include_str!("crypto.sh"), include_str!("two-sockets.sh"), include_str!("memory.sh"));
    boot(&Boot { job, ..Boot::default() })
});

pub fn job_output(test: &str) -> Option<&'static JobOutput> {
    OUTPUT.as_ref().inspect_err(|reason| println!("skipped: {test}: {reason}")).ok()
}

/// The values are those that `scripts/guest` passes to QEMU.
#[test]
fn map_matches_the_emulated_topology() {
    let Some(job) = job_output("map_matches_the_emulated_topology") else { return };
    let map = job.json("map", &[0]);
    let counts = &map["counts"];
    for (what, expected) in [
        ("packages", 2),
        ("cores", 4),
        ("pus", 8),
        ("l3", 2),
        ("numa", 3),
        ("numa_without_cpus", 1),
        ("allowed_pus", 8),
        ("complete_pus", 8),
    ] {
        assert_eq!(counts[what], expected, "{what}: {counts:#}");
    }
    assert_eq!(map["package_cpus"], json!(["0-3", "4-7"]));
    assert_eq!(map["core_cpus"], json!(["0-1", "2-3", "4-5", "6-7"]));
    assert_eq!(map["distances"][0]["values"], json!([10, 21, 31, 21, 10, 24, 31, 24, 10]));
    for (node, (cpus, mib)) in [("0-3", 768), ("4-7", 768), ("", 512)].into_iter().enumerate() {
        let shown = &map["numa"][node];
        assert_eq!((&shown["os"], &shown["cpus"]), (&json!(node), &json!(cpus)));
        // The firmware and the kernel reserve some memory.
        let bytes = shown["bytes"].as_u64().expect("a size");
        assert!((mib * 3 / 4) << 20 <= bytes && bytes <= mib << 20, "node {node}: {bytes} bytes of {mib} MiB");
    }
    let notes = map["notes"].to_string();
    assert!(notes.contains("memory node 2 has no cpus in /sys"), "{notes}");
}

#[test]
fn map_in_numactl_format_equals_numactl() {
    let name = "map_in_numactl_format_equals_numactl";
    let Some(job) = job_output(name) else { return };
    if !job.has("numactl") {
        return println!("skipped: {name}: numactl is not installed");
    }
    // Free memory changes between the two commands.
    let lasting = |text: String| -> String {
        text.lines().filter(|line| !line.contains(" free: ")).map(|line| line.trim_end().to_owned() + "\n").collect()
    };
    assert_eq!(lasting(job.text("numactl-twin")), lasting(job.text("numactl")));
}

#[test]
fn placements_are_verified_by_page_locations() {
    let Some(job) = job_output("placements_are_verified_by_page_locations") else { return };
    let trials = job.trials("placements");
    let check = |placement: &str, cpus: &str, policy: &str, promised: &[u32]| {
        let of_it = of(trials, placement);
        assert_eq!(of_it.len(), 2, "{placement}: no trial was repeated: {of_it:#?}");
        for trial in of_it {
            assert_verified(trial);
            assert_eq!((&trial["cpus"], &trial["evidence"]["memory_policy"]), (&json!(cpus), &json!(policy)));
            assert_eq!(nodes(trial), promised, "{trial:#}");
            // Three arrays of 1 MiB in pages of 4 KiB.
            assert!(pages(trial).iter().map(|(_, pages)| pages).sum::<u64>() >= 768, "{trial:#}");
        }
    };
    check("memory-local", "0,2", "bind:0", &[0]);
    check("memory-remote", "0,2", "bind:1", &[1]);
    check("interleave", "0,2", "interleave:0-1", &[0, 1]);
    check("node:1", "4,6", "bind:1", &[1]);
    check("-C 0 -m 2", "0", "bind:2", &[2]);
    of(trials, "interleave").into_iter().for_each(assert_even);
    let skipped = &job.json("placements", &[0])["skipped"];
    assert_eq!(skipped[0]["placement"], "weighted-interleave", "{skipped:#}");
    assert!(skipped[0]["why"].as_str().is_some_and(|reason| reason.contains("6.9")), "{skipped:#}");

    let trials = job.trials("chase");
    for (placement, promised) in [("-C 0,4 -i 0-2", &[0, 1, 2][..]), ("-C 5 -m 0", &[0]), ("compact+node:2", &[2])] {
        let trial = of(trials, placement)[0];
        assert_verified(trial);
        assert_eq!(nodes(trial), promised, "{trial:#}");
    }
    assert_even(of(trials, "-C 0,4 -i 0-2")[0]);
}

/// Each node has the columns that its thread scans first; node 0 also has the lists of the hubs, so most of the graph.
#[test]
fn graph_is_on_the_nodes_of_the_searching_threads() {
    let Some(job) = job_output("graph_is_on_the_nodes_of_the_searching_threads") else { return };
    let trial = &job.trials("searches")[0];
    assert_verified(trial);
    assert_eq!(nodes(trial), [0, 1], "{trial:#}");
    let pages = pages(trial);
    let all: u64 = pages.iter().map(|(_, pages)| pages).sum();
    assert!(pages[0].1 * 10 >= all * 6 && pages[1].1 * 10 >= all, "{pages:?}");
}

/// taskset is part of busybox; numactl and hwloc-bind come from the host, if installed.
#[test]
fn printed_command_lines_apply_the_placement() {
    let Some(job) = job_output("printed_command_lines_apply_the_placement") else { return };
    let expected = |placement: &str| match placement {
        "compact" => "0,2,4,6 default",
        "one-core" => "0 default",
        "memory-local" => "0,2 bind:0",
        "memory-remote" => "0,2 bind:1",
        "interleave" => "0,2 interleave:0-1",
        "node:1" => "4,6 bind:1",
        "-C 0 -m 2" => "0 bind:2",
        "compact+node:2" => "0,2,4,6 bind:2",
        "-C 3,5 -p 1" => "3,5 prefer:1",
        "-C 2 -l" => "2 local",
        "kernel+interleave" => "0-7 interleave:0-1",
        other => panic!("unexpected placement {other}"),
    };
    let text = job.text("lines");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(3, '|').collect()).collect();
    for line in &lines {
        assert_eq!(line[2], expected(line[0]), "{line:?}");
    }
    for (program, count) in [("taskset", 2), ("numactl", 11), ("hwloc-bind", 10)] {
        let pasted = lines.iter().filter(|line| line[1].starts_with(program)).count();
        if pasted == 0 {
            println!("skipped: printed_command_lines_apply_the_placement: {program} is not installed");
        } else {
            assert_eq!(pasted, count, "{program}: {text}");
        }
    }
}

/// Interleaved over its nodes within a tenth.
fn assert_even(trial: &Value) {
    let counts: Vec<u64> = pages(trial).iter().map(|(_, pages)| *pages).collect();
    let (least, most) = (counts.iter().min().expect("pages"), counts.iter().max().expect("pages"));
    assert!(least * 10 >= most * 9, "{counts:?}");
}

#[test]
fn violations_of_the_placement_make_trials_invalid() {
    let test = "violations_of_the_placement_make_trials_invalid";
    let Some(job) = job_output(test) else { return };
    let honest = &job.trials("honest")[0];
    assert_verified(honest);
    assert_eq!(nodes(honest), [0]);

    for name in ["strays", "rebinds", "shares"] {
        assert_eq!(job.step(name).status, 4, "measured, but no trial is valid");
        assert_eq!(job.trials(name).len(), 3, "repeated in its block");
    }
    for trial in job.trials("strays") {
        // An early observation may still contain CPU 0.
        assert_invalid(trial, "4-5, but was pinned to 0");
        assert_invalid(trial, "it ran on CPUs ");
    }
    for trial in [job.trials("rebinds"), job.trials("shares")].concat() {
        assert_invalid(&trial, "% of its pages were on nodes 1, requested 0");
    }
    // Only the first attempt was moved. The interval between reads of numa_maps grows with their duration, so on a busy
    // host there may be none after the move.
    for (name, reason) in [
        ("moved", "of its pages were on nodes 1, requested 0"),
        ("moved-interleaved", "of its pages were on node 1, requested interleaving on 0-1"),
    ] {
        let trials = job.trials(name);
        if trials[0]["verdict"] != "invalid" {
            println!("skipped: {test}: {name}: numa_maps was not read after the move");
            continue;
        }
        assert_invalid(&trials[0], reason);
    }
}

#[test]
fn race_over_memory_nodes_ends_with_a_ranking() {
    let Some(job) = job_output("race_over_memory_nodes_ends_with_a_ranking") else { return };
    let answer = job.json("race", &[0, 3]);
    assert_eq!(answer["threads_searched"], true);
    let standings = answer["ranking"].as_array().expect("a list");
    let memories: Vec<&str> = standings.iter().filter_map(|standing| standing["memory"].as_str()).collect();
    for memory in ["kernel", "interleave 0-1", "interleave 0-2", "local", "bind 0", "bind 1", "bind 2"] {
        assert!(memories.contains(&memory), "{memory} is not among {memories:?}");
    }
    let trials = job.trials("race");
    assert!(trials.len() > standings.len(), "{} trials of {} candidates", trials.len(), standings.len());
    for trial in trials {
        assert_verified(trial);
        if let Some(node) = trial["memory"].as_str().and_then(|memory| memory.strip_prefix("bind ")) {
            let node: u32 = node.parse().expect("one node");
            let there: u64 = pages(trial).iter().filter(|(at, _)| *at == node).map(|(_, pages)| pages).sum();
            assert!(there > 0, "{}: {trial:#}", reasons(trial));
        }
    }
    for standing in standings {
        assert!(!["failed", "not-proven"].contains(&standing["word"].as_str().unwrap_or("")), "{standing:#}");
    }
}
