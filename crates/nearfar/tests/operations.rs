//! Random operations on checked memory under `nearfar expand`, with both engines: this file is the program too, which it
//! starts again with [`PLAN`] in its environment.
//!
//! `NEARFAR_SOAK=600 cargo test -p nearfar --test operations -- --nocapture` goes on for so many seconds each (`make soak`).

#[path = "../../farmem/tests/operations/checker.rs"]
mod checker;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use checker::Plan;

/// Seed, seconds, and after how many operations a bit is changed; the last only where that is to be seen.
const PLAN: &str = "NEARFAR_OPERATIONS";
/// What it has at most in memory is four times its DRAM.
const DRAM: &str = "24MiB";
const THREADS: u64 = 3;
const PAGES: usize = 8192;

/// Swap is the whole machine's: one at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The program; as a test of its own it has nothing to do.
#[test]
fn program() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let mut numbers = plan.split(' ').map(|number| number.parse().expect("a number"));
    let seed = numbers.next().expect("a seed");
    let time = Duration::from_secs(numbers.next().expect("a time"));
    let plan = Plan { seed, threads: THREADS, pages: PAGES, time, flip_after: numbers.next() };
    match checker::run(plan) {
        Ok(counts) => println!("{counts}"),
        Err(trouble) => {
            eprintln!("{trouble}");
            std::process::exit(1);
        }
    }
}

fn expand(folder: &tempfile::TempDir, engine: &str, plan: &str) -> Output {
    let ourselves = std::env::current_exe().expect("a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("NEARFAR_STATE", folder.path().join("state")).env(PLAN, plan);
    command.args(["expand", "--dram", DRAM, "--engine", engine, "--"]).arg(ourselves);
    command.args(["program", "--exact", "--nocapture"]).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// Whether programs can be given a budget here; else the reason is printed.
fn can_expand(test: &str, folder: &tempfile::TempDir) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("NEARFAR_STATE", folder.path().join("state")).args(["expand", "--dram", DRAM, "--", "true"]);
    let tried = command.output().expect("the program starts");
    if !tried.status.success() {
        println!("skipped: {test}: {}", String::from_utf8_lossy(&tried.stderr).trim());
    }
    tried.status.success()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn random_operations_lose_nothing() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !can_expand("random_operations_lose_nothing", &folder) {
        return;
    }
    let seconds = std::env::var("NEARFAR_SOAK").ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(3);
    for engine in ["steered", "plain"] {
        let output = expand(&folder, engine, &format!("1 {seconds}"));
        let said = said(&output);
        if engine == "plain" && said.contains("the kernel ended") {
            println!("skipped: random_operations_lose_nothing: the kernel's own swap ended it, which it may");
            continue;
        }
        assert!(output.status.success(), "{engine}: {said}");
        let counts = said.lines().find(|line| line.contains("pages verified")).expect("it counts");
        println!("{engine}, {seconds} s: {counts}");
        println!("{}", said.lines().find(|line| line.starts_with("nearfar: ")).expect("it closes with a line"));
    }
}

#[test]
fn a_bit_that_changed_far_away_is_seen() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !can_expand("a_bit_that_changed_far_away_is_seen", &folder) {
        return;
    }
    let output = expand(&folder, "steered", "2 2 300");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("in word 256"), "{}", said(&output));
}
