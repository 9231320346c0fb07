//! Arrays in far files, from the command line: verified, only for workloads with arrays, and removed afterwards.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs the program with its far files below this directory.
fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("r.db")).args(args).current_dir(dir);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state")).env("NEARFAR_FAR", dir.join("far"));
    command
}

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("the program starts")
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// A temporary directory with a subdirectory for far files; `None`, with the reason printed, if it is not on a disk.
fn temp_dir() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir_in("/var/tmp").expect("/var/tmp is writable");
    fs::create_dir(dir.path().join("far")).expect("the directory can be created");
    let offered = text_of(&nearfar(dir.path(), &["placements", "--placement", "one-core+far", "--threads", "1"]));
    if offered.contains("no directory on a disk") {
        println!("skipped: /var/tmp is not on a disk");
        return None;
    }
    Some(dir)
}

/// Returns the verdict and the last trial of a measurement; `None`, with the reason printed, if it cannot run here.
fn trial(dir: &Path, args: &[&str]) -> Option<(String, serde_json::Value)> {
    let all_args: Vec<&str> =
        ["measure"].iter().chain(args).chain(&["--smoke", "-r", "1", "-w", "0"]).copied().collect();
    let output = nearfar(dir, &all_args);
    let text = text_of(&output);
    if text.contains("cannot be measured here") && text.contains("io_uring") || text.contains("libopenblas0") {
        println!("skipped: {text}");
        return None;
    }
    assert!([0, 3].contains(&output.status.code().unwrap_or(-1)), "{args:?}: {text}");
    let shown = nearfar(dir, &["show", "latest", "--trials", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let trial = json["trials"].as_array().expect("trials are a list").last().expect("at least one trial").clone();
    Some((trial["verdict"].as_str().unwrap_or_default().into(), trial))
}

fn far_files(dir: &Path) -> usize {
    fs::read_dir(dir.join("far")).expect("the directory exists").count()
}

#[test]
fn arrays_in_a_far_file_are_measured_and_verified() {
    let Some(dir) = temp_dir() else { return };
    let dir = dir.path();
    for workload in ["stream", "gups"] {
        let Some((verdict, trial)) = trial(dir, &[workload, "--placement", "one-core+far", "--threads", "1"]) else {
            return;
        };
        // A trial may be suspect because other programs use this machine, but not because page faults wait for a disk.
        assert_ne!(verdict, "invalid", "{trial}");
        assert!(!trial.to_string().contains("waited for a disk"), "{trial}");
    }
    assert_eq!(far_files(dir), 0);
}

#[test]
fn far_placement_without_arrays_hints_at_expand() {
    let Some(dir) = temp_dir() else { return };
    let dir = dir.path();
    for args in [
        vec!["measure", "command", "--placement", "one-core+far", "-r", "1", "--", "true"],
        vec!["measure", "pingpong", "--placement", "compact+far", "-r", "1"],
        vec!["measure", "far-gemm", "--placement", "one-core+far", "-r", "1"],
    ] {
        let output = nearfar(dir, &args);
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(77), "{args:?}: {text}");
        assert!(text.contains("nearfar expand runs any program with more memory than DRAM"), "{args:?}: {text}");
    }
    let placed = nearfar(dir, &["place", "--only", "one-core+far", "--explain", "--", "true"]);
    let text = text_of(&placed);
    assert!(!placed.status.success() && text.contains("nearfar expand"), "{text}");
}

#[test]
fn far_directory_in_memory_is_rejected_unless_allowed() {
    let Some(dir) = temp_dir() else { return };
    if !Path::new("/dev/shm").is_dir() {
        return println!("skipped: /dev/shm does not exist");
    }
    let run = |name: &str| {
        let args =
            ["measure", "stream", "--smoke", "--placement", "one-core+far", "--threads", "1", "-r", "1", "-w", "0"];
        command(dir.path(), &args).env("NEARFAR_FAR", name).output().expect("the program starts")
    };
    let refused = run("/dev/shm");
    assert_eq!(refused.status.code(), Some(77), "{}", text_of(&refused));
    assert!(
        text_of(&refused).contains("there is no directory on a disk for arrays beyond DRAM"),
        "{}",
        text_of(&refused)
    );
    let accepted = run("memory:/dev/shm");
    assert!([Some(0), Some(3)].contains(&accepted.status.code()), "{}", text_of(&accepted));
}

#[test]
fn far_gemm_is_verified_and_too_small_budget_rejected() {
    let Some(dir) = temp_dir() else { return };
    let dir = dir.path();
    let Some((verdict, trial)) = trial(dir, &["far-gemm", "--placement", "one-core", "--threads", "1"]) else {
        return;
    };
    assert_ne!(verdict, "invalid", "{trial}");
    assert_eq!(far_files(dir), 0);

    let too_little = nearfar(dir, &["measure", "far-gemm", "--set", "n=5000", "--set", "budget=1MiB", "-r", "1"]);
    let text = text_of(&too_little);
    assert!(text.contains("needs 1.4MiB") && text.contains("hint: "), "{text}");
    assert!(!too_little.status.success(), "{text}");
}

#[test]
fn killed_far_gemm_leaves_no_file() {
    let Some(dir) = temp_dir() else { return };
    let args =
        ["measure", "far-gemm", "--set", "n=3000", "--set", "budget=8MiB", "--threads", "1", "-r", "1", "-w", "0"];
    let mut child =
        command(dir.path(), &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    // Waits until a process has an unnamed file in that directory open.
    let far = dir.path().join("far").to_string_lossy().into_owned();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_file_open(&far) {
        if child.try_wait().expect("the status is readable").is_some() || Instant::now() > deadline {
            child.kill().ok();
            return println!("skipped: the process ended before its far file was observed");
        }
        std::thread::yield_now();
    }
    child.kill().expect("the process can be killed");
    child.wait().expect("the process has ended");
    assert_eq!(far_files(dir.path()), 0);
    // The worker exits after its parent, which frees the disk space.
    while is_file_open(&far) {
        assert!(Instant::now() < deadline, "a process still has a far file open");
        std::thread::yield_now();
    }
}

/// Whether a process has a file in this directory open.
fn is_file_open(dir: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc is readable").flatten();
    processes.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit())).any(
        |entry| {
            let files = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
            files.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| path.to_string_lossy().starts_with(dir))
        },
    )
}
