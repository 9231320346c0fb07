//! `nearfar measure bfs --set mode=semi-external` from outside: the whole process in no more memory than is said, the same searches as in
//! core, and nothing left behind when it is killed or the disk becomes full.

mod own_mounts;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What the program takes without a graph, its threads' stacks included.
const PROGRAM: u64 = 16 << 20;
/// Room for reads of each thread.
const READS: u64 = 5 << 20;
/// As docs/reference/workload-bfs.md says.
const BYTES_PER_VERTEX: u64 = 32;

/// `measure bfs` with one trial and its files in folder `far`.
fn command(folder: &Path, set: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("r.db")).args(["measure", "bfs", "--threads", "2", "-r", "1", "-w", "0"]);
    command.args(set.iter().flat_map(|set| ["--set", set]));
    command.current_dir(folder).env_remove("NEARFAR_STORE").env("NEARFAR_STATE", folder.join("state"));
    command.env("NEARFAR_FAR", folder.join("far"));
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// A scratch folder with one for far files, on a disk.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/var/tmp").expect("/var/tmp can be written to");
    fs::create_dir(folder.path().join("far")).expect("a folder can be made");
    folder
}

/// Samples of one trial by series; none where this machine cannot make it.
struct Samples(Vec<(String, f64)>);

impl Samples {
    fn of(folder: &Path, set: &[&str]) -> Option<Self> {
        let output = command(folder, set).output().expect("the program starts");
        let words = said(&output);
        if words.contains("cannot be measured here") && (words.contains("io_uring") || words.contains("on a disk")) {
            println!("skipped: bfs beyond DRAM: {words}");
            return None;
        }
        assert!([Some(0), Some(3)].contains(&output.status.code()), "{set:?}: {words}");
        let mut export = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        export.arg("--store").arg(folder.join("r.db")).args(["export", "latest"]).current_dir(folder);
        let table = export.output().expect("the program starts").stdout;
        let mut rows = csv(&table).into_iter();
        let names = rows.next().expect("a table has names");
        let column =
            |name: &str| names.iter().position(|own| own == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
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

/// Rows of a table; quoted fields hold no quotes here.
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
fn a_trial_keeps_to_its_memory_and_finds_what_is_found_in_core() {
    let folder = folder();
    for (scale, dram) in [(16, "50%"), (18, "25%"), (18, "12.5%")] {
        let scale_set = format!("scale={scale}");
        let semi = [&scale_set, "mode=semi-external", &format!("dram={dram}"), "roots=16"];
        let Some(far) = Samples::of(folder.path(), &semi) else { return };
        let Some(near) = Samples::of(folder.path(), &[&scale_set, "roots=16"]) else { return };
        for same in ["nedge", "nedge_with_loops", "levels", "edges", "vertices"] {
            assert_eq!(far.all(same), near.all(same), "scale {scale}, {dram}: {same}");
        }
        assert_eq!(far.all("nedge").len(), 16);
        let allowed = PROGRAM + 2 * READS + BYTES_PER_VERTEX * (1 << scale) + far.one("dram_used");
        let (peak, in_core) = (far.one("memory_peak"), near.one("memory_peak"));
        println!("scale {scale}, {dram}: {peak} bytes of {allowed}; in core {in_core}");
        assert!(peak <= allowed, "scale {scale}, {dram}: {peak} bytes, {allowed} are said");
        // The list of edges alone breaks it.
        assert!(scale < 18 || in_core > allowed + (8 << 20), "scale {scale}: {in_core} in core, {allowed} are said");
    }
    assert_eq!(fs::read_dir(folder.path().join("far")).expect("readable").count(), 0, "files have no name");
}

/// Whether a process has a file of this folder open that has so many bytes.
fn holds(folder: &str, bytes: u64) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc is there").flatten();
    let files = processes.flat_map(|entry| fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten());
    files.map(|file| file.path()).any(|file| {
        fs::read_link(&file).is_ok_and(|path| path.to_string_lossy().starts_with(folder))
            && fs::metadata(&file).is_ok_and(|about| about.len() >= bytes)
    })
}

#[test]
fn killed_in_construction_it_leaves_nothing() {
    let folder = folder();
    let far = folder.path().join("far");
    let name = far.canonicalize().expect("it is there").to_string_lossy().into_owned();
    let mut command = command(folder.path(), &["scale=19", "mode=semi-external", "dram=25%"]);
    // Edges in buckets first, later both directions of them.
    for bytes in [1, 8 << 20, 48 << 20] {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
        let deadline = Instant::now() + Duration::from_secs(120);
        while !holds(&name, bytes) {
            if child.try_wait().expect("it can be asked").is_some() || Instant::now() > deadline {
                child.kill().ok();
                return println!("skipped: bfs beyond DRAM: it ended before {bytes} bytes were seen");
            }
            std::thread::yield_now();
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it has ended");
        // Its worker ends with it.
        while holds(&name, 0) {
            assert!(Instant::now() < deadline, "somebody still holds a file of it");
            std::thread::yield_now();
        }
        assert_eq!(fs::read_dir(&far).expect("readable").count(), 0, "{bytes}");
    }
}

/// A small disk that somebody fills while a graph is constructed on it; 77 where none can be made.
const FULL: &str = r#"
set -eu
folder=$1; nearfar=$2
mount -t tmpfs -o size=256m tmpfs "$folder/far" || exit 77
cd "$folder"
export NEARFAR_STATE=$folder/state
measure="$nearfar --store $folder/r.db measure bfs --threads 2 -r 1 -w 0 --set mode=semi-external --set folder=memory:$folder/far"
used() { df --output=used -k "$folder/far" | tail -1; }
begun=$(used)
$measure --set scale=18 --set roots=4 & child=$!
until [ "$(used)" -gt $((begun + 4096)) ]; do kill -0 $child || exit 78; done
dd if=/dev/zero of="$folder/far/filler" bs=1M 2>/dev/null || true
wait $child || true
rm "$folder/far/filler"
test -z "$(ls -A "$folder/far")"
echo "left: $(($(used) - begun))"
$measure --set scale=20 || true
"#;

#[test]
fn a_disk_that_is_full_or_too_small_is_said_with_what_it_takes() {
    let folder = folder();
    let mut shell = own_mounts::shell(true, FULL);
    shell.arg(folder.path()).arg(env!("CARGO_BIN_EXE_nearfar"));
    let output = match own_mounts::run(&mut shell, "file systems in memory") {
        Ok(output) => output,
        Err(why) => return println!("skipped: {why}"),
    };
    let words = said(&output);
    if output.status.code() == Some(78) && (words.contains("O_DIRECT") || words.contains("io_uring")) {
        return println!("skipped: bfs beyond DRAM: {words}");
    }
    assert!(output.status.success(), "{words}");
    for expected in [
        "No space left on device",
        "construction takes about",
        "hint: free space, or choose a directory on another disk",
        "left: 0\n",
        "hint: take a smaller scale, or name a folder on another disk",
    ] {
        assert!(words.contains(expected), "it should say {expected:?}: {words}");
    }
}

#[test]
fn what_memory_has_no_room_for_is_refused_with_what_it_needs() {
    let folder = folder();
    let output = command(folder.path(), &["scale=31", "mode=semi-external", "dram=100%"]).output();
    let output = output.expect("the program starts");
    assert!(said(&output).contains("a graph of scale 31 needs"), "{}", said(&output));
    assert!(said(&output).contains("hint: use a smaller scale"), "{}", said(&output));
    assert!(!output.status.success());
}
