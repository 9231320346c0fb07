//! `kill -9` at any moment: acknowledged trials are stored, stored trials are complete, and no trial is stored twice.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;

use store::Store;

use crate::child::{acknowledged, samples, writer};
use crate::fixtures;

const RUN: &str = "00000000000000aa";
const ROUNDS: u64 = 48;
const TRIALS: u32 = 600;

#[test]
fn a_killed_writer_leaves_whole_trials_and_loses_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut known = BTreeSet::new();
    let mut unacknowledged = 0;
    for round in 0..ROUNDS {
        let acknowledged = write_and_kill(&path, round, &known);
        let stored = check(&path);
        let lost: Vec<&u32> = known.union(&acknowledged).filter(|position| !stored.contains(position)).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged trials {lost:?} are missing");
        unacknowledged += stored.difference(&known).filter(|position| !acknowledged.contains(position)).count();
        known = stored;
    }
    eprintln!("{} trials over {ROUNDS} kills, {unacknowledged} stored but not yet acknowledged", known.len());
    assert!(known.len() > 20, "the writer was always killed too early, so the test is inconclusive");
    assert!(writer(&path, RUN, TRIALS).wait_with_output().unwrap().status.success());
    assert_eq!(check(&path).len(), TRIALS as usize, "the resumed run is complete");
}

/// Lets a writer store some trials and kills it at a moment that differs between rounds: after some number of new
/// trials (or before it has opened the file) and some thousands of instructions.
fn write_and_kill(path: &Path, round: u64, known: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut child = writer(path, RUN, TRIALS);
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let random = model::values::plan::stream(round, "kill");
    let count = (random % 8) as usize;
    let mut stored = BTreeSet::new();
    while stored.difference(known).count() < count {
        let Some(line) = output.next() else { break };
        stored.extend(acknowledged(&line.unwrap()));
    }
    for spin in 0..(random >> 32) % 400_000 {
        std::hint::black_box(spin);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Trials acknowledged before the kill but read after it count as stored too.
    stored.extend(output.map_while(Result::ok).filter_map(|line| acknowledged(&line)));
    stored
}

/// The positions of the stored trials, after comparing each trial with the expected one.
fn check(path: &Path) -> BTreeSet<u32> {
    let store = Store::open(path).unwrap();
    store.check().unwrap();
    let run = fixtures::run(RUN, 7);
    if store.runs().unwrap().is_empty() {
        return BTreeSet::new();
    }
    let trials = store.trials(&run.id).unwrap();
    for trial in &trials {
        assert_eq!(*trial, fixtures::trial(&run, trial.position, samples(trial.position)));
    }
    let positions: BTreeSet<u32> = trials.iter().map(|trial| trial.position).collect();
    assert_eq!(positions.len(), trials.len());
    positions
}

#[test]
fn two_processes_can_create_and_write_one_file() {
    for _ in 0..4 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/by/both/results.db");
        let names = ["00000000000000aa", "00000000000000bb", "00000000000000cc"];
        let children: Vec<_> = names.iter().map(|run| writer(&path, run, 40)).collect();
        for child in children {
            assert!(child.wait_with_output().unwrap().status.success());
        }
        let store = Store::open_existing(&path).unwrap();
        for name in names {
            let run = fixtures::run(name, 7);
            let expected: Vec<_> = (0..40).map(|position| fixtures::trial(&run, position, samples(position))).collect();
            assert!(store.trials(&run.id).unwrap() == expected, "{name}");
        }
    }
}
