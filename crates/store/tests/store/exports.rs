//! Exports in every format.

use model::hint::Hinted;
use model::values::record::{RunId, RunRecord, TrialRecord};
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
fn csv_has_a_row_per_sample_and_per_trial_without_samples() {
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
fn json_has_the_whole_run() {
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
fn hyperfine_json_has_the_fields_of_hyperfine() {
    let text = exported(40, 4, export::hyperfine).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), fixtures::CELLS);
    let entry = &results[0];
    // The fields of hyperfine 1.15 in its order, and the field that 1.19 added.
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
    // Mean and standard deviation of 3.7141, 5.1490 and 6.25 ms, computed with Python's statistics module.
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
fn hyperfine_json_without_times_returns_an_error() {
    let error = exported(30, 1, export::hyperfine).unwrap_err();
    assert!(error.text_with_hint().ends_with("\nhint: export it as csv or json"), "{error}");
}

#[test]
fn hyperfine_json_can_be_imported_again() {
    let text = exported(40, 4, export::hyperfine).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("times.json");
    std::fs::write(&file, &text).unwrap();
    let store::import::ImportFormat::Report(report, format) = store::import::read(&file, None).unwrap() else {
        panic!("not a report")
    };
    assert_eq!(format, "hyperfine");
    let json: Value = serde_json::from_str(&text).unwrap();
    let results = json["results"].as_array().unwrap();
    // Each has a time and a user time; the system time is not measured.
    assert_eq!(report.rows.len(), 2 * results.len());
    for (rows, result) in report.rows.chunks(2).zip(results) {
        assert_eq!((rows[0].metric.as_str(), rows[1].metric.as_str()), ("time", "user"));
        assert_eq!(rows[0].values[0], result["median"].as_f64());
        let times: Vec<f64> = result["times"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(rows[0].samples, [times]);
        assert_eq!(Value::from(rows[0].test.clone()), result["command"]);
    }
}

#[test]
fn openmetrics_text_is_well_formed() {
    let text = exported(40, 4, export::openmetrics).unwrap();
    assert!(text.ends_with("\n# EOF\n") && !text.contains("\n\n"));
    let mut seen = std::collections::HashSet::new();
    let mut family = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# ") {
            let (kind, rest) = rest.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            match kind {
                "HELP" => assert!(seen.insert(name.to_string()), "a family is in one piece: {name}"),
                "TYPE" => assert_eq!((name, value), (family_of(&text, name).as_str(), "gauge")),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                _ => panic!("{line}"),
            }
            family = name.into();
        } else {
            let (name, labels, value) = sample(line);
            assert_eq!(name, family, "samples follow their family");
            assert!(name.starts_with("nearfar_") && plain(&name), "{name}");
            assert!(labels.iter().all(|(label, _)| plain(label)), "{line}");
            assert!(value.is_finite() && seen.insert(format!("{name}{labels:?}")), "{line}");
        }
    }
    let copy = text.lines().find(|line| line.starts_with("nearfar_stream_wall_seconds{")).unwrap();
    let (_, labels, value) = sample(copy);
    let label = |name: &str| labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str());
    assert_eq!(
        (label("test"), label("placement"), label("threads")),
        (Some("stream \"0\""), Some("kernel"), Some("2"))
    );
    assert_eq!((label("parameters"), label("experiment")), (Some("size=1KiB"), Some("bandwidth")));
    // As in hyperfine's JSON: the median of cell 0 is at position 24.
    assert!((value - (24_f64.sqrt() + 0.25) / 1000.0).abs() < 1e-12, "{value}");
    assert!(text.contains("nearfar_stream_copy_ci_low_bytes_per_second{"), "{text}");
    assert!(text.contains("verdict=\"invalid\"} 1\n"), "{text}");
}

fn family_of(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(&format!("# HELP {name} ")));
    line.map_or(String::new(), |_| name.to_string())
}

fn plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Parses `name{label="value",…} number`, with only the escapes of the format.
fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (name, rest) = line.split_once('{').unwrap();
    let mut labels = Vec::new();
    let mut rest = rest;
    loop {
        let (label, value) = rest.split_once("=\"").unwrap();
        let mut text = String::new();
        let mut letters = value.char_indices();
        let end = loop {
            match letters.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => text.push(match letters.next().unwrap().1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    other => panic!("\\{other}"),
                }),
                (_, letter) => text.push(letter),
            }
        };
        labels.push((label.to_string(), text));
        rest = &value[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    (name.into(), labels, rest.strip_prefix("} ").unwrap().parse().unwrap())
}

/// Checks the text with the strict parser of Prometheus' Python library, and with its parser of the older format, which
/// `node_exporter` reads.
#[test]
fn openmetrics_text_is_accepted_by_the_parsers_of_prometheus() {
    const SCRIPT: &str = "import sys\n\
        from prometheus_client.openmetrics import parser as strict\n\
        from prometheus_client import parser as old\n\
        text = sys.stdin.read()\n\
        families = list(strict.text_string_to_metric_families(text))\n\
        older = list(old.text_string_to_metric_families(text))\n\
        count = lambda families: sum(len(family.samples) for family in families)\n\
        print(len(families), count(families), count(older), {family.type for family in families})\n";
    let text = exported(40, 4, export::openmetrics).unwrap();
    let has = |python: &&&str| {
        let probe = std::process::Command::new(python).args(["-c", "import prometheus_client.openmetrics"]).output();
        probe.is_ok_and(|output| output.status.success())
    };
    // /usr/bin/python3 has Debian's packages, even if another python3 comes first in PATH.
    let Some(python) = ["python3", "/usr/bin/python3"].iter().find(has) else {
        println!(
            "skipped: openmetrics by its own parser: no Python with prometheus_client (python3-prometheus-client)"
        );
        return;
    };
    let mut child = std::process::Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{families} {samples} {samples} {{'gauge'}}"));
}

#[test]
fn missing_run_is_not_exported() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("results.db")).unwrap();
    let error = export::csv(&store, &RunId("aa".into()), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("has no run 'aa'"), "{error}");
}

/// A pipe that is closed immediately, as by `| head`.
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
fn closed_pipe_returns_an_error_without_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(&directory.path().join("results.db")).unwrap();
    let run = run();
    store.begin_run(&run).unwrap();
    (0..30).for_each(|position| store.add_trial(&run.id, &fixtures::trial(&run, position, 4)).unwrap());
    for with in [export::csv, export::json, export::hyperfine, export::openmetrics] {
        let error = with(&store, &run.id, &mut Closed).unwrap_err();
        assert!(
            matches!(&error, ExportError::Write(error) if error.kind() == std::io::ErrorKind::BrokenPipe),
            "{error:?}"
        );
    }
}
