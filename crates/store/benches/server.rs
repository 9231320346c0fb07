//! Time to merge a results file of 100 000 samples into a PostgreSQL server on this machine, compared with a merge into
//! a file, and to load it again. Run with `cargo bench -p store --features postgres --bench server`; the tests run it
//! with a minimal size.

use std::path::Path;
use std::time::{Duration, Instant};

use store::Store;

#[path = "../tests/store/fixtures.rs"]
mod fixtures;
#[path = "../tests/store/postgres/server.rs"]
#[allow(dead_code)] // used by tests
mod server;

/// Repetitions, because the server and the disk are not always idle.
const ROUNDS: u32 = 5;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test` does not.
    let full = std::env::args().any(|argument| argument == "--bench");
    let trials: u32 = if full { 10_000 } else { 20 };
    let Some(server) = server::start("server benchmark") else { return };
    let directory = tempfile::tempdir().expect("creates a temporary directory");
    let file = directory.path().join("results.db");
    let run = fixtures::run("0123456789abcdef", 1);
    let mut source = Store::open(&file).expect("creates a new file");
    source.begin_run(&run).expect("a new file has no runs");
    for position in 0..trials {
        source.add_trial(&run.id, &fixtures::trial(&run, position, 10)).expect("positions differ");
    }
    let mut times = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        server.create(&format!("round{round}"));
        let stores = [
            directory.path().join(format!("round{round}.db")),
            server.url_of(server::OWNER, server::PASSWORD, &format!("round{round}")),
        ];
        for (which, store) in stores.iter().enumerate() {
            times[which].push(merge(store, &file, trials));
            times[which + 2].push(load(store, trials));
        }
    }
    let [file_takes, server_takes, file_loads, server_loads] = times.map(median);
    let ratio = |server: Duration, file: Duration| server.as_secs_f64() / file.as_secs_f64();
    let samples = trials * 10;
    println!(
        "import {samples} samples: file {file_takes:?}, server {server_takes:?}, ratio {:.2}",
        ratio(server_takes, file_takes)
    );
    println!(
        "load {samples} samples: file {file_loads:?}, server {server_loads:?}, ratio {:.2}",
        ratio(server_loads, file_loads)
    );
    let mut store = Store::open(&server.url()).expect("created with the server");
    store.begin_run(&run).expect("it has no runs");
    let commits = (0..trials.min(1000)).map(|position| {
        let trial = fixtures::trial(&run, position, 10);
        let begin = Instant::now();
        store.add_trial(&run.id, &trial).expect("positions differ");
        begin.elapsed()
    });
    println!("store one trial of 10 samples on the server: median {:?}", median(commits.collect()));
}

fn merge(store: &Path, file: &Path, trials: u32) -> Duration {
    let mut store = Store::open(store).expect("creates new results");
    let begin = Instant::now();
    let report = store.merge(file).expect("the target is empty");
    let took = begin.elapsed();
    assert_eq!(report.trials_added, trials as usize);
    took
}

fn load(store: &Path, trials: u32) -> Duration {
    let store = Store::open_existing(store).expect("created above");
    let run = store.run("latest").expect("it has one").id;
    let begin = Instant::now();
    let loaded = store.trials(&run).expect("what was stored can be read").len();
    assert_eq!(loaded, trials as usize);
    begin.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
