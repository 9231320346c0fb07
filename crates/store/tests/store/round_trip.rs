//! Loaded runs equal the stored ones to the last bit.

use std::collections::BTreeMap;

use model::values::id_set::CpuId;
use model::values::placement::Placement;
use model::values::record::{RunRecord, TrialRecord};
use model::values::trial::{Evidence, Grade, Role, Sample, Trial, TrialId, TrialOutcome, TrialStatus, Verdict};
use model::values::units::{Bytes, Nanos};
use model::values::workload::{Parameters, Value};
use proptest::prelude::*;
use store::Store;

use crate::fixtures;

#[test]
fn loaded_run_equals_the_stored_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let run =
        RunRecord { host: Some("ä\"';\0".into()), simulated: Some("c:1".into()), ..fixtures::run("aa", u64::MAX) };
    // Stored in another order than by position, as after a merge.
    let expected: Vec<TrialRecord> =
        (0..100).map(|position| fixtures::trial(&run, position, position as usize % 7)).collect();
    {
        let mut store = Store::open(&path).unwrap();
        store.begin_run(&run).unwrap();
        expected.iter().rev().for_each(|trial| store.add_trial(&run.id, trial).unwrap());
        assert_eq!(store.trials(&run.id).unwrap(), expected);
    }
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.run("aa").unwrap(), run);
    assert_eq!(store.run("aa").unwrap().plan.key(), run.plan.key());
    assert_eq!(store.trials(&run.id).unwrap(), expected);
    let ids: std::collections::HashSet<TrialId> = expected.iter().map(|record| record.trial.id.clone()).collect();
    assert_eq!(store.trial_ids(&run.id).unwrap(), ids);
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Switch),
        any::<i64>().prop_map(Value::Integer),
        any::<String>().prop_map(Value::Text)
    ]
}

fn finite() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE
}

fn status() -> impl Strategy<Value = TrialStatus> {
    prop_oneof![
        Just(TrialStatus::Completed),
        any::<String>().prop_map(TrialStatus::Failed),
        any::<String>().prop_map(TrialStatus::TimedOut),
        any::<String>().prop_map(TrialStatus::Unavailable),
    ]
}

prop_compose! {
    fn trial()(
        (cell, block, attempt, seed) in any::<(u32, u32, u32, u64)>(),
        limit in any::<u64>(),
        workload in any::<String>(),
        parameters in prop::collection::btree_map(any::<String>(), value(), 0..4),
        name in any::<String>(),
        bindings in prop::collection::vec((0..8192_u32).prop_map(CpuId), 0..4),
        warmup in any::<bool>(),
    ) -> Trial {
        Trial {
            id: TrialId(format!("{seed:x}")),
            cell: cell as usize,
            workload,
            parameters: Parameters(parameters),
            placement: Placement { name, bindings, ..Placement::kernel(3) },
            role: if warmup { Role::Warmup } else { Role::Measured },
            block,
            attempt,
            seed,
            time_limit: Nanos(limit),
        }
    }
}

prop_compose! {
    fn outcome()(
        status in status(),
        samples in prop::collection::vec((any::<String>(), finite()), 0..5),
        (polls, swapped, started, took) in any::<(u64, Option<u64>, u64, u64)>(),
        policy in any::<Option<String>>(),
        unavailable in prop::collection::btree_map(any::<String>(), any::<String>(), 0..3),
    ) -> TrialOutcome {
        let evidence = Evidence {
            polls,
            swapped: swapped.map(Bytes),
            memory_policy: policy,
            unavailable,
            pages: BTreeMap::new(),
            ..Evidence::default()
        };
        let samples = samples.into_iter().map(|(series, value)| Sample { series, value }).collect();
        TrialOutcome { status, samples, evidence, started_unix_ms: started, took: Nanos(took) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loaded_trial_equals_the_stored_one(
        position in any::<u32>(),
        trial in trial(),
        outcome in outcome(),
        grade in prop_oneof![Just(Grade::Valid), Just(Grade::Suspect), Just(Grade::Invalid)],
        reasons in prop::collection::vec(any::<String>(), 0..3),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(&directory.path().join("results.db")).unwrap();
        let run = fixtures::run("aa", 1);
        store.begin_run(&run).unwrap();
        let record = TrialRecord { position, trial, outcome, verdict: Verdict { grade, reasons } };
        store.add_trial(&run.id, &record).unwrap();
        let loaded = store.trials(&run.id).unwrap();
        prop_assert_eq!(loaded, vec![record]);
    }
}
