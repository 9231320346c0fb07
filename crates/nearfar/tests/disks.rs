//! Commands on a disk that is full, or becomes full while they run: each reports the lack of space, loses nothing that
//! is stored, leaves no incomplete file, and succeeds when there is space again.

mod own_mounts;
mod rights;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::rights::is_root;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml:7");
/// Set in the mount namespace: the directory of the small disk.
const DISK: &str = "NEARFAR_TEST_DISK";
const SMALL_DISK: &str = "mount -t tmpfs -o size=16m,mode=700 tmpfs \"$1\" || exit 77\n\
                          NEARFAR_TEST_DISK=$1 exec \"$2\" --exact full_disks_lose_nothing_and_are_reported --nocapture";
/// Free space when the command starts.
const FREE_KIB: [u64; 4] = [0, 16, 64, 256];

/// Command lines and the file that each creates. Their results file is `r.db`.
const COMMANDS: [(&str, &str); 10] = [
    ("measure queens --sim MODEL -r 400 --placement kernel", ""),
    ("place --sim MODEL --budget 1m -- true", ""),
    ("measure command -r 30 -- true", ""),
    ("export -o out.csv", "out.csv"),
    ("export --format json -o out.json", "out.json"),
    ("report --output out.html", "out.html"),
    ("share -o shared.db", "shared.db"),
    ("graph build --scale 15 -o g", "g"),
    ("graph build --scale 14 --dram 40MiB -o h", "h"),
    ("import other.db", ""),
];

fn run(dir: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(words.split(' ').map(|word| word.replace("MODEL", MODEL))).current_dir(dir).stdin(Stdio::null());
    command.env("NEARFAR_STORE", dir.join("r.db")).env("NEARFAR_STATE", dir.join("state")).env("TMPDIR", dir);
    command.output().expect("the program starts")
}

/// Whether the command did its work; 3 means that the answer is not conclusive.
fn is_done(output: &Output) -> bool {
    [Some(0), Some(3)].contains(&output.status.code())
}

fn succeeds(dir: &Path, words: &str) -> String {
    let output = run(dir, words);
    assert!(is_done(&output), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Number of stored trials.
fn stored(dir: &Path) -> u64 {
    let list: serde_json::Value = serde_json::from_str(&succeeds(dir, "show --runs --format json")).expect("JSON");
    let runs = list["runs"].as_array().expect("a list");
    runs.iter().map(|run| run["trials"].as_u64().expect("a number")).sum()
}

/// Fills the disk except for some space.
fn fill(dir: &Path, free_kib: u64) -> PathBuf {
    let path = dir.join("filler");
    let mut filler = File::create(&path).expect("there is space for a name");
    while filler.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    let length = filler.metadata().expect("it exists").len();
    filler.set_len(length.saturating_sub(free_kib << 10)).expect("a file can be shortened");
    path
}

/// Starts this test again on a separate small disk.
#[test]
fn full_disks_lose_nothing_and_are_reported() {
    if let Ok(disk) = std::env::var(DISK) {
        return on_a_small_disk(Path::new(&disk));
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let exe = std::env::current_exe().expect("the test has a path");
    let mut shell = own_mounts::shell(!is_root(), SMALL_DISK);
    match own_mounts::run(shell.arg(dir.path()).arg(exe), "tmpfs") {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}");
            text.lines().filter(|line| line.contains("situations")).for_each(|line| println!("{line}"));
        }
        Err(reason) => println!("skipped: full_disks_lose_nothing_and_are_reported: {reason}"),
    }
}

fn on_a_small_disk(dir: &Path) {
    succeeds(dir, "--store other.db measure queens --sim MODEL -r 40");
    succeeds(dir, "measure queens --sim MODEL -r 40");
    let (mut situations, mut full) = (0, 0);
    for (words, file) in COMMANDS {
        for free in FREE_KIB {
            let before = stored(dir);
            let filler = fill(dir, free);
            let output = run(dir, words);
            fs::remove_file(filler).expect("it exists");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code();
            assert!(code.is_some_and(|code| code != 101), "{words}, {free} KiB: {:?}: {stderr}", output.status);
            if !is_done(&output) {
                full += 1;
                let lower = stderr.to_lowercase();
                assert!(lower.contains("space"), "{words}, {free} KiB: {stderr}");
                assert!(file.is_empty() || !dir.join(file).exists(), "{words}, {free} KiB: {file} exists");
            }
            assert!(stored(dir) >= before, "{words}, {free} KiB: trials are lost");
            if !is_done(&output) {
                succeeds(dir, words);
            }
            if !file.is_empty() {
                fs::remove_file(dir.join(file)).expect("the command created it");
            }
            situations += 1;
        }
    }
    println!("{situations} situations of full disks, {full} commands reported it");
    assert!(full >= situations / 2, "{full} of {situations}");
}
