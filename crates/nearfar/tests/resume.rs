//! The whole command on the simulator: killed after every k-th trial, it goes on and reports the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).env_remove("NEARFAR_STORE").output().expect("the program starts")
}

/// An experiment small enough to be killed at every one of its trials.
fn experiment(folder: &Path) -> PathBuf {
    let path = folder.join("small.toml");
    let text = r#"
name = "small"
question = "Does resuming change anything?"
[repeat]
warmup = 1
min = 3
max = 4
precision = "0.1%"
budget = "10m"
[compare]
by = "placement"
baseline = "kernel"
[[workload]]
name = "queens"
placements = ["kernel", "cores-across-l3", "smt-one-l3"]
threads = [6]
"#;
    std::fs::write(&path, text).expect("the folder can be written");
    path
}

fn report(store: &Path) -> Vec<u8> {
    let output = nearfar(store, &["report", "--output", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn size(store: &Path) -> u64 {
    std::fs::metadata(store).expect("the results file is there").len()
}

fn trials(store: &Path) -> usize {
    let output = nearfar(store, &["show", "--trials", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("show prints JSON");
    json["trials"].as_array().expect("trials is a list").len()
}

#[test]
fn a_run_killed_after_every_kth_trial_reports_the_same() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = experiment(folder.path());
    let file = file.to_str().expect("the path is text");
    let sim = format!("{MODEL}:7");
    let whole = folder.path().join("whole.db");
    assert!(nearfar(&whole, &["run", file, "--sim", &sim, "--quiet"]).status.success());
    let (expected, total) = (report(&whole), trials(&whole));
    assert_eq!(total, 3 * (1 + 4), "three cells, one warm-up block and four measured");

    for k in 1..total {
        let store = folder.path().join(format!("killed-{k}.db"));
        let faults = format!("kill-after={k}");
        let killed = nearfar(&store, &["run", file, "--sim", &sim, "--sim-faults", &faults, "--quiet"]);
        assert!(!killed.status.success(), "it should have been killed after trial {k}");
        assert_eq!(trials(&store), k, "what was stored stays");
        assert!(nearfar(&store, &["run", file, "--sim", &sim, "--quiet"]).status.success());
        assert_eq!(trials(&store), total, "killed after {k}: none lost, none twice");
        assert!(report(&store) == expected, "killed after {k}: the report differs");
    }
}

#[test]
fn a_full_disk_ends_a_run_with_words_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = experiment(folder.path());
    let file = file.to_str().expect("the path is text");
    let sim = format!("{MODEL}:7");
    let whole = folder.path().join("whole.db");
    assert!(nearfar(&whole, &["run", file, "--sim", &sim, "--quiet"]).status.success());
    // Room for about half of its trials: between a file with one and the whole.
    let one = folder.path().join("one.db");
    nearfar(&one, &["run", file, "--sim", &sim, "--sim-faults", "kill-after=1", "--quiet"]);
    assert_eq!(trials(&one), 1);
    let room = format!("disk={}B", u64::midpoint(size(&one), size(&whole)));
    let store = folder.path().join("r.db");
    let full = nearfar(&store, &["run", file, "--sim", &sim, "--sim-faults", &room, "--quiet"]);
    let said = String::from_utf8_lossy(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{said}");
    assert!(said.contains("no space left on the disk") && said.contains("r.db"), "{said}");
    let stored = trials(&store);
    assert!((1..15).contains(&stored), "{stored} trials: the disk should be full in the middle of the run");
    assert!(nearfar(&store, &["run", file, "--sim", &sim, "--quiet"]).status.success());
    assert_eq!(trials(&store), 15);
    assert!(report(&store) == report(&whole), "with room again it ends as if nothing had happened");
}

#[test]
fn a_run_killed_again_and_again_ends() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = experiment(folder.path());
    let file = file.to_str().expect("the path is text");
    let sim = format!("{MODEL}:7");
    let store = folder.path().join("r.db");
    let mut kills = 0;
    while !nearfar(&store, &["run", file, "--sim", &sim, "--sim-faults", "kill-after=2", "--quiet"]).status.success() {
        kills += 1;
        assert!(kills < 20, "it must get on");
    }
    assert_eq!(kills, 7, "fifteen trials, two at a time");
    assert_eq!(trials(&store), 15);
}
