//! Commands with results on a PostgreSQL server: the same output as with a file, also concurrently and after the server
//! was killed. Needs the feature `postgres`.
#![cfg(feature = "postgres")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "../../store/tests/store/postgres/server.rs"]
#[allow(dead_code)] // other tests use the rest
mod server;

/// A simulated machine, so that runs are reproducible.
const SIM: &str = "pack:2 [numa] core:2 pu:2:7";

fn command(dir: &Path, store: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).current_dir(dir).stdin(Stdio::null());
    command.env_remove("NEARFAR_STORE").env_remove("PGPASSWORD").env("NEARFAR_STATE", dir.join("state"));
    command.env("XDG_DATA_HOME", dir.join("data"));
    command
}

fn nearfar(dir: &Path, store: &Path, args: &[&str]) -> Output {
    command(dir, store, args).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

mod with_postgres {
    use super::*;
    use crate::server::{DATABASE, OWNER, PASSWORD};

    /// Asserts that the command succeeded, and returns its standard output.
    fn stdout(output: &Output) -> String {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn print_all(dir: &Path, store: &Path) -> Vec<String> {
        let mut all: Vec<String> = [
            &["show", "--format", "json"][..],
            &["show", "--trials", "--format", "json"],
            &["show", "--runs", "--format", "json"],
            &["compare", "--by", "placement", "--format", "json"],
            &["export", "--format", "csv"],
            &["export", "--format", "json"],
            &["report", "--output", "-"],
        ]
        .iter()
        .map(|args| stdout(&nearfar(dir, store, args)))
        .collect();
        stdout(&nearfar(dir, store, &["share", "--output", "shared.db"]));
        all.push(stdout(&nearfar(dir, Path::new("shared.db"), &["show", "--format", "json"])));
        std::fs::remove_file(dir.join("shared.db")).expect("the file exists");
        all
    }

    #[test]
    fn postgres_and_file_give_the_same_output() {
        let Some(server) = server::start("commands with PostgreSQL") else { return };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (dir, url) = (dir.path(), server.url());
        let file = dir.join("r.db");
        let missing = nearfar(dir, &url, &["show"]);
        assert_eq!(missing.status.code(), Some(2));
        assert!(
            stderr(&missing).contains("results store postgres://owner@localhost")
                && stderr(&missing).contains("does not exist"),
            "{}",
            stderr(&missing)
        );
        stdout(&nearfar(dir, &file, &["run", "quick", "--sim", SIM, "--quiet"]));
        for expected in ["added 1 runs", "added 0 runs, 0 trials, 0 tables; already present: 1 runs"] {
            let output = nearfar(dir, &url, &["import", "r.db"]);
            stdout(&output);
            assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        }
        assert_eq!(print_all(dir, &url), print_all(dir, &file));
        let report = stdout(&nearfar(dir, &url, &["report"]));
        assert_eq!(
            report.trim(),
            dir.join("data/nearfar/report.html").canonicalize().expect("the report exists").display().to_string()
        );

        // A run stored directly in another database gives the same output.
        server.create("direct");
        let direct = server.url_of(OWNER, PASSWORD, "direct");
        stdout(&nearfar(dir, &direct, &["run", "quick", "--sim", SIM, "--quiet"]));
        assert_eq!(print_all(dir, &direct), print_all(dir, &file));
        let faults = ["run", "quick", "--sim", SIM, "--sim-faults", "disk=1MiB", "--fresh"];
        let output = nearfar(dir, &direct, &faults);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("a full disk can be simulated for results files only"), "{}", stderr(&output));
    }

    #[test]
    fn killed_postgres_server_loses_no_trial() {
        let Some(mut server) = server::start("a run with a killed PostgreSQL server") else { return };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (dir, url) = (dir.path(), server.url());
        let file = dir.join("r.db");
        let run = ["run", "quick", "--sim", SIM, "--quiet"];
        stdout(&nearfar(dir, &file, &run));
        let expected = stdout(&nearfar(dir, &file, &["show", "--trials", "--format", "json"]));
        stdout(&nearfar(
            dir,
            &url,
            &["import", "--name", "t", "x.csv"].map(|word| if word == "x.csv" { write_table(dir) } else { word }),
        ));
        let mut trials = 0;
        for _ in 0..3 {
            let mut running = command(dir, &url, &run);
            let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
            let more = format!("SELECT count(*) > {} FROM nearfar.trial", trials + 5);
            server.until(&more, "t");
            server.kill();
            let output = running.wait_with_output().expect("the program ends");
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            let lost = "nearfar: lost the connection to results store postgres://owner@localhost";
            assert!(
                stderr(&output).contains(lost) && stderr(&output).contains("\nhint: results stored before"),
                "{}",
                stderr(&output)
            );
            server.serve();
            trials = server.sql(DATABASE, "SELECT count(*) FROM nearfar.trial").parse().expect("a number");
        }
        stdout(&nearfar(dir, &url, &run));
        assert_eq!(stdout(&nearfar(dir, &url, &["show", "--trials", "--format", "json"])), expected);
        assert_eq!(server.sql(DATABASE, "SELECT count(*) FROM nearfar.run"), "1", "the run was resumed");
    }

    fn write_table(dir: &Path) -> &'static str {
        std::fs::write(dir.join("x.csv"), "test,metric,unit,better,a\nt,m,u,lower,1\n").expect("writable");
        "x.csv"
    }

    #[test]
    fn concurrent_runs_are_separate_on_a_postgres_server() {
        let Some(server) = server::start("four runs into PostgreSQL") else { return };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (dir, url) = (dir.path(), server.url());
        let run = ["run", "quick", "--sim", SIM, "--quiet", "--format", "json"];
        let start = || command(dir, &url, &run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let running: Vec<_> = (0..4).map(|_| start().expect("the program starts")).collect();
        let outputs: Vec<Output> = running.into_iter().map(|run| run.wait_with_output().expect("all end")).collect();
        outputs.iter().for_each(|output| drop(stdout(output)));
        let sql = "SELECT count(DISTINCT run.id), count(DISTINCT ended), count(*), count(DISTINCT trial.id) FROM nearfar.run \
                   JOIN nearfar.trial ON trial.run = run.number";
        let counts = server.sql(DATABASE, sql);
        let counts: Vec<u64> = counts.split('|').map(|count| count.parse().expect("a number")).collect();
        assert_eq!(counts[..2], [4, 1], "all have ended");
        assert_eq!(counts[2], counts[3], "{counts:?}");
        let each = server
            .sql(DATABASE, "SELECT count(DISTINCT n) FROM (SELECT count(*) AS n FROM nearfar.trial GROUP BY run) AS t");
        assert_eq!(each, "1", "all have the same number of trials");
    }

    #[test]
    fn postgres_errors_have_their_exit_statuses() {
        let Some(server) = server::start("errors of PostgreSQL") else { return };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dir = dir.path();
        let check = |store: &Path, args: &[&str], status: i32, expected: &str| {
            let output = nearfar(dir, store, args);
            let stderr = stderr(&output);
            assert_eq!(output.status.code(), Some(status), "{stderr}");
            assert!(stderr.contains(expected) && stderr.contains("\nhint: "), "{stderr}");
            assert!(!stderr.contains(PASSWORD) && !stderr.contains("wrong-one"), "{stderr}");
        };
        write_table(dir);
        for args in [&["show"][..], &["import", "x.csv"], &["run", "quick", "--sim", SIM]] {
            check(&server.url_of(OWNER, "wrong-one", DATABASE), args, 5, "password authentication failed");
            check(&server.url_of(OWNER, PASSWORD, "other"), args, 2, "does not exist");
            check(Path::new("postgres://u:wrong-one@127.0.0.1:1/d"), args, 1, "Connection refused");
            check(Path::new("postgres://u:wrong-one@h/d?sslmode=on"), args, 2, "sslmode must be disable");
        }
        // The password can be in the environment instead. Help must not print it.
        stdout(&nearfar(dir, &server.url(), &["import", "x.csv"]));
        let without = server.url().display().to_string().replace(&format!(":{PASSWORD}"), "");
        let listing = command(dir, Path::new(&without), &["show", "--runs"]).env("PGPASSWORD", PASSWORD).output();
        stdout(&listing.expect("the program starts"));
        let mut help = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        let help =
            help.args(["show", "--help"]).env("NEARFAR_STORE", server.url()).output().expect("the program starts");
        assert!(stdout(&help).contains("NEARFAR_STORE") && !stdout(&help).contains(PASSWORD));

        let sql = "CREATE ROLE reader LOGIN PASSWORD 'wrong-one'; GRANT USAGE ON SCHEMA nearfar TO reader; \
                   GRANT SELECT ON ALL TABLES IN SCHEMA nearfar TO reader";
        server.sql(DATABASE, sql);
        let reader = server.url_of("reader", "wrong-one", DATABASE);
        stdout(&nearfar(dir, &reader, &["show", "--runs"]));
        std::fs::write(dir.join("y.csv"), "test,metric,unit,better,a\nt,m,u,lower,2\n").expect("writable");
        check(&reader, &["import", "y.csv"], 5, "permission denied");
        check(&reader, &["run", "quick", "--sim", SIM], 5, "permission denied");
    }
}
