//! A reader sees what others write and writes nothing itself.

use model::hint::Hinted;
use model::values::record::{EndReason, RunId, VerdictCounts};
use model::values::trial::{Grade, Role};
use model::values::units::Nanos;
use store::{Store, StoreError, StoreVersion};

use crate::fixtures;

#[test]
fn changes_by_another_program_are_visible() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut writer = Store::open(&path).unwrap();
    let run = fixtures::run("ab12", 1);
    writer.begin_run(&run).unwrap();
    let reader = Store::open_to_read(&path).unwrap();
    assert_eq!(reader.newest_trial_unix_ms().unwrap(), None);
    let mut newest = 0;
    let mut version = reader.data_version().unwrap();
    assert_eq!(reader.data_version().unwrap(), version, "nothing happened");
    let mut verdicts = VerdictCounts::default();
    for position in 0..30 {
        let mut trial = fixtures::trial(&run, position, 2);
        trial.outcome.took = Nanos(5_000_000_000);
        writer.add_trial(&run.id, &trial).unwrap();
        newest = newest.max(trial.outcome.started_unix_ms + trial.outcome.took.0 / 1_000_000);
        let now = reader.data_version().unwrap();
        assert_ne!(now, version, "trial {position} was stored");
        version = now;
        if trial.trial.role != Role::Warmup {
            match trial.verdict.grade {
                Grade::Valid => verdicts.valid += 1,
                Grade::Suspect => verdicts.suspect += 1,
                Grade::Invalid => verdicts.invalid += 1,
            }
        }
        let progress = reader.progress(&run.id).unwrap();
        assert_eq!((progress.trials, progress.verdicts, progress.ended), (position + 1, verdicts, None));
    }
    assert!(verdicts.valid > 0 && verdicts.valid < 30, "the fixtures differ: {verdicts:?}");
    assert_eq!(reader.runs().unwrap()[0].verdicts, verdicts);
    assert_eq!(reader.extent().unwrap(), StoreVersion { runs: 1, trials: 30, ..StoreVersion::default() });
    assert_eq!(reader.newest_trial_unix_ms().unwrap(), Some(newest));
    writer.end_run(&run.id, EndReason::Precise).unwrap();
    assert_eq!(reader.progress(&run.id).unwrap().ended, Some(EndReason::Precise));
    assert_eq!(reader.extent().unwrap().ended, 1);
    let error = reader.progress(&RunId("cd".into())).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchRun { .. }), "{error}");
}

#[test]
fn file_opened_for_reading_is_not_modified() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    assert!(matches!(Store::open_to_read(&path), Err(StoreError::Missing { .. })));
    assert!(!path.exists(), "it is not made");
    drop(Store::open(&path).unwrap());
    let before = std::fs::read(&path).unwrap();
    let mut reader = Store::open_to_read(&path).unwrap();
    let refused = reader.begin_run(&fixtures::run("ab12", 1)).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../nearfar/tests/fixtures/results-0.1/results.db"), &path)
        .unwrap();
    let error = Store::open_to_read(&path).unwrap_err().text_with_hint();
    assert!(error.contains("older nearfar (schema 2") && error.contains("hint: 'nearfar show'"), "{error}");
}
