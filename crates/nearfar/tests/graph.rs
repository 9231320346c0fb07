//! `nearfar graph`: golden hashes, formats of edge lists, valid and damaged files, and invalid arguments.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(args).current_dir(dir).env("NEARFAR_STORE", dir.join("r.db"));
    command.env("NEARFAR_STATE", dir.join("state")).output().expect("the program starts")
}

fn json(dir: &Path, args: &[&str]) -> serde_json::Value {
    let output = nearfar(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

fn rejects(dir: &Path, args: &[&str], status: i32, expected: &str) {
    let output = nearfar(dir, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
    assert!(stderr.contains(expected) && !stderr.contains("panicked"), "{args:?}: {expected} is missing: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn edge_lists_of_every_format_have_the_reference_hash() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let golden = "3625670bedd5a56dce03247f8198dbf33105e186ae0c0f605d4353f55eacfa3c";
    for (form, bytes) in [("pairs", 16 << 18), ("packed", 12 << 18), ("text", 0)] {
        let args = ["graph", "edges", "--scale", "14", "--edges", form, "-o", form, "--sha256", "--format", "json"];
        let result = json(dir, &args);
        assert_eq!(result["sha256"], golden, "{form}");
        assert_eq!(result["edges_generated"], 1 << 18);
        let length = std::fs::metadata(dir.join(form)).expect("the file exists").len();
        assert!(if bytes > 0 { length == bytes } else { length > 1 << 20 }, "{form}: {length}");
    }
    let small = nearfar(dir, &["graph", "edges", "--scale", "4", "--edges", "text", "-o", "-"]).stdout;
    assert!(String::from_utf8(small).expect("the edge list is text").starts_with("15 3\n15 12\n7 12\n"));
    let plain = nearfar(dir, &["graph", "edges", "--scale", "8", "--sha256"]).stdout;
    let plain = String::from_utf8(plain).expect("the output is text");
    assert!(plain.contains("7231d749e78d4f267fa0c688b8f703e021f80c074575ee2bbcf613c08dbf9edb"), "{plain}");
}

#[test]
fn graph_info_describes_graphs_and_rejects_damaged_files() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let built = json(dir, &["graph", "build", "--scale", "10", "-o", "g", "-k", "8", "--format", "json"]);
    let info = json(dir, &["graph", "info", "g", "--format", "json"]);
    for name in ["scale", "edges", "vertices_connected", "k", "head_bytes", "tail_bytes"] {
        assert_eq!(built[name], info[name], "{name}");
    }
    assert_eq!(info["vertices_connected"], 1024 - 125);
    rejects(dir, &["graph", "build", "--scale", "10", "-o", "g"], 2, "g already exists");
    let bytes = std::fs::read(dir.join("g")).expect("the file exists");
    std::fs::write(dir.join("cut"), &bytes[..bytes.len() / 2]).expect("the directory is writable");
    let mut damaged = bytes;
    damaged[5000] ^= 1;
    std::fs::write(dir.join("damaged"), damaged).expect("the directory is writable");
    std::fs::write(dir.join("foreign"), "15 3\n15 12\n").expect("the directory is writable");
    rejects(dir, &["graph", "info", "cut"], 2, "the file is truncated in its");
    rejects(dir, &["graph", "info", "damaged"], 2, "the file is damaged");
    rejects(dir, &["graph", "info", "foreign"], 2, "not a graph file of nearfar");
    rejects(dir, &["graph", "info", "missing"], 2, "missing: ");
}

/// A process that is killed when the value is dropped.
struct KillOnDrop(std::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn kill_during_a_build_leaves_no_incomplete_graph() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let build = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(["graph", "build", "--scale", "16", "-o", name]).current_dir(dir);
        command.env("NEARFAR_STATE", dir.join("state"));
        command
    };
    assert!(build("whole").output().expect("the program starts").status.success());
    let whole = std::fs::read(dir.join("whole")).expect("the file exists");
    let mut incomplete = 0;
    // At eighths of the file, until a kill hits: on a busy machine, a build may end before it is killed.
    for round in 0..64 {
        if round >= 8 && incomplete > 0 {
            break;
        }
        let kill_at = whole.len() as u64 * (round % 8) / 8;
        let mut child =
            KillOnDrop(build("g").stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program starts"));
        while written_by(child.0.id()) <= kill_at && child.0.try_wait().expect("the status is readable").is_none() {
            std::hint::spin_loop();
        }
        drop(child);
        incomplete += u32::from(!dir.join("g").exists());
        if dir.join("g").exists() {
            assert!(std::fs::read(dir.join("g")).expect("the file exists") == whole, "round {round}: g is incomplete");
            std::fs::remove_file(dir.join("g")).expect("the file exists");
        }
    }
    assert!(incomplete > 0, "no kill hit while the file was written");
    assert!(build("g").output().expect("the program starts").status.success());
    assert!(std::fs::read(dir.join("g")).expect("the file exists") == whole);
    let entries = std::fs::read_dir(dir).expect("the directory is readable").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| name != "state");
    names.sort();
    assert_eq!(names, ["g", "whole"], "no temporary file is left");
}

/// Returns the number of bytes that a process has written.
fn written_by(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

#[test]
fn invalid_and_too_large_graphs_are_rejected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    rejects(dir, &["graph", "edges", "--scale", "0"], 2, "scale 0");
    rejects(dir, &["graph", "edges", "--scale", "8", "--edge-factor", "0"], 2, "edge factor 0");
    rejects(dir, &["graph", "build", "--scale", "8", "-k", "0", "-o", "g"], 2, "k = 0");
    rejects(dir, &["graph", "build", "--scale", "31", "-o", "g"], 77, "a graph of scale 31 needs 976GiB");
    rejects(dir, &["graph", "edges", "--scale", "40", "-o", "list"], 77, "needs 256TiB of disk space");
    assert_eq!(std::fs::read_dir(dir).expect("readable").count(), 0, "no file is left");
    let info = json(dir, &["graph", "info", "--scale", "31", "--format", "json"]);
    assert_eq!((&info["fits"], &info["edge_list_bytes"]), (&false.into(), &(16_u64 << 35).into()));
    rejects(dir, &["measure", "bfs", "--set", "scale=0"], 2, "out of range 1 to 31");
    rejects(dir, &["measure", "bfs", "--set", "edge-factor=0"], 2, "out of range 1 to 65536");
}
