//! What workload `io` writes to from the command line: nothing that was there before without `--allow-overwrite`, and then
//! what was named alone.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("r.db")).args(args).current_dir(folder);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", folder.join("state")).output().expect("the program starts")
}

fn said(output: &Output) -> String {
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
fn a_file_that_was_there_is_written_to_only_when_its_path_is_repeated() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let path = folder.join("precious");
    let before = vec![7; 1 << 20];
    fs::write(&path, &before).expect("the folder can be written");
    let path = path.to_str().expect("a path of text");
    let file = format!("file={path}");
    let mut args = WRITE.to_vec();
    args.extend(["--set", &file]);
    let refused = nearfar(folder, &args);
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(said(&refused).contains(&format!("hint: --allow-overwrite {path}")), "{}", said(&refused));
    assert!(fs::read(path).expect("it is still there") == before);
    args.extend(["--allow-overwrite", path]);
    let written = nearfar(folder, &args);
    assert!(written.status.success(), "{}", said(&written));
    let after = fs::read(path).expect("it is still there");
    assert!(after[..1 << 16].chunks(512).all(|sector| sector != &before[..512]), "what was asked for is written");
    assert!(after[1 << 16..] == before[1 << 16..], "and nothing else");
}

#[test]
fn a_file_that_is_made_is_gone_afterwards() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let file = format!("file={}", folder.join("new").display());
    let mut args = WRITE.to_vec();
    args.extend(["--set", &file]);
    let written = nearfar(folder, &args);
    assert!(written.status.success(), "{}", said(&written));
    assert!(!folder.join("new").exists());
}

#[test]
fn an_experiment_cannot_allow_it_and_a_flag_allows_it_to_all_its_writers() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let path = folder.join("scratch");
    fs::write(&path, vec![0; 1 << 20]).expect("the folder can be written");
    let path = path.to_str().expect("a path of text");
    let experiment = |more: &str| {
        let set = format!("file = \"{path}\", rw = \"write\", amount = \"64KiB\", engine = \"psync\"{more}");
        let text = format!("name = \"x\"\nquestion = \"?\"\n[[workload]]\nname = \"io\"\nset = {{ {set} }}\n");
        fs::write(folder.join("x.toml"), text).expect("the folder can be written");
    };
    experiment(&format!(", allow-overwrite = \"{path}\""));
    let refused = nearfar(folder, &["run", "x.toml", "--smoke"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("the file must not set allow-overwrite"), "{}", said(&refused));
    experiment("");
    assert_eq!(nearfar(folder, &["run", "x.toml", "--smoke"]).status.code(), Some(4));
    let untouched = || fs::read(path).expect("it is still there") == vec![0; 1 << 20];
    assert!(untouched());
    let written = nearfar(folder, &["run", "x.toml", "--smoke", "--allow-overwrite", path]);
    assert!(written.status.success(), "{}", said(&written));
    assert!(!untouched());
}

#[test]
fn what_each_cpu_did_is_stored_with_each_trial_and_shown_beside_the_requests() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let measured = nearfar(folder, &["measure", "io", "--smoke", "--set", "engine=psync", "--set", "direct=false"]);
    assert!(measured.status.success(), "{}", said(&measured));
    let json = |args: &[&str]| -> Value {
        let shown = nearfar(folder, args);
        serde_json::from_slice(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&shown)))
    };
    let trials = json(&["show", "--trials", "--format", "json"]);
    for trial in trials["trials"].as_array().expect("trials") {
        let times = trial["evidence"]["cpu_times"].as_object().expect("what each cpu did");
        assert!(!times.is_empty(), "{trial:#}");
    }
    let cells = json(&["show", "--format", "json"]);
    let load = cells["cells"][0]["cpu_load"].as_array().expect("of each cpu").clone();
    assert!(!load.is_empty());
    for cpu in &load {
        let kinds = ["user", "system", "irq", "softirq", "iowait", "idle", "steal"];
        let sum: f64 = kinds.iter().filter_map(|kind| cpu[kind].as_f64()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{cpu:#}");
    }
    let text = said(&nearfar(folder, &["show", "--cpu-load"]));
    assert!(text.contains("Load of each CPU") && text.contains("softirq"), "{text}");
    assert!(!said(&nearfar(folder, &["show"])).contains("softirq"));
    let page = said(&nearfar(folder, &["report", "--output", "-"]));
    assert!(page.contains("strips loads"), "the picture beside the throughput");
    let shared = nearfar(folder, &["share", "--output", "shared.db"]);
    assert!(shared.status.success(), "{}", said(&shared));
}

#[test]
fn a_flag_that_allows_nothing_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for args in [
        &["measure", "stream", "--smoke", "--allow-overwrite", "/x"][..],
        &["run", "quick", "--smoke", "--allow-overwrite", "/x"],
        &["measure", "io", "--set", "allow-overwrite=/y", "--allow-overwrite", "/x"],
    ] {
        let refused = nearfar(folder.path(), args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", said(&refused));
        assert!(said(&refused).contains("--allow-overwrite /x"), "{}", said(&refused));
    }
}

/// Two loop devices, the second with half of its image cut off, so that the kernel answers reads there with EIO.
const LOOPS: &str = r#"
set -eu
folder=$1; shift
truncate --size 8M "$folder/one" "$folder/two"
one=$(losetup --find --show "$folder/one") || exit 77
trap 'losetup --detach "$one"' EXIT
two=$(losetup --find --show "$folder/two") || exit 77
trap 'losetup --detach "$one" "$two"' EXIT
"$@" --threads 2 --set "file=$one,$two" --set rw=read
"$@" --threads 2 --set "file=$one,$two" --set rw=write --set "allow-overwrite=$one,$two"
if "$@" --threads 2 --set "file=$one,$two" --set rw=write --set "allow-overwrite=$one" >"$folder/half" 2>&1; then exit 1; fi
if "$@" --threads 1 --set "file=$one" --set iopoll=true --set engine=preadv2 --set direct=true >"$folder/polled" 2>&1; then exit 1; fi
truncate --size 4M "$folder/two"
if "$@" --threads 1 --set "file=$two" --set rw=read --set direct=true --set amount=8MiB >"$folder/broken" 2>&1; then exit 1; fi
"#;

/// What the steps of [`LOOPS`] said, by file; none, and a printed reason, where there are no loop devices.
#[test]
fn loop_devices_are_loaded_together_and_what_is_wrong_with_one_is_told() {
    if !Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n") {
        return println!("skipped: loop devices are root's");
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let mut shell = Command::new("sh");
    shell.args(["-c", LOOPS, "sh"]).arg(folder).arg(env!("CARGO_BIN_EXE_nearfar"));
    shell.args(["measure", "io", "--smoke", "-r", "1", "--set", "engine=psync", "--set", "size=8MiB"]);
    shell.env("NEARFAR_STORE", folder.join("r.db")).env("NEARFAR_STATE", folder.join("state"));
    let output = shell.output().expect("sh starts");
    if output.status.code() == Some(77) {
        return println!("skipped: no loop devices here: {}", said(&output));
    }
    let told = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    assert!(output.status.success(), "{}{}{}{}", said(&output), told("half"), told("polled"), told("broken"));
    assert!(told("half").contains("would be overwritten"), "{}", told("half"));
    assert!(told("polled").contains("has no polled queues"), "{}", told("polled"));
    let broken = told("broken");
    assert!(broken.contains("read at 4194304: Input/output error") && broken.contains("hint: dmesg"), "{broken}");
    let trials = nearfar(folder, &["show", "--trials", "--format", "json"]);
    let trials: Value = serde_json::from_slice(&trials.stdout).unwrap_or_else(|error| panic!("{error}"));
    let last = &trials["trials"][0];
    assert_eq!((&last["status"], &last["verdict"]), (&"failed".into(), &"invalid".into()), "{last:#}");
}
