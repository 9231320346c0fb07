//! `nearfar graph build --dram SIZE` from outside: the same file, in no more memory than it may take; killed, out of disk, cut.

mod own_mounts;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["graph", "build", "--threads", "2"]).args(args).current_dir(folder);
    command.env("NEARFAR_STORE", folder.join("r.db")).env("NEARFAR_STATE", folder.join("state"));
    command
}

fn built(folder: &Path, args: &[&str]) -> serde_json::Value {
    let output = command(folder, args).args(["--format", "json"]).output().expect("the program starts");
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn refused(folder: &Path, args: &[&str], status: i32, expected: &[&str]) -> String {
    let output = command(folder, args).output().expect("the program starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    assert!(expected.iter().all(|words| said.contains(words)), "{args:?} should say {expected:?}: {said}");
    said
}

fn same(folder: &Path, one: &str, other: &str) {
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(read(one) == read(other), "{one} is not {other}");
}

/// As the hint says it.
fn least(words: &str) -> u64 {
    let size = words.split("--dram ").last().and_then(|rest| rest.split("MiB").next());
    size.and_then(|size| size.parse::<u64>().ok()).unwrap_or_else(|| panic!("no size is said: {words}"))
}

#[test]
fn the_graph_is_the_same_and_memory_no_more_than_allowed() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    for (scale, k) in [("17", "3"), ("18", "16")] {
        built(folder, &["--scale", scale, "-k", k, "-o", "whole"]);
        let little = refused(
            folder,
            &["--scale", scale, "-k", k, "-o", "g", "--dram", "2MiB"],
            77,
            &["needs at least", "hint: "],
        );
        assert!(!folder.join("g.building").exists(), "nothing is begun");
        // The least is what this process needs with little beside it; some pages more or less are another program's doing.
        for size in [least(&little) + 1, least(&little) * 2] {
            let facts = built(folder, &["--scale", scale, "-k", k, "-o", "g", "--dram", &format!("{size}MiB")]);
            assert_eq!(facts["construction"], "out of core");
            let peak = facts["memory_peak_bytes"].as_u64().expect("a number");
            assert!(peak <= size << 20, "scale {scale}: {peak} bytes, {size}MiB allowed");
            same(folder, "g", "whole");
            assert!(!folder.join("g.building").exists(), "nothing is left");
            fs::remove_file(folder.join("g")).expect("it is there");
        }
        // With enough for it, in memory: that is faster.
        assert_eq!(built(folder, &["--scale", scale, "-k", k, "-o", "g", "--dram", "8GiB"])["construction"], "in core");
        same(folder, "g", "whole");
        ["g", "whole"].iter().for_each(|name| fs::remove_file(folder.join(name)).expect("it is there"));
    }
}

#[test]
fn edges_may_come_from_a_file() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    built(folder, &["--scale", "13", "-o", "whole"]);
    let list = |scale: &str, form: &str, name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(["graph", "edges", "--scale", scale, "--edges", form, "-o", name]).current_dir(folder);
        assert!(command.output().expect("the program starts").status.success());
    };
    for form in ["pairs", "packed"] {
        list("13", form, form);
        built(folder, &["--scale", "13", "-o", "g", "--dram", "64MiB", "--from", form, "--edges", form]);
        same(folder, "g", "whole");
        fs::remove_file(folder.join("g")).expect("it is there");
    }
    list("13", "text", "text");
    let from = |name: &'static str| ["--scale", "13", "-o", "g", "--dram", "64MiB", "--from", name];
    let text = [&from("text")[..], &["--edges", "text"]].concat();
    refused(folder, &text, 2, &["--edges text is not supported", "hint: "]);
    refused(folder, &from("packed"), 2, &["packed has 1572864 bytes", "take 2097152 as pairs"]);
    refused(folder, &from("missing"), 2, &["missing: "]);
    assert!(!folder.join("g.building").exists());
    let mut other = fs::read(folder.join("pairs")).expect("it is there");
    other[16 * 4096] ^= 1;
    fs::write(folder.join("other"), other).expect("the folder can be written");
    refused(folder, &from("other"), 1, &["edge 4096 is", "another graph"]);
}

/// A child that is killed with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it, and kills it as soon as it is so; false when it ended before.
fn killed_when(folder: &Path, args: &[&str], so: impl Fn() -> bool) -> bool {
    let child = command(folder, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut child = Killed(child);
    loop {
        if child.0.try_wait().expect("it can be asked").is_some() {
            return false;
        }
        if so() {
            return true;
        }
        std::hint::spin_loop();
    }
}

/// How many times it is killed; `NEARFAR_SOAK` is how many instead.
const KILLS: u64 = 12;

#[test]
fn killed_at_any_point_it_goes_on_and_nothing_half_made_has_the_name() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let args = ["--scale", "16", "-o", "g", "--dram", "40MiB"];
    built(folder, &["--scale", "16", "-o", "whole"]);
    let kills = std::env::var("NEARFAR_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let (mut random, mut done, mut whole) = (0x2545_F491_4F6C_DD1D_u64, 0, 0);
    while done < kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Once it has so many more bytes in its folder, of some 15 MB in all.
        let (part, bytes) = (random >> 62, (random >> 30) % (12 << 20));
        let size = |name: &str| fs::metadata(folder.join("g.building").join(name)).map_or(0, |about| about.len());
        let so = || match part {
            0 => size("pairs") > bytes / 3,
            1 => size("pairs") == 0 && size("ranked") > bytes,
            2 => size("graph") > bytes / 3,
            _ => size("lengths") > 0 && size("ranked") == 0,
        };
        if killed_when(folder, &args, so) {
            done += 1;
        }
        // Killed between its name and the end it is whole.
        if folder.join("g").exists() {
            same(folder, "g", "whole");
            refused(folder, &args, 2, &["g is there already"]);
            assert!(!folder.join("g.building").exists(), "what was left of it is taken away");
            fs::remove_file(folder.join("g")).expect("it is there");
            whole += 1;
        }
    }
    if folder.join("g.building").exists() {
        assert_eq!(built(folder, &args)["construction"], "out of core, resumed");
        same(folder, "g", "whole");
    }
    println!("killed {done} times; {whole} times it was whole then or before");
}

#[test]
fn what_was_cut_is_refused_and_so_are_two_at_once() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let args = ["--scale", "17", "-o", "g", "--dram", "64MiB"];
    let half = folder.join("g.building");
    let dealt = || !half.join("pairs").exists() && half.join("ranked").exists();
    assert!(killed_when(folder, &args, dealt), "a second's work ends before it is seen");
    let degrees = half.join("degrees");
    let whole = fs::read(&degrees).expect("neighbours are counted");
    fs::write(&degrees, &whole[..whole.len() / 2]).expect("the folder can be written");
    refused(folder, &args, 2, &["degrees ends too early: it was cut", "hint: remove g.building"]);
    let mut changed = whole.clone();
    changed.iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&degrees, changed).expect("the folder can be written");
    refused(folder, &args, 2, &["degrees is damaged", "hint: remove g.building"]);
    fs::write(&degrees, whole).expect("the folder can be written");
    refused(folder, &["--scale", "16", "-o", "g", "--dram", "64MiB"], 2, &["is a graph of scale 17", "hint: "]);
    refused(folder, &["--scale", "17", "-k", "2", "-o", "g", "--dram", "64MiB"], 2, &["k = 16"]);
    let lock = fs::File::open(half.join("lock")).expect("it is there");
    lock.lock().expect("nobody else has it");
    refused(folder, &args, 2, &["being written by another process", "hint: wait"]);
    drop(lock);
    assert_eq!(built(folder, &args)["construction"], "out of core, resumed");
    built(folder, &["--scale", "17", "-o", "whole"]);
    same(folder, "g", "whole");
}

/// A small disk that somebody fills while a graph is made on it; 77 where none can be made.
const FULL: &str = r#"
set -eu
folder=$1; nearfar=$2
mount -t tmpfs -o size=192m tmpfs "$folder" || exit 77
cd "$folder"
export NEARFAR_STORE=$folder/r.db NEARFAR_STATE=$folder/state
build="$nearfar graph build --threads 2 --scale 18"
$build --dram 48MiB -o g & child=$!
until [ -e g.building/pairs ]; do kill -0 $child || exit 1; done
dd if=/dev/zero of=filler bs=1M 2>/dev/null || true
if wait $child; then echo "it found room" >&2; exit 1; fi
test ! -e g
rm filler
$build --dram 48MiB -o g --format json
$build -o whole >/dev/null
cmp g whole
test ! -e g.building
"#;

#[test]
fn a_disk_that_becomes_full_is_said_and_it_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut shell = own_mounts::shell(true, FULL);
    shell.arg(folder.path()).arg(env!("CARGO_BIN_EXE_nearfar"));
    let output = match own_mounts::run(&mut shell, "file systems in memory") {
        Ok(output) => output,
        Err(why) => return println!("skipped: {why}"),
    };
    let words = said(&output);
    assert!(output.status.success(), "{words}");
    for expected in [
        "No space left on device",
        "the build needs about",
        "more than it uses now",
        "hint: free disk space and rerun the command to resume",
    ] {
        assert!(words.contains(expected), "it should say {expected}: {words}");
    }
    let again = String::from_utf8_lossy(&output.stdout);
    assert!(again.contains("out of core, resumed"), "{again}");
}

#[test]
fn too_little_disk_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let words = refused(folder, &["--scale", "30", "-o", "g"], 77, &["a graph of scale 30 needs", "--memory SIZE"]);
    assert!(words.contains("build out of core with --memory SIZE, at least about"), "{words}");
    refused(folder, &["--scale", "31", "-o", "g", "--dram", "100GiB"], 77, &["the build needs about", "are free"]);
    assert_eq!(fs::read_dir(folder).expect("readable").count(), 0, "nothing is left behind");
}
