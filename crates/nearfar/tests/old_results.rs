//! Compatibility with a results file that commit 9cba178 wrote: it opens, prints the same values as then, and its
//! unfinished run resumes. `fixtures/results-0.1/README.md` lists the commands that created it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/results-0.1");
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");

// Runs in the fixture: `run quick`, `place`, `measure`, and `run small.toml`, which was killed after seven trials.
const QUICK: &str = "8a5079efc998f779";
const PLACE: &str = "2f7b039b97e641f5";
const MEASURE: &str = "35a9ec9bd5121d50";
const SMALL: &str = "9ded389286712d87";

/// Keys that were renamed on purpose: old name, new name.
const RENAMED: [(&str, &str); 6] = [
    ("standings", "ranking"),
    ("thread_seats", "thread_bindings"),
    ("asked", "requested"),
    ("looks", "polls"),
    ("pilot_cpu", "controller_cpu"),
    ("fetched", "prefetched"),
];

fn fixture(name: &str) -> PathBuf {
    Path::new(FIXTURES).join(name)
}

/// Copies the results file, because opening it may change it.
fn store(dir: &Path) -> PathBuf {
    let copy = dir.join("results.db");
    std::fs::copy(fixture("results.db"), &copy).expect("the fixture can be copied");
    copy
}

fn nearfar(store: &Path, args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).args(["--format", "json"]).env_remove("NEARFAR_STORE");
    let output = command.env("NEARFAR_STATE", store.with_extension("state")).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {errors}"))
}

fn expected(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture(name)).expect("the fixture exists");
    serde_json::from_str(&text).expect("the fixture is JSON")
}

/// Applies [`RENAMED`] and removes the values that may change: the version of the program and prose that is composed
/// for the output. Prose that is stored in the results file stays.
fn contract(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(key, value)| match key.as_str() {
                "program" | "not_judged" => false,
                "machine" => !value.is_string(),
                "test" => !value.as_str().is_some_and(|text| text.starts_with("all ")),
                _ => true,
            });
            let renamed =
                |key: String| RENAMED.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| (*new).to_string());
            kept.map(|(key, value)| (renamed(key), contract(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(contract).collect(),
        other => other,
    }
}

/// Removes the reasons of placements, prose that may differ between versions.
fn without_reasons(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(key, _)| key != "reason");
            kept.map(|(key, value)| (key, without_reasons(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(without_reasons).collect(),
        other => other,
    }
}

#[track_caller]
fn assert_figures_unchanged(now: Value, name: &str) {
    let (now, then) = (without_reasons(contract(now)), without_reasons(contract(expected(name))));
    assert_no_difference(&then, &now, name);
}

#[track_caller]
fn assert_no_difference(then: &Value, now: &Value, name: &str) {
    let found = differences("", then, now);
    assert!(found.is_empty(), "{name} differs:\n{}", found.join("\n"));
}

#[track_caller]
fn assert_unchanged(now: Value, name: &str) {
    assert_no_difference(&contract(expected(name)), &contract(now), name);
}

/// Compares a comparison whose claims are removed, because it is of a smoke test. Changes are now those of the pairs
/// instead of the medians, and not compared.
#[track_caller]
fn assert_claims_removed(now: Value, name: &str) {
    const CLAIMS: [&str; 4] = ["ci_low", "ci_high", "difference", "p_value"];
    const CHANGES: [&str; 1] = ["change_percent"];
    let expected = with_null(contract(expected(name)), &[&CLAIMS[..], &CHANGES].concat());
    assert_no_difference(&expected, &with_null(contract(now), &CHANGES), name);
}

/// Replaces the values of these keys with null.
fn with_null(value: Value, keys: &[&str]) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = |(key, value): (String, Value)| {
                let value = if keys.contains(&key.as_str()) { Value::Null } else { with_null(value, keys) };
                (key, value)
            };
            fields.into_iter().map(kept).collect()
        }
        Value::Array(values) => values.into_iter().map(|value| with_null(value, keys)).collect(),
        other => other,
    }
}

/// Returns where the values differ. Later versions may add names to objects, which are ignored.
fn differences(path: &str, then: &Value, now: &Value) -> Vec<String> {
    match (then, now) {
        (Value::Object(one), Value::Object(other)) => {
            let below = |(key, value): (&String, &Value)| {
                differences(&format!("{path}.{key}"), value, other.get(key).unwrap_or(&Value::Null))
            };
            one.iter().flat_map(below).collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.flat_map(|(index, (then, now))| differences(&format!("{path}[{index}]"), then, now)).collect()
        }
        _ if then == now => Vec::new(),
        _ => vec![format!("{path}: was {then}, is {now}")],
    }
}

#[test]
fn old_results_file_prints_the_same_values() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = store(dir.path());
    assert_unchanged(nearfar(&store, &["show", "--runs"]), "runs.json");
    assert_unchanged(nearfar(&store, &["show", QUICK]), "show-run.json");
    assert_unchanged(nearfar(&store, &["show", PLACE]), "show-place.json");
    assert_unchanged(nearfar(&store, &["show", MEASURE]), "show-measure.json");
    assert_unchanged(nearfar(&store, &["show", "--trials", MEASURE]), "trials-measure.json");
    assert_claims_removed(nearfar(&store, &["compare", QUICK]), "compare-placement.json");
    let by_threads = nearfar(&store, &["compare", QUICK, "--all-metrics", "--by", "threads"]);
    assert_claims_removed(by_threads, "compare-threads.json");
    let table = |name| nearfar(&store, &["compare", "--by", "column", "--table", name]);
    assert_unchanged(table("ryzen-2600-ccx"), "compare-table.json");
    assert_unchanged(table("hyperfine-1.20.0"), "compare-report.json");
    assert_unchanged(nearfar(&store, &["fleet", "compare"]), "survey.json");
    assert_unchanged(nearfar(&store, &["export", MEASURE]), "export-measure.json");
}

#[test]
fn chosen_tests_are_compared_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = store(dir.path());
    let tests = |args: &[&str]| -> Vec<String> {
        let compared = nearfar(&store, &[&["compare", QUICK], args].concat());
        let rows = compared["rows"].as_array().expect("a list").clone();
        rows.iter().map(|row| row["test"].as_str().expect("text").to_owned()).collect()
    };
    let (all, chosen) = (tests(&[]), ["chase", "stream"]);
    let expected: Vec<String> = all.iter().filter(|test| chosen.contains(&test.as_str())).cloned().collect();
    assert!(!expected.is_empty() && expected.len() < all.len(), "{all:?}");
    assert_eq!(tests(&["--test", "chase", "--test", "stream"]), expected);
}

#[test]
fn old_unfinished_run_resumes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = store(dir.path());
    let trials = || nearfar(&store, &["show", "--trials", SMALL])["trials"].as_array().expect("a list").clone();
    let stored = trials();
    assert_eq!(stored.len(), 7);
    let (file, sim) = (fixture("small.toml"), format!("{MODEL}:7"));
    let args = ["run", file.to_str().expect("the path is text"), "--sim", &sim, "--quiet"];
    let resumed = nearfar(&store, &args);
    assert_eq!(resumed["run"]["id"], SMALL, "{resumed:#}");
    let all = trials();
    assert_eq!(all.len(), 15, "three cells, one warm-up block and four measured blocks");
    assert_eq!(all[..7], stored[..]);
    assert_unchanged(nearfar(&store, &["show", SMALL]), "show-resumed.json");
}

/// The same command on the same simulated machine gives the same ids, seeds, order and values as before.
#[test]
fn simulated_run_reproduces_old_figures() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("new.db");
    let sim = format!("{MODEL}:3");
    let placements = ["--placement", "kernel", "--placement", "expand:1GiB"];
    nearfar(&store, &[&["measure", "queens", "-r", "3", "--sim", &sim, "--quiet"], &placements[..]].concat());
    assert_figures_unchanged(nearfar(&store, &["show"]), "show-fresh.json");
    assert_unchanged(nearfar(&store, &["show", "--trials"]), "trials-fresh.json");
}
