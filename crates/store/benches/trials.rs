//! Time to store a trial and to load a run of 100 000 samples, on the disk of the temporary directory (`TMPDIR`). Run
//! with `cargo bench -p store`; the tests run it with a minimal size. With `-- --into FILE --trials N` it only writes a
//! results file with a run of N trials, for `scripts/bench-memory`.

use std::path::Path;
use std::time::{Duration, Instant};

use store::Store;

#[path = "../tests/store/fixtures.rs"]
mod fixtures;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test` does not.
    let full = std::env::args().any(|argument| argument == "--bench");
    let value = |name: &str| std::env::args().skip_while(|argument| argument != name).nth(1);
    let trials = value("--trials").map(|trials| trials.parse().expect("--trials needs a number"));
    let trials: u32 = trials.unwrap_or(if full { 10_000 } else { 20 });
    if let Some(file) = value("--into") {
        return fill(Path::new(&file), trials);
    }
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

/// Writes a run with this many trials of one sample per series.
fn fill(file: &Path, trials: u32) {
    let mut store = Store::open(file).expect("creates a new file");
    let run = fixtures::run("0123456789abcdef", 1);
    store.begin_run(&run).expect("a new file has no runs");
    for position in 0..trials {
        store.add_trial(&run.id, &fixtures::trial(&run, position, 4)).expect("positions differ");
    }
}
