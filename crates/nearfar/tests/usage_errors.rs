//! Usage errors: the message names the invalid argument, with a hint if there is a next step, and the exit status is 2.

use std::path::Path;
use std::process::{Command, Output};

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("r.db")).args(args).current_dir(dir);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state")).output().expect("the program starts")
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("the directory is writable");
}

#[test]
fn usage_errors_name_the_invalid_argument() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    write(dir, "empty.toml", "");
    write(dir, "nothing.txt", "\n");
    std::fs::write(dir.join("binary"), [0x7f, b'E', b'L', b'F', 0xff, 0]).expect("the directory is writable");
    write(dir, "cut.xml", "<?xml version=\"1.0\"?><topology version=\"2.0\"><object type=\"Machine\"");
    write(
        dir,
        "unknown.toml",
        "name = \"x\"\nquestion = \"?\"\n[[workload]]\nname = \"strem\"\nplacements = [\"kernel\"]\n",
    );
    let cases: &[(&[&str], &str)] = &[
        (&["measure", "strem"], "unknown workload 'strem'\nhint: did you mean 'stream'?"),
        (&["measure", "stream", "--set", "sise=1GiB"], "the parameters are size"),
        (&["measure", "stream", "--set", "size"], "KEY=VALUE"),
        // The former name of a parameter is accepted.
        (&["measure", "compress", "--set", "folder=/tmp", "--set", "program=none"], "'none' is not one of"),
        (&["measure", "stream", "--set", "size=many"], "'many' is not a size"),
        (&["measure", "stream", "--placement", "compactt"], "hint: did you mean 'compact'?"),
        (&["placements", "--placement", "compactt"], "hint: did you mean 'compact'?"),
        (&["place", "--only", "compactt", "--", "true"], "hint: did you mean 'compact'?"),
        (&["measure", "stream", "-C", "60000"], "CPU 60000 does not exist"),
        (&["measure", "command", "--", "/no/such/program"], "'/no/such/program'"),
        (&["measure", "command", "--set", "metric=(", "--", "true"], "metric"),
        (&["run", "nosuch"], "built in: quick"),
        (&["run", "quik"], "hint: did you mean 'quick'?"),
        (&["mesure", "stream"], "hint: did you mean 'measure'?"),
        (&["man", "plce"], "hint: did you mean 'place'?"),
        (&["place", "xz", "-kc", "FILE"], "place -- xz -kc FILE"),
        (&["measure", "command", "xz", "-k"], "measure command -- xz -k"),
        (&["size", "xz", "-kc", "FILE"], "size -- xz -kc FILE"),
        (&["expand", "--dram", "1GiB", "xz"], "expand --dram 1GiB -- xz"),
        (&["run", "empty.toml"], "empty.toml:1"),
        (&["run", "unknown.toml"], "unknown.toml:4"),
        (&["map", "--from", "missing.xml"], "missing.xml"),
        (&["map", "--from", "cut.xml"], "cut.xml"),
        (&["map", "--from", "pack:0 core:x"], "pack:0 core:x"),
        (&["show"], "r.db does not exist"),
        (&["place", "--budget", "0s", "--", "true"], "--budget 0s: the duration must be greater than zero"),
        (&["place", "--save", " ", "--", "true"], "must not be empty"),
        (&["import", "missing.csv", "--format", "table"], "missing.csv"),
        (&["import", "missing.txt"], "missing.txt"),
        (&["import", "nothing.txt"], "the file is empty"),
        (&["import", "binary"], "the file is not UTF-8 text"),
        (&["import", "empty.toml", "cut.xml", "--column", "a"], "2 files and 1 columns"),
        (&["import", "cut.xml"], "docs/reference/importers.md"),
        (&["import", "cut.xml", "--format", "fio"], "the file is not of format fio"),
        (&["share", "-o", "x.db"], "r.db does not exist"),
        (&["share"], "--output <FILE>"),
        (&["share", "--table", "x", "latest", "-o", "x.db"], "cannot be used with"),
        (&["man", "nosuch"], "commands: map, "),
        (&["completions", "tcsh"], "bash, elvish, fish"),
        (&["run", "quick", "--sim", "missing.xml:1"], "missing.xml"),
    ];
    for (args, expected) in cases {
        let output = nearfar(dir, args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {expected} is missing: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}: messages must not be printed to stdout");
    }
}

#[test]
fn endless_command_times_out_and_large_output_is_bounded() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let endless = nearfar(dir, &["measure", "command", "-r", "1", "--time-limit", "300ms", "--", "sleep", "1000"]);
    assert_eq!(endless.status.code(), Some(4), "measured, but no trial is valid");
    assert!(String::from_utf8_lossy(&endless.stdout).contains("it exceeded its time limit of 300ms"));
    let flood = nearfar(dir, &["measure", "command", "-r", "1", "--", "head", "-c", "1000000000", "/dev/zero"]);
    assert!(flood.status.success(), "{}", String::from_utf8_lossy(&flood.stderr));
}

#[test]
fn cell_is_measured_shown_exported_and_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let args = [
        "measure",
        "queens",
        "--smoke",
        "--placement",
        "kernel",
        "--placement",
        "one-core",
        "-r",
        "3",
        "--format",
        "json",
    ];
    let json: serde_json::Value = serde_json::from_slice(&nearfar(dir, &args).stdout).expect("measure prints JSON");
    let cells = json["cells"].as_array().expect("cells is a list");
    let placements: Vec<&str> = cells.iter().filter_map(|cell| cell["placement"].as_str()).collect();
    assert_eq!(placements, ["kernel", "one-core"]);
    for key in ["name", "unit", "better", "median", "ci_low", "ci_high", "samples"] {
        assert!(!cells[0]["metrics"][0][key].is_null(), "{key}: {json}");
    }
    for key in ["workload", "parameters", "verdicts"] {
        assert!(!cells[0][key].is_null(), "{key}");
    }
    let trials = nearfar(dir, &["show", "--trials", "--format", "json"]).stdout;
    let trials: serde_json::Value = serde_json::from_slice(&trials).expect("show prints JSON");
    assert_eq!(trials["trials"].as_array().map(Vec::len), Some(6));
    let csv = String::from_utf8(nearfar(dir, &["export"]).stdout).expect("CSV is text");
    assert_eq!(csv.lines().filter(|line| line.contains(",solutions,")).count(), 6, "one sample per trial: {csv}");
    let compared = nearfar(dir, &["compare", "--baseline", "one-core", "--format", "json"]).stdout;
    let compared: serde_json::Value = serde_json::from_slice(&compared).expect("compare prints JSON");
    assert_eq!(compared["baseline"], "one-core");
    let html = String::from_utf8(nearfar(dir, &["report", "--output", "-"]).stdout).expect("HTML is text");
    assert!(html.contains("queens") && html.matches("<script").count() == 1, "the page has one script");
    assert!(!html.contains("http://") || !html.contains("src=\"http"), "the page loads nothing from the network");
}

/// With a single column there is no comparison, and an empty picture would look like a result.
#[test]
fn comparison_of_one_column_is_not_drawn() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let compare = |placements: &[&str]| {
        let chosen: Vec<&str> = placements.iter().flat_map(|one| ["--placement", one]).collect();
        let args = ["measure", "queens", "-r", "6", "--sim", "pack:2 core:2 pu:1:3", "--quiet"];
        assert!(nearfar(dir.path(), &[&args[..], &chosen].concat()).status.success());
        nearfar(dir.path(), &["compare", "--format", "svg"])
    };
    let refused = compare(&["kernel"]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no change to draw") && stderr.contains("hint: "), "{stderr}");
    let drawn = String::from_utf8(compare(&["kernel", "compact", "one-core"]).stdout).expect("SVG is text");
    assert!(drawn.starts_with("<svg") && drawn.contains("one-core for queens"), "{drawn}");
}

#[test]
fn terminal_escapes_of_words_and_files_do_not_reach_the_terminal() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let hostile = "x\u{1b}]0;title\u{7}\u{9b}2J";
    let file = dir.path().join(format!("{hostile}.csv"));
    std::fs::write(&file, format!("test,metric,unit,better,{hostile}\n{hostile},m,{hostile},sideways,{hostile}\n"))
        .expect("the directory is writable");
    let file = file.to_str().expect("the path is UTF-8");
    let cases: [&[&str]; 8] = [
        &[hostile],
        &["measure", hostile],
        &["measure", "stream", "--set", hostile],
        &["run", hostile],
        &["import", file],
        &["placements", "--from", file],
        &["show", hostile],
        &["place", "--threads", hostile],
    ];
    for args in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(args).env("NEARFAR_STORE", dir.path().join("r.db")).env("NEARFAR_STATE", dir.path().join("state"));
        let output = command.output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && !text.is_empty(), "{args:?}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{args:?}: {text:?}");
    }
}

#[test]
fn color_option_applies_to_tables_help_and_errors() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");
    let has_escapes = |args: &[&str]| {
        let output = nearfar(dir.path(), args);
        [output.stdout, output.stderr].concat().contains(&0x1b)
    };
    let commands: [&[&str]; 3] = [&["placements", "--from", model], &["show", "--help"], &["show", "--nosuch=1"]];
    for command in commands {
        assert!(has_escapes(&[command, &["--color", "always"]].concat()), "{command:?}");
        assert!(!has_escapes(&[command, &["--color=never"]].concat()), "{command:?}");
        assert!(!has_escapes(command), "stdout is not a terminal: {command:?}");
    }
}

#[test]
fn verbose_names_files_trials_and_command_lines() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let stderr = |args: &[&str]| String::from_utf8(nearfar(dir.path(), args).stderr).expect("messages are text");
    let command = ["measure", "command", "-r", "1", "--placement", "one-core", "--", "echo", "a b"];
    let measured = stderr(&[&["-v"], &command[..]].concat());
    let threads = ": command @ one-core, threads: 1, CPUs: ";
    for part in ["results file: ", threads, "\n  command: echo 'a b'\n"] {
        assert!(measured.contains(part), "{part}: {measured}");
        assert!(!stderr(&command).contains(part), "{part} without --verbose");
    }
    assert!(stderr(&["run", "quick", "--dry-run", "-v"]).contains("experiment: quick, built in\n"));
    assert!(stderr(&["report", "-v", "-o", "a.html"]).contains("wrote a.html\n"));
    assert_eq!(nearfar(dir.path(), &["show", "-qv"]).status.code(), Some(2));
}
