//! `nearfar gate` from the command line: on the simulator, and with real commands.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");

fn run(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).env_remove("NEARFAR_STORE");
    command.env("NEARFAR_STATE", store.with_extension("state"));
    command.output().expect("the program starts")
}

/// Runs a gate and returns its result as JSON, and the exit status.
fn gate(store: &Path, flags: &[&str], commands: &[&str]) -> (Value, i32) {
    let args = [&["gate", "--quiet", "--format", "json"], flags, &["--"], commands].concat();
    let output = run(store, &args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {stderr}"));
    (json, output.status.code().expect("no signal ended the process"))
}

#[test]
fn equal_commands_pass_on_the_simulated_machine() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODEL}:1");
    let flags = ["--sim", &sim, "--budget", "10h", "--placement", "one-core"];
    let (json, status) = gate(&dir.path().join("r.db"), &flags, &["./app", ":::", "./app"]);
    assert_eq!((json["verdict"].as_str(), status), (Some("passed"), 0), "{json:#}");
    assert_eq!(json["placement"], "one-core");
    let pairs = json["pairs"].as_u64().expect("a number");
    assert!((8..=200).contains(&pairs), "{json:#}");
    assert!(json["ci_low"].as_f64() <= json["slower_percent"].as_f64(), "{json:#}");
    assert_eq!(json["candidate"]["name"], "./app (2)", "equal commands are distinguished");
}

#[test]
fn budget_ends_an_undecided_gate() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODEL}:1");
    let flags = ["--sim", &sim, "--budget", "30s"];
    let (json, status) = gate(&dir.path().join("r.db"), &flags, &["./app", ":::", "./app"]);
    assert_eq!((json["verdict"].as_str(), status), (Some("undecided"), 3), "{json:#}");
    let pairs = json["pairs"].as_u64().expect("a number");
    assert!((1..8).contains(&pairs), "a simulated trial takes seconds: {json:#}");
}

#[test]
fn failing_candidate_has_no_verdict() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let flags = ["--budget", "1m", "-n", "old", "-n", "new"];
    let (json, status) = gate(&dir.path().join("r.db"), &flags, &["true", ":::", "false"]);
    assert_eq!((json["verdict"].as_str(), status), (Some("invalid"), 4), "{json:#}");
    assert_eq!((json["baseline"]["name"].as_str(), json["candidate"]["name"].as_str()), (Some("old"), Some("new")));
    let reason = json["candidate"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("status 1"), "{reason}");
}

#[test]
fn real_slowdown_of_half_is_found_and_exported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| dir.path().join(name);
    let [junit, markdown] = [file("gate.xml"), file("gate.md")];
    let exports = ["--export-junit", junit.to_str().unwrap(), "--export-markdown", markdown.to_str().unwrap()];
    let flags = [&["--metric", "value ([0-9]+)", "--warmup", "0"], &exports[..]].concat();
    let (json, status) = gate(&file("r.db"), &flags, &["echo", "value", "100", ":::", "echo", "value", "150"]);
    assert_eq!((json["verdict"].as_str(), status), (Some("failed"), 1), "{json:#}");
    assert!((json["slower_percent"].as_f64().expect("a number") - 50.0).abs() < 1e-6, "{json:#}");
    let junit = std::fs::read_to_string(junit).expect("the file was written");
    assert!(junit.contains("failures=\"1\"") && junit.contains("<failure message=\"failed: echo value 150"), "{junit}");
    let markdown = std::fs::read_to_string(markdown).expect("the file was written");
    assert!(markdown.starts_with("**failed: echo value 150 is 50.0 % worse than echo value 100"), "{markdown}");
}

/// Measures the command in runs with these seeds, whose samples differ.
fn measure_baseline(store: &Path, seeds: std::ops::Range<u32>) {
    for seed in seeds {
        let sim = format!("{MODEL}:{seed}");
        let output = run(store, &["measure", "command", "--quiet", "--sim", &sim, "-r", "12", "--", "./app"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn candidate_is_compared_with_stored_runs() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    measure_baseline(&store, 1..2);
    let sim = format!("{MODEL}:9");
    let flags = ["--baseline", "latest", "--sim", &sim, "--budget", "10h", "--max-slower", "20%"];
    let (json, status) = gate(&store, &flags, &["./app"]);
    assert_eq!((json["verdict"].as_str(), status), (Some("undecided"), 3), "a single run of the baseline: {json:#}");
    assert_eq!((&json["stored"]["trials"], &json["stored"]["candidate_trials"]), (&12.into(), &12.into()), "{json:#}");

    measure_baseline(&store, 2..8);
    let (json, status) = gate(&store, &flags, &["./app"]);
    assert_eq!(json["stored"]["other_runs"], 6, "{json:#}");
    assert_eq!((json["verdict"].as_str(), status), (Some("passed"), 0), "{json:#}");
    let baseline = json["baseline"]["name"].as_str().expect("a name");
    assert!(baseline.starts_with("run "), "{baseline}");

    // The same from another results file, with two of its runs.
    let [one, two] = [2, 5].map(|back| {
        let runs = run(&store, &["show", "--runs", "--format", "json"]);
        let runs: Value = serde_json::from_slice(&runs.stdout).expect("show prints JSON");
        let runs: Vec<String> = (runs["runs"].as_array().expect("a list").iter())
            .filter(|run| run["experiment"] != "gate")
            .map(|run| run["id"].as_str().expect("an ID").to_string())
            .collect();
        runs[runs.len() - back].clone()
    });
    let file = store.to_str().expect("plain text");
    let flags = [&["--baseline-ref", file, "--baseline", &one][..], &flags[..2], &flags[2..]].concat();
    let flags: Vec<&str> = flags.iter().map(|flag| if *flag == "latest" { two.as_str() } else { flag }).collect();
    let (json, status) = gate(&dir.path().join("other.db"), &flags, &["./app"]);
    assert_eq!((json["verdict"].as_str(), status), (Some("passed"), 0), "{json:#}");
    assert_eq!(json["stored"]["runs"], serde_json::json!([one, two]));
    assert_eq!(json["stored"]["trials"], 24);
}

#[test]
fn unsuitable_stored_baselines_are_usage_errors() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    measure_baseline(&store, 1..2);
    let sim = format!("{MODEL}:9");
    for (args, message) in [
        (&["--baseline", "latest", "--sim", &sim, "--", "./app", ":::", "./app"][..], "expected one command, found 2"),
        (&["--baseline", "latest", "--", "true"], "simulated and real results are never compared"),
        (&["--baseline", "nothing", "--sim", &sim, "--", "./app"], "nothing"),
        (
            &["--baseline", "latest", "--placement", "one-core", "--sim", &sim, "--", "./app"],
            "under placement one-core",
        ),
        (&["--baseline-ref", "/no/such/file", "--sim", &sim, "--", "./app"], "/no/such/file"),
    ] {
        let output = run(&store, &[&["gate"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}

#[test]
fn invalid_gates_are_usage_errors() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (args, message) in [
        (&["--", "true"][..], "expected two commands"),
        (&["--", "true", ":::", "true", ":::", "true"], "found 3"),
        (&["--", "true", ":::"], "is empty"),
        (&["--max-slower", "3", "--", "true", ":::", "true"], "--max-slower"),
        (&["--error-rate", "50%", "--", "true", ":::", "true"], "below 50%"),
        (&["--budget", "0s", "--", "true", ":::", "true"], "greater than zero"),
    ] {
        let output = run(&dir.path().join("r.db"), &[&["gate"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}
