//! `nearfar fleet` over ssh, Slurm and Kubernetes, with local nodes that simulate machines: lost nodes, restarts and
//! error messages.

mod clocks;
mod full_disk;
mod kubernetes;
#[path = "../../../model/tests/nasty/mod.rs"]
mod nasty;
mod nodes;
#[path = "../own_mounts/mod.rs"]
mod own_mounts;
#[cfg(feature = "postgres")]
mod postgres;
#[path = "../scratch/mod.rs"]
mod scratch;
#[cfg(feature = "postgres")]
#[path = "../../../store/tests/store/postgres/server.rs"]
#[allow(dead_code)] // other tests use the rest
mod server;
mod slurm;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use nodes::{Nodes, json, output, signal, text};
use serde_json::Value;

/// An experiment with one workload, one warm-up block and `blocks` measured blocks: enough to interrupt the run midway.
fn experiment_text(name: &str, blocks: u64, workload: &str) -> String {
    format!(
        r#"
name = "{name}"
question = "Is every trial there once?"
[repeat]
warmup = 1
min = {blocks}
max = {blocks}
budget = "1000h"
[compare]
by = "placement"
baseline = "kernel"
[[workload]]
{workload}
"#
    )
}

fn three_machines() -> String {
    let queens = "name = \"queens\"\nplacements = [\"kernel\", \"one-core\"]\nthreads = [1, 2]";
    experiment_text("three $(touch pwned) machines", 300, queens)
}

/// Trials of [`three_machines`]: one warm-up block and 300 measured blocks of four cells.
const TRIALS: u64 = 301 * 4;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");
const JOB: &str = "three";
const ALL: &str = "node-a,node-b,node-c";

/// Writes the experiment and one simulated machine per node, `NODE.xml`. Returns the value of `--sim`.
fn write_inputs(nodes: &Nodes) -> String {
    let dir = nodes.dir.path();
    let models = ["ryzen5-2600", "rk3399", "xeon-e5-2640-x2"];
    for (node, model) in nodes.nodes.iter().zip(models) {
        std::fs::copy(format!("{MODELS}/{model}.xml"), dir.join(format!("{}.xml", node.name))).expect("models exist");
    }
    std::fs::write(dir.join("three.toml"), three_machines()).expect("the directory is writable");
    dir.join("{node}.xml:7").display().to_string()
}

fn experiment_file(nodes: &Nodes) -> PathBuf {
    nodes.dir.path().join("three.toml")
}

/// `state` and `trials` of all jobs of the nodes that responded.
fn job_states(status: &Value) -> Vec<(String, u64)> {
    let nodes = status["nodes"].as_array().expect("nodes is a list");
    let jobs = nodes.iter().filter_map(|node| node["jobs"].as_array());
    jobs.flatten()
        .map(|job| (job["state"].as_str().unwrap_or("?").into(), job["trials"].as_u64().unwrap_or(0)))
        .collect()
}

fn runs(nodes: &Nodes, store: &Path) -> Vec<Value> {
    let mut command = nodes.nearfar(&["show", "--runs", "--format", "json"]);
    command.arg("--store").arg(store);
    let listing = json(command, 0);
    listing["runs"].as_array().expect("runs is a list").clone()
}

#[test]
fn lost_node_resumes_and_each_trial_is_stored_once() {
    let Some(mut nodes) = nodes::start(&["node-a", "node-b", "node-c"], "a fleet over ssh") else { return };
    let sim = write_inputs(&nodes);
    let file = experiment_file(&nodes).display().to_string();
    let run = |rest: &[&str]| {
        let args = ["--name", JOB, "--format", "json", "--patience", "1s"];
        let args: Vec<&str> =
            [&file[..]].into_iter().chain(args).chain(rest.iter().copied()).chain(["--", "--sim", &sim]).collect();
        args.iter().map(|arg| (*arg).to_string()).collect::<Vec<String>>()
    };
    let fleet_run = |nodes: &Nodes, rest: &[&str]| {
        let args = run(rest);
        nodes.fleet("run", ALL, &args.iter().map(String::as_str).collect::<Vec<_>>())
    };

    // The coordinator is killed midway; the nodes keep running.
    let mut coordinator = fleet_run(&nodes, &[]).spawn().expect("the program starts");
    let pids = nodes.freeze(JOB, 100_000);
    let children = nodes::descendants(coordinator.id());
    assert_eq!(children.len(), 3, "one ssh for each node");
    coordinator.kill().expect("the coordinator is running");
    coordinator.wait().expect("the coordinator was killed");
    children.iter().for_each(|ssh| signal("KILL", *ssh));
    let status = json(nodes.fleet("status", ALL, &["--format", "json"]), 0);
    let frozen = job_states(&status);
    // The kernel sends SIGHUP to an orphaned process group with stopped members; the runs must survive that.
    assert!(frozen.iter().all(|(state, trials)| state == "running" && *trials > 0 && *trials < TRIALS), "{status}");
    assert_eq!(frozen.len(), 3);

    // A second coordinator finds the same processes; then one node loses power.
    let mut second = fleet_run(&nodes, &[]).spawn().expect("the program starts");
    let limit = nodes::Limit::on(&second);
    let mut lines = BufReader::new(second.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let progress: Vec<String> = lines.by_ref().filter(|line| line.starts_with("node-")).take(3).collect();
    assert!(progress.len() == 3 && progress.iter().all(|line| line.contains("queens @ ")), "{progress:?}");
    assert_eq!(nodes.nodes.iter().map(|node| node.runner(JOB)).collect::<Option<Vec<u32>>>(), Some(pids.clone()));
    nodes.nodes[1].power_off(pids[1]);
    [0, 2].iter().for_each(|node| signal("CONT", pids[*node]));
    let lines: Vec<String> = lines.collect();
    let second = second.wait_with_output().expect("the program ends");
    drop(limit);
    assert_eq!(second.status.code(), Some(1), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("node-b  away: ")), "{lines:?}");
    let names_node = |line: &String| line.starts_with("nearfar: node-b: ssh: connect to host 127.0.0.1");
    assert!(lines.iter().any(names_node), "{lines:?}");
    let status: Value = serde_json::from_slice(&second.stdout).expect("the output is JSON");
    assert_eq!(job_states(&status), [("ended".to_string(), TRIALS), ("ended".to_string(), TRIALS)]);

    // The other nodes can be collected repeatedly.
    for trials in [TRIALS, 0] {
        let collected = json(nodes.fleet("collect", ALL, &["--format", "json"]), 1);
        let added = |node: usize| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64();
        assert_eq!((added(0), added(1), added(2)), (Some(trials), None, Some(trials)), "{collected}");
        assert!(collected["nodes"][1]["problem"].as_str().is_some_and(|text| text.contains("refused")), "{collected}");
    }

    // The node returns with its stored trials and resumes; no node starts over.
    let shared = nodes.dir.path().to_path_buf();
    nodes.nodes[1].serve(&shared);
    nodes.write_configuration("user", true);
    let status = json(nodes.fleet("status", "node-b", &["--format", "json"]), 0);
    let returned = job_states(&status);
    let [(state, kept)] = &returned[..] else { panic!("one job of one node: {status}") };
    // A trial stored just before the stop may be in SQLite's WAL but not yet in its shared-memory index, which readers
    // use. After the power loss, SQLite rebuilds that index from the WAL.
    assert!(state == "stopped" && [0, 1].contains(&kept.wrapping_sub(frozen[1].1)), "{}, {status}", frozen[1].1);
    let partial = json(nodes.fleet("collect", ALL, &["--format", "json"]), 0);
    assert_eq!(partial["nodes"][1]["jobs"][0]["trials_added"], *kept, "{partial}");
    let status = json(fleet_run(&nodes, &[]), 0);
    assert_eq!(job_states(&status), vec![("ended".to_string(), TRIALS); 3], "{status}");
    let started = |node: usize| status["nodes"][node]["jobs"][0]["started"].as_bool();
    assert_eq!((started(0), started(1), started(2)), (Some(false), Some(true), Some(false)));
    let rest = json(nodes.fleet("collect", ALL, &["--format", "json"]), 0);
    let added = |node: usize| rest["nodes"][node]["jobs"][0]["trials_added"].as_u64();
    assert_eq!((added(0), added(1), added(2)), (Some(0), Some(TRIALS - kept), Some(0)), "{rest}");
    assert!(!nodes.dir.path().join("pwned").exists());
    assert_same_as_alone(&nodes);
    assert_comparable(&nodes);
}

/// The collected runs equal, byte by byte, uninterrupted runs of each machine without a fleet.
fn assert_same_as_alone(nodes: &Nodes) {
    let collected = nodes.dir.path().join("collected.db");
    assert_eq!(runs(nodes, &collected).len(), 3);
    let file = experiment_file(nodes).display().to_string();
    for node in &nodes.nodes {
        let alone = nodes.dir.path().join(format!("{}-alone.db", node.name));
        let sim = nodes.dir.path().join(format!("{}.xml:7", node.name)).display().to_string();
        let mut run = nodes.nearfar(&["run", &file, "--sim", &sim, "--host-label", &node.name, "--quiet"]);
        run.arg("--store").arg(&alone);
        assert!(output(run).status.success());
        let id = runs(nodes, &alone)[0]["id"].as_str().expect("runs have ids").to_string();
        for options in [&["--trials"][..], &[]] {
            let show = |store: &Path| {
                let mut command = nodes.nearfar(&["show", &id, "--format", "json"]);
                command.args(options).arg("--store").arg(store);
                let mut listing = json(command, 0);
                // The path of the experiment differs.
                listing.as_object_mut().expect("an object").remove("command");
                listing
            };
            assert!(show(&collected) == show(&alone), "{}: {options:?}", node.name);
        }
    }
}

fn assert_comparable(nodes: &Nodes) {
    let compared = json(nodes.nearfar(&["compare", "--by", "host", "--format", "json"]), 0);
    assert_eq!(compared["baseline"], "node-a");
    let rows = compared["rows"].as_array().expect("rows is a list");
    assert!(!rows.is_empty());
    for node in ["node-a", "node-b", "node-c"] {
        assert!(
            rows.iter().all(|row| row["values"][node]["median"].as_f64().is_some_and(|median| median > 0.0)),
            "{compared}"
        );
    }
    let all: Vec<String> = runs(nodes, &nodes.dir.path().join("collected.db"))
        .iter()
        .map(|run| run["id"].as_str().expect("runs have ids").to_string())
        .collect();
    let mut report = nodes.nearfar(&["report", "--output", "-"]);
    report.args(&all);
    let report = output(report);
    assert!(report.status.success(), "{}", text(&report.stderr));
    assert!(["node-a", "node-b", "node-c"].iter().all(|node| text(&report.stdout).contains(node)));
    let surveyed = json(nodes.nearfar(&["fleet", "compare", "--format", "json"]), 0);
    let classes = surveyed["classes"].as_array().expect("a list of classes");
    let machines = classes.iter().filter_map(|class| class["machines"].as_array()).flatten();
    let mut machines: Vec<&str> = machines.filter_map(|machine| machine["name"].as_str()).collect();
    machines.sort_unstable();
    assert_eq!(machines, ["node-a", "node-b", "node-c"], "{surveyed}");
    #[cfg(feature = "postgres")]
    self::postgres::assert_same_on_postgres(nodes);
    #[cfg(feature = "parquet")]
    assert_same_in_parquet(nodes);
}

#[cfg(feature = "parquet")]
fn assert_same_in_parquet(nodes: &Nodes) {
    let exported = output(nodes.nearfar(&["export", "--format", "parquet", "--to", "parquet", "--all"]));
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    assert_eq!(text(&exported.stderr).lines().count(), 3, "{}", text(&exported.stderr));
    // Simulated machines start in the same millisecond, and exported files do not record the order of insertion.
    let runs = runs(nodes, &nodes.dir.path().join("collected.db"));
    let mut compare = vec!["compare", "--by", "host", "--format", "json"];
    compare.extend(runs.iter().filter_map(|run| run["id"].as_str()));
    let compared = output(nodes.nearfar(&[&compare[..], &["--from", "parquet:parquet"]].concat()));
    if compared.status.code() == Some(77) {
        return println!("skipped: a fleet's runs compared in Parquet: {}", text(&compared.stderr).trim());
    }
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    assert_eq!(text(&compared.stdout), text(&output(nodes.nearfar(&compare)).stdout));
}

/// Writes a shell script that replaces nearfar on the node. Returns the option `--program`.
fn stub(nodes: &Nodes, name: &str, lines: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = nodes.dir.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("the directory is writable");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("the script exists");
    format!("--program={}", path.display())
}

#[test]
fn node_errors_name_the_node() {
    let Some(nodes) = nodes::start(&["node-a"], "errors of nodes over ssh") else { return };
    let real = env!("CARGO_BIN_EXE_nearfar");
    let old = stub(
        &nodes,
        "old",
        "[ \"$1\" = --version ] && echo nearfar 0.0.1 && exit\necho \"error: unrecognized subcommand '$1'\" >&2; exit 2",
    );
    let newer =
        stub(&nodes, "newer", "cat >/dev/null; echo '{\"protocol\":7,\"program\":\"9.9.9\",\"answer\":\"new\"}'");
    let older =
        stub(&nodes, "older", "cat >/dev/null; echo '{\"program\":\"0.1.0\",\"unix_ms\":1,\"answer\":{\"looks\":[]}}'");
    let other = stub(&nodes, "other", "cat >/dev/null; echo hello; exit 3");
    let control_codes = stub(&nodes, "control-codes", "cat >/dev/null; printf '\\033[2Jboo\\n' >&2; exit 3");
    let banner = stub(&nodes, "banner", &format!("echo 'Welcome to node-a!'; exec {real} \"$@\""));
    let truncated = stub(&nodes, "truncated", &format!("{real} \"$@\" | head -c 20"));
    let missing = stub(&nodes, "missing", "");
    std::fs::remove_file(nodes.dir.path().join("missing")).expect("the script exists");
    let cases: &[(&str, &[&str], i32, &str)] = &[
        ("refused", &[], 1, "nearfar: refused: ssh: connect to host 127.0.0.1 port 1: Connection refused\nhint: "),
        ("unresolved", &[], 2, "nearfar: unresolved: ssh: Could not resolve hostname nowhere.invalid"),
        ("node-a", &[&missing], 77, "nearfar: node-a: there is no program "),
        (
            "node-a",
            &["--program=no such; touch pwned"],
            77,
            "node-a: there is no program no such; touch pwned\nhint: install nearfar ",
        ),
        ("node-a", &["--program=$(touch pwned)"], 77, "there is no program $(touch pwned)"),
        (
            "node-a",
            &[&old],
            1,
            "nearfar: node-a: incompatible protocol: the node has nearfar 0.0.1 (no protocol version), this machine has ",
        ),
        (
            "node-a",
            &[&newer],
            1,
            "nearfar: node-a: incompatible protocol: the node has nearfar 9.9.9 (protocol version 7), this machine has ",
        ),
        ("node-a", &[&older], 1, "the node has nearfar 0.1.0 (no protocol version), this machine has "),
        ("node-a", &[&other], 1, "nearfar: node-a: nearfar ended with exit status: 3"),
        ("node-a", &[&control_codes], 1, "exit status: 3:  [2Jboo"),
        ("node-a", &[&truncated], 1, "nearfar: node-a: nearfar ended without a response"),
        ("node-a", &[&banner], 0, ""),
        ("node-a,refused", &[], 1, "nearfar: refused: ssh: "),
        ("node-a", &["--ssh-option=-o", "--ssh-option=NoSuchOption=1"], 1, "node-a: "),
    ];
    for (node, rest, status, expected) in cases {
        let output = output(nodes.fleet("status", node, rest));
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(*status), "{node} {rest:?}: {stderr}");
        assert!(stderr.contains(expected), "{node} {rest:?}: {stderr}");
        assert!(stdout.starts_with("node "), "{stdout}");
    }
    for (key, known, expected) in [
        ("stranger", true, "Permission denied (publickey).\nhint: install a key that needs no prompt"),
        ("user", false, "node-a: its host key is unknown\nhint: log in once by hand"),
    ] {
        nodes.write_configuration(key, known);
        let output = output(nodes.fleet("collect", "node-a", &[]));
        assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    assert!(!nodes.dir.path().join("pwned").exists());
}

#[test]
fn errors_of_a_node_are_passed_on() {
    let Some(nodes) = nodes::start(&["node-a"], "errors passed on over ssh") else { return };
    let run = |args: &[&str]| {
        let args: Vec<&str> = ["quick", "--name", "x", "--"].into_iter().chain(args.iter().copied()).collect();
        output(nodes.fleet("run", "node-a", &args))
    };
    let failed = run(&["--sim", "/no/such/{node}.xml"]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    let table = text(&failed.stdout);
    assert!(table.contains("stopped") && table.contains("/no/such/node-a.xml"), "{table}");
    assert!(text(&failed.stderr).contains("hint: rerun the same command to resume"), "{}", text(&failed.stderr));
    let differs = run(&["--sim", "pu:2:1"]);
    assert_eq!(differs.status.code(), Some(1), "{}", text(&differs.stderr));
    assert!(text(&differs.stderr).contains("node-a: 'x' has another experiment"), "{}", text(&differs.stderr));
    let none = output(nodes.fleet("collect", "node-a", &["nosuch"]));
    assert!(text(&none.stderr).contains("nearfar: node-a: no job 'nosuch' on the node"), "{}", text(&none.stderr));
    let empty = output(nodes.fleet("collect", "node-a", &[]));
    assert!(empty.status.success(), "{}", text(&empty.stderr));
    assert!(text(&empty.stderr).contains("node-a: x: added 0 runs, 0 trials"), "{}", text(&empty.stderr));
    // A label with shell metacharacters stays one argument.
    let labelled = [
        "quick",
        "--name=y",
        "--quiet",
        "--",
        "--sim",
        "pu:2:1",
        "--budget",
        "1s",
        "--host-label",
        "a; touch pwned $(touch pwned)",
    ];
    let ended = output(nodes.fleet("run", "node-a", &labelled));
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(output(nodes.fleet("collect", "node-a", &["y"])).status.success());
    let compared = output(nodes.nearfar(&["compare", "--by", "host"]));
    assert!(text(&compared.stdout).contains("a; touch pwned $(touch pwned)"), "{}", text(&compared.stdout));
    let pwned = |dir: &Path| dir.join("pwned").exists();
    assert!(!pwned(nodes.dir.path()) && !std::env::home_dir().is_some_and(|home| pwned(&home)));
}

#[test]
fn host_lists_and_files_select_their_nodes() {
    let Some(nodes) = nodes::start(&["node-08", "node-09", "node-10"], "host lists over ssh") else { return };
    let listed = |list: &str| {
        let status = json(nodes.fleet("status", list, &["--format", "json"]), 0);
        let names = status["nodes"].as_array().expect("nodes is a list").iter().map(|node| node["node"].clone());
        names.map(|name| name.as_str().expect("names are text").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed("node-[08-10]"), ["node-08", "node-09", "node-10"]);
    assert_eq!(listed("node-10,node-[08,09]"), ["node-10", "node-08", "node-09"]);
    let hosts = "# the second rack\nnode-[09-10]\n\nnode-08 # new\n";
    std::fs::write(nodes.dir.path().join("hosts"), hosts).expect("the directory is writable");
    assert_eq!(listed("@hosts"), ["node-09", "node-10", "node-08"]);
    let run = ["quick", "--name=x", "--quiet", "--", "--sim=pu:2:1", "--budget=1s"];
    assert!(output(nodes.fleet("run", "node-[08-09]", &run)).status.success());
    let run = ["quick", "--name=x", "--", "--sim=pu:2:1", "--budget=1s"];
    let again = output(nodes.fleet("run", "node-[08-09]", &run));
    assert!(text(&again.stderr).contains("collect '--on=ssh:node-[08-09]'"), "{}", text(&again.stderr));
}

#[test]
fn run_that_no_node_accepts_fails_and_has_no_next_step() {
    let Some(nodes) = nodes::start(&["node-a"], "runs without a node over ssh") else { return };
    let missing = format!("--program={}", nodes.dir.path().join("missing").display());
    let rest = ["--", "--sim=pu:2:1", "--budget=1s"];
    for (on, options, status, expected) in [
        ("refused", &["quick"][..], 1, "nearfar: no node could be reached; this command started no job"),
        ("refused", &["quick", "--detach", "--quiet"], 1, "nearfar: no node could be reached; this command started no"),
        ("unresolved", &["quick"], 2, "nearfar: no node accepted the job; this command started no job"),
        ("node-a", &["quick", &missing], 77, "nearfar: no node accepted the job; this command started no job"),
        ("refused,node-a", &["quick", &missing], 1, "nearfar: no node accepted the job; this command started no job"),
    ] {
        let run = output(nodes.fleet("run", on, &[options, &rest].concat()));
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(status), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains("next: ") && !stderr.contains("continue if this program ends"), "{stderr}");
    }
    let run = output(nodes.fleet("run", "refused,node-a", &[&["quick"][..], &rest].concat()));
    let stderr = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("next: ") && !stderr.contains("started no job"), "{stderr}");
}

/// Both nodes simulate the same machine with the same seed and start time.
#[test]
fn identical_machines_have_separate_runs() {
    let Some(nodes) = nodes::start(&["node-a", "node-b"], "identical nodes over ssh") else { return };
    let args = ["quick", "--quiet", "--", "--sim", "pu:2:1", "--budget", "1s"];
    let ended = output(nodes.fleet("run", "node-a,node-b", &args));
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let collected = json(nodes.fleet("collect", "node-a,node-b", &["--format", "json"]), 0);
    for node in [0, 1] {
        let job = &collected["nodes"][node]["jobs"][0];
        assert_eq!((&job["runs_added"], &job["left_out"]), (&1.into(), &Value::Array(Vec::new())), "{collected}");
    }
}

#[test]
fn usage_errors_are_reported_before_a_node_is_contacted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("hosts"), "a\na b\n").expect("the directory is writable");
    let cases: &[(&[&str], &str)] = &[
        (&["run", "quick"], "--on <ssh:HOST,...|ssh:@FILE|slurm[:PARTITION]|kubernetes[:NODE,...|:LABEL=VALUE,...]>"),
        (
            &["run", "quick", "--on", "a,b"],
            "no engine in 'a,b': use ssh:HOST,HOST, ssh:@FILE, slurm:PARTITION or kubernetes:",
        ),
        (&["run", "quick", "--on", "ssh:-oProxyCommand=touch pwned"], "invalid node name '"),
        (&["run", "quick", "--on", "ssh:a;touch pwned"], "invalid node name '"),
        (&["run", "quick", "--on", "ssh:a,a"], "node a is named twice"),
        (&["run", "quick", "--on", "ssh:n[1-2"], "invalid host list 'n[1-2': a [ is not closed"),
        (&["run", "quick", "--on", "ssh:n[1-4000000000]m[1-4000000000]"], "the maximum for one coordinator is 1000"),
        (&["status", "--on", "ssh:@nosuch"], "cannot read host file 'nosuch': No such file"),
        (&["status", "--on", "ssh:@hosts"], "hosts:2: invalid node name 'a b'"),
        (&["collect", "--on", "kubernetes:n[1-4000000000]"], "the maximum for one manifest is 1000"),
        (&["run", "quick", "--on", "ssh:a", "--name", "../x"], "invalid job name '"),
        (&["collect", "--on", "ssh:a", "../x"], "invalid job name '"),
        (&["run", "quick", "--on", "ssh:a", "--account", "x"], "--account is for --on slurm"),
        (&["run", "quick", "--on", "ssh:a", "--time", "90"], "--time is for --on slurm"),
        (&["status", "--on", "ssh:a", "--qos", "x"], "--qos is for --on slurm"),
        (&["collect", "--on", "kubernetes:a", "--nodelist", "a"], "--nodelist is for --on slurm"),
        (&["run", "quick", "--on", "slurm", "--account", "a b"], "expected a name without spaces"),
        (&["run", "quick", "--on", "slurm", "--nodelist", "n[1-2"], "invalid host list 'n[1-2'"),
        (&["run", "quick", "--on", "slurm", "--time", "1h"], "expected MINUTES, HOURS:MINUTES:SECONDS or "),
        (&["run", "quick", "--on", "slurm", "--time", "1-2:3:4:5"], "expected MINUTES, HOURS:MINUTES:SECONDS or "),
        (&["run", "quick", "--on", "slurm", "--time="], "expected MINUTES, HOURS:MINUTES:SECONDS or "),
        (&["run", "nosuch", "--on", "ssh:a"], "cannot read experiment 'nosuch'"),
        (&["run", "quick", "--on", "ssh:a", "--", "--smok"], "node options: unexpected argument '--smok'"),
        (&["run", "quick", "--on", "ssh:a", "--", "-v"], "node options: --verbose is not supported"),
        (&["run", "quick", "--on", "ssh:a", "--", "--color=never"], "node options: --color is not supported"),
        (&["run", "quick", "--on", "ssh:a", "--", "--set", "nosuch=1"], "--set: "),
        (
            &["run", "quick", "--on", "ssh:a", "--", "--fresh"],
            "node options: --fresh is not supported\nhint: to run it again, set another --name",
        ),
        (&["run", "quick", "--on", "ssh:a", "--", "--dry-run"], "--dry-run is not supported"),
        (&["run", "quick", "--on", "ssh:a", "--", "--store=x"], "--store is not supported"),
        (&["run", "quick", "--on", "ssh:a", "--", "-q"], "--quiet is not supported"),
        (&["run", "quick", "--on", "ssh:a", "--", "--format=json"], "--format is not supported"),
    ];
    for (args, expected) in cases {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nearfar"));
        // With an empty PATH, contacting a node would fail with a different error.
        command.arg("fleet").args(*args).current_dir(dir.path()).env("PATH", "").env_remove("NEARFAR_STORE");
        let output = output(command);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["fleet", "status", "--on", "ssh:a"]).env("PATH", "");
    let output = output(command);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("nearfar: a: there is no program ssh on this machine\nhint: install ssh"),
        "{}",
        text(&output.stderr)
    );
}
