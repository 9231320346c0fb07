//! Damaged and foreign files: damage is reported, as an error or as an invalid trial. Never other figures, never fewer
//! trials, never a panic.

use model::hint::Hinted;
use std::fs;
use std::path::Path;

use model::values::placement::Placement;
use model::values::record::{RunRecord, RunSummary, SavedPlacement, TrialRecord};
use model::values::trial::Grade;
use rusqlite::Connection;
use store::{Store, StoreError};

use crate::fixtures;

const TRIALS: u32 = 60;

/// Counts the damaged trials. Fails if another one differs from the stored one.
fn damaged_trials(read: &[TrialRecord], stored: &[TrialRecord]) -> Result<usize, String> {
    let is_damaged = |trial: &TrialRecord| {
        let reason =
            trial.verdict.reasons.first().is_some_and(|reason| reason.starts_with("damaged in the results file: "));
        reason && trial.verdict.grade == Grade::Invalid && trial.outcome.samples.is_empty()
    };
    let ids = |trials: &[TrialRecord]| trials.iter().map(|trial| trial.trial.clone()).collect::<Vec<_>>();
    if read.len() != stored.len() {
        return Err(format!("{} trials instead of {}", read.len(), stored.len()));
    }
    let changed: Vec<_> = read.iter().filter(|trial| !is_damaged(trial) && !stored.contains(trial)).collect();
    let mut known = ids(stored);
    known.retain(|trial| !ids(read).iter().any(|read| read.id == trial.id && read.cell == trial.cell));
    if changed.is_empty() && known.is_empty() {
        return Ok(read.iter().filter(|trial| is_damaged(trial)).count());
    }
    Err(format!("changed: {changed:?}, missing: {known:?}"))
}

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
            "results file FILE was written by a newer nearfar (schema 7, this program knows 4)\nhint: use that",
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
            Ok(trials) => {
                let damaged = damaged_trials(&trials, &expected).unwrap_or_else(|other| panic!("page {page}: {other}"));
                found += usize::from(damaged > 0);
            }
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
        ("UPDATE run SET plan = '{}'", "run 00000000000000aa"),
        ("UPDATE run SET ended = 'tired'", "run 00000000000000aa"),
        ("UPDATE run SET seed = '2'", "its checksum does not match"),
        (
            "UPDATE machine SET capture = json_set(capture, '$.topology.objects', json('[]'))",
            "its checksum does not match",
        ),
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

#[test]
fn damaged_trial_is_invalid_and_the_others_stay_readable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let cases = [
        ("UPDATE trial SET evidence = '{' WHERE position = 3", "cannot parse trial ", 1),
        ("UPDATE trial SET verdict = 'good' WHERE position = 3", "cannot parse trial ", 1),
        ("UPDATE trial SET status = 'failed', why = NULL WHERE position = 3", "has status 'failed'", 1),
        ("UPDATE trial SET seed = 'x' WHERE position = 3", "has seed 'x'", 1),
        ("UPDATE trial SET block = -1 WHERE position = 3", "out of range", 1),
        ("UPDATE trial SET took_ns = took_ns + 1 WHERE position = 3", "its checksum does not match", 1),
        ("UPDATE trial SET cell = 2 WHERE position = 3", "its checksum does not match", 1),
        ("UPDATE trial SET id = 'x' WHERE position = 3", "", 0),
        ("UPDATE sample SET value = value * 2 WHERE trial = 4 AND ordinal = 39", "its checksum does not match", 1),
        ("UPDATE sample SET series = 'wall' WHERE trial = 4 AND ordinal = 0", "its checksum does not match", 1),
        ("DELETE FROM sample WHERE trial = 4 AND ordinal = 7", "its checksum does not match", 1),
        // Five trials of the cell.
        ("UPDATE cell SET placement = '{}' WHERE number = 3", "cell 3", 5),
        ("UPDATE cell SET workload = 'gups' WHERE number = 3", "cell 3: its checksum does not match", 5),
    ];
    for (change, reason, damaged) in cases {
        let expected = made(&path);
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        match load(&path) {
            Ok(trials) => {
                assert_eq!(damaged_trials(&trials, &expected), Ok(damaged), "{change}");
                let shown =
                    trials.iter().filter(|trial| trial.verdict.reasons.iter().any(|text| text.contains(reason)));
                assert_eq!(shown.count(), damaged, "{change}: {:?}", trials[3].verdict);
            }
            // No trial of the plan has this id.
            Err(error) => assert!(damaged == 0 && error.to_string().contains("at position 3"), "{change}: {error}"),
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn rows_without_checksum_stay_readable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let expected = made(&path);
    let file = directory.path().join("figures.csv");
    fs::write(&file, "test,metric,unit,better,a\nt,m,s,lower,1\n").unwrap();
    let table = store::import::read_table(&file).unwrap();
    let saved = SavedPlacement::new("web", &fixtures::run("00000000000000aa", 1), &Placement::kernel(2));
    let mut store = Store::open(&path).unwrap();
    store.add_table(&table).unwrap();
    store.save_placement(&saved).unwrap();
    drop(store);
    for name in ["trial", "run", "imported", "saved_placement"] {
        let changed =
            Connection::open(&path).unwrap().execute(&format!("UPDATE {name} SET checksum = NULL"), []).unwrap();
        assert!(changed > 0, "{name} is empty");
    }
    assert!(load(&path).unwrap() == expected);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.runs().unwrap().len(), 1);
    assert_eq!((store.table("figures").unwrap(), store.saved_placement("web").unwrap()), (table, saved));
}

/// Content of a file, as far as it can be read. `None`: an error reports the damage.
struct Figures {
    run: Option<RunRecord>,
    trials: Option<Vec<TrialRecord>>,
    list: Option<(Vec<RunSummary>, Vec<String>)>,
}

fn figures(path: &Path) -> Result<Figures, StoreError> {
    let store = Store::open_unchanged(path)?;
    let list = store.runs_and_damage().ok();
    let run = store.run("00000000000000aa").ok();
    Ok(Figures { trials: store.trials(&model::values::record::RunId("00000000000000aa".into())).ok(), run, list })
}

#[test]
fn flipped_bits_never_change_a_figure() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let stored = made(&path);
    let expected = figures(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let (mut readable, mut reported) = (0, 0);
    for seed in 0..200_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % limit
        };
        let mut bytes = whole.clone();
        for _ in 0..=below(20) {
            bytes[below(whole.len())] ^= 1 << below(8);
        }
        fs::write(&path, &bytes).unwrap();
        let Ok(found) = figures(&path) else { continue };
        if let Some(run) = &found.run {
            assert!(Some(run) == expected.run.as_ref(), "seed {seed}: another run");
        }
        if let Some((runs, damaged)) = &found.list {
            let same = Some(runs) == expected.list.as_ref().map(|(runs, _)| runs);
            assert!(same || damaged.len() == 1 && runs.is_empty(), "seed {seed}: {runs:?}");
        }
        if let Some(trials) = &found.trials {
            let damaged = damaged_trials(trials, &stored).unwrap_or_else(|other| panic!("seed {seed}: {other}"));
            (readable, reported) = (readable + 1, reported + usize::from(damaged > 0));
        }
    }
    assert!(readable >= 120 && reported >= 60, "{readable} readable, {reported} with damaged trials");
}
