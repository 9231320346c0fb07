//! The server dies while clients write: confirmed trials are stored, and the others are stored once after a retry.

use model::hint::Hinted;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::mpsc;

use store::{Store, StoreError};

use super::{content, file, server};
use crate::fixtures;

const TRIALS: u32 = 600;

#[test]
fn server_killed_during_a_merge_has_all_or_nothing() {
    let Some(mut server) = server::start("server killed during a merge") else { return };
    let directory = tempfile::tempdir().unwrap();
    let runs = [fixtures::run("aa", 1), fixtures::run("bb", 2)];
    let first = file(directory.path(), "first.db", &[(&runs[0], 30)], 10);
    let second = file(directory.path(), "second.db", &[(&runs[1], 40)], 50);
    let url = server.url();
    Store::open(&url).unwrap().merge(&first).unwrap();
    let before = content(&Store::open_existing(&url).unwrap());

    // An open transaction reads the samples, so the merge blocks there.
    let hold = "BEGIN; LOCK TABLE nearfar.sample IN SHARE MODE; SELECT pg_sleep(1000)";
    let mut reader = server.psql(server::OWNER, server::PASSWORD, server::DATABASE);
    let mut reader = reader.args(["-c", hold]).stderr(Stdio::null()).spawn().unwrap();
    server.until("SELECT count(*) FROM pg_locks WHERE relation = 'nearfar.sample'::regclass AND granted", "1");
    let merging = std::thread::spawn({
        let (url, second) = (url.clone(), second.clone());
        move || Store::open(&url).unwrap().merge(&second)
    });
    server.until("SELECT count(*) FROM pg_locks WHERE relation = 'nearfar.sample'::regclass AND NOT granted", "1");
    server.kill();
    let error = merging.join().unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
    assert!(
        error.text_with_hint().contains("\nhint: results stored before are kept; rerun the same command"),
        "{error}"
    );
    assert!(!reader.wait().unwrap().success());

    server.serve();
    assert_eq!(content(&Store::open_existing(&url).unwrap()), before, "no rows of the second file");
    for trials_added in [40, 0] {
        assert_eq!(Store::open(&url).unwrap().merge(&second).unwrap().trials_added, trials_added);
    }
    let expected: Vec<_> = (0..40).map(|position| fixtures::trial(&runs[1], position, 50)).collect();
    assert!(Store::open_existing(&url).unwrap().trials(&runs[1].id).unwrap() == expected);
}

#[test]
fn server_killed_during_a_run_keeps_each_confirmed_trial_once() {
    let Some(mut server) = server::start("server killed during a run") else { return };
    let url = server.url();
    let run = fixtures::run("aa", 7);
    Store::open(&url).unwrap().begin_run(&run).unwrap();
    let mut known = BTreeSet::new();
    for round in 0..4_usize {
        let (sender, acknowledgements) = mpsc::channel();
        let writer = std::thread::spawn({
            let (url, run) = (url.clone(), run.clone());
            move || -> Result<(), StoreError> {
                let mut store = Store::open(&url)?;
                let stored = store.trial_ids(&run.id)?;
                for position in 0..TRIALS {
                    let trial = fixtures::trial(&run, position, position as usize % 50);
                    if !stored.contains(&trial.trial.id) {
                        store.add_trial(&run.id, &trial)?;
                        let _ = sender.send(position); // fails after the kill
                    }
                }
                Ok(())
            }
        });
        let mut acknowledged: BTreeSet<u32> = acknowledgements.iter().take(7 + 5 * round).collect();
        server.kill();
        acknowledged.extend(acknowledgements.iter());
        let error = writer.join().unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
        assert!(acknowledged.len() >= 7, "the server was killed while the writer was running");
        server.serve();
        let stored = Store::open_existing(&url).unwrap().trials(&run.id).unwrap();
        for trial in &stored {
            assert_eq!(*trial, fixtures::trial(&run, trial.position, trial.position as usize % 50), "round {round}");
        }
        let positions: BTreeSet<u32> = stored.iter().map(|trial| trial.position).collect();
        assert_eq!(positions.len(), stored.len(), "nothing is counted twice");
        let lost: Vec<&u32> = known.union(&acknowledged).filter(|position| !positions.contains(position)).collect();
        assert!(lost.is_empty(), "round {round}: confirmed trials {lost:?} are missing");
        known = positions;
    }
    let mut store = Store::open(&url).unwrap();
    let stored = store.trial_ids(&run.id).unwrap();
    for position in 0..TRIALS {
        let trial = fixtures::trial(&run, position, position as usize % 50);
        if !stored.contains(&trial.trial.id) {
            store.add_trial(&run.id, &trial).unwrap();
        }
    }
    let expected: Vec<_> =
        (0..TRIALS).map(|position| fixtures::trial(&run, position, position as usize % 50)).collect();
    assert!(store.trials(&run.id).unwrap() == expected);
}
