//! Trials that are really disturbed on this machine, and what their verdict says. Those that need several memory nodes or a
//! machine that may be broken are in tests/guest.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Counts by itself for some tenths of a second.
const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

/// The only trial of a shell script on cpu 0.
fn trial(folder: &Path, script: &str) -> Value {
    let nearfar = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(folder.join("results.db")).args(args).env_remove("NEARFAR_STORE");
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
    // A trial that is not proven is repeated; the first is as good as any.
    trials["trials"][0].clone()
}

fn reasons(trial: &Value) -> String {
    trial["reasons"].to_string()
}

/// Ends with the test, however that ends.
struct Competitor(Child);

impl Drop for Competitor {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nobody to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_pinned_competitor_makes_a_trial_suspect() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let busy = ["-c", "0", "sh", "-c", "while :; do :; done"];
    let mut competitor = Command::new("taskset");
    let Ok(competitor) = competitor.args(busy).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return println!("skipped: needs taskset");
    };
    let mut competitor = Competitor(competitor);
    let trial = trial(folder.path(), WORK);
    if competitor.0.try_wait().is_ok_and(|ended| ended.is_some()) {
        return println!("skipped: cpu 0 is not ours to use");
    }
    assert_eq!(trial["verdict"], "suspect", "{trial}");
    assert!(reasons(&trial).contains("other programs used"), "{trial}");
}

#[test]
fn who_changes_its_affinity_in_flight_is_caught() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return println!("skipped: needs 2 cpus");
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let trial = trial(folder.path(), &format!("taskset -cp 1 $$ >&2; {WORK}"));
    assert_eq!(trial["verdict"], "invalid", "{trial}");
}

#[test]
fn without_a_disturbance_a_trial_is_proven() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let trial = trial(folder.path(), WORK);
    // Other tests run beside this one, so the machine need not be quiet; nothing else may be said against the trial.
    let busy =
        trial["verdict"] == "suspect" && ["other programs", "hypervisor"].iter().any(|by| reasons(&trial).contains(by));
    assert!(trial["verdict"] == "valid" || busy, "{trial}");
}
