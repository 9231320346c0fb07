//! Stamps of results that say nothing about a machine: every output of a simulated run has one, and so has every output
//! of a smoke test, which is never the latest run while there is another.

mod results_dir;

use std::path::Path;

use serde_json::Value;

use crate::results_dir::{json, nearfar, stdout};

/// A simulated machine with SMT and two memory nodes.
const SIM: &str = "pack:2 [numa] core:2 pu:2:7";

#[test]
fn every_output_of_a_simulated_run_is_stamped() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let measure = ["measure", "dhrystone", "--sim", SIM, "-r", "8", "--placement", "kernel", "--placement", "one-core"];
    let measured = stdout(dir, &measure);
    assert!(measured.contains("SIMULATED on pack:2"), "{measured}");
    assert!(measured.matches("SIMULATED").count() == 2, "the table and the comparison are stamped: {measured}");
    let report = dir.join("report.html");
    stdout(dir, &["report", "-o", report.to_str().expect("a path")]);
    let report = std::fs::read_to_string(report).expect("the report exists");
    assert!(report.contains("<strong>Simulated.</strong>") && report.contains("SIMULATED on pack:2"), "{report}");
    for args in [
        &["show"][..],
        &["show", "--all-metrics"],
        &["show", "--trials"],
        &["show", "--runs"],
        &["show", "--format", "markdown"],
        &["show", "--format", "csv"],
        &["compare"],
        &["compare", "--format", "markdown"],
        &["compare", "--format", "csv"],
        &["compare", "--format", "html"],
        &["compare", "--format", "svg"],
        &["compare", "--index", "unixbench", "--format", "html"],
        &["compare", "--index", "unixbench", "--format", "svg"],
        &["compare", "--index", "unixbench"],
        &["compare", "--index", "unixbench", "--format", "markdown"],
        &["compare", "--index", "unixbench", "--format", "csv"],
        &["export", "--format", "csv"],
        &["export", "--format", "openmetrics"],
    ] {
        let text = stdout(dir, args);
        let stamped = ["simulated", "SIMULATED", "Simulated: "].iter().any(|word| text.contains(word));
        assert!(stamped, "{args:?}: {text}");
    }
    for args in [&["show"][..], &["show", "--trials"], &["compare"], &["compare", "--index", "unixbench"], &["export"]]
    {
        let shown = json(dir, args);
        assert_eq!((&shown["simulated"], &shown["smoke"]), (&true.into(), &false.into()), "{args:?}");
    }
    let csv = stdout(dir, &["compare", "--format", "csv"]);
    let (header, rows) = csv.split_once('\n').expect("a header");
    let columns: Vec<&str> = header.split(',').collect();
    let at = columns.iter().position(|column| *column == "simulated").expect("the column exists");
    assert_eq!(columns[at + 1], "smoke");
    let stamp = |row: &str| row.split(',').skip(at).take(2).collect::<Vec<_>>() == ["true", "false"];
    assert!(rows.lines().all(stamp), "{csv}");
    stdout(dir, &["measure", "queens", "--sim", SIM, "-r", "3", "--quiet"]);
    let hyperfine = stdout(dir, &["export", "--format", "hyperfine"]);
    assert!(hyperfine.contains("\"simulated\"") && hyperfine.contains("pack:2"), "{hyperfine}");
}

#[test]
fn answers_and_maps_of_simulated_machines_are_stamped() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let place = ["place", "--sim", SIM, "--only", "one-core", "--max-trials", "40"];
    let answer = nearfar(dir, &[&place[..], &["--", "app"]].concat());
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.starts_with("! SIMULATED on pack:2") || answer.starts_with("SIMULATED on pack:2"), "{answer}");
    assert_eq!(json(dir, &["show"])["simulated"], true);
    let map = ["map", "--measure", "--sim", SIM];
    assert_eq!(json(dir, &map)["simulated"], true);
    for format in ["text", "csv", "svg", "numactl"] {
        let text = stdout(dir, &["map", "--run", "latest", "--format", format]);
        assert!(["SIMULATED", "simulated", "Simulated: "].iter().any(|word| text.contains(word)), "{format}: {text}");
    }
}

/// The figures of a smoke test are shown, its differences are not.
#[test]
fn smoke_tests_are_stamped_and_claim_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let run = stdout(dir, &["run", "quick", "--sim", SIM, "--smoke"]);
    assert!(run.contains("SMOKE TEST: the sizes are too small"), "{run}");
    let compared = json(dir, &["compare"]);
    assert_eq!(compared["smoke"], true);
    let rows = compared["rows"].as_array().expect("rows");
    let values = rows.iter().flat_map(|row| row["values"].as_object().expect("values").values());
    let claims =
        |value: &Value| ["ci_low", "ci_high", "difference", "p_value"].iter().any(|name| !value[name].is_null());
    assert!(!rows.is_empty() && !values.clone().any(claims), "{compared:#}");
    assert!(values.clone().any(|value| value["change_percent"].is_f64()), "{compared:#}");
    let text = stdout(dir, &["compare"]);
    assert!(text.contains("SMOKE TEST") && !text.contains("no difference seen"), "{text}");
    let report = dir.join("report.html");
    stdout(dir, &["report", "-o", report.to_str().expect("a path")]);
    let report = std::fs::read_to_string(report).expect("the report exists");
    assert!(report.contains("<strong>Smoke test.</strong>"), "{report}");
    let survey = stdout(dir, &["fleet", "compare"]);
    assert!(survey.contains("SMOKE TEST") && survey.contains("the runs are smoke tests"), "{survey}");
}

#[test]
fn smoke_test_is_not_the_latest_run() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let ids = |dir: &Path| -> Vec<(String, bool)> {
        let runs = json(dir, &["show", "--runs"]);
        let runs = runs["runs"].as_array().expect("runs").iter();
        runs.map(|run| (run["id"].as_str().expect("an id").into(), run["smoke"] == true)).collect()
    };
    let measure = |extra: &[&str]| {
        stdout(dir, &[&["measure", "queens", "--sim", SIM, "-r", "6", "--quiet"][..], extra].concat());
    };
    measure(&["--smoke"]);
    assert_eq!(json(dir, &["show"])["smoke"], true, "the only run is the latest");
    measure(&["--set", "n=13"]);
    measure(&["--smoke", "--set", "n=11"]);
    let runs = ids(dir);
    assert_eq!(runs.iter().map(|(_, smoke)| *smoke).collect::<Vec<_>>(), [true, false, true]);
    let shown = json(dir, &["show"]);
    assert_eq!((&shown["run"]["id"], &shown["smoke"]), (&runs[1].0.clone().into(), &false.into()));
    assert_eq!(json(dir, &["show", &runs[2].0])["smoke"], true, "a smoke test can be named");
    let by_host = json(dir, &["compare", "--by", "run"]);
    assert_eq!(by_host["columns"].as_array().map(Vec::len), Some(1), "smoke tests are not compared: {by_host:#}");
    let report = dir.join("report.html");
    stdout(dir, &["report", "-o", report.to_str().expect("a path")]);
    let report = std::fs::read_to_string(report).expect("the report exists");
    assert!(!report.contains("Smoke test"), "the report has the latest run of each experiment");
}
