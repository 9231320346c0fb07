//! On two sockets and a node without cpus: what the machine is, placements proven by where pages lie, violations that
//! are caught, a race.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::boot::{Boot, Ran, boot};
use crate::trials::{assert_caught, assert_proven, nodes, of, pages, reasons};

/// Booted once, for all tests of this file and of `memory`.
static RAN: LazyLock<Result<Ran, String>> = LazyLock::new(|| {
    let job = concat!(include_str!("two-sockets.sh"), include_str!("memory.sh"));
    boot(&Boot { job, ..Boot::default() })
});

pub fn ran(test: &str) -> Option<&'static Ran> {
    RAN.as_ref().inspect_err(|why| println!("skipped: {test}: {why}")).ok()
}

/// What `scripts/guest` tells QEMU.
#[test]
fn the_map_is_what_the_machine_was_told() {
    let Some(ran) = ran("the_map_is_what_the_machine_was_told") else { return };
    let map = ran.json("map", &[0]);
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
        // The firmware and the kernel keep some for themselves.
        let bytes = shown["bytes"].as_u64().expect("a size");
        assert!((mib * 3 / 4) << 20 <= bytes && bytes <= mib << 20, "node {node}: {bytes} bytes of {mib} MiB");
    }
    let notes = map["notes"].to_string();
    assert!(notes.contains("memory node 2 has no cpus of its own"), "{notes}");
}

#[test]
fn the_twin_of_numactl_agrees_with_numactl() {
    let name = "the_twin_of_numactl_agrees_with_numactl";
    let Some(ran) = ran(name) else { return };
    if !ran.has("numactl") {
        return println!("skipped: {name}: numactl is not installed");
    }
    // What is free changes from one moment to the next.
    let lasting = |text: String| -> String {
        text.lines().filter(|line| !line.contains(" free: ")).map(|line| line.trim_end().to_owned() + "\n").collect()
    };
    assert_eq!(lasting(ran.text("numactl-twin")), lasting(ran.text("numactl")));
}

#[test]
fn placements_are_proven_by_where_pages_lie() {
    let Some(ran) = ran("placements_are_proven_by_where_pages_lie") else { return };
    let trials = ran.trials("placements");
    let check = |placement: &str, cpus: &str, policy: &str, promised: &[u32]| {
        let of_it = of(&trials, placement);
        assert_eq!(of_it.len(), 2, "{placement}: both were proven at once: {of_it:#?}");
        for trial in of_it {
            assert_proven(trial);
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
    of(&trials, "interleave").into_iter().for_each(assert_even);
    let skipped = &ran.json("placements", &[0])["skipped"];
    assert_eq!(skipped[0]["placement"], "weighted-interleave", "{skipped:#}");
    assert!(skipped[0]["why"].as_str().is_some_and(|why| why.contains("6.9")), "{skipped:#}");

    let trials = ran.trials("chase");
    for (placement, promised) in [("-C 0,4 -i 0-2", &[0, 1, 2][..]), ("-C 5 -m 0", &[0]), ("compact+node:2", &[2])] {
        let trial = of(&trials, placement)[0];
        assert_proven(trial);
        assert_eq!(nodes(trial), promised, "{trial:#}");
    }
    assert_even(of(&trials, "-C 0,4 -i 0-2")[0]);
}

/// Each node has what its thread scans first: half of the columns, and the first one the hubs' lists, so most of the graph.
#[test]
fn a_search_has_its_graph_on_the_nodes_of_its_threads() {
    let Some(ran) = ran("a_search_has_its_graph_on_the_nodes_of_its_threads") else { return };
    let trial = &ran.trials("searches")[0];
    assert_proven(trial);
    assert_eq!(nodes(trial), [0, 1], "{trial:#}");
    let pages = pages(trial);
    let all: u64 = pages.iter().map(|(_, pages)| pages).sum();
    assert!(pages[0].1 * 10 >= all * 6 && pages[1].1 * 10 >= all, "{pages:?}");
}

/// taskset is busybox's; numactl and hwloc-bind are there where this machine has them.
#[test]
fn the_lines_to_paste_do_what_they_say() {
    let Some(ran) = ran("the_lines_to_paste_do_what_they_say") else { return };
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
        other => panic!("nobody asked for {other}"),
    };
    let text = ran.text("lines");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(3, '|').collect()).collect();
    for line in &lines {
        assert_eq!(line[2], expected(line[0]), "{line:?}");
    }
    for (program, count) in [("taskset", 2), ("numactl", 11), ("hwloc-bind", 10)] {
        let pasted = lines.iter().filter(|line| line[1].starts_with(program)).count();
        if pasted == 0 {
            println!("skipped: the_lines_to_paste_do_what_they_say: {program} is not installed");
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
fn who_leaves_the_placement_is_caught() {
    let Some(ran) = ran("who_leaves_the_placement_is_caught") else { return };
    let honest = &ran.trials("honest")[0];
    assert_proven(honest);
    assert_eq!(nodes(honest), [0]);

    for name in ["strays", "rebinds"] {
        assert_eq!(ran.step(name).status, 4, "measured, but nothing is proven");
        assert_eq!(ran.trials(name).len(), 3, "repeated in its block");
    }
    for trial in ran.trials("strays") {
        assert_caught(&trial, "4-5, outside its seats 0");
        assert_caught(&trial, "it ran on cpus ");
    }
    for trial in ran.trials("rebinds") {
        assert_caught(&trial, "% of its pages were on nodes 1, asked for 0");
    }
    // The first attempt was moved. numa_maps is read the more seldom the longer
    // it takes, and on a busy host one emulated reading may take too long for another after the move.
    for (name, why) in [
        ("moved", "of its pages were on nodes 1, asked for 0"),
        ("moved-interleaved", "of its pages were on node 1, asked for in turn on 0-1"),
    ] {
        let trials = ran.trials(name);
        if trials[0]["verdict"] != "invalid" {
            println!("skipped: who_leaves_the_placement_is_caught: {name}: not looked at again after the move");
            continue;
        }
        assert_caught(&trials[0], why);
    }
}

#[test]
fn a_race_over_nodes_ends_with_an_answer() {
    let Some(ran) = ran("a_race_over_nodes_ends_with_an_answer") else { return };
    let answer = ran.json("race", &[0, 3]);
    assert_eq!(answer["threads_searched"], true);
    let standings = answer["standings"].as_array().expect("a list");
    let memories: Vec<&str> = standings.iter().filter_map(|standing| standing["memory"].as_str()).collect();
    for memory in ["kernel", "interleave 0-1", "interleave 0-2", "local", "bind 0", "bind 1", "bind 2"] {
        assert!(memories.contains(&memory), "{memory} is not among {memories:?}");
    }
    let trials = ran.trials("race");
    assert!(trials.len() > standings.len(), "{} trials of {} candidates", trials.len(), standings.len());
    for trial in &trials {
        assert_proven(trial);
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
