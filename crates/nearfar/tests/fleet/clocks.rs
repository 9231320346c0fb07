//! Nodes whose clocks differ and change while they are stopped, as after a flat battery. The runs are measured, because
//! simulated machines have a simulated clock. libfaketime sets the clocks (Debian: libfaketime).

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::nodes::{self, Nodes, json, output, text};
use super::{JOB, experiment_text, job_states, runs, stub};

/// One warm-up block and 199 measured blocks of one cell.
const TRIALS: u64 = 200;
const DAY_MS: i64 = 86_400_000;

/// The path of libfaketime. It does not change the monotonic clock; neither does setting the system clock.
fn library() -> Option<PathBuf> {
    let dirs = std::fs::read_dir("/usr/lib").ok()?.flatten();
    dirs.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1")).find(|file| file.exists())
}

/// Returns the option `--program` of a wrapper that shifts the clock of each node by a number of days.
fn set_clocks(nodes: &Nodes, library: &Path, days: &[(&str, i64)]) -> String {
    let cases: String = days.iter().map(|(node, days)| format!("*/{node}) export FAKETIME={days:+}d;; ")).collect();
    let lines = format!(
        "case $XDG_DATA_HOME in {cases}esac\nexport LD_PRELOAD={} FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1\nexec {} \"$@\"",
        library.display(),
        env!("CARGO_BIN_EXE_nearfar")
    );
    stub(nodes, "with-its-clock", &lines)
}

#[test]
fn runs_resume_when_clocks_change() {
    let Some(library) = library() else {
        return println!("skipped: runs_resume_when_clocks_change: no libfaketimeMT.so.1 (Debian's libfaketime)");
    };
    let Some(nodes) = nodes::start(&["node-a", "node-b", "node-c"], "a fleet whose clocks differ") else { return };
    let all = "node-a,node-b,node-c";
    let file = nodes.dir.path().join("clocks.toml");
    let queens = "name = \"queens\"\nset = { n = 6 }\nplacements = [\"kernel\"]\nthreads = [1]";
    std::fs::write(&file, experiment_text("clocks", TRIALS - 1, queens)).expect("the directory is writable");
    let file = file.display().to_string();
    let run = |program: &str| {
        nodes.fleet("run", all, &[&file, "--name", JOB, "--format", "json", "--patience", "1s", program])
    };
    let collect = |program: &str| nodes.fleet("collect", all, &["--format", "json", program]);
    let added = |collected: &Value| -> Vec<u64> {
        (0..3).filter_map(|node| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64()).collect()
    };

    // One clock is far ahead, one is behind. All runs are killed midway.
    let program = set_clocks(&nodes, &library, &[("node-a", 400), ("node-b", -3), ("node-c", 0)]);
    let mut coordinator = run(&program).spawn().expect("the program starts");
    let pids = nodes.freeze(JOB, 60_000);
    pids.iter().for_each(|pid| nodes::signal("KILL", *pid));
    nodes::until("the runs are gone", || !pids.iter().any(|pid| nodes::is_alive(*pid)));
    let limit = nodes::Limit::on(&coordinator);
    coordinator.wait().expect("the coordinator ends");
    drop(limit);
    let partial = output(collect(&program));
    let stderr = text(&partial.stderr);
    let partial: Value = serde_json::from_slice(&partial.stdout).expect("the output is JSON");
    let kept = added(&partial);
    assert!(kept.len() == 3 && kept.iter().all(|trials| (1..TRIALS).contains(trials)), "{partial}");
    for warning in ["node-a: its clock is 57 weeks ahead of this machine's", "node-b: its clock is 3 days behind"] {
        assert!(stderr.contains(warning), "{stderr}");
    }
    assert!(!stderr.contains("node-c: its clock"), "{stderr}");

    // The nodes resume with changed clocks: the first before the start of its run, the second years after it.
    let program = set_clocks(&nodes, &library, &[("node-a", -1000), ("node-b", 1000), ("node-c", 0)]);
    let status = json(run(&program), 0);
    assert_eq!(job_states(&status), vec![("ended".to_string(), TRIALS); 3], "{status}");
    let rest: Vec<u64> = kept.iter().map(|trials| TRIALS - trials).collect();
    assert_eq!(added(&json(collect(&program), 0)), rest);
    assert_eq!(added(&json(collect(&program), 0)), [0; 3]);

    // Each run is stored once, with its start time by the clock of its node.
    let runs = runs(&nodes, &nodes.dir.path().join("collected.db"));
    let started = |node: &str| -> Vec<i64> {
        let own = runs.iter().filter(|run| run["host"] == node);
        own.filter_map(|run| run["started_unix_ms"].as_i64()).collect()
    };
    let unshifted = started("node-c")[0];
    for (node, days) in [("node-a", 400), ("node-b", -3), ("node-c", 0)] {
        let [start] = started(node)[..] else { panic!("{node}: {runs:?}") };
        assert_eq!((start - unshifted + DAY_MS / 2).div_euclid(DAY_MS), days, "{node}");
    }
    let compared = json(nodes.nearfar(&["compare", "--by", "host", "--format", "json"]), 0);
    let medians = compared["rows"][0]["values"].as_object().expect("a value for each machine");
    assert_eq!(medians.len(), 3, "{compared}");
}
