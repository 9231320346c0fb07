//! `nearfar live` on real processes: audits, and experiments that are interrupted, killed or refused.

mod planted;
mod rights;
mod running;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use model::analysis::live::{LiveEnd, ServiceIdentity};
use model::values::id_set::CpuSet;
use serde_json::Value;

use crate::rights::is_root;
use crate::running::{Running, allowed, signal, wait_for};

fn nearfar(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).args(["live", "audit"]).args(args).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the audit of a process; `None`, with the reason printed, if pages cannot be queried here.
fn audited(test: &str, pid: &str) -> Option<Value> {
    let output = nearfar(&["--pid", pid, "--duration", "400ms", "--format", "json"]);
    let stderr = stderr(&output);
    if stderr.contains("(move_pages)") {
        println!("skipped: {test}: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{stderr}");
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn busy_threads_and_their_cpus_are_shown() {
    // Two processes share one CPU, so that each of them waits for about half of the time.
    let script = "while :; do :; done & while :; do :; done";
    let busy = Running::start("taskset", &["-c", "0", "sh", "-c", script]);
    let Some(audit) = audited("busy_threads_and_their_cpus_are_shown", &busy.pid()) else {
        end_group(&busy);
        return;
    };
    end_group(&busy);
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!(number(&audit["cpu_percent"]) > 20.0 && number(&audit["cpu_percent"]) < 120.0, "{audit:#}");
    let threads = audit["threads"].as_array().expect("a list");
    assert!(threads.iter().all(|kind| kind["allowed"] == "0" && kind["cpus"] == "0"), "{audit:#}");
    let waited: f64 = threads.iter().map(|kind| number(&kind["wait_percent"])).sum();
    assert!(waited > 20.0, "{audit:#}");
    assert_eq!(audit["rights"]["affinity"], true, "it is a process of this user");
}

/// Ends the children of the shell.
fn end_group(shell: &Running) {
    let _ = Command::new("pkill").args(["-KILL", "-P", &shell.pid()]).status();
}

#[test]
fn text_has_one_row_per_kind_of_thread() {
    let sleeping = Running::start("sleep", &["600"]);
    let output = nearfar(&["--pid", &sleeping.pid(), "--duration", "100ms"]);
    if stderr(&output).contains("(move_pages)") {
        println!("skipped: text_has_one_row_per_kind_of_thread: {}", stderr(&output));
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with(&format!("process {} (sleep): ", sleeping.pid())), "{text}");
    assert!(text.lines().any(|line| line.contains(" sleep ") && line.contains("0.0 %")), "{text}");
    assert_eq!(stderr(&output), "", "short observations are not announced");
}

#[test]
fn unsuitable_subjects_have_clear_errors() {
    let mut ended = Command::new("true").spawn().expect("true starts");
    let pid = ended.id().to_string();
    ended.wait().expect("it ends");
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--pid", &pid], 2, "does not exist"),
        (&["--unit", "no-such-unit"], 2, "no cgroup belongs to unit no-such-unit"),
        (&["--pod", "no-such-pod"], 2, "no cgroup belongs to pod no-such-pod"),
        (&["--pid", "1", "--duration", "soon"], 2, "--duration"),
        (&[], 2, "--pid <PID>|--unit <NAME>"),
    ];
    for (args, status, expected) in cases {
        let output = nearfar(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected) && output.stdout.is_empty(), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn process_of_another_user_needs_rights() {
    if !is_root() {
        println!("skipped: process_of_another_user_needs_rights: requires root");
        return;
    }
    let sleeping = Running::start("sleep", &["600"]);
    let output = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["live", "audit", "--pid", &sleeping.pid()])
        .uid(65534)
        .gid(65534)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("run as the user of the process, or as root"), "{}", stderr(&output));
}

/// Returns the last of several CPUs.
fn last_cpu(cpus: &str) -> Option<String> {
    let last = cpus.rsplit([',', '-']).next().unwrap_or_default();
    (last != cpus).then(|| last.to_owned())
}

/// Returns `nearfar live try` of a service that does nothing, with its own state and results.
fn try_command(state: &Path, pid: &str, placement: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["live", "try", "--pid", pid, "--metric", "command:date +%s%N", "--placement", placement]);
    command.env("NEARFAR_STATE", state).env("NEARFAR_STORE", state.join("results.db"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns what a process that has ended printed on stderr.
fn messages(mut process: Child) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut process.stderr.take().expect("a pipe"), &mut text).expect("UTF-8");
    text
}

/// A running `nearfar live try`, with its own state directory.
struct Trying {
    process: Child,
    state: tempfile::TempDir,
    service: Running,
    found: String,
}

impl Trying {
    /// Starts an experiment and waits until the service has another placement; `None` on a machine with one CPU.
    fn start(test: &str) -> Option<Self> {
        let service = Running::start("sleep", &["600"]);
        let (found, state) = (allowed(&service.pid()), tempfile::tempdir().expect("a directory"));
        let Some(last) = last_cpu(&found) else {
            println!("skipped: {test}: it needs two CPUs");
            return None;
        };
        let mut command = try_command(state.path(), &service.pid(), &last);
        let process = command.arg("--html").arg(state.path().join("page.html")).spawn().expect("the program starts");
        let trying = Self { process, state, service, found };
        wait_for("the service is placed", || allowed(&trying.service.pid()) == last);
        Some(trying)
    }

    /// Starts the same experiment again, with more arguments.
    fn again(&self, args: &[&str]) -> Child {
        let last = last_cpu(&self.found).expect("two CPUs");
        let mut command = try_command(self.state.path(), &self.service.pid(), &last);
        command.args(args).spawn().expect("the program starts")
    }

    fn signal(&self, name: &str) {
        signal(&self.process, name);
    }

    fn is_found_again(&self) -> bool {
        allowed(&self.service.pid()) == self.found
    }

    /// Returns the id of the process that restores.
    fn guard(&self) -> String {
        let id = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("its children");
        let is_guard = |pid: &&str| {
            let argv = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            argv.contains("__restore-guard")
        };
        children.split_whitespace().find(is_guard).expect("a guard").to_owned()
    }
}

#[test]
fn interrupted_experiment_restores_the_service() {
    let Some(mut trying) = Trying::start("interrupted_experiment_restores_the_service") else { return };
    trying.signal("-INT");
    let status = trying.process.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(trying.is_found_again());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut trying.process.stdout.take().expect("a pipe"), &mut text).expect("UTF-8");
    assert!(text.contains("no claim: it was interrupted"), "{text}");
    let page = std::fs::read_to_string(trying.state.path().join("page.html")).expect("a page");
    assert!(page.contains("no claim: it was interrupted"), "{page}");
    assert!(!trying.state.path().join("undo.journal").exists());
}

/// Runs another command with the state and the results of an experiment.
fn with_results(state: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("NEARFAR_STATE", state).env("NEARFAR_STORE", state.join("results.db"));
    command.args(args).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the JSON of the only experiment in the results.
fn shown(state: &Path) -> Value {
    serde_json::from_str(&stdout(&with_results(state, &["show", "--format", "json"]))).expect("JSON")
}

fn periods(state: &Path) -> Vec<Value> {
    let output = with_results(state, &["show", "--format", "json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    shown["periods"].as_array().cloned().unwrap_or_default()
}

#[test]
fn killed_experiment_continues_with_the_stored_periods() {
    let name = "killed_experiment_continues_with_the_stored_periods";
    let Some(mut trying) = Trying::start(name) else { return };
    let state = trying.state.path().to_owned();
    wait_for("two periods are stored", || periods(&state).len() >= 2);
    trying.signal("-KILL");
    trying.process.wait().expect("it ends");
    wait_for("the guard restores", || !state.join("undo.journal").exists());
    let before = periods(&state);
    assert_eq!(shown(&state)["answer"]["answer"], "unfinished");

    let mut resumed = trying.again(&[]);
    wait_for("another period is stored", || periods(&state).len() > before.len());
    signal(&resumed, "-INT");
    assert_eq!(resumed.wait().expect("it ends").code(), Some(130));
    let after = periods(&state);
    assert_eq!(after[..before.len()], before[..], "what was measured stays");
    let end =
        |period: &Value| period["at_s"].as_f64().unwrap_or_default() + period["length_s"].as_f64().unwrap_or_default();
    let gap = after[before.len()]["at_s"].as_f64().expect("a time") - end(&before[before.len() - 1]);
    assert!(gap.abs() < 0.5, "the time in which it did not run does not count: {gap} s");
    assert!(messages(resumed).contains("resuming experiment"));
    assert!(trying.is_found_again());

    // A command with another seed asks for another experiment.
    let mut other = trying.again(&["--seed", "2"]);
    wait_for("the service is placed", || !trying.is_found_again());
    signal(&other, "-INT");
    other.wait().expect("it ends");
    assert!(!messages(other).contains("resuming"));
    let list = stdout(&with_results(&state, &["show", "--runs", "--format", "json"]));
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["live"].as_array().map(Vec::len), Some(2), "{list:#}");
}

#[test]
fn stored_experiment_is_shown_reported_and_merged() {
    let dir = tempfile::tempdir().expect("a directory");
    let record = planted::record();
    let (all, at_s) = planted::periods(&record);
    let mut store = store::Store::open(&dir.path().join("results.db")).expect("a new file");
    store.begin_live(&record).expect("a new experiment");
    all.iter().for_each(|period| store.add_live_period(&record.id, period).expect("a new period"));
    store.end_live(&record.id, &LiveEnd { at_s, reason: None }).expect("it ends once");
    drop(store);
    let (id, state) = (record.id.to_string(), dir.path());
    let answer = "unit redis: node:0 changes its rate by +9.9";
    assert!(stdout(&with_results(state, &["show", &id])).contains(answer));
    assert!(stdout(&with_results(state, &["show", "--runs"])).contains("unit redis"));
    let page = stdout(&with_results(state, &["report", "-o", "-"]));
    assert!(page.contains(answer) && page.matches("<circle").count() == all.len() + 2, "{page}");
    for command in ["export", "share"] {
        let file = state.join(command).display().to_string();
        let output = with_results(state, &[command, &id, "--output", &file]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(&format!("which nearfar {command} does not support")), "{}", stderr(&output));
    }
    let other = tempfile::tempdir().expect("a directory");
    let merged = with_results(other.path(), &["import", &state.join("results.db").display().to_string()]);
    assert!(stderr(&merged).contains(&format!("added 1, {} periods", all.len())), "{}", stderr(&merged));
    assert_eq!(shown(other.path()), shown(state));
}

#[test]
fn experiment_that_cannot_continue_has_a_reason() {
    let name = "experiment_that_cannot_continue_has_a_reason";
    let service = Running::start("sleep", &["600"]);
    let found = allowed(&service.pid());
    let Some(last) = last_cpu(&found) else { return println!("skipped: {name}: it needs two CPUs") };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the id of this boot");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", service.pid())).expect("it runs");
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let started = after_name.split_whitespace().nth(19).and_then(|field| field.parse().ok()).expect("its start");
    let here = ServiceIdentity { pid: service.0.id(), started, boot: Some(boot.trim().into()) };
    for (identity, cpus, expected) in [
        (ServiceIdentity { started: 1, ..here.clone() }, found.as_str(), "its process"),
        (ServiceIdentity { boot: Some("other".into()), ..here.clone() }, &found, "this machine was restarted"),
        (here.clone(), &last, "the service may run on"),
    ] {
        let state = tempfile::tempdir().expect("a directory");
        let mut record = planted::record();
        record.request.options = vec!["--pid".into(), service.pid()];
        record.request.metric = "command:date +%s%N".into();
        record.request.placements = vec![last.clone()];
        record.setup.service = identity;
        record.setup.placements[0].cpus = CpuSet::parse_list(cpus).expect("a list");
        let mut store = store::Store::open(&state.path().join("results.db")).expect("a new file");
        store.begin_live(&record).expect("a new experiment");
        drop(store);
        let mut process = try_command(state.path(), &service.pid(), &last).spawn().expect("the program starts");
        wait_for("the service is placed", || allowed(&service.pid()) == last);
        signal(&process, "-INT");
        process.wait().expect("it ends");
        let messages = messages(process);
        let expected = format!("experiment {} was interrupted, but cannot continue: {expected}", record.id);
        assert!(messages.contains(&expected), "{messages}");
    }
}

#[test]
fn experiment_ends_with_its_service() {
    let Some(mut trying) = Trying::start("experiment_ends_with_its_service") else { return };
    trying.service.0.kill().and_then(|()| trying.service.0.wait()).expect("it ends");
    assert_eq!(trying.process.wait().expect("it ends").code(), Some(1));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut trying.process.stdout.take().expect("a pipe"), &mut text).expect("UTF-8");
    assert!(text.contains("no claim: the service has ended"), "{text}");
    assert!(!trying.state.path().join("undo.journal").exists());
}

#[test]
fn killed_experiment_is_restored_by_its_guard() {
    let Some(mut trying) = Trying::start("killed_experiment_is_restored_by_its_guard") else { return };
    trying.signal("-KILL");
    trying.process.wait().expect("it ends");
    wait_for("the guard restores", || !trying.state.path().join("undo.journal").exists());
    assert!(trying.is_found_again());
}

#[test]
fn service_is_restored_after_guard_and_experiment_were_killed() {
    let name = "service_is_restored_after_guard_and_experiment_were_killed";
    let Some(mut trying) = Trying::start(name) else { return };
    let guard = trying.guard();
    // Stopped first, so that it cannot restore the service between the two signals.
    trying.signal("-STOP");
    let killed = Command::new("kill").args(["-KILL", &guard]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    trying.signal("-KILL");
    trying.process.wait().expect("it ends");
    let restore = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        let output = command.arg("restore").args(args).env("NEARFAR_STATE", trying.state.path()).output();
        String::from_utf8_lossy(&output.expect("the program starts").stdout).into_owned()
    };
    let expected = format!("threads of process {}", trying.service.pid());
    if !trying.is_found_again() {
        let planned = restore(&["--dry-run"]);
        assert!(planned.contains(&expected) && planned.contains("all allowed CPUs"), "{planned}");
    }
    let restored = restore(&[]);
    assert!(restored.contains(&expected) && trying.is_found_again(), "{restored}");
}

#[test]
fn unsuitable_experiments_are_refused() {
    let (sleeping, state) = (Running::start("sleep", &["600"]), tempfile::tempdir().expect("a directory"));
    let pid = sleeping.pid();
    let refused = |args: &[&str], expected: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.env("NEARFAR_STATE", state.path()).env("NEARFAR_STORE", state.path().join("results.db"));
        let output = command.args(["live", "try", "--pid", &pid]).args(args).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    };
    let counter = ["--metric", "command:date +%s%N"];
    let with =
        |more: &'static [&'static str]| -> Vec<&str> { counter.into_iter().chain(more.iter().copied()).collect() };
    refused(&["--metric", "requests", "--placement", "0"], "unknown source");
    refused(&["--metric", "command:echo none", "--placement", "0"], "has no number");
    refused(&["--metric", "prom:http://127.0.0.1:1/metrics#a", "--placement", "0"], "http://127.0.0.1:1/metrics");
    refused(&with(&["--placement", "0", "--guard", "p99"]), "a limit is missing");
    refused(&with(&["--placement", "0", "--guard", "command:false<1"]), "--guard 'command:false<1'");
    refused(&with(&["--placement", "0+text:copy"]), "only CPUs, memory and interrupts can be changed");
    refused(&with(&["--placement", "0+irq:0"]), "irq: requires a device: --device NAME");
    refused(&with(&["--placement", "0", "--device", "nothing0"]), "unknown device 'nothing0'");
    refused(&with(&["--placement", "-m 0"]), "it names memory nodes\nhint: to move the memory of the service");
    refused(&with(&["--placement", "0", "--budget", "10s"]), "too short");
    refused(&with(&["--placement", "8191"]), "8191");
    let all = allowed(&pid);
    refused(&[&counter[..], &["--placement", &all]].concat(), "already has this placement");
}

/// A process that maps a file with the name of the library of a Java virtual machine.
#[test]
fn java_process_needs_an_agreement() {
    let state = tempfile::tempdir().expect("a directory");
    let (home, library) = (state.path().join("java"), state.path().join("java/lib/server/libjvm.so"));
    std::fs::create_dir_all(library.parent().expect("a directory")).expect("a directory");
    std::fs::copy("/bin/sleep", &library).expect("a program");
    let risk = |version: &str| {
        std::fs::write(home.join("release"), format!("JAVA_VERSION=\"{version}\"\n")).expect("a file");
        let java = Running::start(library.to_str().expect("UTF-8"), &["600"]);
        let refused = |command: &str, args: &[&str]| {
            let pid = java.pid();
            let args = [&["live", command, "--pid", &pid, "--placement", "8191"], args].concat();
            stderr(&with_results(state.path(), &args))
        };
        let tried = |args: &[&str]| refused("try", &[&["--metric", "command:date +%s%N"], args].concat());
        assert_eq!(tried(&[]).contains("JDK-8351500"), refused("apply", &[]).contains("JDK-8351500"), "{version}");
        assert!(tried(&["--yes"]).contains("8191") && refused("apply", &["--yes"]).contains("8191"));
        tried(&[])
    };
    let refused = risk("17.0.13");
    assert!(refused.contains("a Java virtual machine (17.0.13)") && refused.contains("--yes"), "{refused}");
    assert!(!risk("25.0.3").contains("JDK-8351500"));
}

/// The guard reads a file, which the test changes as soon as the service has another placement.
#[test]
fn violated_guard_restores_the_service_at_once() {
    let name = "violated_guard_restores_the_service_at_once";
    let service = Running::start("sleep", &["600"]);
    let (found, state) = (allowed(&service.pid()), tempfile::tempdir().expect("a directory"));
    let Some(last) = last_cpu(&found) else { return println!("skipped: {name}: it needs two CPUs") };
    let latency = state.path().join("latency");
    let guard = format!("command:cat {}<20ms", latency.display());
    let mut command = try_command(state.path(), &service.pid(), &last);
    // In seconds: the limit is 0.02.
    std::fs::write(&latency, "0.003").expect("a file");
    let process = command.args(["--guard", &guard, "--format", "json"]).spawn().expect("the program starts");
    wait_for("the service is placed", || allowed(&service.pid()) == last);
    std::fs::write(&latency, "0.5").expect("a file");
    wait_for("the service is restored", || allowed(&service.pid()) == found);
    std::fs::write(&latency, "0.003").expect("a file");
    let output = process.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    let trial: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(trial["answer"]["outcome"], "no-alternatives", "{trial:#}");
    let violation = &trial["violations"][0];
    assert_eq!((&violation["arm"], &violation["value"]), (&1.into(), &0.5.into()), "{violation:#}");
    assert!(violation["restored_after_s"].as_f64().is_some_and(|seconds| seconds > 0.0), "{violation:#}");
    assert_eq!(allowed(&service.pid()), found);
}

#[test]
fn guard_that_is_violated_from_the_beginning_ends_the_experiment() {
    let service = Running::start("sleep", &["600"]);
    let (found, state) = (allowed(&service.pid()), tempfile::tempdir().expect("a directory"));
    if !found.contains(['-', ',']) {
        let name = "guard_that_is_violated_from_the_beginning_ends_the_experiment";
        return println!("skipped: {name}: it needs two CPUs");
    }
    let mut command = try_command(state.path(), &service.pid(), "0");
    let output = command.args(["--guard", "command:echo 7>8"]).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(text.contains("under the placement found, guard 'command:echo 7>8' is violated: 7"), "{text}");
    assert_eq!(allowed(&service.pid()), found);
}

/// Sends requests to itself on a port of its network namespace, which it prints.
const SERVER: &str = "\
import fcntl, socket, struct, sys, threading
# SIOCSIFFLAGS: IFF_UP of the loopback interface.
fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 1))
listener = socket.create_server(('127.0.0.1', 0))
def answer():
    connection, _ = listener.accept()
    while connection.recv(1): connection.send(b'!')
threading.Thread(target=answer, daemon=True).start()
client = socket.create_connection(listener.getsockname())
print(listener.getsockname()[1], flush=True)
while True:
    client.send(b'?')
    client.recv(1)
";

#[test]
fn requests_in_another_network_namespace_are_counted() {
    let name = "requests_in_another_network_namespace_are_counted";
    let mut command = Command::new("unshare");
    command.args(["--net", "python3", "-c", SERVER]).stdin(Stdio::null()).stdout(Stdio::piped());
    let Ok(server) = command.spawn() else { return println!("skipped: {name}: no unshare (util-linux)") };
    let mut service = Running(server);
    let mut port = String::new();
    let stdout = service.0.stdout.as_mut().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut port).expect("it prints its port");
    if port.is_empty() {
        return println!("skipped: {name}: no network namespace can be made, or no python3");
    }
    let Some(last) = last_cpu(&allowed(&service.pid())) else { return println!("skipped: {name}: it needs two CPUs") };
    let (pid, metric) = (service.pid(), format!("tcp:{}", port.trim()));
    let counted = |pid: &str| {
        let args = ["live", "try", "--pid", pid, "--metric", &metric, "--placement", &last, "--dry-run"];
        Command::new(env!("CARGO_BIN_EXE_nearfar")).args(args).output().expect("the program starts")
    };
    let output = counted(&pid);
    assert!(output.status.success(), "{}", stderr(&output));
    let other = Running::start("sleep", &["600"]);
    assert!(stderr(&counted(&other.pid())).contains("no service listens on port"), "the port is only there");
}

#[test]
fn dry_run_lists_the_system_calls_and_changes_nothing() {
    let sleeping = Running::start("sleep", &["600"]);
    let (pid, found) = (sleeping.pid(), allowed(&sleeping.pid()));
    if !found.contains(['-', ',']) {
        return println!("skipped: dry_run_lists_the_system_calls_and_changes_nothing: it needs two CPUs");
    }
    let args = ["live", "try", "--pid", &pid, "--metric", "command:date +%s%N", "--placement", "0", "--dry-run"];
    let output = Command::new(env!("CARGO_BIN_EXE_nearfar")).args(args).output().expect("the program starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("sched_setaffinity({pid})")) && text.contains("all allowed CPUs"), "{text}");
    assert_eq!(allowed(&pid), found);
}
