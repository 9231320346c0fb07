//! The walks of scripts/walks at small size: each completes within its limit and leaves neither files nor processes. A
//! part that lacks a program is skipped with the reason.

use std::path::Path;
use std::process::{Command, Stdio};

#[path = "scratch/mod.rs"]
#[allow(dead_code)] // other tests use the rest
mod scratch;

const WALKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/walks");
/// Much longer than a walk takes on a busy machine.
const TIME_LIMIT_S: &str = "300";

fn walk(name: &str) {
    let dir = scratch::Scratch::new();
    // Servers of other users read files in the directory of a walk.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), readable).expect("it belongs to this user");
    // Without a pipe: a server that is left would keep it open.
    let log_dir = scratch::Scratch::new();
    let log = log_dir.path().join("log");
    let file = std::fs::File::create(&log).expect("the directory is writable");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", TIME_LIMIT_S]).arg(Path::new(WALKS).join(name)).arg("--smoke");
    command.env("NEARFAR", env!("CARGO_BIN_EXE_nearfar")).env("TMPDIR", dir.path()).stdin(Stdio::null());
    command.stdout(file.try_clone().expect("a handle")).stderr(file);
    let status = command.status().expect("coreutils has timeout");
    let text = std::fs::read_to_string(&log).expect("the log is UTF-8");
    for line in text.lines().filter(|line| line.starts_with("skipped: ")) {
        println!("{line}");
    }
    assert!(status.success(), "{name}: {status}\n{text}");
    assert!(text.contains("first useful answer after") || text.contains("skipped: "), "{text}");
    let left = std::fs::read_dir(dir.path()).expect("the directory is readable").count();
    assert_eq!(left, 0, "{name} leaves files in {}", dir.path().display());
    let dir = dir.path().as_os_str().as_encoded_bytes();
    for pid in scratch::processes() {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_of_walk = command.windows(dir.len()).any(|bytes| bytes == dir);
        assert!(!is_of_walk, "{name} leaves a process: {}", String::from_utf8_lossy(&command).replace('\0', " "));
    }
}

#[test]
fn walk_of_a_newcomer_completes() {
    walk("newcomer");
}

#[test]
fn walk_of_a_database_administrator_completes() {
    walk("database");
}

#[test]
fn walk_of_an_hpc_administrator_completes() {
    walk("hpc");
}

#[test]
fn walk_of_a_reviewer_completes() {
    walk("reviewer");
}

#[test]
fn walk_of_a_kernel_engineer_completes() {
    walk("kernel");
}

/// A walk that is not in the list above would not be tested.
#[test]
fn every_walk_has_a_test() {
    let source = include_str!("walks.rs");
    for entry in std::fs::read_dir(WALKS).expect("the directory exists") {
        let name = entry.expect("entries are readable").file_name().into_string().expect("names are UTF-8");
        assert!(name == "common.sh" || source.contains(&format!("walk(\"{name}\")")), "{name} has no test");
    }
}
