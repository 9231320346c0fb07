//! What people type wrong gets an error that names it, a hint where there is a next step, and status 2.

use std::path::Path;
use std::process::{Command, Output};

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("r.db")).args(args).current_dir(folder);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", folder.join("state")).output().expect("the program starts")
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the folder can be written");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    write(folder, "empty.toml", "");
    write(folder, "nothing.txt", "\n");
    std::fs::write(folder.join("binary"), [0x7f, b'E', b'L', b'F', 0xff, 0]).expect("the folder can be written");
    write(folder, "cut.xml", "<?xml version=\"1.0\"?><topology version=\"2.0\"><object type=\"Machine\"");
    write(
        folder,
        "unknown.toml",
        "name = \"x\"\nquestion = \"?\"\n[[workload]]\nname = \"strem\"\nplacements = [\"kernel\"]\n",
    );
    let cases: &[(&[&str], &str)] = &[
        (&["measure", "strem"], "unknown workload 'strem'\nhint: did you mean 'stream'?"),
        (&["measure", "stream", "--set", "sise=1GiB"], "the parameters are size"),
        (&["measure", "stream", "--set", "size"], "KEY=VALUE"),
        (&["measure", "stream", "--set", "size=many"], "'many' is not a size"),
        (&["measure", "stream", "--placement", "compactt"], "hint: did you mean 'compact'?"),
        (&["placements", "--placement", "compactt"], "hint: did you mean 'compact'?"),
        (&["place", "--only", "compactt", "--", "true"], "hint: did you mean 'compact'?"),
        (&["measure", "stream", "-C", "60000"], "cpu 60000 does not exist"),
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
        (&["show"], "results.db does not exist"),
        (&["place", "--budget", "0s", "--", "true"], "--budget 0s: the duration must be greater than zero"),
        (&["place", "--save", " ", "--", "true"], "must not be empty"),
        (&["import", "missing.csv", "--format", "table"], "missing.csv"),
        (&["import", "missing.txt"], "missing.txt"),
        (&["import", "nothing.txt"], "the file is empty"),
        (&["import", "binary"], "the file is not UTF-8 text"),
        (&["import", "empty.toml", "cut.xml", "--column", "a"], "2 files and 1 columns"),
        (&["import", "cut.xml"], "docs/reference/importers.md"),
        (&["import", "cut.xml", "--format", "fio"], "the file is not of format fio"),
        (&["share", "-o", "x.db"], "results.db does not exist"),
        (&["share"], "--output <FILE>"),
        (&["share", "--table", "x", "latest", "-o", "x.db"], "cannot be used with"),
        (&["man", "nosuch"], "commands: map, "),
        (&["completions", "tcsh"], "bash, elvish, fish"),
        (&["run", "quick", "--sim", "missing.xml:1"], "missing.xml"),
    ];
    for (args, expected) in cases {
        let output = nearfar(folder, args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?} should name {expected}: {said}");
        assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}: data goes to stdout, talk does not");
    }
}

#[test]
fn a_command_that_never_ends_is_stopped_and_a_flood_is_bounded() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let endless = nearfar(folder, &["measure", "command", "-r", "1", "--time-limit", "300ms", "--", "sleep", "1000"]);
    assert_eq!(endless.status.code(), Some(4), "measured, but nothing is proven");
    assert!(String::from_utf8_lossy(&endless.stdout).contains("it exceeded its time limit of 300ms"));
    let flood = nearfar(folder, &["measure", "command", "-r", "1", "--", "head", "-c", "1000000000", "/dev/zero"]);
    assert!(flood.status.success(), "{}", String::from_utf8_lossy(&flood.stderr));
}

#[test]
fn one_cell_is_measured_shown_exported_and_reported() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let args = [
        "measure",
        "queens",
        "--smoke",
        "--placement",
        "kernel",
        "--placement",
        "one-core",
        "-r",
        "2",
        "--format",
        "json",
    ];
    let json: serde_json::Value = serde_json::from_slice(&nearfar(folder, &args).stdout).expect("measure prints JSON");
    let cells = json["cells"].as_array().expect("cells is a list");
    let placements: Vec<&str> = cells.iter().filter_map(|cell| cell["placement"].as_str()).collect();
    assert_eq!(placements, ["kernel", "one-core"]);
    for key in ["name", "unit", "better", "median", "ci_low", "ci_high", "samples"] {
        assert!(!cells[0]["metrics"][0][key].is_null(), "{key}: {json}");
    }
    for key in ["workload", "parameters", "verdicts"] {
        assert!(!cells[0][key].is_null(), "{key}");
    }
    let trials = nearfar(folder, &["show", "--trials", "--format", "json"]).stdout;
    let trials: serde_json::Value = serde_json::from_slice(&trials).expect("show prints JSON");
    assert_eq!(trials["trials"].as_array().map(Vec::len), Some(4));
    let csv = String::from_utf8(nearfar(folder, &["export"]).stdout).expect("CSV is text");
    assert_eq!(csv.lines().filter(|line| line.contains(",solutions,")).count(), 4, "one sample of it per trial: {csv}");
    let compared = nearfar(folder, &["compare", "--baseline", "one-core", "--format", "json"]).stdout;
    let compared: serde_json::Value = serde_json::from_slice(&compared).expect("compare prints JSON");
    assert_eq!(compared["baseline"], "one-core");
    let html = String::from_utf8(nearfar(folder, &["report", "--output", "-"]).stdout).expect("HTML is text");
    assert!(html.contains("queens") && html.matches("<script").count() == 1, "one file with one script");
    assert!(!html.contains("http://") || !html.contains("src=\"http"), "no network");
}

/// One column has nothing to be compared with: a picture of nothing would look like a result.
#[test]
fn nothing_to_compare_is_no_picture() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let measured = |placements: &[&str]| {
        let chosen: Vec<&str> = placements.iter().flat_map(|one| ["--placement", one]).collect();
        let asked = ["measure", "queens", "-r", "6", "--sim", "pack:2 core:2 pu:1:3", "--quiet"];
        assert!(nearfar(folder.path(), &[&asked[..], &chosen].concat()).status.success());
        nearfar(folder.path(), &["compare", "--format", "svg"])
    };
    let refused = measured(&["kernel"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("no change to draw") && said.contains("hint: "), "{said}");
    let drawn = String::from_utf8(measured(&["kernel", "compact", "one-core"]).stdout).expect("SVG is text");
    assert!(drawn.starts_with("<svg") && drawn.contains("one-core for queens"), "{drawn}");
}
