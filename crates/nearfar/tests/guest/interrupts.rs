//! A USB disk (xHCI, UAS) with movable interrupts: they arrive on the CPUs of the placement, interference by other
//! processes is detected, and the affinities are restored.

use std::sync::LazyLock;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::boot::{Boot, JobOutput, boot};
use crate::trials::{assert_invalid, assert_verified, of, reasons};

/// Size of the sparse file behind a disk, which the trials read.
const DISK_BYTES: u64 = 16 << 20;

static OUTPUT: LazyLock<Result<JobOutput, String>> = LazyLock::new(|| {
    let disks = [disk()?, disk()?];
    // Separate controllers have separate interrupts.
    let device = |(number, disk): (usize, &NamedTempFile)| {
        let file = disk.path().display();
        format!(
            "-device qemu-xhci,id=x{number} -drive if=none,id=d{number},file={file},format=raw \
             -device usb-uas,id=u{number},bus=x{number}.0 -device scsi-hd,bus=u{number}.0,drive=d{number}"
        )
    };
    let devices: Vec<String> = disks.iter().enumerate().map(device).collect();
    let job = concat!(include_str!("interrupts.sh"), include_str!("live_interrupts.sh"), include_str!("irqbalance.sh"));
    // Debian's cloud kernel lacks USB drivers.
    boot(&Boot { flags: &["--kernel", "full", "--qemu", &devices.join(" ")], job, ..Boot::default() })
});

fn disk() -> Result<NamedTempFile, String> {
    let disk = NamedTempFile::new().and_then(|disk| disk.as_file().set_len(DISK_BYTES).map(|()| disk));
    disk.map_err(|error| format!("cannot create a temporary file: {error}"))
}

fn job_output(test: &str) -> Option<&'static JobOutput> {
    OUTPUT.as_ref().inspect_err(|reason| println!("skipped: {test}: {reason}")).ok()
}

fn seen(trial: &Value) -> &Vec<Value> {
    trial["evidence"]["device_interrupts"].as_array().expect("interrupts of the disk")
}

/// Number of interrupts of the disk by CPU.
fn arrived(trial: &Value) -> Vec<(u64, u64)> {
    let counts = seen(trial).iter().flat_map(|one| one["arrived"].as_object().expect("counts by CPU"));
    counts.map(|(cpu, count)| (cpu.parse().expect("a cpu"), count.as_u64().expect("a count"))).collect()
}

/// Checks that more than ten interrupts arrived on these CPUs and, per line, at most two on others.
fn assert_arrived(trial: &Value, cpus: &[u64]) {
    let (there, elsewhere): (Vec<_>, Vec<_>) = arrived(trial).into_iter().partition(|(cpu, _)| cpus.contains(cpu));
    let sum = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
    assert!(sum(&there) > 10, "{trial:#}");
    assert!(sum(&elsewhere) <= 2 * seen(trial).len() as u64, "{trial:#}");
}

#[test]
fn interrupts_arrive_on_the_cpus_of_the_placement() {
    let Some(job) = job_output("interrupts_arrive_on_the_cpus_of_the_placement") else { return };
    assert_eq!(job.step("disk").status, 0, "the disk appeared");
    let map = job.json("map", &[0]);
    let disk = map["devices"].as_array().expect("devices").iter().find(|device| device["name"] == "sda");
    let interrupts = disk.expect("the disk is a device")["interrupts"].as_array().expect("a list");
    assert!(interrupts.iter().all(|interrupt| interrupt["movability"] == "movable"), "{interrupts:#?}");
    let trials = job.trials("sent");
    for (placement, asked, cpus) in [
        ("one-core+irq:same-core", "0", &[0][..]),
        ("one-core+irq:same-node", "2-3", &[2, 3]),
        ("one-core+irq:other-node", "4-7", &[4, 5, 6, 7]),
        ("-C 4 irq:5", "5", &[5]),
    ] {
        let of_it = of(trials, placement);
        assert_eq!(of_it.len(), 2, "{placement}: no trial was repeated: {of_it:#?}");
        for trial in of_it {
            assert_verified(trial);
            assert_arrived(trial, cpus);
            assert!(seen(trial).iter().all(|one| one["affinity_at_end"] == asked), "{trial:#}");
        }
    }
    for trial in of(trials, "one-core") {
        assert!(seen(trial).iter().all(|one| one["affinity_at_start"] == "0-7"), "unchanged: {trial:#}");
        assert!(!arrived(trial).is_empty(), "observed nevertheless: {trial:#}");
    }
    for trial in of(trials, "one-core+irq:spread") {
        let asked: Vec<&str> = seen(trial).iter().take(4).filter_map(|one| one["affinity_at_end"].as_str()).collect();
        assert_eq!(asked, ["0", "2", "4", "6"], "{trial:#}");
    }
    assert_eq!(job.text("before"), job.text("after"), "restored");
    let idle = &job.trials("idle")[0];
    assert_eq!(idle["verdict"], "suspect", "{idle:#}");
    assert!(reasons(idle).contains("no interrupt of sda arrived on the requested CPUs"), "{idle:#}");
}

#[test]
fn interrupts_of_two_concurrently_loaded_disks_are_placed() {
    let Some(job) = job_output("interrupts_of_two_concurrently_loaded_disks_are_placed") else { return };
    assert_eq!(job.step("second-disk").status, 0, "the second disk appeared");
    let trial = &job.trials("both")[0];
    assert_verified(trial);
    for disk in ["sda", "sdb"] {
        let of_it: Vec<&Value> = seen(trial).iter().filter(|one| one["device"] == disk).collect();
        assert!(!of_it.is_empty() && of_it.iter().all(|one| one["affinity_at_end"] == "4-7"), "{disk}: {trial:#}");
        let came = of_it.iter().filter_map(|one| one["arrived"].as_object()).flat_map(|counts| counts.values());
        assert!(came.filter_map(Value::as_u64).sum::<u64>() > 10, "{disk} was loaded: {trial:#}");
    }
    let run = job.json("both", &[0]);
    let names: Vec<&str> =
        run["cells"][0]["metrics"].as_array().expect("metrics").iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"iops-file1") && names.contains(&"iops-file2"), "{names:?}");
    let load = run["cells"][0]["cpu_load"].as_array().expect("load by CPU");
    assert_eq!(load.len(), 8, "{load:#?}");
    let busy = |cpu: usize| load[cpu]["user"].as_f64().unwrap_or(0.0) + load[cpu]["system"].as_f64().unwrap_or(0.0);
    assert!(busy(0) + busy(1) > 5.0, "the pinned CPUs read: {load:#?}");
}

#[test]
fn interrupts_moved_during_a_trial_make_it_invalid() {
    let Some(job) = job_output("interrupts_moved_during_a_trial_make_it_invalid") else { return };
    assert_invalid(&job.trials("move")[0], "was moved from CPUs 1 to 7 by another program meanwhile");
    assert_invalid(&job.trials("away")[0], "times on CPUs 7, requested 1");
    // The next attempts are undisturbed.
    for name in ["move", "away"] {
        assert_verified(&job.trials(name)[1]);
    }
}

#[test]
fn restore_after_kill_9_resets_interrupt_affinities() {
    let Some(job) = job_output("restore_after_kill_9_resets_interrupt_affinities") else { return };
    assert_eq!(job.step("left").status, 0, "they were on CPU 3 when the run was killed");
    let restored = job.json("restore", &[0]);
    let restored = restored["restored"].as_array().expect("a list");
    assert!(!restored.is_empty());
    assert!(
        restored.iter().all(|one| one["outcome"] == json!("put-back") && one["setting"] == "interrupt"),
        "{restored:#?}"
    );
    assert_eq!(job.text("restored"), job.text("back"));
}

#[test]
fn race_includes_interrupt_placements() {
    let Some(job) = job_output("race_includes_interrupt_placements") else { return };
    // 3: a race this short may be inconclusive.
    let answer = job.json("race", &[0, 3]);
    assert_eq!(answer["candidates"], 7, "{answer:#}");
    let trials = job.trials("race");
    for (placement, asked) in [("one-core+irq:same-core", "0"), ("one-core+irq:other-node", "4-7")] {
        let first = of(trials, placement)[0];
        assert!(first["verdict"] != "invalid", "{first:#}");
        assert!(seen(first).iter().all(|one| one["affinity_at_end"] == asked), "{first:#}");
        assert!(!arrived(first).is_empty(), "{first:#}");
    }
    assert_eq!(job.text("restored"), job.text("end"), "the race restored the affinities");
}

#[test]
fn interrupts_experiment_completes() {
    let Some(job) = job_output("interrupts_experiment_completes") else { return };
    let run = job.json("experiment", &[0]);
    let cells = run["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 16, "{run:#}");
    let skipped = run["skipped"].as_array().expect("a list");
    // The emulated controller does not report its memory node.
    assert!(
        skipped.iter().all(|one| one["placement"].as_str().is_some_and(|name| name.contains("-device"))),
        "{run:#}"
    );
    let trials = job.trials("experiment");
    assert_eq!(trials.len(), 32, "{run:#}");
    for trial in of(trials, "one-core+irq:other-node") {
        assert_verified(trial);
        assert!(seen(trial).iter().all(|one| one["affinity_at_end"] == "4-7"), "{trial:#}");
    }
    assert_eq!(job.text("restored"), job.text("end"));
}

#[test]
fn experiment_on_a_service_places_and_counts_interrupts() {
    let Some(job) = job_output("experiment_on_a_service_places_and_counts_interrupts") else { return };
    let dry = job.text("live-dry");
    assert!(dry.contains("/proc/irq/") && dry.contains("of sda), at the begin of each period"), "{dry}");
    assert!(dry.contains("node:1: CPUs 4-7, interrupts on CPUs 4-7"), "{dry}");
    for step in ["live-there", "live-away", "live-again", "live-moved", "live-last", "live-left", "live-guard"] {
        assert_eq!(job.step(step).status, 0, "{step}: {:?}", job.text("live-shown"));
    }
    let shown = job.json("live-shown", &[0]);
    let periods = shown["periods"].as_array().expect("periods");
    for arm in [0, 1] {
        let period = periods.iter().find(|period| period["arm"] == arm).expect("a period of each placement");
        assert!(period["unproven"].is_null(), "{period:#}");
        let count = |name: &str| period["interrupts"][name].as_u64().expect("a count");
        assert!(count("arrived") > 10, "{period:#}");
        let lines = shown["placements"][0]["interrupts"].as_array().map_or(0, Vec::len) as u64;
        assert!(count("elsewhere") <= 2 * lines, "{period:#}");
    }
    let unproven = periods.iter().filter_map(|period| period["unproven"].as_str()).collect::<Vec<_>>().join("; ");
    assert!(unproven.contains("was moved from CPUs 4 to 7 by another program meanwhile"), "{unproven}");
    assert_eq!(job.text("live-restored"), job.text("restored"), "by the experiment");
}

#[test]
fn applied_placement_keeps_interrupts_until_it_is_undone() {
    let Some(job) = job_output("applied_placement_keeps_interrupts_until_it_is_undone") else { return };
    let applied = job.json("live-applied", &[0]);
    assert_eq!((&applied["state"], &applied["cpus"]), (&json!("in-effect"), &json!("4-5")), "{applied:#}");
    assert!(applied["interrupt_lines"][0].as_str().is_some_and(|line| line.starts_with("echo 6 > /proc/irq/")));
    assert_eq!(job.step("live-on-6").status, 0);
    assert_eq!(job.json("live-watched", &[0])["applied"][0]["state"], "in-effect");
    assert_eq!(job.step("live-lost").status, 1);
    assert!(job.text("live-lost").contains("of sda) may arrive on other CPUs"), "{}", job.text("live-lost"));
    assert_eq!(job.json("live-undone", &[0])["undone"][0]["is_settled"], true);
    assert_eq!(job.text("live-back"), job.text("restored"));
}

#[test]
fn irqbalance_ban_is_set_for_the_run_and_lifted_afterwards() {
    let name = "irqbalance_ban_is_set_for_the_run_and_lifted_afterwards";
    let Some(job) = job_output(name) else { return };
    if !job.has("listens") {
        return println!("skipped: {name}: irqbalance is not installed (scripts/setup programs)");
    }
    assert_eq!(job.step("listens").status, 0, "irqbalance runs");
    assert_eq!(job.step("refused").status, 1);
    let refusal = job.text("refused.stderr");
    assert!(refusal.contains("irqbalance is running and would move the interrupts"), "{refusal}");
    assert!(refusal.contains("hint: exclude these interrupts with --ban-irqbalance"), "{refusal}");

    assert_verified(&job.trials("left-alone")[0]);
    let (free, banned) = (job.text("free"), job.text("banned"));
    assert!(free.starts_with("SLEEP ") && !free.contains("IRQ "), "{free}");
    for interrupt in seen(&job.trials("left-alone")[0]) {
        assert!(banned.contains(&format!("IRQ {} ", interrupt["number"])), "{interrupt} is not among: {banned}");
    }
    assert_eq!(job.text("free-again"), free);

    assert!(job.text("banned-left").contains("IRQ "), "a killed run leaves them banned");
    let restored = job.json("unban", &[0]);
    let restored = restored["restored"].as_array().expect("a list");
    let unbanned = restored.iter().filter(|one| one["setting"] == "irqbalance").collect::<Vec<_>>();
    assert!(unbanned.len() == 1 && unbanned[0]["outcome"] == "put-back", "{restored:#?}");
    assert_eq!(job.text("free-at-last"), free);
    assert_eq!(job.step("lives").status, 0, "irqbalance keeps running");
}
