//! Concurrent writers, also while the tables are created: everything is stored once.

use std::path::PathBuf;
use std::sync::Barrier;

use model::values::record::RunRecord;
use store::{MergeReport, Store};

use super::{content, file, server};
use crate::fixtures;

const WRITERS: usize = 4;

#[test]
fn four_concurrent_writers_store_everything_once() {
    let Some(server) = server::start("many writers of a server") else { return };
    let directory = tempfile::tempdir().unwrap();
    let runs: Vec<RunRecord> = (0..WRITERS).map(|number| fixtures::run(&format!("run{number}"), 1)).collect();
    // Each has a run of its writer only, and one shared with the next writer, in some files with fewer trials.
    let files: Vec<_> = (0..WRITERS)
        .map(|number| {
            let own = (&runs[number], 60);
            let shared = (&runs[(number + 1) % WRITERS], 60);
            file(directory.path(), &format!("{number}.db"), &[own, shared], 20)
        })
        .collect();
    let urls = server.url();
    let start = Barrier::new(WRITERS);
    let reports: Vec<MergeReport> = std::thread::scope(|scope| {
        let merge = |path: &PathBuf| {
            let (start, urls, path) = (&start, &urls, path.clone());
            scope.spawn(move || {
                start.wait();
                Store::open(urls).unwrap().merge(&path).unwrap()
            })
        };
        let all: Vec<_> = files.iter().map(merge).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let sum = |of: fn(&MergeReport) -> usize| reports.iter().map(of).sum::<usize>();
    assert_eq!((sum(|one| one.runs_added), sum(|one| one.runs_present)), (WRITERS, WRITERS), "{reports:?}");
    assert_eq!((sum(|one| one.trials_added), sum(|one| one.trials_present)), (60 * WRITERS, 60 * WRITERS));
    assert!(reports.iter().all(|one| one.conflicts.is_empty()), "{reports:?}");
    let store = Store::open_existing(&server.url()).unwrap();
    for run in &runs {
        let expected: Vec<_> = (0..60).map(|position| fixtures::trial(run, position, 20)).collect();
        assert!(store.trials(&run.id).unwrap() == expected, "{}", run.id);
    }
    assert_eq!(server.sql(server::DATABASE, "SELECT count(*) FROM nearfar.sample"), (60 * WRITERS * 20).to_string());
    assert_eq!(server.sql(server::DATABASE, "SELECT count(*) FROM nearfar.cell"), fixtures::CELLS.to_string());

    // Concurrently, each stores trials of a separate run.
    let before = content(&store);
    std::thread::scope(|scope| {
        for run in &runs {
            let urls = &urls;
            scope.spawn(move || {
                let mut store = Store::open(urls).unwrap();
                (60..80).for_each(|position| store.add_trial(&run.id, &fixtures::trial(run, position, 3)).unwrap());
            });
        }
    });
    assert_ne!(content(&store), before);
    for run in &runs {
        let samples = |position| if position < 60 { 20 } else { 3 };
        let expected: Vec<_> = (0..80).map(|position| fixtures::trial(run, position, samples(position))).collect();
        assert!(store.trials(&run.id).unwrap() == expected, "{}", run.id);
    }
}
