//! Finding runs by id, prefix, `latest` and plan.

use std::ops::ControlFlow;

use model::hint::Hinted;
use model::values::record::{EndReason, RunId, RunRecord, TrialRecord};
use model::values::trial::{Evidence, TrialOutcome};
use rusqlite::Connection;
use store::{Store, StoreError, TrialColumns};
use tempfile::TempDir;

use crate::fixtures;

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("results.db")).unwrap();
    (directory, store)
}

#[test]
fn run_is_found_by_id_prefix_and_latest() {
    let (_directory, mut store) = store();
    let error = store.run("latest").unwrap_err().text_with_hint();
    assert!(error.contains("results.db has no runs yet\nhint: 'nearfar run quick'"), "{error}");
    let runs = ["ab12", "ab34", "ab", "Ab56"].map(|id| fixtures::run(id, 1));
    for run in &runs {
        store.begin_run(run).unwrap();
    }
    // The clock was set back before the last run.
    let late = RunRecord { started_unix_ms: 5, host: Some("beta".into()), ..fixtures::run("99", u64::MAX) };
    store.begin_run(&late).unwrap();
    let found = |name: &str| store.run(name).map(|run| run.id.0);
    assert_eq!(store.run("latest").unwrap(), late);
    assert_eq!(store.run("ab12").unwrap(), runs[0]);
    for (name, expected) in [("ab3", "ab34"), ("ab", "ab"), ("A", "Ab56"), ("9", "99")] {
        assert_eq!(found(name).unwrap(), expected, "{name}");
    }
    for name in ["", "%", "_b12", "c", "ab123", "latest "] {
        let error = found(name).unwrap_err();
        assert!(matches!(error, StoreError::NoSuchRun { .. }), "{name}: {error}");
        assert!(error.text_with_hint().contains("\nhint: 'nearfar show --runs' lists the runs"), "{error}");
    }
    let error = found("a").unwrap_err().text_with_hint();
    assert_eq!(error, "several runs match 'a': ab12, ab34, ab\nhint: type more characters of the id");
}

#[test]
fn file_with_tables_only_names_the_comparison_of_columns() {
    let (_directory, mut store) = store();
    for name in ["first", "two words"] {
        let file = format!("{name}.csv");
        let table = store::import::table_from_csv("test,metric,unit,better,a\nt,m,u,lower,1\n", file.as_ref()).unwrap();
        store.add_table(&table).unwrap();
    }
    let error = store.run("latest").unwrap_err().text_with_hint();
    assert!(error.contains("has no runs yet, only imported tables: first, two words\n"), "{error}");
    assert!(error.contains(": nearfar compare --by column --table 'two words' [--index unixbench]"), "{error}");
    let error = store.run("ab").unwrap_err().text_with_hint();
    assert!(error.contains("has no run 'ab'\nhint: 'nearfar show --runs'"), "{error}");
}

#[test]
fn runs_are_listed_in_order_of_insertion() {
    let (_directory, mut store) = store();
    assert_eq!(store.runs().unwrap(), []);
    let first = fixtures::run("bb", 1);
    let second = RunRecord {
        host: Some("alpha".into()),
        simulated: Some("box:1".into()),
        started_unix_ms: 3,
        ..fixtures::run("aa", 2)
    };
    store.begin_run(&first).unwrap();
    store.begin_run(&second).unwrap();
    (0..30).for_each(|position| store.add_trial(&first.id, &fixtures::trial(&first, position, 2)).unwrap());
    store.end_run(&first.id, EndReason::Budget).unwrap();
    let runs = store.runs().unwrap();
    let ids: Vec<&str> = runs.iter().map(|run| run.id.0.as_str()).collect();
    assert_eq!(ids, ["bb", "aa"]);
    assert_eq!((runs[0].trials, runs[0].counted, runs[0].cells, runs[0].ended), (30, 17, 12, Some(EndReason::Budget)));
    assert_eq!((runs[1].trials, runs[1].ended, runs[1].started_unix_ms), (0, None, 3));
    assert_eq!((runs[0].host.as_deref(), runs[1].host.as_deref()), (Some("Test cpu 9000"), Some("alpha")));
    assert_eq!((&runs[0].simulated, runs[1].simulated.as_deref()), (&None, Some("box:1")));
    assert_eq!(runs[0].fingerprint, first.machine.settings.fingerprint());
}

#[test]
fn unfinished_run_is_found_by_plan_and_machine() {
    let (_directory, mut store) = store();
    let simulated = Some("box:1".to_string());
    let other_machine = RunRecord { machine: fixtures::machine("6.19.0"), ..fixtures::run("c", 1) };
    let mut other_plan = fixtures::run("d", 1);
    other_plan.plan.repeat.max = 10;
    let runs = [
        fixtures::run("a", 1),
        fixtures::run("b", 2),
        other_machine,
        other_plan,
        RunRecord { simulated, ..fixtures::run("e", 1) },
    ];
    for run in &runs {
        store.begin_run(run).unwrap();
    }
    let (key, settings) = (runs[0].plan.key(), runs[0].machine.settings.clone());
    let find = |store: &Store, simulated| store.find_unfinished(&key, &settings, simulated).unwrap();
    assert_eq!(find(&store, None), Some(runs[1].clone()), "the newest");
    store.end_run(&RunId("b".into()), EndReason::Precise).unwrap();
    assert_eq!(find(&store, None), Some(runs[0].clone()));
    store.end_run(&RunId("a".into()), EndReason::AllBlocks).unwrap();
    assert_eq!(find(&store, None), None);
    assert_eq!(find(&store, Some("box:1")), Some(runs[4].clone()));
    assert_eq!(find(&store, Some("box:2")), None);
    assert_eq!(store.run("a").unwrap().ended, Some(EndReason::AllBlocks));
}

#[test]
fn duplicates_and_trials_of_missing_runs_are_rejected() {
    let (_directory, mut store) = store();
    let run = fixtures::run("aa", 1);
    let trial = fixtures::trial(&run, 0, 3);
    for error in [
        store.add_trial(&run.id, &trial).unwrap_err(),
        store.end_run(&run.id, EndReason::Budget).unwrap_err(),
        store.trials(&run.id).unwrap_err(),
        store.trial_ids(&run.id).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::NoSuchRun { .. }), "{error:?}");
    }
    store.begin_run(&run).unwrap();
    assert!(matches!(store.begin_run(&run), Err(StoreError::RunAlreadyStored { .. })));
    store.add_trial(&run.id, &trial).unwrap();
    let again = model::values::record::TrialRecord { position: 9, ..trial.clone() };
    let error = store.add_trial(&run.id, &again).unwrap_err();
    assert_eq!(error.to_string(), format!("trial {} of run aa is already stored", trial.trial.id));
    let mut other = fixtures::trial(&run, 1, 3);
    other.position = 0;
    let error = store.add_trial(&run.id, &other).unwrap_err().text_with_hint();
    assert_eq!(error, "run aa has another trial at position 0");
    assert_eq!(store.trials(&run.id).unwrap(), [trial]);
}

#[test]
fn trials_are_visited_page_by_page_and_without_evidence() {
    let (_directory, mut store) = store();
    let run = fixtures::run("aa", 1);
    store.begin_run(&run).unwrap();
    (0..150).for_each(|position| store.add_trial(&run.id, &fixtures::trial(&run, position, 4)).unwrap());
    let visited = |columns, count: usize| {
        let mut trials = Vec::new();
        let visit = |trial| {
            trials.push(trial);
            if trials.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        store.each_trial(&run.id, columns, visit).unwrap();
        trials
    };
    let all = store.trials(&run.id).unwrap();
    assert_eq!(visited(TrialColumns::All, usize::MAX), all);
    assert_eq!(visited(TrialColumns::All, 70), all[..70], "until the visitor breaks");
    let without: Vec<TrialRecord> = all
        .into_iter()
        .map(|trial| TrialRecord { outcome: TrialOutcome { evidence: Evidence::default(), ..trial.outcome }, ..trial })
        .collect();
    assert_eq!(visited(TrialColumns::WithoutEvidence, usize::MAX), without);
}

#[test]
fn trial_with_a_non_finite_sample_is_rejected() {
    let (_directory, mut store) = store();
    let run = fixtures::run("aa", 1);
    store.begin_run(&run).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut trial = fixtures::trial(&run, 0, 3);
        trial.outcome.samples[2].value = bad;
        let error = store.add_trial(&run.id, &trial).unwrap_err().text_with_hint();
        assert!(error.ends_with("has a sample of user that is not finite"), "{error}");
    }
    assert_eq!(store.trials(&run.id).unwrap(), []);
}

#[test]
fn views_answer_sql_queries() {
    let (directory, mut store) = store();
    for (id, kernel) in [("aa", "6.18.0"), ("bb", "6.18.0"), ("cc", "6.19.0")] {
        let run = RunRecord { machine: fixtures::machine(kernel), ..fixtures::run(id, 1) };
        store.begin_run(&run).unwrap();
        (0..24).for_each(|position| store.add_trial(&run.id, &fixtures::trial(&run, position, 4)).unwrap());
    }
    let other = Connection::open(directory.path().join("results.db")).unwrap();
    let count = |sql: &str| other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM machine"), 2, "a machine state is stored once");
    assert_eq!(count("SELECT count(*) FROM cell"), fixtures::CELLS as i64, "a cell is stored once");
    assert_eq!(count("SELECT count(*) FROM sample_long WHERE run = 'aa' AND series = 'copy'"), 24);
    assert_eq!(
        count("SELECT count(*) FROM sample_long WHERE placement = 'one, core' AND threads = 1 AND block = 1"),
        72
    );
    assert_eq!(count("SELECT count(*) FROM fact WHERE key = 'kernel.release' AND value = '6.18.0'"), 2);
    assert_eq!(count("SELECT count(*) FROM fact WHERE unavailable = 'no cpufreq driver'"), 3);
}
