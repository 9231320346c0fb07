//! fio's job files and fio itself: jobs become cells, differences from fio are reported, fio accepts the same files,
//! and both workloads measure the same cell on a raw device and on a file system.

mod own_mounts;
mod rights;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::rights::is_root;

const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/jobs");

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("r.db")).args(args).current_dir(dir).env_remove("NEARFAR_STORE");
    command.env("NEARFAR_STATE", dir.join("state")).output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Returns the names and medians of a cell's metrics.
fn metrics(cell: &Value) -> Vec<(String, f64)> {
    let metrics = cell["metrics"].as_array().expect("metrics").iter();
    let measured = metrics.filter_map(|metric| Some((metric["name"].as_str()?.into(), metric["median"].as_f64()?)));
    measured.collect()
}

#[test]
fn fio_accepts_the_job_files() {
    if !is_installed("fio") {
        return;
    }
    for file in ["small.fio", "storage.fio", "together.fio"] {
        let output =
            Command::new("fio").arg("--parse-only").arg(Path::new(JOBS).join(file)).output().expect("fio starts");
        let bytes = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&bytes);
        assert!(output.status.success() && !text.contains("dropped"), "{file}: {text}");
    }
}

#[test]
fn jobs_run_as_named_cells() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = format!("{JOBS}/small.fio");
    let run =
        json(&nearfar(dir.path(), &["run", "--fio", &file, "--smoke", "--format", "json", "--placement", "kernel"]));
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
    // The files of the jobs are removed.
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("the directory exists").filter_map(Result::ok).collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".0.0")), "{left:?}");
    let shown = json(&nearfar(dir.path(), &["show", "--format", "json"]));
    assert!(shown.to_string().contains("small"), "{shown:#}");
}

#[test]
fn differences_from_fio_and_invalid_options_are_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("the file is writable");
    write("two.fio", "[global]\nsize=1m\n[a]\n[b]\n");
    write("wrong.fio", "[a]\nsize=1m\niodepht=3\n");
    let run = |args: &[&str]| {
        let output = nearfar(dir.path(), args);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, stderr) = run(&["run", "--fio", "two.fio", "--dry-run"]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("note: fio would run a, b concurrently; here each job runs alone"), "{stderr}");
    for (args, expected) in [
        (&["run", "--fio", "wrong.fio"][..], "wrong.fio:3:1: unknown option 'iodepht'\nhint: similar options: iodepth"),
        (&["run", "--fio", "missing.fio"], "--fio missing.fio"),
        (&["run", "quick", "--fio", "two.fio"], "cannot be used with"),
        (&["run"], "<EXPERIMENT>"),
        (&["run", "quick", "--placement", "one-core"], "--placement requires --fio"),
        (&["run", "--fio", "two.fio", "--set", "sise=1m"], "has a parameter 'sise'; the parameters are size"),
        (&["run", "--fio", "two.fio", "--set", "size"], "KEY=VALUE"),
        (&["run", "--fio", "two.fio", "--set", "size=much"], "'much' is not a size"),
        (&["run", "--fio", "two.fio", "--placement", "nowhere"], "'nowhere'"),
    ] {
        let (status, stderr) = run(args);
        assert_eq!(status, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

/// `--set` replaces the parameter in every workload that has it, also in a smoke test.
#[test]
fn set_overrides_the_parameters_of_an_experiment() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args =
        ["run", "storage", "--dry-run", "--format", "json", "--smoke", "--set", "size=2MiB", "--set", "engine=psync"];
    let plan = json(&nearfar(dir.path(), &[&args[..], &["--set", "iodepth=1"]].concat()));
    let cells = plan["cells"].as_array().expect("cells");
    assert!(cells.len() > 5);
    for cell in cells {
        let parameters = &cell["parameters"];
        assert_eq!((&parameters["size"], &parameters["engine"]), (&"2MiB".into(), &"psync".into()), "{cell:#}");
    }
}

/// Both workloads measure the same cell with the same parameters and have the same metrics.
#[test]
fn io_and_fio_have_the_same_metrics() {
    if !is_installed("fio") {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("data");
    std::fs::write(&file, vec![5; 4 << 20]).expect("the file is writable");
    let name = format!("file={}", file.display());
    for engine in ["io_uring", "psync"] {
        let set = format!("engine={engine}");
        let both = ["io", "fio"].map(|workload| {
            let args =
                ["measure", workload, "--smoke", "--set", &name, "--set", &set, "--set", "runtime=200ms", "-r", "2"];
            let run = json(&nearfar(dir.path(), &[&args[..], &["--threads", "1", "--format", "json"]].concat()));
            metrics(&run["cells"][0])
        });
        if both.iter().any(Vec::is_empty) {
            println!("skipped: {engine} cannot be measured here");
            continue;
        }
        // The CPU time of fio may be below the resolution of the kernel's accounting.
        let names = both.each_ref().map(|metrics| {
            let names = metrics.iter().map(|(name, _)| name.as_str());
            names.filter(|name| *name != "cpu-per-io").collect::<Vec<_>>()
        });
        assert_eq!(names[0], names[1], "{engine}");
    }
    assert_eq!(std::fs::read(&file).expect("the file exists"), vec![5; 4 << 20]);
}

/// Measures a raw device, then a file system on it, in a private mount namespace. Undoes everything on exit.
const DISK: &str = r#"
set -eu
image=$1; dir=$2; kind=$3; shift 3
mount --make-rprivate /
disk=$(losetup --find --show "$image") || exit 77
trap 'umount "$dir" 2>/dev/null || true; losetup --detach "$disk"' EXIT
run() { file=$1; shift; "$@" --set "file=$file"; }
run "$disk" "$@" --set rw=read
run "$disk" "$@" --set rw=write --set "allow-overwrite=$disk"
mkfs.$kind -q "$disk"
mount -t $kind "$disk" "$dir"
# The disk is in use now, so --allow-overwrite must not permit writes.
if run "$disk" "$@" --set rw=write --set "allow-overwrite=$disk"; then echo "a mounted disk was written to" >&2; exit 1; fi
run "$dir/data" "$@" --set rw=write
test ! -e "$dir/data"
"#;

/// `mkfs.xfs` makes nothing smaller than 300 MB.
const DISK_BYTES: u64 = 320 << 20;

#[test]
fn raw_device_and_file_system_are_measured() {
    if !is_root() {
        return println!("skipped: loop devices need root");
    }
    if !is_installed("losetup") {
        return;
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    for (kind, package) in [("ext4", "e2fsprogs"), ("xfs", "xfsprogs")] {
        let has = Command::new(format!("mkfs.{kind}")).arg("-V").output().is_ok_and(|output| output.status.success());
        if !has {
            println!("skipped: mkfs.{kind} is not installed: apt-get install {package}");
        } else if !known.lines().any(|line| line.trim() == kind) {
            println!("skipped: the kernel does not support {kind}, or its module is not loaded");
        } else {
            measure_on(kind);
        }
    }
}

/// Runs both workloads on a loop device and on this file system on it.
fn measure_on(kind: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (image, mounted) = (dir.path().join("image"), dir.path().join("mounted"));
    std::fs::create_dir(&mounted).expect("the file can be created");
    std::fs::File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).expect("the file can be created");
    for workload in ["io", "fio"] {
        if workload == "fio" && !is_installed("fio") {
            continue;
        }
        let mut shell = own_mounts::shell(false, DISK);
        shell.args([&image, &mounted]).arg(kind);
        shell.arg(env!("CARGO_BIN_EXE_nearfar")).args(["measure", workload, "--smoke", "-r", "1", "--threads", "1"]);
        shell.args(["--set", "engine=psync", "--set", "size=8MiB"]);
        shell.env("NEARFAR_STORE", dir.path().join("r.db")).env("NEARFAR_STATE", dir.path().join("state"));
        let output = match own_mounts::run(&mut shell, "loop devices") {
            Ok(output) => output,
            Err(reason) => return println!("skipped: {reason}"),
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{workload} on {kind}: {stderr}");
    }
}
