//! `nearfar compare --from parquet:FOLDER`: the same as over the results file that was exported, and what it says of a folder that it
//! cannot read. Needs Parquet in the build to export, and `DuckDB`'s program to read.
#![cfg(feature = "parquet")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn nearfar(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("r.db")).args(args).current_dir(folder);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", folder.join("state"));
    command
}

fn output(folder: &Path, args: &[&str]) -> Output {
    nearfar(folder, args).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn done(folder: &Path, args: &[&str]) {
    let output = output(folder, args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
}

/// `DuckDB`'s program; none where there is none, which is said.
fn duckdb(test: &str) -> Option<PathBuf> {
    let program = std::env::var_os("NEARFAR_DUCKDB").map_or_else(|| PathBuf::from("duckdb"), PathBuf::from);
    let found = Command::new(&program).arg("-version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {test}: no duckdb (PyPI's duckdb-cli; NEARFAR_DUCKDB names one)");
    }
    found.then_some(program)
}

/// Has `DuckDB` do something in a folder.
fn sql(duckdb: &Path, folder: &Path, question: &str) {
    let asked = Command::new(duckdb).args(["-init", "/dev/null", "-c", question]).current_dir(folder).output();
    let asked = asked.expect("it has just answered");
    assert!(asked.status.success(), "{question}: {}", said(&asked));
}

/// This machine, with another kernel.
fn machine(folder: &Path, name: &str, kernel: &str) {
    let capture = output(folder, &["map", "--format", "capture"]);
    let mut capture: Value = serde_json::from_slice(&capture.stdout).expect("a capture is JSON");
    let facts = capture["settings"].as_array_mut().expect("a list of facts");
    facts.retain(|fact| fact["key"] != "kernel.release");
    facts.push(serde_json::json!({ "key": "kernel.release", "value": kernel }));
    std::fs::write(folder.join(name), capture.to_string()).expect("the folder can be written");
}

fn ids(folder: &Path) -> Vec<String> {
    let shown = output(folder, &["show", "--runs", "--format", "json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("it prints JSON");
    let runs = shown["runs"].as_array().expect("a list of runs");
    runs.iter().map(|run| run["id"].as_str().expect("an id").to_string()).collect()
}

/// What both say: the same, byte by byte.
fn same(folder: &Path, from: &str, args: &[&str]) -> String {
    let compare = |rest: &[&str]| {
        let words: Vec<&str> = ["compare"].iter().chain(args).chain(rest).copied().collect();
        output(folder, &words)
    };
    let (file, parquet) = (compare(&[]), compare(&["--from", from]));
    assert_eq!(parquet.status.code(), file.status.code(), "{args:?}: {}", said(&parquet));
    assert_eq!(said(&parquet), said(&file), "{args:?}");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text(&parquet), text(&file), "{args:?}");
    text(&file)
}

#[test]
fn comparisons_over_parquet_are_those_over_the_results_file() {
    let Some(duckdb) = duckdb("comparisons_over_parquet") else { return };
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path();
    machine(folder, "a.json", "6.1.0");
    machine(folder, "b.json", "6.12.0");
    // Odd and even numbers of samples, trials that do not count, three machines of two kernels.
    for (sim, label, passes) in [("a.json:1", "one's", "5"), ("b.json:2", "two", "6"), ("b.json:3", "three", "9")] {
        let flags = ["--sim", sim, "--sim-faults", "escapes=0.2", "--host-label", label];
        let passes = format!("passes={passes}");
        done(folder, &[&["run", "quick", "--quiet", "--set", &passes], &flags[..]].concat());
    }
    let simulated = ids(folder);
    for label in ["left", "right"] {
        let cells = ["--placement", "kernel", "--placement", "one-core", "--host-label", label];
        // It may be too disturbed to say much, which is no matter here.
        output(folder, &[&["measure", "queens", "--smoke", "-r", "4", "--quiet"], &cells[..]].concat());
        // Real passes differ within a trial; four of five count, so a median lies between two.
        let passes = ["measure", "stream", "--set", "size=1MiB", "--set", "passes=5", "-r", "2", "--quiet"];
        output(folder, &[&passes[..], &cells[..]].concat());
    }
    done(folder, &["export", "--format", "parquet", "--to", "out's", "--all"]);
    let from = "parquet:out's";
    let mut compared = 0;
    for by in [
        None,
        Some("placement"),
        Some("threads"),
        Some("host"),
        Some("kernel"),
        Some("boot"),
        Some("run"),
        Some("set.size"),
        Some("cpu.model"),
        Some("memory.thp"),
        Some("no.such"),
    ] {
        let by: Vec<&str> = by.iter().flat_map(|by| ["--by", by]).collect();
        let named: Vec<&str> = simulated.iter().map(String::as_str).collect();
        for runs in [&named[..], &named[..1], &[&named[2][..8], named[0]], &[named[1], named[1]], &[]] {
            let args = [&["--all-metrics", "--format=json"], &by[..], runs].concat();
            compared += usize::from(same(folder, from, &args).len() > 500);
        }
    }
    assert!(compared > 30, "most of them have something to compare: {compared}");
    let by_kernel = same(folder, from, &["--by=kernel", &simulated[0], &simulated[1], &simulated[2]]);
    assert!(by_kernel.contains("6.1.0") && by_kernel.contains("6.12.0"), "{by_kernel}");
    same(folder, from, &["--by=host", "--baseline=right", "--format=csv"]);
    let measured: Vec<String> = ids(folder).into_iter().filter(|id| !simulated.contains(id)).collect();
    for run in &measured {
        let text = same(folder, from, &["--by=placement", "--all-metrics", "--format=json", run]);
        assert!(text.len() > 500, "{text}");
    }
    same(folder, from, &["--index=unixbench"]);
    // Put together as docs/guides/parquet.md does it, also beside what was put together: nothing is counted twice.
    let pack = "COPY (SELECT * FROM read_parquet('out''s/**/*.parquet', hive_partitioning = true)) \
                TO 'packed' (FORMAT parquet, PARTITION_BY (date, experiment, machine))";
    sql(&duckdb, folder, pack);
    let named: Vec<&str> = ["--by=host", "--all-metrics", "--format=json"]
        .into_iter()
        .chain(simulated.iter().map(String::as_str))
        .collect();
    same(folder, "parquet:packed", &named);
    std::fs::rename(folder.join("packed"), folder.join("out's/packed")).expect("both are here");
    same(folder, from, &named);
    assert!(!folder.join("out's/.tmp").exists(), "nothing is left in the folder");
}

#[test]
fn a_folder_that_cannot_be_compared_over_parquet_is_said() {
    let Some(duckdb) = duckdb("folders_of_parquet_that_are_wrong") else { return };
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path();
    done(folder, &["run", "quick", "--quiet", "--smoke", "--sim", "pack:2 [numa] core:2 pu:2:7"]);
    for name in ["good", "older", "foreign", "broken", "many"] {
        done(folder, &["export", "--format", "parquet", "--to", name]);
    }
    std::fs::create_dir(folder.join("empty")).expect("the folder can be written");
    sql(
        &duckdb,
        folder,
        "COPY (SELECT * EXCLUDE (plan_json) FROM 'good/**/*.parquet') TO 'older/old.parquet' (FORMAT parquet)",
    );
    sql(&duckdb, folder, "COPY (SELECT 42 AS answer) TO 'foreign/else.parquet' (FORMAT parquet)");
    std::fs::write(folder.join("broken/half.parquet"), "PAR1 and no more").expect("the folder can be written");
    sql(
        &duckdb,
        folder,
        "COPY (SELECT * REPLACE (concat(run, machines.range) AS run) FROM 'good/**/*.parquet', range(2000) AS machines \
         WHERE position = 0) TO 'many/many.parquet' (FORMAT parquet)",
    );
    let script = folder.join("fails");
    std::fs::write(&script, "#!/bin/sh\ncat >/dev/null; printf 'Out of \\033[2JMemory Error\\n' >&2; exit 3\n")
        .expect("it can be written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it was just written");
    let program = duckdb.to_string_lossy().into_owned();
    let cases: &[(&str, &str, &[&str], i32, &str)] = &[
        (
            "parquet:nowhere",
            &program,
            &[],
            2,
            "directory nowhere does not exist\nhint: 'nearfar export --format parquet",
        ),
        ("parquet:empty", &program, &[], 2, "no Parquet file below empty\nhint: "),
        ("parquet:older", &program, &[], 2, "older/old.parquet was exported by an older nearfar"),
        ("parquet:foreign", &program, &[], 2, "foreign/else.parquet was not exported by nearfar\nhint: "),
        ("parquet:broken", &program, &[], 1, "half.parquet"),
        ("parquet:many", &program, &["--by=host"], 2, "cannot compare 2001 runs at once: the maximum is 2000\nhint: "),
        ("parquet:good", &program, &["nosuch"], 2, "good has no run 'nosuch'"),
        ("parquet:good", &program, &["--by=column"], 2, "imported tables are only in the results file"),
        ("parquet:s3://lab/results", &program, &[], 2, "only directories can be read, not s3://\nhint: copy the files"),
        ("parquet:", &program, &[], 2, "expected a directory"),
        ("sqlite:good", &program, &[], 2, "sqlite:good"),
        ("parquet:good", "no-such-duckdb", &[], 77, "cannot start no-such-duckdb: "),
        ("parquet:good", "./no-such-duckdb", &[], 77, "hint: DuckDB's command-line program is needed"),
        ("parquet:good", "./fails", &[], 1, "fails failed: Out of  [2JMemory Error\n"),
    ];
    let id = &ids(folder)[0];
    let begins = output(folder, &["compare", "--from", "parquet:many", &id[..9]]);
    let expected = format!("several runs match '{}'\nhint: type more characters", &id[..9]);
    assert!(said(&begins).contains(&expected), "{}", said(&begins));
    for (from, program, rest, status, expected) in cases {
        let words: Vec<&str> = ["compare", "--from", from].iter().chain(*rest).copied().collect();
        let output = nearfar(folder, &words).env("NEARFAR_DUCKDB", program).stdin(Stdio::null()).output();
        let output = output.expect("the program starts");
        assert_eq!(output.status.code(), Some(*status), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words:?} should say {expected}: {}", said(&output));
        assert!(output.stdout.is_empty());
    }
}
