//! Nodes and coordinator that share one small disk, which becomes full during the runs.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::nodes::{self, json, output, signal, text};
use crate::{ALL, JOB, TRIALS, assert_same_as_alone, experiment_file, job_states, own_mounts, write_inputs};

/// Set in the child process that runs the test on the small disk.
const INSIDE: &str = "NEARFAR_TEST_SMALL_DISK";

/// Mounts the disk and runs this test again, with its temporary files on it.
const DISK: &str = r#"
mount -t tmpfs -o size=48m,mode=700 tmpfs "$1" || exit 77
TMPDIR=$1 exec "$2" --exact full_disk::full_shared_disk_loses_no_trial --nocapture
"#;

#[test]
fn full_shared_disk_loses_no_trial() {
    if std::env::var_os(INSIDE).is_some() {
        return run_on_small_disk();
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut shell = own_mounts::shell(false, DISK);
    shell.env(INSIDE, "1").arg(dir.path()).arg(std::env::current_exe().expect("the path is known"));
    match own_mounts::run(&mut shell, "file systems in memory") {
        Ok(child) => {
            let stdout = text(&child.stdout);
            assert!(child.status.success(), "{stdout}{}", text(&child.stderr));
            assert!(stdout.contains("1 passed"), "{stdout}");
            stdout.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
        }
        Err(reason) => println!("skipped: a fleet on a full disk: {reason}"),
    }
}

fn run_on_small_disk() {
    let Some(nodes) = nodes::start(&["node-a", "node-b", "node-c"], "a fleet on a full disk") else { return };
    let sim = write_inputs(&nodes);
    let file = experiment_file(&nodes).display().to_string();
    let run =
        || -> Command { nodes.fleet("run", ALL, &[&file, "--name", JOB, "--format", "json", "--", "--sim", &sim]) };
    let collect = || nodes.fleet("collect", ALL, &["--format", "json"]);
    let filler = nodes.dir.path().join("filler");

    // All three runs are midway when the disk becomes full.
    let coordinator = run().spawn().expect("the program starts");
    let pids = nodes.freeze(JOB, 100_000);
    fill(&filler);
    pids.iter().for_each(|pid| signal("CONT", *pid));
    let limit = nodes::Limit::on(&coordinator);
    let stopped = coordinator.wait_with_output().expect("the coordinator ends");
    drop(limit);
    assert_eq!(stopped.status.code(), Some(1), "{}", text(&stopped.stderr));
    let status: Value = serde_json::from_slice(&stopped.stdout).expect("the output is JSON");
    let kept = job_states(&status);
    assert_eq!(kept.len(), 3, "{status}");
    assert!(kept.iter().all(|(state, trials)| state == "stopped" && *trials > 0 && *trials < TRIALS), "{status}");
    for node in status["nodes"].as_array().expect("nodes is a list") {
        let message = node["jobs"][0]["says"].as_str().expect("a stopped job has a message");
        assert!(message.contains("no space left on the disk"), "{status}");
    }

    // Collecting fails too; it removes nothing from the nodes and leaves no partial copy.
    fill(&filler);
    let failed = output(collect());
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    let stderr = text(&failed.stderr).to_lowercase();
    assert!(stderr.contains("no space left on"), "{stderr}");
    std::fs::remove_file(&filler).expect("the file exists");
    let partial = json(collect(), 0);
    let added = |collected: &Value| -> Vec<u64> {
        (0..3).filter_map(|node| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64()).collect()
    };
    let kept: Vec<u64> = kept.iter().map(|(_, trials)| *trials).collect();
    assert_eq!(added(&partial), kept, "{partial}");

    // With free space, the same command resumes the runs.
    let status = json(run(), 0);
    assert_eq!(job_states(&status), vec![("ended".to_string(), TRIALS); 3], "{status}");
    let rest: Vec<u64> = kept.iter().map(|trials| TRIALS - trials).collect();
    assert_eq!(added(&json(collect(), 0)), rest);
    assert_same_as_alone(&nodes);
}

/// Writes to a file until the disk is full.
fn fill(path: &Path) {
    let mut filler = File::options().create(true).append(true).open(path).expect("the file can be created");
    let block = [0; 4096];
    let error = std::iter::repeat_with(|| filler.write_all(&block)).find_map(Result::err).expect("the disk is finite");
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
}
