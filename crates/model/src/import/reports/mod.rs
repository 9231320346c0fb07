//! Reports that other programs write of their measurements, read from their text into rows of figures. One ordered list
//! of formats, each found by its content. What a file does not prove whole is refused: a report that was cut off, an
//! unknown version, figures that do not fit each other. Knows no files; says nothing of how well anything was measured.

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

/// Names longer than this cannot be shown.
pub const NAME_BYTES_MAX: usize = 200;
/// More columns than this cannot be compared by eye.
pub const COLUMNS_MAX: usize = 100;
/// More than this is no report that people compare.
pub const ROWS_MAX: usize = 10_000;

pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, one line.
    pub about: &'static str,
    /// Whether a text looks like it; cheap, and true for a report that was cut off.
    pub detect: fn(&str) -> bool,
    /// Reads it whole or says what is wrong with it.
    pub read: fn(&str) -> Result<ImportedReport, ReportError>,
}

/// All of them, in the order in which help shows them.
pub const FORMATS: [Format; 9] = [
    Format {
        name: "unixbench",
        about: "A report of UnixBench 5.1.3, one column per number of copies",
        detect: unixbench::detect,
        read: unixbench::read,
    },
    Format {
        name: "openssl",
        about: "What `openssl speed` prints, OpenSSL 1.1 and 3",
        detect: openssl::detect,
        read: openssl::read,
    },
    Format {
        name: "sysbench",
        about: "A report of sysbench 1.0: cpu, threads, mutex, memory, fileio",
        detect: sysbench::detect,
        read: sysbench::read,
    },
    Format { name: "fio", about: "fio --output-format=json, fio 3", detect: fio::detect, read: fio::read },
    Format {
        name: "hyperfine",
        about: "hyperfine --export-json; its runs are kept, so intervals can be given",
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
        about: "What Geekbench 5 and 6 print or export: text, JSON, pages",
        detect: geekbench::detect,
        read: geekbench::read,
    },
    Format { name: "stream", about: "What STREAM 5.10 prints", detect: stream::detect, read: stream::read },
    Format { name: "hpl", about: "HPL.out, or the HPL part of hpccoutf.txt", detect: hpl::detect, read: hpl::read },
];

/// Files of programs above in a layout that cannot be read: what shows it, what it is, what to do.
const RELATIVES: [(&str, &str, &str); 4] = [
    ("(groupid=", "fio's text for people", "let fio write JSON: fio --output-format=json --output=FILE JOBFILE"),
    ("command,mean,stddev,median", "hyperfine's CSV, which has no runs", "hyperfine --export-json FILE COMMAND"),
    ("| Command | Mean", "hyperfine's Markdown, which is rounded", "hyperfine --export-json FILE COMMAND"),
    ("sysbench 0.", "a report of sysbench before 1.0, which measures otherwise", "run sysbench 1.0"),
];

#[derive(Clone, Debug, PartialEq)]
pub struct ImportedReport {
    /// The names of its columns; a single empty one where the file's name has to do.
    pub columns: Vec<String>,
    /// One per test and metric, each test's main metric first.
    pub rows: Vec<ImportedRow>,
    /// How it was measured, by name: what must be known when it differs between reports.
    pub facts: Vec<(String, String)>,
    /// What a reader has to know before believing the figures.
    pub notes: Vec<String>,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportError {
    /// The line from 1; none when it is the report as a whole.
    pub line: Option<usize>,
    pub what: String,
    /// The next step, where there is one.
    pub hint: Option<String>,
}

/// In one line, without the hint.
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

    /// A report that ends before its end.
    fn cut(what: &str) -> Self {
        Self::whole(format!("the report is cut off: {what}")).hint("import the whole file, as the program wrote it")
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The format of this name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format that a text is in.
pub fn detect(text: &str) -> Result<&'static Format, ReportError> {
    let found: Vec<&Format> = FORMATS.iter().filter(|format| (format.detect)(text)).collect();
    match found.as_slice() {
        [format] => Ok(format),
        [] => Err(unknown(text)),
        [one, other, ..] => {
            Err(ReportError::whole(format!("this looks like {} and like {} too", one.name, other.name))
                .hint(format!("keep one report in the file, or force one: --format {}", one.name)))
        }
    }
}

/// Reads a text in a format.
pub fn read(format: &Format, text: &str) -> Result<ImportedReport, ReportError> {
    if text.trim().is_empty() {
        return Err(ReportError::whole("the file is empty"));
    }
    if !(format.detect)(text) {
        let what = format!("this is no file of format {}", format.name);
        return Err(match detect(text) {
            Ok(other) => ReportError::whole(format!("{what}; it looks like {}", other.name))
                .hint(format!("--format {}, or leave --format away", other.name)),
            Err(_) => ReportError::whole(what).hint(format!("it reads: {}", format.about)),
        });
    }
    check((format.read)(text)?)
}

fn unknown(text: &str) -> ReportError {
    if text.trim().is_empty() {
        return ReportError::whole("the file is empty");
    }
    if let Some((_, what, hint)) = RELATIVES.iter().find(|(mark, ..)| text.contains(mark)) {
        return ReportError::whole(format!("this is {what}")).hint(*hint);
    }
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    ReportError::whole("this is no file whose format is known").hint(format!(
        "known are results files (store), CSV tables (table), and reports of {}; docs/reference/importers.md says how to make each",
        names.join(", ")
    ))
}

/// What every report must keep to.
fn check(report: ImportedReport) -> Result<ImportedReport, ReportError> {
    if report.rows.is_empty() {
        return Err(ReportError::cut("there is no result in it"));
    }
    if report.rows.len() > ROWS_MAX {
        return Err(ReportError::whole(format!("more than {ROWS_MAX} results")));
    }
    for (index, row) in report.rows.iter().enumerate() {
        if let Some(long) = [&row.test, &row.metric, &row.unit].into_iter().find(|name| name.len() > NAME_BYTES_MAX) {
            let start: String = long.chars().take(40).collect();
            return Err(ReportError::whole(format!("a name is longer than {NAME_BYTES_MAX} bytes: '{start}…'"))
                .hint("give it a shorter one where it is measured (hyperfine has --command-name)"));
        }
        if report.rows[..index].iter().any(|other| same(other, row)) {
            return Err(ReportError::whole(format!("a second {} of {}", row.metric, row.test)));
        }
    }
    Ok(report)
}

/// Whether two rows are about the same.
fn same(one: &ImportedRow, other: &ImportedRow) -> bool {
    (&one.test, &one.metric, &one.unit) == (&other.test, &other.metric, &other.unit)
}

/// A row of a report with one column.
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

/// A report with one column that the file's name names.
fn single(rows: Vec<ImportedRow>, facts: Vec<(String, String)>) -> ImportedReport {
    ImportedReport { columns: vec![String::new()], rows, facts, notes: Vec::new() }
}

/// A name in one line, without what would disturb a terminal.
fn clean(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").replace(char::is_control, "?")
}

/// The lines with their numbers from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()))
}

/// A plain number that is not below zero: digits with at most one point and an exponent, nothing else.
fn number(text: &str) -> Option<f64> {
    let plain = text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

/// The same with exactly so many digits after the point: one that was cut off has fewer.
fn number_with(text: &str, decimals: usize) -> Option<f64> {
    let (whole, fraction) = if decimals == 0 { (text, "") } else { text.split_once('.')? };
    let digits = |part: &str| part.chars().all(|letter| letter.is_ascii_digit());
    (fraction.len() == decimals && !whole.is_empty() && digits(whole) && digits(fraction)).then(|| number(text))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain() {
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
    fn what_is_no_report_is_told_with_a_hint() {
        let said = |text: &str| {
            let error = detect(text).err().unwrap();
            format!("{} / {}", error.what, error.hint.unwrap_or_default())
        };
        assert_eq!(said(" \n"), "the file is empty / ");
        assert!(said("hello\n").contains("store"), "{}", said("hello\n"));
        assert!(said("command,mean,stddev,median,user\n").contains("--export-json"));
        let both = "sysbench 1.0.20 (x)\nSTREAM version $Revision: 5.10 $\n";
        assert!(said(both).contains("--format sysbench"), "{}", said(both));
        assert_eq!(clean(" a\n\tb\u{1b}[1m "), "a b?[1m");
    }
}
