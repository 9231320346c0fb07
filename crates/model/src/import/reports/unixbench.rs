//! Parses text reports of UnixBench 5.1.3: for each number of copies the scores of the tests, then the index. Other
//! versions are rejected, because they may measure something else under the same names.

use super::ReportError;
use crate::import::unixbench::{OTHERS, TESTS};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const VERSION: &str = "5.1.3";
const BANNER: &str = "BYTE UNIX Benchmarks (Version ";
const COPIES: &str = "in system; running ";
const INDEX: &str = "System Benchmarks Index Score";

#[derive(Clone, Debug, PartialEq)]
pub struct UnixBenchReport {
    /// In the order of the report, one per number of copies.
    pub runs: Vec<ReportRun>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReportRun {
    /// Number of concurrent copies.
    pub copies: u32,
    /// In the order of the report.
    pub scores: Vec<ReportScore>,
    /// Printed index; `None` if it is partial, because tests are missing.
    pub index: Option<f64>,
    /// Whether the report has the last line of the run: the index, complete or partial.
    pub is_complete: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReportScore {
    /// Name of the test; its title in the report if the test is unknown.
    pub test: String,
    pub score: f64,
    pub unit: String,
}

pub fn detect(text: &str) -> bool {
    text.lines().any(|line| line.trim().starts_with(BANNER))
}

pub fn read(text: &str) -> Result<super::ImportedReport, ReportError> {
    parse(text).map(|report| report.rows())
}

pub fn parse(text: &str) -> Result<UnixBenchReport, ReportError> {
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    let (number, version) = lines
        .find_map(|(number, line)| Some((number, line.trim().strip_prefix(BANNER)?.strip_suffix(')')?)))
        .ok_or_else(|| {
            ReportError::whole(format!("the file is not a report of UnixBench: no line begins with '{BANNER}'"))
        })?;
    if version != VERSION {
        return Err(ReportError::at(number, format!("unsupported version {version}; supported is {VERSION}")));
    }
    let mut runs: Vec<ReportRun> = Vec::new();
    for (number, line) in lines {
        if line.contains(COPIES) {
            runs.push(ReportRun { copies: copies(number, line)?, scores: Vec::new(), index: None, is_complete: false });
        } else if let Some(run) = runs.last_mut() {
            read_line(run, number, line)?;
        }
    }
    match runs.iter().find(|run| run.scores.is_empty()) {
        Some(run) => Err(ReportError::truncated(&format!("the run with {} copies has no scores", run.copies))),
        None if runs.iter().any(|run| {
            !run.is_complete && run.scores.iter().any(|score| crate::import::unixbench::find(&score.test).is_some())
        }) =>
        {
            Err(ReportError::truncated(&format!("a run has no line '{INDEX}'")))
        }
        None if runs.is_empty() => {
            Err(ReportError::whole(format!("the report has no runs: no line contains '{COPIES}'")))
        }
        None => Ok(UnixBenchReport { runs }),
    }
}

/// `2 CPUs in system; running 1 parallel copy of tests`
fn copies(number: usize, line: &str) -> Result<u32, ReportError> {
    let count = line.split_once(COPIES).and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    count.ok_or_else(|| ReportError::at(number, format!("'{}' does not contain the number of copies", line.trim())))
}

fn read_line(run: &mut ReportRun, number: usize, line: &str) -> Result<(), ReportError> {
    if let Some(score) = line.strip_prefix(INDEX) {
        run.is_complete = true;
        if !score.contains("Partial") {
            let index = score.trim().parse();
            run.index =
                Some(index.map_err(|_| ReportError::at(number, format!("'{}' is not an index", score.trim())))?);
        }
    } else if line.trim_end().ends_with("samples)") {
        let score = score(line)
            .ok_or_else(|| ReportError::at(number, format!("'{}' is not a line with a score", line.trim())))?;
        if run.scores.iter().any(|other| other.test == score.test) {
            return Err(ReportError::at(number, format!("duplicate score of {}", score.test)));
        }
        run.scores.push(score);
    }
    Ok(())
}

/// `Execl Throughput                               1234.5 lps   (30.0 s, 2 samples)`
fn score(line: &str) -> Option<ReportScore> {
    let (front, _) = line.rsplit_once('(')?;
    let (front, unit) = front.trim_end().rsplit_once(char::is_whitespace)?;
    let (title, score) = front.trim_end().rsplit_once(char::is_whitespace)?;
    let title = title.trim();
    let known = TESTS.iter().map(|test| (test.title, test.name)).chain(OTHERS).find(|(known, _)| *known == title);
    let score: f64 = score.parse().ok().filter(|score: &f64| score.is_finite() && *score > 0.0)?;
    Some(ReportScore { test: known.map_or(title, |(_, name)| name).into(), score, unit: unit.into() })
}

impl UnixBenchReport {
    /// Converts the scores into rows, with one column per number of copies.
    pub fn rows(&self) -> super::ImportedReport {
        let columns = self.runs.iter().map(|run| match run.copies {
            1 => "1 copy".to_string(),
            copies => format!("{copies} copies"),
        });
        let mut rows: Vec<ImportedRow> = Vec::new();
        for (column, run) in self.runs.iter().enumerate() {
            for score in &run.scores {
                let index = rows.iter().position(|row| row.test == score.test).unwrap_or_else(|| {
                    let first = super::row(&score.test, "score", &score.unit, Better::Higher, score.score);
                    rows.push(ImportedRow { values: vec![None; self.runs.len()], ..first });
                    rows.len() - 1
                });
                rows[index].values[column] = Some(score.score);
            }
        }
        super::ImportedReport { columns: columns.collect(), rows, facts: Vec::new(), notes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = "\
   BYTE UNIX Benchmarks (Version 5.1.3)

2 CPUs in system; running 1 parallel copy of tests

Execl Throughput                               1234.5 lps   (29.9 s, 2 samples)
Shell Scripts (16 concurrent)                   100.1 lpm   (60.0 s, 2 samples)

System Benchmarks Partial Index              BASELINE       RESULT    INDEX
Execl Throughput                                 43.0       1234.5    287.1
                                                                   ========
System Benchmarks Index Score (Partial Only)                          287.1
";

    fn error(text: &str) -> (Option<usize>, String) {
        let error = parse(text).unwrap_err();
        (error.line, error.what)
    }

    #[test]
    fn report_with_partial_index_is_parsed() {
        let report = parse(SHORT).unwrap();
        let [run] = report.runs.as_slice() else { panic!("{report:?}") };
        assert_eq!((run.copies, run.index), (1, None), "a partial index is not the index");
        let scores: Vec<(&str, f64, &str)> =
            run.scores.iter().map(|score| (score.test.as_str(), score.score, score.unit.as_str())).collect();
        assert_eq!(scores, [("execl", 1234.5, "lps"), ("shell-16", 100.1, "lpm")]);
    }

    #[test]
    fn other_versions_and_damaged_lines_return_errors() {
        assert!(error("hello\n").1.contains("not a report of UnixBench"));
        let (line, what) = error(&SHORT.replace("5.1.3", "6.0.0"));
        assert!(line == Some(1) && what.contains("version 6.0.0"), "{what}");
        let (line, what) = error(&SHORT.replace("1234.5 lps ", "fast lps"));
        assert!(line == Some(5) && what.contains("not a line with a score"), "{what}");
        assert_eq!(error(&SHORT.replace("running 1 ", "running many ")).0, Some(3));
        assert_eq!(error(&SHORT.replace("Shell Scripts (16 concurrent)", "Execl Throughput             ")).0, Some(6));
        let truncated: String = SHORT.lines().take(4).map(|line| format!("{line}\n")).collect();
        assert!(error(&truncated).1.contains("truncated"));
        let empty: String = SHORT.lines().take(2).map(|line| format!("{line}\n")).collect();
        assert!(error(&empty).1.contains("the report has no runs"));
    }
}
