//! Workload `io` from the command line writes to existing files and disks only if `--allow-overwrite` names them.

mod rights;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::rights::is_root;

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("r.db")).args(args).current_dir(dir);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state")).output().expect("the program starts")
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

const WRITE: [&str; 13] = [
    "measure",
    "io",
    "--smoke",
    "-r",
    "1",
    "--threads",
    "1",
    "--set",
    "engine=psync",
    "--set",
    "rw=write",
    "--set",
    "amount=64KiB",
];

#[test]
fn existing_file_is_written_only_if_its_path_is_repeated() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let path = dir.join("precious");
    let before = vec![7; 1 << 20];
    fs::write(&path, &before).expect("the directory is writable");
    let path = path.to_str().expect("the path is UTF-8");
    let file = format!("file={path}");
    let mut args = WRITE.to_vec();
    args.extend(["--set", &file]);
    let refused = nearfar(dir, &args);
    assert_eq!(refused.status.code(), Some(4), "{}", text_of(&refused));
    assert!(text_of(&refused).contains(&format!("hint: --allow-overwrite {path}")), "{}", text_of(&refused));
    assert!(fs::read(path).expect("the file exists") == before);
    args.extend(["--allow-overwrite", path]);
    let written = nearfar(dir, &args);
    assert!(written.status.success(), "{}", text_of(&written));
    let after = fs::read(path).expect("the file exists");
    assert!(after[..1 << 16].chunks(512).all(|sector| sector != &before[..512]), "the requested amount is written");
    assert!(after[1 << 16..] == before[1 << 16..], "the rest is unchanged");
}

#[test]
fn created_file_is_removed_afterwards() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let file = format!("file={}", dir.join("new").display());
    let mut args = WRITE.to_vec();
    args.extend(["--set", &file]);
    let written = nearfar(dir, &args);
    assert!(written.status.success(), "{}", text_of(&written));
    assert!(!dir.join("new").exists());
}

#[test]
fn only_the_flag_allows_an_experiment_to_overwrite() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let path = dir.join("scratch");
    fs::write(&path, vec![0; 1 << 20]).expect("the directory is writable");
    let path = path.to_str().expect("the path is UTF-8");
    let experiment = |more: &str| {
        let set = format!("file = \"{path}\", rw = \"write\", amount = \"64KiB\", engine = \"psync\"{more}");
        let text = format!("name = \"x\"\nquestion = \"?\"\n[[workload]]\nname = \"io\"\nset = {{ {set} }}\n");
        fs::write(dir.join("x.toml"), text).expect("the directory is writable");
    };
    experiment(&format!(", allow-overwrite = \"{path}\""));
    let refused = nearfar(dir, &["run", "x.toml", "--smoke"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text_of(&refused));
    assert!(text_of(&refused).contains("the file must not set allow-overwrite"), "{}", text_of(&refused));
    experiment("");
    assert_eq!(nearfar(dir, &["run", "x.toml", "--smoke"]).status.code(), Some(4));
    let untouched = || fs::read(path).expect("the file exists") == vec![0; 1 << 20];
    assert!(untouched());
    let written = nearfar(dir, &["run", "x.toml", "--smoke", "--allow-overwrite", path]);
    assert!(written.status.success(), "{}", text_of(&written));
    assert!(!untouched());
}

#[test]
fn cpu_load_is_stored_with_each_trial_and_shown() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let measured = nearfar(dir, &["measure", "io", "--smoke", "--set", "engine=psync", "--set", "direct=false"]);
    assert!(measured.status.success(), "{}", text_of(&measured));
    let json = |args: &[&str]| -> Value {
        let shown = nearfar(dir, args);
        serde_json::from_slice(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {}", text_of(&shown)))
    };
    let trials = json(&["show", "--trials", "--format", "json"]);
    for trial in trials["trials"].as_array().expect("trials") {
        let times = trial["evidence"]["cpu_times"].as_object().expect("CPU times");
        assert!(!times.is_empty(), "{trial:#}");
    }
    let cells = json(&["show", "--format", "json"]);
    let load = cells["cells"][0]["cpu_load"].as_array().expect("load by CPU").clone();
    assert!(!load.is_empty());
    for cpu in &load {
        let kinds = ["user", "system", "irq", "softirq", "iowait", "idle", "steal"];
        let sum: f64 = kinds.iter().filter_map(|kind| cpu[kind].as_f64()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{cpu:#}");
    }
    let text = text_of(&nearfar(dir, &["show", "--cpu-load"]));
    assert!(text.contains("Load of each CPU") && text.contains("softirq"), "{text}");
    assert!(!text_of(&nearfar(dir, &["show"])).contains("softirq"));
    let page = text_of(&nearfar(dir, &["report", "--output", "-"]));
    assert!(page.contains("strips loads"), "the report has strips of the CPU load");
    let shared = nearfar(dir, &["share", "--output", "shared.db"]);
    assert!(shared.status.success(), "{}", text_of(&shared));
}

#[test]
fn allow_overwrite_without_effect_is_rejected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for args in [
        &["measure", "stream", "--smoke", "--allow-overwrite", "/x"][..],
        &["run", "quick", "--smoke", "--allow-overwrite", "/x"],
        &["measure", "io", "--set", "allow-overwrite=/y", "--allow-overwrite", "/x"],
    ] {
        let refused = nearfar(dir.path(), args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", text_of(&refused));
        assert!(text_of(&refused).contains("--allow-overwrite /x"), "{}", text_of(&refused));
    }
}

/// Two loop devices. The image of the second is truncated to half, so reads beyond it fail with EIO. Exits with 77
/// without loop devices; steps that must fail write their output to files.
const LOOPS: &str = r#"
set -eu
dir=$1; shift
truncate --size 8M "$dir/one" "$dir/two"
one=$(losetup --find --show "$dir/one") || exit 77
trap 'losetup --detach "$one"' EXIT
two=$(losetup --find --show "$dir/two") || exit 77
trap 'losetup --detach "$one" "$two"' EXIT
"$@" --threads 2 --set "file=$one,$two" --set rw=read
"$@" --threads 2 --set "file=$one,$two" --set rw=write --set "allow-overwrite=$one,$two"
if "$@" --threads 2 --set "file=$one,$two" --set rw=write --set "allow-overwrite=$one" >"$dir/half" 2>&1; then exit 1; fi
if "$@" --threads 1 --set "file=$one" --set iopoll=true --set engine=preadv2 --set direct=true >"$dir/polled" 2>&1; then exit 1; fi
truncate --size 4M "$dir/two"
if "$@" --threads 1 --set "file=$two" --set rw=read --set direct=true --set amount=8MiB >"$dir/broken" 2>&1; then exit 1; fi
"#;

#[test]
fn loop_devices_are_loaded_together_and_errors_name_the_cause() {
    if !is_root() {
        return println!("skipped: loop devices need root");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let mut shell = Command::new("sh");
    shell.args(["-c", LOOPS, "sh"]).arg(dir).arg(env!("CARGO_BIN_EXE_nearfar"));
    shell.args(["measure", "io", "--smoke", "-r", "1", "--set", "engine=psync", "--set", "size=8MiB"]);
    shell.env("NEARFAR_STORE", dir.join("r.db")).env("NEARFAR_STATE", dir.join("state"));
    let output = shell.output().expect("sh starts");
    if output.status.code() == Some(77) {
        return println!("skipped: loop devices are not available: {}", text_of(&output));
    }
    let log = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    assert!(output.status.success(), "{}{}{}{}", text_of(&output), log("half"), log("polled"), log("broken"));
    assert!(log("half").contains("would be overwritten"), "{}", log("half"));
    assert!(log("polled").contains("has no polled queues"), "{}", log("polled"));
    let broken = log("broken");
    assert!(broken.contains("read at 4194304: Input/output error") && broken.contains("hint: dmesg"), "{broken}");
    let trials = nearfar(dir, &["show", "--trials", "--format", "json"]);
    let trials: Value = serde_json::from_slice(&trials.stdout).unwrap_or_else(|error| panic!("{error}"));
    let last = &trials["trials"][0];
    assert_eq!((&last["status"], &last["verdict"]), (&"failed".into(), &"invalid".into()), "{last:#}");
}
