//! `mpirun nearfar bfs` for real, several ranks on this machine: what they find, what they say when they cannot, and that all end when one
//! is killed. In builds with the feature `mpi` alone (`cargo test --workspace --features nearfar/mpi --test mpi`).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than any run here takes on a busy machine; a hang is what it is for.
const PATIENCE: Duration = Duration::from_secs(300);

/// `mpirun -n RANKS nearfar`, as on a machine with fewer cpus than ranks and, in containers, by root; none where there is no
/// launcher.
fn ranks(count: usize, test: &str) -> Option<Command> {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: {test}: no mpirun (Debian's openmpi-bin)");
        return None;
    }
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string());
    command.args(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", &count.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_nearfar"));
    Some(command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints one JSON document")
}

#[test]
fn ranks_find_what_one_process_does() {
    let alone = Command::new(env!("CARGO_BIN_EXE_nearfar")).args(["bfs", "--scale", "12", "--format", "json"]).output();
    let alone = json(&alone.expect("the program starts"));
    assert_eq!(alone["num_mpi_processes"], 1);
    for count in [2, 3, 4] {
        let Some(mut ranks) = ranks(count, "bfs over MPI") else { return };
        let output = ranks.args(["bfs", "--scale", "12", "--hubs", "100", "--format", "json"]).output();
        let output = output.expect("mpirun starts");
        let said = text(&output.stderr);
        assert!(said.matches("nearfar: constructed").count() == 1, "one rank tells: {said}");
        let found = json(&output);
        assert_eq!((&found["num_mpi_processes"], &found["NBFS"]), (&count.into(), &64.into()));
        let (found, alone) = (found["roots"].as_array(), alone["roots"].as_array());
        for (found, alone) in found.expect("a list").iter().zip(alone.expect("a list")) {
            for same in ["root", "levels", "nedge", "nedge_with_loops"] {
                assert_eq!(found[same], alone[same], "{count} ranks: {same}");
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
fn what_cannot_be_is_said_by_one_rank_and_ends_all() {
    for (count, args, status, expected) in [
        (3, &["--scale", "0"][..], 2, "scale 0"),
        (3, &["--scale", "32"], 2, "scale 32 is out of range: it must be 1 to 31"),
        (4, &["--scale", "1"], 2, "2 vertices cannot be distributed to 4 shards"),
        (2, &["--scale", "31"], 77, "a graph of scale 31 needs"),
        (3, &["--scale", "10", "--root", "1024"], 2, "invalid root 1024: the graph has no such vertex"),
        (3, &["--scale", "10", "--edge-factor", "0"], 2, "edge factor 0"),
        (2, &["--scale", "10", "--parts", "2"], 2, "omit --parts"),
        (3, &["--scal", "10"], 2, "unexpected argument '--scal'"),
    ] {
        let Some(mut ranks) = ranks(count, "mistakes over MPI") else { return };
        let output = ranks.arg("bfs").args(args).output().expect("mpirun starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert_eq!(said.matches(expected).count(), 1, "{args:?}: {said}");
        assert!(!said.contains("panicked") && output.stdout.is_empty(), "{args:?}: {said}");
    }
    let Some(mut ranks) = ranks(3, "mistakes over MPI") else { return };
    let help = ranks.args(["bfs", "--help"]).output().expect("mpirun starts");
    assert!(help.status.success(), "{}", text(&help.stderr));
    assert_eq!(text(&help.stdout).matches("Usage:").count(), 1);
}

/// Processes of a program among those that descend from a process.
fn descendants(of: u32, program: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let descends = |pid: u32| {
        let mut above = std::iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 1));
        above.any(|pid| pid == of)
    };
    pids.into_iter().filter(|pid| runs(*pid, program) && descends(*pid)).collect()
}

/// Whether a process runs this program; one that has ended and that nobody has waited for does not.
fn runs(pid: u32, program: &Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
}

#[test]
fn when_a_rank_is_killed_all_end() {
    let program = std::fs::canonicalize(env!("CARGO_BIN_EXE_nearfar")).expect("it is there");
    let Some(mut ranks) = ranks(3, "killed ranks") else { return };
    // More searches than anybody waits for.
    let mut run = ranks
        .args(["bfs", "--scale", "17", "--roots", "4096"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun starts");
    let lines = BufReader::new(run.stderr.take().expect("piped")).lines();
    let mut lines = lines.map(|line| line.expect("it is text"));
    assert!(lines.any(|line| line.contains("searches follow")), "the searches have begun");
    let pids = descendants(run.id(), &program);
    assert_eq!(pids.len(), 3, "{pids:?}");
    let began = Instant::now();
    let killed = Command::new("kill").args(["-KILL", &pids[1].to_string()]).status();
    assert!(killed.expect("kill starts").success());
    let rest: Vec<String> = lines.collect();
    let output = run.wait_with_output().expect("it ends");
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", output.status);
    assert!(began.elapsed() < PATIENCE / 2, "it was ended by the kill and not by the time limit");
    assert!(rest.iter().any(|line| line.contains("signal 9")), "the launcher says why: {rest:?}");
    // The launcher does not wait for those that it has ended.
    while pids.iter().any(|pid| runs(*pid, &program)) {
        assert!(began.elapsed() < PATIENCE / 2, "of ranks {pids:?} some are left");
        std::thread::sleep(Duration::from_millis(10));
    }
}
