//! Trials of the workload `command` with real processes: order and placement of its commands, reports of failures, and
//! clean-up. Readiness probes are tested in `machine`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::executor::Executor;
use lab::real::{FarConfig, RealExecutor};
use machine::child::remember_original_mask;
use machine::undo::SettingsRoot;
use model::values::id_set::{CpuId, CpuSet};
use model::values::placement::Placement;
use model::values::trial::{Grade, Role, Trial, TrialId, TrialOutcome, TrialStatus, judge};
use model::values::units::Nanos;
use serde_json::json;

/// Longer than any test takes; it keeps a defect from blocking the suite.
const LIMIT: Nanos = Nanos(60_000_000_000);
const SHORT: Nanos = Nanos(300_000_000);

/// A server that logs its start and its end on SIGTERM.
const SERVER: &str = "trap 'echo stopped >> log; exit 0' TERM; echo server >> log; echo ready; \
                      while :; do sleep 1000 & wait; done";

/// The scratch directory in which the commands of a trial run.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a scratch directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A shell command as the JSON array that parameters contain.
    fn sh(&self, script: &str) -> String {
        let dir = self.0.path().display();
        json!(["sh", "-c", format!("cd {dir}; {script}")]).to_string()
    }

    fn fifo(&self) -> PathBuf {
        let path = self.path("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo exists").success());
        path
    }

    /// The lines that commands appended to the file `log`, joined by spaces.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().collect::<Vec<_>>().join(" ")
    }
}

fn trial(parameters: &[(&str, &str)]) -> Trial {
    let spec = workloads::specs().into_iter().find(|spec| spec.name == "command").expect("it is registered");
    let given = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let parameters = spec.resolve(&given, None).expect("valid parameters");
    let workload = workloads::find("command").expect("it is registered");
    (workload.check)(&parameters).expect("compatible parameters");
    Trial {
        id: TrialId("t".into()),
        cell: 0,
        workload: "command".into(),
        parameters,
        placement: Placement::kernel(3),
        role: Role::Measured,
        block: 0,
        attempt: 0,
        seed: 1,
        time_limit: LIMIT,
    }
}

fn run_until(trial: &Trial, stop: &Arc<AtomicBool>) -> Option<TrialOutcome> {
    let site = SettingsRoot { root: "/".into(), state: "/var/lib/nearfar".into() };
    let far = FarConfig { directory: "/var/tmp".into(), site };
    RealExecutor::new("/no/such/worker".into(), stop.clone(), trial.time_limit, None, far).run(0, trial)
}

fn run(trial: &Trial) -> TrialOutcome {
    run_until(trial, &Arc::default()).expect("not interrupted")
}

fn value(outcome: &TrialOutcome, series: &str) -> f64 {
    let sample = outcome.samples.iter().find(|sample| sample.series == series);
    sample.unwrap_or_else(|| panic!("no {series} in {outcome:?}")).value
}

fn is_gone(pid: &str) -> bool {
    !Path::new("/proc").join(pid.trim()).exists()
}

fn two_cpus(test: &str) -> Option<(CpuId, CpuId)> {
    let allowed = remember_original_mask();
    let mut cpus = allowed.iter();
    let two = cpus.next().zip(cpus.next());
    if two.is_none() {
        println!("skipped: {test}: needs 2 CPUs");
    }
    two
}

#[test]
fn without_server_prepare_and_cleanup_run_around_each_run() {
    let scene = Scene::new();
    let outcome = run(&trial(&[
        ("prepare", &scene.sh("echo prepare {threads} >> log")),
        ("argv", &scene.sh("echo run >> log; grep -c run log")),
        ("metric", "([0-9]+)"),
        ("cleanup", &scene.sh("echo cleanup >> log")),
        ("warmup", "2"),
    ]));
    assert_eq!(outcome.status, TrialStatus::Completed);
    assert_eq!(scene.log(), ["prepare 3 run cleanup"; 3].join(" "));
    assert_eq!(value(&outcome, "value").to_string(), "3", "only the last run is measured");
    assert_eq!(outcome.samples.iter().filter(|sample| sample.series == "wall").count(), 1);
    assert_eq!(outcome.evidence.second, None);
}

#[test]
fn with_server_prepare_and_cleanup_run_once() {
    let scene = Scene::new();
    let outcome = run(&trial(&[
        ("prepare", &scene.sh("echo prepare >> log")),
        ("server", &scene.sh(SERVER)),
        ("ready", "line:^ready$"),
        ("argv", &scene.sh("echo run >> log")),
        ("cleanup", &scene.sh("echo cleanup >> log")),
        ("warmup", "2"),
    ]));
    assert_eq!(outcome.status, TrialStatus::Completed);
    assert_eq!(scene.log(), "prepare server run run run stopped cleanup");
    let server = outcome.evidence.second.expect("the server is monitored too");
    assert!(server.polls > 0 && server.wall > outcome.evidence.wall, "{server:?}");
}

/// Parameters, time limit, expected status, and expected log before the clean-up.
type Failing<'a> = (Vec<(&'a str, &'a str)>, Nanos, TrialStatus, &'a str);

#[test]
fn failure_of_each_command_is_reported_and_cleaned_up() {
    let scene = Scene::new();
    let (fails, sleeps) = (scene.sh("echo why >&2; exit 3"), scene.sh("exec sleep 1000"));
    let (serves, falls) = (scene.sh(SERVER), scene.sh("echo ready; read word < fifo; echo why >&2; exit 3"));
    let (runs, wakes) = (scene.sh("echo run >> log"), scene.sh("echo go > fifo; exec sleep 1000"));
    scene.fifo();
    let line = ("ready", "line:ready");
    let failed = |why: &str| TrialStatus::Failed(why.into());
    let cases: [Failing<'_>; 9] = [
        (vec![("prepare", &fails), ("argv", &runs)], LIMIT, failed("preparing ended with status 3: why"), ""),
        (vec![("prepare", &sleeps), ("argv", &runs)], SHORT, failed("preparing did not end within 300ms"), ""),
        (vec![("argv", &fails)], LIMIT, failed("it ended with status 3: why"), ""),
        (vec![("argv", &fails), ("warmup", "1")], LIMIT, failed("warm-up run: it ended with status 3: why"), ""),
        (vec![("argv", &sleeps)], SHORT, TrialStatus::TimedOut("it exceeded its time limit of 300ms".into()), ""),
        (
            vec![("server", &fails), line, ("argv", &runs)],
            LIMIT,
            failed("server: ended before it was ready with status 3: why"),
            "",
        ),
        (
            vec![("server", &sleeps), ("ready", "file:/no/such/file"), ("argv", &runs)],
            SHORT,
            failed("server: not ready after 300ms: file '/no/such/file' does not exist"),
            "",
        ),
        (
            vec![("server", &falls), line, ("argv", &wakes)],
            LIMIT,
            failed("server: ended before the end of the trial with status 3: why"),
            "",
        ),
        (
            vec![("server", &serves), line, ("argv", &fails)],
            LIMIT,
            failed("it ended with status 3: why"),
            "server stopped ",
        ),
    ];
    let cleanup = scene.sh("echo cleanup >> log");
    for (mut parameters, time_limit, status, before) in cases {
        parameters.push(("cleanup", &cleanup));
        let outcome = run(&Trial { time_limit, ..trial(&parameters) });
        assert_eq!(outcome.status, status);
        assert_eq!((scene.log(), outcome.samples.len()), (format!("{before}cleanup"), 0), "{status:?}");
        std::fs::remove_file(scene.path("log")).expect("the clean-up command writes it");
    }
}

#[test]
fn failed_cleanup_fails_the_trial() {
    let scene = Scene::new();
    let fails = scene.sh("exit 4");
    let outcome = run(&trial(&[("argv", r#"["true"]"#), ("cleanup", &fails)]));
    assert_eq!(outcome.status, TrialStatus::Failed("cleaning up ended with status 4".into()));
    assert!(outcome.evidence.mask_at_start.is_some(), "evidence is kept");
    let both = run(&trial(&[("argv", &scene.sh("exit 3")), ("cleanup", &fails)]));
    assert_eq!(both.status, TrialStatus::Failed("it ended with status 3".into()), "the first failure is reported");
}

#[test]
fn missing_program_makes_the_trial_unavailable() {
    let none = r#"["no-such-program"]"#;
    for name in ["prepare", "server", "argv", "cleanup"] {
        let mut parameters = vec![(name, none)];
        if name != "argv" {
            parameters.push(("argv", r#"["true"]"#));
        }
        let status = run(&trial(&parameters)).status;
        let TrialStatus::Unavailable(why) = &status else { panic!("{name}: {status:?}") };
        assert!(why.contains("cannot run 'no-such-program'") && why.contains("hint: install it"), "{why}");
    }
}

#[test]
fn port_of_another_process_fails_the_trial() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = other.local_addr().expect("bound").port();
    let scene = Scene::new();
    let (server, ready) = (scene.sh("echo server >> log; exec sleep 1000"), format!("port:{port}"));
    let outcome = run(&trial(&[("server", &server), ("ready", &ready), ("argv", &scene.sh("echo run >> log"))]));
    let TrialStatus::Failed(why) = &outcome.status else { panic!("{outcome:?}") };
    assert!(why.contains("another process already accepts connections on port") && why.contains("hint: "), "{why}");
    assert_eq!(scene.log(), "", "no command was started");
}

#[test]
fn shell_openmp_and_json_metric_work_together() {
    let line = r#"echo "{\"rate\": [1, $OMP_NUM_THREADS]}"; exit 7"#;
    let mut parameters = vec![("argv", line), ("shell", "true"), ("openmp", "true"), ("metric-json", "/rate/1")];
    let strict = run(&trial(&parameters));
    assert_eq!(strict.status, TrialStatus::Failed("it ended with status 7".into()));
    parameters.push(("ignore-failure", "true"));
    let outcome = run(&trial(&parameters));
    assert_eq!(outcome.status, TrialStatus::Completed);
    assert_eq!(value(&outcome, "value").to_string(), "3");
    let parts = value(&outcome, "user") + value(&outcome, "system");
    assert!((value(&outcome, "cpu-time") - parts).abs() < 1e-12);
}

#[test]
fn each_command_runs_on_its_own_cpus() {
    let Some((a, b)) = two_cpus("each_command_runs_on_its_own_cpus") else { return };
    let scene = Scene::new();
    let mask = "$(grep Cpus_allowed_list /proc/self/status | cut -f 2)";
    let logs = |name: &str, then: &str| scene.sh(&format!("echo {name} {mask} {{cpus}} >> log; {then}"));
    let mut trial = trial(&[
        ("prepare", &logs("prepare", "")),
        ("server", &logs("server", "echo ready; while :; do :; done")),
        ("ready", "line:ready"),
        ("argv", &logs("run", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")),
        ("cleanup", &logs("cleanup", "")),
    ]);
    trial.placement.bindings = vec![a];
    trial.placement.server_cpus = [b].into_iter().collect();
    let outcome = run(&trial);
    assert_eq!(outcome.status, TrialStatus::Completed);
    let all = remember_original_mask();
    assert_eq!(scene.log(), format!("prepare {all} {a} server {b} {b} run {a} {a} cleanup {all} {a}"));
    let verdict = judge(&trial, &outcome.status, &outcome.evidence);
    assert_ne!(verdict.grade, Grade::Invalid, "{verdict:?}");

    // The same evidence does not verify a placement on other CPUs.
    trial.placement.server_cpus = CpuSet::from_iter([a]);
    let verdict = judge(&trial, &outcome.status, &outcome.evidence);
    let expected = format!("the server ran on CPUs {b}, but was pinned to {a}");
    assert!(verdict.grade == Grade::Invalid && verdict.reasons.contains(&expected), "{verdict:?}");
}

#[test]
fn ctrl_c_ends_all_processes_and_runs_the_cleanup() {
    let stubborn = "trap '' TERM; ";
    let children = "sleep 1000 & echo $! >> pids; echo $$ >> pids; ";
    let signals = "echo go > fifo; ";
    let serves = format!("{stubborn}{children}echo ready; wait");
    let cases = [
        (format!("{children}{signals}wait"), serves.clone(), "true".to_owned()),
        (String::new(), format!("{children}{signals}wait"), "true".to_owned()),
        (String::new(), serves, format!("{stubborn}{children}{signals}wait")),
    ];
    for (prepare, server, command) in cases {
        let scene = Scene::new();
        let fifo = scene.fifo();
        let trial = trial(&[
            ("prepare", &scene.sh(&prepare)),
            ("server", &scene.sh(&server)),
            ("ready", "line:ready"),
            ("argv", &scene.sh(&command)),
            ("cleanup", &scene.sh("echo cleanup >> log")),
        ]);
        let stop = Arc::new(AtomicBool::new(false));
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Opening the FIFO blocks until a command writes to it.
                std::fs::read(&fifo).expect("a command writes to it");
                stop.store(true, Ordering::Relaxed);
            });
            run_until(&trial, &stop)
        });
        assert_eq!(outcome, None);
        assert_eq!(scene.log(), "cleanup");
        let pids = std::fs::read_to_string(scene.path("pids")).expect("the commands write it");
        for pid in pids.lines() {
            assert!(is_gone(pid), "process {pid} still runs after {command}");
        }
    }
}
