//! `nearfar live audit` on real processes, with text and JSON output, and errors of unsuitable subjects.

mod rights;

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::rights::is_root;

fn nearfar(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).args(["live", "audit"]).args(args).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A process that is ended with the test.
struct Running(Child);

impl Running {
    fn start(program: &str, args: &[&str]) -> Self {
        let child = Command::new(program).args(args).stdout(Stdio::null()).stdin(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{program}: {error}")))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
