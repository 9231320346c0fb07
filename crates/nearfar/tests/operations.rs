//! Random operations on verified memory under `nearfar expand`, with both engines. The program is this test binary,
//! started with [`PLAN`] in its environment.
//!
//! `NEARFAR_SOAK=600 cargo test -p nearfar --test operations -- --nocapture` runs each engine for 600 s (`make soak`).

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

/// Environment variable: seed, seconds and optionally the number of operations after which a bit is flipped.
const PLAN: &str = "NEARFAR_OPERATIONS";
/// The program's memory is up to four times as large.
const DRAM: &str = "24MiB";
const THREADS: u64 = 3;
const PAGES: usize = 8192;

/// The tests run one at a time, because the whole machine shares swap.
static SWAP_LOCK: Mutex<()> = Mutex::new(());

/// The measured program; without [`PLAN`] it does nothing.
#[test]
fn program() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let mut numbers = plan.split(' ').map(|number| number.parse().expect("a number"));
    let seed = numbers.next().expect("a seed");
    let time = Duration::from_secs(numbers.next().expect("seconds"));
    let plan = Plan { seed, threads: THREADS, pages: PAGES, time, operations: 0, flip_after: numbers.next() };
    match checker::run(plan) {
        Ok(counts) => println!("{counts}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn command(dir: &Scratch, engine: &str, plan: &str) -> Command {
    let this_program = std::env::current_exe().expect("a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("NEARFAR_STATE", dir.path().join("state")).env(PLAN, plan);
    command.args(["expand", "--dram", DRAM, "--engine", engine, "--"]).arg(this_program);
    command.args(["program", "--exact", "--nocapture"]).stdin(Stdio::null());
    command
}

fn expand(dir: &Scratch, engine: &str, plan: &str) -> Output {
    command(dir, engine, plan).output().expect("the program starts")
}

/// Locks swap and creates a temporary directory; `None`, with the reason printed, if DRAM cannot be limited.
fn lock_swap(test: &str) -> Option<(MutexGuard<'static, ()>, Scratch)> {
    let guard = SWAP_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("NEARFAR_STATE", dir.path().join("state")).args(["expand", "--dram", DRAM, "--", "true"]);
    let output = command.output().expect("the program starts");
    if !output.status.success() {
        println!("skipped: {test}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success().then_some((guard, dir))
}

/// Starts the program under expand, with its output in a file; returns the child and the process ID of the program.
fn start(dir: &Scratch, output: &Path, plan: &str) -> (Child, String) {
    let file = File::create(output).expect("the file can be created");
    let mut command = command(dir, "steered", plan);
    let child = command.stdout(file.try_clone().expect("a file")).stderr(file).spawn().expect("the program starts");
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
        assert!(Instant::now() < end, "timed out after a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

/// Kills the controller at a time derived from the round; in odd rounds the program too, otherwise it must finish.
#[test]
fn killed_controllers_and_programs_lose_no_data() {
    let Some((_guard, dir)) = lock_swap("killed_controllers_and_programs_lose_no_data") else { return };
    let rounds = soak().map_or(2, |seconds| (seconds / 4).max(2));
    let mut finished = 0;
    for round in 0..rounds {
        let path = dir.path().join("output");
        let (mut controller, program) = start(&dir, &path, &format!("{round} 2"));
        // Not a wait for a condition: this is the time of the kill.
        std::thread::sleep(Duration::from_millis(20 + u64::from(round).wrapping_mul(0x9E37_79B9) % 1700));
        controller.kill().expect("the process can be killed");
        controller.wait().expect("the process has ended");
        let both = round % 2 == 1;
        if both {
            Command::new("kill").args(["-KILL", &program]).status().expect("kill(1) is installed");
        }
        wait_until("the program ends", || !is_alive(&program));
        let output = std::fs::read_to_string(&path).expect("the output is text");
        assert!(both || output.contains("pages verified"), "round {round}: {output}");
        finished += u32::from(!both);
        // A child forked by the program exits on its own; until then `nearfar restore` fails.
        wait_until("restored", || dir.restore());
    }
    println!(
        "{rounds} controllers killed, {} of them with their program; {finished} programs finished and verified their pages",
        rounds - finished
    );
}

fn soak() -> Option<u32> {
    std::env::var("NEARFAR_SOAK").ok().and_then(|text| text.parse().ok())
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn random_operations_lose_no_data() {
    let Some((_guard, dir)) = lock_swap("random_operations_lose_no_data") else { return };
    let seconds = soak().unwrap_or(3);
    for engine in ["steered", "plain"] {
        let output = expand(&dir, engine, &format!("1 {seconds}"));
        let text = text_of(&output);
        if engine == "plain" && text.contains("the Linux kernel killed") {
            println!("skipped: random_operations_lose_no_data: the kernel killed the program for lack of memory");
            continue;
        }
        assert!(output.status.success(), "{engine}: {text}");
        let counts = text.lines().find(|line| line.contains("pages verified")).expect("a line of counts");
        println!("{engine}, {seconds} s: {counts}");
        println!("{}", text.lines().find(|line| line.starts_with("nearfar: ")).expect("a summary"));
    }
}

#[test]
fn flipped_bit_is_detected() {
    let Some((_guard, dir)) = lock_swap("flipped_bit_is_detected") else { return };
    let output = expand(&dir, "steered", "2 2 300");
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("in word 256"), "{}", text_of(&output));
}
