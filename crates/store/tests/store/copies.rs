//! A copy is a consistent snapshot, also with concurrent writers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

use store::{Store, StoreError};

use crate::child::{acknowledged, writer};
use crate::fixtures;

const RUN: &str = "00000000000000bb";

#[test]
fn copy_during_writes_is_consistent_and_can_be_merged_repeatedly() {
    let directory = tempfile::tempdir().unwrap();
    let [path, here] = ["results.db", "here.db"].map(|name| directory.path().join(name));
    let mut child = writer(&path, RUN, 600);
    let mut acks = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut here = Store::open(&here).unwrap();
    let mut seen = BTreeSet::new();
    for round in 0..3 {
        // Every trial acknowledged before the copy is in it.
        let known: BTreeSet<u32> = acks.by_ref().filter_map(|line| acknowledged(&line)).take(20).collect();
        let copy = directory.path().join(format!("copy-{round}.db"));
        Store::open_existing(&path).unwrap().copy_to(&copy).unwrap();
        assert!(!copy.with_extension("db-wal").exists(), "one file");
        let of_copy = Store::open_existing(&copy).unwrap();
        of_copy.check().unwrap();
        let run = of_copy.run(RUN).unwrap();
        let stored: BTreeSet<u32> = of_copy.trials(&run.id).unwrap().iter().map(|trial| trial.position).collect();
        assert!(known.is_subset(&stored), "round {round}");
        let before = seen.len();
        seen.extend(stored);
        assert_eq!(here.merge(&copy).unwrap().trials_added, seen.len() - before);
        assert_eq!(here.merge(&copy).unwrap().trials_added, 0);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen.len() >= 60);
}

#[test]
fn existing_file_is_not_overwritten_by_a_copy() {
    let directory = tempfile::tempdir().unwrap();
    let [path, existing, nowhere] =
        ["results.db", "precious", "no/such/copy.db"].map(|name| directory.path().join(name));
    let mut store = Store::open(&path).unwrap();
    store.begin_run(&fixtures::run(RUN, 1)).unwrap();
    std::fs::write(&existing, "text").unwrap();
    store.copy_to(&existing).unwrap_err();
    assert_eq!(std::fs::read(&existing).unwrap(), b"text");
    assert!(matches!(store.copy_to(&nowhere), Err(StoreError::CannotOpen { .. })));
}
