//! Tests of comparisons between runs: what the interval contains, and when it supports a claim.

use super::tests::{cell, finding, record};
use super::*;
use crate::analysis::finding::RunFinding;
use crate::values::comparison::{ColumnMachine, ComparedValue, Difference, Replication};
use crate::values::plan::By;
use crate::values::record::{ImportedRow, RunRecord};
use crate::values::settings::FactValue;
use crate::values::workload::Better;

/// A run with a label as the compared fact, and nine trials around a level.
fn run(id: &str, rack: &str, level: f64) -> (RunRecord, RunFinding) {
    let samples: Vec<f64> = (0..9_u32).map(|i| level * (1.0 + 0.0001 * f64::from(i * 7 % 9))).collect();
    let cells = ["a", "b"].map(|test| cell(test, "kernel", Better::Lower, &samples));
    (record(id, &[("label.rack", rack)], None), finding(cells.into()))
}

fn compared(sides: &[(RunRecord, RunFinding)], history: &[(RunRecord, RunFinding)]) -> Comparison {
    let history: Vec<ComparedRun<'_>> = history.iter().map(borrowed).collect();
    let by = By::Fact("label.rack".into());
    let request = ComparisonRequest {
        by: &by,
        baseline: Some("left"),
        tests: &[],
        metric: None,
        added_tables: &[],
        history: &history,
    };
    super::compare(&sides.iter().map(borrowed).collect::<Vec<_>>(), &request).unwrap()
}

fn borrowed((record, finding): &(RunRecord, RunFinding)) -> ComparedRun<'_> {
    ComparedRun { record, finding }
}

fn right(comparison: &Comparison) -> &ComparedValue {
    &comparison.rows[0].values["right"]
}

#[test]
fn columns_name_their_machine() {
    let mut sides = [run("1", "left", 10.0), run("2", "right", 11.0)];
    sides[1].0.host = Some("node-2".into());
    sides[1].0.machine.settings.record("cpu.model", FactValue::Known("AMD EPYC".into()));
    let machines = compared(&sides, &[]).machines;
    assert_eq!(machines["left"], ColumnMachine::default());
    assert_eq!(machines["right"], ColumnMachine { host: Some("node-2".into()), cpu_model: Some("AMD EPYC".into()) });
}

#[test]
fn single_runs_give_the_interval_of_these_trials_and_no_claim() {
    let comparison = compared(&[run("1", "left", 10.0), run("2", "right", 11.0)], &[]);
    let value = right(&comparison);
    assert!((value.change_percent.unwrap() - 10.0).abs() < 0.01 && value.ci_low.unwrap() > 9.0, "{value:?}");
    assert_eq!((value.replication, value.difference, value.p_value), (Some(Replication::Trials), None, None));
    assert_eq!(comparison.geomean[0].replication, Some(Replication::Trials));
    let equal = compared(&[run("1", "left", 10.0), run("2", "right", 10.0)], &[]);
    assert_eq!(right(&equal).difference, Some(Difference::NoneSeen), "a wider interval would contain 0 as well");
}

#[test]
fn run_is_the_unit_if_both_sides_are_replicated() {
    // Runs differ by 1 %, trials of a run by 0.1 %: pooled trials would show a difference.
    let left = [10.0, 10.1, 9.9, 10.1].map(|level| run("l", "left", level));
    let right_runs = |factor: f64| [10.1, 10.0, 10.2, 10.0].map(|level| run("r", "right", factor * level));
    let same = compared(&[left.clone(), right_runs(1.0)].concat(), &[]);
    let value = right(&same);
    assert_eq!((value.replication, value.difference), (Some(Replication::Runs), Some(Difference::NoneSeen)));
    assert!(value.ci_low.unwrap() < -0.5 && value.ci_high.unwrap() > 1.5, "{value:?}");
    let faster = compared(&[left, right_runs(1.1)].concat(), &[]);
    let value = right(&faster);
    assert_eq!(value.difference, Some(Difference::Higher), "{value:?}");
    assert!(value.p_value.unwrap() < 0.001, "{value:?}");
    let mean = &faster.geomean[0];
    assert_eq!(mean.replication, Some(Replication::Runs));
    assert!(mean.ci_high.unwrap() < -6.0 && mean.ci_low.unwrap() > -13.0, "{mean:?}");
}

#[test]
fn history_of_the_machine_supports_claims_of_single_runs() {
    let sides = |level: f64| [run("1", "left", 10.0), run("2", "right", level)];
    let past = [10.0, 10.1, 9.9, 10.0, 10.1, 9.9].map(|level| run("p", "past", level));
    let near = compared(&sides(10.2), &past);
    let value = right(&near);
    assert_eq!((value.replication, value.difference), (Some(Replication::OtherRuns), Some(Difference::NoneSeen)));
    let far = compared(&sides(11.0), &past);
    assert_eq!(right(&far).difference, Some(Difference::Higher), "{:?}", right(&far));
    assert_eq!(far.geomean[0].replication, Some(Replication::OtherRuns));
    assert!(far.geomean[0].ci_high.unwrap() < 0.0, "{:?}", far.geomean[0]);
    let elsewhere = past.map(|(mut record, finding)| {
        record.host = Some("elsewhere".into());
        (record, finding)
    });
    assert_eq!(right(&compared(&sides(11.0), &elsewhere)).difference, None, "another machine shows nothing");
}

#[test]
fn imported_samples_are_single_runs() {
    let row = ImportedRow {
        test: "t".into(),
        metric: "time".into(),
        unit: "s".into(),
        better: Better::Lower,
        values: vec![Some(1.0), Some(2.0)],
        published_change_percent: None,
        samples: vec![vec![1.0, 1.01, 0.99, 1.0, 1.02, 0.98], vec![2.0, 2.01, 1.99, 2.0, 2.02, 1.98]],
    };
    let table =
        ImportedTable { name: "t".into(), columns: vec!["a".into(), "b".into()], rows: vec![row], notes: Vec::new() };
    let value = compare_table(&table, Some("a")).unwrap().rows[0].values["b"].clone();
    assert_eq!((value.replication, value.difference), (Some(Replication::Trials), None), "{value:?}");
}

#[test]
fn suspect_trials_are_counted_on_both_sides() {
    let mut sides = [run("1", "left", 10.0), run("2", "right", 11.0)];
    for ((_, finding), count) in sides.iter_mut().zip([2, 5]) {
        finding.cells[0].metrics[0].suspect = (0..9).map(|at| at < count).collect();
    }
    let comparison = compared(&sides, &[]);
    let values = &comparison.rows[0].values;
    assert_eq!((values["left"].suspect, values["right"].suspect), (2, 5));
    assert_eq!(comparison.geomean[0].suspect, 7);
    assert!(values["right"].rests_on_suspect(Some(&values["left"])), "5 of 9");
    assert!(!values["left"].rests_on_suspect(None), "2 of 9");
    assert!(values["left"].rests_on_suspect(Some(&values["right"])), "the other side is suspect");
}
