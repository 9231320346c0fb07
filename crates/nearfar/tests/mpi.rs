//! `mpirun nearfar bfs` with several ranks on this machine: results, errors, and the end of all ranks when one is
//! killed. Requires the feature `mpi` (`cargo test --workspace --features nearfar/mpi --test mpi`).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a run; longer than any takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// `mpirun -n RANKS nearfar`, also with fewer CPUs than ranks and, for containers, as root. `None`, with a message,
/// without a launcher.
fn ranks(count: usize, test: &str) -> Option<Command> {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: {test}: no mpirun (Debian's openmpi-bin)");
        return None;
    }
    let mut command = Command::new("timeout");
    command.arg(TIMEOUT.as_secs().to_string());
    command.args(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", &count.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_nearfar"));
    Some(command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is one JSON document")
}

#[test]
fn several_ranks_find_the_same_as_one_process() {
    let alone = Command::new(env!("CARGO_BIN_EXE_nearfar")).args(["bfs", "--scale", "12", "--format", "json"]).output();
    let alone = json(&alone.expect("the program starts"));
    assert_eq!(alone["num_mpi_processes"], 1);
    for count in [2, 3, 4] {
        let Some(mut ranks) = ranks(count, "bfs over MPI") else { return };
        let output = ranks.args(["bfs", "--scale", "12", "--hubs", "100", "--format", "json"]).output();
        let output = output.expect("mpirun starts");
        let stderr = text(&output.stderr);
        assert!(stderr.matches("nearfar: constructed").count() == 1, "one rank reports progress: {stderr}");
        let found = json(&output);
        assert_eq!((&found["num_mpi_processes"], &found["NBFS"]), (&count.into(), &64.into()));
        let (found, alone) = (found["roots"].as_array(), alone["roots"].as_array());
        for (found, alone) in found.expect("a list").iter().zip(alone.expect("a list")) {
            for key in ["root", "levels", "nedge", "nedge_with_loops"] {
                assert_eq!(found[key], alone[key], "{count} ranks: {key}");
            }
            assert!(found["TEPS"].as_f64().is_some_and(|rate| rate > 0.0));
        }
    }
    let Some(mut ranks) = ranks(2, "bfs over MPI") else { return };
    let output = ranks.args(["bfs", "--scale", "10", "--root", "458", "--root", "966", "--quiet"]).output();
    let output = output.expect("mpirun starts");
    let lines = text(&output.stdout);
    assert!(output.status.success() && lines.contains("harmonic_mean_TEPS: "), "{lines}{}", text(&output.stderr));
    assert_eq!(lines.matches("NBFS:").count(), 1, "{lines}");
    assert!(!text(&output.stderr).contains("nearfar: "), "quiet");
}

#[test]
fn usage_errors_are_reported_by_one_rank_and_end_all() {
    for (count, args, status, expected) in [
        (3, &["--scale", "0"][..], 2, "scale 0"),
        (3, &["--scale", "32"], 2, "scale 32 is out of range: it must be 1 to 31"),
        (4, &["--scale", "1"], 2, "2 vertices cannot be distributed to 4 shards"),
        (2, &["--scale", "31"], 77, "a graph of scale 31 needs"),
        (3, &["--scale", "10", "--root", "1024"], 2, "invalid root 1024: the graph has no such vertex"),
        (3, &["--scale", "10", "--edge-factor", "0"], 2, "edge factor 0"),
        (2, &["--scale", "10", "--parts", "2"], 2, "omit --parts"),
        (3, &["--scal", "10"], 2, "unknown option '--scal'"),
    ] {
        let Some(mut ranks) = ranks(count, "usage errors over MPI") else { return };
        let output = ranks.arg("bfs").args(args).output().expect("mpirun starts");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
        assert_eq!(stderr.matches(expected).count(), 1, "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked") && output.stdout.is_empty(), "{args:?}: {stderr}");
    }
    let Some(mut ranks) = ranks(3, "usage errors over MPI") else { return };
    let help = ranks.args(["bfs", "--help"]).output().expect("mpirun starts");
    assert!(help.status.success(), "{}", text(&help.stderr));
    assert_eq!(text(&help.stdout).matches("Usage:").count(), 1);
}

/// The descendants of a process that run this program.
fn descendants(ancestor: u32, program: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let descends = |pid: u32| {
        let mut ancestors = std::iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 1));
        ancestors.any(|pid| pid == ancestor)
    };
    pids.into_iter().filter(|pid| is_running(*pid, program) && descends(*pid)).collect()
}

/// Whether a process runs this program; a zombie does not.
fn is_running(pid: u32, program: &Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
}

#[test]
fn killed_rank_ends_all_ranks() {
    let program = std::fs::canonicalize(env!("CARGO_BIN_EXE_nearfar")).expect("the program exists");
    let Some(mut ranks) = ranks(3, "killed ranks") else { return };
    // More searches than end before the kill.
    let mut run = ranks
        .args(["bfs", "--scale", "17", "--roots", "4096"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun starts");
    let lines = BufReader::new(run.stderr.take().expect("piped")).lines();
    let mut lines = lines.map(|line| line.expect("the output is UTF-8"));
    assert!(lines.any(|line| line.contains("searches follow")), "the searches have begun");
    let pids = descendants(run.id(), &program);
    assert_eq!(pids.len(), 3, "{pids:?}");
    let began = Instant::now();
    let killed = Command::new("kill").args(["-KILL", &pids[1].to_string()]).status();
    assert!(killed.expect("kill starts").success());
    let rest: Vec<String> = lines.collect();
    let output = run.wait_with_output().expect("mpirun ends");
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", output.status);
    assert!(began.elapsed() < TIMEOUT / 2, "the kill ended it, not the timeout");
    assert!(rest.iter().any(|line| line.contains("signal 9")), "the launcher reports the signal: {rest:?}");
    // The launcher does not wait for the ranks that it kills.
    while pids.iter().any(|pid| is_running(*pid, &program)) {
        assert!(began.elapsed() < TIMEOUT / 2, "some of the ranks {pids:?} are still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}
