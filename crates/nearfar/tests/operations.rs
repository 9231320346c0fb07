//! Random operations on checked memory under `nearfar expand`, with both engines: this file is the program too, which it
//! starts again with [`PLAN`] in its environment.
//!
//! `NEARFAR_SOAK=600 cargo test -p nearfar --test operations -- --nocapture` goes on for so many seconds each (`make soak`).

#[path = "../../farmem/tests/operations/checker.rs"]
mod checker;
#[path = "scratch/mod.rs"]
mod scratch;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use checker::Plan;
use scratch::Scratch;

/// Seed, seconds, and after how many operations a bit is changed; the last only where that is to be seen.
const PLAN: &str = "NEARFAR_OPERATIONS";
/// What it has at most in memory is four times its DRAM.
const DRAM: &str = "24MiB";
const THREADS: u64 = 3;
const PAGES: usize = 8192;

/// Swap is the whole machine's: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

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

fn command(folder: &Scratch, engine: &str, plan: &str) -> Command {
    let ourselves = std::env::current_exe().expect("a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("NEARFAR_STATE", folder.path().join("state")).env(PLAN, plan);
    command.args(["expand", "--dram", DRAM, "--engine", engine, "--"]).arg(ourselves);
    command.args(["program", "--exact", "--nocapture"]).stdin(Stdio::null());
    command
}

fn expand(folder: &Scratch, engine: &str, plan: &str) -> Output {
    command(folder, engine, plan).output().expect("the program starts")
}

/// A scratch folder for who is alone, where programs can be given a budget; else the reason is printed.
fn alone(test: &str) -> Option<(MutexGuard<'static, ()>, Scratch)> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("NEARFAR_STATE", folder.path().join("state")).args(["expand", "--dram", DRAM, "--", "true"]);
    let tried = command.output().expect("the program starts");
    if !tried.status.success() {
        println!("skipped: {test}: {}", String::from_utf8_lossy(&tried.stderr).trim());
    }
    tried.status.success().then_some((alone, folder))
}

/// Starts the program under expand, its words in a file; its process is looked for until it runs.
fn begin(folder: &Scratch, said: &Path, plan: &str) -> (Child, String) {
    let words = File::create(said).expect("a file");
    let mut command = command(folder, "steered", plan);
    let child = command.stdout(words.try_clone().expect("a file")).stderr(words).spawn().expect("the program starts");
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let pid = || std::fs::read_to_string(&children).unwrap_or_default().trim().to_string();
    wait_until("the program runs", || {
        std::fs::read_to_string(format!("/proc/{}/comm", pid())).is_ok_and(|name| name.starts_with("operations"))
    });
    let pid = pid();
    (child, pid)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "waited for a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

/// At points that follow from the round: the pilot alone, whose program then finishes and finds its pages, or both.
#[test]
fn whoever_is_killed_nothing_is_lost() {
    let Some((_alone, folder)) = alone("whoever_is_killed_nothing_is_lost") else { return };
    let rounds = soak().map_or(2, |seconds| (seconds / 4).max(2));
    let mut finished = 0;
    for round in 0..rounds {
        let path = folder.path().join("said");
        let (mut pilot, program) = begin(&folder, &path, &format!("{round} 2"));
        // Not a wait for something: the point at which it happens.
        std::thread::sleep(Duration::from_millis(20 + u64::from(round).wrapping_mul(0x9E37_79B9) % 1700));
        pilot.kill().expect("it is ours");
        pilot.wait().expect("it was killed");
        let both = round % 2 == 1;
        if both {
            Command::new("kill").args(["-KILL", &program]).status().expect("kill(1) is there");
        }
        wait_until("the program ends", || !is_alive(&program));
        let said = std::fs::read_to_string(&path).expect("its words");
        assert!(both || said.contains("pages verified"), "round {round}: {said}");
        finished += u32::from(!both);
        // A child that the program had forked ends by itself, and until then restore refuses.
        wait_until("nothing is left", || folder.restore());
    }
    println!(
        "{rounds} pilots killed, {} of them with their program; {finished} programs finished and found their pages",
        rounds - finished
    );
}

fn soak() -> Option<u32> {
    std::env::var("NEARFAR_SOAK").ok().and_then(|text| text.parse().ok())
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn random_operations_lose_nothing() {
    let Some((_alone, folder)) = alone("random_operations_lose_nothing") else { return };
    let seconds = soak().unwrap_or(3);
    for engine in ["steered", "plain"] {
        let output = expand(&folder, engine, &format!("1 {seconds}"));
        let said = said(&output);
        if engine == "plain" && said.contains("the Linux kernel killed") {
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
    let Some((_alone, folder)) = alone("a_bit_that_changed_far_away_is_seen") else { return };
    let output = expand(&folder, "steered", "2 2 300");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("in word 256"), "{}", said(&output));
}
