//! fio's job files and fio itself from the command line: jobs become cells, what is not kept is said, fio takes the same
//! files, and both measure the same cell of a raw device and of a file system on it.

mod own_mounts;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/jobs");

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("r.db")).args(args).current_dir(folder).env_remove("NEARFAR_STORE");
    command.env("NEARFAR_STATE", folder.join("state")).output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// What a cell's metrics are called and their medians.
fn metrics(cell: &Value) -> Vec<(String, f64)> {
    let metrics = cell["metrics"].as_array().expect("metrics").iter();
    let measured = metrics.filter_map(|metric| Some((metric["name"].as_str()?.into(), metric["median"].as_f64()?)));
    measured.collect()
}

#[test]
fn fio_takes_the_job_files_that_are_read_here() {
    if !there("fio") {
        return;
    }
    for file in ["small.fio", "storage.fio", "together.fio"] {
        let output =
            Command::new("fio").arg("--parse-only").arg(Path::new(JOBS).join(file)).output().expect("it starts");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&said));
        assert!(!String::from_utf8_lossy(&said).contains("dropped"), "{file}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn jobs_run_as_cells_with_their_names() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = format!("{JOBS}/small.fio");
    let run =
        json(&nearfar(folder.path(), &["run", "--fio", &file, "--smoke", "--format", "json", "--placement", "kernel"]));
    let cells = run["cells"].as_array().expect("cells");
    let names: Vec<&str> = cells.iter().filter_map(|cell| cell["test"].as_str()).collect();
    assert_eq!(cells.len(), 3, "{names:?}");
    for (cell, (bs, depth)) in cells.iter().zip([("4KiB", "1"), ("4KiB", "16"), ("64KiB", "1")]) {
        assert_eq!(cell["workload"], "io");
        assert_eq!(
            (&cell["parameters"]["bs"], &cell["parameters"]["iodepth"]),
            (&bs.into(), &depth.into()),
            "{cell:#}"
        );
        if cell["verdicts"]["valid"].as_u64() == Some(0) {
            println!("skipped: io: {:?}", cell["reasons"]);
        }
    }
    // The files that the jobs had are gone.
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").filter_map(Result::ok).collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".0.0")), "{left:?}");
    // The same command again has nothing left to do in an unfinished run, and says how to ask for the same.
    let shown = json(&nearfar(folder.path(), &["show", "--format", "json"]));
    assert!(shown.to_string().contains("small"), "{shown:#}");
}

#[test]
fn what_is_not_as_fio_would_have_it_is_said() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("it can be written");
    write("two.fio", "[global]\nsize=1m\n[a]\n[b]\n");
    write("wrong.fio", "[a]\nsize=1m\niodepht=3\n");
    let said = |args: &[&str]| {
        let output = nearfar(folder.path(), args);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, words) = said(&["run", "--fio", "two.fio", "--dry-run"]);
    assert_eq!(status, Some(0), "{words}");
    assert!(words.contains("note: fio would run a, b concurrently; here each job runs alone"), "{words}");
    for (args, expected) in [
        (&["run", "--fio", "wrong.fio"][..], "wrong.fio:3:1: no option 'iodepht' is known\nhint: nearest are iodepth"),
        (&["run", "--fio", "missing.fio"], "--fio missing.fio"),
        (&["run", "quick", "--fio", "two.fio"], "cannot be used with"),
        (&["run"], "<EXPERIMENT>"),
        (&["run", "quick", "--placement", "one-core"], "--placement requires --fio"),
        (&["run", "--fio", "two.fio", "--set", "sise=1m"], "has a parameter 'sise'; they have size"),
        (&["run", "--fio", "two.fio", "--set", "size"], "KEY=VALUE"),
        (&["run", "--fio", "two.fio", "--set", "size=much"], "'much' is not a size"),
        (&["run", "--fio", "two.fio", "--placement", "nowhere"], "'nowhere'"),
    ] {
        let (status, words) = said(args);
        assert_eq!(status, Some(2), "{args:?}: {words}");
        assert!(words.contains(expected), "{args:?}: {words}");
    }
}

/// What is given takes the experiment's place in every workload that has it, also in a smoke test.
#[test]
fn experiments_take_other_values() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let args =
        ["run", "storage", "--dry-run", "--format", "json", "--smoke", "--set", "size=2MiB", "--set", "engine=psync"];
    let plan = json(&nearfar(folder.path(), &[&args[..], &["--set", "iodepth=1"]].concat()));
    let cells = plan["cells"].as_array().expect("cells");
    assert!(cells.len() > 5);
    for cell in cells {
        let parameters = &cell["parameters"];
        assert_eq!((&parameters["size"], &parameters["engine"]), (&"2MiB".into(), &"psync".into()), "{cell:#}");
    }
}

/// Both sides measure the same cell: the same metrics, and fio's words are those of the parameters.
#[test]
fn io_and_fio_measure_the_same_cell() {
    if !there("fio") {
        return;
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = folder.path().join("data");
    std::fs::write(&file, vec![5; 4 << 20]).expect("it can be written");
    let name = format!("file={}", file.display());
    for engine in ["io_uring", "psync"] {
        let set = format!("engine={engine}");
        let both = ["io", "fio"].map(|workload| {
            let args =
                ["measure", workload, "--smoke", "--set", &name, "--set", &set, "--set", "runtime=200ms", "-r", "2"];
            let run = json(&nearfar(folder.path(), &[&args[..], &["--threads", "1", "--format", "json"]].concat()));
            metrics(&run["cells"][0])
        });
        if both.iter().any(Vec::is_empty) {
            println!("skipped: {engine} cannot be measured here");
            continue;
        }
        // A run of fio may take less of the cpu than the kernel counts in.
        let names = both.each_ref().map(|metrics| {
            let names = metrics.iter().map(|(name, _)| name.as_str());
            names.filter(|name| *name != "cpu-per-io").collect::<Vec<_>>()
        });
        assert_eq!(names[0], names[1], "{engine}");
    }
    assert_eq!(std::fs::read(&file).expect("it is there"), vec![5; 4 << 20]);
}

/// A raw device, then a file system on it, in a mount namespace of its own; all of it undone whatever happens.
const DISK: &str = r#"
set -eu
image=$1; folder=$2; kind=$3; shift 3
mount --make-rprivate /
disk=$(losetup --find --show "$image") || exit 77
trap 'umount "$folder" 2>/dev/null || true; losetup --detach "$disk"' EXIT
run() { file=$1; shift; "$@" --set "file=$file"; }
run "$disk" "$@" --set rw=read
run "$disk" "$@" --set rw=write --set "allow-overwrite=$disk"
mkfs.$kind -q "$disk"
mount -t $kind "$disk" "$folder"
# In use now: whatever is allowed, it is not written to.
if run "$disk" "$@" --set rw=write --set "allow-overwrite=$disk"; then echo "a mounted disk was written to" >&2; exit 1; fi
run "$folder/data" "$@" --set rw=write
test ! -e "$folder/data"
"#;

/// `mkfs.xfs` makes nothing smaller than 300 MB.
const DISK_BYTES: u64 = 320 << 20;

#[test]
fn a_raw_device_and_a_file_system_on_it_are_measured() {
    if !Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n") {
        return println!("skipped: loop devices are root's");
    }
    if !there("losetup") {
        return;
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    for (kind, package) in [("ext4", "e2fsprogs"), ("xfs", "xfsprogs")] {
        let has = Command::new(format!("mkfs.{kind}")).arg("-V").output().is_ok_and(|output| output.status.success());
        if !has {
            println!("skipped: mkfs.{kind} is needed: apt-get install {package}");
        } else if !known.lines().any(|line| line.trim() == kind) {
            println!("skipped: this kernel has no {kind}, or not loaded");
        } else {
            measure_on(kind);
        }
    }
}

/// Both workloads on a disk of their own and on this file system on it.
fn measure_on(kind: &str) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (image, mounted) = (folder.path().join("image"), folder.path().join("mounted"));
    std::fs::create_dir(&mounted).expect("it can be made");
    std::fs::File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).expect("it can be made");
    for workload in ["io", "fio"] {
        if workload == "fio" && !there("fio") {
            continue;
        }
        let mut shell = own_mounts::shell(false, DISK);
        shell.args([&image, &mounted]).arg(kind);
        shell.arg(env!("CARGO_BIN_EXE_nearfar")).args(["measure", workload, "--smoke", "-r", "1", "--threads", "1"]);
        shell.args(["--set", "engine=psync", "--set", "size=8MiB"]);
        shell.env("NEARFAR_STORE", folder.path().join("r.db")).env("NEARFAR_STATE", folder.path().join("state"));
        let output = match own_mounts::run(&mut shell, "loop devices") {
            Ok(output) => output,
            Err(why) => return println!("skipped: {why}"),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{workload} on {kind}: {said}");
    }
}
