//! Commands of a build with the default features name the feature that they need. `scripts/test` runs the tests with
//! more features and passes the path of such a build in `NEARFAR_DEFAULT_BUILD`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SIM: &str = "pack:2 [numa] core:2 pu:2:7";
/// Exit status for what this build or this machine lacks.
const UNAVAILABLE: i32 = 77;

/// Returns a program without optional features, or prints why the test is skipped.
fn program(test: &str) -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("NEARFAR_DEFAULT_BUILD") {
        return Some(program.into());
    }
    if cfg!(any(feature = "mpi", feature = "parquet", feature = "postgres")) {
        println!("skipped: {test}: no program without optional features (scripts/test builds one)");
        return None;
    }
    Some(env!("CARGO_BIN_EXE_nearfar").into())
}

fn nearfar(program: &Path, directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(directory).env("NEARFAR_STATE", directory.join("state")).env_remove("NEARFAR_STORE");
    command.env("XDG_DATA_HOME", directory.join("data")).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn build_without_postgres_names_the_feature() {
    let Some(program) = program("build_without_postgres_names_the_feature") else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("x.csv"), "test,metric,unit,better,a\nt,m,u,lower,1\n").expect("writable");
    for args in
        [&["show"][..], &["run", "quick", "--sim", SIM], &["import", "x.csv"], &["fleet", "collect", "--on", "ssh:a"]]
    {
        let store = ["--store", "postgres://alice:s3cret@localhost/results"];
        let output = nearfar(&program, directory.path(), &[&store, args].concat());
        assert_eq!(output.status.code(), Some(UNAVAILABLE), "{args:?}: {}", stderr(&output));
        let expected = "nearfar: --store postgres://alice@localhost/results: this build of nearfar has no PostgreSQL support\nhint: build one with 'cargo build --release --features postgres";
        let stderr = stderr(&output);
        assert!(stderr.contains(expected) && !stderr.contains("s3cret"), "{args:?}: {stderr}");
    }
}

#[test]
fn build_without_parquet_names_the_feature() {
    let Some(program) = program("build_without_parquet_names_the_feature") else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = nearfar(&program, directory.path(), &["--store", "r.db", "run", "quick", "--sim", SIM, "--quiet"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let args = ["--store", "r.db", "export", "--format", "parquet", "--to", "out"];
    let output = nearfar(&program, directory.path(), &args);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(UNAVAILABLE), "{stderr}");
    assert!(stderr.contains("this build of nearfar does not support Parquet"), "{stderr}");
    assert!(stderr.contains("hint: build with 'cargo build --release --features parquet"), "{stderr}");
    assert!(!directory.path().join("out").exists());
}

/// Without MPI each process would search alone and report its figures as the result of all.
#[test]
fn build_without_mpi_fails_under_a_launcher() {
    let Some(program) = program("build_without_mpi_fails_under_a_launcher") else { return };
    for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"] {
        let output = Command::new(&program).args(["bfs", "--scale", "10"]).env(variable, "2").output();
        let output = output.expect("the program starts");
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(UNAVAILABLE), "{variable}: {stderr}");
        assert!(
            stderr.contains("this build of nearfar does not support MPI") && stderr.contains("--features mpi"),
            "{stderr}"
        );
        assert!(output.stdout.is_empty(), "{variable}");
    }
}
