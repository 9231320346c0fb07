//! What nodes have stored goes into a PostgreSQL server, from several collectors at the same time.

use std::path::Path;
use std::process::Command;

use crate::nodes::{self, Nodes, json};
use crate::server::{self, DATABASE, PASSWORD};

/// A fleet's command with another store than the file here.
fn with_store(mut command: Command, store: &Path) -> Command {
    command.arg("--store").arg(store);
    command
}

fn collected(nodes: &Nodes, store: &Path) -> Command {
    with_store(nodes.fleet("collect", "node-a,node-b", &["--format", "json"]), store)
}

#[test]
fn several_collect_into_one_postgres_server_and_every_trial_is_there_once() {
    let Some(nodes) = nodes::start(&["node-a", "node-b"], "a fleet's results in PostgreSQL") else { return };
    let Some(server) = server::start("a fleet's results in PostgreSQL") else { return };
    let sim = ["--name", "job", "--format", "json", "--", "--sim", "pack:2 [numa] core:2 pu:2:7"];
    let words: Vec<&str> = ["quick"].into_iter().chain(sim).collect();
    let ended = json(nodes.fleet("run", "node-a,node-b", &words), 0);
    let trials: u64 = (0..2).filter_map(|node| ended["nodes"][node]["jobs"][0]["trials"].as_u64()).sum();
    assert!(trials > 20, "{ended}");

    let url = server.url();
    let all: Vec<serde_json::Value> = std::thread::scope(|scope| {
        let collect = || scope.spawn(|| json(collected(&nodes, &url), 0));
        let all: Vec<_> = (0..3).map(|_| collect()).collect();
        all.into_iter().map(|one| one.join().expect("it ends")).collect()
    });
    let sum = |what: &str| -> u64 {
        let of = |one: &serde_json::Value, node: usize| one["nodes"][node]["jobs"][0][what].as_u64();
        all.iter().flat_map(|one| [of(one, 0), of(one, 1)]).flatten().sum()
    };
    assert_eq!((sum("trials_added"), sum("trials_present")), (trials, 2 * trials), "{all:?}");
    let count = server.sql(DATABASE, "SELECT count(*), count(DISTINCT (run, id)) FROM nearfar.trial");
    assert_eq!(count, format!("{trials}|{trials}"));
    json(nodes.fleet("collect", "node-a,node-b", &["--format", "json"]), 0);
    for args in
        [&["compare", "--by", "host", "--format", "json"][..], &["compare", "--by", "placement", "--format", "json"]]
    {
        let here = json(nodes.nearfar(args), 0);
        assert_eq!(json(with_store(nodes.nearfar(args), &url), 0), here);
    }
    let left = std::fs::read_dir(std::env::temp_dir()).expect("it is there").flatten();
    let left: Vec<_> = left
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with("nearfar.collect-"))
        .collect();
    assert!(left.iter().all(|name| is_of_a_process(&name.to_string_lossy())), "{left:?}");

    let wrong = server.url_of(server::OWNER, "wrong-one", DATABASE);
    let output = nodes::output(collected(&nodes, &wrong));
    let said = nodes::text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("password authentication failed") && !said.contains(PASSWORD) && !said.contains("wrong-one"),
        "{said}"
    );
}

/// What all nodes have stored, collected into a server of its own, again and again, and looked at there.
pub fn it_is_the_same_on_a_server(nodes: &Nodes) {
    let Some(server) = server::start("three nodes' results in PostgreSQL") else { return };
    // The latest run is the last that came, so the file that it is compared with is collected anew too.
    let (url, file) = (server.url(), nodes.folder.path().join("again.db"));
    let collect = |store: &Path| json(with_store(nodes.fleet("collect", super::ALL, &["--format", "json"]), store), 0);
    collect(&file);
    for trials in [super::TRIALS, 0] {
        let collected = collect(&url);
        let added = |node: usize| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64();
        assert_eq!((added(0), added(1), added(2)), (Some(trials), Some(trials), Some(trials)), "{collected}");
    }
    let count = server.sql(DATABASE, "SELECT count(*), count(DISTINCT (run, id)) FROM nearfar.trial");
    assert_eq!(count, format!("{0}|{0}", 3 * super::TRIALS));
    for args in [
        &["compare", "--by", "host", "--format", "json"][..],
        &["fleet", "compare", "--format", "json"],
        &["report", "--output", "-"],
    ] {
        let from = |store: &Path| nodes::output(with_store(nodes.nearfar(args), store));
        let (here, there) = (from(&file), from(&url));
        assert!(there.status.success(), "{args:?}: {}", nodes::text(&there.stderr));
        assert!(here.stdout == there.stdout, "{args:?}");
    }
}

/// Somebody else may collect at this moment.
fn is_of_a_process(name: &str) -> bool {
    name.rsplit('-').next().is_some_and(|pid| Path::new("/proc").join(pid).exists())
}
