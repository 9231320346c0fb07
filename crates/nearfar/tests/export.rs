//! Results for other programs: CSV and Markdown of `show`, `nearfar export` to a directory with its flags, and Parquet
//! files if the feature `parquet` is enabled.

use std::path::Path;
use std::process::{Command, Output};

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("r.db")).args(args).current_dir(dir);
    // Without this, the search for credentials would contact the metadata service of a cloud.
    command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1");
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state")).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A simulated machine, so that runs are reproducible.
const SIM: &str = "pack:2 [numa] core:2 pu:2:7";

#[test]
fn cells_of_a_run_are_shown_as_csv_and_markdown() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    assert!(nearfar(dir, &["run", "quick", "--sim", SIM, "--quiet"]).status.success());
    let show = |args: &[&str]| {
        let output = nearfar(dir, &[&["show"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let json: serde_json::Value = serde_json::from_str(&show(&["--format", "json"])).expect("JSON");
    let metrics: Vec<&serde_json::Value> = json["cells"]
        .as_array()
        .expect("a list of cells")
        .iter()
        .flat_map(|cell| cell["metrics"].as_array().expect("a list of metrics"))
        .collect();

    let text = show(&["--format", "csv"]);
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let median = csv.headers().expect("a heading").iter().position(|name| name == "median").expect("a column");
    let medians: Vec<String> = csv.records().map(|row| row.expect("a row")[median].to_string()).collect();
    let expected: Vec<String> = metrics.iter().map(|metric| metric["median"].to_string()).collect();
    assert!(expected.len() > 5);
    assert_eq!(medians, expected, "one row per metric of a cell, unrounded");

    let rows = |text: String| text.lines().filter(|line| line.starts_with('|')).count();
    let main = rows(show(&["--format", "markdown"]));
    let all = rows(show(&["--format", "markdown", "--all-metrics"]));
    assert!(2 < main && main < all, "{main} rows of main metrics, {all} of all");

    for list in ["--runs", "--trials"] {
        let output = nearfar(dir, &["show", list, "--format", "csv"]);
        assert_eq!(output.status.code(), Some(2));
        let expected = format!("show {list} supports only --format text and json\nhint: for CSV of all trials");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
}

#[test]
fn flags_of_other_formats_are_rejected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cases: &[(&[&str], &str)] = &[
        (&["export", "--format", "parquet"], "--output-dir <DIR>"),
        (&["export", "--to", "x"], "hint: other formats write one run to one file: use --output FILE"),
        (&["export", "--all"], "--output-dir and --all require --format parquet"),
        (&["export", "--format", "parquet", "--to", "x", "-o", "y"], "cannot be used with"),
        (&["export", "--format", "parquet", "--to", "x", "--all", "latest"], "cannot be used with"),
    ];
    for (args, expected) in cases {
        let output = nearfar(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args:?}: expected {expected}: {}", stderr(&output));
    }
}

#[cfg(feature = "parquet")]
mod with_parquet {
    use super::*;

    #[test]
    fn parquet_export_writes_one_reproducible_file_per_run() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dir = dir.path();
        let empty = nearfar(dir, &["export", "--format", "parquet", "--to", "out"]);
        assert_eq!(empty.status.code(), Some(2));
        assert!(stderr(&empty).contains("r.db does not exist"), "{}", stderr(&empty));
        for sim in [SIM, "pack:1 [numa] core:4 pu:1:8"] {
            assert!(nearfar(dir, &["run", "quick", "--sim", sim, "--quiet"]).status.success());
        }
        let export = || {
            let output = nearfar(dir, &["export", "--format", "parquet", "--to", "out", "--all"]);
            assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
            let lines: Vec<String> = stderr(&output).lines().map(String::from).collect();
            let files: Vec<(String, Vec<u8>)> = lines
                .iter()
                .map(|line| {
                    let (name, rows) = line.rsplit_once(": ").expect("FILE: N rows");
                    let rows: usize = rows.strip_suffix(" rows").and_then(|rows| rows.parse().ok()).expect("N rows");
                    assert!(rows > 20, "{line}");
                    (name.to_string(), std::fs::read(dir.join(name)).expect("the file exists"))
                })
                .collect();
            files
        };
        let first = export();
        assert_eq!(first.len(), 2);
        let machines = ["simulated-pack-2-numa-core-2-pu-2-2p4c8t2n", "simulated-pack-1-numa-core-4-pu-1-1p4c4t1n"];
        for ((name, _), machine) in first.iter().zip(machines) {
            assert!(name.contains(&format!("/experiment=quick/machine={machine}/")), "{name}");
        }
        assert!(first == export(), "the same names with the same bytes");
    }

    #[test]
    fn invalid_output_directories_are_rejected() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dir = dir.path();
        assert!(nearfar(dir, &["run", "quick", "--sim", SIM, "--quiet"]).status.success());
        std::fs::write(dir.join("file"), "precious").expect("the directory is writable");
        let cases: &[(&str, i32, &str)] = &[
            (
                "file",
                1,
                "a component of the path is a file, not a directory\nhint: name another directory with --output-dir",
            ),
            ("file/in/it", 1, "a component of the path is a file, not a directory"),
            ("/proc/self/nearfar", 1, "cannot write /proc/self/nearfar/date="),
            (
                "gs://bucket",
                2,
                "unsupported scheme gs://; directories and s3:// are supported\nhint: write to a directory and copy it",
            ),
            #[cfg(not(feature = "s3"))]
            (
                "s3://bucket",
                77,
                "this build of nearfar can only write to directories\nhint: build with 'cargo build --release --features s3",
            ),
            #[cfg(feature = "s3")]
            ("s3:///results", 2, "hint: the form is s3://BUCKET or s3://BUCKET/PREFIX"),
        ];
        for (to, status, expected) in cases {
            let output = nearfar(dir, &["export", "--format", "parquet", "--to", to]);
            assert_eq!(output.status.code(), Some(*status), "{to}: {}", stderr(&output));
            assert!(stderr(&output).contains(expected), "{to}: {}", stderr(&output));
        }
        assert_eq!(std::fs::read(dir.join("file")).expect("the file exists"), b"precious");
    }

    /// No server listens on the port; the error names the endpoint. Uploads are tested in `store`.
    #[cfg(feature = "s3")]
    #[test]
    fn unreachable_object_store_is_reported() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dir = dir.path();
        assert!(nearfar(dir, &["run", "quick", "--sim", SIM, "--quiet"]).status.success());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("the socket has an address"));
        drop(listener);
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(dir.join("r.db")).env("NEARFAR_STATE", dir.join("state"));
        command.args(["export", "--format", "parquet", "--to", "s3://lab/results", "--all"]);
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_ENDPOINT_URL", &endpoint);
        let output = command.env("NO_PROXY", "127.0.0.1").output().expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let expected = format!("at {endpoint}: Connection refused");
        assert!(
            stderr(&output).contains(&expected) && stderr(&output).contains("hint: set AWS_ENDPOINT_URL"),
            "{}",
            stderr(&output)
        );
    }
}
