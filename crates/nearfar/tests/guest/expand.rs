//! `nearfar expand` where memory is bounded by cgroups of version 2: programs lose nothing, budgets are kept, and the machine
//! is as it was found, also what the groups below the first one have. How fast it is shows only on real machines.

use std::process::Command;
use std::sync::LazyLock;

use crate::boot::{Boot, Ran, boot};
use crate::trials::assert_proven;

/// Booted once, with a disk of its own. It takes no room before it is written to.
static RAN: LazyLock<Result<Ran, String>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let disk = folder.path().join("disk");
    let made = std::fs::File::create(&disk).and_then(|file| file.set_len(2 << 30));
    made.map_err(|error| format!("{}: {error}", disk.display()))?;
    let formatted =
        Command::new("mkfs.ext4").arg("-q").arg(&disk).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output();
    let formatted = formatted.map_err(|error| format!("mkfs.ext4 (e2fsprogs): {error}"))?;
    if !formatted.status.success() {
        return Err(format!("mkfs.ext4: {}", String::from_utf8_lossy(&formatted.stderr)));
    }
    let drive = format!("-drive if=none,id=far,format=raw,file={} -device virtio-blk-pci,drive=far", disk.display());
    boot(&Boot { flags: &["--shape", "plain", "--qemu", &drive], job: include_str!("expand.sh"), store: None })
});

fn ran(test: &str) -> Option<&'static Ran> {
    RAN.as_ref().inspect_err(|why| println!("skipped: {test}: {why}")).ok()
}

/// Whether all that a step may leave is as it was found.
fn assert_as_found(ran: &Ran, step: &str) {
    assert_eq!(ran.text(step), ran.text("found"), "{step}");
}

#[test]
fn a_program_loses_nothing_below_a_group_of_version_two() {
    let Some(ran) = ran("a_program_loses_nothing_below_a_group_of_version_two") else { return };
    assert_eq!(ran.step("disk").status, 0, "{}", ran.text("disk.stderr"));
    assert!(ran.text("found").contains("control \n"), "nothing has turned the controller on: {}", ran.text("found"));
    let near = ran.text("near");
    let sum = near.split_whitespace().next().expect("a checksum");
    for engine in ["steered", "plain"] {
        assert_eq!(ran.step(engine).status, 0, "{}", ran.text(&format!("{engine}.stderr")));
        assert_eq!(ran.text(&format!("{engine}.sum")), format!("{sum}  /tmp/sorted\n"), "{engine}");
        let summary = ran.json(&format!("{engine}.summary"), &[0]);
        assert_eq!((&summary["engine"], &summary["dram_bytes"]), (&engine.into(), &(10 << 20).into()), "{summary:#}");
        assert!(summary["far_written_bytes"].as_u64() > Some(2 << 20), "{summary:#}");
        assert!(summary["far_bytes_max"].as_u64() > Some(2 << 20), "what is far is counted: {summary:#}");
        assert!(summary["faults_major"].as_u64() > Some(0), "{summary:#}");
        assert_as_found(ran, &format!("{engine}.after"));
    }
}

#[test]
fn trials_on_a_budget_are_proven_there() {
    let Some(ran) = ran("trials_on_a_budget_are_proven_there") else { return };
    let trials = ran.trials("budget");
    assert_eq!(trials.len(), 2, "{trials:#?}");
    for trial in &trials {
        assert_proven(trial);
        let far = &trial["evidence"]["budget"];
        assert_eq!(far["dram"], 16 << 20, "{trial:#}");
        assert!(far["written"].as_u64() > Some(8 << 20), "{trial:#}");
    }
    assert_as_found(ran, "budget.after");
}

#[test]
fn after_kill_nine_restore_leaves_nothing_of_version_two() {
    let Some(ran) = ran("after_kill_nine_restore_leaves_nothing_of_version_two") else { return };
    assert_eq!(ran.step("far").status, 0, "{}", ran.text("far.stderr"));
    let during = ran.text("during");
    for words in ["swap /dev/loop", "group /sys/fs/cgroup/nearfar-", "control memory\n"] {
        assert!(during.contains(words), "{words}: {during}");
    }
    assert_eq!(ran.step("alive").status, 0, "the program goes on");
    assert_eq!(ran.step("lifted").status, 0, "and is not killed for want of memory");
    let early = ran.text("early");
    assert_eq!(ran.step("early").status, 1, "{early}");
    for words in ["is still in it; end it first", "controller memory below cgroup /sys/fs/cgroup is not back at off"] {
        assert!(early.contains(words), "{words}: {early}");
    }
    assert_eq!(ran.step("over").status, 0);
    assert_eq!(ran.step("restored").status, 0, "{}{}", ran.text("restored"), ran.text("restored.stderr"));
    assert!(ran.text("restored").contains("controller memory below cgroup /sys/fs/cgroup is off again"));
    assert_as_found(ran, "killed.after");
}

#[test]
fn the_controller_stays_on_for_the_second_of_two() {
    let Some(ran) = ran("the_controller_stays_on_for_the_second_of_two") else { return };
    for step in ["first", "second", "left"] {
        assert_eq!(ran.step(step).status, 0, "{step}: {}", ran.text(&format!("{step}.stderr")));
    }
    assert_eq!(ran.text("second.bound"), format!("{}\n", 10 << 20));
    assert_as_found(ran, "two.after");
}

#[test]
fn the_doctor_finds_what_is_there() {
    let Some(ran) = ran("the_doctor_finds_what_is_there") else { return };
    let diagnosis = ran.json("doctor", &[0]);
    let keys = |list: &serde_json::Value| -> Vec<String> {
        let entries = list.as_array().expect("a list").iter();
        entries.filter_map(|entry| entry.as_str().or(entry["key"].as_str())).map(String::from).collect()
    };
    let well = keys(&diagnosis["well"]);
    for key in ["expand-root", "expand-cgroup", "expand-loop", "expand-swap", "expand-page-faults", "expand-advice"] {
        assert!(well.iter().any(|well| well == key), "{key}: {diagnosis:#}");
    }
}
