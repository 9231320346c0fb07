//! Collecting the results of nodes into a PostgreSQL server, concurrently from several processes.

use std::path::Path;
use std::process::Command;

use crate::nodes::{self, Nodes, json};
use crate::server::{self, DATABASE, PASSWORD};

fn with_store(mut command: Command, store: &Path) -> Command {
    command.arg("--store").arg(store);
    command
}

fn collect_command(nodes: &Nodes, store: &Path) -> Command {
    with_store(nodes.fleet("collect", "node-a,node-b", &["--format", "json"]), store)
}

#[test]
fn concurrent_collects_store_each_trial_once_in_postgres() {
    let Some(nodes) = nodes::start(&["node-a", "node-b"], "a fleet's results in PostgreSQL") else { return };
    let Some(server) = server::start("a fleet's results in PostgreSQL") else { return };
    let sim = ["--name", "job", "--format", "json", "--", "--sim", "pack:2 [numa] core:2 pu:2:7"];
    let args: Vec<&str> = ["quick"].into_iter().chain(sim).collect();
    let ended = json(nodes.fleet("run", "node-a,node-b", &args), 0);
    let trials: u64 = (0..2).filter_map(|node| ended["nodes"][node]["jobs"][0]["trials"].as_u64()).sum();
    assert!(trials > 20, "{ended}");

    let url = server.url();
    let outputs: Vec<serde_json::Value> = std::thread::scope(|scope| {
        let collect = || scope.spawn(|| json(collect_command(&nodes, &url), 0));
        let threads: Vec<_> = (0..3).map(|_| collect()).collect();
        threads.into_iter().map(|thread| thread.join().expect("the command succeeds")).collect()
    });
    let sum = |key: &str| -> u64 {
        let count = |output: &serde_json::Value, node: usize| output["nodes"][node]["jobs"][0][key].as_u64();
        outputs.iter().flat_map(|output| [count(output, 0), count(output, 1)]).flatten().sum()
    };
    assert_eq!((sum("trials_added"), sum("trials_present")), (trials, 2 * trials), "{outputs:?}");
    let count = server.sql(DATABASE, "SELECT count(*), count(DISTINCT (run, id)) FROM nearfar.trial");
    assert_eq!(count, format!("{trials}|{trials}"));
    json(nodes.fleet("collect", "node-a,node-b", &["--format", "json"]), 0);
    for args in
        [&["compare", "--by", "host", "--format", "json"][..], &["compare", "--by", "placement", "--format", "json"]]
    {
        let from_file = json(nodes.nearfar(args), 0);
        assert_eq!(json(with_store(nodes.nearfar(args), &url), 0), from_file);
    }
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("the directory exists").flatten();
    let remaining: Vec<_> = entries
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with("nearfar.collect-"))
        .collect();
    assert!(remaining.iter().all(|name| has_live_owner(&name.to_string_lossy())), "{remaining:?}");

    let wrong = server.url_of(server::OWNER, "wrong-one", DATABASE);
    let output = nodes::output(collect_command(&nodes, &wrong));
    let stderr = nodes::text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("password authentication failed"), "{stderr}");
    assert!(!stderr.contains(PASSWORD) && !stderr.contains("wrong-one"), "{stderr}");
}

/// Collects the results of all nodes into a new server twice; commands then print the same as with a results file.
pub fn assert_same_on_postgres(nodes: &Nodes) {
    let Some(server) = server::start("three nodes' results in PostgreSQL") else { return };
    // The last inserted run is the latest, so the results file of the comparison must be collected in the same order.
    let (url, file) = (server.url(), nodes.dir.path().join("again.db"));
    let collect = |store: &Path| json(with_store(nodes.fleet("collect", super::ALL, &["--format", "json"]), store), 0);
    collect(&file);
    for trials in [super::TRIALS, 0] {
        let output = collect(&url);
        let added = |node: usize| output["nodes"][node]["jobs"][0]["trials_added"].as_u64();
        assert_eq!((added(0), added(1), added(2)), (Some(trials), Some(trials), Some(trials)), "{output}");
    }
    let count = server.sql(DATABASE, "SELECT count(*), count(DISTINCT (run, id)) FROM nearfar.trial");
    assert_eq!(count, format!("{0}|{0}", 3 * super::TRIALS));
    for args in [
        &["compare", "--by", "host", "--format", "json"][..],
        &["fleet", "compare", "--format", "json"],
        &["report", "--output", "-"],
    ] {
        let from = |store: &Path| nodes::output(with_store(nodes.nearfar(args), store));
        let (from_file, from_server) = (from(&file), from(&url));
        assert!(from_server.status.success(), "{args:?}: {}", nodes::text(&from_server.stderr));
        assert!(from_file.stdout == from_server.stdout, "{args:?}");
    }
}

/// Whether the process that the name of a temporary file ends with is running: another user may be collecting.
fn has_live_owner(name: &str) -> bool {
    name.rsplit('-').next().is_some_and(|pid| Path::new("/proc").join(pid).exists())
}
