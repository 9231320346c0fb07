//! Tests of comparisons.

use super::*;
use crate::analysis::finding::{CellFinding, MetricFinding};
use crate::stats::statistics::median;
use crate::values::capture::Capture;
use crate::values::comparison::Difference;
use crate::values::plan::StoppingRule;
use crate::values::record::{ImportedRow, RunId};
use crate::values::settings::{FactValue, Settings};
use crate::values::topology::Topology;
use crate::values::units::Nanos;
use crate::values::workload::Better;

pub(in crate::analysis) fn record(id: &str, facts: &[(&str, &str)], simulated: Option<&str>) -> RunRecord {
    let mut settings = Settings::default();
    for (key, value) in facts {
        settings.record(key, FactValue::Known((*value).into()));
    }
    let second = Nanos(1_000_000_000);
    let repeat = StoppingRule { warmup: 0, min: 1, max: 1, precision: 0.1, budget: second, time_limit: second };
    RunRecord {
        id: RunId(id.into()),
        plan: Plan {
            experiment: "e".into(),
            question: String::new(),
            cells: Vec::new(),
            skipped: Vec::new(),
            workloads: Vec::new(),
            repeat,
            compare_by: "placement".into(),
            baseline: None,
            efficiency: Vec::new(),
            budget_wins: false,
            race: None,
            size: None,
            gate: None,
            command: Vec::new(),
        },
        seed: 1,
        machine: Capture::new(Topology::default(), settings),
        host: None,
        simulated: simulated.map(str::to_string),
        started_unix_ms: 0,
        ended: None,
        program: String::new(),
    }
}

pub(in crate::analysis) fn cell(test: &str, placement: &str, better: Better, samples: &[f64]) -> CellFinding {
    CellFinding {
        workload: test.into(),
        test: test.into(),
        placement: placement.into(),
        threads: 2,
        metrics: vec![MetricFinding {
            name: "m".into(),
            unit: "u".into(),
            better,
            median: median(samples),
            ci_low: None,
            ci_high: None,
            best: None,
            mean: None,
            samples: samples.to_vec(),
            blocks: (0..samples.len() as u32).collect(),
            trials: Vec::new(),
            suspect: Vec::new(),
        }],
        ..CellFinding::default()
    }
}

/// Compares with the default main metrics.
pub(super) fn compare(runs: &[ComparedRun<'_>], by: &By, baseline: Option<&str>) -> Result<Comparison, CompareError> {
    super::compare(runs, &ComparisonRequest { by, baseline, tests: &[], metric: None, added_tables: &[], history: &[] })
}

pub(in crate::analysis) fn finding(cells: Vec<CellFinding>) -> RunFinding {
    RunFinding { cells, skipped: Vec::new(), passes: false }
}

/// Samples that drift by a factor of four over the blocks.
fn drifting(factor: f64) -> Vec<f64> {
    (0..12_u32).map(|block| factor * f64::from(100 + 25 * block) * (1.0 + 0.002 * f64::from(block * 7 % 5))).collect()
}

#[test]
fn kernel_column_is_the_default_baseline() {
    let record = record("a", &[], None);
    let cells = ["compact", "kernel"].map(|placement| cell("t", placement, Better::Higher, &[1.0, 2.0]));
    let finding = finding(cells.into());
    let runs = [ComparedRun { record: &record, finding: &finding }];
    assert_eq!(compare(&runs, &By::Placement, None).unwrap().baseline, "kernel");
}

#[test]
fn blocks_of_one_run_are_compared_pair_by_pair() {
    let record = record("a", &[], None);
    let cells = vec![
        cell("t", "kernel", Better::Higher, &drifting(1.0)),
        cell("t", "spread", Better::Higher, &drifting(1.2)),
        cell("t", "same", Better::Higher, &drifting(1.0)),
    ];
    let finding = finding(cells);
    let comparison = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, None).unwrap();
    assert_eq!(comparison.baseline, "kernel");
    let spread = &comparison.rows[0].values["spread"];
    assert!((spread.change_percent.unwrap() - 20.0).abs() < 0.5, "{spread:?}");
    assert_eq!(spread.difference, Some(Difference::Higher), "drift common to both sides must not hide it");
    assert!(spread.ci_low.unwrap() > 15.0, "{spread:?}");
    assert_eq!(comparison.rows[0].values["same"].difference, Some(Difference::NoneSeen));
    assert_eq!(comparison.rows[0].values["kernel"].change_percent, None);
}

#[test]
fn cells_that_differ_in_one_parameter_share_a_row() {
    let record = record("a", &[], None);
    let one = |test: &str, engine: &str| CellFinding {
        workload: "io".into(),
        parameters: [("engine".to_string(), engine.to_string()), ("rw".into(), test[test.len() - 4..].into())].into(),
        ..cell(test, "kernel", Better::Higher, &[1.0, 2.0])
    };
    let finding = finding(vec![
        one("4k engine=psync rw=read", "psync"),
        one("4k engine=libaio rw=read", "libaio"),
        one("4k engine=libaio rw=write", "libaio"),
        one("alone", "libaio"),
        one("last engine=libaio", "libaio"),
    ]);
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let comparison = compare(&runs, &By::Parameter("engine".into()), Some("libaio")).unwrap();
    let rows: Vec<(&str, usize)> = comparison.rows.iter().map(|row| (row.test.as_str(), row.values.len())).collect();
    assert_eq!(rows, [("4k rw=read", 2), ("4k rw=write", 1), ("alone", 1), ("last", 1)]);
}

#[test]
fn geometric_mean_inverts_metrics_to_minimise() {
    let record = record("a", &[], None);
    let steady = |value: f64| (0..8).map(|i| value * (1.0 + 0.001 * f64::from(i))).collect::<Vec<_>>();
    let cells = vec![
        cell("speed", "kernel", Better::Higher, &steady(100.0)),
        cell("speed", "fast", Better::Higher, &steady(200.0)),
        cell("time", "kernel", Better::Lower, &steady(100.0)),
        cell("time", "fast", Better::Lower, &steady(50.0)),
    ];
    let finding = finding(cells);
    let comparison = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, None).unwrap();
    assert!((comparison.geomean[0].change_percent - 100.0).abs() < 1e-6, "{:?}", comparison.geomean);
}

#[test]
fn columns_with_one_of_several_tests_have_no_mean() {
    let record = record("a", &[], None);
    let steady = |value: f64| (0..8).map(|i| value * (1.0 + 0.001 * f64::from(i))).collect::<Vec<_>>();
    let cells = [("a", "kernel"), ("a", "fast"), ("a", "rare"), ("b", "kernel"), ("b", "fast")];
    let cells = cells.map(|(test, placement)| cell(test, placement, Better::Higher, &steady(100.0)));
    let finding = finding(cells.to_vec());
    let compared = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, None).unwrap();
    let means: Vec<_> = compared.geomean.iter().map(|mean| (mean.name.as_str(), mean.tests)).collect();
    assert_eq!(means, [("fast", 2)], "the mean of one test would repeat its row");
}

/// As in a comparison of two boots: changes per test with one and four threads, and the mean of each.
#[test]
fn thread_counts_with_several_tests_have_separate_means() {
    let record = record("a", &[], None);
    let steady = |value: f64| (0..8).map(|i| value * (1.0 + 0.001 * f64::from(i))).collect::<Vec<_>>();
    let with = |test: &str, threads: usize, factor: f64| {
        [("kernel", 100.0), ("fast", 100.0 * factor)]
            .map(|(placement, value)| CellFinding { threads, ..cell(test, placement, Better::Higher, &steady(value)) })
    };
    let measured = [with("a", 1, 1.0), with("b", 1, 4.0), with("a", 4, 2.0), with("b", 4, 8.0), with("alone", 2, 3.0)];
    let finding = finding(measured.concat());
    let compared = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, None).unwrap();
    let means: Vec<_> =
        compared.geomean.iter().map(|mean| (mean.threads, mean.change_percent.round() as i64)).collect();
    // (1 x 4 x 2 x 8 x 3)^(1/5), sqrt(1 x 4), sqrt(2 x 8)
    assert_eq!(means, [(None, 186), (Some(1), 100), (Some(4), 300)]);
    let by_threads = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Threads, None).unwrap();
    assert!(by_threads.geomean.iter().all(|mean| mean.threads.is_none()), "{:?}", by_threads.geomean);
}

#[test]
fn stored_experiments_may_compare_by_former_names() {
    assert_eq!(By::parse("set.folder"), By::Parameter("directory".into()));
}

#[test]
fn boot_labels_are_differences_of_command_lines() {
    let plain = record("a", &[("kernel.command-line", "quiet console=ttyS0"), ("memory.thp", "always")], None);
    let fake =
        record("b", &[("kernel.command-line", "quiet console=ttyS0 numa=fake=4"), ("memory.thp", "never")], None);
    let finding = finding(vec![cell("t", "kernel", Better::Higher, &drifting(1.0))]);
    let runs = [ComparedRun { record: &plain, finding: &finding }, ComparedRun { record: &fake, finding: &finding }];
    let comparison = compare(&runs, &By::Boot, None).unwrap();
    assert_eq!(comparison.columns, ["plain", "numa=fake=4"]);
    assert!(
        comparison.notes.iter().any(|note| note == "memory.thp differs: always and never"),
        "{:?}",
        comparison.notes
    );
    let by_fact = compare(&runs, &By::Fact("memory.thp".into()), Some("never")).unwrap();
    assert_eq!(by_fact.columns, ["never", "always"]);
    assert_eq!(compare(&runs, &By::parse("run"), Some("b")).unwrap().columns, ["b", "a"]);
}

#[test]
fn errors_name_the_valid_choices() {
    let (real, simulated) = (record("a", &[("cpu.model", "X")], None), record("b", &[("cpu.model", "X")], Some("r:1")));
    let finding = finding(vec![cell("t", "kernel", Better::Higher, &[1.0])]);
    let run = |record| ComparedRun { record, finding: &finding };
    let error = compare(&[run(&real), run(&simulated)], &By::Placement, None).unwrap_err().what;
    assert!(error.contains("never compared"), "{error}");
    let error = compare(&[run(&real)], &By::Placement, Some("compact")).unwrap_err().what;
    assert!(error.contains("'compact'") && error.contains("kernel"), "{error}");
    let error = compare(&[run(&real)], &By::Fact("cpu.colour".into()), None).unwrap_err().what;
    assert!(error.contains("cpu.model"), "{error}");
}

#[test]
fn published_percentages_follow_from_published_figures() {
    // Two rows of the Ryzen 5 2600 study: Dhrystone, published as -34 %, and shell-8, published as -23 %.
    let row = |test: &str, a: f64, b: f64| ImportedRow {
        test: test.into(),
        metric: "throughput".into(),
        unit: "lps".into(),
        better: Better::Higher,
        values: vec![Some(a), Some(b)],
        published_change_percent: None,
        samples: Vec::new(),
    };
    let table = ImportedTable {
        name: "ccx".into(),
        columns: vec!["6-core-2ccx".into(), "6-thread-1ccx".into()],
        rows: vec![row("dhrystone", 267_065_871.8, 177_565_964.9), row("shell-8", 6677.0, 5137.8)],
        notes: Vec::new(),
    };
    let comparison = compare_table(&table, Some("6-core-2ccx")).unwrap();
    let changes: Vec<f64> =
        comparison.rows.iter().map(|row| row.values["6-thread-1ccx"].change_percent.unwrap().round()).collect();
    assert_eq!(changes, [-34.0, -23.0]);
    assert_eq!(comparison.rows[0].values["6-thread-1ccx"].difference, None, "one figure has no interval");
    let turned = compare_table(&table, Some("6-thread-1ccx")).unwrap();
    assert_eq!(turned.columns, ["6-thread-1ccx", "6-core-2ccx"]);
    assert!((turned.rows[0].values["6-core-2ccx"].change_percent.unwrap() - 50.4).abs() < 0.1);
}
