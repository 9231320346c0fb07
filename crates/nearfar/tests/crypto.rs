//! Workloads `crypto` and `openssl` with the whole program: a process loads OpenSSL's library once, so whether
//! `instructions=software` takes effect shows only in processes of their own, as trials are.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--quiet").arg("--store").arg(folder.join("r.db")).args(args).current_dir(folder);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", folder.join("state"));
    // A user's own setting must not reach the library, nor any result.
    command.env("OPENSSL_ia32cap", "~0x200000200000000").env("OPENSSL_armcap", "1");
    command.output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Why the last run's trials are not valid, in one text.
fn reasons(folder: &Path) -> String {
    let shown = json(&nearfar(folder, &["show", "--trials", "--format", "json"]));
    let trials = shown["trials"].as_array().expect("a list of trials");
    trials.iter().map(|trial| trial["reasons"].to_string()).collect()
}

/// The median throughput of one cell; none with the reason printed where this machine has no OpenSSL 3.
fn throughput(test: &str, folder: &Path, set: &[&str]) -> Option<f64> {
    let mut args = vec!["measure", "crypto", "--runs", "3", "--threads", "1", "--format", "json"];
    set.iter().for_each(|pair| args.extend(["--set", pair]));
    let measured = json(&nearfar(folder, &args));
    let cell = &measured["cells"][0];
    if cell["verdicts"]["valid"] == 0 && reasons(folder).contains("cannot be measured here") {
        println!("skipped: {test}: {}", reasons(folder));
        return None;
    }
    assert_eq!(cell["metrics"][0]["name"], "throughput");
    Some(cell["metrics"][0]["median"].as_f64().unwrap_or_else(|| panic!("{measured:#} {}", reasons(folder))))
}

fn cpu_has_aes() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines().any(|line| {
        let (name, words) = line.split_once(':').unwrap_or_default();
        ["flags", "Features"].contains(&name.trim()) && words.split_whitespace().any(|word| word == "aes")
    })
}

#[test]
fn software_is_far_slower_for_aes_and_the_users_own_variable_changes_nothing() {
    let name = "software_is_far_slower_for_aes_and_the_users_own_variable_changes_nothing";
    if !cpu_has_aes() {
        return println!("skipped: {name}: this cpu has no instructions for AES");
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let set = ["cipher=aes-128-gcm", "block=16KiB", "time=100ms"];
    let with = |instructions| throughput(name, folder.path(), &[&set[..], &[instructions]].concat());
    let (Some(cpu), Some(software)) = (with("instructions=cpu"), with("instructions=software")) else { return };
    // Some ten times on machines of these years, busy with other things or not.
    assert!(cpu > 2.0 * software, "{cpu} kB/s with the cpu's instructions, {software} kB/s without");
}

#[test]
fn a_library_that_is_not_there_is_said_with_what_to_install() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let args = ["measure", "crypto", "--smoke", "--runs", "1", "--set", "library=/nowhere/libcrypto.so.3"];
    let output = nearfar(folder.path(), &args);
    assert_eq!(output.status.code(), Some(4), "nothing was measured");
    let why = reasons(folder.path());
    assert!(why.contains("/nowhere/libcrypto.so.3: cannot open shared object file"), "{why}");
    assert!(why.contains("hint: apt-get install libssl3"), "{why}");
}

#[test]
fn what_does_not_go_together_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let cases: &[(&[&str], &str)] = &[
        (&["crypto", "--set", "cipher=aes-128-cbx"], "'aes-128-cbx' is not one of aes-128-cbc"),
        (&["crypto", "--set", "block=100"], "needs a multiple of 16"),
        (&["crypto", "--set", "block=2MiB"], "goes from 16B to 1MiB"),
        (&["crypto", "--set", "engine=kernel", "--set", "cipher=aes-128-gcm"], "set message=block"),
        (&["openssl", "--set", "program=/nowhere/openssl"], "/nowhere/openssl"),
        (&["openssl", "--set", "time=1500ms"], "whole seconds"),
    ];
    for (args, expected) in cases {
        let output = nearfar(folder.path(), &[&["measure"], *args].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn an_installed_openssl_is_run_and_read() {
    let name = "an_installed_openssl_is_run_and_read";
    if !Command::new("openssl").arg("version").output().is_ok_and(|output| output.stdout.starts_with(b"OpenSSL 3")) {
        return println!("skipped: {name}: openssl 3 is not installed (scripts/setup programs)");
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    for threads in ["1", "2"] {
        let args = ["measure", "openssl", "--smoke", "--runs", "1", "--threads", threads, "--format", "json"];
        let software = nearfar(folder.path(), &[&args[..], &["--set", "instructions=software"]].concat());
        let metrics = &json(&software)["cells"][0]["metrics"];
        assert!(metrics[0]["median"].as_f64().is_some_and(|value| value > 0.0), "{metrics} {}", reasons(folder.path()));
        // Here the user's variable does reach the program, which says so.
        nearfar(folder.path(), &args);
        let why = reasons(folder.path());
        assert!(why.contains("disables instructions") && why.contains("hint: unset OPENSSL_"), "{why}");
    }
}
