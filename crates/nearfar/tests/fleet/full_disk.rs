//! Nodes whose home folders are on one small disk, with whoever asks them, and it becomes full in the middle of their runs.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::nodes::{self, json, output, signal, text};
use crate::{ALL, JOB, TRIALS, experiment, is_as_without_a_fleet, own_mounts, prepare, stands};

/// Set for the process of this test that has a disk of its own.
const INSIDE: &str = "NEARFAR_TEST_SMALL_DISK";

/// A disk for this test's scratch folder: its second process runs there.
const DISK: &str = r#"
mount -t tmpfs -o size=48m,mode=700 tmpfs "$1" || exit 77
TMPDIR=$1 exec "$2" --exact full_disk::a_shared_disk_becomes_full_and_nothing_is_lost --nocapture
"#;

#[test]
fn a_shared_disk_becomes_full_and_nothing_is_lost() {
    if std::env::var_os(INSIDE).is_some() {
        return on_a_small_disk();
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut shell = own_mounts::shell(false, DISK);
    shell.env(INSIDE, "1").arg(folder.path()).arg(std::env::current_exe().expect("it runs"));
    match own_mounts::run(&mut shell, "file systems in memory") {
        Ok(inside) => {
            let said = text(&inside.stdout);
            assert!(inside.status.success(), "{said}{}", text(&inside.stderr));
            assert!(said.contains("1 passed"), "{said}");
            said.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
        }
        Err(why) => println!("skipped: a fleet on a full disk: {why}"),
    }
}

fn on_a_small_disk() {
    let Some(nodes) = nodes::start(&["node-a", "node-b", "node-c"], "a fleet on a full disk") else { return };
    let sim = prepare(&nodes);
    let file = experiment(&nodes).display().to_string();
    let run =
        || -> Command { nodes.fleet("run", ALL, &[&file, "--name", JOB, "--format", "json", "--", "--sim", &sim]) };
    let collect = || nodes.fleet("collect", ALL, &["--format", "json"]);
    let filler = nodes.folder.path().join("filler");

    // All three are in their middle, and then there is no room for another trial.
    let watching = run().spawn().expect("the program starts");
    let pids = nodes.freeze(JOB, 100_000);
    fill(&filler);
    pids.iter().for_each(|pid| signal("CONT", *pid));
    let limit = nodes::Limit::on(&watching);
    let stopped = watching.wait_with_output().expect("it ends");
    drop(limit);
    assert_eq!(stopped.status.code(), Some(1), "{}", text(&stopped.stderr));
    let looks: Value = serde_json::from_slice(&stopped.stdout).expect("it prints JSON");
    let kept = stands(&looks);
    assert_eq!(kept.len(), 3, "{looks}");
    assert!(kept.iter().all(|(state, trials)| state == "stopped" && *trials > 0 && *trials < TRIALS), "{looks}");
    for node in looks["nodes"].as_array().expect("nodes is a list") {
        let says = node["jobs"][0]["says"].as_str().expect("it says why");
        assert!(says.contains("no space left on the disk"), "{looks}");
    }

    // Nothing can be fetched either, which takes nothing away and leaves nothing half here.
    fill(&filler);
    let refused = output(collect());
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    let said = text(&refused.stderr).to_lowercase();
    assert!(said.contains("no space left on"), "{said}");
    std::fs::remove_file(&filler).expect("it was written");
    let part = json(collect(), 0);
    let added = |collected: &Value| -> Vec<u64> {
        (0..3).filter_map(|node| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64()).collect()
    };
    let kept: Vec<u64> = kept.iter().map(|(_, trials)| *trials).collect();
    assert_eq!(added(&part), kept, "{part}");

    // There is room again: the same command goes on.
    let looks = json(run(), 0);
    assert_eq!(stands(&looks), vec![("ended".to_string(), TRIALS); 3], "{looks}");
    let rest: Vec<u64> = kept.iter().map(|trials| TRIALS - trials).collect();
    assert_eq!(added(&json(collect(), 0)), rest);
    is_as_without_a_fleet(&nodes);
}

/// Takes all the room that is left.
fn fill(path: &Path) {
    let mut filler = File::options().create(true).append(true).open(path).expect("a name needs no room");
    let block = [0; 4096];
    let refused = std::iter::repeat_with(|| filler.write_all(&block)).find_map(Result::err).expect("disks have an end");
    assert_eq!(refused.kind(), ErrorKind::StorageFull, "{refused}");
}
