//! `nearfar live apply`, `undo` and `watch` on real processes.

mod running;

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::running::{Running, allowed, signal, wait_for};

/// A process, and a directory for the undo journal and the results.
struct Service {
    process: Running,
    state: TempDir,
    found: String,
    /// One of its CPUs.
    cpu: String,
}

impl Service {
    /// `None` on a machine with one CPU.
    fn start(test: &str) -> Option<Self> {
        let process = Running::start("sleep", &["600"]);
        let found = allowed(&process.pid());
        let cpu = found.rsplit([',', '-']).next().unwrap_or_default().to_owned();
        if cpu == found {
            println!("skipped: {test}: it needs two CPUs");
            return None;
        }
        Some(Self { process, state: tempfile::tempdir().expect("a directory"), found, cpu })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("live").args(args).env("NEARFAR_STATE", self.state.path());
        command.env("NEARFAR_STORE", self.state.path().join("results.db"));
        command
    }

    fn live(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }

    /// Returns what a command prints as JSON.
    fn json(&self, args: &[&str], status: i32) -> Value {
        let output = self.live(&[args, &["--format", "json"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
    }

    fn apply(&self, placement: &str) -> Value {
        self.json(&["apply", "--pid", &self.process.pid(), "--placement", placement], 0)
    }

    fn state(&self) -> Value {
        self.json(&["watch", "--once"], 0)["applied"][0]["state"].clone()
    }

    fn applied_dirs(&self) -> usize {
        std::fs::read_dir(self.state.path().join("applied")).map_or(0, Iterator::count)
    }
}

fn bind(pid: &str, cpus: &str) {
    let bound = Command::new("taskset").args(["-p", "-c", cpus, pid]).output().expect("taskset starts");
    assert!(bound.status.success());
}

#[test]
fn applied_placement_is_kept_and_undone() {
    let Some(service) = Service::start("applied_placement_is_kept_and_undone") else { return };
    let pid = service.process.pid();
    let change = service.apply(&service.cpu);
    assert_eq!((change["threads"].as_u64(), &change["moved"]), (Some(1), &Value::Null), "{change:#}");
    assert_eq!((allowed(&pid), service.state()), (service.cpu.clone(), "in-effect".into()));
    // Neither a later run nor `restore` undoes it.
    let restored = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["restore", "--format", "json"])
        .env("NEARFAR_STATE", service.state.path())
        .output()
        .expect("the program starts");
    assert!(restored.status.success() && allowed(&pid) == service.cpu);
    assert!(String::from_utf8_lossy(&restored.stderr).contains("1 placement of a running service stays"));
    let undone = service.json(&["undo", "--pid", &pid], 0);
    assert_eq!(undone["undone"][0]["restored"][0]["old"], "all allowed CPUs", "{undone:#}");
    assert_eq!((allowed(&pid), service.applied_dirs()), (service.found.clone(), 0));
}

#[test]
fn later_placement_replaces_an_earlier_one() {
    let Some(service) = Service::start("later_placement_replaces_an_earlier_one") else { return };
    let first = service.found.split([',', '-']).next().expect("a CPU").to_owned();
    service.apply(&service.cpu);
    service.apply(&first);
    assert_eq!((allowed(&service.process.pid()), service.applied_dirs()), (first, 1));
    service.json(&["undo", "--all"], 0);
    assert_eq!(allowed(&service.process.pid()), service.found);
}

#[test]
fn lost_and_ended_placements_are_reported() {
    let Some(mut service) = Service::start("lost_and_ended_placements_are_reported") else { return };
    let pid = service.process.pid();
    service.apply(&service.cpu);
    bind(&pid, &service.found);
    let lost = service.json(&["watch", "--once", "--pid", &pid], 1);
    assert_eq!(lost["applied"][0]["state"], "threads-lost", "{lost:#}");
    assert_eq!(lost["applied"][0]["threads_elsewhere"], 1);
    service.process.0.kill().and_then(|()| service.process.0.wait()).expect("it ends");
    assert_eq!(service.state(), "ended");
    let undone = service.json(&["undo", "--all"], 0);
    assert_eq!(undone["undone"][0]["restored"][0]["outcome"], "ended", "{undone:#}");
    assert_eq!(service.applied_dirs(), 0);
}

/// While the gain is measured, the service alternates between the placement and the previous one.
#[test]
fn placement_is_applied_again_after_its_gain_was_measured() {
    let Some(service) = Service::start("placement_is_applied_again_after_its_gain_was_measured") else { return };
    let pid = service.process.pid();
    service.apply(&service.cpu);
    let args = ["watch", "--once", "--pid", &pid, "--metric", "command:cat /proc/uptime"];
    let watch = service.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    for expected in [&service.found, &service.cpu, &service.found] {
        wait_for("the service is placed", || allowed(&pid) == *expected);
    }
    signal(&watch, "-INT");
    let output = watch.wait_with_output().expect("it ends");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stdout.contains("in effect") && stdout.contains("no claim"), "{stdout}");
    assert_eq!((allowed(&pid), service.state()), (service.cpu.clone(), "in-effect".into()), "{stderr}");
}

#[test]
fn watch_continues_if_the_metric_cannot_be_read() {
    let Some(service) = Service::start("watch_continues_if_the_metric_cannot_be_read") else { return };
    let pid = service.process.pid();
    service.apply(&service.cpu);
    let args = ["watch", "--pid", &pid, "--metric", "command:false"];
    let mut watch = service.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut shown = String::new();
    // The finding, after the error.
    BufReader::new(watch.stdout.as_mut().expect("a pipe")).read_line(&mut shown).expect("a line");
    assert!(shown.contains("in effect"), "{shown}");
    signal(&watch, "-INT");
    let output = watch.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && stderr.contains("--metric 'command:false'"), "{stderr}");
    assert_eq!(allowed(&pid), service.cpu);
}

#[test]
fn affinity_that_the_program_sets_afterwards_is_kept() {
    let Some(service) = Service::start("affinity_that_the_program_sets_afterwards_is_kept") else { return };
    let pid = service.process.pid();
    let first = service.found.split([',', '-']).next().expect("a CPU").to_owned();
    service.apply(&service.cpu);
    bind(&pid, &first);
    service.json(&["undo", "--pid", &pid], 0);
    assert_eq!(allowed(&pid), first);
}

#[test]
fn unsuitable_requests_are_refused() {
    let Some(service) = Service::start("unsuitable_requests_are_refused") else { return };
    let pid = service.process.pid();
    let refused = |args: &[&str], expected: &str| {
        let output = service.live(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{args:?}: {stderr}");
    };
    let apply =
        |placement: &str, expected: &str| refused(&["apply", "--pid", &pid, "--placement", placement], expected);
    apply("kernel", "already has this placement");
    apply(&service.found, "already has this placement");
    apply("0+text:copy", "only CPUs, memory and interrupts");
    apply("0+irq:0", "irq: requires a device: --device NAME");
    apply("8191", "8191");
    refused(&["apply", "--pid", &pid], "--placement");
    refused(&["apply", "--pid", "4194304", "--placement", "0"], "4194304");
    refused(&["undo", "--pid", &pid], "no placement was applied");
    refused(&["undo"], "--all");
    refused(&["watch", "--once", "--every", "1h"], "--once");
    refused(&["watch", "--once", "--metric", "tcp:1"], "--unit NAME");
    refused(&["watch", "--once", "--budget", "1h"], "--metric");
    assert_eq!((allowed(&pid), service.applied_dirs()), (service.found.clone(), 0));
}

#[test]
fn dry_run_changes_nothing() {
    let Some(service) = Service::start("dry_run_changes_nothing") else { return };
    let pid = service.process.pid();
    let output = service.live(&["apply", "--pid", &pid, "--placement", &service.cpu, "--dry-run"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(&format!("sched_setaffinity({pid}, {})", service.cpu)), "{text}");
    assert_eq!((allowed(&pid), service.applied_dirs()), (service.found.clone(), 0));
}
