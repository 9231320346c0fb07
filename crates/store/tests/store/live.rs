//! Experiments on running services: periods are stored once, merged, and verified when they are read.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use model::analysis::live::{
    LiveEnd, LiveEvidence, LiveId, LivePeriod, LivePhase, LivePlacement, LiveRecord, LiveRequest, LiveSetup,
    ServiceIdentity,
};
use model::stats::switchback::{ArmId, SwitchSample};
use model::values::id_set::CpuSet;
use model::values::units::Nanos;
use model::values::workload::Better;
use store::{LiveProgress, Store, StoreError};

use crate::child::{acknowledged, again, given_path};
use crate::fixtures;

/// An experiment on a process.
pub fn record(pid: u32) -> LiveRecord {
    let placement = |name: &str, cpus| LivePlacement {
        name: name.into(),
        cpus: CpuSet::parse_list(cpus).expect("a list"),
        memory: None,
        interrupts: Vec::new(),
    };
    let request = LiveRequest {
        options: vec!["--unit".into(), "redis".into()],
        metric: "tcp:6379".into(),
        guards: vec!["command:./p99<20ms".into()],
        placements: Vec::new(),
        budget: Nanos(900_000_000_000),
        seed: 1,
        moves_memory: false,
        devices: Vec::new(),
    };
    let setup = LiveSetup {
        subject: "unit redis".into(),
        service: ServiceIdentity { pid, started: 4711, boot: Some("b".into()) },
        quantity: "rate".into(),
        unit: "/s".into(),
        better: Better::Higher,
        placements: vec![placement("as found", "0-3"), placement("node:0", "0,1")],
        pinned_threads: 2,
    };
    LiveRecord::begin(request, setup, fixtures::machine("6.18.0"), 1_790_000_000_000, "0.1.0")
}

/// A period of a position, in blocks of two.
pub fn period(position: u32) -> LivePeriod {
    let phase = if position < 40 { LivePhase::WashOut } else { LivePhase::Race };
    let rate = (position % 7 != 3).then_some(0.1 + f64::from(position) / 3.0);
    let samples = (0..position % 30).map(|at| SwitchSample { since_s: f64::from(at) / 3.0, value: 0.1 });
    LivePeriod {
        block: position / 2,
        at_s: f64::from(position) * 2.1,
        length_s: 2.1,
        arm: ArmId(position % 2),
        phase,
        rate,
        unproven: rate.is_none().then(|| "thread 8 of process 7 may run on CPU 3".into()),
        evidence: LiveEvidence {
            halves: rate.map(|rate| (rate, 1.01 * rate)),
            samples: samples.collect(),
            ..LiveEvidence::default()
        },
    }
}

/// Adds periods from a position to another.
pub fn fill(store: &mut Store, record: &LiveRecord, positions: std::ops::Range<u32>) {
    if store.live(&record.id.0).unwrap().is_none() {
        store.begin_live(record).unwrap();
    }
    positions.for_each(|position| store.add_live_period(&record.id, &period(position)).unwrap());
}

fn periods(count: u32) -> Vec<LivePeriod> {
    (0..count).map(period).collect()
}

#[test]
fn experiments_are_read_as_they_were_stored() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(&directory.path().join("results.db")).unwrap();
    let (first, second) = (record(7), record(8));
    fill(&mut store, &first, 0..60);
    fill(&mut store, &second, 0..3);
    assert_eq!(store.live_periods(&first.id).unwrap(), periods(60));
    assert_eq!(store.live(&first.id.0[..12]).unwrap(), Some(first.clone()));
    assert_eq!(store.live("latest").unwrap(), Some(second.clone()));
    assert_eq!(store.live("zz").unwrap(), None);
    assert_eq!(store.live_progress(&first.id).unwrap(), LiveProgress { periods: 60, has_ended: false });
    let end = LiveEnd { at_s: 0.1 + 0.2, reason: Some("the service has ended".into()) };
    store.end_live(&first.id, &end).unwrap();
    assert_eq!(store.live(&first.id.0).unwrap(), Some(LiveRecord { ended: Some(end.clone()), ..first.clone() }));
    let listed: Vec<_> = store.live_experiments().unwrap().into_iter().map(|live| (live.id, live.periods)).collect();
    assert_eq!(listed, [(first.id.clone(), 60), (second.id, 3)]);
    assert!(store.end_live(&first.id, &end).is_err(), "an experiment ends once");
    assert!(matches!(store.live_periods(&LiveId("zz".into())), Err(StoreError::NoSuchRun { .. })));
}

#[test]
fn only_the_same_request_on_the_same_process_continues() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(&directory.path().join("results.db")).unwrap();
    let ours = record(7);
    fill(&mut store, &ours, 0..5);
    fill(&mut store, &record(8), 0..1);
    let found = |store: &Store, request: &LiveRequest, service: &ServiceIdentity| {
        store.find_unfinished_live(request, service).unwrap().map(|found| found.id)
    };
    assert_eq!(found(&store, &ours.request, &ours.setup.service), Some(ours.id.clone()));
    let restarted = ServiceIdentity { started: 4712, ..ours.setup.service.clone() };
    assert_eq!(found(&store, &ours.request, &restarted), None);
    assert_eq!(store.newest_unfinished_live(&ours.request).unwrap().map(|found| found.id), Some(record(8).id));
    let other = LiveRequest { seed: 2, ..ours.request.clone() };
    assert_eq!(found(&store, &other, &ours.setup.service), None);
    assert_eq!(store.newest_unfinished_live(&other).unwrap(), None);
    store.end_live(&ours.id, &LiveEnd { at_s: 10.5, reason: None }).unwrap();
    assert_eq!(found(&store, &ours.request, &ours.setup.service), None);
}

#[test]
fn merge_adds_missing_periods_and_the_end_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("there.db");
    let (mut local, mut remote) =
        (Store::open(&directory.path().join("here.db")).unwrap(), Store::open(&path).unwrap());
    let (both, only_remote) = (record(7), record(8));
    fill(&mut local, &both, 0..10);
    fill(&mut remote, &both, 0..25);
    fill(&mut remote, &only_remote, 0..4);
    let end = LiveEnd { at_s: 60.0, reason: None };
    remote.end_live(&both.id, &end).unwrap();
    let report = local.merge(&path).unwrap();
    assert_eq!((report.live_added, report.live_present, report.periods_added), (1, 1, 19));
    assert!(report.to_string().ends_with("experiments on services: added 1, 19 periods; already present: 1"));
    assert_eq!(local.live_periods(&both.id).unwrap(), periods(25));
    assert_eq!(local.live(&both.id.0).unwrap().and_then(|live| live.ended), Some(end));
    assert_eq!(local.live_periods(&only_remote.id).unwrap(), periods(4));
    let again = local.merge(&path).unwrap();
    assert_eq!((again.live_added, again.live_present, again.periods_added), (0, 2, 0));

    local.add_live_period(&only_remote.id, &period(4)).unwrap();
    remote.add_live_period(&only_remote.id, &period(5)).unwrap();
    let conflict = local.merge(&path).unwrap();
    assert_eq!(conflict.conflicts, [format!("experiment {}: it was continued in both files", only_remote.id)]);
    assert_eq!(local.live_periods(&only_remote.id).unwrap(), periods(5));
}

#[test]
fn damaged_experiments_are_errors_and_never_other_figures() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let record = record(7);
    let mut store = Store::open(&path).unwrap();
    fill(&mut store, &record, 0..6);
    store.end_live(&record.id, &LiveEnd { at_s: 12.6, reason: None }).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    for (sql, expected) in [
        ("UPDATE live_period SET rate = 2 WHERE position = 4", "period 4 of experiment"),
        ("UPDATE live_period SET evidence = replace(evidence, '1', '2') WHERE position = 5", "period 5 of experiment"),
        ("DELETE FROM live_period WHERE position = 3", "period 3 of experiment"),
        ("UPDATE live SET setup = replace(setup, '0-3', '0-2')", "experiment"),
        ("UPDATE live_end SET at_s = 3", "the end of experiment"),
        ("UPDATE machine SET capture = replace(capture, '6.18.0', '6.18.1')", "experiment"),
    ] {
        fs::write(&path, &whole).unwrap();
        let changed = rusqlite::Connection::open(&path).unwrap().execute(sql, []).unwrap();
        assert!(changed > 0, "{sql}");
        let store = Store::open_unchanged(&path).unwrap();
        let read = store.live(&record.id.0).and_then(|_| store.live_periods(&record.id));
        let error = read.expect_err(sql).to_string();
        assert!(error.contains("is damaged") && error.contains(expected), "{sql}: {error}");
    }
}

const PERIODS: u32 = 400;

/// Not a test: a process that stores the missing periods of an experiment and acknowledges each.
#[test]
fn write_periods() {
    let Some(path) = given_path() else { return };
    let (mut store, record) = (Store::open(&path).unwrap(), record(7));
    fill(&mut store, &record, 0..0);
    println!();
    for position in store.live_progress(&record.id).unwrap().periods..PERIODS {
        store.add_live_period(&record.id, &period(position)).unwrap();
        println!("stored {position}");
    }
}

#[test]
fn killed_writer_leaves_whole_periods_and_loses_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut known = 0;
    for round in 0..24_u64 {
        let mut child =
            again("live::write_periods").env("NEARFAR_TEST_STORE", &path).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let random = model::values::plan::stream(round, "kill");
        let wanted = (random % 20) as usize;
        let mut last = lines.by_ref().filter_map(|line| acknowledged(&line)).take(wanted).last();
        (0..(random >> 32) % 400_000).for_each(|spin| assert!(std::hint::black_box(spin) < u64::MAX));
        child.kill().unwrap();
        child.wait().unwrap();
        last = lines.filter_map(|line| acknowledged(&line)).last().or(last);
        let stored = stored_periods(&path);
        assert!(stored >= known && stored >= last.map_or(0, |last| last + 1), "round {round}: {last:?}, {stored}");
        known = stored;
    }
    assert!(known > 20, "the writer was always killed too early, so the test is inconclusive");
}

/// Returns the number of stored periods, each of which must be the expected one.
fn stored_periods(path: &Path) -> u32 {
    let store = Store::open(path).unwrap();
    store.check().unwrap();
    if store.live_experiments().unwrap().is_empty() {
        return 0;
    }
    let found = store.live_periods(&record(7).id).unwrap();
    assert_eq!(found, periods(found.len() as u32));
    found.len() as u32
}
