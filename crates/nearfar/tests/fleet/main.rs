//! `nearfar fleet` with three machines, as far as ssh can tell: servers of OpenSSH on this one, each with a simulated machine of its own.
//! One of them is lost in the middle and comes back; and what can be wrong with a node is said.

mod clocks;
mod full_disk;
mod kubernetes;
mod nodes;
#[path = "../own_mounts/mod.rs"]
mod own_mounts;
#[cfg(feature = "postgres")]
mod postgres;
#[path = "../scratch/mod.rs"]
mod scratch;
#[cfg(feature = "postgres")]
#[path = "../../../store/tests/store/postgres/server.rs"]
#[allow(dead_code)] // what other tests need of it
mod server;
mod slurm;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use nodes::{Nodes, json, output, signal, text};
use serde_json::Value;

/// An experiment of one workload, with a block to warm up and so many more: enough trials that a run can be found in its middle.
fn experiment_of(name: &str, blocks: u64, workload: &str) -> String {
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
    experiment_of("three $(touch pwned) machines", 300, queens)
}

/// What comes of that: a warm-up block and 300 of four cells.
const TRIALS: u64 = 301 * 4;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");
const JOB: &str = "three";
const ALL: &str = "node-a,node-b,node-c";

/// What nodes are to run: each its own simulated machine, which lies under its name.
fn prepare(nodes: &Nodes) -> String {
    let folder = nodes.folder.path();
    let models = ["ryzen5-2600", "rk3399", "xeon-e5-2640-x2"];
    for (node, model) in nodes.nodes.iter().zip(models) {
        std::fs::copy(format!("{MODELS}/{model}.xml"), folder.join(format!("{}.xml", node.name))).expect("it is there");
    }
    std::fs::write(folder.join("three.toml"), three_machines()).expect("the folder can be written");
    folder.join("{node}.xml:7").display().to_string()
}

fn experiment(nodes: &Nodes) -> PathBuf {
    nodes.folder.path().join("three.toml")
}

/// `state` and `trials` of the one job of each node that answered.
fn stands(looks: &Value) -> Vec<(String, u64)> {
    let nodes = looks["nodes"].as_array().expect("nodes is a list");
    let jobs = nodes.iter().filter_map(|node| node["jobs"].as_array());
    jobs.flatten()
        .map(|job| (job["state"].as_str().unwrap_or("?").into(), job["trials"].as_u64().unwrap_or(0)))
        .collect()
}

fn runs(nodes: &Nodes, store: &Path) -> Vec<Value> {
    let mut command = nodes.nearfar(&["show", "--runs", "--format", "json"]);
    command.arg("--store").arg(store);
    let shown = json(command, 0);
    shown["runs"].as_array().expect("runs is a list").clone()
}

#[test]
fn a_node_is_lost_and_comes_back_and_every_trial_is_there_once() {
    let Some(mut nodes) = nodes::start(&["node-a", "node-b", "node-c"], "a fleet over ssh") else { return };
    let sim = prepare(&nodes);
    let file = experiment(&nodes).display().to_string();
    let run = |rest: &[&str]| {
        let words = ["--name", JOB, "--format", "json", "--patience", "1s"];
        let words: Vec<&str> =
            [&file[..]].into_iter().chain(words).chain(rest.iter().copied()).chain(["--", "--sim", &sim]).collect();
        words.iter().map(|word| (*word).to_string()).collect::<Vec<String>>()
    };
    let fleet_run = |nodes: &Nodes, rest: &[&str]| {
        let words = run(rest);
        nodes.fleet("run", ALL, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };

    // The coordinator dies in the middle, and nobody notices.
    let mut coordinator = fleet_run(&nodes, &[]).spawn().expect("the program starts");
    let pids = nodes.freeze(JOB, 100_000);
    let children = nodes::descendants(coordinator.id());
    assert_eq!(children.len(), 3, "one ssh for each node");
    coordinator.kill().expect("it runs");
    coordinator.wait().expect("it was killed");
    children.iter().for_each(|ssh| signal("KILL", *ssh));
    let looks = json(nodes.fleet("status", ALL, &["--format", "json"]), 0);
    let frozen = stands(&looks);
    // Stopped processes are what the kernel hangs up when nobody is left who could wake them.
    assert!(frozen.iter().all(|(state, trials)| state == "running" && *trials > 0 && *trials < TRIALS), "{looks}");
    assert_eq!(frozen.len(), 3);

    // Another one finds the same processes; one node loses its power.
    let mut again = fleet_run(&nodes, &[]).spawn().expect("the program starts");
    let limit = nodes::Limit::on(&again);
    let mut says = BufReader::new(again.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let found: Vec<String> = says.by_ref().filter(|line| line.starts_with("node-")).take(3).collect();
    assert!(found.len() == 3 && found.iter().all(|line| line.contains("queens @ ")), "{found:?}");
    assert_eq!(nodes.nodes.iter().map(|node| node.runner(JOB)).collect::<Option<Vec<u32>>>(), Some(pids.clone()));
    nodes.nodes[1].power_off(pids[1]);
    [0, 2].iter().for_each(|node| signal("CONT", pids[*node]));
    let said: Vec<String> = says.collect();
    let lost = again.wait_with_output().expect("it ends");
    drop(limit);
    assert_eq!(lost.status.code(), Some(1), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("node-b  away: ")), "{said:?}");
    let named = |line: &String| line.starts_with("nearfar: node-b: ssh: connect to host 127.0.0.1");
    assert!(said.iter().any(named), "{said:?}");
    let looks: Value = serde_json::from_slice(&lost.stdout).expect("it prints JSON");
    assert_eq!(stands(&looks), [("ended".to_string(), TRIALS), ("ended".to_string(), TRIALS)]);

    // The others are collected, as often as one likes.
    for trials in [TRIALS, 0] {
        let collected = json(nodes.fleet("collect", ALL, &["--format", "json"]), 1);
        let added = |node: usize| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64();
        assert_eq!((added(0), added(1), added(2)), (Some(trials), None, Some(trials)), "{collected}");
        assert!(collected["nodes"][1]["problem"].as_str().is_some_and(|what| what.contains("refused")), "{collected}");
    }

    // It comes back with what it had, and goes on; nothing is begun anew anywhere.
    let shared = nodes.folder.path().to_path_buf();
    nodes.nodes[1].serve(&shared);
    nodes.write_configuration("user", true);
    let looks = json(nodes.fleet("status", "node-b", &["--format", "json"]), 0);
    let back = stands(&looks);
    let [(state, kept)] = &back[..] else { panic!("one job of one node: {looks}") };
    // What it was storing when it was stopped may be in SQLite's log already and not yet in the index of it by which others read;
    // without the power that index is made anew, from the log.
    assert!(state == "stopped" && [0, 1].contains(&kept.wrapping_sub(frozen[1].1)), "{}, {looks}", frozen[1].1);
    let part = json(nodes.fleet("collect", ALL, &["--format", "json"]), 0);
    assert_eq!(part["nodes"][1]["jobs"][0]["trials_added"], *kept, "{part}");
    let looks = json(fleet_run(&nodes, &[]), 0);
    assert_eq!(stands(&looks), vec![("ended".to_string(), TRIALS); 3], "{looks}");
    let started = |node: usize| looks["nodes"][node]["jobs"][0]["started"].as_bool();
    assert_eq!((started(0), started(1), started(2)), (Some(false), Some(true), Some(false)));
    let rest = json(nodes.fleet("collect", ALL, &["--format", "json"]), 0);
    let added = |node: usize| rest["nodes"][node]["jobs"][0]["trials_added"].as_u64();
    assert_eq!((added(0), added(1), added(2)), (Some(0), Some(TRIALS - kept), Some(0)), "{rest}");
    assert!(!nodes.folder.path().join("pwned").exists());
    is_as_without_a_fleet(&nodes);
    it_can_be_compared(&nodes);
}

/// What was brought together is, byte by byte, what each machine would have measured alone and undisturbed.
fn is_as_without_a_fleet(nodes: &Nodes) {
    let here = nodes.folder.path().join("here.db");
    assert_eq!(runs(nodes, &here).len(), 3);
    let file = experiment(nodes).display().to_string();
    for node in &nodes.nodes {
        let alone = nodes.folder.path().join(format!("{}-alone.db", node.name));
        let sim = nodes.folder.path().join(format!("{}.xml:7", node.name)).display().to_string();
        let mut measured = nodes.nearfar(&["run", &file, "--sim", &sim, "--host-label", &node.name, "--quiet"]);
        measured.arg("--store").arg(&alone);
        assert!(output(measured).status.success());
        let id = runs(nodes, &alone)[0]["id"].as_str().expect("runs have ids").to_string();
        for what in [&["--trials"][..], &[]] {
            let shown = |store: &Path| {
                let mut command = nodes.nearfar(&["show", &id, "--format", "json"]);
                command.args(what).arg("--store").arg(store);
                let mut shown = json(command, 0);
                // The experiment lay elsewhere.
                shown.as_object_mut().expect("an object").remove("command");
                shown
            };
            assert!(shown(&here) == shown(&alone), "{}: {what:?}", node.name);
        }
    }
}

fn it_can_be_compared(nodes: &Nodes) {
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
    let all: Vec<String> = runs(nodes, &nodes.folder.path().join("here.db"))
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
    self::postgres::it_is_the_same_on_a_server(nodes);
    #[cfg(feature = "parquet")]
    it_is_the_same_in_exported_files(nodes);
}

#[cfg(feature = "parquet")]
fn it_is_the_same_in_exported_files(nodes: &Nodes) {
    let exported = output(nodes.nearfar(&["export", "--format", "parquet", "--to", "parquet", "--all"]));
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    assert_eq!(text(&exported.stderr).lines().count(), 3, "{}", text(&exported.stderr));
    // Simulated machines begin in the same millisecond, and files do not know what came first into the results file.
    let runs = runs(nodes, &nodes.folder.path().join("here.db"));
    let mut compare = vec!["compare", "--by", "host", "--format", "json"];
    compare.extend(runs.iter().filter_map(|run| run["id"].as_str()));
    let asked = output(nodes.nearfar(&[&compare[..], &["--from", "parquet:parquet"]].concat()));
    if asked.status.code() == Some(77) {
        return println!("skipped: a fleet's runs compared in Parquet: {}", text(&asked.stderr).trim());
    }
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    assert_eq!(text(&asked.stdout), text(&output(nodes.nearfar(&compare)).stdout));
}

/// A program on the node that is not this nearfar.
fn script(nodes: &Nodes, name: &str, lines: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = nodes.folder.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("the folder can be written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it was just written");
    format!("--program={}", path.display())
}

#[test]
fn what_is_wrong_with_a_node_is_said_with_its_name() {
    let Some(nodes) = nodes::start(&["node-a"], "mistakes over ssh") else { return };
    let real = env!("CARGO_BIN_EXE_nearfar");
    let old = script(
        &nodes,
        "old",
        "[ \"$1\" = --version ] && echo nearfar 0.0.1 && exit\necho \"error: unrecognized subcommand '$1'\" >&2; exit 2",
    );
    let newer =
        script(&nodes, "newer", "cat >/dev/null; echo '{\"protocol\":7,\"program\":\"9.9.9\",\"answer\":\"new\"}'");
    let older = script(
        &nodes,
        "older",
        "cat >/dev/null; echo '{\"program\":\"0.1.0\",\"unix_ms\":1,\"answer\":{\"looks\":[]}}'",
    );
    let other = script(&nodes, "other", "cat >/dev/null; echo hello; exit 3");
    let steers = script(&nodes, "steers", "cat >/dev/null; printf '\\033[2Jboo\\n' >&2; exit 3");
    let greets = script(&nodes, "greets", &format!("echo 'Welcome to node-a!'; exec {real} \"$@\""));
    let cut = script(&nodes, "cut", &format!("{real} \"$@\" | head -c 20"));
    let plain = script(&nodes, "plain", "");
    std::fs::remove_file(nodes.folder.path().join("plain")).expect("it was just written");
    let cases: &[(&str, &[&str], i32, &str)] = &[
        ("refused", &[], 1, "nearfar: refused: ssh: connect to host 127.0.0.1 port 1: Connection refused\nhint: "),
        ("unresolved", &[], 2, "nearfar: unresolved: ssh: Could not resolve hostname nowhere.invalid"),
        ("node-a", &[&plain], 77, "nearfar: node-a: there is no program "),
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
        ("node-a", &[&steers], 1, "exit status: 3:  [2Jboo"),
        ("node-a", &[&cut], 1, "nearfar: node-a: nearfar ended without a response"),
        ("node-a", &[&greets], 0, ""),
        ("node-a,refused", &[], 1, "nearfar: refused: ssh: "),
        ("node-a", &["--ssh-option=-o", "--ssh-option=NoSuchOption=1"], 1, "node-a: "),
    ];
    for (node, rest, status, expected) in cases {
        let said = output(nodes.fleet("status", node, rest));
        let (out, said) = (text(&said.stdout), (said.status.code(), text(&said.stderr)));
        assert_eq!(said.0, Some(*status), "{node} {rest:?}: {}", said.1);
        assert!(said.1.contains(expected), "{node} {rest:?}: {}", said.1);
        assert!(out.starts_with("node "), "{out}");
    }
    for (key, known, expected) in [
        ("stranger", true, "Permission denied (publickey).\nhint: install a key that needs no prompt"),
        ("user", false, "node-a: its host key is unknown\nhint: log in once by hand"),
    ] {
        nodes.write_configuration(key, known);
        let said = output(nodes.fleet("collect", "node-a", &[]));
        assert_eq!(said.status.code(), Some(5), "{}", text(&said.stderr));
        assert!(text(&said.stderr).contains(expected), "{}", text(&said.stderr));
    }
    assert!(!nodes.folder.path().join("pwned").exists());
}

#[test]
fn a_nodes_own_refusal_is_passed_on() {
    let Some(nodes) = nodes::start(&["node-a"], "refusals over ssh") else { return };
    let run = |words: &[&str]| {
        let words: Vec<&str> = ["quick", "--name", "x", "--"].into_iter().chain(words.iter().copied()).collect();
        output(nodes.fleet("run", "node-a", &words))
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
    // A label of one's own, with all that a shell would like, is one word.
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
    let pwned = |folder: &Path| folder.join("pwned").exists();
    assert!(!pwned(nodes.folder.path()) && !std::env::home_dir().is_some_and(|home| pwned(&home)));
}

/// The same simulated machine with the same seed, begun at the same simulated moment.
#[test]
fn machines_that_are_alike_have_runs_of_their_own() {
    let Some(nodes) = nodes::start(&["node-a", "node-b"], "nodes that are alike") else { return };
    let words = ["quick", "--quiet", "--", "--sim", "pu:2:1", "--budget", "1s"];
    let ended = output(nodes.fleet("run", "node-a,node-b", &words));
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let collected = json(nodes.fleet("collect", "node-a,node-b", &["--format", "json"]), 0);
    for node in [0, 1] {
        let job = &collected["nodes"][node]["jobs"][0];
        assert_eq!((&job["runs_added"], &job["left_out"]), (&1.into(), &Value::Array(Vec::new())), "{collected}");
    }
}

/// Needs no node: nobody is asked.
#[test]
fn mistakes_are_told_before_a_node_is_asked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let cases: &[(&[&str], &str)] = &[
        (&["run", "quick"], "--on <ssh:HOST,...|slurm[:PARTITION]|kubernetes[:NODE,...|:LABEL=VALUE,...]>"),
        (&["run", "quick", "--on", "a,b"], "no engine in 'a,b': use ssh:HOST,HOST, slurm:PARTITION or kubernetes:"),
        (&["run", "quick", "--on", "ssh:-oProxyCommand=touch pwned"], "invalid node name '"),
        (&["run", "quick", "--on", "ssh:a;touch pwned"], "invalid node name '"),
        (&["run", "quick", "--on", "ssh:a,a"], "node a is named twice"),
        (&["run", "quick", "--on", "ssh:a", "--name", "../x"], "invalid job name '"),
        (&["collect", "--on", "ssh:a", "../x"], "invalid job name '"),
        (&["run", "nosuch", "--on", "ssh:a"], "no experiment 'nosuch'"),
        (&["run", "quick", "--on", "ssh:a", "--", "--smok"], "node options: unexpected argument '--smok'"),
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
        // No ssh is found here: whoever asked a node would say so.
        command.arg("fleet").args(*args).current_dir(folder.path()).env("PATH", "").env_remove("NEARFAR_STORE");
        let said = output(command);
        assert_eq!(said.status.code(), Some(2), "{args:?}: {}", text(&said.stderr));
        assert!(text(&said.stderr).contains(expected), "{args:?}: {}", text(&said.stderr));
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["fleet", "status", "--on", "ssh:a"]).env("PATH", "");
    let said = output(command);
    assert_eq!(said.status.code(), Some(1));
    assert!(
        text(&said.stderr).contains("nearfar: a: there is no program ssh on this machine\nhint: install ssh"),
        "{}",
        text(&said.stderr)
    );
}
