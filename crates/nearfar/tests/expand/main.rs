//! Real programs with less DRAM than they need: they lose no data; streams, signals and exit status pass through; the
//! machine is restored, whichever process is killed.

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

/// The tests run one at a time: the whole machine shares swap, so pages of one test could go to the device of another.
static SWAP_LOCK: Mutex<()> = Mutex::new(());

/// A temporary directory for the journal of one test, and the lock of the machine's swap.
struct Setup(Scratch, #[expect(dead_code, reason = "locked for the duration of the test")] MutexGuard<'static, ()>);

impl Setup {
    /// Returns `None`, with the reason printed, if DRAM cannot be limited.
    fn new(test: &str) -> Option<Self> {
        let setup = Self::unchecked();
        let output = setup.expand(&["--dram", "32MiB"], &["true"]).output().expect("the program starts");
        if !output.status.success() {
            println!("skipped: {test}: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Some(setup)
    }

    fn unchecked() -> Self {
        // A failed test poisons the lock, which does not affect the next one.
        let guard = SWAP_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        Self(Scratch::new(), guard)
    }

    fn nearfar(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(args).env("NEARFAR_STATE", self.0.path().join("state"));
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

    /// Lists the remains of expansions: journals, and the number of cgroups of the process that each belongs to.
    fn remains(&self) -> String {
        let mut remains = String::new();
        let journals = std::fs::read_dir(self.0.path().join("state/expand"));
        for journal in journals.into_iter().flatten().flatten() {
            let name = journal.file_name().to_string_lossy().into_owned();
            let (pid, _) = name.split_once('-').expect("a process ID and a start time");
            let groups = [Path::new("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup/memory")];
            let groups = groups.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
            let own =
                groups.filter(|group| group.file_name().to_string_lossy().starts_with(&format!("nearfar-{pid}-")));
            let _ = writeln!(remains, "{name}: {} groups", own.count());
        }
        remains
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Returns the first line that a program under an expansion prints.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    line.trim().into()
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

fn kill(pid: &str, signal: &str) {
    let killed = Command::new("kill").args([signal, pid]).status().expect("kill(1) is installed");
    assert!(killed.success(), "kill {signal} {pid}");
}

fn wait_until(event: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "timed out: {event}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn status_is_that_of_the_program_if_nothing_can_be_written() {
    let Some(setup) = Setup::new("status_is_that_of_the_program_if_nothing_can_be_written") else { return };
    for summary in ["/dev/full", "/nowhere/summary"] {
        let mut command = setup.expand(&["--dram", "32MiB", "--summary", summary], &["sh", "-c", "exit 7"]);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full exists");
        let status = command.stderr(full).status().expect("the program starts");
        assert_eq!(status.code(), Some(7), "{summary}");
    }
    assert_eq!(setup.remains(), "");
}

#[test]
fn exit_status_of_the_program_is_returned() {
    let Some(setup) = Setup::new("exit_status_of_the_program_is_returned") else { return };
    let status = |program: &[&str]| setup.run(&["--dram", "32MiB"], program).status;
    assert_eq!(status(&["sh", "-c", "exit 7"]).code(), Some(7));
    assert_eq!(status(&["sh", "-c", "kill -9 $$"]).signal(), Some(9));
    assert_eq!(status(&["sh", "-c", "kill -15 $$"]).signal(), Some(15));
    assert_eq!(status(&["no-such-program"]).code(), Some(127));
    assert_eq!(status(&["/etc/passwd"]).code(), Some(126));
    assert_eq!(setup.remains(), "");
}

#[test]
fn standard_streams_are_passed_through() {
    let Some(setup) = Setup::new("standard_streams_are_passed_through") else { return };
    let mut command = setup.expand(&["--dram", "32MiB", "-q"], &["sh", "-c", "cat; echo warned >&2"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let mut stdin = child.stdin.take().expect("a pipe");
    let (sent, writer) = (bytes.clone(), std::thread::spawn(move || stdin.write_all(&bytes)));
    let output = child.wait_with_output().expect("the process ends");
    writer.join().expect("no panic").expect("the program reads all input");
    assert_eq!(output.stdout, sent);
    assert_eq!(text(&output.stderr), "warned\n", "-q prints no messages");
}

#[test]
fn signals_reach_the_program() {
    let Some(setup) = Setup::new("signals_reach_the_program") else { return };
    for signal in ["-TERM", "-INT", "-USR1"] {
        if signal == "-INT" && is_ignored(SIGINT) {
            println!("skipped: signals_reach_the_program: SIGINT is ignored here, and a shell cannot change that");
            continue;
        }
        let trap = "trap 'echo trapped >&2; exit 3' TERM INT USR1; echo ready; while :; do sleep 0.01; done";
        let mut child = setup.expand(&["--dram", "32MiB"], &["sh", "-c", trap]).spawn().expect("the program starts");
        assert_eq!(first_line(&mut child), "ready");
        kill(&child.id().to_string(), signal);
        let output = child.wait_with_output().expect("the process ends");
        assert_eq!(output.status.code(), Some(3), "{signal}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("trapped"), "{signal}");
    }
    assert_eq!(setup.remains(), "");
}

#[test]
fn signal_during_setup_is_forwarded_and_all_is_restored() {
    let Some(setup) = Setup::new("signal_during_setup_is_forwarded_and_all_is_restored") else {
        return;
    };
    for signal in ["-TERM", "-USR1"] {
        let child = setup.expand(&["--dram", "32MiB"], &["sleep", "60"]).spawn().expect("the program starts");
        wait_until("the expansion has started", || !setup.remains().is_empty());
        kill(&child.id().to_string(), signal);
        let output = child.wait_with_output().expect("the process ends");
        assert_eq!(setup.remains(), "", "{signal}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("of DRAM, at most"), "{signal}: {}", text(&output.stderr));
    }
}

/// Touches 96 MiB repeatedly for three seconds, in a separate terminal.
#[test]
fn status_line_shows_memory_and_fault_rate() {
    let Some(setup) = Setup::new("status_line_shows_memory_and_fault_rate") else { return };
    if !installed("script") || !installed("python3") {
        return println!("skipped: status_line_shows_memory_and_fault_rate: needs script (bsdutils) and python3");
    }
    let python = "import time; b = bytearray(96 << 20); end = time.time() + 3\nwhile time.time() < end: b[::4096] = bytes(24576)";
    let program = setup.0.path().join("touch.py");
    std::fs::write(&program, python).expect("the directory is writable");
    let line = format!("{} expand --dram 32MiB --live -- python3 {}", env!("CARGO_BIN_EXE_nearfar"), program.display());
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("NEARFAR_STATE", setup.0.path().join("state"));
    let output = terminal.stdin(Stdio::null()).output().expect("the program starts");
    let output_text = text(&output.stdout);
    assert!(output.status.success(), "{output_text}");
    let line = output_text.split('\r').find(|line| line.contains("/s"));
    let line = line.unwrap_or_else(|| panic!("no line with a rate of faults: {output_text}"));
    for part in ["near ", ", far ", " faults waited (", " prefetched ("] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(line.contains(" % of the time)") || !Path::new("/proc/pressure/memory").exists(), "{line}");
    assert_eq!(setup.remains(), "");
}

#[test]
fn background_processes_are_waited_for() {
    let Some(setup) = Setup::new("background_processes_are_waited_for") else { return };
    let output = setup.run(
        &["--dram", "32MiB"],
        &["sh", "-c", "(sleep 0.3; echo late) & setsid sh -c 'sleep 0.4; echo later' & echo first; exit 4"],
    );
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("first\nlate\nlater\n", Some(4)));
    assert!(text(&output.stderr).contains("processes that it started are still running"), "{}", text(&output.stderr));
    assert_eq!(setup.remains(), "");
}

#[test]
fn program_that_leaves_its_cgroup_keeps_running() {
    let Some(setup) = Setup::new("program_that_leaves_its_cgroup_keeps_running") else { return };
    let leave = "for g in /sys/fs/cgroup/memory /sys/fs/cgroup; do [ -e $g/cgroup.procs ] && echo $$ > $g/cgroup.procs; done 2>/dev/null; echo out; exit 5";
    let output = setup.run(&["--dram", "32MiB"], &["sh", "-c", leave]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("out\n", Some(5)));
    assert_eq!(setup.remains(), "");
}

/// Returns the memory cgroup of the process with cgroup v1; `None` with cgroup v2.
fn cgroup_v1(pid: &str) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("the process exists");
    let path = groups.lines().find_map(|line| line.split_once(":memory:"))?.1;
    Some(Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')))
}

/// The program continues without losing data, and `nearfar restore` then removes the expansion.
#[test]
fn killed_controller_loses_no_data() {
    let Some(setup) = Setup::new("killed_controller_loses_no_data") else { return };
    let folios = std::fs::read_to_string(FOLIOS).ok();
    let done = setup.0.path().join("done");
    let program = format!(
        "import os,time\nb=bytearray(64<<20)\nfor i in range(0,len(b),4096): b[i]=i//4096%251\nprint(os.getpid(),flush=True)\nwhile not os.path.exists('{0}.go'): time.sleep(0.01)\nassert all(b[i]==i//4096%251 for i in range(0,len(b),4096))\nopen('{0}','w').close()",
        done.display()
    );
    if !installed("python3") {
        return println!("skipped: killed_controller_loses_no_data: python3 is not installed");
    }
    let mut child =
        setup.expand(&["--dram", "24MiB"], &["python3", "-c", &program]).spawn().expect("the program starts");
    let pid = first_line(&mut child);
    kill(&child.id().to_string(), "-KILL");
    child.wait().expect("the process has ended");
    assert!(is_alive(&pid), "the program keeps running");
    // No process evicts pages for it any more, so its limit must be lifted: otherwise it would wait or be killed.
    if let Some(group) = cgroup_v1(&pid) {
        let read = |name: &str| std::fs::read_to_string(group.join(name)).expect("the cgroup exists");
        wait_until("OOM kills are enabled", || read("memory.oom_control").contains("oom_kill_disable 0"));
        let limit: u64 = read("memory.limit_in_bytes").trim().parse().expect("a number");
        assert!(limit > 1 << 60, "the limit of {limit} bytes is not lifted");
    }
    let early = setup.nearfar(&["restore"]).output().expect("the program starts");
    assert_eq!(early.status.code(), Some(1), "{}", text(&early.stdout));
    assert!(text(&early.stdout).contains(&format!("process {pid} is still in it")), "{}", text(&early.stdout));
    std::fs::write(format!("{}.go", done.display()), "").expect("a file");
    wait_until("the program verifies its data and exits", || !is_alive(&pid));
    assert!(done.exists(), "its data is unchanged");
    let restored = setup.nearfar(&["restore"]).output().expect("the program starts");
    assert!(restored.status.success(), "{}{}", text(&restored.stdout), text(&restored.stderr));
    assert_eq!(setup.remains(), "");
    assert_eq!(std::fs::read_to_string(FOLIOS).ok(), folios);
}

/// A trace has the faults and the controller's advice in chronological order.
#[test]
fn page_faults_are_recorded() {
    let Some(setup) = Setup::new("page_faults_are_recorded") else { return };
    if !installed("python3") {
        return println!("skipped: page_faults_are_recorded: python3 is not installed");
    }
    let program =
        "b=bytearray(64<<20)\nfor _ in range(3):\n for i in range(0,len(b),4096): b[i]+=1\nassert sum(b)==3*16384";
    for engine in ["steered", "plain"] {
        let path = setup.0.path().join("trace");
        let trace = path.to_str().expect("plain text");
        let output = setup.run(&["--dram", "24MiB", "--engine", engine, "--trace", trace], &["python3", "-c", program]);
        assert!(output.status.success(), "{engine}: {}", text(&output.stderr));
        let bytes = std::fs::read(&path).expect("the trace exists");
        let decoder = Decoder::begin(&bytes).expect("a trace");
        let steered = engine == "steered";
        assert_eq!((decoder.header.steered, decoder.header.minor_period), (steered, if steered { 16 } else { 1 }));
        let records: Vec<Record> = decoder.collect::<Result<_, _>>().expect("whole");
        let count = |kind: fn(&Record) -> bool| records.iter().filter(|record| kind(record)).count();
        let faults = count(|record| matches!(record, Record::Fault(_)));
        let advice = count(|record| matches!(record, Record::Fetch { .. } | Record::PageOut { .. }));
        assert!(count(|record| matches!(record, Record::Look { .. })) > 0, "{engine}");
        assert!(count(|record| matches!(record, Record::Fault(fault) if fault.major)) > 0, "{engine}");
        // Each of the 16384 pages faults at its first access, and again after it was swapped out.
        assert!(if steered { advice > 0 } else { advice == 0 && faults > 20_000 }, "{engine}: {faults}, {advice}");
    }
    let output = setup.run(&["--dram", "24MiB", "--trace", "/nowhere/trace"], &["true"]);
    assert!(text(&output.stderr).contains("cannot create /nowhere/trace"), "{}", text(&output.stderr));
    assert_eq!(setup.remains(), "");
}

/// Returns the names of the zram devices.
fn zram_devices() -> Vec<String> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = devices.map(|device| device.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("zram")).collect();
    names.sort();
    names
}

/// Returns a setup if evicted pages can be kept compressed and python3 is installed.
fn compressing_setup(test: &str) -> Option<Setup> {
    let setup = Setup::new(test)?;
    let output = setup.run(&["--dram", "32MiB", "--compressed"], &["python3", "-c", "pass"]);
    if output.status.success() {
        return Some(setup);
    }
    println!("skipped: {test}: {}", text(&output.stderr).trim());
    None
}

/// Runs a Python program with a DRAM limit of 24 MiB and this option for compression; returns its output and the summary.
fn run_compressed(setup: &Setup, when: &str, engine: &str, program: &str) -> (String, serde_json::Value) {
    let path = setup.0.path().join("summary.json");
    let flags = ["--dram", "24MiB", when, "--engine", engine, "--summary", path.to_str().expect("plain text")];
    let output = setup.run(&flags, &["python3", "-c", program]);
    assert!(output.status.success(), "{engine}: {}", text(&output.stderr));
    (text(&output.stdout), programs::read_summary(&path))
}

/// A Python program that fills 48 MiB: a quarter of each page is random, the rest depends on its number.
const FILL: &str = "import random,time\nr=random.Random(1)\nb=bytearray()\n\
                    for i in range(12288): b+=r.randbytes(1024)+bytes([i%251])*3072\np=list(range(12288))\n";

#[test]
fn automatic_compression_begins_with_waits_for_the_disk() {
    let Some(setup) = compressing_setup("automatic_compression_begins_with_waits_for_the_disk") else { return };
    let program = format!(
        "{FILL}until=time.monotonic()+5\nwhile time.monotonic()<until:\n r.shuffle(p)\n \
         assert all(b[4096*i+2000]==i%251 for i in p)\nprint(len(b))"
    );
    let devices = zram_devices();
    for (program, is_waiting) in [(FILL, false), (program.as_str(), true)] {
        for engine in ["steered", "plain"] {
            let (_, summary) = run_compressed(&setup, "--compressed=auto", engine, program);
            let stored = summary["compressed"]["stored_bytes"].as_u64().unwrap_or(0);
            assert!(if is_waiting { stored > 8 << 20 } else { stored == 0 }, "{engine}: {stored}: {summary:#}");
            assert_eq!(zram_devices(), devices, "{engine}");
        }
    }
    assert_eq!(setup.remains(), "");
}

#[test]
fn evicted_pages_stay_compressed_within_the_limit() {
    let Some(setup) = compressing_setup("evicted_pages_stay_compressed_within_the_limit") else { return };
    let devices = zram_devices();
    let program = format!(
        "{FILL}for _ in range(2):\n r.shuffle(p)\n assert all(b[4096*i+2000]==i%251 for i in p)\nprint(len(b))"
    );
    for engine in ["steered", "plain"] {
        let (output, summary) = run_compressed(&setup, "--compressed", engine, &program);
        assert_eq!(output, format!("{}\n", 48 << 20), "{engine}");
        let bytes = |name: &str| summary["compressed"][name].as_u64().expect("bytes");
        assert!(bytes("bytes_max") > 8 << 20 && bytes("loaded_bytes") > 8 << 20, "{engine}: {summary:#}");
        assert!(bytes("dram_bytes_max") > 1 << 20 && bytes("dram_bytes_max") < 14 << 20, "{engine}: {summary:#}");
        assert_eq!(zram_devices(), devices, "{engine}");
    }
    assert_eq!(setup.remains(), "");
}

#[test]
fn data_that_cannot_be_compressed_go_to_disk() {
    let Some(setup) = compressing_setup("data_that_cannot_be_compressed_go_to_disk") else { return };
    let program =
        "import os\nb=[os.urandom(4096) for _ in range(16384)]\nc=sum(x[9] for x in b)\nassert c==sum(x[9] for x in b)";
    let (_, summary) = run_compressed(&setup, "--compressed", "steered", program);
    assert!(summary["far_written_bytes"].as_u64() > Some(16 << 20), "{summary:#}");
    assert!(summary["compressed"]["dram_bytes_max"].as_u64() < Some(14 << 20), "{summary:#}");
    assert_eq!(setup.remains(), "");
}

#[test]
fn kills_with_compressed_pages_lose_no_data() {
    let Some(setup) = compressing_setup("kills_with_compressed_pages_lose_no_data") else { return };
    let (devices, done) = (zram_devices(), setup.0.path().join("done"));
    let program = format!(
        "import os,time\nb=bytearray(64<<20)\nfor i in range(0,len(b),64): b[i]=i//64%251\nprint(os.getpid(),flush=True)\nwhile not os.path.exists('{0}.go'): time.sleep(0.01)\nassert all(b[i]==i//64%251 for i in range(0,len(b),64))\nopen('{0}','w').close()",
        done.display()
    );
    let flags = ["--dram", "24MiB", "--compressed"];
    let mut child = setup.expand(&flags, &["python3", "-c", &program]).spawn().expect("the program starts");
    let pid = first_line(&mut child);
    kill(&child.id().to_string(), "-KILL");
    child.wait().expect("the process has ended");
    let early = setup.nearfar(&["restore"]).output().expect("the program starts");
    assert_eq!(early.status.code(), Some(1), "{}", text(&early.stdout));
    std::fs::write(format!("{}.go", done.display()), "").expect("a file");
    wait_until("the program verifies its data and exits", || !is_alive(&pid));
    assert!(done.exists(), "its data is unchanged");
    let restored = setup.nearfar(&["restore"]).output().expect("the program starts");
    assert!(restored.status.success(), "{}{}", text(&restored.stdout), text(&restored.stderr));
    assert_eq!((setup.remains(), zram_devices()), (String::new(), devices));
}

#[test]
fn restore_cleans_up_after_kills() {
    let Some(setup) = Setup::new("restore_cleans_up_after_kills") else { return };
    let program = ["sh", "-c", "echo $$; exec sleep 100"];
    let mut child = setup.expand(&["--dram", "32MiB"], &program).spawn().expect("the program starts");
    let pid = first_line(&mut child);
    kill(&child.id().to_string(), "-KILL");
    kill(&pid, "-KILL");
    child.wait().expect("the process has ended");
    wait_until("the program has exited", || !is_alive(&pid));
    assert!(setup.remains().contains("1 groups"), "{}", setup.remains());
    let restored = setup.nearfar(&["restore"]).output().expect("the program starts");
    assert!(restored.status.success(), "{}{}", text(&restored.stdout), text(&restored.stderr));
    assert_eq!(setup.remains(), "");
}

#[test]
fn two_programs_are_expanded_concurrently() {
    let Some(setup) = Setup::new("two_programs_are_expanded_concurrently") else { return };
    let start = || setup.expand(&["--dram", "32MiB"], &["sh", "-c", "echo ready; read line; echo $line"]);
    let mut children: Vec<Child> =
        (0..2).map(|_| start().stdin(Stdio::piped()).spawn().expect("the program starts")).collect();
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().expect("a pipe"))).collect();
    for output in &mut outputs {
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "both programs run concurrently");
    }
    for child in &mut children {
        writeln!(child.stdin.take().expect("a pipe"), "go").expect("the program reads");
        assert!(child.wait().expect("the process ends").success());
    }
    assert_eq!(setup.remains(), "");
}

#[test]
fn invalid_options_are_rejected() {
    let setup = Setup::unchecked();
    let existing = setup.0.path().join("existing");
    std::fs::write(&existing, "mine").expect("a file");
    let existing = existing.to_str().expect("plain text");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--dram", "lots"], 2, "'lots' is not a size"),
        (&["--dram", "50%"], 2, "--dram 50%: the peak memory of this command line is unknown"),
        (&["--dram", "150%", "--peak", "1GiB"], 2, "'150%' is not a percentage"),
        (&["--dram", "4KiB"], 1, "too small for any program"),
        (&["--dram", "1GiB", "--far-path", existing], 2, "already exists and is not overwritten"),
        (&["--dram", "1GiB", "--far-path", "/nowhere/at/all"], 2, "the directory /nowhere/at does not exist"),
        (&["--dram", "1GiB", "--engine", "magic"], 2, "invalid value 'magic'"),
    ];
    for (flags, status, expected) in cases {
        let output = setup.run(flags, &["true"]);
        assert!(text(&output.stderr).contains(expected), "{flags:?}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{flags:?}");
    }
    assert_eq!(std::fs::read_to_string(existing).expect("the file exists"), "mine");
}

#[test]
fn unsuitable_far_memory_is_rejected() {
    let Some(setup) = Setup::new("unsuitable_far_memory_is_rejected") else { return };
    for (flags, expected) in
        [(["--far-path", "/dev/shm"], "is in memory ("), (["--far-size", "900TiB"], "exceed the free space")]
    {
        let output = setup.run(&[&["--dram", "64MiB"], &flags[..]].concat(), &["true"]);
        assert!(text(&output.stderr).contains(expected), "{flags:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("hint: "), "{flags:?}");
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
    }
    assert_eq!(setup.remains(), "");
}

#[test]
fn trials_with_a_dram_budget_are_verified() {
    let Some(setup) = Setup::new("trials_with_a_dram_budget_are_verified") else { return };
    let measured = setup
        .nearfar(&["measure", "sweep", "--set", "size=96MiB", "-r", "2", "-w", "0", "--format", "json"])
        .args(["--placement", "one-core+expand:48MiB", "--placement", "one-core+swap:48MiB"])
        .output()
        .expect("the program starts");
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let store = trials(&setup);
    for (placement, steered) in [("one-core+expand:48MiB", true), ("one-core+swap:48MiB", false)] {
        let trials: Vec<_> = store.iter().filter(|trial| trial["placement"] == placement).collect();
        assert_eq!(trials.len(), 2);
        for trial in trials {
            let far = &trial["evidence"]["budget"];
            assert_eq!(far["dram"], 48 << 20, "{trial}");
            assert!(far["written"].as_u64() > Some(16 << 20), "{trial}");
            assert_eq!(far["controller_cpu"].is_null(), !steered, "{trial}");
            // The controller has to see the faults of each trial, not only of the first one.
            assert_eq!(far["prefetched"].as_u64() > Some(0), steered, "{trial}");
            assert_ne!(trial["verdict"], "invalid", "{trial}");
        }
    }
    assert_eq!(setup.remains(), "");
}

#[test]
fn trials_with_compressed_pages_are_verified() {
    let Some(setup) = compressing_setup("trials_with_compressed_pages_are_verified") else { return };
    let placements = ["one-core+expand:48MiB+compressed", "one-core+swap:48MiB+compressed"];
    let measured = setup
        .nearfar(&["measure", "sweep", "--set", "size=96MiB", "-r", "1", "-w", "0", "--wait"])
        .args(["--placement", placements[0], "--placement", placements[1]])
        .output()
        .expect("the program starts");
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let store = trials(&setup);
    for placement in placements {
        let trial = store.iter().find(|trial| trial["placement"] == placement).expect("the trial exists");
        assert!(trial["evidence"]["budget"]["compressed"]["stored"].as_u64() > Some(16 << 20), "{trial}");
        assert_ne!(trial["verdict"], "invalid", "{trial}");
    }
    assert_eq!(setup.remains(), "");
}

/// Returns the trials of the last run.
fn trials(setup: &Setup) -> Vec<serde_json::Value> {
    let shown = setup.nearfar(&["show", "--trials", "--format", "json"]).output().expect("the program starts");
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    shown["trials"].as_array().expect("a list").clone()
}

/// Both commands write their cgroup; only that of the server is not the one of this test.
#[test]
fn server_runs_within_the_limit_and_its_load_outside() {
    let Some(setup) = Setup::new("server_runs_within_the_limit_and_its_load_outside") else { return };
    let (server, load) = (setup.0.path().join("server"), setup.0.path().join("load"));
    let script = format!("sh -c 'cp /proc/self/cgroup {0}.new; mv {0}.new {0}; exec sleep 600'", server.display());
    let ready = format!("file:{}", server.display());
    let flags = ["--dram", "32MiB", "--server", &script, "--ready", &ready];
    let output = setup
        .expand(&flags, &["sh", "-c", &format!("cp /proc/self/cgroup {}; exit 7", load.display())])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |path: &Path| std::fs::read_to_string(path).expect("the file exists");
    let own = read(Path::new("/proc/self/cgroup"));
    assert_eq!(read(&load), own);
    assert_ne!(read(&server), own);
}

#[test]
fn failed_server_is_reported_and_ends_its_load() {
    let Some(setup) = Setup::new("failed_server_is_reported_and_ends_its_load") else { return };
    let output = setup.expand(&["--dram", "32MiB", "--server", "false"], &["sleep", "600"]).output();
    let output = output.expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("server: ended before the end of the trial with status 1"), "{stderr}");
}
