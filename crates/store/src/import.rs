//! Imports files: reports, parsed by `model::import::reports`; other results files, recognised by their first bytes;
//! and published figures in CSV: `test,metric,unit,better`, then one column per compared object, and optionally a last
//! column `published_change_percent` from the source. An empty field is a figure that the source does not have.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};
use model::hint::Hinted;
use model::import::reports::{self, COLUMNS_MAX, ImportedReport, NAME_BYTES_MAX, ROWS_MAX, ReportError};
use model::values::record::{ImportedRow, ImportedTable};
use model::values::workload::Better;

/// The columns before the figures.
const LEADING: [&str; 4] = ["test", "metric", "unit", "better"];
/// The optional column after the figures.
const PUBLISHED: &str = "published_change_percent";
/// Maximum size of a CSV file. A published table has some hundred rows and some tens of columns; a larger file is of
/// another kind and would only use memory.
const BYTES_MAX: u64 = 4 << 20;
/// Maximum number of rows times columns. Comparing a table takes about a microsecond and a kilobyte for each.
const FIGURES_MAX: usize = 100_000;

/// An error in an imported file, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {cause}", file.display(), self.location())]
pub struct ImportError {
    pub file: PathBuf,
    /// The line, from 1. `None` if the error concerns the whole file.
    pub line: Option<u64>,
    /// The column's name, or its number if it has none.
    pub column: Option<String>,
    /// The error, with the expected value.
    pub cause: String,
    pub hint: Option<String>,
}

/// Name of the format of results files.
pub const STORE: &str = "store";
/// Name of the format of CSV tables.
pub const TABLE: &str = "table";
/// The first bytes of an SQLite file, from its file format documentation.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The detected content of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportFormat {
    /// Another results file, to merge by its path.
    Store,
    /// Figures of a table or of a report, and the name of their format.
    Report(ImportedReport, &'static str),
}

impl ImportError {
    /// ` line 3, column value`: the parts that are known.
    fn location(&self) -> String {
        let line = self.line.map(|line| format!(" line {line}"));
        let column = self.column.as_ref().map(|column| format!(", column {column}"));
        line.into_iter().chain(column).collect()
    }
}

impl Hinted for ImportError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// An error without the name of the file.
struct ImportFault {
    line: Option<u64>,
    column: Option<String>,
    cause: String,
    hint: Option<String>,
}

impl ImportFault {
    fn file(cause: impl Into<String>) -> Self {
        Self { line: None, column: None, cause: cause.into(), hint: None }
    }

    fn line(line: u64, cause: impl Into<String>) -> Self {
        Self { line: Some(line), column: None, cause: cause.into(), hint: None }
    }

    fn field(line: u64, column: &str, cause: impl Into<String>) -> Self {
        Self { line: Some(line), column: Some(column.into()), cause: cause.into(), hint: None }
    }
}

/// Reads a CSV file of figures; the table gets the name of the file without its extension.
pub fn read_table(file: &Path) -> Result<ImportedTable, ImportError> {
    let text = read_bounded(file).map_err(|fault| located(file, fault))?;
    table_from_csv(&text, file)
}

/// Detects the format of a file and reads it. If a format is given, reads the file as that format only.
pub fn read(file: &Path, format: Option<&str>) -> Result<ImportFormat, ImportError> {
    let found = match format {
        Some(STORE) => Ok(ImportFormat::Store),
        None if is_store(file) => Ok(ImportFormat::Store),
        format => read_bounded(file).and_then(|text| figures(&text, format)),
    };
    found.map_err(|fault| located(file, fault))
}

fn is_store(file: &Path) -> bool {
    let mut begin = [0; SQLITE.len()];
    File::open(file).and_then(|mut open| open.read_exact(&mut begin)).is_ok() && begin == *SQLITE
}

fn figures(text: &str, format: Option<&str>) -> Result<ImportFormat, ImportFault> {
    if format == Some(TABLE) || format.is_none() && is_table(text) {
        let ImportedTable { columns, rows, notes, .. } = parse(text, String::new())?;
        return Ok(ImportFormat::Report(ImportedReport { columns, rows, facts: Vec::new(), notes }, TABLE));
    }
    let format = match format {
        Some(name) => reports::find(name).ok_or_else(|| ImportFault::file(format!("unknown format '{name}'")))?,
        None => reports::detect(text).map_err(ImportFault::from)?,
    };
    Ok(ImportFormat::Report(reports::read(format, text)?, format.name))
}

fn is_table(text: &str) -> bool {
    let header = text.lines().next().unwrap_or_default();
    let names: Vec<&str> = header.split(',').map(|name| name.trim().trim_matches('"')).collect();
    names.starts_with(&LEADING)
}

impl From<ReportError> for ImportFault {
    fn from(error: ReportError) -> Self {
        Self { line: error.line.map(|line| line as u64), column: None, cause: error.what, hint: error.hint }
    }
}

/// Parses figures from the text of a CSV file.
pub fn table_from_csv(text: &str, file: &Path) -> Result<ImportedTable, ImportError> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    parse(text, name).map_err(|fault| located(file, fault))
}

fn located(file: &Path, ImportFault { line, column, cause, hint }: ImportFault) -> ImportError {
    ImportError { file: file.into(), line, column, cause, hint }
}

fn read_bounded(file: &Path) -> Result<String, ImportFault> {
    let mut bytes = Vec::new();
    let open = File::open(file).map_err(|error| ImportFault::file(error.to_string()))?;
    open.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| ImportFault::file(error.to_string()))?;
    // Files saved on Windows begin with a byte order mark.
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let hint = "convert it with 'iconv -f UTF-16 -t UTF-8 FILE >OTHER' and import OTHER";
        return Err(ImportFault { hint: Some(hint.into()), ..ImportFault::file("the file is UTF-16 text") });
    }
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(.."\u{feff}".len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n');
        let fault = ImportFault::line(before.count() as u64, "the file is not UTF-8 text");
        ImportFault {
            hint: Some(
                "the file may be binary; docs/reference/importers.md lists the files that can be imported".into(),
            ),
            ..fault
        }
    })
}

fn parse(text: &str, name: String) -> Result<ImportedTable, ImportFault> {
    if text.len() as u64 > BYTES_MAX {
        return Err(ImportFault::file(format!("larger than {} MiB, the maximum size of a table", BYTES_MAX >> 20)));
    }
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(text.as_bytes());
    let mut records = reader.records().map(|record| record.map_err(|error| unreadable(&error)));
    let header = records.next().ok_or_else(|| ImportFault::file("the file is empty"))??;
    let header = Header::parse(&header)?;
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for record in records {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = header.row(&record, line)?;
        if !seen.insert((row.test.clone(), row.metric.clone())) {
            return Err(ImportFault::line(line, format!("duplicate row for test {}, metric {}", row.test, row.metric)));
        }
        rows.push(row);
        if rows.len() * header.columns.len() > FIGURES_MAX {
            return Err(ImportFault::line(line, format!("more than {FIGURES_MAX} figures")));
        }
        if rows.len() > ROWS_MAX {
            return Err(ImportFault::line(line, format!("more than {ROWS_MAX} rows")));
        }
    }
    if rows.is_empty() {
        return Err(ImportFault::file("no rows below the header"));
    }
    Ok(ImportedTable { name, columns: header.columns, rows, notes: Vec::new() })
}

fn unreadable(error: &csv::Error) -> ImportFault {
    let cause = match error.kind() {
        ErrorKind::Utf8 { .. } => "the file is not UTF-8 text".into(),
        _ => error.to_string(),
    };
    ImportFault { line: error.position().map(csv::Position::line), column: None, cause, hint: None }
}

/// The columns of figures, and whether the column of published changes follows.
struct Header {
    columns: Vec<String>,
    has_published: bool,
}

impl Header {
    fn parse(record: &StringRecord) -> Result<Self, ImportFault> {
        let line = record.position().map_or(1, csv::Position::line);
        for (index, expected) in LEADING.into_iter().enumerate() {
            let found = record.get(index).unwrap_or_default();
            if found != expected {
                let cause = format!("expected the header '{expected}', found '{}'", shortened(found));
                return Err(ImportFault::field(line, &(index + 1).to_string(), cause));
            }
        }
        let mut columns: Vec<String> = record.iter().skip(LEADING.len()).map(str::to_owned).collect();
        let has_published = columns.last().is_some_and(|last| last == PUBLISHED);
        if has_published {
            columns.pop();
        }
        if columns.is_empty() {
            return Err(ImportFault::line(line, "no column of figures after test,metric,unit,better"));
        }
        if columns.len() > COLUMNS_MAX {
            return Err(ImportFault::line(line, format!("more than {COLUMNS_MAX} columns of figures")));
        }
        check_names(&columns, line)?;
        Ok(Self { columns, has_published })
    }

    fn row(&self, record: &StringRecord, line: u64) -> Result<ImportedRow, ImportFault> {
        let expected = LEADING.len() + self.columns.len() + usize::from(self.has_published);
        if record.len() != expected {
            return Err(ImportFault::line(line, format!("{} fields, but the header has {expected}", record.len())));
        }
        let named = |index: usize| bounded(&record[index], line, LEADING[index]);
        let figures = self.columns.iter().enumerate();
        let figures = figures.map(|(index, column)| figure(&record[LEADING.len() + index], line, column));
        let figures: Vec<Option<TableFigure>> = figures.collect::<Result<_, _>>()?;
        let values = self.values(&figures, line)?;
        let published = if self.has_published { figure(&record[expected - 1], line, PUBLISHED)? } else { None };
        let row = ImportedRow {
            test: named(0)?,
            metric: named(1)?,
            unit: named(2)?,
            better: better(&record[3], line)?,
            values,
            published_change_percent: published.map(|published| match published {
                TableFigure::Value(value) | TableFigure::Change(value) => value,
            }),
            samples: Vec::new(),
        };
        for (field, name) in [(&row.test, LEADING[0]), (&row.metric, LEADING[1])] {
            if field.is_empty() {
                return Err(ImportFault::field(line, name, "the field is empty"));
            }
        }
        Ok(row)
    }
}

impl Header {
    /// Returns the values of a row. A signed percentage is a change from the first figure of the row.
    fn values(&self, figures: &[Option<TableFigure>], line: u64) -> Result<Vec<Option<f64>>, ImportFault> {
        let first = figures.iter().flatten().next();
        let value = |(figure, column): (&Option<TableFigure>, &String)| match (figure, first) {
            (None, _) => Ok(None),
            (Some(TableFigure::Value(value)), _) => Ok(Some(*value)),
            (Some(TableFigure::Change(percent)), Some(TableFigure::Value(first))) => {
                Ok(Some(first * (1.0 + percent / 100.0)))
            }
            (Some(TableFigure::Change(percent)), _) => {
                let what = format!("'{percent:+} %' is a change, but the row begins with no figure");
                let fault = ImportFault::field(line, column, what);
                Err(ImportFault {
                    hint: Some("write the figure that it changes in an earlier column, such as 1".into()),
                    ..fault
                })
            }
        };
        figures.iter().zip(&self.columns).map(value).collect()
    }
}

fn check_names(columns: &[String], line: u64) -> Result<(), ImportFault> {
    for (index, column) in columns.iter().enumerate() {
        let number = (LEADING.len() + index + 1).to_string();
        if column.is_empty() {
            return Err(ImportFault::field(line, &number, "the header has no name for this column"));
        }
        bounded(column, line, &number)?;
        if column == PUBLISHED {
            return Err(ImportFault::field(line, column, "this must be the last column"));
        }
        if columns[..index].contains(column) || LEADING.contains(&column.as_str()) {
            return Err(ImportFault::field(line, column, "duplicate column name"));
        }
    }
    Ok(())
}

fn bounded(field: &str, line: u64, column: &str) -> Result<String, ImportFault> {
    if field.len() > NAME_BYTES_MAX {
        return Err(ImportFault::field(line, column, format!("longer than {NAME_BYTES_MAX} bytes")));
    }
    Ok(field.into())
}

fn better(field: &str, line: u64) -> Result<Better, ImportFault> {
    match field {
        "higher" => Ok(Better::Higher),
        "lower" => Ok(Better::Lower),
        _ => Err(ImportFault::field(line, "better", format!("'{}' is neither higher nor lower", shortened(field)))),
    }
}

/// A figure as tables print it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TableFigure {
    Value(f64),
    /// A signed percentage: `+14 %`.
    Change(f64),
}

/// Parses `1234.5`, `1,234`, `8.1k`, `95 %` (which is 95) or `+14 %`. `None` for an empty field.
fn figure(field: &str, line: u64, column: &str) -> Result<Option<TableFigure>, ImportFault> {
    if field.is_empty() {
        return Ok(None);
    }
    let percent = field.strip_suffix('%').map(|number| number.trim_end_matches([' ', '\u{a0}', '\u{202f}']));
    let is_signed = field.starts_with(['+', '-', '\u{2212}']);
    let number = number(percent.unwrap_or(field));
    let number = number.ok_or_else(|| {
        let fault = ImportFault::field(line, column, format!("'{}' is not a number", shortened(field)));
        let is_decimal_comma = field.matches(',').count() == 1 && !field.contains('.');
        let hint =
            is_decimal_comma.then(|| "write decimals with a point; commas separate groups of three digits".into());
        ImportFault { hint, ..fault }
    })?;
    Ok(Some(if percent.is_some() && is_signed { TableFigure::Change(number) } else { TableFigure::Value(number) }))
}

/// Parses a number with separators between groups of three digits and with a suffix `k`, `M`, `G` or `T`.
fn number(text: &str) -> Option<f64> {
    const SUFFIXES: [(char, &str); 4] = [('k', "e3"), ('M', "e6"), ('G', "e9"), ('T', "e12")];
    let text = text.replace('\u{2212}', "-");
    let suffix = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(*suffix));
    let digits = suffix.map_or(text.as_str(), |(suffix, _)| text.trim_end_matches(*suffix).trim_end());
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let groups: Vec<&str> = whole.split([',', ' ', '\u{a0}', '\u{202f}', '\'']).collect();
    let is_grouped =
        groups[1..].iter().all(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()));
    let whole = groups.concat();
    let plain = fraction.map_or_else(|| whole.clone(), |fraction| format!("{whole}.{fraction}"));
    // The exponent is part of the number, which is then rounded only once.
    let number: f64 = format!("{plain}{}", suffix.map_or("", |(_, exponent)| exponent)).parse().ok()?;
    (is_grouped && number.is_finite()).then_some(number)
}

/// The beginning of a field, for error messages.
fn shortened(field: &str) -> String {
    const CHARS_MAX: usize = 40;
    if field.chars().count() <= CHARS_MAX {
        return field.into();
    }
    field.chars().take(CHARS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = "\
test,metric,unit,better,6-core-2ccx,6-thread-1ccx,published_change_percent
dhrystone,throughput,lps,higher,267065871.8,177565964.9,-34
process-creation,throughput,lps,higher,51217.1,58572.1,
sysbench-threads,latency-max,ms,lower,9.23,,
";

    fn check(text: &str, expected: &str) {
        let error = table_from_csv(text, Path::new("published/figures.csv")).unwrap_err().to_string();
        assert!(error.starts_with("published/figures.csv") && error.contains(expected), "{expected}\n{error}");
    }

    #[test]
    fn figures_of_a_csv_file_are_read() {
        let table = table_from_csv(FIGURES, Path::new("published/figures.csv")).unwrap();
        assert_eq!(table.name, "figures");
        assert_eq!(table.columns, ["6-core-2ccx", "6-thread-1ccx"]);
        assert_eq!(table.rows.len(), 3);
        let expected = ImportedRow {
            test: "dhrystone".into(),
            metric: "throughput".into(),
            unit: "lps".into(),
            better: Better::Higher,
            values: vec![Some(267_065_871.8), Some(177_565_964.9)],
            published_change_percent: Some(-34.0),
            samples: Vec::new(),
        };
        assert_eq!(table.rows[0], expected);
        assert_eq!(table.rows[1].published_change_percent, None);
        assert_eq!((table.rows[2].better, &table.rows[2].values[..]), (Better::Lower, &[Some(9.23), None][..]));
    }

    #[test]
    fn variants_written_by_spreadsheets_read_the_same() {
        let plain = table_from_csv(FIGURES, Path::new("figures.csv")).unwrap();
        let variants = [
            format!("\u{feff}{FIGURES}"),
            FIGURES.replace('\n', "\r\n"),
            FIGURES.replace(',', " , "),
            FIGURES.trim_end().into(),
            FIGURES.replace("dhrystone", "\"dhrystone\""),
            format!("{FIGURES}\n\n"),
        ];
        for text in variants {
            assert_eq!(table_from_csv(&text, Path::new("figures.csv")).as_ref(), Ok(&plain), "{text}");
        }
        let without: Vec<&str> = FIGURES.lines().map(|line| line.rsplit_once(',').unwrap().0).collect();
        let without = table_from_csv(&without.join("\n"), Path::new("figures.csv")).unwrap();
        assert_eq!((without.columns, without.rows.len()), (plain.columns, 3));
    }

    #[test]
    fn errors_name_line_and_column() {
        let row = |row: &str| format!("test,metric,unit,better,a,b\nt,m,u,higher,1,2\n{row}\n");
        check("", ": the file is empty");
        check("test,metric,unit,better,a\n", ": no rows below the header");
        check("name,metric,unit,better,a\n", "line 1, column 1: expected the header 'test', found 'name'");
        check("test,metric\n", "line 1, column 3: expected the header 'unit', found ''");
        check("test,metric,unit,better\nt,m,u,higher\n", "line 1: no column of figures");
        check("test,metric,unit,better,published_change_percent\n", "line 1: no column of figures");
        check(
            "test,metric,unit,better,published_change_percent,a\n",
            "line 1, column published_change_percent: this must",
        );
        check("test,metric,unit,better,a,a\n", "line 1, column a: duplicate column name");
        check("test,metric,unit,better,a,unit\n", "line 1, column unit: duplicate column name");
        check("test,metric,unit,better,a,\n", "line 1, column 6: the header has no name for this column");
        check(&row("t,n,u,more,1,2"), "line 3, column better: 'more' is neither higher nor lower");
        check(&row("t,n,u,lower,1,fast"), "line 3, column b: 'fast' is not a number");
        check(&row("t,n,u,lower,NaN,1"), "line 3, column a: 'NaN' is not a number");
        check(&row("t,n,u,lower,inf,1"), "line 3, column a: 'inf' is not a number");
        check(&row("t,n,u,lower,1"), "line 3: 5 fields, but the header has 6");
        check(&row("t,n,u,lower,1,5,2"), "line 3: 7 fields, but the header has 6");
        check(&row("t,m,u,lower,1,2"), "line 3: duplicate row for test t, metric m");
        check(&row(",m,u,lower,1,2"), "line 3, column test: the field is empty");
        check(&row("t,,u,lower,1,2"), "line 3, column metric: the field is empty");
    }

    #[test]
    fn figures_are_read_as_tables_print_them() {
        let value = |text: &str| match figure(text, 1, "a") {
            Ok(Some(TableFigure::Value(value))) => Some(value),
            _ => None,
        };
        let cases = [
            ("8.1k", 8100.0),
            ("1,024", 1024.0),
            ("1 234 567.5", 1_234_567.5),
            ("267.1M", 267_100_000.0),
            ("95 %", 95.0),
            ("95.8%", 95.8),
            ("-3", -3.0),
            ("1e6", 1e6),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        assert_eq!(figure("+14 %", 1, "a").ok(), Some(Some(TableFigure::Change(14.0))));
        assert_eq!(figure("\u{2212}2,5 %", 1, "a").ok(), None);
        for text in ["1,5", "12,34", "1,0244", "k", "%", "8.1 kilo", "1.2.3", "inf", "0x10"] {
            assert_eq!(value(text), None, "{text}");
        }
        check("test,metric,unit,better,a\nt,m,u,higher,\"1,5\"\n", "line 2, column a: '1,5' is not a number");
    }

    #[test]
    fn signed_percentages_are_changes_from_the_first_figure() {
        let text = "test,metric,unit,better,plain,fake,other\nadd,speed,x,higher,1,+14 %,-2 %\nzstd,speed,x,higher,,100 %,+164 %\n";
        let table = table_from_csv(text, Path::new("figures.csv")).unwrap();
        let rounded = |row: &ImportedRow| -> Vec<Option<i64>> {
            row.values.iter().map(|value| value.map(|value| (value * 100.0).round() as i64)).collect()
        };
        assert_eq!(rounded(&table.rows[0]), [Some(100), Some(114), Some(98)]);
        assert_eq!(rounded(&table.rows[1]), [None, Some(10_000), Some(26_400)]);
        check("test,metric,unit,better,a,b\nt,m,u,higher,,+14 %\n", "line 2, column b: '+14 %' is a change");
    }

    #[test]
    fn oversized_files_return_errors() {
        let header = "test,metric,unit,better,a\n";
        let rows: Vec<String> = (0..=ROWS_MAX).map(|row| format!("t{row},m,u,lower,1\n")).collect();
        check(&format!("{header}{}", rows.concat()), "line 10002: more than 10000 rows");
        let columns: Vec<String> = (0..=COLUMNS_MAX).map(|column| format!("c{column}")).collect();
        check(&format!("test,metric,unit,better,{}\n", columns.join(",")), "more than 100 columns");
        let (names, figures) = (&columns[..100], ",1".repeat(100));
        let rows: String = (0..=FIGURES_MAX / 100).map(|row| format!("t{row},m,u,lower{figures}\n")).collect();
        check(&format!("test,metric,unit,better,{}\n{rows}", names.join(",")), "line 1002: more than 100000 figures");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        check(&format!("{header}{long},m,u,lower,1\n"), "line 2, column test: longer than 200 bytes");
        check(&format!("test,metric,unit,better,{long}\n"), "line 1, column 5: longer than 200 bytes");
        check(&format!("{header}t,m,u,lower,{long}\n"), "xxx…' is not a number");
        check(&"x".repeat(BYTES_MAX as usize + 1), ": larger than 4 MiB");
        // A quote that is never closed makes the rest of the file one field.
        check(&format!("{header}\"{}", "t,m,u,lower,1\n".repeat(50)), "line 2: 1 fields, but the header has 5");
    }

    #[test]
    fn name_of_a_table_is_that_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ryzen-2600-ccx.csv");
        std::fs::write(&file, FIGURES).unwrap();
        assert_eq!(read_table(&file).unwrap().name, "ryzen-2600-ccx");
        std::fs::write(&file, b"test,metric,unit,better,a\nt\xff,m,u,lower,1\n").unwrap();
        assert!(
            read_table(&file)
                .unwrap_err()
                .to_string()
                .ends_with("ryzen-2600-ccx.csv line 2: the file is not UTF-8 text")
        );
        std::fs::write(&file, format!("\u{feff}{FIGURES}")).unwrap();
        assert_eq!(read_bounded(&file).ok().as_deref(), Some(FIGURES));
        std::fs::write(&file, b"\xff\xfet\0e\0").unwrap();
        assert!(read_table(&file).unwrap_err().to_string().contains("the file is UTF-16 text"));
        let error = read_table(&directory.path().join("none.csv")).unwrap_err().to_string();
        assert!(error.contains("none.csv: No such file"), "{error}");
    }

    #[test]
    fn format_is_detected_from_the_content() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("figures");
        std::fs::write(&file, FIGURES).unwrap();
        let ImportFormat::Report(report, format) = read(&file, None).unwrap() else { panic!("a table is not a store") };
        assert_eq!((format, report.columns.len(), report.rows.len()), (TABLE, 2, 3));
        drop(crate::Store::open(&directory.path().join("other")).unwrap());
        assert_eq!(read(&directory.path().join("other"), None), Ok(ImportFormat::Store));
        std::fs::write(&file, "STREAM version $Revision: 5.10 $\n").unwrap();
        let error = read(&file, None).unwrap_err();
        assert!(error.to_string().ends_with("the line 'Copy:' is missing") && error.hint.is_some(), "{error}");
        assert!(read(&file, Some(TABLE)).unwrap_err().to_string().contains("expected the header 'test'"));
    }

    #[test]
    fn published_figures_in_the_docs_are_read() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/published/ryzen-2600-ccx.csv");
        let table = read_table(&file).unwrap();
        assert_eq!((table.columns.len(), table.rows.len()), (2, 18));
        assert_eq!(table.rows[17].values, [Some(2985.89), Some(2985.89)]);
    }
}
