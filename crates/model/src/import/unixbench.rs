//! Computes the UnixBench index as defined in version 5.1.3: the geometric mean of the scores relative to a
//! SPARCstation 20-61, whose index is 10. Must not depend on the origin of the scores.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::statistics::geometric_mean;
use crate::values::stamp::Stamp;

/// Index of a score that equals the baseline.
const BASELINE_INDEX: f64 = 10.0;

/// One test of the index.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IndexTest {
    /// Name in tables and comparisons.
    pub name: &'static str,
    /// Name in reports of UnixBench.
    pub title: &'static str,
    pub unit: &'static str,
    /// Score whose index is 10.
    pub baseline: f64,
}

const fn test(name: &'static str, title: &'static str, unit: &'static str, baseline: f64) -> IndexTest {
    IndexTest { name, title, unit, baseline }
}

/// Tests of the index, in the order of UnixBench's reports.
pub const TESTS: [IndexTest; 12] = [
    test("dhrystone", "Dhrystone 2 using register variables", "lps", 116_700.0),
    test("whetstone", "Double-Precision Whetstone", "MWIPS", 55.0),
    test("execl", "Execl Throughput", "lps", 43.0),
    test("file-copy-1024", "File Copy 1024 bufsize 2000 maxblocks", "KBps", 3960.0),
    test("file-copy-256", "File Copy 256 bufsize 500 maxblocks", "KBps", 1655.0),
    test("file-copy-4096", "File Copy 4096 bufsize 8000 maxblocks", "KBps", 5800.0),
    test("pipe-throughput", "Pipe Throughput", "lps", 12_440.0),
    test("pipe-context-switching", "Pipe-based Context Switching", "lps", 4000.0),
    test("process-creation", "Process Creation", "lps", 126.0),
    test("shell-1", "Shell Scripts (1 concurrent)", "lpm", 42.4),
    test("shell-8", "Shell Scripts (8 concurrent)", "lpm", 6.0),
    test("system-call-overhead", "System Call Overhead", "lps", 15_000.0),
];

/// UnixBench indices of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexTable {
    pub by: String,
    /// All columns in display order, the baseline of the comparison first.
    pub columns: Vec<String>,
    /// One group per number of copies, or a single group.
    pub groups: Vec<IndexGroup>,
    /// Limits on the interpretation of the indices.
    pub notes: Vec<String>,
    /// Whether the runs were simulated or smoke tests.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// Tests and indices of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexGroup {
    /// Distinguishes the group from the others (`2 threads`); empty for a single group.
    pub name: String,
    /// Tests with a score in at least one column, in the order of UnixBench's reports.
    pub tests: Vec<TestIndex>,
    /// One element per column; `None` if the column has no score of any test.
    pub indices: Vec<Option<Index>>,
}

/// Scores of one test in all columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestIndex {
    pub name: String,
    pub unit: String,
    /// Score whose index is 10.
    pub baseline: f64,
    /// One element per column; `None` if the test was not measured.
    pub scores: Vec<Option<ScoreIndex>>,
}

/// A score and its index.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreIndex {
    /// In the unit of the test.
    pub score: f64,
    /// Ten times the score divided by the baseline.
    pub index: f64,
    /// Number of passes used, without the dropped ones.
    pub passes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Geometric mean of the indices of the tests.
    pub value: f64,
    /// Number of tests used, at most twelve; UnixBench calls an index of fewer tests partial.
    pub tests: usize,
    /// 100 x (this index / the first column's index - 1); `None` if they use different tests.
    pub change_percent: Option<f64>,
}

/// One measured or imported score of a test in a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Name of the test, then the name of its group after a comma (`dhrystone, 2 threads`).
    pub test: String,
    pub column: String,
    /// Scores of the passes, or a single score if only the result is known.
    pub passes: Vec<f64>,
}

/// Returns the score of a test and the number of passes used: the geometric mean without the worst third of the passes.
/// `None` without passes, or if a remaining pass is not greater than zero.
pub fn score(passes: &[f64]) -> Option<(f64, usize)> {
    let mut sorted = passes.to_vec();
    sorted.sort_by(f64::total_cmp);
    let kept = sorted.split_off(passes.len() / 3);
    Some((geometric_mean(&kept, crate::stats::statistics::CONFIDENCE)?.value, kept.len()))
}

/// Returns ten times the score divided by the baseline of the test.
pub fn index_of(score: f64, test: &IndexTest) -> f64 {
    score / test.baseline * BASELINE_INDEX
}

pub fn find(name: &str) -> Option<&'static IndexTest> {
    let name = named(name)?;
    TESTS.iter().find(|test| test.name == name)
}

/// Tests outside the index: title in reports, and name.
pub const OTHERS: [(&str, &str); 1] = [("Shell Scripts (16 concurrent)", "shell-16")];

/// Returns the name of a test of UnixBench from its name, its title in reports, or a shorter form of the title
/// (`Dhrystone 2`, `Shell Scripts 8`, `File Copy 1024`).
pub fn named(text: &str) -> Option<&'static str> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let asked = words(text);
    let titles = || TESTS.iter().map(|test| (test.title, test.name)).chain(OTHERS);
    let exact = titles().find(|(title, name)| text == *name || words(title) == asked || words(name) == asked);
    let shortened = || {
        let mut matching = titles().filter(|(title, _)| asked.len() > 1 && words(title).starts_with(&asked));
        matching.next().filter(|_| matching.next().is_none())
    };
    exact.or_else(shortened).map(|(_, name)| name)
}

/// Returns the name of a workload's test in the index. The variant is part of the name: `shell-8`.
pub fn name_of(workload: &str, parameters: &BTreeMap<String, String>) -> String {
    let variant = match workload {
        "shell" => parameters.get("concurrent"),
        "file-copy" => parameters.get("buffer"),
        _ => None,
    };
    variant.map_or_else(|| workload.into(), |variant| format!("{workload}-{variant}"))
}

/// Computes the indices.
///
/// # Errors
/// No score is of a test of the index, or a column has two scores of a test.
pub fn indices(by: &str, columns: Vec<String>, scores: &[Score]) -> Result<IndexTable, String> {
    let mut groups: Vec<(&str, Vec<(&'static IndexTest, &Score)>)> = Vec::new();
    for score in scores {
        let (name, group) = score.test.split_once(", ").unwrap_or((&score.test, ""));
        let Some(test) = find(name) else { continue };
        let index = groups.iter().position(|(name, _)| *name == group).unwrap_or_else(|| {
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        groups[index].1.push((test, score));
    }
    if groups.is_empty() {
        let names: Vec<&str> = TESTS.iter().map(|test| test.name).collect();
        return Err(format!("no test of UnixBench was measured; its tests are {}", names.join(", ")));
    }
    let groups: Vec<IndexGroup> =
        groups.iter().map(|(name, scores)| group(name, &columns, scores)).collect::<Result<_, _>>()?;
    let notes = notes(&groups);
    Ok(IndexTable { by: by.into(), columns, groups, notes, stamp: Stamp::default() })
}

fn group(name: &str, columns: &[String], scores: &[(&'static IndexTest, &Score)]) -> Result<IndexGroup, String> {
    let present = TESTS.iter().filter(|test| scores.iter().any(|(other, _)| other.name == test.name));
    let tests: Vec<TestIndex> = present.map(|test| test_index(test, columns, scores)).collect::<Result<_, _>>()?;
    let mut indices: Vec<Option<Index>> = (0..columns.len()).map(|column| index(&tests, column)).collect();
    let first = indices.first().copied().flatten();
    let same_tests = |column: usize| tests.iter().all(|test| test.scores[0].is_some() == test.scores[column].is_some());
    for (column, index) in indices.iter_mut().enumerate().skip(1) {
        if let (Some(index), Some(first)) = (index, first.filter(|_| same_tests(column))) {
            index.change_percent = Some(100.0 * (index.value / first.value - 1.0));
        }
    }
    Ok(IndexGroup { name: name.into(), tests, indices })
}

fn test_index(
    test: &'static IndexTest,
    columns: &[String],
    scores: &[(&'static IndexTest, &Score)],
) -> Result<TestIndex, String> {
    let one = |column: &String| {
        let mut matching = scores.iter().filter(|(other, score)| other.name == test.name && score.column == *column);
        match (matching.next(), matching.next()) {
            (Some((_, one)), None) => {
                Ok(score(&one.passes).map(|(score, passes)| ScoreIndex { score, index: index_of(score, test), passes }))
            }
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(format!(
                "test {} was measured more than once in {column}; compare by the parameter that differs",
                test.name
            )),
        }
    };
    let scores = columns.iter().map(one).collect::<Result<_, _>>()?;
    Ok(TestIndex { name: test.name.into(), unit: test.unit.into(), baseline: test.baseline, scores })
}

fn index(tests: &[TestIndex], column: usize) -> Option<Index> {
    let indices: Vec<f64> = tests.iter().filter_map(|test| Some(test.scores[column]?.index)).collect();
    let value = geometric_mean(&indices, crate::stats::statistics::CONFIDENCE)?.value;
    Some(Index { value, tests: indices.len(), change_percent: None })
}

fn notes(groups: &[IndexGroup]) -> Vec<String> {
    let mut notes = vec![
        "UnixBench index as defined in version 5.1.3: 10 is a SPARCstation 20-61; the worst third of a test's passes is \
         dropped, so that the index has no interval; compare without --index shows those of the tests"
            .to_string(),
    ];
    let mut partial: Vec<usize> =
        groups.iter().flat_map(|group| group.indices.iter().flatten()).map(|index| index.tests).collect();
    partial.retain(|tests| *tests < TESTS.len());
    partial.sort_unstable();
    partial.dedup();
    if !partial.is_empty() {
        let counts: Vec<String> = partial.iter().map(usize::to_string).collect();
        notes.push(format!(
            "partial: computed from {} of the {} tests; comparable only with indices of the same tests",
            counts.join(" and "),
            TESTS.len()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(column: &str, values: &[(&str, f64)]) -> Vec<Score> {
        let score =
            |(test, value): &(&str, f64)| Score { test: (*test).into(), column: column.into(), passes: vec![*value] };
        values.iter().map(score).collect()
    }

    #[test]
    fn worst_third_of_passes_is_dropped() {
        // Dropped are three of ten passes (Dhrystone), one of three (execl) and none of two.
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let (value, left) = score(&ten).unwrap();
        assert_eq!(left, 7);
        assert!((value - (4.0f64 * 5.0 * 6.0 * 7.0 * 8.0 * 9.0 * 10.0).powf(1.0 / 7.0)).abs() < 1e-9, "{value}");
        assert_eq!(score(&[9.0, 1.0, 4.0]).map(|(value, left)| (value.round(), left)), Some((6.0, 2)));
        assert_eq!(score(&[4.0, 9.0]).map(|(value, left)| (value.round(), left)), Some((6.0, 2)));
        assert_eq!(score(&[]), None);
        assert_eq!(score(&[0.0, 0.0]), None);
    }

    #[test]
    fn baseline_scores_have_index_ten() {
        let baseline: Vec<(&str, f64)> = TESTS.iter().map(|test| (test.name, test.baseline)).collect();
        let double: Vec<(&str, f64)> = baseline.iter().map(|(name, value)| (*name, 2.0 * value)).collect();
        let all = [scores("one", &baseline), scores("two", &double)].concat();
        let table = indices("host", vec!["one".into(), "two".into()], &all).unwrap();
        let [group] = table.groups.as_slice() else { panic!("{table:?}") };
        let index = |column: usize| group.indices[column].unwrap();
        assert!((index(0).value - 10.0).abs() < 1e-9 && (index(1).value - 20.0).abs() < 1e-9);
        assert_eq!(index(0).tests, 12);
        assert!((index(1).change_percent.unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(table.notes.len(), 1, "{:?}", table.notes);
    }

    #[test]
    fn copies_form_groups_and_missing_tests_make_indices_partial() {
        let one = scores("a", &[("dhrystone, 1 thread", 116_700.0), ("dhrystone, 2 threads", 233_400.0)]);
        let other = scores("b", &[("dhrystone, 1 thread", 58_350.0), ("shell-8, 1 thread", 6.0), ("queens", 1.0)]);
        let table = indices("placement", vec!["a".into(), "b".into()], &[one, other].concat()).unwrap();
        let names: Vec<&str> = table.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["1 thread", "2 threads"]);
        let first = &table.groups[0];
        assert_eq!(first.tests.len(), 2);
        assert!((first.indices[1].unwrap().value - 50f64.sqrt()).abs() < 1e-9);
        assert_eq!(first.indices[1].unwrap().change_percent, None, "its tests differ from those of the first column");
        assert_eq!(table.groups[1].indices[1], None);
        assert!(table.notes[1].contains("1 and 2 of the 12"), "{:?}", table.notes);
    }

    #[test]
    fn workload_variants_are_part_of_test_names() {
        let parameters = |name: &str, value: &str| BTreeMap::from([(name.to_string(), value.to_string())]);
        assert_eq!(name_of("shell", &parameters("concurrent", "8")), "shell-8");
        assert_eq!(name_of("file-copy", &parameters("buffer", "256")), "file-copy-256");
        assert_eq!(name_of("execl", &parameters("time", "3s")), "execl");
    }

    #[test]
    fn tests_are_found_by_name_title_and_short_title() {
        let names = [
            "dhrystone",
            "Dhrystone 2",
            "DOUBLE-PRECISION WHETSTONE",
            "Shell Scripts 8",
            "Shell Scripts (16 concurrent)",
        ];
        assert_eq!(names.map(named), ["dhrystone", "dhrystone", "whetstone", "shell-8", "shell-16"].map(Some));
        assert_eq!(
            ["Pipe-based Context Switching", "file copy 4096"].map(named),
            ["pipe-context-switching", "file-copy-4096"].map(Some)
        );
        assert_eq!(["Shell Scripts", "pipe", "queens", "system", ""].map(named), [None; 5]);
        assert!(find("shell-16").is_none(), "not part of the index");
    }

    #[test]
    fn scores_without_an_index_return_errors() {
        let none = indices("host", vec!["a".into()], &scores("a", &[("queens", 1.0)])).unwrap_err();
        assert!(none.contains("dhrystone"), "{none}");
        let twice = scores("a", &[("shell-1", 1.0), ("shell-1", 1.0)]);
        let error = indices("host", vec!["a".into()], &twice).unwrap_err();
        assert!(error.contains("shell-1") && error.contains("more than once"), "{error}");
    }
}
