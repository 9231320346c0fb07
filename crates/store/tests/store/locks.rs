//! Another program holds a lock on the file.

use model::hint::Hinted;
use std::sync::Barrier;
use std::time::Duration;

use rusqlite::Connection;
use store::{Store, StoreError};

use crate::fixtures;

const WAIT: Duration = Duration::from_millis(30);

#[test]
fn locked_file_is_reported_with_the_holder() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut store = Store::open_waiting(&path, WAIT).unwrap();
    let run = fixtures::run("00000000000000aa", 1);
    store.begin_run(&run).unwrap();

    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.add_trial(&run.id, &fixtures::trial(&run, 0, 3)).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    let text = error.text_with_hint();
    let holder = format!("results.db is locked by process {} (", std::process::id());
    assert!(text.contains(&holder) && text.contains("\nhint: wait until that process ends"), "{text}");
    // Reading works meanwhile, and writing afterwards.
    assert_eq!(store.trials(&run.id).unwrap(), []);
    other.execute_batch("ROLLBACK").unwrap();
    store.add_trial(&run.id, &fixtures::trial(&run, 0, 3)).unwrap();
}

#[test]
fn exclusively_locked_file_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    drop(Store::open(&path).unwrap());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    for error in [Store::open_waiting(&path, WAIT), Store::open_existing_waiting(&path, WAIT)] {
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    }
    drop(other);
    Store::open(&path).unwrap();
}

#[test]
fn new_file_can_be_opened_concurrently() {
    const OPENERS: usize = 8;
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/results.db");
        let begin = Barrier::new(OPENERS);
        let open = || {
            begin.wait();
            Store::open(&path).map(|store| store.runs().unwrap())
        };
        std::thread::scope(|scope| {
            let openers: Vec<_> = (0..OPENERS).map(|_| scope.spawn(open)).collect();
            openers.into_iter().for_each(|opener| assert_eq!(opener.join().unwrap().unwrap(), []));
        });
    }
}
