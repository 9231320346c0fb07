//! A CPU that goes offline during a run: its cells become invalid with a reason that names it, the others continue, and
//! nothing hangs. Placements that a cpuset keeps, also that of a unit of systemd. With the backports kernel, if available,
//! which also supports weighted interleaving. The boot also serves `tiers`.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::json;

use crate::boot::{Boot, JobOutput, boot};
use crate::trials::{assert_invalid, assert_verified, nodes, of, pages, reasons};

/// The programs of systemd that its own namespaces need.
const SYSTEMD: [&str; 2] = ["/lib/systemd/systemd", "/bin/systemctl"];

static OUTPUT: LazyLock<Result<JobOutput, String>> = LazyLock::new(|| {
    let job = concat!(include_str!("cpuset.sh"), include_str!("unplug.sh"), include_str!("tiers.sh"));
    let copies = SYSTEMD.map(|file| format!("{file}:{file}"));
    let files = SYSTEMD.iter().zip(&copies).filter(|(file, _)| Path::new(file).is_file());
    let files = files.flat_map(|(_, copy)| ["--files", copy.as_str()]);
    let with = |kernel| {
        let flags: Vec<&str> = ["--shape", "tiers", "--kernel", kernel].into_iter().chain(files.clone()).collect();
        boot(&Boot { flags: &flags, job, ..Boot::default() })
    };
    with("backports").or_else(|_| with("cloud"))
});

pub fn job_output(test: &str) -> Option<&'static JobOutput> {
    OUTPUT.as_ref().inspect_err(|reason| println!("skipped: {test}: {reason}")).ok()
}

const EVERYWHERE: &str = "0-7\n0-2\n";
const ON_NODE_1: &str = "4-7\n1\n";

#[test]
fn new_processes_have_the_placement_of_their_cgroup() {
    let Some(job) = job_output("new_processes_have_the_placement_of_their_cgroup") else { return };
    let dry = job.text("cgroup-dry");
    for line in ["echo 4-7 >/sys/fs/cgroup/service/cpuset.cpus", "echo 1 >/sys/fs/cgroup/service/cpuset.mems"] {
        assert!(dry.contains(line), "{dry}");
    }
    assert_eq!(job.text("cgroup-found"), EVERYWHERE);
    let applied = job.json("cgroup-applied", &[0]);
    assert_eq!(applied["cpuset"], json!({"cgroup": "sys/fs/cgroup/service"}), "{applied:#}");
    assert!(applied["memory_percent"].as_f64() > Some(90.0), "{applied:#}");
    assert_eq!((job.text("cgroup-there"), job.text("cgroup-new")), (ON_NODE_1.into(), ON_NODE_1.into()));
    assert_eq!(job.json("cgroup-undone", &[0])["undone"][0]["is_settled"], true);
    assert_eq!(job.text("cgroup-restored"), EVERYWHERE);
}

#[test]
fn placement_of_a_unit_outlasts_its_restart() {
    let name = "placement_of_a_unit_outlasts_its_restart";
    let Some(job) = job_output(name) else { return };
    if !job.has("unit-found") {
        return println!("skipped: {name}: this machine has no systemd");
    }
    let dry = job.text("unit-dry");
    assert!(dry.contains("systemctl set-property --runtime held.service AllowedMemoryNodes=1"), "{dry}");
    assert_eq!(job.text("unit-found"), EVERYWHERE);
    assert_eq!(job.step("unit-applied").status, 0, "{}", job.text("unit-applied.stderr"));
    assert_eq!(job.step("unit-restart").status, 0, "{}", job.text("unit-restart.stderr"));
    assert_eq!((job.text("unit-there"), job.text("unit-restarted")), (ON_NODE_1.into(), ON_NODE_1.into()));
    let watched = &job.json("unit-watched", &[0])["applied"][0];
    assert_eq!((&watched["state"], &watched["threads"]), (&json!("in-effect"), &json!(1)), "{watched:#}");
    assert_eq!(job.step("unit-undone").status, 0, "{}", job.text("unit-undone.stderr"));
    assert_eq!(job.text("unit-restored"), EVERYWHERE);
    assert_eq!(job.text("unit-property"), "AllowedCPUs=\nAllowedMemoryNodes=\n");
}

#[test]
fn weighted_interleave_places_pages_by_weight() {
    let name = "weighted_interleave_places_pages_by_weight";
    let Some(job) = job_output(name) else { return };
    let trials = job.trials("weighted");
    let weighted = of(trials, "weighted-interleave");
    if weighted.is_empty() {
        return println!("skipped: {name}: {} has no weighted interleaving (Linux 6.9)", job.text("kernel").trim());
    }
    for trial in weighted {
        assert_verified(trial);
        assert_eq!(trial["evidence"]["memory_policy"], "weighted interleave:0-2");
        assert_eq!(nodes(trial), [0, 1, 2], "{trial:#}");
        // The default weights are 1.
        assert!(pages(trial).iter().all(|(_, pages)| (250..=275).contains(pages)), "{trial:#}");
    }
}

#[test]
fn weights_of_a_map_are_set_followed_and_restored() {
    let name = "weights_of_a_map_are_set_followed_and_restored";
    let Some(job) = job_output(name) else { return };
    if job.step("kernel-weights-before").status != 0 {
        return println!("skipped: {name}: {} has no weighted interleaving (Linux 6.9)", job.text("kernel").trim());
    }
    let set = job.json("weights", &[0]);
    let weights: Vec<u64> =
        set["weights"].as_array().expect("a list").iter().filter_map(|one| one["weight"].as_u64()).collect();
    assert!(weights.len() == 3 && weights[2] < weights[0], "the node without CPUs is slower: {set:#}");
    let lines = weights.iter().enumerate().map(|(node, weight)| format!("node{node}:{weight}\n"));
    assert!(job.text("kernel-weights").ends_with(&lines.collect::<String>()), "{}", job.text("kernel-weights"));
    let trials = of(job.trials("by-weight"), "weighted-interleave");
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_verified(trial);
        let (all, turn) = (pages(trial).iter().map(|(_, pages)| pages).sum::<u64>(), weights.iter().sum::<u64>());
        for (node, pages) in pages(trial) {
            let expected = all * weights[node as usize] / turn;
            // Stacks and the ends of arrays are pages, too.
            assert!(pages.abs_diff(expected) <= 20, "node {node}: {pages} of {all}, weights {weights:?}");
        }
    }
    let restored = job.text("restore-weights");
    assert!(restored.contains("weighted_interleave/node0 restored to 1 (was "), "{restored}");
    assert_eq!(job.text("kernel-weights-after"), job.text("kernel-weights-before"));
}

#[test]
fn cpu_unplugged_between_trials_is_reported() {
    let Some(job) = job_output("cpu_unplugged_between_trials_is_reported") else { return };
    let json = job.json("between", &[0]);
    let trials = job.trials("between");
    let (gone, stays) = (of(trials, "-C 3"), of(trials, "-C 2"));
    assert_eq!(stays.len(), 6, "the other cell continues: {json:#}");
    stays.into_iter().for_each(assert_verified);
    assert_verified(gone[0]);
    let last = gone.last().expect("trials");
    assert_invalid(last, "cannot set the affinity to CPU 3");
    assert!(reasons(last).contains("online"), "{}", reasons(last));
    assert!(json["cells"][0]["verdicts"]["valid"].as_u64().is_some_and(|valid| valid < 6), "{json:#}");

    let map = job.json("map", &[0]);
    assert_eq!((&map["counts"]["allowed_pus"], &map["counts"]["complete_pus"]), (&7.into(), &8.into()));
    assert_eq!(map["numa"][0]["cpus"], "0-2");
}

/// The kernel then allows the process to run on all CPUs, so it leaves its binding.
#[test]
fn cpu_unplugged_during_a_trial_makes_it_invalid() {
    let Some(job) = job_output("cpu_unplugged_during_a_trial_makes_it_invalid") else { return };
    for name in ["during", "during-kernel"] {
        assert_eq!(job.step(name).status, 4, "measured, but no trial is valid: {}", job.text(name));
        let trials = job.trials(name);
        assert_eq!(trials.len(), 3, "repeated in its block");
        assert_invalid(&trials[2], "cannot set the affinity to CPU 3");
    }
    assert_invalid(&job.trials("during")[0], "but was pinned to 3");
    assert_invalid(&job.trials("during-kernel")[0], "a thread pinned to CPU 3 had mask 3 and ran on 3 and ");
}

#[test]
fn race_continues_without_an_unplugged_cpu() {
    let Some(job) = job_output("race_continues_without_an_unplugged_cpu") else { return };
    let answer = job.json("race", &[0, 3]);
    let trials = job.trials("race");
    let lost: Vec<_> = trials.iter().filter(|trial| trial["verdict"] == "invalid").collect();
    assert!(!lost.is_empty(), "{answer:#}");
    // On a busy host a program may be observed when it has only two pages; such a trial is invalid and repeated.
    let repeated = |lost: &serde_json::Value| {
        let same = |key: &str, other: &serde_json::Value| other[key] == lost[key];
        trials.iter().any(|other| same("cell", other) && same("repetition", other) && other["verdict"] != "invalid")
    };
    for trial in lost {
        let on_it = trial["cpus"].as_str().is_some_and(|cpus| cpus.contains('3'));
        assert!(on_it || repeated(trial), "only trials on the CPU: {trial:#}");
    }
    let mut since = trials.iter().skip_while(|trial| trial["verdict"] != "invalid");
    assert!(since.any(|trial| trial["verdict"] != "invalid"), "other candidates continue: {answer:#}");
}
