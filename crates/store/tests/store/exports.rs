//! What other programs get.

use model::record::{RunId, RunRecord, TrialRecord};
use serde_json::Value;
use store::Store;
use store::export::{self, ExportError};

use crate::fixtures;

fn exported(
    trials: u32,
    samples: usize,
    with: fn(&Store, &RunId, &mut dyn std::io::Write) -> Result<(), ExportError>,
) -> Result<String, ExportError> {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(&directory.path().join("results.db")).unwrap();
    let run = run();
    store.begin_run(&run).unwrap();
    (0..trials).for_each(|position| store.add_trial(&run.id, &fixtures::trial(&run, position, samples)).unwrap());
    let mut bytes = Vec::new();
    with(&store, &run.id, &mut bytes).map(|()| String::from_utf8(bytes).unwrap())
}

fn run() -> RunRecord {
    RunRecord { host: Some("board, left".into()), simulated: Some("box.json:7".into()), ..fixtures::run("aa", 1) }
}

#[test]
fn csv_has_a_row_per_sample_and_per_trial_without() {
    insta::assert_snapshot!(exported(3, 2, export::csv).unwrap());
    let text = exported(20, 0, export::csv).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 20, "trials without samples have a row");
    let field = |row: usize, name: &str| {
        let index = text.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
        rows[row][index].to_string()
    };
    assert_eq!((field(16, "status"), field(16, "why")), ("unavailable".into(), "no node 1".into()));
    assert_eq!((field(16, "verdict"), field(16, "value")), ("invalid".into(), String::new()));
    assert_eq!((field(13, "test"), field(13, "placement")), ("stream \"1\"".into(), "one, core".into()));
}

#[test]
fn json_has_everything() {
    let text = exported(30, 4, export::json).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["format"], &json["version"]), (&Value::from("nearfar-run"), &Value::from(1)));
    let loaded: RunRecord = serde_json::from_value(json["run"].clone()).unwrap();
    assert_eq!(loaded, run());
    let trials: Vec<TrialRecord> = serde_json::from_value(json["trials"].clone()).unwrap();
    assert_eq!(trials, (0..30).map(|position| fixtures::trial(&run(), position, 4)).collect::<Vec<_>>());
    assert_eq!(json["finding"]["cells"].as_array().unwrap().len(), fixtures::CELLS);
    assert_eq!(json["finding"]["skipped"][0]["why"], "one memory node");
}

#[test]
fn hyperfine_json_has_hyperfines_fields() {
    let text = exported(40, 4, export::hyperfine).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), fixtures::CELLS);
    let entry = &results[0];
    // The fields of hyperfine 1.15 in its order, and the one that 1.19 added.
    let names: Vec<&String> = entry.as_object().unwrap().keys().collect();
    let expected = [
        "command",
        "mean",
        "stddev",
        "median",
        "user",
        "system",
        "min",
        "max",
        "times",
        "memory_usage_byte",
        "exit_codes",
        "parameters",
    ];
    assert_eq!(names, expected);
    // Measured trials of cell 0 are at positions 12, 24 and 36; the wall time is sqrt(position) + 1/4 ms.
    let times: Vec<f64> = entry["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    let exact = [12_f64, 24.0, 36.0].map(|position| (position.sqrt() + 0.25) / 1000.0);
    assert!(times.len() == 3 && times.iter().zip(exact).all(|(time, exact)| (time - exact).abs() < 1e-12), "{times:?}");
    let near = |name: &str, expected: f64| {
        let value = entry[name].as_f64().unwrap();
        assert!((value - expected).abs() < 1e-9, "{name}: {value}, expected {expected}");
    };
    // mean and sd of 3.7141, 5.1490 and 6.25 ms by Python's statistics module.
    near("mean", 0.005_037_693_700);
    near("stddev", 0.001_271_606_680);
    near("median", exact[1]);
    near("min", exact[0]);
    near("max", exact[2]);
    near("user", 4.787_693_700 + 0.2);
    assert_eq!(entry["system"], Value::Null);
    assert_eq!(entry["exit_codes"], serde_json::json!([0, 0, 0]));
    assert_eq!(entry["memory_usage_byte"][2], Value::from(((6.0 + 1.0 / 6.0) * 1_048_576.0_f64).round() as u64));
    assert_eq!(entry["command"], "stream \"0\" @ kernel");
    assert_eq!(entry["parameters"]["size"], "1KiB");
    assert_eq!(entry["parameters"]["simulated"], "box.json:7");
    assert_eq!(results[1]["parameters"]["placement"], "one, core");
}

#[test]
fn without_times_hyperfine_json_is_refused() {
    let error = exported(30, 1, export::hyperfine).unwrap_err();
    assert!(error.to_string().ends_with("\nhint: export it as csv or json"), "{error}");
}

#[test]
fn a_run_that_is_not_there_is_not_exported() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("results.db")).unwrap();
    let error = export::csv(&store, &RunId("aa".into()), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("has no run 'aa'"), "{error}");
}

/// A pipe that is closed at once, as by `| head`.
struct Closed;

impl std::io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_an_error_and_not_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(&directory.path().join("results.db")).unwrap();
    let run = run();
    store.begin_run(&run).unwrap();
    (0..30).for_each(|position| store.add_trial(&run.id, &fixtures::trial(&run, position, 4)).unwrap());
    for with in [export::csv, export::json, export::hyperfine] {
        let error = with(&store, &run.id, &mut Closed).unwrap_err();
        assert!(
            matches!(&error, ExportError::Write(error) if error.kind() == std::io::ErrorKind::BrokenPipe),
            "{error:?}"
        );
    }
}
