//! Real servers with real commands: every readiness condition, every failure, and no process left behind.

use std::fs::File;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex};

use model::values::id_set::CpuId;
use model::values::placement::{MemoryPolicy, Placement};
use model::values::trial::{Grade, Role, Trial, TrialId, TrialStatus, Verdict, judge};
use model::values::workload::Parameters;

use super::super::tests::{WORK, has, is_gone, launch, one, sessions, sh, text, two_cpus};
use super::super::{affinity, run};
use super::*;
use crate::proc::Proc;

const PORT: &str = "TEST_PORT_OF_A_SERVER";

fn server(launch: SpawnSpec, ready: Readiness) -> ServerCommand {
    ServerCommand { launch, ready, stop_timeout: Nanos(5_000_000_000), measured: CpuSet::new(), on_wait: |_| () }
}

fn line(wanted: &str) -> Readiness {
    Readiness::Line(Regex::new(wanted).unwrap())
}

fn with<T>(
    server: &ServerCommand,
    meanwhile: impl FnOnce(&AtomicBool) -> T,
) -> Result<(T, ProcessResult), ServerError> {
    with_server(server, &AtomicBool::new(false), meanwhile)
}

fn fails(server: &ServerCommand) -> String {
    with(server, |_| panic!("the server is not ready")).unwrap_err().to_string()
}

fn short(mut launch: SpawnSpec) -> SpawnSpec {
    launch.time_limit = Nanos(200_000_000);
    launch
}

/// A loopback port on which no process listens.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// This program, started as a server on a port.
fn listener(port: u16) -> SpawnSpec {
    let own = std::env::current_exe().unwrap();
    let mut launch = launch(&[own.to_str().unwrap(), "--exact", "child::server::tests::listening_server"]);
    launch.environment = vec![(PORT.into(), port.to_string().into())];
    launch
}

/// Not a separate test: the server that other tests start.
#[test]
fn listening_server() {
    if let Ok(port) = std::env::var(PORT) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse().unwrap())).unwrap();
        let _open: Vec<_> = listener.incoming().collect();
    }
}

fn fifo(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn server_is_ready_when_its_port_accepts() {
    let port = free_port();
    let server = server(listener(port), Readiness::Port(port));
    let (answered, finished) = with(&server, |_| connect(port).is_some()).unwrap();
    assert!(answered);
    assert_eq!(finished.exit, Exit::Stopped);
    assert!(connect(port).is_none(), "the server still runs");
}

#[test]
fn port_of_another_process_returns_an_error() {
    let theirs = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = theirs.local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let mut launch = sh("touch started; exec sleep 1000");
    launch.directory = Some(directory.path().into());
    let error = fails(&server(launch, Readiness::Port(port)));
    assert!(error.contains("another process already accepts") && error.contains(&port.to_string()), "{error}");
    assert!(!directory.path().join("started").exists(), "the server was started");
}

#[test]
fn line_on_either_output_makes_ready() {
    for script in ["echo begins; echo now ready; exec sleep 1000", "echo now ready >&2; exec sleep 1000"] {
        let ((), finished) = with(&server(sh(script), line("^now r[a-z]+$")), |_| ()).unwrap();
        assert_eq!(finished.exit, Exit::Stopped, "{script}");
    }
}

#[test]
fn file_makes_ready_unless_it_is_stale() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let in_directory = |script: &str| {
        let mut launch = sh(script);
        launch.directory = Some(directory.path().into());
        launch
    };
    let ready = Readiness::File(path.clone());
    let none = fails(&server(short(in_directory("exec sleep 1000")), ready.clone()));
    assert!(none.contains("does not exist") && none.contains("after 200ms"), "{none}");
    let writes = server(in_directory("echo one > socket; exec sleep 1000"), ready.clone());
    assert!(with(&writes, |_| path.exists()).unwrap().0);
    let stale = fails(&server(short(in_directory("exec sleep 1000")), ready.clone()));
    assert!(stale.contains("has not changed since"), "{stale}");
    let recreated = server(in_directory("echo two more > new; mv new socket; exec sleep 1000"), ready);
    assert_eq!(with(&recreated, |_| std::fs::read_to_string(&path).unwrap()).unwrap().0, "two more\n");
}

#[test]
fn without_condition_a_started_server_is_ready() {
    let ((), finished) = with(&server(sh("exec sleep 1000"), Readiness::Started), |_| ()).unwrap();
    assert_eq!((finished.exit, finished.evidence.mask_at_start), (Exit::Stopped, Some(remember_original_mask())));
}

fn command(argv: &[&str]) -> Readiness {
    Readiness::Command(argv.iter().map(|word| (*word).to_string()).collect())
}

#[test]
fn server_is_ready_when_the_command_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state");
    let check = command(&["grep", "-q", "up", file.to_str().unwrap()]);
    let serves = sh(&format!("echo starting >{0}; sleep 0.2; echo up >{0}; exec sleep 1000", file.display()));
    let (text, _) = with(&server(serves.clone(), check.clone()), |_| std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(text, "up\n");

    let error = with(&server(serves, check.clone()), |_| ()).unwrap_err();
    assert!(matches!(error, ServerError::ReadyBeforeStart(_)) && error.hint().is_some(), "{error}");
    std::fs::write(&file, "down").unwrap();
    let error = fails(&server(short(sh("exec sleep 1000")), check));
    assert!(error.contains("the readiness command 'grep -q up ") && error.contains("does not succeed"), "{error}");
    let error = fails(&server(sh("exec sleep 1000"), command(&["no-such-check"])));
    assert_eq!(error, "readiness command: cannot run 'no-such-check': no such program");
}

#[test]
fn port_that_closes_connections_at_once_is_not_ready() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let closing = std::thread::spawn(move || drop(listener.accept().unwrap()));
    assert!(!stays_open(&connect(port).unwrap()));
    closing.join().unwrap();

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let stream = connect(listener.local_addr().unwrap().port()).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    assert!(stays_open(&stream), "it waits for a request");
    std::io::Write::write_all(&mut accepted, b"220 ready").unwrap();
    assert!(stays_open(&stream), "it greets");
}

#[test]
fn stop_timeout_is_the_time_before_sigkill() {
    let stubborn = sh("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    let stopped_after = |stop_timeout| {
        let server = ServerCommand { stop_timeout, ..server(stubborn.clone(), line("ready")) };
        let mut stopping = Instant::now();
        with(&server, |_| stopping = Instant::now()).unwrap();
        stopping.elapsed()
    };
    let (early, late) = (stopped_after(Nanos(100_000_000)), stopped_after(Nanos(1_500_000_000)));
    // Without their own limits, both would take equally long.
    assert!(late >= Duration::from_millis(1500) && early + Duration::from_millis(700) < late, "{early:?}, {late:?}");
}

#[test]
fn timeout_reports_the_missing_condition_and_the_last_output() {
    let error = fails(&server(short(sh("echo no disk >&2; echo ready soon; exec sleep 1000")), line("^ready$")));
    assert!(error.starts_with("server: not ready after 200ms: no line of its output matches '^ready$'"), "{error}");
    assert!(error.ends_with(", last output: no disk"), "{error}");
    let error = fails(&server(short(sh("echo starting; echo no disk; exec sleep 1000")), line("^ready$")));
    assert!(error.ends_with(", last output: no disk"), "stdout counts if stderr is empty: {error}");
}

#[test]
fn server_that_ends_early_reports_its_stderr() {
    for ready in [line("ready"), Readiness::Port(free_port()), Readiness::File("/no/such/file".into())] {
        let error = fails(&server(sh("echo no disk >&2; exit 3"), ready));
        assert_eq!(error, "server: ended before it was ready with status 3: no disk");
    }
    let error = with(&server(sh("exit 0"), line("ready")), |_| ()).unwrap_err();
    assert!(error.hint().unwrap().contains("no process in the background"), "{error:?}");
}

#[test]
fn missing_server_program_returns_an_error() {
    for ready in [Readiness::Started, line("x")] {
        let error = fails(&server(launch(&["no-such-program"]), ready));
        assert_eq!(error, "server: cannot run 'no-such-program': no such program");
    }
}

#[test]
fn server_that_ends_during_the_trial_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = fifo(&directory);
    let mut dies = sh("echo ready; read word < \"$FIFO\"; echo $word >&2; exit 4");
    let mut command = sh("echo overload > \"$FIFO\"; exec sleep 1000");
    dies.environment = vec![("FIFO".into(), fifo.into())];
    command.environment = dies.environment.clone();
    let mut exit = None;
    let error = with(&server(dies, line("ready")), |ended| exit = Some(run(&command, &[ended]).unwrap().exit));
    let error = error.unwrap_err();
    assert_eq!(exit, Some(Exit::Stopped), "the command was not stopped at once");
    assert_eq!(error.to_string(), "server: ended before the end of the trial with status 4: overload");
}

#[test]
fn stubborn_server_is_killed_with_all_its_children() {
    for stubborn in ["", "trap '' TERM; "] {
        let inner = format!("{stubborn}sleep 1000 & echo $!; echo $$; echo ready; wait");
        let script = format!("{stubborn}sleep 1000 & echo $!; echo $$; sh -c \"$INNER\" & wait");
        let mut launch = sh(&script);
        launch.environment = vec![("INNER".into(), inner.into())];
        let ((), finished) = with(&server(launch, line("ready")), |_| ()).unwrap();
        let output = text(&finished.stdout);
        let pids: Vec<&str> = output.lines().filter(|line| *line != "ready").collect();
        assert_eq!(pids.len(), 4, "{output}");
        for pid in pids {
            assert!(is_gone(pid), "process {pid} of {script} still runs");
        }
    }
}

#[test]
fn server_may_write_output_after_sigterm() {
    let script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let ((), finished) = with(&server(sh(script), line("ready")), |_| ()).unwrap();
    assert_eq!((text(&finished.stdout).as_str(), finished.exit), ("ready\nbye\n", Exit::Stopped));
}

#[test]
fn stop_flag_ends_the_wait_and_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = fifo(&directory);
    let mut waits = sh("echo $$ > \"$FIFO\"; exec sleep 1000");
    waits.environment = vec![("FIFO".into(), fifo.clone().into())];
    let stop = AtomicBool::new(false);
    let (error, pid) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let pid = std::fs::read_to_string(&fifo).unwrap();
            stop.store(true, Ordering::Relaxed);
            pid
        });
        let error = with_server(&server(waits, line("never")), &stop, |_| ()).unwrap_err();
        (error, reading.join().unwrap())
    });
    assert_eq!(error, ServerError::Stopped);
    assert!(is_gone(&pid), "process {pid} still runs");
}

#[test]
fn panic_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pid");
    let mut launch = sh("echo $$ > pid; echo ready; exec sleep 1000");
    launch.directory = Some(directory.path().into());
    let server = server(launch, line("ready"));
    let result = catch_unwind(AssertUnwindSafe(|| with(&server, |_| panic!("on purpose"))));
    assert!(result.is_err() && is_gone(&std::fs::read_to_string(path).unwrap()));
}

/// A server that daemonises: a process in a new session writes its PID, then its parent ends with this status.
fn daemon(directory: &tempfile::TempDir, script: &str, status: u8) -> (ServerCommand, PathBuf) {
    let mut launch = sh(&format!("setsid sh -c \"$DAEMON\" & until [ -s pid ]; do sleep 0.01; done; exit {status}"));
    launch.environment = vec![("DAEMON".into(), format!("{script}; echo $$ >new; mv new pid; exec sleep 1000").into())];
    launch.directory = Some(directory.path().into());
    let pid = directory.path().join("pid");
    (server(launch, Readiness::File(pid.clone())), pid)
}

fn is_process_gone(path: &Path) -> bool {
    is_gone(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn daemon_is_monitored_and_stopped() {
    let Some((_, cpu)) = two_cpus() else { return };
    if !has("setsid") {
        return;
    }
    let _sessions = sessions();
    let directory = tempfile::tempdir().unwrap();
    let (mut daemon, pid) = daemon(&directory, ":", 0);
    daemon.launch.cpus = one(cpu);
    let (mask, finished) = with(&daemon, |_| {
        // Until the first process has ended, it is not its orphan.
        let pid: u32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        while Proc::live().thread_stat(pid, pid).unwrap().parent != std::process::id() {
            std::thread::yield_now();
        }
        affinity::mask_of(pid).unwrap()
    })
    .unwrap();
    assert_eq!(mask, one(cpu));
    assert_eq!(finished.exit, Exit::Stopped);
    assert!(is_process_gone(&pid), "the daemon still runs");
}

#[test]
fn stubborn_daemon_is_killed() {
    if !has("setsid") {
        return;
    }
    let _sessions = sessions();
    let directory = tempfile::tempdir().unwrap();
    let (daemon, pid) = daemon(&directory, "trap '' TERM", 0);
    let daemon = ServerCommand { stop_timeout: Nanos(100_000_000), ..daemon };
    let ((), finished) = with(&daemon, |_| ()).unwrap();
    assert_eq!(finished.exit, Exit::Stopped);
    assert!(is_process_gone(&pid), "the daemon still runs");
}

/// As on a machine without cgroup version 2.
#[test]
fn daemon_without_a_cgroup_is_an_adopted_orphan() {
    if !has("setsid") {
        return;
    }
    let _sessions = sessions();
    let directory = tempfile::tempdir().unwrap();
    let (mut daemon, pid) = daemon(&directory, ":", 0);
    // A cgroup with a DRAM limit replaces the one that follows descendants; this file is none.
    daemon.launch.entrance = Some(Arc::new(File::options().write(true).open("/dev/null").unwrap()));
    let ((), finished) = with(&daemon, |_| ()).unwrap();
    assert_eq!(finished.exit, Exit::Stopped);
    assert!(is_process_gone(&pid), "the daemon still runs");
}

#[test]
fn daemon_that_ends_during_the_trial_ends_it() {
    if !has("setsid") {
        return;
    }
    let _sessions = sessions();
    let directory = tempfile::tempdir().unwrap();
    let (daemon, pid) = daemon(&directory, ":", 0);
    let error = with(&daemon, |ended| {
        let kill = sh(&format!("kill -9 $(cat {}); exec sleep 1000", pid.display()));
        assert_eq!(run(&kill, &[ended]).unwrap().exit, Exit::Stopped, "the command was not stopped");
    });
    assert_eq!(error.unwrap_err().to_string(), "server: ended before the end of the trial with status 0");
}

#[test]
fn failed_start_of_a_daemon_leaves_no_process() {
    if !has("setsid") {
        return;
    }
    let _sessions = sessions();
    let directory = tempfile::tempdir().unwrap();
    let (mut daemon, pid) = daemon(&directory, ":", 3);
    daemon.ready = line("never");
    assert_eq!(fails(&daemon), "server: ended before it was ready with status 3");
    assert!(is_process_gone(&pid), "the daemon still runs");
}

#[test]
fn long_wait_names_what_is_awaited() {
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut server = server(sh("exec sleep 1000"), line("up"));
    server.launch.time_limit = Nanos(SILENT_MAX.as_nanos() as u64 + 500_000_000);
    server.on_wait = |line| LINES.lock().unwrap().push(line.into());
    fails(&server);
    let expected = "waiting for a line of the server's output that matches 'up', at most 2.5s";
    assert_eq!(*LINES.lock().unwrap(), [expected]);
}

/// The verdict on a trial of two commands: the measured one on the first CPU, the server on the second.
fn verdict(first: CpuId, second: CpuId, command: ProcessResult, server: ProcessResult) -> Verdict {
    let placement = Placement { bindings: vec![first], server_cpus: one(second), ..Placement::kernel(1) };
    let trial = Trial {
        id: TrialId("t".into()),
        cell: 0,
        workload: "command".into(),
        parameters: Parameters::default(),
        placement,
        role: Role::Measured,
        block: 0,
        attempt: 0,
        seed: 1,
        time_limit: Nanos(60_000_000_000),
    };
    let mut evidence = command.evidence;
    evidence.second = Some(Box::new(server.evidence));
    judge(&trial, &TrialStatus::Completed, &evidence)
}

/// Runs a command on one CPU while a server runs on the other.
fn two_commands(first: CpuId, second: CpuId, script: &str) -> (ProcessResult, ProcessResult, CpuSet) {
    // Long enough for three samples, which take at most a second, even if the monitor has to wait for a CPU.
    let (mut command, mut serves) = (sh(&[WORK; 3].join("; ")), sh(script));
    (command.cpus, serves.cpus) = (one(first), one(second));
    let server = ServerCommand { measured: one(first), ..server(serves, line("ready")) };
    let meanwhile = |ended: &AtomicBool| (run(&command, &[ended]).unwrap(), affinity::mask_of(0).unwrap());
    let ((command, watcher), server) = with(&server, meanwhile).unwrap();
    (command, server, watcher)
}

#[test]
fn placements_of_both_commands_are_verified() {
    let Some((a, b)) = two_cpus() else { return };
    let home = affinity::mask_of(0).unwrap();
    for (first, second) in [(a, b), (b, a)] {
        let script = "grep Cpus_allowed_list /proc/self/status; echo ready; while :; do :; done";
        let (command, server, watcher) = two_commands(first, second, script);
        assert!(!watcher.contains(first), "the monitor runs on the measured command's CPUs: {watcher}");
        for (finished, cpu) in [(&command, first), (&server, second)] {
            let evidence = &finished.evidence;
            assert_eq!(evidence.mask_at_start, Some(one(cpu)));
            assert_eq!(evidence.mask_at_end, Some(one(cpu)));
            assert_eq!(evidence.cpus_seen, one(cpu));
            assert!(evidence.polls >= 3 && evidence.cpu_time > Nanos(0), "{evidence:?}");
        }
        assert!(text(&server.stdout).contains(&format!("\t{second}\n")), "{}", text(&server.stdout));
        let verdict = verdict(first, second, command, server);
        assert_ne!(verdict.grade, Grade::Invalid, "{verdict:?}");
    }
    assert_eq!(affinity::mask_of(0).unwrap(), home, "the affinity is restored");
}

#[test]
fn server_that_changes_its_affinity_is_detected() {
    let Some((a, b)) = two_cpus() else { return };
    if !has("taskset") {
        return;
    }
    let (command, server, _) = two_commands(a, b, &format!("taskset -cp {a} $$; echo ready; while :; do :; done"));
    let verdict = verdict(a, b, command, server);
    assert_eq!(verdict.grade, Grade::Invalid);
    let expected =
        format!("the server had the affinity {}, but was pinned to {b}", [a, b].into_iter().collect::<CpuSet>());
    assert!(
        verdict.reasons.iter().any(|why| *why == expected || why.contains(&format!("the server ran on CPUs {a}"))),
        "{verdict:?}"
    );
}

#[test]
fn memory_policy_applies_to_the_server() {
    let mut serves = sh(&format!("{WORK}; echo ready; exec sleep 1000"));
    serves.memory = MemoryPolicy::Bind(model::values::id_set::NodeSet::parse_list("0").unwrap());
    match with(&server(serves, line("ready")), |_| ()) {
        Err(ServerError::Launch(LaunchError::Refused(refusal)))
            if matches!(refusal.errno, libc::EPERM | libc::ENOSYS) =>
        {
            println!("skipped: memory_policy_applies_to_the_server: {refusal}");
        }
        finished => {
            let evidence = finished.unwrap().1.evidence;
            assert_eq!(evidence.memory_policy.as_deref(), Some("bind:0"));
            assert_eq!(evidence.pages.keys().map(|node| node.0).collect::<Vec<_>>(), [0]);
        }
    }
}
