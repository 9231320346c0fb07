//! Memory beyond DRAM from the command line: proven by its file, for who has arrays to put there, and gone afterwards.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program with its far files in this folder.
fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("r.db")).args(args).current_dir(folder);
    command
        .env_remove("NEARFAR_STORE")
        .env("NEARFAR_STATE", folder.join("state"))
        .env("NEARFAR_FAR", folder.join("far"));
    command
}

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// A scratch folder with one for far files in it, on a disk; a printed reason where there is none.
fn folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir_in("/var/tmp").expect("/var/tmp can be written to");
    fs::create_dir(folder.path().join("far")).expect("a folder can be made");
    let offered = said(&nearfar(folder.path(), &["placements", "--placement", "one-core+far", "--threads", "1"]));
    if offered.contains("no folder on a disk") {
        println!("skipped: /var/tmp is not on a disk");
        return None;
    }
    Some(folder)
}

/// The evidence of one trial, and its verdict's word; none where this machine cannot run it.
fn trial(folder: &Path, args: &[&str]) -> Option<(String, serde_json::Value)> {
    let all: Vec<&str> = ["measure"].iter().chain(args).chain(&["--smoke", "-r", "1", "-w", "0"]).copied().collect();
    let output = nearfar(folder, &all);
    let words = said(&output);
    if words.contains("cannot be measured here") && (words.contains("io_uring") || words.contains("libopenblas0")) {
        println!("skipped: {words}");
        return None;
    }
    assert!([0, 3].contains(&output.status.code().unwrap_or(-1)), "{args:?}: {words}");
    let shown = nearfar(folder, &["show", "latest", "--trials", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let trial = json["trials"].as_array().expect("trials are a list").last().expect("one was run").clone();
    Some((trial["verdict"].as_str().unwrap_or_default().into(), trial))
}

fn far_files(folder: &Path) -> usize {
    fs::read_dir(folder.join("far")).expect("the folder is there").count()
}

#[test]
fn arrays_in_a_far_file_are_measured_and_proven() {
    let Some(folder) = folder() else { return };
    let folder = folder.path();
    for workload in ["stream", "gups"] {
        let Some((verdict, trial)) = trial(folder, &[workload, "--placement", "one-core+far", "--threads", "1"]) else {
            return;
        };
        // Suspect where others use this machine; page faults that wait for a disk are no reason.
        assert_ne!(verdict, "invalid", "{trial}");
        assert!(!trial.to_string().contains("waited for a disk"), "{trial}");
    }
    assert_eq!(far_files(folder), 0);
}

#[test]
fn what_has_no_arrays_is_sent_elsewhere() {
    let Some(folder) = folder() else { return };
    let folder = folder.path();
    for args in [
        vec!["measure", "command", "--placement", "one-core+far", "-r", "1", "--", "true"],
        vec!["measure", "pingpong", "--placement", "compact+far", "-r", "1"],
        vec!["measure", "far-gemm", "--placement", "one-core+far", "-r", "1"],
    ] {
        let output = nearfar(folder, &args);
        let words = said(&output);
        assert_eq!(output.status.code(), Some(77), "{args:?}: {words}");
        assert!(words.contains("nearfar expand runs any program on more memory than DRAM"), "{args:?}: {words}");
    }
    let placed = nearfar(folder, &["place", "--only", "one-core+far", "--explain", "--", "true"]);
    let words = said(&placed);
    assert!(!placed.status.success() && words.contains("nearfar expand"), "{words}");
}

#[test]
fn a_folder_in_memory_is_refused_with_the_way_out() {
    let Some(folder) = folder() else { return };
    if !Path::new("/dev/shm").is_dir() {
        return println!("skipped: there is no /dev/shm");
    }
    let run = |name: &str| {
        let args =
            ["measure", "stream", "--smoke", "--placement", "one-core+far", "--threads", "1", "-r", "1", "-w", "0"];
        command(folder.path(), &args).env("NEARFAR_FAR", name).output().expect("the program starts")
    };
    let refused = run("/dev/shm");
    assert_eq!(refused.status.code(), Some(77), "{}", said(&refused));
    assert!(said(&refused).contains("no folder on a disk is known"), "{}", said(&refused));
    let told = run("memory:/dev/shm");
    assert!([Some(0), Some(3)].contains(&told.status.code()), "{}", said(&told));
}

#[test]
fn a_far_product_is_proven_and_mistakes_are_said() {
    let Some(folder) = folder() else { return };
    let folder = folder.path();
    let Some((verdict, trial)) = trial(folder, &["far-gemm", "--placement", "one-core", "--threads", "1"]) else {
        return;
    };
    assert_ne!(verdict, "invalid", "{trial}");
    assert_eq!(far_files(folder), 0);

    let too_little = nearfar(folder, &["measure", "far-gemm", "--set", "n=5000", "--set", "budget=1MiB", "-r", "1"]);
    let words = said(&too_little);
    assert!(words.contains("needs 1.4MiB") && words.contains("hint: "), "{words}");
    assert!(!too_little.status.success(), "{words}");
}

#[test]
fn a_killed_product_leaves_no_file() {
    let Some(folder) = folder() else { return };
    let args =
        ["measure", "far-gemm", "--set", "n=3000", "--set", "budget=8MiB", "--threads", "1", "-r", "1", "-w", "0"];
    let mut child =
        command(folder.path(), &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    // Until a process of its group holds a nameless file of that folder.
    let far = folder.path().join("far").to_string_lossy().into_owned();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds(&far) {
        if child.try_wait().expect("it can be asked").is_some() || Instant::now() > deadline {
            child.kill().ok();
            return println!("skipped: it ended before it was seen");
        }
        std::thread::yield_now();
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it has ended");
    assert_eq!(far_files(folder.path()), 0);
    // Its worker ends with it, and the disk's room comes back.
    while holds(&far) {
        assert!(Instant::now() < deadline, "somebody still holds a far file");
        std::thread::yield_now();
    }
}

/// Whether a process has a file of this folder open.
fn holds(folder: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc is there").flatten();
    processes.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit())).any(
        |entry| {
            let files = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
            files
                .filter_map(|file| fs::read_link(file.path()).ok())
                .any(|path| path.to_string_lossy().starts_with(folder))
        },
    )
}
