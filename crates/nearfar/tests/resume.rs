//! Runs on the simulator that are killed after every k-th trial resume and produce the same report.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).env_remove("NEARFAR_STORE").output().expect("the program starts")
}

/// Writes an experiment small enough to be killed at each of its trials.
fn experiment(dir: &Path) -> PathBuf {
    let path = dir.join("small.toml");
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
    std::fs::write(&path, text).expect("the directory is writable");
    path
}

fn report(store: &Path) -> Vec<u8> {
    let output = nearfar(store, &["report", "--output", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn size(store: &Path) -> u64 {
    // A writer moves the WAL of a killed run into the file when it closes it; a reader changes nothing.
    drop(store::Store::open(store).expect("the results file opens"));
    std::fs::metadata(store).expect("the results file exists").len()
}

fn trials(store: &Path) -> usize {
    let output = nearfar(store, &["show", "--trials", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("show prints JSON");
    json["trials"].as_array().expect("trials is a list").len()
}

#[test]
fn run_killed_after_every_kth_trial_has_the_same_report() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = experiment(dir.path());
    let file = file.to_str().expect("the path is UTF-8");
    let sim = format!("{MODEL}:7");
    let whole = dir.path().join("whole.db");
    assert!(nearfar(&whole, &["run", file, "--sim", &sim, "--quiet"]).status.success());
    let (expected, total) = (report(&whole), trials(&whole));
    assert_eq!(total, 3 * (1 + 4), "three cells, one warm-up block and four measured");

    for k in 1..total {
        let store = dir.path().join(format!("killed-{k}.db"));
        let faults = format!("kill-after={k}");
        let killed = nearfar(&store, &["run", file, "--sim", &sim, "--sim-faults", &faults, "--quiet"]);
        assert!(!killed.status.success(), "it must be killed after trial {k}");
        assert_eq!(trials(&store), k, "stored trials remain");
        assert!(nearfar(&store, &["run", file, "--sim", &sim, "--quiet"]).status.success());
        assert_eq!(trials(&store), total, "killed after {k}: no trial is lost or repeated");
        assert!(report(&store) == expected, "killed after {k}: the report differs");
    }
}

#[test]
fn full_disk_ends_the_run_with_an_error_and_loses_no_trial() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = experiment(dir.path());
    let file = file.to_str().expect("the path is UTF-8");
    let sim = format!("{MODEL}:7");
    let whole = dir.path().join("whole.db");
    assert!(nearfar(&whole, &["run", file, "--sim", &sim, "--quiet"]).status.success());
    // Space for about half of the trials: the mean of the sizes with one trial and with all.
    let one = dir.path().join("one.db");
    nearfar(&one, &["run", file, "--sim", &sim, "--sim-faults", "kill-after=1", "--quiet"]);
    assert_eq!(trials(&one), 1);
    let disk = format!("disk={}B", u64::midpoint(size(&one), size(&whole)));
    let store = dir.path().join("r.db");
    let full = nearfar(&store, &["run", file, "--sim", &sim, "--sim-faults", &disk, "--quiet"]);
    let stderr = String::from_utf8_lossy(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no space left on the disk") && stderr.contains("r.db"), "{stderr}");
    let stored = trials(&store);
    assert!((1..15).contains(&stored), "{stored} trials: the disk must become full during the run");
    assert!(nearfar(&store, &["run", file, "--sim", &sim, "--quiet"]).status.success());
    assert_eq!(trials(&store), 15);
    assert!(report(&store) == report(&whole), "the resumed run has the same report");
}

#[test]
fn run_killed_repeatedly_completes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = experiment(dir.path());
    let file = file.to_str().expect("the path is UTF-8");
    let sim = format!("{MODEL}:7");
    let store = dir.path().join("r.db");
    let mut kills = 0;
    while !nearfar(&store, &["run", file, "--sim", &sim, "--sim-faults", "kill-after=2", "--quiet"]).status.success() {
        kills += 1;
        assert!(kills < 20, "every attempt must make progress");
    }
    assert_eq!(kills, 7, "fifteen trials, two at a time");
    assert_eq!(trials(&store), 15);
}

/// Writes a capture of the model with these settings. All captures have the same name, as those of one machine.
fn capture(dir: &Path, facts: &[(&str, &str)]) -> String {
    let output = nearfar(&dir.join("unused.db"), &["map", "--from", MODEL, "--format", "capture"]);
    let mut capture: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a capture is JSON");
    let fact = |(key, value): &(&str, &str)| serde_json::json!({ "key": key, "value": value });
    capture["settings"] = facts.iter().map(fact).collect();
    std::fs::create_dir_all(dir).expect("the directory is writable");
    std::fs::write(dir.join("box.json"), capture.to_string()).expect("the directory is writable");
    format!("{}:7", dir.join("box.json").display())
}

#[test]
fn changed_machine_is_explained_and_its_run_can_be_resumed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = experiment(dir.path());
    let (file, store) = (file.to_str().expect("the path is UTF-8"), dir.path().join("r.db"));
    let facts = |swap, thp| [("cpu.model", "a"), ("memory.swap-total-bytes", swap), ("memory.thp", thp)];
    let before = capture(&dir.path().join("before"), &facts("0", "never"));
    let with_swap = capture(&dir.path().join("swap"), &facts("64", "never"));
    let changed = capture(&dir.path().join("changed"), &facts("0", "always"));
    let run = |sim: &str, flags: &[&str]| nearfar(&store, &[&["run", file, "--sim", sim], flags].concat());
    let stderr = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let id = |output: &Output| {
        let text = stderr(output);
        text.rsplit("run ").find_map(|rest| rest.split_once(':')).expect("the run is named").0.to_string()
    };

    run(&before, &["--sim-faults", "kill-after=2"]);
    let other = run(&changed, &["--sim-faults", "kill-after=1"]);
    let text = stderr(&other);
    assert!(text.contains("memory.thp: never then, always now"), "{text}");
    assert!(text.contains("hint: to resume it in spite of the changes, use --resume "), "{text}");
    let named = text.rsplit("--resume ").next().and_then(|rest| rest.split_whitespace().next()).expect("a run");
    let resumed = run(&with_swap, &[]);
    assert!(stderr(&resumed).contains(&format!("resuming run {named}")), "{}", stderr(&resumed));
    assert_eq!(id(&resumed), named, "the size of the swap does not matter");

    let ended = run(&changed, &["--resume", named]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(stderr(&ended).contains("the run has ended"), "{}", stderr(&ended));
    run(&before, &["--fresh", "--sim-faults", "kill-after=2"]);
    let listed = nearfar(&store, &["show", "--runs", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("show prints JSON");
    let newest = listed["runs"].as_array().and_then(|runs| runs.last()).expect("a run")["id"].as_str().expect("an ID");
    let resumed = run(&changed, &["--resume", newest]);
    assert!(resumed.status.success() && id(&resumed) == newest, "{}", stderr(&resumed));
}
