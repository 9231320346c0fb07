//! Names of rows in a comparison by a parameter.

use std::collections::BTreeMap;

use crate::analysis::finding::CellFinding;
use crate::values::plan::test_title;

/// Returns the name of a test without the parameters of the columns.
///
/// Other parameters that differ separate rows. The exception is a parameter with a single value in each column (such as
/// the queue depth of an engine that supports only one request), if the experiment gave the tests a label: the label
/// declares them to be one test.
pub(super) fn without(cell: &CellFinding, parameters: &[&str], all: &[&CellFinding]) -> String {
    let (title, words) = split(cell);
    let alike: Vec<&CellFinding> =
        all.iter().copied().filter(|other| other.workload == cell.workload && split(other).0 == title).collect();
    let is_labelled = title != cell.workload;
    let kept = words.iter().filter(|(name, _)| {
        !(parameters.contains(name) || is_labelled && depends_on_columns(name, parameters, &alike))
    });
    kept.fold(title.to_string(), |row, (_, word)| row + word)
}

/// Whether the cells of each column have the same value of a parameter.
fn depends_on_columns(name: &str, parameters: &[&str], cells: &[&CellFinding]) -> bool {
    let mut values: BTreeMap<Vec<Option<&String>>, Option<&String>> = BTreeMap::new();
    cells.iter().all(|cell| {
        let column = parameters.iter().map(|parameter| cell.parameters.get(*parameter)).collect();
        let value = cell.parameters.get(name);
        *values.entry(column).or_insert(value) == value
    })
}

/// Returns the name of a test without its parameters.
pub(super) fn title(cell: &CellFinding) -> &str {
    test_title(&cell.test, cell.parameters.keys())
}

/// Splits the name of a test into its title and its parameters ` name=value`. Values may contain spaces.
fn split(cell: &CellFinding) -> (&str, Vec<(&str, &str)>) {
    let place = |name: &String| cell.test.find(&format!(" {name}="));
    let mut places: Vec<(usize, &str)> =
        cell.parameters.keys().filter_map(|name| Some((place(name)?, name.as_str()))).collect();
    places.sort_unstable();
    let ends = places.iter().skip(1).map(|(at, _)| *at).chain([cell.test.len()]);
    let words = places.iter().zip(ends).map(|((at, name), end)| (*name, &cell.test[*at..end])).collect();
    (title(cell), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(test: &str, parameters: &[(&str, &str)]) -> CellFinding {
        CellFinding {
            workload: "io".into(),
            test: test.into(),
            parameters: parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            placement: "kernel".into(),
            threads: 1,
            ..CellFinding::default()
        }
    }

    fn rows(cells: &[CellFinding], parameter: &str) -> Vec<String> {
        let all: Vec<&CellFinding> = cells.iter().collect();
        cells.iter().map(|cell| without(cell, &[parameter], &all)).collect()
    }

    #[test]
    fn row_names_omit_the_column_and_keep_other_parameters() {
        let of = |title: &str, engine: &str, depth: &str| {
            let test = format!("{title} engine={engine} iodepth={depth}");
            cell(&test, &[("engine", engine), ("iodepth", depth), ("bs", "4KiB")])
        };
        let cells = [of("4k", "libaio", "1"), of("4k", "libaio", "16"), of("4k", "psync", "1")];
        assert_eq!(rows(&cells, "engine"), ["4k iodepth=1", "4k iodepth=16", "4k iodepth=1"]);
        assert_eq!(rows(&cells, "iodepth"), ["4k engine=libaio", "4k engine=libaio", "4k engine=psync"]);
        // A depth that depends on the engine, as in "events", does not make a separate row; nor do depths of other
        // titles.
        let events = [&cells[..], &[of("events", "libaio", "4"), of("events", "psync", "1")]].concat();
        assert_eq!(rows(&events, "engine")[3..], ["events", "events"]);
    }

    /// As matrices whose sizes need the same memory in both precisions, so that each size has one precision.
    #[test]
    fn parameters_that_differ_separate_rows_without_a_label() {
        let of = |precision: &str, n: &str| CellFinding {
            workload: "gemm".into(),
            ..cell(&format!("gemm n={n} precision={precision}"), &[("n", n), ("precision", precision)])
        };
        let cells = [of("fp64", "3328"), of("fp64", "6656"), of("fp32", "4704"), of("fp32", "9408")];
        let expected = ["gemm precision=fp64", "gemm precision=fp64", "gemm precision=fp32", "gemm precision=fp32"];
        assert_eq!(rows(&cells, "n"), expected);
    }

    #[test]
    fn values_with_spaces_and_names_without_parameters_stay_whole() {
        let cells = [
            cell("t argv=a b size=1xllc", &[("argv", "a b"), ("size", "8MiB")]),
            cell("t argv=a b size=2xllc", &[("argv", "a b"), ("size", "16MiB")]),
            cell("t argv=c size=1xllc", &[("argv", "c"), ("size", "8MiB")]),
        ];
        assert_eq!(rows(&cells, "argv"), ["t size=1xllc", "t size=2xllc", "t size=1xllc"]);
        assert_eq!(rows(&cells, "size"), ["t argv=a b", "t argv=a b", "t argv=c"]);
        assert_eq!(rows(&[cell("SEQ1M Q8T1", &[("data", "zero")])], "data"), ["SEQ1M Q8T1"]);
    }
}
