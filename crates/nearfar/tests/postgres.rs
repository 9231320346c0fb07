//! Commands with results on a PostgreSQL server: the same output as with a file, also concurrently and after the server
//! was killed. Needs the feature `postgres`.
#![cfg(feature = "postgres")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "../../store/tests/store/postgres/server.rs"]
#[allow(dead_code)] // what other tests need of it
mod server;

/// A run on a simulated machine is the same each time.
const SIM: &str = "pack:2 [numa] core:2 pu:2:7";

fn command(folder: &Path, store: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).current_dir(folder).stdin(Stdio::null());
    command.env_remove("NEARFAR_STORE").env_remove("PGPASSWORD").env("NEARFAR_STATE", folder.join("state"));
    command.env("XDG_DATA_HOME", folder.join("data"));
    command
}

fn nearfar(folder: &Path, store: &Path, args: &[&str]) -> Output {
    command(folder, store, args).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

mod with_postgres {
    use super::*;
    use crate::server::{DATABASE, OWNER, PASSWORD};

    /// It ended well; what it printed.
    fn done(output: &Output) -> String {
        assert_eq!(output.status.code(), Some(0), "{}", said(output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is shown of a store, byte by byte.
    fn shown(folder: &Path, store: &Path) -> Vec<String> {
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
        .map(|args| done(&nearfar(folder, store, args)))
        .collect();
        done(&nearfar(folder, store, &["share", "--output", "shared.db"]));
        all.push(done(&nearfar(folder, Path::new("shared.db"), &["show", "--format", "json"])));
        std::fs::remove_file(folder.join("shared.db")).expect("it was made");
        all
    }

    #[test]
    fn commands_say_of_a_postgres_server_what_they_say_of_a_file() {
        let Some(server) = server::start("commands with PostgreSQL") else { return };
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (folder, url) = (folder.path(), server.url());
        let file = folder.join("r.db");
        let missing = nearfar(folder, &url, &["show"]);
        assert_eq!(missing.status.code(), Some(2));
        assert!(
            said(&missing).contains("results store postgres://owner@localhost")
                && said(&missing).contains("does not exist"),
            "{}",
            said(&missing)
        );
        done(&nearfar(folder, &file, &["run", "quick", "--sim", SIM, "--quiet"]));
        for expected in ["added 1 runs", "added 0 runs, 0 trials, 0 tables; already present: 1 runs"] {
            let output = nearfar(folder, &url, &["import", "r.db"]);
            done(&output);
            assert!(said(&output).contains(expected), "{}", said(&output));
        }
        assert_eq!(shown(folder, &url), shown(folder, &file));
        let report = done(&nearfar(folder, &url, &["report"]));
        assert_eq!(
            report.trim(),
            folder.join("data/nearfar/report.html").canonicalize().expect("it is there").display().to_string()
        );

        // Measured straight into another database it is the same again.
        server.create("direct");
        let direct = server.url_of(OWNER, PASSWORD, "direct");
        done(&nearfar(folder, &direct, &["run", "quick", "--sim", SIM, "--quiet"]));
        assert_eq!(shown(folder, &direct), shown(folder, &file));
        let faults = ["run", "quick", "--sim", SIM, "--sim-faults", "disk=1MiB", "--fresh"];
        let output = nearfar(folder, &direct, &faults);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("a full disk can be simulated for results files only"), "{}", said(&output));
    }

    #[test]
    fn a_postgres_server_that_dies_under_a_run_loses_nothing() {
        let Some(mut server) = server::start("a run through PostgreSQL's death") else { return };
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (folder, url) = (folder.path(), server.url());
        let file = folder.join("r.db");
        let run = ["run", "quick", "--sim", SIM, "--quiet"];
        done(&nearfar(folder, &file, &run));
        let expected = done(&nearfar(folder, &file, &["show", "--trials", "--format", "json"]));
        done(&nearfar(
            folder,
            &url,
            &["import", "--name", "t", "x.csv"].map(|word| if word == "x.csv" { table(folder) } else { word }),
        ));
        let mut trials = 0;
        for _ in 0..3 {
            let mut running = command(folder, &url, &run);
            let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
            let more = format!("SELECT count(*) > {} FROM nearfar.trial", trials + 5);
            server.until(&more, "t");
            server.kill();
            let output = running.wait_with_output().expect("it ends");
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            let lost = "nearfar: lost the connection to results store postgres://owner@localhost";
            assert!(
                said(&output).contains(lost) && said(&output).contains("\nhint: results stored before"),
                "{}",
                said(&output)
            );
            server.serve();
            trials = server.sql(DATABASE, "SELECT count(*) FROM nearfar.trial").parse().expect("a number");
        }
        done(&nearfar(folder, &url, &run));
        assert_eq!(done(&nearfar(folder, &url, &["show", "--trials", "--format", "json"])), expected);
        assert_eq!(server.sql(DATABASE, "SELECT count(*) FROM nearfar.run"), "1", "the same run went on");
    }

    fn table(folder: &Path) -> &'static str {
        std::fs::write(folder.join("x.csv"), "test,metric,unit,better,a\nt,m,u,lower,1\n").expect("the folder is ours");
        "x.csv"
    }

    #[test]
    fn four_runs_at_once_are_four_runs_on_a_postgres_server() {
        let Some(server) = server::start("four runs into PostgreSQL") else { return };
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (folder, url) = (folder.path(), server.url());
        let run = ["run", "quick", "--sim", SIM, "--quiet", "--format", "json"];
        let start = || command(folder, &url, &run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let running: Vec<_> = (0..4).map(|_| start().expect("the program starts")).collect();
        let outputs: Vec<Output> = running.into_iter().map(|run| run.wait_with_output().expect("it ends")).collect();
        outputs.iter().for_each(|output| drop(done(output)));
        let sql = "SELECT count(DISTINCT run.id), count(DISTINCT ended), count(*), count(DISTINCT trial.id) FROM nearfar.run \
                   JOIN nearfar.trial ON trial.run = run.number";
        let counts = server.sql(DATABASE, sql);
        let counts: Vec<u64> = counts.split('|').map(|count| count.parse().expect("a number")).collect();
        assert_eq!(counts[..2], [4, 1], "all have ended");
        assert_eq!(counts[2], counts[3], "{counts:?}");
        let each = server
            .sql(DATABASE, "SELECT count(DISTINCT n) FROM (SELECT count(*) AS n FROM nearfar.trial GROUP BY run) AS t");
        assert_eq!(each, "1", "each has as many trials");
    }

    #[test]
    fn what_postgres_refuses_has_its_exit_status() {
        let Some(server) = server::start("PostgreSQL's refusals") else { return };
        let folder = tempfile::tempdir().expect("a scratch folder");
        let folder = folder.path();
        let check = |store: &Path, args: &[&str], status: i32, expected: &str| {
            let output = nearfar(folder, store, args);
            assert_eq!(output.status.code(), Some(status), "{}", said(&output));
            assert!(said(&output).contains(expected) && said(&output).contains("\nhint: "), "{}", said(&output));
            assert!(!said(&output).contains(PASSWORD) && !said(&output).contains("wrong-one"), "{}", said(&output));
        };
        table(folder);
        for args in [&["show"][..], &["import", "x.csv"], &["run", "quick", "--sim", SIM]] {
            check(&server.url_of(OWNER, "wrong-one", DATABASE), args, 5, "password authentication failed");
            check(&server.url_of(OWNER, PASSWORD, "other"), args, 2, "does not exist");
            check(Path::new("postgres://u:wrong-one@127.0.0.1:1/d"), args, 1, "Connection refused");
            check(Path::new("postgres://u:wrong-one@h/d?sslmode=on"), args, 2, "sslmode must be disable");
        }
        // The password from the environment, where nobody sees it; and help does not print it either.
        done(&nearfar(folder, &server.url(), &["import", "x.csv"]));
        let without = server.url().display().to_string().replace(&format!(":{PASSWORD}"), "");
        let shown = command(folder, Path::new(&without), &["show", "--runs"]).env("PGPASSWORD", PASSWORD).output();
        done(&shown.expect("the program starts"));
        let mut help = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        let help =
            help.args(["show", "--help"]).env("NEARFAR_STORE", server.url()).output().expect("the program starts");
        assert!(done(&help).contains("NEARFAR_STORE") && !done(&help).contains(PASSWORD));

        let sql = "CREATE ROLE reader LOGIN PASSWORD 'wrong-one'; GRANT USAGE ON SCHEMA nearfar TO reader; \
                   GRANT SELECT ON ALL TABLES IN SCHEMA nearfar TO reader";
        server.sql(DATABASE, sql);
        let reader = server.url_of("reader", "wrong-one", DATABASE);
        done(&nearfar(folder, &reader, &["show", "--runs"]));
        std::fs::write(folder.join("y.csv"), "test,metric,unit,better,a\nt,m,u,lower,2\n").expect("the folder is ours");
        check(&reader, &["import", "y.csv"], 5, "permission denied");
        check(&reader, &["run", "quick", "--sim", SIM], 5, "permission denied");
    }
}
