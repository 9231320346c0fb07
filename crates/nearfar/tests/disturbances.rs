//! Trials that are disturbed on this machine, and their verdicts. Tests that need several memory nodes or could damage
//! the machine are in tests/guest.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A busy loop of some tenths of a second.
const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

/// Measures a shell script on CPU 0 and returns its trial.
fn trial(dir: &Path, script: &str) -> Value {
    let nearfar = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(dir.join("results.db")).args(args).env_remove("NEARFAR_STORE");
        command.output().expect("the program starts")
    };
    let args = ["measure", "command", "--quiet", "--runs", "1", "-C", "0", "--wait", "--", "sh", "-c", script];
    let measured = nearfar(&args);
    let shown = nearfar(&["show", "--trials", "--format", "json"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    let trials: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!(
            "{error}: {text} {} {}",
            String::from_utf8_lossy(&shown.stderr),
            String::from_utf8_lossy(&measured.stderr)
        )
    });
    // An invalid trial is repeated; any of the attempts will do.
    trials["trials"][0].clone()
}

fn reasons(trial: &Value) -> String {
    trial["reasons"].to_string()
}

/// A process that is killed at the end of the test, also if the test fails.
struct Competitor(Child);

impl Drop for Competitor {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pinned_competitor_makes_a_trial_suspect() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let busy = ["-c", "0", "sh", "-c", "while :; do :; done"];
    let mut competitor = Command::new("taskset");
    let Ok(competitor) = competitor.args(busy).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return println!("skipped: needs taskset");
    };
    let mut competitor = Competitor(competitor);
    let trial = trial(dir.path(), WORK);
    if competitor.0.try_wait().is_ok_and(|ended| ended.is_some()) {
        return println!("skipped: this process may not use CPU 0");
    }
    assert_eq!(trial["verdict"], "suspect", "{trial}");
    assert!(reasons(&trial).contains("other programs"), "{trial}");
}

#[test]
fn affinity_change_during_a_trial_makes_it_invalid() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return println!("skipped: needs 2 CPUs");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let trial = trial(dir.path(), &format!("taskset -cp 1 $$ >&2; {WORK}"));
    assert_eq!(trial["verdict"], "invalid", "{trial}");
}

#[test]
fn undisturbed_trial_is_valid() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let trial = trial(dir.path(), WORK);
    // Other tests run concurrently, so the trial may be suspect because of other programs, but for no other reason.
    let busy =
        trial["verdict"] == "suspect" && ["other programs", "hypervisor"].iter().any(|by| reasons(&trial).contains(by));
    assert!(trial["verdict"] == "valid" || busy, "{trial}");
}

/// `scripts/plant` at its smallest. On a busy machine all trials are suspect, so the reasons are checked.
#[test]
fn planted_stops_and_moves_are_called() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/plant");
    let mut command = Command::new("python3");
    command.args([
        script,
        "--trials",
        "4",
        "--reasons",
        "--program",
        env!("CARGO_BIN_EXE_nearfar"),
        "stop-300",
        "moved",
    ]);
    let Ok(planted) = command.output() else {
        return println!("skipped: planted_stops_and_moves_are_called: python3 is not installed");
    };
    let table = String::from_utf8_lossy(&planted.stdout);
    if table.starts_with("skipped: ") {
        return println!("{table}");
    }
    let reasons = String::from_utf8_lossy(&planted.stderr);
    assert!(planted.status.success(), "{table}{reasons}");
    for (row, reason) in [("stop-300", "it was stopped for "), ("moved", "but was pinned to")] {
        let disturbed: Vec<&str> = reasons.lines().filter(|line| line.starts_with(&format!("{row}: True "))).collect();
        assert!(disturbed.len() >= 2 && disturbed.iter().all(|line| line.contains(reason)), "{row}: {reasons}");
    }
}
