//! Starts this test program again as a separate writer process that tests can kill.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use store::{Store, StoreError};

use crate::fixtures;

const PATH: &str = "NEARFAR_TEST_STORE";
const RUN: &str = "NEARFAR_TEST_RUN";
const TRIALS: &str = "NEARFAR_TEST_TRIALS";
/// Prefix of the lines by which a writer acknowledges a stored trial.
const STORED: &str = "stored ";

/// A process that stores the missing ones of the first `trials` trials of a run and acknowledges each.
pub fn writer(path: &Path, run: &str, trials: u32) -> Child {
    again("child::write")
        .env(PATH, path)
        .env(RUN, run)
        .env(TRIALS, trials.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// This program, limited to one of its tests.
pub fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

/// The file that a parent test passes. `None` in an ordinary test run.
pub fn given_path() -> Option<PathBuf> {
    std::env::var_os(PATH).map(PathBuf::from)
}

/// The position of the trial that a line of a writer's output acknowledges.
pub fn acknowledged(line: &str) -> Option<u32> {
    line.strip_prefix(STORED)?.parse().ok()
}

/// The number of samples: from none to more than an SQLite page, so that kills hit transactions of all lengths.
pub fn samples(position: u32) -> usize {
    (position as usize * 37) % 900
}

/// Not a test: the process that [`writer`] starts.
#[test]
fn write() {
    let Some(path) = given_path() else { return };
    let run = fixtures::run(&std::env::var(RUN).unwrap(), 7);
    let trials: u32 = std::env::var(TRIALS).unwrap().parse().unwrap();
    let mut store = Store::open(&path).unwrap();
    match store.begin_run(&run) {
        Ok(()) | Err(StoreError::RunAlreadyStored { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    println!();
    let stored = store.trial_ids(&run.id).unwrap();
    for position in 0..trials {
        let trial = fixtures::trial(&run, position, samples(position));
        if !stored.contains(&trial.trial.id) {
            store.add_trial(&run.id, &trial).unwrap();
        }
        println!("{STORED}{position}");
    }
}
