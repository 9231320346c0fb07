//! `nearfar export` to a folder: its flags, and Parquet files in a build with the feature.

use std::path::Path;
use std::process::{Command, Output};

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("r.db")).args(args).current_dir(folder);
    // Whoever looks for keys asks nobody else's machine for them.
    command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1");
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", folder.join("state")).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn flags_of_one_kind_of_format_are_refused_with_the_other() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let cases: &[(&[&str], &str)] = &[
        (&["export", "--format", "parquet"], "--output-dir <DIR>"),
        (&["export", "--to", "x"], "hint: other formats write one run to one file: use --output FILE"),
        (&["export", "--all"], "--output-dir and --all require --format parquet"),
        (&["export", "--format", "parquet", "--to", "x", "-o", "y"], "cannot be used with"),
        (&["export", "--format", "parquet", "--to", "x", "--all", "latest"], "cannot be used with"),
    ];
    for (args, expected) in cases {
        let output = nearfar(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{args:?} should say {expected}: {}", said(&output));
    }
}

#[cfg(feature = "parquet")]
mod with_parquet {
    use super::*;

    /// A simulated machine, so that runs are reproducible.
    const SIM: &str = "pack:2 [numa] core:2 pu:2:7";

    #[test]
    fn every_run_is_one_file_and_a_repetition_changes_nothing() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let folder = folder.path();
        let empty = nearfar(folder, &["export", "--format", "parquet", "--to", "out"]);
        assert_eq!(empty.status.code(), Some(2));
        assert!(said(&empty).contains("r.db does not exist"), "{}", said(&empty));
        for sim in [SIM, "pack:1 [numa] core:4 pu:1:8"] {
            assert!(nearfar(folder, &["run", "quick", "--sim", sim, "--quiet"]).status.success());
        }
        let export = || {
            let output = nearfar(folder, &["export", "--format", "parquet", "--to", "out", "--all"]);
            assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
            let lines: Vec<String> = said(&output).lines().map(String::from).collect();
            let files: Vec<(String, Vec<u8>)> = lines
                .iter()
                .map(|line| {
                    let (name, rows) = line.rsplit_once(": ").expect("FILE: N rows");
                    let rows: usize = rows.strip_suffix(" rows").and_then(|rows| rows.parse().ok()).expect("N rows");
                    assert!(rows > 20, "{line}");
                    (name.to_string(), std::fs::read(folder.join(name)).expect("the file is there"))
                })
                .collect();
            files
        };
        let first = export();
        assert_eq!(first.len(), 2);
        assert!(
            first[0].0.contains("/experiment=quick/machine=simulated-pack-2-numa-core-2-pu-2-2p4c8t2n/"),
            "{}",
            first[0].0
        );
        assert!(
            first[1].0.contains("/experiment=quick/machine=simulated-pack-1-numa-core-4-pu-1-1p4c4t1n/"),
            "{}",
            first[1].0
        );
        assert!(first == export(), "the same names with the same bytes");
    }

    #[test]
    fn what_is_no_folder_is_refused() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let folder = folder.path();
        assert!(nearfar(folder, &["run", "quick", "--sim", SIM, "--quiet"]).status.success());
        std::fs::write(folder.join("file"), "precious").expect("the folder can be written");
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
                "this build of nearfar writes to folders only\nhint: 'cargo build --release --features s3",
            ),
            #[cfg(feature = "s3")]
            ("s3:///results", 2, "hint: it looks like s3://BUCKET or s3://BUCKET/PREFIX"),
        ];
        for (to, status, expected) in cases {
            let output = nearfar(folder, &["export", "--format", "parquet", "--to", to]);
            assert_eq!(output.status.code(), Some(*status), "{to}: {}", said(&output));
            assert!(said(&output).contains(expected), "{to}: {}", said(&output));
        }
        assert_eq!(std::fs::read(folder.join("file")).expect("it is still there"), b"precious");
    }

    /// Nobody listens there: what is wrong is said, and the place. What an upload does is tested in `store`.
    #[cfg(feature = "s3")]
    #[test]
    fn a_store_that_is_not_there_is_said() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let folder = folder.path();
        assert!(nearfar(folder, &["run", "quick", "--sim", SIM, "--quiet"]).status.success());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let nobody = format!("http://{}", listener.local_addr().expect("it has one"));
        drop(listener);
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(folder.join("r.db")).env("NEARFAR_STATE", folder.join("state"));
        command.args(["export", "--format", "parquet", "--to", "s3://lab/results", "--all"]);
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_ENDPOINT_URL", &nobody);
        let output = command.env("NO_PROXY", "127.0.0.1").output().expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let expected = format!("at {nobody}: Connection refused");
        assert!(
            said(&output).contains(&expected) && said(&output).contains("hint: set AWS_ENDPOINT_URL"),
            "{}",
            said(&output)
        );
    }
}
