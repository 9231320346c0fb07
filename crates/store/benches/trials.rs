//! Time to store a trial and to load a run of 100 000 samples, on the disk of the temporary directory (`TMPDIR`). Run
//! with `cargo bench -p store`; the tests run it with a minimal size.

use std::time::{Duration, Instant};

use store::Store;

#[path = "../tests/store/fixtures.rs"]
mod fixtures;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test` does not.
    let full = std::env::args().any(|argument| argument == "--bench");
    let trials: u32 = if full { 10_000 } else { 20 };
    let directory = tempfile::tempdir().expect("creates a temporary directory");
    let mut store = Store::open(&directory.path().join("results.db")).expect("creates a new file");
    let run = fixtures::run("0123456789abcdef", 1);
    store.begin_run(&run).expect("a new file has no runs");

    let mut commits: Vec<Duration> = Vec::new();
    for position in 0..trials {
        let trial = fixtures::trial(&run, position, 10);
        let begin = Instant::now();
        store.add_trial(&run.id, &trial).expect("positions differ");
        commits.push(begin.elapsed());
    }
    commits.sort();
    let (middle, worst) = (commits[commits.len() / 2], commits[commits.len() - 1]);
    let tail = commits[commits.len() * 99 / 100];
    println!("store one trial of 10 samples: median {middle:?}, 99th percentile {tail:?}, longest {worst:?}");

    let begin = Instant::now();
    let loaded = store.trials(&run.id).expect("what was stored can be read");
    println!("load {} trials of 10 samples: {:?}", loaded.len(), begin.elapsed());
    let begin = Instant::now();
    let ids = store.trial_ids(&run.id).expect("what was stored can be read").len();
    println!("load {ids} ids: {:?}", begin.elapsed());
    let bytes = std::fs::metadata(store.path()).map_or(0, |file| file.len());
    println!("{bytes} bytes");
    assert_eq!((loaded.len(), ids), (trials as usize, trials as usize));
}
