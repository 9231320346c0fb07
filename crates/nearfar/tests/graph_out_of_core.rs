//! `nearfar graph build --memory SIZE`: identical graphs within the limit, also after kills, full disks and damaged
//! files.

mod own_mounts;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["graph", "build", "--threads", "2"]).args(args).current_dir(dir);
    command.env("NEARFAR_STORE", dir.join("r.db")).env("NEARFAR_STATE", dir.join("state"));
    command
}

fn built(dir: &Path, args: &[&str]) -> serde_json::Value {
    let output = command(dir, args).args(["--format", "json"]).output().expect("the program starts");
    assert!(output.status.success(), "{args:?}: {}", stderr_of(&output));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rejects(dir: &Path, args: &[&str], status: i32, expected: &[&str]) -> String {
    let output = command(dir, args).output().expect("the program starts");
    let stderr = stderr_of(&output);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
    assert!(expected.iter().all(|part| stderr.contains(part)), "{args:?}: {expected:?} is missing: {stderr}");
    stderr
}

fn assert_same(dir: &Path, one: &str, other: &str) {
    let read = |name: &str| fs::read(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(read(one) == read(other), "{one} and {other} differ");
}

/// Returns the minimum memory in MiB from the hint of an error message.
fn minimum(message: &str) -> u64 {
    let size = message.split("--memory ").last().and_then(|rest| rest.split("MiB").next());
    size.and_then(|size| size.parse::<u64>().ok()).unwrap_or_else(|| panic!("no size in: {message}"))
}

#[test]
fn out_of_core_graph_is_identical_and_within_the_memory_limit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    for (scale, k) in [("17", "3"), ("18", "16")] {
        built(dir, &["--scale", scale, "-k", k, "-o", "whole"]);
        let message =
            rejects(dir, &["--scale", scale, "-k", k, "-o", "g", "--dram", "2MiB"], 77, &["needs at least", "hint: "]);
        assert!(!dir.join("g.building").exists(), "no build directory is created");
        // The minimum depends on the resident memory of the process, which varies by a few pages.
        for size in [minimum(&message) + 1, minimum(&message) * 2] {
            let facts = built(dir, &["--scale", scale, "-k", k, "-o", "g", "--dram", &format!("{size}MiB")]);
            assert_eq!(facts["construction"], "out of core");
            let peak = facts["memory_peak_bytes"].as_u64().expect("a number");
            assert!(peak <= size << 20, "scale {scale}: {peak} bytes, {size}MiB allowed");
            assert_same(dir, "g", "whole");
            assert!(!dir.join("g.building").exists(), "the build directory is removed");
            fs::remove_file(dir.join("g")).expect("the file exists");
        }
        // With enough memory the build is in core, which is faster.
        assert_eq!(built(dir, &["--scale", scale, "-k", k, "-o", "g", "--dram", "8GiB"])["construction"], "in core");
        assert_same(dir, "g", "whole");
        ["g", "whole"].iter().for_each(|name| fs::remove_file(dir.join(name)).expect("the file exists"));
    }
}

#[test]
fn edges_are_read_from_a_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    built(dir, &["--scale", "13", "-o", "whole"]);
    let list = |scale: &str, form: &str, name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(["graph", "edges", "--scale", scale, "--edges", form, "-o", name]).current_dir(dir);
        assert!(command.output().expect("the program starts").status.success());
    };
    for form in ["pairs", "packed"] {
        list("13", form, form);
        built(dir, &["--scale", "13", "-o", "g", "--dram", "64MiB", "--from", form, "--edges", form]);
        assert_same(dir, "g", "whole");
        fs::remove_file(dir.join("g")).expect("the file exists");
    }
    list("13", "text", "text");
    let from = |name: &'static str| ["--scale", "13", "-o", "g", "--dram", "64MiB", "--from", name];
    let text = [&from("text")[..], &["--edges", "text"]].concat();
    rejects(dir, &text, 2, &["--edges text is not supported", "hint: "]);
    rejects(dir, &from("packed"), 2, &["packed: the file has 1572864 bytes", "need 2097152"]);
    rejects(dir, &from("missing"), 2, &["missing: "]);
    assert!(!dir.join("g.building").exists());
    let mut other = fs::read(dir.join("pairs")).expect("the file exists");
    other[16 * 4096] ^= 1;
    fs::write(dir.join("other"), other).expect("the directory is writable");
    rejects(dir, &from("other"), 1, &["edge 4096 is", "another graph"]);
}

/// A process that is killed when the value is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a build and kills it when the condition holds; returns false if it ended before.
fn killed_when(dir: &Path, args: &[&str], condition: impl Fn() -> bool) -> bool {
    let child = command(dir, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut child = KillOnDrop(child);
    loop {
        if child.0.try_wait().expect("the status is readable").is_some() {
            return false;
        }
        if condition() {
            return true;
        }
        std::hint::spin_loop();
    }
}

/// Number of kills; `NEARFAR_SOAK` overrides it.
const KILLS: u64 = 12;

#[test]
fn killed_build_resumes_and_leaves_no_incomplete_graph() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let args = ["--scale", "16", "-o", "g", "--dram", "40MiB"];
    built(dir, &["--scale", "16", "-o", "whole"]);
    let kills = std::env::var("NEARFAR_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let (mut random, mut done, mut whole) = (0x2545_F491_4F6C_DD1D_u64, 0, 0);
    while done < kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Kills once a scratch file has grown to this size; all of them together have about 15 MB.
        let (part, bytes) = (random >> 62, (random >> 30) % (12 << 20));
        let size = |name: &str| fs::metadata(dir.join("g.building").join(name)).map_or(0, |metadata| metadata.len());
        let condition = || match part {
            0 => size("pairs") > bytes / 3,
            1 => size("pairs") == 0 && size("ranked") > bytes,
            2 => size("graph") > bytes / 3,
            _ => size("lengths") > 0 && size("ranked") == 0,
        };
        if killed_when(dir, &args, condition) {
            done += 1;
        }
        // A build killed after the graph got its name leaves a complete file.
        if dir.join("g").exists() {
            assert_same(dir, "g", "whole");
            rejects(dir, &args, 2, &["g already exists"]);
            assert!(!dir.join("g.building").exists(), "the rest of the build directory is removed");
            fs::remove_file(dir.join("g")).expect("the file exists");
            whole += 1;
        }
    }
    if dir.join("g.building").exists() {
        assert_eq!(built(dir, &args)["construction"], "out of core, resumed");
        assert_same(dir, "g", "whole");
    }
    println!("killed {done} times; the graph was complete {whole} times");
}

#[test]
fn accepted_build_is_not_refused_when_it_resumes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let little = ["--scale", "17", "-o", "g", "--dram", "2MiB"];
    let least = minimum(&rejects(dir, &little, 77, &["needs at least"]));
    let args =
        |size: u64| ["--scale", "17", "-o", "g", "--dram"].map(String::from).into_iter().chain([format!("{size}MiB")]);
    let is_killed = |size: &u64| {
        let args: Vec<String> = args(*size).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        killed_when(dir, &args, || dir.join("g.building/note").exists())
    };
    // The memory of the process varies by a few pages, so the least may be refused.
    let size = (least..least + 2).find(is_killed).expect("a build that was accepted and killed");
    // Its environment makes the process larger by more than the rounding of the least.
    let mut command = command(dir, &[]);
    let padding = (0..15).map(|number| (format!("PADDING_{number}"), "x".repeat(120_000)));
    command.args(args(size)).envs(padding);
    let output = command.args(["--format", "json"]).output().expect("the program starts");
    assert!(output.status.success(), "{}", stderr_of(&output));
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the output is JSON");
    assert_eq!(facts["construction"], "out of core, resumed");
}

#[test]
fn damaged_scratch_files_and_concurrent_builds_are_rejected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let args = ["--scale", "17", "-o", "g", "--dram", "64MiB"];
    let build_dir = dir.join("g.building");
    let has_buckets = || !build_dir.join("pairs").exists() && build_dir.join("ranked").exists();
    assert!(killed_when(dir, &args, has_buckets), "the build ended before its buckets were observed");
    let degrees = build_dir.join("degrees");
    let whole = fs::read(&degrees).expect("the degrees are written");
    fs::write(&degrees, &whole[..whole.len() / 2]).expect("the directory is writable");
    rejects(dir, &args, 2, &["degrees is truncated", "hint: remove g.building"]);
    let mut changed = whole.clone();
    changed.iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&degrees, changed).expect("the directory is writable");
    rejects(dir, &args, 2, &["degrees is damaged", "hint: remove g.building"]);
    fs::write(&degrees, whole).expect("the directory is writable");
    rejects(dir, &["--scale", "16", "-o", "g", "--dram", "64MiB"], 2, &["is of a graph of scale 17", "hint: "]);
    rejects(dir, &["--scale", "17", "-k", "2", "-o", "g", "--dram", "64MiB"], 2, &["k = 16"]);
    let lock = fs::File::open(build_dir.join("lock")).expect("the file exists");
    lock.lock().expect("the file is unlocked");
    rejects(dir, &args, 2, &["being written by another process", "hint: wait"]);
    drop(lock);
    assert_eq!(built(dir, &args)["construction"], "out of core, resumed");
    built(dir, &["--scale", "17", "-o", "whole"]);
    assert_same(dir, "g", "whole");
}

/// Fills a small disk while a graph is built on it. Exits with 77 if the disk cannot be created.
const FULL: &str = r#"
set -eu
dir=$1; nearfar=$2
mount -t tmpfs -o size=192m tmpfs "$dir" || exit 77
cd "$dir"
export NEARFAR_STORE=$dir/r.db NEARFAR_STATE=$dir/state
build="$nearfar graph build --threads 2 --scale 18"
$build --dram 48MiB -o g & child=$!
until [ -e g.building/pairs ]; do kill -0 $child || exit 1; done
dd if=/dev/zero of=filler bs=1M 2>/dev/null || true
if wait $child; then echo "the build did not fail" >&2; exit 1; fi
test ! -e g
rm filler
$build --dram 48MiB -o g --format json
$build -o whole >/dev/null
cmp g whole
test ! -e g.building
"#;

#[test]
fn full_disk_is_reported_and_the_build_resumes_with_free_space() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut shell = own_mounts::shell(true, FULL);
    shell.arg(dir.path()).arg(env!("CARGO_BIN_EXE_nearfar"));
    let output = match own_mounts::run(&mut shell, "file systems in memory") {
        Ok(output) => output,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let stderr = stderr_of(&output);
    assert!(output.status.success(), "{stderr}");
    for expected in [
        "No space left on device",
        "the build needs about",
        "more than it uses now",
        "hint: free disk space and rerun the command to resume",
    ] {
        assert!(stderr.contains(expected), "{expected} is missing: {stderr}");
    }
    let again = String::from_utf8_lossy(&output.stdout);
    assert!(again.contains("out of core, resumed"), "{again}");
}

#[test]
fn too_small_disk_is_rejected_before_files_are_created() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let stderr = rejects(dir, &["--scale", "30", "-o", "g"], 77, &["a graph of scale 30 needs", "--memory SIZE"]);
    assert!(stderr.contains("build out of core with --memory SIZE, at least about"), "{stderr}");
    rejects(dir, &["--scale", "31", "-o", "g", "--dram", "100GiB"], 77, &["the build needs about", "are free"]);
    assert_eq!(fs::read_dir(dir).expect("readable").count(), 0, "no file is left");
}
