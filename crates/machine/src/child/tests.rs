//! Real processes on this machine: placement, limits, evidence, and no process left behind.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::values::id_set::{CpuId, NodeSet};
use model::values::placement::Placement;
use model::values::trial::{Grade, Role, Trial, TrialId, TrialStatus, Verdict, judge};
use model::values::workload::Parameters;

use super::*;

/// Longer than any test takes; it keeps a defect from blocking the suite.
const LIMIT: Nanos = Nanos(60_000_000_000);

/// About a third of a second of CPU time, in plain sh.
pub(super) const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

pub(super) fn launch(argv: &[&str]) -> SpawnSpec {
    SpawnSpec { time_limit: LIMIT, ..SpawnSpec::new(argv, Bytes(1 << 20)) }
}

pub(super) fn sh(script: &str) -> SpawnSpec {
    launch(&["sh", "-c", script])
}

fn run(launch: &SpawnSpec) -> Result<ProcessResult, LaunchError> {
    super::run(launch, &[])
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(super) fn one(cpu: CpuId) -> CpuSet {
    [cpu].into_iter().collect()
}

/// Two CPUs that this process may use; `None`, after printing a reason, if there are fewer.
pub(super) fn two_cpus() -> Option<(CpuId, CpuId)> {
    let allowed = remember_original_mask();
    let mut cpus = allowed.iter();
    let two = cpus.next().zip(cpus.next());
    if two.is_none() {
        println!("skipped: needs 2 CPUs");
    }
    two
}

pub(super) fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        println!("skipped: needs {program}");
    }
    there
}

/// Held by tests whose processes leave the session: without a cgroup, a daemon is recognised by that.
pub(super) fn sessions() -> MutexGuard<'static, ()> {
    static SESSIONS: Mutex<()> = Mutex::new(());
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn verdict(seats: &[CpuId], memory: MemoryPolicy, finished: &ProcessResult) -> Verdict {
    let placement = Placement { bindings: seats.to_vec(), memory, ..Placement::kernel(1) };
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
        time_limit: LIMIT,
    };
    judge(&trial, &TrialStatus::Completed, &finished.evidence)
}

pub(super) fn is_gone(pid: &str) -> bool {
    !std::path::Path::new(&format!("/proc/{}", pid.trim())).exists()
}

#[test]
fn command_gets_its_input_environment_and_directory() {
    let mut launch = sh("cat; printf '%s %s' \"$WORD\" \"$(pwd)\"; exit 3");
    launch.stdin = vec![b'x'; 200_000];
    launch.environment = vec![("WORD".into(), "here".into())];
    launch.directory = Some("/".into());
    let finished = run(&launch).unwrap();
    assert_eq!(finished.exit, Exit::Code(3));
    let (input, rest) = finished.stdout.split_at(200_000);
    assert_eq!((input, text(rest)), (&launch.stdin[..], "here /".into()));
    assert_eq!(finished.stdout_dropped, Bytes(0));
    assert!(finished.max_rss > Bytes(100_000) && finished.evidence.wall > Nanos(0));
    let none = run(&super::tests::launch(&["cat"])).unwrap();
    assert_eq!((none.exit, none.stdout.len()), (Exit::Code(0), 0), "without input, reading ends at once");
}

#[test]
fn affinity_is_verified_before_the_first_instruction() {
    let Some((a, b)) = two_cpus() else { return };
    for cpu in [a, b] {
        let mut launch = sh("grep Cpus_allowed_list /proc/self/status");
        launch.cpus = one(cpu);
        let finished = run(&launch).unwrap();
        assert_eq!(finished.evidence.mask_at_start, Some(one(cpu)));
        assert_eq!(finished.evidence.mask_at_end, Some(one(cpu)));
        assert_eq!(finished.evidence.cpus_seen, one(cpu));
        assert!(finished.evidence.polls >= 1);
        assert_eq!(text(&finished.stdout).split_whitespace().last(), Some(cpu.to_string().as_str()));
        let verdict = verdict(&[cpu], MemoryPolicy::Kernel, &finished);
        assert_ne!(verdict.grade, Grade::Invalid, "{verdict:?}");
    }
}

#[test]
fn unbound_child_gets_the_original_mask() {
    let Some((a, b)) = two_cpus() else { return };
    let original = remember_original_mask();
    std::thread::spawn(move || {
        affinity::pin_to(a).unwrap();
        let unbound = run(&sh("true")).unwrap();
        assert_eq!(unbound.evidence.mask_at_start, Some(original.clone()));
        // On the CPU of the trial there is no space for the monitor.
        let mut launch = sh("grep Cpus_allowed_list /proc/$PPID/task/$WATCHER/status");
        launch.environment = vec![("WATCHER".into(), rustix::thread::gettid().as_raw_nonzero().to_string().into())];
        launch.cpus = one(a);
        let seated = run(&launch).unwrap();
        let watcher = text(&seated.stdout).split_whitespace().last().map(CpuSet::parse_list).unwrap().unwrap();
        assert_eq!(watcher, original.difference(&one(a)));
        assert!(watcher.contains(b));
        assert_eq!(affinity::mask_of(0).unwrap(), one(a), "the affinity is restored");
    })
    .join()
    .unwrap();
}

#[test]
fn child_that_changes_its_affinity_is_detected() {
    let Some((a, b)) = two_cpus() else { return };
    if !has("taskset") {
        return;
    }
    let mut launch = sh(&format!("taskset -cp {a} $$ && {WORK}"));
    launch.cpus = one(b);
    let finished = run(&launch).unwrap();
    assert_eq!(finished.evidence.mask_at_start, Some(one(b)), "it started on its CPU");
    assert!(finished.evidence.cpus_seen.contains(a), "{:?}", finished.evidence);
    let verdict = verdict(&[b], MemoryPolicy::Kernel, &finished);
    assert_eq!(verdict.grade, Grade::Invalid);
    assert!(verdict.reasons.iter().any(|why| why.contains("had the affinity")), "{verdict:?}");
    assert!(verdict.reasons.iter().any(|why| why.contains("it ran on CPUs")), "{verdict:?}");
}

#[test]
fn grandchild_that_changes_its_affinity_is_detected() {
    let Some((a, b)) = two_cpus() else { return };
    if !has("taskset") {
        return;
    }
    let mut launch = sh(&format!("taskset -c {a},{b} sh -c '{WORK}'; true"));
    launch.cpus = one(b);
    let finished = run(&launch).unwrap();
    assert_eq!(finished.evidence.mask_at_end, Some([a, b].into_iter().collect()));
    assert_eq!(verdict(&[b], MemoryPolicy::Kernel, &finished).grade, Grade::Invalid);
}

#[test]
fn foreign_load_on_the_cpu_is_detected() {
    let Some((_, cpu)) = two_cpus() else { return };
    let done = AtomicBool::new(false);
    let finished = std::thread::scope(|scope| {
        let (ready, wait) = mpsc::channel();
        let done = &done;
        scope.spawn(move || {
            affinity::pin_to(cpu).unwrap();
            ready.send(()).unwrap();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        wait.recv().unwrap();
        let mut launch = sh(WORK);
        launch.cpus = one(cpu);
        let finished = run(&launch);
        done.store(true, Ordering::Relaxed);
        finished.unwrap()
    });
    let verdict = verdict(&[cpu], MemoryPolicy::Kernel, &finished);
    assert_eq!(verdict.grade, Grade::Suspect, "{:?}", finished.evidence);
    // A busy hypervisor adds another reason.
    assert!(verdict.reasons.iter().any(|reason| reason.contains("other programs")), "{verdict:?}");
}

#[test]
fn threads_switches_and_migrations_are_counted() {
    let finished = run(&sh(&format!("({WORK}) & ({WORK}) & wait"))).unwrap();
    let evidence = finished.evidence;
    assert!(evidence.threads_seen >= 3, "{evidence:?}");
    assert!(evidence.polls >= 3 && evidence.switches_voluntary > Some(0), "{evidence:?}");
    assert!(evidence.faults_minor > Some(0) && evidence.swapped.is_some(), "{evidence:?}");
    assert!(evidence.migrations.is_some() || evidence.unavailable.contains_key("migrations"), "{evidence:?}");
    assert!(evidence.cpu_time > Nanos(0) && evidence.wall > Nanos(0));
    for (field, why) in &evidence.unavailable {
        assert!(why.len() > 10, "{field}: {why}");
    }
}

#[test]
fn migrations_are_counted_exactly_on_request() {
    let Some((a, b)) = two_cpus() else { return };
    if !has("taskset") {
        return;
    }
    // Each iteration moves the shell to the other CPU and back.
    let mut launch = sh(&format!("for i in 1 2 3 4 5; do taskset -cp {b} $$; taskset -cp {a} $$; done"));
    launch.cpus = one(a);
    launch.migrations = Migrations::Counted;
    let evidence = run(&launch).unwrap().evidence;
    match evidence.unavailable.get("migrations") {
        Some(why) => println!("skipped: {why}"),
        None => assert!(evidence.migrations >= Some(10), "{evidence:?}"),
    }
}

#[test]
fn memory_policy_is_verified_by_policy_and_pages() {
    let mut launch = sh(WORK);
    launch.memory = MemoryPolicy::Bind(NodeSet::parse_list("0").unwrap());
    let finished = match run(&launch) {
        Err(LaunchError::Refused(refusal)) if matches!(refusal.errno, libc::EPERM | libc::ENOSYS) => {
            println!("skipped: {refusal}");
            return;
        }
        finished => finished.unwrap(),
    };
    assert_eq!(finished.evidence.memory_policy.as_deref(), Some("bind:0"));
    assert_eq!(finished.evidence.pages.keys().map(|node| node.0).collect::<Vec<_>>(), [0]);
    assert!(!finished.evidence.file_pages.is_empty(), "sh and its libraries are file pages");
    // Other load on this machine may make it suspect.
    let verdict = verdict(&[], launch.memory.clone(), &finished);
    assert_ne!(verdict.grade, Grade::Invalid, "{verdict:?}");
    let plain = run(&sh("true")).unwrap();
    assert_eq!(plain.evidence.memory_policy.as_deref(), Some("default"), "the policy applies to the child only");
}

#[test]
fn time_limit_ends_the_whole_process_group() {
    for stubborn in ["", "trap '' TERM; "] {
        let mut launch = sh(&format!("{stubborn}sleep 1000 & echo $!; sleep 1000; sleep 1000"));
        launch.time_limit = Nanos(200_000_000);
        let finished = run(&launch).unwrap();
        assert_eq!(finished.exit, Exit::TimedOut);
        assert!(is_gone(&text(&finished.stdout)), "the grandchild still runs");
        assert!(finished.evidence.wall < Nanos(20_000_000_000), "{:?}", finished.evidence.wall);
    }
}

#[test]
fn leftover_processes_are_killed_and_reaped() {
    let finished = run(&sh("sleep 1000 & echo $!; exit 0")).unwrap();
    assert_eq!(finished.exit, Exit::Code(0));
    assert!(is_gone(&text(&finished.stdout)));
}

#[test]
fn stop_flag_ends_the_process() {
    let finished = super::run(&launch(&["sleep", "1000"]), &[&AtomicBool::new(false), &AtomicBool::new(true)]).unwrap();
    assert_eq!(finished.exit, Exit::Stopped);
}

#[test]
fn output_is_limited() {
    let mut launch = launch(&["yes"]);
    launch.time_limit = Nanos(300_000_000);
    launch.output_max = Bytes(1000);
    let finished = run(&launch).unwrap();
    assert_eq!(text(&finished.stdout), "y\n".repeat(500));
    assert!(finished.stdout_dropped > Bytes(1 << 20), "the output was not drained: {}", finished.stdout_dropped);
    let loud = run(&sh("seq 1 200000 >&2")).unwrap();
    assert_eq!(loud.exit, Exit::Code(0));
    assert_eq!(loud.stderr.len(), 64 << 10);
    assert!(text(&loud.stderr).ends_with("\n200000\n"), "the end of stderr is kept");
    assert_eq!(loud.stderr_dropped.0 + loud.stderr.len() as u64, 1_288_895);
}

#[test]
fn signal_and_status_are_distinguished() {
    assert_eq!(run(&sh("kill -9 $$")).unwrap().exit, Exit::Signal(9));
    assert_eq!(run(&sh("exit 137")).unwrap().exit, Exit::Code(137));
}

#[test]
fn unusable_program_returns_an_error_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        ("no-such-program".into(), "no such program", "PATH"),
        ("/no/such/program".into(), "no such program", "check the path"),
        ("echo hello".into(), "no such program", "separate words"),
        ("local".into(), "no such program", "./local"),
        (file("local", "#!/bin/sh\n", 0o755) + "/x", "Not a directory", ""),
        (file("orphan", "#!/no/such/interpreter\n", 0o755), "no such program", "interpreter"),
        (file("plain", "#!/bin/sh\n", 0o644), "permission denied", "chmod +x"),
        (directory.path().to_str().unwrap().to_owned(), "permission denied", "directory"),
    ];
    for (program, what, hint) in cases {
        let mut launch = launch(&[&program]);
        launch.directory = Some(directory.path().into());
        let error = run(&launch).unwrap_err();
        assert!(error.to_string().contains(what) && error.to_string().contains(&program), "{program}: {error}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{program}: {:?}", error.hint());
    }
    assert!(matches!(run(&launch(&[])), Err(LaunchError::NotFound { .. })));
}

#[test]
fn missing_cpus_nodes_and_directories_return_errors() {
    let mut nowhere = sh("true");
    nowhere.directory = Some("/no/such/directory".into());
    let mut unseated = sh("true");
    unseated.cpus = CpuSet::parse_list("8191").unwrap();
    let mut beyond = sh("true");
    beyond.cpus = CpuSet::parse_list("60000").unwrap();
    let mut homeless = sh("true");
    homeless.memory = MemoryPolicy::Bind(NodeSet::parse_list("1023").unwrap());
    let cases = [(nowhere, "/no/such/directory"), (unseated, "CPU 8191"), (beyond, "60000"), (homeless, "'bind 1023'")];
    for (launch, named) in cases {
        let error = run(&launch).unwrap_err();
        assert!(matches!(error, LaunchError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
}

/// Not a separate test: the process that [`child_dies_with_its_parent`] kills.
#[test]
fn parent_to_be_killed() {
    if let Some(fifo) = std::env::var_os("TEST_FIFO_OF_A_CHILD") {
        let mut launch = sh("echo $$ > \"$FIFO\"; exec sleep 1000");
        launch.environment = vec![("FIFO".into(), fifo)];
        run(&launch).unwrap();
    }
}

#[test]
fn child_dies_with_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::tests::parent_to_be_killed"])
        .env("TEST_FIFO_OF_A_CHILD", &fifo)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Opened for reading and writing, so that opening does not block; the poll waits for the child's message.
    let mut words = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let mut polled = [rustix::event::PollFd::new(&words, rustix::event::PollFlags::IN)];
    let soon = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut polled, Some(&soon)), Ok(1), "the child has started");
    let mut pid = [0; 20];
    let length = words.read(&mut pid).unwrap();
    let pid: u32 = text(&pid[..length]).trim().parse().unwrap();
    parent.kill().unwrap();
    let ended = match exit::ends_in(pid, Duration::from_secs(30)) {
        // Already reaped by its new parent.
        Err(rustix::io::Errno::SRCH) => true,
        result => result.unwrap(),
    };
    parent.wait().unwrap();
    // Otherwise, the next program that runs a trial would do it.
    crate::trial_cgroup::remove_left_behind();
    assert!(ended, "process {pid} outlived its parent");
}
