//! Tests of means, rows and columns over several tests and machines.

use super::tests::{cell, compare, finding, record};
use super::*;
use crate::analysis::finding::CellFinding;
use crate::values::comparison::GeomeanChange;
use crate::values::plan::{CellSelector, EfficiencyRule};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

/// Values around a level with noise of half a percent, which differs by the salt.
fn around(level: f64, count: u32, salt: u32) -> Vec<f64> {
    let noise = |block: u32| f64::from((block * 7 + salt * 3 + block * salt) % 11) - 5.0;
    (0..count).map(|block| level * (1.0 + 0.001 * noise(block))).collect()
}

fn two_columns(tests: &[(&str, f64)], count: u32) -> RunFinding {
    let both = |(salt, (test, factor)): (u32, &(&str, f64))| {
        [
            cell(test, "kernel", Better::Higher, &around(100.0, count, salt)),
            cell(test, "fast", Better::Higher, &around(100.0 * factor, count, salt + 5)),
        ]
    };
    finding((0..).zip(tests).flat_map(both).collect())
}

fn by_placement(finding: &RunFinding) -> Comparison {
    let record = record("a", &[], None);
    compare(&[ComparedRun { record: &record, finding }], &By::Placement, None).unwrap()
}

#[test]
fn spread_between_tests_is_not_noise() {
    let comparison = by_placement(&two_columns(&[("a", 1.0), ("b", 0.51), ("c", 1.0), ("d", 1.0)], 8));
    let [GeomeanChange { change_percent, ci_low, ci_high, tests, trials, .. }] = comparison.geomean[..] else {
        panic!("{:?}", comparison.geomean)
    };
    assert!((change_percent - -15.5).abs() < 0.5, "{change_percent}");
    assert!(ci_low.unwrap() > -17.0 && ci_high.unwrap() < -14.0, "{ci_low:?} {ci_high:?}");
    assert_eq!((tests, trials), (4, 64));
}

#[test]
fn two_trials_have_changes_without_intervals() {
    for (count, has_interval) in [(1, false), (2, false), (3, true)] {
        let comparison = by_placement(&two_columns(&[("a", 1.5), ("b", 3.0)], count));
        let value = &comparison.rows[0].values["fast"];
        assert!(value.change_percent.is_some());
        assert_eq!(value.ci_low.is_some(), has_interval, "{count}");
        assert_eq!((value.difference.is_some(), value.p_value.is_some()), (has_interval, has_interval), "{count}");
        assert_eq!(comparison.geomean[0].ci_low.is_some(), has_interval, "{count}");
        assert!(comparison.geomean[0].change_percent > 100.0);
    }
}

#[test]
fn rows_are_paired_if_a_placement_lacks_a_thread_count() {
    let with = |placement: &str, threads: usize| CellFinding {
        threads,
        ..cell("t", placement, Better::Higher, &around(100.0, 4, threads as u32))
    };
    let comparison = by_placement(&finding(vec![with("kernel", 1), with("kernel", 8), with("interleave", 8)]));
    let rows: Vec<(&str, usize)> = comparison.rows.iter().map(|row| (row.test.as_str(), row.values.len())).collect();
    assert_eq!(rows, [("t, 1 thread", 1), ("t, 8 threads", 2)]);
    assert!(comparison.rows[1].values["interleave"].change_percent.is_some());
}

/// Two boards; the first has two kernels.
fn boards() -> [RunRecord; 3] {
    let board = |id: &str, host: &str, kernel: &str| RunRecord {
        host: Some(host.into()),
        ..record(id, &[("kernel.release", kernel)], None)
    };
    [board("1", "a", "4.19"), board("2", "a", "5.10"), board("3", "b", "5.10")]
}

#[test]
fn machines_are_separate_columns_in_every_comparison() {
    let records = boards();
    let levels = [2882.0, 3000.0, 8006.0].map(|level| finding(vec![cell("t", "kernel", Better::Higher, &[level; 3])]));
    let runs: Vec<ComparedRun<'_>> =
        records.iter().zip(&levels).map(|(record, finding)| ComparedRun { record, finding }).collect();
    let by_kernel = compare(&runs, &By::Fact("kernel.release".into()), None).unwrap();
    assert_eq!(by_kernel.columns, ["a, 4.19", "a, 5.10", "b, 5.10"]);
    assert_eq!(by_kernel.by, "host, kernel.release");
    assert_eq!(by_kernel.baseline_of("a, 5.10"), Some("a, 4.19"));
    assert_eq!(by_kernel.baseline_of("b, 5.10"), None, "the second board has no other kernel");
    let values = &by_kernel.rows[0].values;
    assert_eq!(values["b, 5.10"].median.round() as i64, 8006);
    assert_eq!(values["b, 5.10"].change_percent, None);
    let two = compare(&runs[..1], &By::Fact("kernel.release".into()), None).unwrap();
    assert_eq!(two.columns, ["4.19"], "one machine needs no name");
    let apart = compare(&[runs[0], runs[2]], &By::parse("kernel,host"), None).unwrap();
    assert_eq!(apart.columns, ["4.19, a", "5.10, b"]);
    assert_eq!(apart.baseline_of("5.10, b"), Some("4.19, a"), "no kernel is on both machines");
    let one = compare(&runs, &By::Fact("kernel.release".into()), Some("b, 5.10")).unwrap();
    assert_eq!((one.columns[0].as_str(), one.baseline_of("a, 4.19")), ("b, 5.10", Some("b, 5.10")));
}

#[test]
fn runs_with_different_settings_do_not_share_a_column() {
    let level = finding(vec![cell("t", "kernel", Better::Higher, &[1.0; 3])]);
    let records = ["performance", "powersave"].map(|governor| record(governor, &[("cpu.governor", governor)], None));
    let runs = [0, 1].map(|at| ComparedRun { record: &records[at], finding: &level });
    let error = compare(&runs, &By::Host, None).unwrap_err();
    assert!(error.what.contains("cpu.governor"), "{error}");
    assert!(error.hint.unwrap().contains("--by host,cpu.governor"));
    let by = By::parse("host,cpu.governor");
    assert_eq!(compare(&runs, &by, None).unwrap().columns.len(), 2);
}

#[test]
fn several_dimensions_have_a_baseline_per_machine() {
    let records = boards();
    let with = |threads: usize, level: f64| CellFinding {
        threads,
        ..cell("t", "kernel", Better::Higher, &around(level, 4, threads as u32))
    };
    let one = finding(vec![with(1, 100.0), with(6, 300.0)]);
    let other = finding(vec![with(1, 50.0), with(4, 200.0)]);
    let runs =
        [ComparedRun { record: &records[1], finding: &one }, ComparedRun { record: &records[2], finding: &other }];
    let comparison = compare(&runs, &By::parse("host,threads"), Some("1")).unwrap();
    assert_eq!(comparison.columns, ["a, 1", "a, 6", "b, 1", "b, 4"]);
    let baselines: Vec<_> = comparison.columns.iter().map(|column| comparison.baseline_of(column)).collect();
    assert_eq!(baselines, [None, Some("a, 1"), None, Some("b, 1")]);
    let changes: Vec<i64> =
        comparison.geomean.iter().map(|mean| (mean.change_percent / 10.0).round() as i64 * 10).collect();
    assert_eq!(changes, [200, 300]);
    assert_eq!(comparison.compared().collect::<Vec<_>>(), ["a, 6", "b, 4"]);
}

#[test]
fn chosen_metric_is_compared_instead_of_the_main_one() {
    let mut cells = two_columns(&[("a", 1.5), ("b", 2.0)], 4);
    for cell in &mut cells.cells[..2] {
        let mut other = cell.metrics[0].clone();
        other.name = "median".into();
        other.samples.iter_mut().for_each(|sample| *sample = 1.0);
        cell.metrics.push(other);
    }
    let record = record("a", &[], None);
    let runs = [ComparedRun { record: &record, finding: &cells }];
    let request = |metric| ComparisonRequest {
        by: &By::Placement,
        baseline: None,
        tests: &[],
        metric: Some(metric),
        added_tables: &[],
        history: &[],
    };
    let comparison = super::compare(&runs, &request("median")).unwrap().main_metrics();
    let rows: Vec<(&str, &str)> = comparison.rows.iter().map(|row| (row.test.as_str(), row.metric.as_str())).collect();
    assert_eq!(rows, [("a", "median")], "the other test has no such metric");
    assert_eq!(comparison.geomean[0].tests, 1);
    let error = super::compare(&runs, &request("speed")).unwrap_err();
    assert_eq!(error.hint.unwrap(), "the metrics are m, median");
}

/// A graph of one more scale than fits in DRAM, as in the study of an SSD as memory.
#[test]
fn efficiency_is_relative_to_the_next_smaller_reference() {
    let graph = |scale: &str, dram: &str, level: f64| CellFinding {
        workload: "bfs".into(),
        parameters: [("scale".to_string(), scale.to_string()), ("dram".into(), dram.into())].into(),
        ..cell(&format!("semi dram={dram} scale={scale}"), "compact", Better::Higher, &around(level, 5, 1))
    };
    let cells = finding(vec![
        graph("28", "all", 12.0),
        graph("29", "all", 9.61),
        graph("30", "50%", 7.52),
        graph("28", "50%", 11.0),
    ]);
    let select = |parameters: &[(&str, &str)]| CellSelector {
        tests: vec!["semi".into()],
        placements: Vec::new(),
        parameters: parameters.iter().map(|(name, value)| ((*name).into(), vec![(*value).into()])).collect(),
    };
    let mut record = record("a", &[], None);
    record.plan.efficiency = vec![EfficiencyRule {
        cells: select(&[("dram", "50%")]),
        reference: select(&[("dram", "all")]),
        next_smaller: Some("scale".into()),
    }];
    let runs = [ComparedRun { record: &record, finding: &cells }];
    let rows = compare(&runs, &By::Parameter("dram".into()), Some("all")).unwrap().efficiency;
    assert_eq!(rows.len(), 1, "scale 28 has no smaller reference");
    assert_eq!(rows[0].reference.test, "semi dram=all scale=29");
    assert!((rows[0].percent - 78.25).abs() < 0.01, "{}", rows[0].percent);
    assert!(rows[0].ci_low.unwrap() > 78.0 && rows[0].ci_high.unwrap() < 78.5);
    record.plan.command = ["run", "graph500", "--smoke"].map(String::from).into();
    let smoke = efficiencies(ComparedRun { record: &record, finding: &cells });
    assert_eq!((smoke.len(), smoke[0].ci_low, smoke[0].ci_high), (1, None, None), "a smoke test claims nothing");
}

/// As in the study of NUMA emulation: interleaved memory under the other boot against the boot without emulation.
#[test]
fn boots_and_placements_are_columns_against_the_plain_boot() {
    let boot = |id: &str, line: &str| record(id, &[("kernel.command-line", line), ("cpu.model", "A76")], None);
    let (plain, fake) = (boot("a", "quiet"), boot("b", "quiet numa=fake=8"));
    let kernel = |level: f64| cell("t", "kernel", Better::Higher, &around(level, 5, 1));
    let interleaved = cell("t", "kernel+interleave", Better::Higher, &around(146.0, 5, 2));
    let (before, after) = (finding(vec![kernel(100.0)]), finding(vec![kernel(100.0), interleaved]));
    let runs = [ComparedRun { record: &plain, finding: &before }, ComparedRun { record: &fake, finding: &after }];
    let by = By::parse("boot,placement");
    let both = compare(&runs, &by, Some("plain, kernel")).unwrap();
    assert_eq!(both.columns, ["plain, kernel", "numa=fake=8, kernel", "numa=fake=8, kernel+interleave"]);
    let change = |comparison: &Comparison, column: &str| comparison.rows[0].values[column].change_percent.unwrap();
    assert!((change(&both, "numa=fake=8, kernel+interleave") - 46.0).abs() < 1.0, "{both:?}");
    assert_eq!(both.geomean.len(), 2, "each column has a mean");
    assert!(both.notes.is_empty(), "the columns are named after the parameters of the kernel: {:?}", both.notes);

    // The plan of a run that is the only one so far.
    let mut planned_here = fake.clone();
    (planned_here.plan.compare_by, planned_here.plan.baseline) = (by.name(), Some("plain, kernel".into()));
    let one = planned(&[ComparedRun { record: &planned_here, finding: &after }], &planned_here.plan).unwrap();
    assert_eq!((one.by.as_str(), one.columns.join(" | ")), ("placement", "kernel | kernel+interleave".into()));

    // A second board with other parameters: each is compared with its own plain boot.
    let of = |host: &str, id: &str, line: &str| RunRecord { host: Some(host.into()), ..boot(id, line) };
    let records = [
        of("pi4", "a", "root=/dev/sda2"),
        of("pi4", "b", "root=/dev/sda2 numa=fake=8"),
        of("pi5", "c", "quiet"),
        of("pi5", "d", "quiet numa=fake=8"),
    ];
    let findings = [&before, &after, &before, &after];
    let pairs = records.iter().zip(findings);
    let runs: Vec<ComparedRun<'_>> = pairs.map(|(record, finding)| ComparedRun { record, finding }).collect();
    let boards = compare(&runs, &by, Some("plain, kernel")).unwrap();
    assert_eq!(boards.baseline_of("pi5, numa=fake=8, kernel+interleave"), Some("pi5, plain, kernel"));
    assert_eq!(boards.baseline_of("pi4, numa=fake=8, kernel+interleave"), Some("pi4, plain, kernel"));
    // Two boards with a boot each.
    let boards = compare(&[runs[0], runs[3]], &by, Some("plain, kernel")).unwrap();
    assert_eq!(boards.columns, ["pi4, kernel", "pi5, kernel", "pi5, kernel+interleave"]);
}

#[test]
fn tests_outside_the_means_are_compared_and_named() {
    let mut suite = two_columns(&[("stream", 1.27), ("zstd", 2.64), ("chase", 1.0)], 5);
    for cell in suite.cells.iter_mut().filter(|cell| cell.test == "chase") {
        cell.outside_means = true;
    }
    let comparison = by_placement(&suite);
    let mean = &comparison.geomean[0];
    // sqrt(1.27 x 2.64)
    assert!((mean.change_percent - 83.1).abs() < 1.0 && mean.tests == 2, "{mean:?}");
    assert!(comparison.rows.iter().any(|row| row.test == "chase"), "{comparison:?}");
    assert_eq!(comparison.notes, ["geometric means leave out chase, as the experiment defines"]);
}

#[test]
fn efficiency_of_times_is_above_a_hundred_if_faster() {
    let at = |n: &str, level: f64| CellFinding {
        workload: "w".into(),
        parameters: [("n".to_string(), n.to_string())].into(),
        ..cell(&format!("w n={n}"), "kernel", Better::Lower, &around(level, 4, 2))
    };
    let cells = finding(vec![at("1", 10.0), at("2", 8.0)]);
    let select = |n: &str| CellSelector {
        parameters: [("n".to_string(), vec![n.to_string()])].into(),
        ..CellSelector::default()
    };
    let mut record = record("a", &[], None);
    record.plan.efficiency = vec![EfficiencyRule { cells: select("2"), reference: select("1"), next_smaller: None }];
    let runs = [ComparedRun { record: &record, finding: &cells }];
    let row = &compare(&runs, &By::Placement, None).unwrap().efficiency[0];
    assert!((row.percent - 125.0).abs() < 1e-9, "{}", row.percent);
    assert!(row.ci_low.unwrap() <= row.percent && row.percent <= row.ci_high.unwrap());
}

fn table(columns: &[&str], rows: &[(&str, &str, &[f64])]) -> ImportedTable {
    let row = |(test, unit, values): &(&str, &str, &[f64])| ImportedRow {
        test: (*test).into(),
        metric: "throughput".into(),
        unit: (*unit).into(),
        better: Better::Higher,
        values: values.iter().map(|value| Some(*value)).collect(),
        published_change_percent: None,
        samples: Vec::new(),
    };
    ImportedTable {
        name: "published".into(),
        columns: columns.iter().map(|column| (*column).into()).collect(),
        rows: rows.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

#[test]
fn simulated_runs_are_not_compared_with_imported_figures() {
    let finding = two_columns(&[("a", 4.0)], 4);
    let record = record("a", &[], Some("model:1"));
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let published = table(&["paper"], &[("a", "u", &[1.0])]);
    let request = ComparisonRequest {
        by: &By::Placement,
        baseline: None,
        tests: &[],
        metric: None,
        added_tables: std::slice::from_ref(&published),
        history: &[],
    };
    assert!(super::compare(&runs, &request).unwrap_err().what.contains("never compared"));
}

#[test]
fn published_rows_join_tests_under_their_other_names() {
    let mut cells = two_columns(&[("shell", 2.0), ("queens", 1.5)], 4).cells;
    for cell in &mut cells[..2] {
        cell.parameters = [("concurrent".to_string(), "8".to_string())].into();
    }
    for cell in &mut cells {
        cell.metrics[0].unit = "MiB/s".into();
    }
    let finding = finding(cells);
    let record = record("a", &[], None);
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let published = table(
        &["paper", "fast"],
        &[
            ("Shell Scripts (8 concurrent)", "MB/s", &[104.8576, 1.0]),
            ("Shell Scripts (1 concurrent)", "MB/s", &[1.0, 1.0]),
            ("m-queens-17", "MiB/s", &[5.0, 6.0]),
        ],
    );
    let request = ComparisonRequest {
        by: &By::Placement,
        baseline: None,
        tests: &[],
        metric: None,
        added_tables: std::slice::from_ref(&published),
        history: &[],
    };
    let comparison = super::compare(&runs, &request).unwrap();
    assert_eq!(comparison.columns, ["kernel", "fast", "paper"]);
    let tests: Vec<&str> = comparison.rows.iter().map(|row| row.test.as_str()).collect();
    assert_eq!(
        tests,
        ["shell", "queens", "Shell Scripts (1 concurrent)", "m-queens-17"],
        "one script is another test, and so are 17 queens"
    );
    let shell = &comparison.rows[0].values;
    assert!((shell["paper"].median - 100.0).abs() < 1e-9, "converted to MiB/s");
    assert!(shell["paper"].change_percent.unwrap().abs() < 1.0 && shell["paper"].ci_low.is_none());
    assert!((shell["fast"].median - 200.0).abs() < 2.0, "measured values stay");
}

#[test]
fn imported_tests_with_the_runs_columns_are_part_of_their_mean() {
    let finding = two_columns(&[("a", 4.0), ("b", 4.0)], 4);
    let record = record("a", &[], None);
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let geekbench = table(&["kernel", "fast"], &[("geekbench 6 single-core", "points", &[1000.0, 500.0])]);
    let request = ComparisonRequest {
        by: &By::Placement,
        baseline: None,
        tests: &[],
        metric: None,
        added_tables: std::slice::from_ref(&geekbench),
        history: &[],
    };
    let comparison = super::compare(&runs, &request).unwrap();
    let mean = &comparison.geomean[0];
    // (4 x 4 x 0.5)^(1/3)
    assert!((mean.change_percent - 100.0).abs() < 1.0, "{mean:?}");
    assert_eq!((mean.tests, mean.ci_low), (3, None), "a single figure has no noise to compute an interval from");
    assert!(comparison.notes.iter().any(|note| note.contains("imported table published")), "{:?}", comparison.notes);
}
