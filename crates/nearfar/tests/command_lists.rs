//! Several commands on one line of `nearfar measure`, with hyperfine's options, and `nearfar compare --fail-if`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["--store", "r.db"]).args(args).env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state"));
    command.current_dir(dir).output().expect("the program starts")
}

/// Runs a command that succeeds, and returns its JSON.
fn json(dir: &Path, args: &[&str]) -> Value {
    let output = nearfar(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

fn tests(run: &Value) -> Vec<&str> {
    run["cells"].as_array().expect("a list").iter().filter_map(|cell| cell["test"].as_str()).collect()
}

/// Options that measure a number in the output, which has no noise.
const VALUE: [&str; 8] = ["measure", "command", "-q", "--format", "json", "--set", "metric=x([0-9.]+)", "-r"];

fn measured(dir: &Path, options: &[&str]) -> Value {
    json(dir, &[&VALUE[..], options].concat())
}

#[test]
fn commands_of_one_line_are_compared_with_the_first() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = measured(dir.path(), &["4", "-n", "old", "--", "echo", "x100", ":::", "echo", "x104"]);
    assert_eq!(tests(&run), ["old", "echo x104"]);
    let comparison = json(dir.path(), &["compare", "--format", "json"]);
    assert_eq!(comparison["baseline"], "old", "{comparison:#}");
    let row = &comparison["rows"][0];
    assert_eq!((row["test"].as_str(), row["metric"].as_str()), (Some("command"), Some("value")), "{comparison:#}");
    assert!((row["values"]["echo x104"]["change_percent"].as_f64().expect("a number") - 4.0).abs() < 1e-9);
}

#[test]
fn parameters_expand_commands() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = measured(dir.path(), &["1", "-L", "a", "1,2", "-P", "b", "0", "1", "-D", "0.5", "--", "echo", "x{a}{b}"]);
    let names = ["x10.0", "x10.5", "x11.0", "x20.0", "x20.5", "x21.0"].map(|word| format!("echo {word}"));
    assert_eq!(tests(&run), names);
    let run = measured(dir.path(), &["1", "-L", "a", "1,2", "-n", "N", "--", "echo", "x{a}"]);
    assert_eq!(tests(&run), ["N a=1", "N a=2"]);
    let run = measured(dir.path(), &["1", "--", "echo", "x1", ":::", "echo", "x1"]);
    assert_eq!(tests(&run), ["echo x1", "echo x1 (2)"], "equal commands are measured separately");
}

#[test]
fn precision_ends_a_measurement_between_its_limits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = ["measure", "command", "-q", "--format", "json", "--set", "metric=x([0-9.]+)"];
    let samples = |limits: &[&str]| {
        let run = json(dir.path(), &[&options[..], limits, &["--", "echo", "x1"]].concat());
        run["cells"][0]["metrics"][0]["samples"].as_array().expect("a list").len()
    };
    assert_eq!(samples(&["--min-runs", "4"]), 4, "a number without noise is precise at once");
    assert_eq!(samples(&["--max-runs", "5"]), 5);
    assert_eq!(samples(&["--min-runs", "3", "-M", "6"]), 3);
}

#[test]
fn results_are_exported_to_files() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let exports = ["--export-json", "a.json", "--export-csv", "a.csv", "--export-markdown", "a.md"];
    let run = json(
        dir.path(),
        &[&["measure", "command", "-q", "--format", "json", "-r", "3"], &exports[..], &["--", "true", ":::", "echo"]]
            .concat(),
    );
    assert_eq!(tests(&run), ["true", "echo"]);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("the file was written");
    let hyperfine: Value = serde_json::from_str(&read("a.json")).expect("the file is JSON");
    assert_eq!(hyperfine["results"][1]["times"].as_array().expect("a list").len(), 3, "{hyperfine:#}");
    assert!(read("a.csv").lines().count() >= 3 && read("a.csv").contains("wall"), "{}", read("a.csv"));
    assert!(read("a.md").contains("| kernel |"), "{}", read("a.md"));
}

#[test]
fn fail_if_decides_the_exit_status_of_compare() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    measured(dir.path(), &["4", "--", "echo", "x100", ":::", "echo", "x104"]);
    let status = |rule: &str| nearfar(dir.path(), &["compare", "--fail-if", rule]).status.code();
    assert_eq!(status("slower > 3%"), Some(1));
    assert_eq!(status("slower > 5%"), Some(0));
    assert_eq!(status("faster > 0%"), Some(0));
    assert_eq!(status("slow"), Some(2));
    measured(dir.path(), &["1", "--", "echo", "x100", ":::", "echo", "x104"]);
    assert_eq!(status("slower > 3%"), Some(3), "one trial has no interval");
}

#[test]
fn invalid_lists_are_usage_errors() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (args, message) in [
        (&["measure", "syscall", "-n", "name"][..], "require a command"),
        (&["measure", "command", "-L", "a", "1", "--", "true"], "no command contains {a}"),
        (&["measure", "command", "-L", "cpus", "1", "--", "echo", "{cpus}"], "is a placeholder for a value"),
        (&["measure", "command", "-P", "a", "2", "1", "--", "echo", "{a}"], "--parameter-scan: the range 2 to 1"),
        (&["measure", "command", "-n", "a", "-n", "b", "--", "true"], "2 names for 1 command: ::: separates"),
        (&["measure", "command", "--min-runs", "5", "--max-runs", "4", "--", "true"], "is larger than"),
        (&["measure", "command", "--", "true", ":::"], "is empty"),
    ] {
        let output = nearfar(dir.path(), args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}
