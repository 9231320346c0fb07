//! Real programs on budgets of DRAM that they do not fit: nothing of their work is lost, their streams, signals and status
//! are theirs, and the machine is as it was found afterwards, whoever is killed.

mod programs;
#[path = "../scratch/mod.rs"]
mod scratch;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farmem::trace::{Decoder, Record};
use machine::child::is_ignored;
use scratch::Scratch;
use signal_hook::consts::SIGINT;

const FOLIOS: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";

/// Swap is the whole machine's, so that what one test swaps may go to the device of another: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A place for the journal of one test.
struct Place(Scratch, #[expect(dead_code, reason = "held as long as the test runs")] MutexGuard<'static, ()>);

impl Place {
    /// None, with the reason printed, where programs cannot be given a budget.
    fn new(test: &str) -> Option<Self> {
        let place = Self::unchecked();
        let tried = place.expand(&["--dram", "32MiB"], &["true"]).output().expect("the program starts");
        if !tried.status.success() {
            println!("skipped: {test}: {}", String::from_utf8_lossy(&tried.stderr).trim());
            return None;
        }
        Some(place)
    }

    fn unchecked() -> Self {
        // A test that failed has poisoned it, which says nothing about the next.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self(Scratch::new(), alone)
    }

    fn nearfar(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(words).env("NEARFAR_STATE", self.0.path().join("state"));
        command.env("NEARFAR_STORE", self.0.path().join("r.db"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn expand(&self, flags: &[&str], program: &[&str]) -> Command {
        let mut command = self.nearfar(&["expand"]);
        command.args(flags).arg("--").args(program);
        command
    }

    fn run(&self, flags: &[&str], program: &[&str]) -> Output {
        self.expand(flags, program).output().expect("the program starts")
    }

    /// What of an expansion is left: journals, and groups of the processes that this test started.
    fn left(&self) -> String {
        let mut left = String::new();
        let journals = std::fs::read_dir(self.0.path().join("state/expand"));
        for journal in journals.into_iter().flatten().flatten() {
            let name = journal.file_name().to_string_lossy().into_owned();
            let (pid, _) = name.split_once('-').expect("a process and its beginning");
            let groups = [Path::new("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup/memory")];
            let groups = groups.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
            let ours =
                groups.filter(|group| group.file_name().to_string_lossy().starts_with(&format!("nearfar-{pid}-")));
            let _ = writeln!(left, "{name}: {} groups", ours.count());
        }
        left
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Waits until a program under an expansion has said its first line.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says something");
    line.trim().into()
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

fn kill(pid: &str, signal: &str) {
    let killed = Command::new("kill").args([signal, pid]).status().expect("kill(1) is there");
    assert!(killed.success(), "kill {signal} {pid}");
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_programs_status_is_ours() {
    let Some(place) = Place::new("the_programs_status_is_ours") else { return };
    let status = |program: &[&str]| place.run(&["--dram", "32MiB"], program).status;
    assert_eq!(status(&["sh", "-c", "exit 7"]).code(), Some(7));
    assert_eq!(status(&["sh", "-c", "kill -9 $$"]).signal(), Some(9));
    assert_eq!(status(&["sh", "-c", "kill -15 $$"]).signal(), Some(15));
    assert_eq!(status(&["no-such-program"]).code(), Some(127));
    assert_eq!(status(&["/etc/passwd"]).code(), Some(126));
    assert_eq!(place.left(), "");
}

#[test]
fn the_programs_streams_are_ours() {
    let Some(place) = Place::new("the_programs_streams_are_ours") else { return };
    let mut command = place.expand(&["--dram", "32MiB", "-q"], &["sh", "-c", "cat; echo warned >&2"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let mut stdin = child.stdin.take().expect("a pipe");
    let (sent, writer) = (bytes.clone(), std::thread::spawn(move || stdin.write_all(&bytes)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all is read");
    assert_eq!(output.stdout, sent);
    assert_eq!(text(&output.stderr), "warned\n", "-q says nothing of its own");
}

#[test]
fn signals_reach_the_program() {
    let Some(place) = Place::new("signals_reach_the_program") else { return };
    for signal in ["-TERM", "-INT", "-USR1"] {
        if signal == "-INT" && is_ignored(SIGINT) {
            println!("skipped: signals_reach_the_program: SIGINT is ignored here, and a shell cannot change that");
            continue;
        }
        let trap = "trap 'echo told >&2; exit 3' TERM INT USR1; echo ready; while :; do sleep 0.01; done";
        let mut child = place.expand(&["--dram", "32MiB"], &["sh", "-c", trap]).spawn().expect("the program starts");
        assert_eq!(first_line(&mut child), "ready");
        kill(&child.id().to_string(), signal);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(3), "{signal}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("told"), "{signal}");
    }
    assert_eq!(place.left(), "");
}

#[test]
fn a_signal_while_memory_is_made_ready_is_the_programs_and_leaves_nothing() {
    let Some(place) = Place::new("a_signal_while_memory_is_made_ready_is_the_programs_and_leaves_nothing") else {
        return;
    };
    for signal in ["-TERM", "-USR1"] {
        let child = place.expand(&["--dram", "32MiB"], &["sleep", "60"]).spawn().expect("the program starts");
        wait_until("something is made", || !place.left().is_empty());
        kill(&child.id().to_string(), signal);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(place.left(), "", "{signal}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("of DRAM, at most"), "{signal}: {}", text(&output.stderr));
    }
}

/// In a terminal of its own: 96 MiB are touched again and again for three seconds.
#[test]
fn a_line_says_how_it_stands() {
    let Some(place) = Place::new("a_line_says_how_it_stands") else { return };
    if !installed("script") || !installed("python3") {
        return println!("skipped: a_line_says_how_it_stands: no script (Debian's bsdutils) or no python3");
    }
    let python = "import time; b = bytearray(96 << 20); end = time.time() + 3\nwhile time.time() < end: b[::4096] = bytes(24576)";
    let program = place.0.path().join("touch.py");
    std::fs::write(&program, python).expect("the folder can be written");
    let line = format!("{} expand --dram 32MiB --live -- python3 {}", env!("CARGO_BIN_EXE_nearfar"), program.display());
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("NEARFAR_STATE", place.0.path().join("state"));
    let output = terminal.stdin(Stdio::null()).output().expect("it is installed");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    let paced = said.split('\r').find(|line| line.contains("/s"));
    let paced = paced.unwrap_or_else(|| panic!("no line says how many wait in a second: {said}"));
    for part in ["near ", ", far ", " waits (", " fetched (", " ahead"] {
        assert!(paced.contains(part), "{part}: {paced}");
    }
    assert!(paced.contains(" % of the time)") || !Path::new("/proc/pressure/memory").exists(), "{paced}");
    assert_eq!(place.left(), "");
}

#[test]
fn what_a_program_leaves_behind_is_waited_for() {
    let Some(place) = Place::new("what_a_program_leaves_behind_is_waited_for") else { return };
    let output = place.run(
        &["--dram", "32MiB"],
        &["sh", "-c", "(sleep 0.3; echo late) & setsid sh -c 'sleep 0.4; echo later' & echo first; exit 4"],
    );
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("first\nlate\nlater\n", Some(4)));
    assert!(text(&output.stderr).contains("processes that it started are still running"), "{}", text(&output.stderr));
    assert_eq!(place.left(), "");
}

#[test]
fn a_program_that_leaves_its_cgroup_runs_on() {
    let Some(place) = Place::new("a_program_that_leaves_its_cgroup_runs_on") else { return };
    let leave = "for g in /sys/fs/cgroup/memory /sys/fs/cgroup; do [ -e $g/cgroup.procs ] && echo $$ > $g/cgroup.procs; done 2>/dev/null; echo out; exit 5";
    let output = place.run(&["--dram", "32MiB"], &["sh", "-c", leave]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("out\n", Some(5)));
    assert_eq!(place.left(), "");
}

/// Where the process's memory is bounded by version 1 of the kernel's interface; none with version 2.
fn group_of_version_1(pid: &str) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("the process is there");
    let path = groups.lines().find_map(|line| line.split_once(":memory:"))?.1;
    Some(Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')))
}

/// Whoever is killed, the program's work is not lost, and `nearfar restore` leaves nothing.
#[test]
fn the_pilot_may_be_killed() {
    let Some(place) = Place::new("the_pilot_may_be_killed") else { return };
    let folios = std::fs::read_to_string(FOLIOS).ok();
    let done = place.0.path().join("done");
    let program = format!(
        "import os,time\nb=bytearray(64<<20)\nfor i in range(0,len(b),4096): b[i]=i//4096%251\nprint(os.getpid(),flush=True)\nwhile not os.path.exists('{0}.go'): time.sleep(0.01)\nassert all(b[i]==i//4096%251 for i in range(0,len(b),4096))\nopen('{0}','w').close()",
        done.display()
    );
    if !installed("python3") {
        return println!("skipped: the_pilot_may_be_killed: python3 is not installed");
    }
    let mut child =
        place.expand(&["--dram", "24MiB"], &["python3", "-c", &program]).spawn().expect("the program starts");
    let pid = first_line(&mut child);
    kill(&child.id().to_string(), "-KILL");
    child.wait().expect("it was killed");
    assert!(is_alive(&pid), "the program goes on");
    // Nobody makes room for it any more: it must not wait for that, nor be killed for want of it.
    if let Some(group) = group_of_version_1(&pid) {
        let read = |name: &str| std::fs::read_to_string(group.join(name)).expect("the group is there");
        wait_until("nobody waits any more", || read("memory.oom_control").contains("oom_kill_disable 0"));
        let limit: u64 = read("memory.limit_in_bytes").trim().parse().expect("a number");
        assert!(limit > 1 << 60, "{limit} bytes: the limit is lifted");
    }
    let early = place.nearfar(&["restore"]).output().expect("the program starts");
    assert_eq!(early.status.code(), Some(1), "{}", text(&early.stdout));
    assert!(text(&early.stdout).contains(&format!("process {pid} is still in it")), "{}", text(&early.stdout));
    std::fs::write(format!("{}.go", done.display()), "").expect("a file");
    wait_until("the program finds its data and ends", || !is_alive(&pid));
    assert!(done.exists(), "its data was as it had written it");
    let restored = place.nearfar(&["restore"]).output().expect("the program starts");
    assert!(restored.status.success(), "{}{}", text(&restored.stdout), text(&restored.stderr));
    assert_eq!(place.left(), "");
    assert_eq!(std::fs::read_to_string(FOLIOS).ok(), folios);
}

/// What sense saw and what was ordered, in the order in which it came.
#[test]
fn page_faults_are_recorded() {
    let Some(place) = Place::new("page_faults_are_recorded") else { return };
    if !installed("python3") {
        return println!("skipped: page_faults_are_recorded: python3 is not installed");
    }
    let program =
        "b=bytearray(64<<20)\nfor _ in range(3):\n for i in range(0,len(b),4096): b[i]+=1\nassert sum(b)==3*16384";
    for engine in ["steered", "plain"] {
        let path = place.0.path().join("trace");
        let trace = path.to_str().expect("plain text");
        let output = place.run(&["--dram", "24MiB", "--engine", engine, "--trace", trace], &["python3", "-c", program]);
        assert!(output.status.success(), "{engine}: {}", text(&output.stderr));
        let bytes = std::fs::read(&path).expect("it was written");
        let decoder = Decoder::begin(&bytes).expect("a trace");
        let steered = engine == "steered";
        assert_eq!((decoder.header.steered, decoder.header.minor_period), (steered, if steered { 16 } else { 1 }));
        let records: Vec<Record> = decoder.collect::<Result<_, _>>().expect("whole");
        let count = |kind: fn(&Record) -> bool| records.iter().filter(|record| kind(record)).count();
        let faults = count(|record| matches!(record, Record::Fault(_)));
        let orders = count(|record| matches!(record, Record::Fetch { .. } | Record::PageOut { .. }));
        assert!(count(|record| matches!(record, Record::Look { .. })) > 0, "{engine}");
        assert!(count(|record| matches!(record, Record::Fault(fault) if fault.major)) > 0, "{engine}");
        // Each of 16384 pages is touched for the first time, and again when it has been far.
        assert!(if steered { orders > 0 } else { orders == 0 && faults > 20_000 }, "{engine}: {faults}, {orders}");
    }
    let output = place.run(&["--dram", "24MiB", "--trace", "/nowhere/trace"], &["true"]);
    assert!(text(&output.stderr).contains("cannot make /nowhere/trace"), "{}", text(&output.stderr));
    assert_eq!(place.left(), "");
}

#[test]
fn program_and_pilot_may_be_killed() {
    let Some(place) = Place::new("program_and_pilot_may_be_killed") else { return };
    let mut child =
        place.expand(&["--dram", "32MiB"], &["sh", "-c", "echo $$; exec sleep 100"]).spawn().expect("it starts");
    let pid = first_line(&mut child);
    kill(&child.id().to_string(), "-KILL");
    kill(&pid, "-KILL");
    child.wait().expect("it was killed");
    wait_until("the program is gone", || !is_alive(&pid));
    assert!(place.left().contains("1 groups"), "{}", place.left());
    let restored = place.nearfar(&["restore"]).output().expect("the program starts");
    assert!(restored.status.success(), "{}{}", text(&restored.stdout), text(&restored.stderr));
    assert_eq!(place.left(), "");
}

#[test]
fn two_programs_are_expanded_at_once() {
    let Some(place) = Place::new("two_programs_are_expanded_at_once") else { return };
    let start = || place.expand(&["--dram", "32MiB"], &["sh", "-c", "echo ready; read line; echo $line"]);
    let mut children: Vec<Child> =
        (0..2).map(|_| start().stdin(Stdio::piped()).spawn().expect("the program starts")).collect();
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().expect("a pipe"))).collect();
    for output in &mut outputs {
        let mut line = String::new();
        output.read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n", "both are there at the same time");
    }
    for child in &mut children {
        writeln!(child.stdin.take().expect("a pipe"), "go").expect("it reads");
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(place.left(), "");
}

#[test]
fn mistakes_are_named() {
    let place = Place::unchecked();
    let existing = place.0.path().join("existing");
    std::fs::write(&existing, "mine").expect("a file");
    let existing = existing.to_str().expect("plain text");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--dram", "lots"], 2, "'lots' is not a size"),
        (&["--dram", "50%"], 2, "--dram 50%: the peak memory of this command line is unknown"),
        (&["--dram", "150%", "--peak", "1GiB"], 2, "not a share"),
        (&["--dram", "4KiB"], 1, "too little for any program"),
        (&["--dram", "1GiB", "--far-path", existing], 2, "already exists and is not overwritten"),
        (&["--dram", "1GiB", "--far-path", "/nowhere/at/all"], 2, "the directory /nowhere/at does not exist"),
        (&["--dram", "1GiB", "--engine", "magic"], 2, "invalid value 'magic'"),
    ];
    for (flags, status, expected) in cases {
        let output = place.run(flags, &["true"]);
        assert!(text(&output.stderr).contains(expected), "{flags:?}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{flags:?}");
    }
    assert_eq!(std::fs::read_to_string(existing).expect("it is there"), "mine");
}

#[test]
fn what_cannot_hold_far_memory_is_refused() {
    let Some(place) = Place::new("what_cannot_hold_far_memory_is_refused") else { return };
    for (flags, expected) in
        [(["--far-path", "/dev/shm"], "would lie in memory"), (["--far-size", "900TiB"], "do not fit")]
    {
        let output = place.run(&[&["--dram", "64MiB"], &flags[..]].concat(), &["true"]);
        assert!(text(&output.stderr).contains(expected), "{flags:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("hint: "), "{flags:?}");
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
    }
    assert_eq!(place.left(), "");
}

#[test]
fn trials_on_a_budget_prove_it() {
    let Some(place) = Place::new("trials_on_a_budget_prove_it") else { return };
    let measured = place
        .nearfar(&["measure", "sweep", "--set", "size=96MiB", "-r", "1", "-w", "0", "--format", "json"])
        .args(["--placement", "one-core+expand:48MiB", "--placement", "one-core+swap:48MiB"])
        .output()
        .expect("the program starts");
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let store = trials(&place);
    for (placement, steered) in [("one-core+expand:48MiB", true), ("one-core+swap:48MiB", false)] {
        let trial = store.iter().find(|trial| trial["placement"] == placement).expect("it was run");
        let far = &trial["evidence"]["budget"];
        assert_eq!(far["dram"], 48 << 20, "{trial}");
        assert!(far["written"].as_u64() > Some(16 << 20), "{trial}");
        assert_eq!(far["controller_cpu"].is_null(), !steered, "{trial}");
        assert_ne!(trial["verdict"], "invalid", "{trial}");
    }
    assert_eq!(place.left(), "");
}

/// The trials as `show` gives them.
fn trials(place: &Place) -> Vec<serde_json::Value> {
    let shown = place.nearfar(&["show", "--trials", "--format", "json"]).output().expect("the program starts");
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    shown["trials"].as_array().expect("a list").clone()
}
