//! `nearfar compare --from parquet:DIR`: the same output as with the exported results file, and errors for directories
//! that cannot be read. Requires the feature `parquet` and the command-line program of `DuckDB`.
#![cfg(feature = "parquet")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn nearfar(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("r.db")).args(args).current_dir(dir);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state"));
    command
}

fn output(dir: &Path, args: &[&str]) -> Output {
    nearfar(dir, args).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeed(dir: &Path, args: &[&str]) {
    let output = output(dir, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
}

/// The command-line program of `DuckDB`. `None`, with a message, if it is not installed.
fn duckdb(test: &str) -> Option<PathBuf> {
    let program = std::env::var_os("NEARFAR_DUCKDB").map_or_else(|| PathBuf::from("duckdb"), PathBuf::from);
    let is_installed = Command::new(&program).arg("-version").output().is_ok_and(|output| output.status.success());
    if !is_installed {
        println!("skipped: {test}: no duckdb (PyPI: duckdb-cli; NEARFAR_DUCKDB is its path)");
    }
    is_installed.then_some(program)
}

/// Runs an SQL statement with `DuckDB` in a directory.
fn run_sql(duckdb: &Path, dir: &Path, statement: &str) {
    let output = Command::new(duckdb).args(["-init", "/dev/null", "-c", statement]).current_dir(dir).output();
    let output = output.expect("duckdb starts");
    assert!(output.status.success(), "{statement}: {}", stderr(&output));
}

/// Writes a capture of this machine with another kernel release.
fn write_capture(dir: &Path, name: &str, kernel: &str) {
    let capture = output(dir, &["map", "--format", "capture"]);
    let mut capture: Value = serde_json::from_slice(&capture.stdout).expect("a capture is JSON");
    let facts = capture["settings"].as_array_mut().expect("a list of facts");
    facts.retain(|fact| fact["key"] != "kernel.release");
    facts.push(serde_json::json!({ "key": "kernel.release", "value": kernel }));
    std::fs::write(dir.join(name), capture.to_string()).expect("the directory is writable");
}

fn run_ids(dir: &Path) -> Vec<String> {
    let listing = output(dir, &["show", "--runs", "--format", "json"]);
    let listing: Value = serde_json::from_slice(&listing.stdout).expect("show prints JSON");
    let runs = listing["runs"].as_array().expect("a list of runs");
    runs.iter().map(|run| run["id"].as_str().expect("an id").to_string()).collect()
}

/// Asserts that both sources give the same output, byte by byte, and returns it.
fn assert_same_output(dir: &Path, from: &str, args: &[&str]) -> String {
    let compare = |rest: &[&str]| {
        let args: Vec<&str> = ["compare"].iter().chain(args).chain(rest).copied().collect();
        output(dir, &args)
    };
    let (file, parquet) = (compare(&[]), compare(&["--from", from]));
    assert_eq!(parquet.status.code(), file.status.code(), "{args:?}: {}", stderr(&parquet));
    assert_eq!(stderr(&parquet), stderr(&file), "{args:?}");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text(&parquet), text(&file), "{args:?}");
    text(&file)
}

#[test]
fn parquet_comparisons_equal_those_of_the_results_file() {
    let Some(duckdb) = duckdb("parquet_comparisons") else { return };
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = temporary.path();
    write_capture(dir, "a.json", "6.1.0");
    write_capture(dir, "b.json", "6.12.0");
    // Odd and even numbers of samples, invalid trials, three machines with two kernels.
    for (sim, label, passes) in [("a.json:1", "one's", "5"), ("b.json:2", "two", "6"), ("b.json:3", "three", "9")] {
        let flags = ["--sim", sim, "--sim-faults", "escapes=0.2", "--host-label", label];
        let passes = format!("passes={passes}");
        succeed(dir, &[&["run", "quick", "--quiet", "--set", &passes], &flags[..]].concat());
    }
    let simulated = run_ids(dir);
    for label in ["left", "right"] {
        let cells = ["--placement", "kernel", "--placement", "one-core", "--host-label", label];
        // The result may be disturbed; only its presence matters.
        output(dir, &[&["measure", "queens", "--smoke", "-r", "4", "--quiet"], &cells[..]].concat());
        // Measured passes differ within a trial. Four of five count, so the median is between two values.
        let passes = ["measure", "stream", "--set", "size=1MiB", "--set", "passes=5", "-r", "2", "--quiet"];
        output(dir, &[&passes[..], &cells[..]].concat());
    }
    succeed(dir, &["export", "--format", "parquet", "--to", "out's", "--all"]);
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
            compared += usize::from(assert_same_output(dir, from, &args).len() > 500);
        }
    }
    assert!(compared > 30, "most comparisons have rows: {compared}");
    let by_kernel = assert_same_output(dir, from, &["--by=kernel", &simulated[0], &simulated[1], &simulated[2]]);
    assert!(by_kernel.contains("6.1.0") && by_kernel.contains("6.12.0"), "{by_kernel}");
    assert_same_output(dir, from, &["--by=host", "--baseline=right", "--format=csv"]);
    let measured: Vec<String> = run_ids(dir).into_iter().filter(|id| !simulated.contains(id)).collect();
    for run in &measured {
        let text = assert_same_output(dir, from, &["--by=placement", "--all-metrics", "--format=json", run]);
        assert!(text.len() > 500, "{text}");
    }
    assert_same_output(dir, from, &["--index=unixbench"]);
    // Packed as in docs/guides/parquet.md, alone and in addition to the original files: no row is counted twice.
    let pack = "COPY (SELECT * FROM read_parquet('out''s/**/*.parquet', hive_partitioning = true)) \
                TO 'packed' (FORMAT parquet, PARTITION_BY (date, experiment, machine))";
    run_sql(&duckdb, dir, pack);
    let named: Vec<&str> = ["--by=host", "--all-metrics", "--format=json"]
        .into_iter()
        .chain(simulated.iter().map(String::as_str))
        .collect();
    assert_same_output(dir, "parquet:packed", &named);
    std::fs::rename(dir.join("packed"), dir.join("out's/packed")).expect("both paths are on one file system");
    assert_same_output(dir, from, &named);
    assert!(!dir.join("out's/.tmp").exists(), "no temporary files remain");
}

#[test]
fn unusable_parquet_directories_are_reported() {
    let Some(duckdb) = duckdb("unusable_parquet_directories") else { return };
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = temporary.path();
    succeed(dir, &["run", "quick", "--quiet", "--smoke", "--sim", "pack:2 [numa] core:2 pu:2:7"]);
    for name in ["good", "older", "foreign", "broken", "many"] {
        succeed(dir, &["export", "--format", "parquet", "--to", name]);
    }
    std::fs::create_dir(dir.join("empty")).expect("the directory is writable");
    run_sql(
        &duckdb,
        dir,
        "COPY (SELECT * EXCLUDE (plan_json) FROM 'good/**/*.parquet') TO 'older/old.parquet' (FORMAT parquet)",
    );
    run_sql(&duckdb, dir, "COPY (SELECT 42 AS answer) TO 'foreign/else.parquet' (FORMAT parquet)");
    std::fs::write(dir.join("broken/half.parquet"), "PAR1 and no more").expect("the directory is writable");
    run_sql(
        &duckdb,
        dir,
        "COPY (SELECT * REPLACE (concat(run, machines.range) AS run) FROM 'good/**/*.parquet', range(2000) AS machines \
         WHERE position = 0) TO 'many/many.parquet' (FORMAT parquet)",
    );
    let script = dir.join("fails");
    std::fs::write(&script, "#!/bin/sh\ncat >/dev/null; printf 'Out of \\033[2JMemory Error\\n' >&2; exit 3\n")
        .expect("the directory is writable");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("the script exists");
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
        ("parquet:good", "./no-such-duckdb", &[], 77, "hint: install DuckDB's command-line program"),
        ("parquet:good", "./fails", &[], 1, "fails failed: Out of  [2JMemory Error\n"),
    ];
    let id = &run_ids(dir)[0];
    let ambiguous = output(dir, &["compare", "--from", "parquet:many", &id[..9]]);
    let expected = format!("several runs match '{}'\nhint: type more characters", &id[..9]);
    assert!(stderr(&ambiguous).contains(&expected), "{}", stderr(&ambiguous));
    for (from, program, rest, status, expected) in cases {
        let args: Vec<&str> = ["compare", "--from", from].iter().chain(*rest).copied().collect();
        let output = nearfar(dir, &args).env("NEARFAR_DUCKDB", program).stdin(Stdio::null()).output();
        let output = output.expect("the program starts");
        assert_eq!(output.status.code(), Some(*status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args:?}: expected {expected}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}
