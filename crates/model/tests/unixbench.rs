//! Compares the computed UnixBench indices with those that a report of UnixBench 5.1.3 prints.

use model::analysis::compare::index_table;
use model::import::reports::unixbench::parse;
use model::import::reports::{NamedReport, join};
use model::import::unixbench::{TESTS, find, index_of};

/// Report of `Run -i 1 -c 1 -c 2 index shell16` on a virtual machine with two CPUs.
const REPORT: &str = include_str!("reports/unixbench-5.1.3.txt");

/// Returns the printed index of each test of each run, in the order of the report.
fn printed() -> Vec<(&'static str, f64)> {
    let line = |line: &'static str| {
        let test = TESTS.iter().find(|test| line.starts_with(test.title) && !line.contains("samples"))?;
        Some((test.name, line.split_whitespace().last()?.parse().ok()?))
    };
    REPORT.lines().filter_map(line).collect()
}

#[test]
fn test_indices_match_the_printed_ones() {
    let report = parse(REPORT).unwrap();
    let copies: Vec<u32> = report.runs.iter().map(|run| run.copies).collect();
    assert_eq!(copies, [1, 2]);
    assert!(report.runs.iter().all(|run| run.scores.len() == 13), "{report:?}");
    let scores = report.runs.iter().flat_map(|run| &run.scores).filter(|score| score.test != "shell-16");
    let printed = printed();
    assert_eq!(printed.len(), 24);
    for (score, (name, index)) in scores.zip(printed) {
        assert_eq!(score.test, name);
        let computed = index_of(score.score, find(name).unwrap());
        // Printed scores are rounded to 0.1, which is significant for tests with a small baseline.
        let rounding = 0.05 + index_of(0.05, find(name).unwrap());
        assert!((computed - index).abs() <= rounding + 1e-9, "{name}: {computed}, printed {index}");
    }
}

#[test]
fn total_index_matches_the_printed_one_to_a_tenth() {
    let report = parse(REPORT).unwrap();
    let named = NamedReport { column: None, file: "r".into(), report: report.rows() };
    let table = index_table(&join("r", vec![named]).unwrap(), None).unwrap();
    let [group] = table.groups.as_slice() else { panic!("{table:?}") };
    assert_eq!(table.columns, ["1 copy", "2 copies"]);
    for (run, index) in report.runs.iter().zip(&group.indices) {
        let (index, printed) = (index.unwrap(), run.index.unwrap());
        assert_eq!(index.tests, 12);
        assert!((index.value - printed).abs() <= 0.1, "{} copies: {}, printed {printed}", run.copies, index.value);
    }
}
