//! Reads tables of published figures: test, metric, unit, better, then one column per configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use model::record::{ImportedRow, ImportedTable};
use model::workload::Better;

/// What is wrong with a table, where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError(String);

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: the first line is test,metric,unit,better, then one column per configuration", self.0)
    }
}

/// The columns that every table begins with.
const FIXED: [&str; 4] = ["test", "metric", "unit", "better"];
/// What a table may end with: the change that its source prints.
const PUBLISHED: &str = "published_change_percent";
/// Tables are typed off papers: anything larger is another file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a CSV file; the table is named after it.
pub fn read_table(path: &Path) -> Result<ImportedTable, ImportError> {
    let file = path.display();
    let unreadable = |error: std::io::Error| ImportError(format!("cannot read {file}: {error}"));
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > FILE_BYTES_MAX {
        return Err(ImportError(format!("{file} has {size} bytes, which is no table of figures")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_stem().map_or_else(|| "table".into(), |stem| stem.to_string_lossy().into_owned());
    table_from_csv(&text, &name).map_err(|ImportError(what)| ImportError(format!("{file}: {what}")))
}

/// Reads the text of a CSV file.
pub fn table_from_csv(text: &str, name: &str) -> Result<ImportedTable, ImportError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| ImportError(format!("line 1: {error}")))?.clone();
    let layout = Layout::of(&header)?;
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| ImportError(error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = layout.row(&record, header.len()).map_err(|what| ImportError(format!("line {line}: {what}")))?;
        if !seen.insert((row.test.clone(), row.metric.clone())) {
            return Err(ImportError(format!("line {line}: {} {} stands here a second time", row.test, row.metric)));
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(ImportError("there is no row below the header".into()));
    }
    Ok(ImportedTable { name: name.into(), columns: layout.columns, rows })
}

struct Layout {
    columns: Vec<String>,
    has_published: bool,
}

impl Layout {
    fn of(header: &csv::StringRecord) -> Result<Self, ImportError> {
        let names: Vec<&str> = header.iter().collect();
        if names.len() < FIXED.len() || names[..FIXED.len()] != FIXED {
            return Err(ImportError(format!("line 1: it begins with '{}', not with {}", names.join(","), FIXED.join(","))));
        }
        let has_published = names.last() == Some(&PUBLISHED);
        let columns: Vec<String> =
            names[FIXED.len()..names.len() - usize::from(has_published)].iter().map(ToString::to_string).collect();
        if columns.is_empty() {
            return Err(ImportError("line 1: there is no column of figures after better".into()));
        }
        let distinct: BTreeSet<&String> = columns.iter().collect();
        if distinct.len() < columns.len() || columns.iter().any(String::is_empty) {
            return Err(ImportError("line 1: every column of figures needs a name of its own".into()));
        }
        Ok(Self { columns, has_published })
    }

    fn row(&self, record: &csv::StringRecord, fields: usize) -> Result<ImportedRow, String> {
        if record.len() != fields {
            return Err(format!("it has {} fields, the header has {fields}", record.len()));
        }
        let figures = FIXED.len()..FIXED.len() + self.columns.len();
        let values = figures.zip(&self.columns).map(|(index, column)| figure(&record[index], column));
        Ok(ImportedRow {
            test: record[0].into(),
            metric: record[1].into(),
            unit: record[2].into(),
            better: better(&record[3])?,
            values: values.collect::<Result<_, _>>()?,
            published_change_percent: if self.has_published { figure(&record[fields - 1], PUBLISHED)? } else { None },
        })
    }
}

fn better(text: &str) -> Result<Better, String> {
    match text {
        "higher" => Ok(Better::Higher),
        "lower" => Ok(Better::Lower),
        _ => Err(format!("better is '{text}', it is either higher or lower")),
    }
}

fn figure(text: &str, column: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let value: f64 = text.parse().map_err(|_| format!("'{text}' in column {column} is not a number"))?;
    if value.is_finite() { Ok(Some(value)) } else { Err(format!("'{text}' in column {column} is not a finite number")) }
}
