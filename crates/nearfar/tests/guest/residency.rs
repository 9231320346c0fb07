//! `nearfar where`: memory of every kind is found on the node where it was placed, to the page, as in `numa_maps`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::boot::{Boot, JobOutput, boot, disk};
use crate::trials::{assert_invalid, assert_verified, reasons};

const PAGE: u64 = 4096;
const CASES: usize = 10;

/// One boot for all tests of this file, with a disk.
static OUTPUT: LazyLock<Result<JobOutput, String>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let drive = disk(directory.path())?;
    boot(&Boot { flags: &["--qemu", &drive], job: include_str!("residency.sh"), is_long: true, ..Boot::default() })
});

fn job_output(test: &str) -> Option<&'static JobOutput> {
    OUTPUT.as_ref().inspect_err(|reason| println!("skipped: {test}: {reason}")).ok()
}

/// Pages by node.
type Pages = BTreeMap<u32, u64>;

/// Returns the pages of the parts of a kind, or of those whose name is `name` if it is not empty.
fn pages(found: &Value, kind: &str, name: &str) -> Pages {
    let parts = found["parts"].as_array().expect("a list of parts");
    let mut pages = Pages::new();
    for part in parts.iter().filter(|part| part["kind"] == kind && (name.is_empty() || part["name"] == name)) {
        assert_eq!((&part["unattributed"], &part["margin"]), (&json!(0), &json!(0)), "{part}");
        for (node, count) in of_nodes(part) {
            *pages.entry(node).or_insert(0) += count;
        }
    }
    pages
}

fn of_nodes(memory: &Value) -> Pages {
    let by_node = memory["by_node"].as_object().expect("an object");
    let entry = |(node, bytes): (&String, &Value)| {
        (node.parse().expect("a node"), bytes.as_u64().expect("a number of bytes") / PAGE)
    };
    by_node.iter().map(entry).collect()
}

fn node(job: &JobOutput, case: usize, of: &str) -> u32 {
    job.json(&format!("nodes-{case}"), &[0])[of].as_u64().expect("a node") as u32
}

#[test]
fn planted_memory_is_found_on_its_node_to_the_page() {
    let Some(job) = job_output("planted_memory_is_found_on_its_node_to_the_page") else { return };
    assert_eq!(job.step("disk").status, 0, "{}", job.text("disk.stderr"));
    for case in 0..CASES {
        let found = job.json(&format!("where-{case}"), &[0]);
        let on = |of: &str| node(job, case, of);
        let check = |kind: &str, name: &str, expected: Pages| {
            assert_eq!(pages(&found, kind, name), expected, "case {case}: {kind} {name}: {found:#}");
        };
        check("mapped-file", "/data/file", [(on("file"), 200 - 10)].into());
        check("shared-memory", "/shared/ring", [(on("shared"), 50)].into());
        check("huge-pages", "anonymous", [(on("file"), 1024)].into());
        let heap = pages(&found, "heap", "");
        assert_eq!(heap.keys().collect::<Vec<_>>(), [&on("heap")], "case {case}: {found:#}");
        // The C library uses a few pages.
        assert!((64..80).contains(&heap[&on("heap")]), "case {case}: {heap:?}");
        let anonymous = pages(&found, "anonymous", "");
        assert_eq!(anonymous.get(&on("anonymous")), Some(&100), "case {case}: {found:#}");
        // The pages that the program has written of its files.
        assert!((10..40).contains(&anonymous[&on("heap")]) && anonymous.len() == 2, "case {case}: {anonymous:?}");
        let program = pages(&found, "program", "/data/text");
        assert_eq!(program.keys().collect::<Vec<_>>(), [&on("text")], "case {case}: {found:#}");
        assert_eq!(found["unseen"], json!([]), "case {case}");
    }
}

/// Sums of `numa_maps` by node: of the heap, the stack, and all memory.
#[test]
fn memory_by_node_equals_numa_maps() {
    let Some(job) = job_output("memory_by_node_equals_numa_maps") else { return };
    for case in 0..CASES {
        let found = job.json(&format!("where-{case}"), &[0]);
        let numa_maps = job.text(&format!("numa-maps-{case}"));
        let sums = |is_counted: &dyn Fn(&str) -> bool| {
            let mut pages = Pages::new();
            for word in numa_maps.lines().filter(|line| is_counted(line)).flat_map(str::split_whitespace) {
                let Some((node, count)) = word.strip_prefix('N').and_then(|word| word.split_once('=')) else {
                    continue;
                };
                *pages.entry(node.parse().expect("a node")).or_insert(0) += count.parse::<u64>().expect("a count");
            }
            pages
        };
        assert_eq!(of_nodes(&found["total"]), sums(&|_| true), "case {case}: {found:#}\n{numa_maps}");
        assert_eq!(of_nodes(&found["processes"][0]), of_nodes(&found["total"]));
        for kind in ["heap", "stack"] {
            let is_of_kind = |line: &str| line.split_whitespace().nth(2) == Some(kind);
            assert_eq!(pages(&found, kind, ""), sums(&is_of_kind), "case {case}: {kind}\n{numa_maps}");
        }
    }
}

#[test]
fn cached_files_are_found_on_their_nodes() {
    let Some(job) = job_output("cached_files_are_found_on_their_nodes") else { return };
    for case in 0..CASES {
        let found = job.json(&format!("files-{case}"), &[0]);
        for (index, (of, pages)) in [("file", Some(200)), ("text", None), ("shared", Some(50))].into_iter().enumerate()
        {
            let file = &found["files"][index];
            let by_node = of_nodes(file);
            let size = file["size"].as_u64().expect("a size").div_ceil(PAGE);
            assert_eq!(by_node, [(node(job, case, of), pages.unwrap_or(size))].into(), "case {case}: {file:#}");
            assert_eq!(file["cached_percent"], json!(100.0), "case {case}: {file:#}");
        }
    }
    let part = &job.json("files-part", &[0])["files"][0];
    let cached = of_nodes(part)[&1];
    // Read-ahead brings in more than the program reads.
    assert!((64..300).contains(&cached), "{part:#}");
    assert_eq!(part["ranges"], json!([[0, cached * PAGE]]), "{part:#}");
}

#[test]
fn remote_share_is_that_of_the_threads_node() {
    let Some(job) = job_output("remote_share_is_that_of_the_threads_node") else { return };
    for case in 0..CASES {
        let found = job.json(&format!("where-{case}"), &[0]);
        let group = &found["threads"][0];
        let on = group["node"].as_u64().expect("it runs on a CPU of a node with memory") as u32;
        let total = of_nodes(&found["total"]);
        let all: u64 = total.values().sum();
        let remote = 100.0 * (all - total.get(&on).copied().unwrap_or(0)) as f64 / all as f64;
        let cpu: u64 = group["cpus"].as_str().expect("a list").parse().expect("one CPU");
        assert_eq!((on, group["threads"].as_u64()), (u32::from(cpu >= 4), Some(1)), "{group:#}");
        let found = found["remote_percent"].as_f64().expect("a share");
        assert!((found - remote).abs() < 1e-9, "case {case}: {found} is not {remote}");
    }
}

#[test]
fn unsuitable_subjects_return_errors() {
    let Some(job) = job_output("unsuitable_subjects_return_errors") else { return };
    assert_eq!(job.step("files-dir").status, 2);
    assert!(
        job.text("files-dir.stderr").contains("/data is a directory, not a file"),
        "{}",
        job.text("files-dir.stderr")
    );
    let ended = job.text("ended.stderr");
    assert!(job.step("ended").status == 2 && ended.ends_with("does not exist\n"), "{ended}");
}

/// The first trial that reads a file decides where it is for all later ones.
#[test]
fn trials_with_files_on_other_nodes_are_not_valid() {
    let Some(job) = job_output("trials_with_files_on_other_nodes_are_not_valid") else { return };
    let trial = |name: &str| &job.trials(name)[0];
    ["model-0", "table-0", "table-unbound"].into_iter().for_each(|name| assert_verified(trial(name)));
    let files = &trial("model-0")["evidence"]["files"];
    assert_eq!((&files[0]["path"], &files[0]["kind"]), (&json!("/data/model"), &json!("data")));
    assert_eq!(files[0]["pages"], json!({"0": 48 * 256}), "{files:#}");
    assert_invalid(
        trial("model-1"),
        "were pages of files in the page cache on nodes 0, requested 1 (most of them: /data/model)",
    );
    let suspect = trial("table-1");
    assert_eq!(suspect["verdict"], "suspect", "{suspect:#}");
    let reason = "of the pages that it mapped were pages of files in the page cache on nodes 0, requested 1";
    assert!(reasons(suspect).contains(reason), "{}", reasons(suspect));
    assert_eq!(trial("table-unbound")["evidence"]["files"][0]["pages"], json!({"0": 8 * 256}));
}

#[test]
fn cached_pages_follow_the_placement_of_a_trial() {
    let Some(job) = job_output("cached_pages_follow_the_placement_of_a_trial") else { return };
    let last = |name: &str| job.trials(name).last().expect("a trial");
    let pages = |name: &str| last(name)["evidence"]["files"][0]["pages"].clone();
    let all = 48 * 256;
    for (name, expected) in [
        ("placed-1", json!({"1": all})),
        ("placed-0", json!({"0": all})),
        ("placed-spread", json!({"0": all / 2, "1": all / 2})),
        ("cold-1", json!({"1": all})),
    ] {
        assert_verified(last(name));
        assert_eq!(pages(name), expected, "{name}: {:#}", last(name));
        let start = &last(name)["evidence"]["page_cache"];
        assert!(start["equalised"].as_array().expect("a list").contains(&json!("/data/model")), "{name}: {start:#}");
    }
    let read = &last("read-fd")["evidence"]["page_cache"]["equalised"];
    assert!(read.as_array().expect("a list").contains(&json!("/data/model")), "files that are only open: {read:#}");
}

/// Pages of other processes stay where they are, and the reason of the trial names them.
#[test]
fn pages_of_running_processes_are_not_moved() {
    let Some(job) = job_output("pages_of_running_processes_are_not_moved") else { return };
    let kept = job.trials("kept-1").last().expect("a trial");
    let why = "other processes map them";
    let start = &kept["evidence"]["page_cache"]["not_equalised"];
    assert!(start["/data/table"].as_str().is_some_and(|reason| reason.contains(why)), "{start:#}");
    assert!(kept["verdict"] == "suspect" && reasons(kept).contains(why), "{kept:#}");
    let maps = job.text("read-here");
    let table = maps.lines().find(|line| line.contains("/data/table")).expect("it is mapped");
    assert!(table.contains(&format!("N0={}", 8 * 256)), "{table}");
}

#[test]
fn files_can_be_placed_apart_from_memory() {
    let Some(job) = job_output("files_can_be_placed_apart_from_memory") else { return };
    let last = |name: &str| job.trials(name).last().expect("a trial");
    let all = 48 * 256;
    for (name, expected) in [
        ("files-node", json!({"2": all})),
        ("files-spread", json!({"0": all / 2, "1": all / 2})),
        ("files-local", json!({"1": all})),
    ] {
        assert_verified(last(name));
        assert_eq!(last(name)["evidence"]["files"][0]["pages"], expected, "{name}: {:#}", last(name));
    }
    assert_invalid(
        &job.trials("files-first")[0],
        "pages of /data/model were not placed: no earlier trial of the run used it",
    );
}

#[test]
fn cached_pages_of_files_are_moved_and_dropped() {
    let Some(job) = job_output("cached_pages_of_files_are_moved_and_dropped") else { return };
    let all = 48 * 256;
    let pages_of = |found: &Value, index: usize| of_nodes(&found["files"][index]);
    assert_eq!(pages_of(&job.json("files-moved", &[0]), 0), [(1, all)].into());
    assert_eq!(pages_of(&job.json("files-blocks", &[0]), 0), [(0, all / 2), (2, all / 2)].into());
    let in_use = job.json("files-in-use", &[1]);
    assert_eq!((pages_of(&in_use, 0).values().sum::<u64>(), pages_of(&in_use, 1)), (8 * 256, Pages::new()));
    let why = job.text("files-in-use.stderr");
    assert!(why.contains("/data/table: ") && why.contains("other processes map them"), "{why}");
    assert_eq!(job.step("files-nowhere").status, 2);
    assert!(job.text("files-nowhere.stderr").contains("memory node 3 does not exist; this machine has 0-2"));
}

/// A search moves the file with each candidate; the printed lines do it, too.
#[test]
fn audit_finds_remote_memory() {
    let Some(job) = job_output("audit_finds_remote_memory") else { return };
    let audit = job.json("audit", &[0]);
    let findings = audit["findings"].as_array().expect("a list");
    let remote = findings.iter().find(|finding| finding["finding"] == "remote-memory");
    let remote = remote.unwrap_or_else(|| panic!("{audit:#}"));
    assert!(remote["percent"].as_f64().expect("a number") > 90.0, "{audit:#}");
    let node = remote["try_placement"].as_str().expect("a placement");
    assert!(["node:0", "node:1"].contains(&node), "the node of its thread: {audit:#}");
}

/// Returns the pages of the service by node, without cached files, and the CPUs of its thread.
fn service_state(job: &JobOutput, state: &str) -> (Pages, String) {
    let found = job.json(&format!("{state}-where"), &[0]);
    let mut all = Pages::new();
    for kind in ["heap", "anonymous", "huge-pages", "stack"] {
        pages(&found, kind, "").into_iter().for_each(|(node, count)| *all.entry(node).or_insert(0) += count);
    }
    let status = job.text(&format!("{state}-status"));
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list of CPUs");
    (all, cpus.trim().into())
}

#[test]
fn applied_placement_moves_threads_and_memory_and_is_undone() {
    let Some(job) = job_output("applied_placement_moves_threads_and_memory_and_is_undone") else { return };
    let found = service_state(job, "found");
    let total: u64 = found.0.values().sum();
    assert!(total >= (24 << 20) / PAGE && found.1 == "0-7", "{found:?}");
    let change = job.json("applied", &[0]);
    assert_eq!((&change["cpus"], &change["state"]), (&json!("4-7"), &json!("in-effect")), "{change:#}");
    assert_eq!(change["moved"]["planned"], change["moved"]["moved"], "{change:#}");
    assert_eq!(service_state(job, "applied"), ([(1, total)].into(), "4-7".into()));
    assert_eq!(job.json("watched", &[0])["applied"][0]["state"], "in-effect");
    let lost = &job.json("lost", &[1])["applied"][0];
    assert_eq!((&lost["state"], &lost["threads_elsewhere"]), (&json!("memory-lost"), &json!(0)), "{lost:#}");
    assert_eq!(job.json("undone", &[0])["undone"][0]["is_settled"], true);
    assert_eq!(service_state(job, "undone"), found);
}

/// Before Linux 6.6, the kernel reports such pages as missing and does not move them.
#[test]
fn memory_with_numa_hints_is_found_and_moved() {
    let Some(job) = job_output("memory_with_numa_hints_is_found_and_moved") else { return };
    assert!(["hidden\n", "shown\n"].contains(&&*job.text("hint")), "{}", job.text("hint"));
    let found = job.json("hint-where", &[0]);
    let known: u64 =
        ["heap", "anonymous", "huge-pages"].iter().flat_map(|kind| pages(&found, kind, "").into_values()).sum();
    assert!(known >= (24 << 20) / PAGE, "{} at first: {known} pages: {found:#}", job.text("hint"));
    assert_eq!(found["total"]["unattributed"], 0, "{found:#}");
    let change = job.json("hint-applied", &[0]);
    assert!(change["moved"]["moved"].as_u64() >= Some(24 << 20), "{change:#}");
    let maps = job.text("hint-maps");
    let on_node = maps.split_whitespace().filter_map(|word| word.strip_prefix("N2=")?.parse::<u64>().ok()).sum::<u64>();
    assert!(on_node >= (24 << 20) / PAGE, "{maps}");
}

/// By the experiment itself, by its guard process, and by `nearfar restore`.
#[test]
fn experiment_moves_memory_and_it_is_moved_back() {
    let Some(job) = job_output("experiment_moves_memory_and_it_is_moved_back") else { return };
    let found = service_state(job, "try-found");
    for name in ["try-interrupted", "try-killed", "try-both"] {
        assert_eq!(job.step(&format!("{name}-moved")).status, 0, "{name}");
        assert_eq!(service_state(job, name), found, "{name}");
    }
    assert_eq!(job.step("try-guard").status, 0, "the record of the memory is removed");
    assert_eq!(job.step("try-restore").status, 0, "{}", job.text("try-restore.stderr"));
    assert!(job.text("try-restore.stderr").contains("its memory was moved back"), "{}", job.text("try-restore.stderr"));
}

#[test]
fn interrupted_and_killed_changes_are_undone() {
    let Some(job) = job_output("interrupted_and_killed_changes_are_undone") else { return };
    let found = service_state(job, "found");
    assert_eq!(service_state(job, "interrupted"), found);
    assert_eq!(job.text("killed").lines().count(), 1, "the killed change left its directory");
    assert_eq!(job.json("cleaned", &[0])["undone"].as_array().map(Vec::len), Some(1));
    assert_eq!(service_state(job, "cleaned"), found);
    assert_eq!(job.text("nothing").trim(), "No placement is applied.");
}

#[test]
fn winner_of_a_search_includes_its_files() {
    let Some(job) = job_output("winner_of_a_search_includes_its_files") else { return };
    let result = job.json("finds", &[0]);
    let cpus = result["winner"]["cpus"].as_str().expect("a winner");
    let node = u32::from(cpus.starts_with(['4', '5', '6', '7']));
    assert_eq!(result["lines"]["files"], json!(format!("nearfar files --nodes {node} /data/model")), "{result:#}");
}
