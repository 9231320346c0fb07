//! Nodes whose clocks differ, and one whose clock has another time again when it comes back: as after a flat battery. Measured, not
//! simulated, for a simulated machine has a clock of its own. The clocks are libfaketime's (Debian's package of that name).

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::nodes::{self, Nodes, json, output, text};
use super::{JOB, experiment_of, runs, script, stands};

/// A block to warm up, and 199.
const TRIALS: u64 = 200;
const DAY_MS: i64 = 86_400_000;

/// The library that shows programs another time; the monotonic clock it leaves alone, as setting a clock does.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|file| file.exists())
}

/// From now on the clock of every node says its days more than this machine's, or fewer.
fn set_clocks(nodes: &Nodes, library: &Path, days: &[(&str, i64)]) -> String {
    let cases: String = days.iter().map(|(node, days)| format!("*/{node}) export FAKETIME={days:+}d;; ")).collect();
    let lines = format!(
        "case $XDG_DATA_HOME in {cases}esac\nexport LD_PRELOAD={} FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1\nexec {} \"$@\"",
        library.display(),
        env!("CARGO_BIN_EXE_nearfar")
    );
    script(nodes, "with-its-clock", &lines)
}

#[test]
fn clocks_may_differ_and_be_set() {
    let Some(library) = library() else {
        return println!("skipped: clocks_may_differ_and_be_set: no libfaketimeMT.so.1 (Debian's libfaketime)");
    };
    let Some(nodes) = nodes::start(&["node-a", "node-b", "node-c"], "a fleet whose clocks differ") else { return };
    let all = "node-a,node-b,node-c";
    let file = nodes.folder.path().join("clocks.toml");
    let queens = "name = \"queens\"\nset = { n = 6 }\nplacements = [\"kernel\"]\nthreads = [1]";
    std::fs::write(&file, experiment_of("clocks", TRIALS - 1, queens)).expect("the folder can be written");
    let file = file.display().to_string();
    let run = |program: &str| {
        nodes.fleet("run", all, &[&file, "--name", JOB, "--format", "json", "--patience", "1s", program])
    };
    let collect = |program: &str| nodes.fleet("collect", all, &["--format", "json", program]);
    let added = |collected: &Value| -> Vec<u64> {
        (0..3).filter_map(|node| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64()).collect()
    };

    // One is far ahead, one behind. In the middle of the runs all of them stop.
    let program = set_clocks(&nodes, &library, &[("node-a", 400), ("node-b", -3), ("node-c", 0)]);
    let mut watching = run(&program).spawn().expect("the program starts");
    let pids = nodes.freeze(JOB, 60_000);
    pids.iter().for_each(|pid| nodes::signal("KILL", *pid));
    nodes::until("the runs are gone", || !pids.iter().any(|pid| nodes::is_alive(*pid)));
    let limit = nodes::Limit::on(&watching);
    watching.wait().expect("it ends");
    drop(limit);
    let part = output(collect(&program));
    let said = text(&part.stderr);
    let part: Value = serde_json::from_slice(&part.stdout).expect("it prints JSON");
    let kept = added(&part);
    assert!(kept.len() == 3 && kept.iter().all(|trials| (1..TRIALS).contains(trials)), "{part}");
    for words in ["node-a: its clock is 57 weeks ahead of this machine's", "node-b: its clock is 3 days behind"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("node-c: its clock"), "{said}");

    // They come back with other clocks: the first one's before its own run's beginning, the second one's years later.
    let program = set_clocks(&nodes, &library, &[("node-a", -1000), ("node-b", 1000), ("node-c", 0)]);
    let looks = json(run(&program), 0);
    assert_eq!(stands(&looks), vec![("ended".to_string(), TRIALS); 3], "{looks}");
    let rest: Vec<u64> = kept.iter().map(|trials| TRIALS - trials).collect();
    assert_eq!(added(&json(collect(&program), 0)), rest);
    assert_eq!(added(&json(collect(&program), 0)), [0; 3]);

    // Each run once, with the date of its node's clock when it began.
    let runs = runs(&nodes, &nodes.folder.path().join("here.db"));
    let started = |node: &str| -> Vec<i64> {
        let own = runs.iter().filter(|run| run["host"] == node);
        own.filter_map(|run| run["started_unix_ms"].as_i64()).collect()
    };
    let here = started("node-c")[0];
    for (node, days) in [("node-a", 400), ("node-b", -3), ("node-c", 0)] {
        let [began] = started(node)[..] else { panic!("{node}: {runs:?}") };
        assert_eq!((began - here + DAY_MS / 2).div_euclid(DAY_MS), days, "{node}");
    }
    let compared = json(nodes.nearfar(&["compare", "--by", "host", "--format", "json"]), 0);
    let medians = compared["rows"][0]["values"].as_object().expect("a value for each machine");
    assert_eq!(medians.len(), 3, "{compared}");
}
