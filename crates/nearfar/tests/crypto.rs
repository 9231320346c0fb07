//! Workloads `crypto` and `openssl` from the command line. A process loads OpenSSL's library only once, so tests of
//! `instructions=software` need separate processes, as trials do.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--quiet").arg("--store").arg(dir.join("r.db")).args(args).current_dir(dir);
    command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state"));
    // Settings of the user must not affect the library or the results.
    command.env("OPENSSL_ia32cap", "~0x200000200000000").env("OPENSSL_armcap", "1");
    command.output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Returns the verdict reasons of the last run's trials, joined.
fn reasons(dir: &Path) -> String {
    let shown = json(&nearfar(dir, &["show", "--trials", "--format", "json"]));
    let trials = shown["trials"].as_array().expect("a list of trials");
    trials.iter().map(|trial| trial["reasons"].to_string()).collect()
}

/// Returns the median throughput of one cell; `None`, with the reason printed, if this machine has no OpenSSL 3.
fn throughput(test: &str, dir: &Path, set: &[&str]) -> Option<f64> {
    let mut args = vec!["measure", "crypto", "--runs", "3", "--threads", "1", "--format", "json"];
    set.iter().for_each(|pair| args.extend(["--set", pair]));
    let measured = json(&nearfar(dir, &args));
    let cell = &measured["cells"][0];
    if cell["verdicts"]["valid"] == 0 && reasons(dir).contains("cannot be measured here") {
        println!("skipped: {test}: {}", reasons(dir));
        return None;
    }
    assert_eq!(cell["metrics"][0]["name"], "throughput");
    Some(cell["metrics"][0]["median"].as_f64().unwrap_or_else(|| panic!("{measured:#} {}", reasons(dir))))
}

fn cpu_has_aes() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines().any(|line| {
        let (name, words) = line.split_once(':').unwrap_or_default();
        ["flags", "Features"].contains(&name.trim()) && words.split_whitespace().any(|word| word == "aes")
    })
}

#[test]
fn software_aes_is_slower_and_ignores_the_users_variable() {
    let name = "software_aes_is_slower_and_ignores_the_users_variable";
    if !cpu_has_aes() {
        return println!("skipped: {name}: this CPU has no AES instructions");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let set = ["cipher=aes-128-gcm", "block=16KiB", "time=100ms"];
    let with = |instructions| throughput(name, dir.path(), &[&set[..], &[instructions]].concat());
    let (Some(cpu), Some(software)) = (with("instructions=cpu"), with("instructions=software")) else { return };
    // The factor is about ten on current CPUs, also if the machine is busy.
    assert!(cpu > 2.0 * software, "{cpu} kB/s with the CPU's instructions, {software} kB/s without");
}

#[test]
fn missing_library_is_reported_with_the_package_to_install() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = ["measure", "crypto", "--smoke", "--runs", "1", "--set", "library=/nowhere/libcrypto.so.3"];
    let output = nearfar(dir.path(), &args);
    assert_eq!(output.status.code(), Some(77), "nothing can be measured");
    let reason = String::from_utf8_lossy(&output.stderr);
    assert!(reason.contains("/nowhere/libcrypto.so.3: cannot open shared object file"), "{reason}");
    assert!(reason.contains("hint: apt-get install libssl3"), "{reason}");
}

#[test]
fn conflicting_parameters_are_rejected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cases: &[(&[&str], &str)] = &[
        (&["crypto", "--set", "cipher=aes-128-cbx"], "'aes-128-cbx' is not one of aes-128-cbc"),
        (&["crypto", "--set", "block=100"], "needs a multiple of 16"),
        (&["crypto", "--set", "block=2MiB"], "is out of range 16B to 1MiB"),
        (&["crypto", "--set", "engine=kernel", "--set", "cipher=aes-128-gcm"], "hint: message=block"),
        (&["openssl", "--set", "time=1500ms"], "whole seconds"),
    ];
    for (args, expected) in cases {
        let output = nearfar(dir.path(), &[&["measure"], *args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) && stderr.contains("(AF_ALG)") {
            println!("skipped: {args:?}: the kernel offers no ciphers to programs");
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

#[test]
fn absent_openssl_is_reported_before_the_run() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = nearfar(dir.path(), &["measure", "openssl", "--set", "program=/nowhere/openssl"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{stderr}");
    assert!(stderr.contains("/nowhere/openssl"), "{stderr}");
}

#[test]
fn installed_openssl_is_run_and_its_output_parsed() {
    let name = "installed_openssl_is_run_and_its_output_parsed";
    if !Command::new("openssl").arg("version").output().is_ok_and(|output| output.stdout.starts_with(b"OpenSSL 3")) {
        return println!("skipped: {name}: openssl 3 is not installed (scripts/setup programs)");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    for threads in ["1", "2"] {
        let args = ["measure", "openssl", "--smoke", "--runs", "1", "--threads", threads, "--format", "json"];
        let software = nearfar(dir.path(), &[&args[..], &["--set", "instructions=software"]].concat());
        let metrics = &json(&software)["cells"][0]["metrics"];
        assert!(metrics[0]["median"].as_f64().is_some_and(|value| value > 0.0), "{metrics} {}", reasons(dir.path()));
        // The program reports that it uses the user's variable.
        nearfar(dir.path(), &args);
        let reason = reasons(dir.path());
        assert!(reason.contains("disables instructions") && reason.contains("hint: unset OPENSSL_"), "{reason}");
    }
}
