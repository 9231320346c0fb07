//! `nearfar measure bfs --set mode=semi-external`: memory stays within the documented limit, the searches equal those
//! in core, and no file is left after a kill or on a full disk.

mod own_mounts;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Allowance for allocations that a tiny graph does not need.
const SLACK_BYTES: u64 = 3 << 20;
/// Read buffers of each thread.
const READ_BYTES: u64 = 5 << 20;
/// Documented in docs/reference/workload-bfs.md.
const BYTES_PER_VERTEX: u64 = 32;

/// `measure bfs` with one trial; its scratch files are in `far`.
fn command(dir: &Path, set: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("r.db")).args(["measure", "bfs", "--threads", "2", "-r", "1", "-w", "0"]);
    command.args(set.iter().flat_map(|set| ["--set", set]));
    command.current_dir(dir).env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state"));
    command.env("NEARFAR_FAR", dir.join("far"));
    command
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// A temporary directory on a disk, with a subdirectory for far files.
fn temp_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").expect("/var/tmp is writable");
    fs::create_dir(dir.path().join("far")).expect("the directory can be created");
    dir
}

/// Samples of one trial by series; `None`, with the reason printed, if this machine cannot run it.
struct Samples(Vec<(String, f64)>);

impl Samples {
    fn measure(dir: &Path, set: &[&str]) -> Option<Self> {
        let output = command(dir, set).output().expect("the program starts");
        let text = text_of(&output);
        if text.contains("cannot be measured here") && (text.contains("io_uring") || text.contains("on a disk")) {
            println!("skipped: bfs beyond DRAM: {text}");
            return None;
        }
        assert!([Some(0), Some(3)].contains(&output.status.code()), "{set:?}: {text}");
        let mut export = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        export.arg("--store").arg(dir.join("r.db")).args(["export", "latest"]).current_dir(dir);
        let table = export.output().expect("the program starts").stdout;
        let mut rows = csv(&table).into_iter();
        let names = rows.next().expect("the table has a header");
        let column =
            |name: &str| names.iter().position(|other| other == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
        let (series, value) = (column("series"), column("value"));
        Some(Self(rows.map(|row| (row[series].clone(), row[value].parse().expect("a number"))).collect()))
    }

    fn all(&self, series: &str) -> Vec<f64> {
        self.0.iter().filter(|sample| sample.0 == series).map(|sample| sample.1).collect()
    }

    fn one(&self, series: &str) -> u64 {
        *self.all(series).first().unwrap_or_else(|| panic!("no sample of {series}")) as u64
    }
}

/// Returns the rows of a table. Its quoted fields must not contain quotes.
fn csv(bytes: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(bytes);
    let row = |line: &str| {
        let mut quoted = false;
        let field = |letter: char| {
            quoted ^= letter == '"';
            letter == ',' && !quoted
        };
        line.split(field).map(|field| field.trim_matches('"').to_string()).collect()
    };
    text.lines().map(row).collect()
}

#[test]
fn semi_external_trial_stays_in_memory_and_equals_in_core() {
    let dir = temp_dir();
    // The program without a graph, including its threads' stacks; a build without optimisation is several MiB larger.
    let Some(tiny) = Samples::measure(dir.path(), &["scale=4", "roots=1"]) else { return };
    let program = tiny.one("memory_peak") + SLACK_BYTES;
    for (scale, dram) in [(16, "50%"), (18, "25%"), (18, "12.5%")] {
        let scale_set = format!("scale={scale}");
        let semi = [&scale_set, "mode=semi-external", &format!("dram={dram}"), "roots=16"];
        let Some(far) = Samples::measure(dir.path(), &semi) else { return };
        let Some(near) = Samples::measure(dir.path(), &[&scale_set, "roots=16"]) else { return };
        for series in ["nedge", "nedge_with_loops", "levels", "edges", "vertices"] {
            assert_eq!(far.all(series), near.all(series), "scale {scale}, {dram}: {series}");
        }
        assert_eq!(far.all("nedge").len(), 16);
        let allowed = program + 2 * READ_BYTES + BYTES_PER_VERTEX * (1 << scale) + far.one("dram_used");
        let (peak, in_core) = (far.one("memory_peak"), near.one("memory_peak"));
        println!("scale {scale}, {dram}: {peak} of {allowed} bytes; in core {in_core} bytes");
        assert!(peak <= allowed, "scale {scale}, {dram}: {peak} bytes exceed {allowed}");
        // In core, the edge list alone exceeds the limit.
        assert!(scale < 18 || in_core > allowed + (8 << 20), "scale {scale}: {in_core} bytes in core, limit {allowed}");
    }
    assert_eq!(fs::read_dir(dir.path().join("far")).expect("readable").count(), 0, "scratch files are unnamed");
}

/// Whether a process has an open file of at least `bytes` bytes in this directory.
fn is_file_open(dir: &str, bytes: u64) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc is readable").flatten();
    let files = processes.flat_map(|entry| fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten());
    files.map(|file| file.path()).any(|file| {
        fs::read_link(&file).is_ok_and(|path| path.to_string_lossy().starts_with(dir))
            && fs::metadata(&file).is_ok_and(|metadata| metadata.len() >= bytes)
    })
}

#[test]
fn kill_during_construction_leaves_no_files() {
    let dir = temp_dir();
    let far = dir.path().join("far");
    let name = far.canonicalize().expect("the directory exists").to_string_lossy().into_owned();
    let mut command = command(dir.path(), &["scale=19", "mode=semi-external", "dram=25%"]);
    // First the edges in buckets, later both directions of each edge.
    for bytes in [1, 8 << 20, 48 << 20] {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
        let deadline = Instant::now() + Duration::from_secs(120);
        while !is_file_open(&name, bytes) {
            if child.try_wait().expect("the status is readable").is_some() || Instant::now() > deadline {
                child.kill().ok();
                return println!("skipped: bfs beyond DRAM: the process ended before a file had {bytes} bytes");
            }
            std::thread::yield_now();
        }
        child.kill().expect("the process can be killed");
        child.wait().expect("the process has ended");
        // The worker exits after its parent.
        while is_file_open(&name, 0) {
            assert!(Instant::now() < deadline, "a process still has a scratch file open");
            std::thread::yield_now();
        }
        assert_eq!(fs::read_dir(&far).expect("readable").count(), 0, "{bytes}");
    }
}

/// Fills a small disk during a construction. Exits with 77 if the disk cannot be created, 78 if the construction ends.
const FULL: &str = r#"
set -eu
dir=$1; nearfar=$2; location=directory=memory:$dir/far
mount -t tmpfs -o size=256m tmpfs "$dir/far" || exit 77
cd "$dir"
export NEARFAR_STATE=$dir/state
measure="$nearfar --store $dir/r.db measure bfs --threads 2 -r 1 -w 0 --set mode=semi-external --set $location"
used() { df --output=used -k "$dir/far" | tail -1; }
before=$(used)
$measure --set scale=18 --set roots=4 & child=$!
until [ "$(used)" -gt $((before + 4096)) ]; do kill -0 $child || exit 78; done
dd if=/dev/zero of="$dir/far/filler" bs=1M 2>/dev/null || true
wait $child || true
rm "$dir/far/filler"
test -z "$(ls -A "$dir/far")"
echo "left: $(($(used) - before))"
$measure --set scale=20 || true
"#;

#[test]
fn full_or_small_disk_is_reported_with_required_space() {
    let dir = temp_dir();
    let mut shell = own_mounts::shell(true, FULL);
    shell.arg(dir.path()).arg(env!("CARGO_BIN_EXE_nearfar"));
    let output = match own_mounts::run(&mut shell, "file systems in memory") {
        Ok(output) => output,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let text = text_of(&output);
    if output.status.code() == Some(78) && (text.contains("O_DIRECT") || text.contains("io_uring")) {
        return println!("skipped: bfs beyond DRAM: {text}");
    }
    assert!(output.status.success(), "{text}");
    for expected in [
        "No space left on device",
        "construction needs about",
        "hint: free space, or choose a directory on another disk",
        "left: 0\n",
        "hint: choose a smaller scale, or a directory on another disk",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing: {text}");
    }
}

#[test]
fn graph_larger_than_memory_is_rejected_with_its_size() {
    let dir = temp_dir();
    let output = command(dir.path(), &["scale=31", "mode=semi-external", "dram=100%"]).output();
    let output = output.expect("the program starts");
    assert!(text_of(&output).contains("constructing a graph of scale 31 needs"), "{}", text_of(&output));
    assert!(text_of(&output).contains("hint: choose a smaller scale"), "{}", text_of(&output));
    assert!(!output.status.success());
}
