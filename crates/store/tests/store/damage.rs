//! Damaged and foreign files: each returns an error, never fewer results, never a panic.

use model::hint::Hinted;
use std::fs;
use std::path::Path;

use model::values::record::TrialRecord;
use rusqlite::Connection;
use store::{Store, StoreError};

use crate::fixtures;

const TRIALS: u32 = 60;

/// Creates and closes a file with one run.
fn made(path: &Path) -> Vec<TrialRecord> {
    let mut store = Store::open(path).unwrap();
    let run = fixtures::run("00000000000000aa", 1);
    store.begin_run(&run).unwrap();
    (0..TRIALS).for_each(|position| store.add_trial(&run.id, &fixtures::trial(&run, position, 40)).unwrap());
    store.trials(&run.id).unwrap()
}

fn load(path: &Path) -> Result<Vec<TrialRecord>, StoreError> {
    let store = Store::open_existing(path)?;
    store.trials(&store.run("latest")?.id)
}

fn open_error(path: &Path) -> String {
    Store::open(path).unwrap_err().text_with_hint().replace(&path.display().to_string(), "FILE")
}

#[test]
fn foreign_files_return_errors_and_are_not_modified() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("notes.txt"), "results: 42\n".repeat(100)).unwrap();
    Connection::open(at("cookies.sqlite")).unwrap().execute_batch("CREATE TABLE cookie (name)").unwrap();
    made(&at("newer.db"));
    Connection::open(at("newer.db")).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let cases = [
        ("notes.txt", "FILE is not a results file (not a SQLite database)\nhint: name another file with --store"),
        ("cookies.sqlite", "FILE is a database of another program\nhint: name another file with --store"),
        (
            "newer.db",
            "results file FILE was written by a newer nearfar (schema 7, this program knows 2)\nhint: use that",
        ),
    ];
    for (name, expected) in cases {
        let before = fs::read(at(name)).unwrap();
        let text = open_error(&at(name));
        assert!(text.starts_with(expected), "{text}");
        assert!(fs::read(at(name)).unwrap() == before, "{name} was changed");
    }
}

#[test]
fn paths_that_cannot_be_files_return_errors() {
    let directory = tempfile::tempdir().unwrap();
    let text = open_error(directory.path());
    assert!(text.starts_with("cannot open FILE: "), "{text}");
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("results.db")).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot open {}: ", file.display())), "{error}");
    let missing = directory.path().join("none.db");
    let error = Store::open_existing(&missing).unwrap_err().text_with_hint();
    assert!(error.contains("none.db") && error.contains("\nhint: 'nearfar run quick' creates one"), "{error}");
    assert!(!missing.exists());
}

#[test]
fn truncated_file_returns_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    made(&path);
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 4096;
    // SQLite treats a file of one byte as empty.
    let lengths = [2, 15, 16, 50, 99, 100, 101, 512, 4095].into_iter();
    for length in lengths.chain((1..pages).map(|page| page * 4096)).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..length]).unwrap();
        let Err(error) = load(&path) else { panic!("{length} of {} bytes were accepted", whole.len()) };
        let expected = matches!(error, StoreError::Damaged { .. } | StoreError::NotADatabase { .. });
        assert!(expected, "{length} of {} bytes: {error:?}", whole.len());
        assert_eq!(fs::read(&path).unwrap().len(), length, "a damaged file is not modified");
    }
    // An empty file is new, as mktemp creates it.
    fs::write(&path, "").unwrap();
    assert_eq!(Store::open(&path).unwrap().runs().unwrap(), []);
}

#[test]
fn overwritten_page_is_detected_when_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let expected = made(&path);
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    for page in 0..whole.len() / 4096 {
        let mut broken = whole.clone();
        broken[page * 4096..][..4096].iter_mut().enumerate().for_each(|(index, byte)| *byte = (index * 7 + 0xa5) as u8);
        fs::write(&path, &broken).unwrap();
        match load(&path) {
            Ok(trials) => assert!(trials == expected, "page {page}: different results without an error"),
            Err(StoreError::Damaged { .. } | StoreError::NotADatabase { .. }) => found += 1,
            Err(error) => panic!("page {page}: {error:?}"),
        }
        // The whole file is checked only on request.
        let checked = Store::open(&path).and_then(|store| store.check());
        assert!(checked.is_err(), "page {page}: the check reported no error");
    }
    assert!(found * 2 > whole.len() / 4096, "only {found} of {} pages were found damaged", whole.len() / 4096);
}

#[test]
fn invalid_column_values_are_reported_as_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let changes = [
        ("UPDATE trial SET evidence = '{' WHERE position = 3", "trial "),
        ("UPDATE trial SET verdict = 'good' WHERE position = 3", "trial "),
        ("UPDATE trial SET status = 'failed', why = NULL WHERE position = 3", "has status 'failed'"),
        ("UPDATE trial SET seed = 'x' WHERE position = 3", "has seed 'x'"),
        ("UPDATE trial SET block = -1 WHERE position = 3", ""),
        ("UPDATE cell SET placement = '{}'", "cell "),
        ("UPDATE run SET plan = '{}'", "run 00000000000000aa"),
        ("UPDATE run SET ended = 'tired'", "run 00000000000000aa"),
        ("UPDATE machine SET capture = json_set(capture, '$.topology.objects', json('[]'))", "no objects"),
    ];
    for (change, expected) in changes {
        made(&path);
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let error = load(&path).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Damaged { .. }) && text.contains(expected), "{change}: {text}");
        fs::remove_file(&path).unwrap();
    }
}
