//! `nearfar graph` from outside: golden hashes, forms of edge lists, files that come back or are refused, and what cannot be.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(args).current_dir(folder).env("NEARFAR_STORE", folder.join("r.db"));
    command.env("NEARFAR_STATE", folder.join("state")).output().expect("the program starts")
}

fn json(folder: &Path, args: &[&str]) -> serde_json::Value {
    let output = nearfar(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn refused(folder: &Path, args: &[&str], status: i32, expected: &str) {
    let output = nearfar(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    assert!(said.contains(expected) && !said.contains("panicked"), "{args:?} should say {expected}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn edge_lists_have_the_reference_hash_in_every_form() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let golden = "3625670bedd5a56dce03247f8198dbf33105e186ae0c0f605d4353f55eacfa3c";
    for (form, bytes) in [("pairs", 16 << 18), ("packed", 12 << 18), ("text", 0)] {
        let args = ["graph", "edges", "--scale", "14", "--edges", form, "-o", form, "--sha256", "--format", "json"];
        let said = json(folder, &args);
        assert_eq!(said["sha256"], golden, "{form}");
        assert_eq!(said["edges_generated"], 1 << 18);
        let length = std::fs::metadata(folder.join(form)).expect("it was written").len();
        assert!(if bytes > 0 { length == bytes } else { length > 1 << 20 }, "{form}: {length}");
    }
    let small = nearfar(folder, &["graph", "edges", "--scale", "4", "--edges", "text", "-o", "-"]).stdout;
    assert!(String::from_utf8(small).expect("numbers are text").starts_with("15 3\n15 12\n7 12\n"));
    let plain = nearfar(folder, &["graph", "edges", "--scale", "8", "--sha256"]).stdout;
    let plain = String::from_utf8(plain).expect("it prints text");
    assert!(plain.contains("7231d749e78d4f267fa0c688b8f703e021f80c074575ee2bbcf613c08dbf9edb"), "{plain}");
}

#[test]
fn a_built_graph_is_described_and_a_spoilt_file_refused() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let built = json(folder, &["graph", "build", "--scale", "10", "-o", "g", "-k", "8", "--format", "json"]);
    let info = json(folder, &["graph", "info", "g", "--format", "json"]);
    for name in ["scale", "edges", "vertices_connected", "k", "head_bytes", "tail_bytes"] {
        assert_eq!(built[name], info[name], "{name}");
    }
    assert_eq!(info["vertices_connected"], 1024 - 125);
    refused(folder, &["graph", "build", "--scale", "10", "-o", "g"], 2, "g is there already");
    let bytes = std::fs::read(folder.join("g")).expect("it was written");
    std::fs::write(folder.join("cut"), &bytes[..bytes.len() / 2]).expect("the folder can be written");
    let mut damaged = bytes;
    damaged[5000] ^= 1;
    std::fs::write(folder.join("damaged"), damaged).expect("the folder can be written");
    std::fs::write(folder.join("foreign"), "15 3\n15 12\n").expect("the folder can be written");
    refused(folder, &["graph", "info", "cut"], 2, "the file is truncated in its");
    refused(folder, &["graph", "info", "damaged"], 2, "the file is damaged");
    refused(folder, &["graph", "info", "foreign"], 2, "not a graph file of nearfar");
    refused(folder, &["graph", "info", "missing"], 2, "missing: ");
}

/// A child that is killed with this value.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_while_it_writes_it_leaves_no_cut_file_under_the_name() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let build = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(["graph", "build", "--scale", "16", "-o", name]).current_dir(folder);
        command.env("NEARFAR_STATE", folder.join("state"));
        command
    };
    assert!(build("whole").output().expect("the program starts").status.success());
    let whole = std::fs::read(folder.join("whole")).expect("it was written");
    let mut halves = 0;
    for round in 0..8 {
        let wanted = whole.len() as u64 * round / 8;
        let mut child =
            Killed(build("g").stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program starts"));
        let written = |name: &str| std::fs::metadata(folder.join(name)).map_or(0, |about| about.len());
        while written("g.partial").max(written("g")) <= wanted && child.0.try_wait().expect("it is ours").is_none() {
            std::hint::spin_loop();
        }
        drop(child);
        halves += u32::from(folder.join("g.partial").exists());
        let _ = std::fs::remove_file(folder.join("g.partial")); // it may be g by now
        if folder.join("g").exists() {
            assert!(
                std::fs::read(folder.join("g")).expect("it is there") == whole,
                "round {round}: a cut file has the name"
            );
            std::fs::remove_file(folder.join("g")).expect("it is there");
        }
    }
    assert!(halves > 0, "it was never killed while it wrote");
    let half = std::fs::File::create(folder.join("g.partial")).expect("the folder can be written");
    half.lock().expect("nobody else has it");
    refused(folder, &["graph", "build", "--scale", "16", "-o", "g"], 2, "g is being made by another process");
    (&half).write_all(b"a half").expect("the folder can be written");
    drop(half);
    assert!(build("g").output().expect("the program starts").status.success());
    assert!(std::fs::read(folder.join("g")).expect("it was written") == whole, "a half is written over");
    assert!(!folder.join("g.partial").exists(), "nothing is left beside it");
}

#[test]
fn impossible_and_too_large_graphs_are_refused_with_what_they_need() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    refused(folder, &["graph", "edges", "--scale", "0"], 2, "scale 0");
    refused(folder, &["graph", "edges", "--scale", "8", "--edge-factor", "0"], 2, "edge factor 0");
    refused(folder, &["graph", "build", "--scale", "8", "-k", "0", "-o", "g"], 2, "k = 0");
    refused(folder, &["graph", "build", "--scale", "31", "-o", "g"], 77, "a graph of scale 31 needs 976GiB");
    refused(folder, &["graph", "edges", "--scale", "40", "-o", "list"], 77, "256TiB do not fit on its disk");
    assert_eq!(std::fs::read_dir(folder).expect("readable").count(), 0, "nothing is left behind");
    let info = json(folder, &["graph", "info", "--scale", "31", "--format", "json"]);
    assert_eq!((&info["fits"], &info["edge_list_bytes"]), (&false.into(), &(16_u64 << 35).into()));
    refused(folder, &["measure", "bfs", "--set", "scale=0"], 2, "goes from 1 to 31");
    refused(folder, &["measure", "bfs", "--set", "edge-factor=0"], 2, "goes from 1 to 65536");
}
