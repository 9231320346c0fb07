//! Content of exported files: the rows of the CSV export, and facts of the machine.

use std::fs::File;

use model::values::record::{EndReason, RunId, RunRecord};
use model::values::units::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use store::export;

use crate::fixtures;
use crate::parquet::{export, files, rows, stored};

fn run() -> RunRecord {
    let host = Some("board, left".into());
    RunRecord { host, simulated: Some("box.json:7".into()), ended: Some(EndReason::Precise), ..fixtures::run("aa", 1) }
}

/// A cell formatted as in the CSV export.
fn plain(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) | Field::TimestampMillis(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => panic!("unexpected cell {other:?}"),
    }
}

/// Compares with the CSV export column by column, except for the columns in the directory names.
#[test]
fn rows_equal_those_of_the_csv_export() {
    for (trials, samples) in [(40, 4), (20, 0), (1, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let store = stored(dir.path(), &run(), trials, samples);
        let mut text = Vec::new();
        export::csv(&store, &run().id, &mut text).unwrap();
        let written = export(&store, &run().id, dir.path());
        let rows = rows(&written.path);
        let mut reader = csv::Reader::from_reader(&text[..]);
        let columns = reader.headers().unwrap().clone();
        let expected: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!((rows.len(), written.rows), (expected.len(), expected.len()));
        for (row, expected) in rows.iter().zip(&expected) {
            for (column, cell) in columns.iter().zip(expected) {
                let name = if column == "started_unix_ms" { "trial_started" } else { column };
                match name {
                    // Parquet has the command line, in `plan_json`.
                    "smoke" => {}
                    "experiment" => assert!(written.path.to_str().unwrap().contains(&format!("/experiment={cell}/"))),
                    _ => assert_eq!(plain(&row[name]), cell, "{name}"),
                }
            }
        }
    }
}

#[test]
fn row_has_the_facts_of_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run();
    run.machine.settings.record("cpu.microcode", model::values::settings::FactValue::Known("0x2b".into()));
    let node = model::values::topology::MemoryNode {
        os: model::values::id_set::NodeId(0),
        cpus: model::values::id_set::CpuSet::parse_list("0").unwrap(),
        bytes: Bytes(16 << 30),
        subtype: None,
    };
    run.machine.topology.nodes = vec![node];
    let store = stored(dir.path(), &run, 13, 2);
    let rows = rows(&export(&store, &run.id, dir.path()).path);
    let cell = |name: &str| plain(&rows[25][name]);
    let expected = [
        ("cpu_model", "Test cpu 9000"),
        ("microcode", "0x2b"),
        ("kernel", "6.18.0"),
        ("governor", ""),
        ("machine_cpus", "1"),
        ("cores", "1"),
        ("memory_nodes", "1"),
        ("memory_bytes", "17179869184"),
        ("run_started", "1790000000000"),
        ("ended", "precise"),
        ("better", "lower"),
        ("series", "wall"),
        ("settings", r#"{"cpu.microcode":"0x2b","cpu.model":"Test cpu 9000","kernel.release":"6.18.0"}"#),
        ("cell", "0"),
        ("seed", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(cell(name), value, "{name}");
    }
    assert_eq!(cell("settings_fingerprint"), run.machine.settings.fingerprint());
    assert_eq!(cell("plan"), run.plan.key());
    let facts: model::values::settings::Settings = serde_json::from_str(&cell("facts")).unwrap();
    assert_eq!(facts, run.machine.settings, "those that are not known too, in their order");
    // Texts for readers are omitted, but nothing that identifies the plan.
    let plan: model::values::plan::Plan = serde_json::from_str(&cell("plan_json")).unwrap();
    assert_eq!(plan.key(), run.plan.key());
    assert_eq!(plan.workloads[0].metrics, run.plan.workloads[0].metrics);
    assert!(plan.cells.iter().all(|cell| cell.placement.reason.is_empty()));
}

#[test]
fn directories_are_day_experiment_and_machine() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/here");
    let store = stored(dir.path(), &run(), 3, 1);
    let written = export(&store, &run().id, &out);
    let name = "date=2026-09-21/experiment=bandwidth/machine=simulated-test-cpu-9000-0p1c1t0n/aa.parquet";
    assert_eq!(written.path, out.join(name));
    let real = RunRecord { simulated: None, ..run() };
    let store = stored(&dir.path().join("real"), &real, 3, 1);
    let path = export(&store, &real.id, &out).path;
    assert!(path.starts_with(out.join("date=2026-09-21/experiment=bandwidth/machine=test-cpu-9000-0p1c1t0n")));
}

/// A results file may come from anywhere: its names must not escape the directory.
#[test]
fn names_cannot_escape_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut run = RunRecord { id: RunId("../../aa".into()), ..run() };
    run.plan.experiment = "../../../a=b c".into();
    let store = stored(dir.path(), &run, 2, 1);
    let path = export(&store, &run.id, &out).path;
    let experiment = "experiment=%2E.%2F..%2F..%2Fa%3Db%20c";
    let machine = "machine=simulated-test-cpu-9000-0p1c1t0n";
    assert_eq!(path, out.join(format!("date=2026-09-21/{experiment}/{machine}/%2E.%2F..%2Faa.parquet")));
    assert_eq!(files(&out).len(), 1);
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let about = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let value = |key: &str| about.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).unwrap();
    assert_eq!(value("nearfar.experiment"), "../../../a=b c");
    assert_eq!((value("nearfar.schema"), value("nearfar.date")), ("2".into(), "2026-09-21".into()));
}

#[test]
fn run_without_trials_has_a_file_without_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = stored(dir.path(), &run(), 0, 0);
    let written = export(&store, &run().id, dir.path());
    assert_eq!((written.rows, rows(&written.path).len()), (0, 0));
    let missing = export::parquet(&store, &RunId("bb".into()), dir.path()).unwrap_err().to_string();
    assert!(missing.contains("has no run 'bb'"), "{missing}");
}
