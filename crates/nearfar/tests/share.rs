//! `nearfar share` with a run that was really made: what its owner would not tell is not in the file, and whoever gets the
//! file can compare with it.

use std::path::Path;
use std::process::{Command, Output};

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    let folder = store.parent().expect("it lies in a folder");
    command.arg("--store").arg(store).args(args).current_dir(folder).env("USER", "zaphod-the-user");
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", folder.join("state")).output().expect("the program starts")
}

fn well(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn holds(file: &Path, text: &str) -> bool {
    std::fs::read(file).expect("it was written").windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_command_is_shared_without_itself_and_compared_by_host() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (mine, theirs) = (folder.path().join("mine.db"), folder.path().join("theirs.db"));
    let secret = folder.path().join("payroll-2026.txt");
    std::fs::write(&secret, "figures").expect("the folder can be written");
    let argument = secret.to_str().expect("scratch folders are UTF-8");
    let line =
        ["measure", "command", "-r", "3", "--host-label", "basement rack", "--", "cat", argument, "/etc/hostname"];
    well(&nearfar(&mine, &line));
    assert!(holds(&mine, "payroll-2026"), "the original has it");

    let shared = nearfar(&mine, &["share", "-o", "shared.db", "--host-label", "left"]);
    assert_eq!(well(&shared), "shared.db\n");
    let said = String::from_utf8_lossy(&shared.stderr);
    assert!(said.contains("command lines (1)") && said.contains("machine: left"), "{said}");
    let file = folder.path().join("shared.db");
    let root = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let root = root
        .split_whitespace()
        .find(|parameter| parameter.starts_with("root="))
        .unwrap_or("root=/dev/none")
        .to_string();
    for secret in ["payroll-2026", "basement rack", "/etc/hostname", "zaphod-the-user", argument, root.as_str()] {
        assert!(!holds(&file, secret), "{secret}");
    }

    well(&nearfar(&theirs, &["measure", "command", "-r", "3", "--host-label", "right", "--", "cat", "/etc/hostname"]));
    well(&nearfar(&theirs, &["import", "shared.db"]));
    let compared = well(&nearfar(&theirs, &["compare", "--by", "host", "--format", "json"]));
    let compared: serde_json::Value = serde_json::from_str(&compared).expect("compare prints JSON");
    let row = compared["rows"].as_array().expect("rows is a list").first();
    for host in ["left", "right"] {
        assert!(row.expect("the command has a row")["values"][host]["median"].is_f64(), "{host}: {compared}");
    }

    let again = nearfar(&mine, &["share", "-o", "shared.db"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2));
    assert!(said.contains("the file already exists\nhint: choose another name"), "{said}");
    well(&nearfar(
        &mine,
        &["share", "-o", "kept.db", "--keep", "commands", "--keep", "host-label", "--format", "json"],
    ));
    let kept = folder.path().join("kept.db");
    assert!(holds(&kept, "basement rack") && holds(&kept, "cat") && !holds(&kept, "payroll-2026"));
}

#[test]
fn a_workload_is_shared_and_compared_by_host() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let store = folder.path().join("mine.db");
    let queens = ["measure", "queens", "--smoke", "-r", "2", "--placement", "one-core"];
    well(&nearfar(&store, &queens));
    let shared = well(&nearfar(&store, &["share", "-o", "shared.db", "--host-label", "board", "--format", "json"]));
    let shared: serde_json::Value = serde_json::from_str(&shared).expect("share prints JSON");
    assert_eq!(shared["names"]["machine"], "board", "{shared}");
    let theirs = folder.path().join("theirs.db");
    well(&nearfar(&theirs, &[&queens[..], &["--host-label", "desk"]].concat()));
    well(&nearfar(&theirs, &["import", "shared.db"]));
    let compared = well(&nearfar(&theirs, &["compare", "--by", "host", "--format", "json"]));
    let compared: serde_json::Value = serde_json::from_str(&compared).expect("compare prints JSON");
    for host in ["board", "desk"] {
        assert!(compared["rows"][0]["values"][host]["median"].is_f64(), "{host}: {compared}");
    }
}

#[test]
fn an_imported_table_is_shared() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let store = folder.path().join("mine.db");
    let report = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/reports/hyperfine-1.20.0.json");
    well(&nearfar(&store, &["import", "--name", "times", "--column", "zaphod-the-user", report]));
    let shared = nearfar(&store, &["share", "--table", "times", "-o", "shared.db"]);
    well(&shared);
    let said = String::from_utf8_lossy(&shared.stderr);
    assert!(said.contains("columns: NAME") && said.contains("tests: command-1"), "{said}");
    let theirs = folder.path().join("theirs.db");
    well(&nearfar(&theirs, &["import", "shared.db"]));
    let text = std::fs::read_to_string(report).expect("it is there");
    let results: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let command = results["results"][0]["command"].as_str().expect("it has commands").to_string();
    assert!(!holds(&folder.path().join("shared.db"), &command) && holds(&store, &command), "{command}");
    let missing = nearfar(&store, &["share", "--table", "none", "-o", "x.db"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("hint: available: times"));
}
