//! A disk on USB (xHCI, UAS), whose interrupts can be moved between the nodes of the emulated machine: they arrive where
//! placements send them, who meddles is caught, and they end where they were found.

use std::sync::LazyLock;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::boot::{Boot, Ran, boot};
use crate::trials::{assert_caught, assert_proven, of, reasons};

/// 16 MiB of it are read; a sparse file does.
const DISK_BYTES: u64 = 16 << 20;

static RAN: LazyLock<Result<Ran, String>> = LazyLock::new(|| {
    let disks = [disk()?, disk()?];
    // Each on a controller of its own, so that each has interrupts of its own.
    let device = |(number, disk): (usize, &NamedTempFile)| {
        let file = disk.path().display();
        format!(
            "-device qemu-xhci,id=x{number} -drive if=none,id=d{number},file={file},format=raw \
             -device usb-uas,id=u{number},bus=x{number}.0 -device scsi-hd,bus=u{number}.0,drive=d{number}"
        )
    };
    let devices: Vec<String> = disks.iter().enumerate().map(device).collect();
    let job = concat!(include_str!("interrupts.sh"), include_str!("irqbalance.sh"));
    // Debian's cloud kernel has no drivers of USB.
    boot(&Boot { flags: &["--kernel", "full", "--qemu", &devices.join(" ")], job, store: None })
});

fn disk() -> Result<NamedTempFile, String> {
    let disk = NamedTempFile::new().and_then(|disk| disk.as_file().set_len(DISK_BYTES).map(|()| disk));
    disk.map_err(|error| format!("no scratch file: {error}"))
}

fn ran(test: &str) -> Option<&'static Ran> {
    RAN.as_ref().inspect_err(|why| println!("skipped: {test}: {why}")).ok()
}

fn seen(trial: &Value) -> &Vec<Value> {
    trial["evidence"]["device_interrupts"].as_array().expect("interrupts of the disk")
}

/// How often the disk's interrupts came, by cpu.
fn arrived(trial: &Value) -> Vec<(u64, u64)> {
    let counts = seen(trial).iter().flat_map(|one| one["arrived"].as_object().expect("counts by cpu"));
    counts.map(|(cpu, count)| (cpu.parse().expect("a cpu"), count.as_u64().expect("a count"))).collect()
}

/// Checks that all interrupts but the first two of each line came on these cpus, and some did.
fn assert_arrived(trial: &Value, cpus: &[u64]) {
    let (there, elsewhere): (Vec<_>, Vec<_>) = arrived(trial).into_iter().partition(|(cpu, _)| cpus.contains(cpu));
    let sum = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
    assert!(sum(&there) > 10, "{trial:#}");
    assert!(sum(&elsewhere) <= 2 * seen(trial).len() as u64, "{trial:#}");
}

#[test]
fn interrupts_arrive_where_they_are_sent() {
    let Some(ran) = ran("interrupts_arrive_where_they_are_sent") else { return };
    assert_eq!(ran.step("disk").status, 0, "the disk came");
    let map = ran.json("map", &[0]);
    let disk = map["devices"].as_array().expect("devices").iter().find(|device| device["name"] == "sda");
    let interrupts = disk.expect("the disk is a device")["interrupts"].as_array().expect("a list");
    assert!(interrupts.iter().all(|interrupt| interrupt["movability"] == "movable"), "{interrupts:#?}");
    let trials = ran.trials("sent");
    for (placement, asked, cpus) in [
        ("one-core+irq:same-core", "0", &[0][..]),
        ("one-core+irq:same-node", "2-3", &[2, 3]),
        ("one-core+irq:other-node", "4-7", &[4, 5, 6, 7]),
        ("-C 4 irq:5", "5", &[5]),
    ] {
        let of_it = of(&trials, placement);
        assert_eq!(of_it.len(), 2, "{placement}: both were proven at once: {of_it:#?}");
        for trial in of_it {
            assert_proven(trial);
            assert_arrived(trial, cpus);
            assert!(seen(trial).iter().all(|one| one["affinity_at_end"] == asked), "{trial:#}");
        }
    }
    for trial in of(&trials, "one-core") {
        assert!(seen(trial).iter().all(|one| one["affinity_at_start"] == "0-7"), "as it was found: {trial:#}");
        assert!(!arrived(trial).is_empty(), "watched nevertheless: {trial:#}");
    }
    for trial in of(&trials, "one-core+irq:spread") {
        let asked: Vec<&str> = seen(trial).iter().take(4).filter_map(|one| one["affinity_at_end"].as_str()).collect();
        assert_eq!(asked, ["0", "2", "4", "6"], "{trial:#}");
    }
    assert_eq!(ran.text("before"), ran.text("after"), "put back");
    let idle = &ran.trials("idle")[0];
    assert_eq!(idle["verdict"], "suspect", "{idle:#}");
    assert!(reasons(idle).contains("no interrupt of sda came where it was sent"), "{idle:#}");
}

#[test]
fn two_disks_are_loaded_at_once_and_the_interrupts_of_both_are_sent() {
    let Some(ran) = ran("two_disks_are_loaded_at_once_and_the_interrupts_of_both_are_sent") else { return };
    assert_eq!(ran.step("second-disk").status, 0, "the second disk came");
    let trial = &ran.trials("both")[0];
    assert_proven(trial);
    for disk in ["sda", "sdb"] {
        let of_it: Vec<&Value> = seen(trial).iter().filter(|one| one["device"] == disk).collect();
        assert!(!of_it.is_empty() && of_it.iter().all(|one| one["affinity_at_end"] == "4-7"), "{disk}: {trial:#}");
        let came = of_it.iter().filter_map(|one| one["arrived"].as_object()).flat_map(|counts| counts.values());
        assert!(came.filter_map(Value::as_u64).sum::<u64>() > 10, "{disk} was loaded: {trial:#}");
    }
    let run = ran.json("both", &[0]);
    let names: Vec<&str> =
        run["cells"][0]["metrics"].as_array().expect("metrics").iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"iops-file1") && names.contains(&"iops-file2"), "{names:?}");
    let load = run["cells"][0]["cpu_load"].as_array().expect("of each cpu");
    assert_eq!(load.len(), 8, "{load:#?}");
    let busy = |cpu: usize| load[cpu]["user"].as_f64().unwrap_or(0.0) + load[cpu]["system"].as_f64().unwrap_or(0.0);
    assert!(busy(0) + busy(1) > 5.0, "the seats read: {load:#?}");
}

#[test]
fn who_moves_interrupts_during_a_trial_is_caught() {
    let Some(ran) = ran("who_moves_interrupts_during_a_trial_is_caught") else { return };
    assert_caught(&ran.trials("move")[0], "was moved from cpus 1 to 7 by somebody else while it ran");
    assert_caught(&ran.trials("away")[0], "times on cpus 7, asked for 1");
    // Nobody meddles with the next attempts.
    for name in ["move", "away"] {
        assert_proven(&ran.trials(name)[1]);
    }
}

#[test]
fn after_kill_9_interrupts_are_put_back() {
    let Some(ran) = ran("after_kill_9_interrupts_are_put_back") else { return };
    assert_eq!(ran.step("left").status, 0, "they were on cpu 3 when the run was killed");
    let restored = ran.json("restore", &[0]);
    let restored = restored["restored"].as_array().expect("a list");
    assert!(!restored.is_empty());
    assert!(
        restored.iter().all(|one| one["outcome"] == json!("put-back") && one["setting"] == "interrupt"),
        "{restored:#?}"
    );
    assert_eq!(ran.text("restored"), ran.text("back"));
}

#[test]
fn a_race_tries_where_interrupts_go_and_says_how_to_send_them() {
    let Some(ran) = ran("a_race_tries_where_interrupts_go_and_says_how_to_send_them") else { return };
    // 3: so short a race may well be inconclusive.
    let answer = ran.json("race", &[0, 3]);
    assert_eq!(answer["candidates"], 7, "{answer:#}");
    let trials = ran.trials("race");
    for (placement, asked) in [("one-core+irq:same-core", "0"), ("one-core+irq:other-node", "4-7")] {
        let first = of(&trials, placement)[0];
        assert!(first["verdict"] != "invalid", "{first:#}");
        assert!(seen(first).iter().all(|one| one["affinity_at_end"] == asked), "{first:#}");
        assert!(!arrived(first).is_empty(), "{first:#}");
    }
    assert_eq!(ran.text("restored"), ran.text("end"), "the experiment that came after it found them as they were");
}

#[test]
fn the_experiment_runs_through() {
    let Some(ran) = ran("the_experiment_runs_through") else { return };
    let run = ran.json("experiment", &[0]);
    let cells = run["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 16, "{run:#}");
    assert_eq!(run["skipped"], json!([]), "{run:#}");
    let trials = ran.trials("experiment");
    assert_eq!(trials.len(), 32, "{run:#}");
    for trial in of(&trials, "one-core+irq:other-node") {
        assert_proven(trial);
        assert!(seen(trial).iter().all(|one| one["affinity_at_end"] == "4-7"), "{trial:#}");
    }
    assert_eq!(ran.text("restored"), ran.text("end"));
}

#[test]
fn irqbalance_is_told_to_leave_them_alone_and_told_otherwise_afterwards() {
    let name = "irqbalance_is_told_to_leave_them_alone_and_told_otherwise_afterwards";
    let Some(ran) = ran(name) else { return };
    if !ran.has("listens") {
        return println!("skipped: {name}: irqbalance is not installed (scripts/setup programs)");
    }
    assert_eq!(ran.step("listens").status, 0, "irqbalance runs");
    assert_eq!(ran.step("refused").status, 1);
    let refusal = ran.text("refused.stderr");
    assert!(refusal.contains("irqbalance runs, and moves interrupts again"), "{refusal}");
    assert!(refusal.contains("hint: --ban-irqbalance"), "{refusal}");

    assert_proven(&ran.trials("left-alone")[0]);
    let (free, banned) = (ran.text("free"), ran.text("banned"));
    assert!(free.starts_with("SLEEP ") && !free.contains("IRQ "), "{free}");
    for interrupt in seen(&ran.trials("left-alone")[0]) {
        assert!(banned.contains(&format!("IRQ {} ", interrupt["number"])), "{interrupt} is not among: {banned}");
    }
    assert_eq!(ran.text("free-again"), free);

    assert!(ran.text("banned-left").contains("IRQ "), "a killed run leaves them banned");
    let restored = ran.json("unban", &[0]);
    let restored = restored["restored"].as_array().expect("a list");
    let unbanned = restored.iter().filter(|one| one["setting"] == "irqbalance").collect::<Vec<_>>();
    assert!(unbanned.len() == 1 && unbanned[0]["outcome"] == "put-back", "{restored:#?}");
    assert_eq!(ran.text("free-at-last"), free);
    assert_eq!(ran.step("lives").status, 0, "it has not been ended by what it was told");
}
