//! `nearfar expand` with cgroup v2: programs lose no data, DRAM budgets are respected, and all settings are restored,
//! including the controllers of child cgroups.

use std::sync::LazyLock;

use crate::boot::{Boot, JobOutput, boot, disk};
use crate::trials::{assert_verified, reasons};

/// One boot for all tests of this file, with a sparse file as disk.
static OUTPUT: LazyLock<Result<JobOutput, String>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let drive = disk(directory.path())?;
    // Debian's cloud kernel is built without zswap.
    let flags = ["--shape", "plain", "--kernel", "full", "--qemu", &drive];
    boot(&Boot { flags: &flags, job: include_str!("expand.sh"), ..Boot::default() })
});

/// Another boot, with a kernel without zswap.
static WITHOUT_ZSWAP: LazyLock<Result<JobOutput, String>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let drive = disk(directory.path())?;
    let flags = ["--shape", "plain", "--kernel", "cloud", "--qemu", &drive];
    boot(&Boot { flags: &flags, job: include_str!("expand_zram.sh"), ..Boot::default() })
});

fn job_output(test: &str) -> Option<&'static JobOutput> {
    OUTPUT.as_ref().inspect_err(|reason| println!("skipped: {test}: {reason}")).ok()
}

/// Checks that a step has restored swap, cgroups, loop devices and settings.
fn assert_restored(job: &JobOutput, step: &str) {
    assert_eq!(job.text(step), job.text("found"), "{step}");
}

#[test]
fn program_with_cgroup_v2_loses_no_data() {
    let Some(job) = job_output("program_with_cgroup_v2_loses_no_data") else { return };
    assert_eq!(job.step("disk").status, 0, "{}", job.text("disk.stderr"));
    assert!(job.text("found").contains("control \n"), "no controller is enabled: {}", job.text("found"));
    let near = job.text("near");
    let sum = near.split_whitespace().next().expect("a checksum");
    for engine in ["steered", "plain"] {
        assert_eq!(job.step(engine).status, 0, "{}", job.text(&format!("{engine}.stderr")));
        assert_eq!(job.text(&format!("{engine}.sum")), format!("{sum}  /tmp/sorted\n"), "{engine}");
        let summary = job.json(&format!("{engine}.summary"), &[0]);
        assert_eq!((&summary["engine"], &summary["dram_bytes"]), (&engine.into(), &(10 << 20).into()), "{summary:#}");
        assert!(summary["far_written_bytes"].as_u64() > Some(2 << 20), "{summary:#}");
        assert!(summary["far_bytes_max"].as_u64() > Some(2 << 20), "{summary:#}");
        assert!(summary["faults_major"].as_u64() > Some(0), "{summary:#}");
        assert_restored(job, &format!("{engine}.after"));
    }
}

#[test]
fn evicted_pages_stay_compressed_within_the_limit() {
    let Some(job) = job_output("evicted_pages_stay_compressed_within_the_limit") else { return };
    assert_eq!(job.step("compressed").status, 0, "{}", job.text("compressed.stderr"));
    let sum = job.text("near").split_whitespace().next().expect("a checksum").to_string();
    assert_eq!(job.text("compressed.sum"), format!("{sum}  /tmp/sorted\n"));
    let summary = job.json("compressed.summary", &[0]);
    let bytes = |name: &str| summary["compressed"][name].as_u64().expect("bytes");
    assert!(bytes("bytes_max") > 2 << 20 && bytes("loaded_bytes") > 0, "{summary:#}");
    // The kernel checks its limit before it adds a page.
    assert!(bytes("dram_bytes_max") <= (6 << 20) + 8192 && bytes("dram_bytes_max") > 1 << 20, "{summary:#}");
    assert_restored(job, "compressed.after");
}

#[test]
fn zswap_is_used_once_a_program_waits_for_the_disk() {
    let Some(job) = job_output("zswap_is_used_once_a_program_waits_for_the_disk") else { return };
    assert!([0, 3].contains(&job.step("auto").status), "{}", job.text("auto.stderr"));
    let summary = job.json("auto.summary", &[0]);
    let bytes = |name: &str| summary["compressed"][name].as_u64().expect("bytes");
    assert!(bytes("stored_bytes") > 1 << 20 && bytes("loaded_bytes") > 0, "{summary:#}");
    assert!(bytes("dram_bytes_max") <= (12 << 20) + 8192, "{summary:#}");
    // Until then, pages went to disk.
    assert!(summary["far_written_bytes"].as_u64() > Some(2 << 20), "{summary:#}");
    assert_restored(job, "auto.after");
}

#[test]
fn kernel_without_zswap_compresses_in_zram() {
    let job = match &*WITHOUT_ZSWAP {
        Ok(job) => job,
        Err(reason) => return println!("skipped: kernel_without_zswap_compresses_in_zram: {reason}"),
    };
    let sum = job.text("near").split_whitespace().next().expect("a checksum").to_string();
    for engine in ["steered", "kernel"] {
        assert_eq!(job.step(engine).status, 0, "{}", job.text(&format!("{engine}.stderr")));
        assert_eq!(job.text(&format!("{engine}.sum")), format!("{sum}  /tmp/sorted\n"), "{engine}");
        let summary = job.json(&format!("{engine}.summary"), &[0]);
        let bytes = |name: &str| summary["compressed"][name].as_u64().expect("bytes");
        assert!(bytes("stored_bytes") > 1 << 20 && bytes("loaded_bytes") > 0, "{engine}: {summary:#}");
        assert!(bytes("dram_bytes_max") < 7 << 20, "{engine}: {summary:#}");
        assert_eq!(job.text(&format!("{engine}.after")), job.text("found"), "{engine}");
    }
}

#[test]
fn far_memory_is_never_compressed_without_being_asked() {
    let Some(job) = job_output("far_memory_is_never_compressed_without_being_asked") else { return };
    assert_eq!(job.step("uncompressed").status, 0, "{}", job.text("uncompressed.stderr"));
    let summary = job.json("uncompressed.summary", &[0]);
    assert_eq!(summary["compressed"]["stored_bytes"], 0, "{summary:#}");
    assert!(summary["far_written_bytes"].as_u64() > Some(2 << 20), "{summary:#}");
}

#[test]
fn trials_record_what_was_compressed() {
    let Some(job) = job_output("trials_record_what_was_compressed") else { return };
    let [trial] = job.trials("compressing") else { panic!("{:#?}", job.trials("compressing")) };
    assert_verified(trial);
    assert!(trial["evidence"]["budget"]["compressed"]["stored"].as_u64() > Some(2 << 20), "{trial:#}");
    assert_restored(job, "compressing.after");
}

#[test]
fn size_measures_compressed_tiers_and_compressibility() {
    let Some(job) = job_output("size_measures_compressed_tiers_and_compressibility") else { return };
    // One run shows no interval.
    let sized = job.json("sized", &[3]);
    let [plain, compressed] = &sized["points"].as_array().expect("points")[..] else { panic!("{sized:#}") };
    for (point, is_compressed) in [(plain, false), (compressed, true)] {
        assert_eq!((&point["steered"], &point["compressed"]), (&false.into(), &is_compressed.into()), "{sized:#}");
        assert!(point["slower_percent"].is_number() && point["cpu_percent"].is_number(), "{sized:#}");
    }
    assert!(plain["compressed_dram"].is_null(), "{sized:#}");
    let pool = compressed["compressed_dram"].as_u64().expect("bytes");
    assert!((1 << 20..=(6 << 20) + 8192).contains(&pool), "{sized:#}");
    // Lines of digits.
    let memory = &sized["compressibility"]["total"];
    let percent = |name: &str| memory[name].as_f64().expect("percent");
    assert!(memory["bytes"].as_u64() > Some(8 << 20) && memory["pages"].as_u64() > Some(1000), "{sized:#}");
    assert!((20.0..80.0).contains(&percent("percent")), "{sized:#}");
    assert!(percent("ci_low") < percent("percent") && percent("percent") < percent("ci_high"), "{sized:#}");
    assert_restored(job, "sized.after");
}

#[test]
fn trials_next_to_swap_of_others_are_suspect() {
    let Some(job) = job_output("trials_next_to_swap_of_others_are_suspect") else { return };
    for trial in job.trials("shared") {
        let others = trial["evidence"]["budget"]["other_swap"].as_array().map(Vec::len);
        assert_eq!(others, Some(2), "{trial:#}");
        assert_eq!(trial["verdict"], "suspect", "{trial:#}");
        assert!(reasons(trial).contains("its pages may be in the swap of others: /dev/loop"), "{trial:#}");
    }
    assert!(!job.trials("shared").is_empty());
}

#[test]
fn trials_with_a_dram_budget_are_valid() {
    let Some(job) = job_output("trials_with_a_dram_budget_are_valid") else { return };
    let trials = job.trials("budget");
    assert_eq!(trials.len(), 2, "{trials:#?}");
    for trial in trials {
        assert_verified(trial);
        let far = &trial["evidence"]["budget"];
        assert_eq!(far["dram"], 16 << 20, "{trial:#}");
        assert!(far["written"].as_u64() > Some(8 << 20), "{trial:#}");
    }
    assert_restored(job, "budget.after");
}

#[test]
fn restore_after_kill_9_removes_the_cgroup() {
    let Some(job) = job_output("restore_after_kill_9_removes_the_cgroup") else { return };
    assert_eq!(job.step("far").status, 0, "{}", job.text("far.stderr"));
    let during = job.text("during");
    for words in ["swap /dev/loop", "group /sys/fs/cgroup/nearfar-", "control memory\n"] {
        assert!(during.contains(words), "{words}: {during}");
    }
    assert_eq!(job.step("alive").status, 0, "the program keeps running");
    assert_eq!(job.step("lifted").status, 0, "its limit is lifted");
    let early = job.text("early");
    assert_eq!(job.step("early").status, 1, "{early}");
    for words in
        ["is still in it; end it first", "controller memory below cgroup /sys/fs/cgroup could not be restored to off"]
    {
        assert!(early.contains(words), "{words}: {early}");
    }
    assert_eq!(job.step("over").status, 0);
    assert_eq!(job.step("restored").status, 0, "{}{}", job.text("restored"), job.text("restored.stderr"));
    assert!(job.text("restored").contains("controller memory below cgroup /sys/fs/cgroup restored to off"));
    assert_restored(job, "killed.after");
}

#[test]
fn controller_stays_enabled_for_a_second_expansion() {
    let Some(job) = job_output("controller_stays_enabled_for_a_second_expansion") else { return };
    for step in ["first", "second", "left"] {
        assert_eq!(job.step(step).status, 0, "{step}: {}", job.text(&format!("{step}.stderr")));
    }
    assert_eq!(job.text("second.bound"), format!("{}\n", 10 << 20));
    assert_restored(job, "two.after");
}

#[test]
fn doctor_reports_every_requirement_of_expand() {
    let Some(job) = job_output("doctor_reports_every_requirement_of_expand") else { return };
    let diagnosis = job.json("doctor", &[0]);
    let keys = |list: &serde_json::Value| -> Vec<String> {
        let entries = list.as_array().expect("a list").iter();
        entries.filter_map(|entry| entry.as_str().or(entry["key"].as_str())).map(String::from).collect()
    };
    let well = keys(&diagnosis["ok"]);
    for key in ["expand-root", "expand-cgroup", "expand-loop", "expand-swap", "expand-page-faults", "expand-advice"] {
        assert!(well.iter().any(|well| well == key), "{key}: {diagnosis:#}");
    }
}
