//! Merging two results files; repeating a merge adds nothing.

use model::hint::Hinted;
use std::fs;
use std::path::PathBuf;

use model::values::record::{EndReason, ImportedTable, RunRecord};
use store::{MergeReport, Store, StoreError};
use tempfile::TempDir;

use crate::fixtures;

struct Two {
    _directory: TempDir,
    local: Store,
    remote: Store,
    path: PathBuf,
}

fn two() -> Two {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("there.db");
    let local = Store::open(&directory.path().join("here.db")).unwrap();
    Two { local, remote: Store::open(&path).unwrap(), path, _directory: directory }
}

fn fill(store: &mut Store, run: &RunRecord, positions: impl Iterator<Item = u32>) {
    if store.trials(&run.id).is_err() {
        store.begin_run(run).unwrap();
    }
    positions.for_each(|position| store.add_trial(&run.id, &fixtures::trial(run, position, 5)).unwrap());
}

fn table(figure: f64) -> ImportedTable {
    let text = format!("test,metric,unit,better,a\nt,m,u,lower,{figure}\n");
    store::import::table_from_csv(&text, "board.csv".as_ref()).unwrap()
}

#[test]
fn merge_adds_missing_trials_once() {
    let Two { mut local, mut remote, path, _directory } = two();
    let [only_local, both, only_remote] = ["aa", "bb", "cc"].map(|id| fixtures::run(id, 1));
    fill(&mut local, &only_local, 0..10);
    fill(&mut local, &both, 0..10);
    fill(&mut remote, &both, 0..25);
    fill(&mut remote, &only_remote, 0..7);
    remote.end_run(&both.id, EndReason::Precise).unwrap();
    remote.add_table(&table(0.1 + 0.2)).unwrap();
    let report = local.merge(&path).unwrap();
    let expected = MergeReport {
        runs_added: 1,
        runs_present: 1,
        trials_added: 22,
        trials_present: 10,
        tables_added: 1,
        tables_present: 0,
        ..MergeReport::default()
    };
    assert_eq!(report, expected);
    assert_eq!(report.to_string(), "added 1 runs, 22 trials, 1 tables; already present: 1 runs, 10 trials, 0 tables");
    for run in [&both, &only_remote] {
        assert_eq!(local.run(&run.id.0).unwrap(), remote.run(&run.id.0).unwrap());
        assert_eq!(local.trials(&run.id).unwrap(), remote.trials(&run.id).unwrap());
    }
    assert_eq!(local.trials(&only_local.id).unwrap().len(), 10);
    assert_eq!(local.table("board").unwrap(), table(0.1 + 0.2));

    let again = local.merge(&path).unwrap();
    assert_eq!((again.runs_added, again.trials_added, again.tables_added), (0, 0, 0));
    assert_eq!((again.runs_present, again.trials_present, again.tables_present), (2, 32, 1));
    let itself = local.path().to_path_buf();
    assert_eq!(local.merge(&itself).unwrap().runs_present, 3);
}

#[test]
fn merge_skips_contradicting_runs() {
    let Two { mut local, mut remote, path, _directory } = two();
    let run = fixtures::run("aa", 1);
    let other_seed = fixtures::run("bb", 2);
    let shuffled = fixtures::run("cc", 1);
    fill(&mut local, &run, 0..3);
    fill(&mut remote, &run, 0..2);
    let mut differs = fixtures::trial(&run, 2, 5);
    differs.outcome.samples[0].value += 1.0;
    remote.add_trial(&run.id, &differs).unwrap();
    fill(&mut local, &fixtures::run("bb", 1), 0..3);
    fill(&mut remote, &other_seed, 0..3);
    fill(&mut local, &shuffled, 0..2);
    remote.begin_run(&shuffled).unwrap();
    let mut moved = fixtures::trial(&shuffled, 5, 5);
    moved.position = 1;
    remote.add_trial(&shuffled.id, &moved).unwrap();
    local.add_table(&table(1.0)).unwrap();
    remote.add_table(&table(2.0)).unwrap();
    let before: Vec<_> = [&run, &shuffled].map(|run| local.trials(&run.id).unwrap()).into();
    let report = local.merge(&path).unwrap();
    let expected = [
        "run aa: the run was resumed in both files, and the same trials have different results",
        "run bb: the stored run has another plan, machine or seed",
        "run cc: the run was resumed in both files, in different orders",
        "table board: a different table of this name is stored",
    ];
    assert_eq!(report.conflicts, expected);
    assert_eq!((report.runs_added, report.runs_present, report.trials_added), (0, 0, 0));
    let after: Vec<_> = [&run, &shuffled].map(|run| local.trials(&run.id).unwrap()).into();
    assert_eq!(before, after);
    assert_eq!(local.table("board").unwrap(), table(1.0));
    assert!(report.to_string().contains("\nskipped: run aa: the run was resumed"));
}

#[test]
fn failed_merge_adds_nothing() {
    let Two { mut local, mut remote, path, _directory } = two();
    fill(&mut remote, &fixtures::run("aa", 1), 0..3);
    fill(&mut remote, &fixtures::run("bb", 1), 0..3);
    // A row of the list of runs that cannot be read at all.
    let damage = "UPDATE run SET id = CAST(x'ff' AS TEXT) WHERE id = 'bb'";
    rusqlite::Connection::open(&path).unwrap().execute_batch(damage).unwrap();
    let error = local.merge(&path).unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { path, .. } if path.ends_with("there.db")), "{error:?}");
    assert_eq!(local.runs().unwrap(), []);
    assert!(matches!(local.merge(&path.with_file_name("none.db")), Err(StoreError::Missing { .. })));
    fs::write(&path, "not a database, but long enough for SQLite to read ".repeat(20)).unwrap();
    assert!(matches!(local.merge(&path), Err(StoreError::NotADatabase { .. } | StoreError::Damaged { .. })));
}

#[test]
fn damaged_parts_are_reported_and_the_others_are_merged() {
    let Two { mut local, mut remote, path, _directory } = two();
    for id in ["aa", "bb"] {
        fill(&mut remote, &fixtures::run(id, 1), 0..3);
    }
    remote.add_table(&table(1.0)).unwrap();
    let damage = "UPDATE run SET seed = '2' WHERE id = 'bb'; UPDATE trial SET took_ns = 1 WHERE number = 2; \
                  UPDATE imported SET content = replace(content, '1.0', '2.0')";
    rusqlite::Connection::open(&path).unwrap().execute_batch(damage).unwrap();
    let report = local.merge(&path).unwrap();
    assert_eq!((report.runs_added, report.trials_added, report.tables_added), (1, 2, 0));
    let text = report.to_string();
    for part in [" of run aa is damaged: its checksum", "run bb is damaged: its checksum", "table board: its checksum"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The intact trial of another copy replaces nothing that is stored.
    assert_eq!(local.trials(&fixtures::run("aa", 1).id).unwrap().len(), 2);
}

#[test]
fn tables_are_stored_by_name() {
    let Two { mut local, .. } = two();
    assert_eq!(local.tables().unwrap(), [""; 0]);
    let error = local.table("board").unwrap_err().text_with_hint();
    assert!(error.contains("no imported table 'board'\nhint: 'nearfar import --format table FILE'"), "{error}");
    local.add_table(&table(0.1)).unwrap();
    local.add_table(&table(0.1)).unwrap();
    assert_eq!(local.tables().unwrap(), ["board"]);
    assert!(local.table("x").unwrap_err().text_with_hint().ends_with("\nhint: available: board"));
    let error = local.add_table(&table(0.2)).unwrap_err().to_string();
    assert!(error.starts_with("an imported table 'board' with other content"), "{error}");
    assert_eq!(local.table("board").unwrap(), table(0.1));
}
