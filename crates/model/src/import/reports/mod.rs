//! Parses reports of other benchmark programs into rows of figures. Formats are detected by content; truncated reports,
//! unknown versions and contradictory figures are rejected. Must not read files or assess the measurements.

pub mod fio;
mod geekbench;
mod hpl;
mod hyperfine;
mod join;
mod openssl;
mod phoronix;
mod stream;
mod sysbench;
pub mod unixbench;

pub use join::{NamedReport, join};

use std::fmt;

use crate::values::record::ImportedRow;
use crate::values::workload::Better;

/// Maximum length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
/// Maximum number of columns of a table.
pub const COLUMNS_MAX: usize = 100;
/// Maximum number of rows of a table.
pub const ROWS_MAX: usize = 10_000;

pub struct Format {
    /// Value of `--format`.
    pub name: &'static str,
    /// Description in the command-line help, in one line.
    pub about: &'static str,
    /// Returns whether a text has this format. Fast, and also true for truncated reports.
    pub detect: fn(&str) -> bool,
    /// Parses a complete report.
    pub read: fn(&str) -> Result<ImportedReport, ReportError>,
}

/// All formats, in the order of the command-line help.
pub const FORMATS: [Format; 9] = [
    Format {
        name: "unixbench",
        about: "A report of UnixBench 5.1.3, one column per number of copies",
        detect: unixbench::detect,
        read: unixbench::read,
    },
    Format {
        name: "openssl",
        about: "Output of `openssl speed`, OpenSSL 1.1 and 3",
        detect: openssl::detect,
        read: openssl::read,
    },
    Format {
        name: "sysbench",
        about: "A report of sysbench 1.0: cpu, threads, mutex, memory, fileio",
        detect: sysbench::detect,
        read: sysbench::read,
    },
    Format { name: "fio", about: "Output of `fio --output-format=json`, fio 3", detect: fio::detect, read: fio::read },
    Format {
        name: "hyperfine",
        about: "File of `hyperfine --export-json`, with all runs, so that intervals are available",
        detect: hyperfine::detect,
        read: hyperfine::read,
    },
    Format {
        name: "phoronix",
        about: "composite.xml of the Phoronix Test Suite, one column per system",
        detect: phoronix::detect,
        read: phoronix::read,
    },
    Format {
        name: "geekbench",
        about: "Output or export of Geekbench 5 and 6: text, JSON or HTML",
        detect: geekbench::detect,
        read: geekbench::read,
    },
    Format { name: "stream", about: "Output of STREAM 5.10", detect: stream::detect, read: stream::read },
    Format { name: "hpl", about: "HPL.out, or the HPL part of hpccoutf.txt", detect: hpl::detect, read: hpl::read },
];

/// Unsupported file formats of the same programs: a text that identifies the format, its description and a hint.
const UNSUPPORTED: [(&str, &str, &str); 4] = [
    ("(groupid=", "the default text output of fio", "write JSON: fio --output-format=json --output=FILE JOBFILE"),
    ("command,mean,stddev,median", "hyperfine's CSV, which has no runs", "use hyperfine --export-json FILE COMMAND"),
    ("| Command | Mean", "hyperfine's Markdown, which is rounded", "use hyperfine --export-json FILE COMMAND"),
    ("sysbench 0.", "a report of a sysbench before 1.0, which measures differently", "run sysbench 1.0"),
];

#[derive(Clone, Debug, PartialEq)]
pub struct ImportedReport {
    /// Names of the columns; a single empty name if the column is named after the file.
    pub columns: Vec<String>,
    /// One row per test and metric; the main metric of each test is first.
    pub rows: Vec<ImportedRow>,
    /// Name and value of each fact about the measurement. [`join()`] reports differences between files.
    pub facts: Vec<(String, String)>,
    /// Limits on the interpretation of the figures.
    pub notes: Vec<String>,
}

/// Reason why a report was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportError {
    /// Line number, from 1; `None` if the error concerns the whole report.
    pub line: Option<usize>,
    pub what: String,
    /// An instruction that resolves the error.
    pub hint: Option<String>,
}

/// Writes line number and cause, without the hint.
impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl ReportError {
    fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into(), hint: None }
    }

    fn whole(what: impl Into<String>) -> Self {
        Self { line: None, what: what.into(), hint: None }
    }

    /// Returns the error of a truncated report.
    fn truncated(what: &str) -> Self {
        Self::whole(format!("the report is truncated: {what}")).hint("import the complete file")
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Detects the format of a text.
pub fn detect(text: &str) -> Result<&'static Format, ReportError> {
    let found: Vec<&Format> = FORMATS.iter().filter(|format| (format.detect)(text)).collect();
    match found.as_slice() {
        [format] => Ok(format),
        [] => Err(unknown(text)),
        [one, other, ..] => {
            Err(ReportError::whole(format!("the file matches the formats {} and {}", one.name, other.name))
                .hint(format!("import one report per file, or choose a format: --format {}", one.name)))
        }
    }
}

/// Parses a text of the given format.
pub fn read(format: &Format, text: &str) -> Result<ImportedReport, ReportError> {
    if text.trim().is_empty() {
        return Err(ReportError::whole("the file is empty"));
    }
    if !(format.detect)(text) {
        let what = format!("the file is not of format {}", format.name);
        return Err(match detect(text) {
            Ok(other) => ReportError::whole(format!("{what}; the detected format is {}", other.name))
                .hint(format!("use --format {}, or omit --format", other.name)),
            Err(_) => ReportError::whole(what).hint(format!("expected: {}", format.about)),
        });
    }
    check((format.read)(text)?)
}

fn unknown(text: &str) -> ReportError {
    if text.trim().is_empty() {
        return ReportError::whole("the file is empty");
    }
    if let Some((_, what, hint)) = UNSUPPORTED.iter().find(|(mark, ..)| text.contains(mark)) {
        return ReportError::whole(format!("the file is {what}")).hint(*hint);
    }
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    ReportError::whole("unknown file format").hint(format!(
        "supported are results files (store), CSV tables (table), and reports of {}; see docs/reference/importers.md",
        names.join(", ")
    ))
}

/// Rejects empty reports, too many rows, overlong names and duplicate rows.
fn check(report: ImportedReport) -> Result<ImportedReport, ReportError> {
    if report.rows.is_empty() {
        return Err(ReportError::truncated("it has no results"));
    }
    if report.rows.len() > ROWS_MAX {
        return Err(ReportError::whole(format!("more than {ROWS_MAX} results")));
    }
    for (index, row) in report.rows.iter().enumerate() {
        if let Some(long) = [&row.test, &row.metric, &row.unit].into_iter().find(|name| name.len() > NAME_BYTES_MAX) {
            let start: String = long.chars().take(40).collect();
            return Err(ReportError::whole(format!("a name is longer than {NAME_BYTES_MAX} bytes: '{start}…'"))
                .hint("use a shorter name in the benchmark program (hyperfine: --command-name)"));
        }
        if report.rows[..index].iter().any(|other| same(other, row)) {
            return Err(ReportError::whole(format!("duplicate {} of {}", row.metric, row.test)));
        }
    }
    Ok(report)
}

/// Returns whether test, metric and unit are equal.
fn same(one: &ImportedRow, other: &ImportedRow) -> bool {
    (&one.test, &one.metric, &one.unit) == (&other.test, &other.metric, &other.unit)
}

/// Returns a row of a report with one column.
fn row(test: &str, metric: &str, unit: &str, better: Better, value: f64) -> ImportedRow {
    ImportedRow {
        test: clean(test),
        metric: clean(metric),
        unit: clean(unit),
        better,
        values: vec![Some(value)],
        published_change_percent: None,
        samples: Vec::new(),
    }
}

/// Returns a report with one column, named after the file.
fn single(rows: Vec<ImportedRow>, facts: Vec<(String, String)>) -> ImportedReport {
    ImportedReport { columns: vec![String::new()], rows, facts, notes: Vec::new() }
}

/// Joins the lines of a name and replaces control characters, which would disturb a terminal.
fn clean(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").replace(char::is_control, "?")
}

/// Returns the lines with their numbers, from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()))
}

/// Parses a non-negative number: digits with at most one decimal point and an exponent.
fn number(text: &str) -> Option<f64> {
    let plain = text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

/// Parses a number with exactly `decimals` decimal places: a truncated number has fewer.
fn number_with(text: &str, decimals: usize) -> Option<f64> {
    let (whole, fraction) = if decimals == 0 { (text, "") } else { text.split_once('.')? };
    let digits = |part: &str| part.chars().all(|letter| letter.is_ascii_digit());
    (fraction.len() == decimals && !whole.is_empty() && digits(whole) && digits(fraction)).then(|| number(text))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_units_are_not_numbers() {
        assert_eq!((number("1.5"), number("5.060e+00"), number("0")), (Some(1.5), Some(5.06), Some(0.0)));
        for text in ["", "nan", "inf", "-1", "+1", "1e999", "1,5", "0x10", ".5", "1.5k"] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!((number_with("79528.8", 1), number_with("128", 0)), (Some(79528.8), Some(128.0)));
        for text in ["79528.", "79528", "79528.81", "7952e.1", ".1", ""] {
            assert_eq!(number_with(text, 1), None, "{text}");
        }
    }

    #[test]
    fn unknown_formats_return_errors_with_hints() {
        let message = |text: &str| {
            let error = detect(text).err().unwrap();
            format!("{} / {}", error.what, error.hint.unwrap_or_default())
        };
        assert_eq!(message(" \n"), "the file is empty / ");
        assert!(message("hello\n").contains("store"), "{}", message("hello\n"));
        assert!(message("command,mean,stddev,median,user\n").contains("--export-json"));
        let both = "sysbench 1.0.20 (x)\nSTREAM version $Revision: 5.10 $\n";
        assert!(message(both).contains("--format sysbench"), "{}", message(both));
        assert_eq!(clean(" a\n\tb\u{1b}[1m "), "a b?[1m");
    }
}
