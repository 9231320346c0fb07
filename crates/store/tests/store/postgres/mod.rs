//! Results on a PostgreSQL server: the same as in a file, with concurrent writers, server crashes and restricted
//! privileges.

mod errors;
mod loss;
mod rights;
mod server;
mod writers;

use std::path::Path;

use model::analysis::live::LiveEnd;
use model::values::placement::Placement;
use model::values::record::{EndReason, ImportedTable, RunId, RunRecord, SavedPlacement};
use store::{MergeReport, Store, StoreError, StoreVersion, export};

use crate::fixtures;

/// Stores a run with unusual texts and this number of trials.
fn fill(store: &mut Store, run: &RunRecord, trials: u32, samples: usize) {
    store.begin_run(run).unwrap();
    (0..trials).for_each(|position| store.add_trial(&run.id, &fixtures::trial(run, position, samples)).unwrap());
}

fn table(figure: f64) -> ImportedTable {
    let text = format!("test,metric,unit,better,a\nt,m,u,lower,{figure}\n");
    store::import::table_from_csv(&text, "board.csv".as_ref()).unwrap()
}

/// Everything that can be read of a store, in the exported format.
fn content(store: &Store) -> String {
    let mut all = vec![format!("{:?}", store.runs().unwrap()), format!("{:?}", store.extent().unwrap())];
    all.push(format!("{:?}", store.newest_trial_unix_ms().unwrap()));
    for summary in store.runs().unwrap() {
        let mut exported = Vec::new();
        export::json(store, &summary.id, &mut exported).unwrap();
        export::csv(store, &summary.id, &mut exported).unwrap();
        all.push(String::from_utf8(exported).unwrap());
        all.push(format!("{:?}", store.progress(&summary.id).unwrap()));
        let mut ids: Vec<_> = store.trial_ids(&summary.id).unwrap().into_iter().collect();
        ids.sort();
        all.push(format!("{ids:?}"));
    }
    for experiment in store.live_experiments().unwrap() {
        let periods = store.live_periods(&experiment.id).unwrap();
        all.push(format!("{:?} {periods:?}", store.live(&experiment.id.0).unwrap()));
    }
    all.extend(store.tables().unwrap().iter().map(|name| format!("{:?}", store.table(name).unwrap())));
    all.join("\n")
}

/// Performs all operations on a store, including invalid ones, and returns their results.
fn live(store: &mut Store) -> String {
    let run = RunRecord { host: Some("ä\"';\0\u{e000}".into()), ..fixtures::run("ab12", u64::MAX) };
    let other = RunRecord { simulated: Some("box:1".into()), ..fixtures::run("ab34", 2) };
    let without_address = |store: &Store, error: StoreError| {
        let path = store.path().display().to_string();
        error.to_string().replace(&path, "IT").replace("results store", "results file")
    };
    let mut results = vec![format!("{:?}", store.runs().unwrap())];
    results.push(without_address(store, store.run("latest").unwrap_err()));
    fill(store, &run, 40, 7);
    fill(store, &other, 3, 0);
    let twice = store.add_trial(&run.id, &fixtures::trial(&run, 5, 7)).unwrap_err();
    let mut taken = fixtures::trial(&run, 90, 7);
    taken.position = 3;
    let taken = store.add_trial(&run.id, &taken).unwrap_err();
    let mut infinite = fixtures::trial(&run, 91, 7);
    infinite.outcome.samples[2].value = f64::NEG_INFINITY;
    let infinite = store.add_trial(&run.id, &infinite).unwrap_err();
    let mut extreme = fixtures::trial(&run, 92, 4);
    for (sample, value) in
        extreme.outcome.samples.iter_mut().zip([5e-324, f64::MIN_POSITIVE / 8.0, f64::MAX, 0.1 + 0.2])
    {
        sample.value = value;
    }
    store.add_trial(&run.id, &extreme).unwrap();
    let stored = store.trials(&run.id).unwrap();
    let values =
        |samples: &[model::values::trial::Sample]| samples.iter().map(|one| one.value.to_bits()).collect::<Vec<_>>();
    assert_eq!(values(&stored[40].outcome.samples), values(&extreme.outcome.samples), "to the last bit");
    assert_eq!(store.run("ab12").unwrap(), run, "every character");
    results.extend([twice, taken, infinite].map(|error| error.to_string()));
    let unknown = |name: &str| without_address(store, store.run(name).unwrap_err());
    results.extend(["ab", "x", "AB12", "", "a%"].map(unknown));
    results.push(format!("{:?}", [store.run("ab1"), store.run("ab34")].map(|run| run.unwrap().id)));
    let (key, settings) = (run.plan.key(), run.machine.settings.clone());
    let find = |store: &Store, simulated| store.find_unfinished(&key, &settings, simulated).unwrap().map(|run| run.id);
    results.push(format!("{:?}", [None, Some("box:1"), Some("box:2")].map(|simulated| find(store, simulated))));
    store.end_run(&run.id, EndReason::Budget).unwrap();
    results.push(format!("{:?} {:?}", find(store, None), store.progress(&run.id).unwrap()));
    results.push(store.begin_run(&run).unwrap_err().to_string());
    results.push(format!("{:?}", [store.add_table(&table(0.1)), store.add_table(&table(0.1))].map(Result::unwrap)));
    results.push(store.add_table(&table(0.2)).unwrap_err().to_string());
    results.push(store.saved_placement("best").unwrap_err().to_string());
    for threads in [1, 2] {
        store.save_placement(&SavedPlacement::new("best", &run, &Placement::kernel(threads))).unwrap();
        results.push(format!("{:?}", store.saved_placement("best").unwrap().placement));
    }
    results.push(format!("{:?}", store.progress(&RunId("zz".into())).is_err()));
    results.join("\n")
}

#[test]
fn server_stores_and_reports_the_same_as_a_file() {
    let Some(server) = server::start("results on a server") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    assert!(matches!(Store::open_existing(&server.url()), Err(StoreError::Missing { .. })), "there are no results yet");
    let (mut file, mut remote) = (Store::open(&path).unwrap(), Store::open(&server.url()).unwrap());
    assert!(remote.is_on_server() && !file.is_on_server());
    assert_eq!(live(&mut remote), live(&mut file));
    for store in [&mut remote, &mut file] {
        crate::live::fill(store, &crate::live::record(7), 0..45);
        store.end_live(&crate::live::record(7).id, &LiveEnd { at_s: 95.0, reason: None }).unwrap();
    }
    assert_eq!(content(&remote), content(&file));
    let lives = StoreVersion { live: 1, live_ended: 1, periods: 45, ..StoreVersion::default() };
    let extent = StoreVersion { runs: 2, ended: 1, trials: 44, tables: 1, ..lives };
    assert_eq!((file.extent().unwrap(), remote.extent().unwrap()), (extent, extent));

    // The two views show the same rows.
    for (sql, expected) in [
        ("SELECT count(*) FROM nearfar.sample_long WHERE run = 'ab12' AND placement = 'one, core'", None),
        ("SELECT count(*) FROM nearfar.fact WHERE key = 'kernel.release' AND value = '6.18.0'", Some("2")),
        ("SELECT count(*) FROM nearfar.fact WHERE unavailable = 'no cpufreq driver'", Some("2")),
    ] {
        let rusqlite = rusqlite::Connection::open(&path).unwrap();
        let here: i64 = rusqlite.query_row(&sql.replace("nearfar.", ""), [], |row| row.get(0)).unwrap();
        let there = server.sql(server::DATABASE, sql);
        assert_eq!(there, expected.map_or(here.to_string(), String::from), "{sql}");
        assert!(here > 0, "{sql}");
    }

    // A merge yields the same content; a second merge adds nothing.
    server.create("second");
    let second = server.url_of(server::OWNER, server::PASSWORD, "second");
    let mut merged = Store::open(&second).unwrap();
    let report = merged.merge(&path).unwrap();
    assert_eq!((report.runs_added, report.trials_added, report.tables_added), (2, 44, 1));
    assert_eq!((report.live_added, report.periods_added), (1, 45));
    assert_eq!(content(&merged), content(&file));
    let report = merged.merge(&path).unwrap();
    let nothing = MergeReport {
        runs_present: 2,
        trials_present: 44,
        tables_present: 1,
        live_present: 1,
        ..MergeReport::default()
    };
    assert_eq!(report, nothing);
    // A merge from the server into a file does too.
    let back = directory.path().join("back.db");
    Store::open(&back).unwrap().merge(&second).unwrap();
    assert_eq!(content(&Store::open_existing(&back).unwrap()), content(&file));
}

#[test]
fn changes_by_other_clients_are_visible() {
    let Some(server) = server::start("looking at a server") else { return };
    let mut writer = Store::open(&server.url()).unwrap();
    let reader = Store::open_to_read(&server.url()).unwrap();
    let run = fixtures::run("ab12", 1);
    let mut versions = vec![reader.data_version().unwrap()];
    writer.begin_run(&run).unwrap();
    for position in 0..10 {
        writer.add_trial(&run.id, &fixtures::trial(&run, position, 2)).unwrap();
        versions.push(reader.data_version().unwrap());
        assert_eq!(reader.progress(&run.id).unwrap().trials, position + 1);
    }
    versions.dedup();
    assert_eq!(versions.len(), 11, "each trial is news");

    // A run that another program executes cannot be resumed; one whose program is gone can.
    let (key, settings) = (run.plan.key(), run.machine.settings.clone());
    let other = Store::open(&server.url()).unwrap();
    let found = |store: &Store| store.find_unfinished(&key, &settings, None).unwrap().map(|run| run.id);
    assert_eq!((found(&other), found(&writer)), (None, Some(run.id.clone())));
    drop(writer);
    server.until("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0");
    assert_eq!(found(&other), Some(run.id));
}

/// A results file with these runs of the given numbers of trials.
fn file(dir: &Path, name: &str, runs: &[(&RunRecord, u32)], samples: usize) -> std::path::PathBuf {
    let path = dir.join(name);
    let mut store = Store::open(&path).unwrap();
    for (run, trials) in runs {
        fill(&mut store, run, *trials, samples);
        store.end_run(&run.id, EndReason::Precise).unwrap();
    }
    path
}
