//! `nearfar share` with measured runs: the shared file contains no private data and can be imported and compared.

use std::path::Path;
use std::process::{Command, Output};

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    let dir = store.parent().expect("the path has a parent");
    command.arg("--store").arg(store).args(args).current_dir(dir).env("USER", "zaphod-the-user");
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state")).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn contains(file: &Path, text: &str) -> bool {
    std::fs::read(file).expect("the file exists").windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn free_text_of_the_experiment_is_listed_to_be_checked() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("mine.db");
    let experiment = "name = \"small\"\nquestion = \"Does Project Zebra pay?\"\n[repeat]\nmin = 2\nmax = 2\n\
                      [compare]\nby = \"label.zebra-team\"\nbaseline = \"zebra-old\"\n\
                      [[workload]]\nname = \"queens\"\nplacements = [\"kernel\"]\nthreads = [1]\n";
    std::fs::write(dir.path().join("e.toml"), experiment).expect("the directory is writable");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml:7");
    stdout(&nearfar(&store, &["run", "e.toml", "--sim", model, "--quiet"]));
    let shared = nearfar(&store, &["share", "-o", "shared.db"]);
    let stderr = String::from_utf8_lossy(&shared.stderr);
    for line in ["question: Does Project Zebra pay?", "compared by: label.zebra-team", "baseline: zebra-old"] {
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
}

#[test]
fn shared_command_is_hidden_and_comparable_by_host() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mine, theirs) = (dir.path().join("mine.db"), dir.path().join("theirs.db"));
    let secret = dir.path().join("payroll-2026.txt");
    std::fs::write(&secret, "figures").expect("the directory is writable");
    let argument = secret.to_str().expect("temporary paths are UTF-8");
    let line =
        ["measure", "command", "-r", "3", "--host-label", "basement rack", "--", "cat", argument, "/etc/hostname"];
    stdout(&nearfar(&mine, &line));
    assert!(contains(&mine, "payroll-2026"), "the original contains it");

    let shared = nearfar(&mine, &["share", "-o", "shared.db", "--host-label", "left"]);
    assert_eq!(stdout(&shared), "shared.db\n");
    let stderr = String::from_utf8_lossy(&shared.stderr);
    assert!(stderr.contains("command lines (1)") && stderr.contains("machine: left"), "{stderr}");
    let file = dir.path().join("shared.db");
    let root = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let root = root
        .split_whitespace()
        .find(|parameter| parameter.starts_with("root="))
        .unwrap_or("root=/dev/none")
        .to_string();
    for secret in ["payroll-2026", "basement rack", "/etc/hostname", "zaphod-the-user", argument, root.as_str()] {
        assert!(!contains(&file, secret), "{secret}");
    }

    let line = ["measure", "command", "-r", "3", "--host-label", "right", "--", "cat", "/etc/hostname"];
    stdout(&nearfar(&theirs, &line));
    stdout(&nearfar(&theirs, &["import", "shared.db"]));
    let compared = stdout(&nearfar(&theirs, &["compare", "--by", "host", "--format", "json"]));
    let compared: serde_json::Value = serde_json::from_str(&compared).expect("compare prints JSON");
    let row = compared["rows"].as_array().expect("rows is a list").first();
    for host in ["left", "right"] {
        assert!(row.expect("the command has a row")["values"][host]["median"].is_f64(), "{host}: {compared}");
    }

    let again = nearfar(&mine, &["share", "-o", "shared.db"]);
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr.contains("the file already exists\nhint: choose another name"), "{stderr}");
    stdout(&nearfar(
        &mine,
        &["share", "-o", "kept.db", "--keep", "commands", "--keep", "host-label", "--format", "json"],
    ));
    let kept = dir.path().join("kept.db");
    assert!(contains(&kept, "basement rack") && contains(&kept, "cat") && !contains(&kept, "payroll-2026"));
}

#[test]
fn shared_workload_is_comparable_by_host() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("mine.db");
    let queens = ["measure", "queens", "--smoke", "-r", "2", "--placement", "one-core"];
    stdout(&nearfar(&store, &queens));
    let shared = stdout(&nearfar(&store, &["share", "-o", "shared.db", "--host-label", "board", "--format", "json"]));
    let shared: serde_json::Value = serde_json::from_str(&shared).expect("share prints JSON");
    assert_eq!(shared["names"]["machine"], "board", "{shared}");
    let theirs = dir.path().join("theirs.db");
    stdout(&nearfar(&theirs, &[&queens[..], &["--host-label", "desk"]].concat()));
    stdout(&nearfar(&theirs, &["import", "shared.db"]));
    let compared = stdout(&nearfar(&theirs, &["compare", "--by", "host", "--format", "json"]));
    let compared: serde_json::Value = serde_json::from_str(&compared).expect("compare prints JSON");
    for host in ["board", "desk"] {
        assert!(compared["rows"][0]["values"][host]["median"].is_f64(), "{host}: {compared}");
    }
}

#[test]
fn imported_table_is_shared_without_its_commands() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("mine.db");
    let report = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/reports/hyperfine-1.20.0.json");
    stdout(&nearfar(&store, &["import", "--name", "times", "--column", "zaphod-the-user", report]));
    let shared = nearfar(&store, &["share", "--table", "times", "-o", "shared.db"]);
    stdout(&shared);
    let stderr = String::from_utf8_lossy(&shared.stderr);
    assert!(stderr.contains("columns: NAME") && stderr.contains("tests: command-1"), "{stderr}");
    let theirs = dir.path().join("theirs.db");
    stdout(&nearfar(&theirs, &["import", "shared.db"]));
    let text = std::fs::read_to_string(report).expect("the report exists");
    let results: serde_json::Value = serde_json::from_str(&text).expect("the report is JSON");
    let command = results["results"][0]["command"].as_str().expect("results have commands").to_string();
    assert!(!contains(&dir.path().join("shared.db"), &command) && contains(&store, &command), "{command}");
    let missing = nearfar(&store, &["share", "--table", "none", "-o", "x.db"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("hint: available: times"));
}
