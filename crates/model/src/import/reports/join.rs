//! Joins reports into one table with a column per file, or per column of the files. Rows are joined by test, metric and
//! unit; facts that differ between the files become notes.

use super::{COLUMNS_MAX, ImportedReport, NAME_BYTES_MAX, ReportError, same};
use crate::values::record::{ImportedRow, ImportedTable};

/// Report of one file, with the name of its column.
#[derive(Clone, Debug)]
pub struct NamedReport {
    /// Name given by the user; `None` for the name in the report or of the file.
    pub column: Option<String>,
    /// File name without directory and extension.
    pub file: String,
    pub report: ImportedReport,
}

/// Joins reports into one table. Files with the same user-defined column name share a column.
pub fn join(name: &str, reports: Vec<NamedReport>) -> Result<ImportedTable, ReportError> {
    let several = reports.len() > 1;
    let mut table = ImportedTable { name: name.into(), columns: Vec::new(), rows: Vec::new(), notes: Vec::new() };
    let mut given: Vec<bool> = Vec::new();
    let mut facts: Vec<(String, String, String)> = Vec::new();
    for named in reports {
        let columns = columns(&named, several);
        let indices = columns.iter().map(|column| locate(&mut table, &mut given, column, named.column.is_some()));
        let indices = indices.collect::<Result<Vec<usize>, _>>()?;
        for row in named.report.rows {
            add(&mut table, &indices, row)?;
        }
        for note in named.report.notes {
            let note = if several { format!("{}: {note}", columns[0]) } else { note };
            if !table.notes.contains(&note) {
                table.notes.push(note);
            }
        }
        facts.extend(named.report.facts.into_iter().map(|(key, value)| (key, value, columns[0].clone())));
    }
    for row in &mut table.rows {
        row.values.resize(table.columns.len(), None);
        if !row.samples.is_empty() {
            row.samples.resize(table.columns.len(), Vec::new());
        }
    }
    table.notes.extend(differing(&facts));
    Ok(table)
}

/// Returns the table's names for the columns of a report.
fn columns(named: &NamedReport, several: bool) -> Vec<String> {
    let NamedReport { column, file, report } = named;
    let label = column.as_ref().unwrap_or(file);
    match report.columns.as_slice() {
        [own] if own.is_empty() || column.is_some() => vec![label.clone()],
        [own] => vec![own.clone()],
        own if column.is_none() && !several => own.to_vec(),
        own => own.iter().map(|own| format!("{label}, {own}")).collect(),
    }
}

/// Returns the index of a column, and adds the column unless the user has already given the same name.
fn locate(table: &mut ImportedTable, given: &mut Vec<bool>, column: &str, by_user: bool) -> Result<usize, ReportError> {
    if let Some(index) = table.columns.iter().position(|other| other == column) {
        return if by_user && given[index] {
            Ok(index)
        } else {
            Err(ReportError::whole(format!("duplicate column '{column}' of two files"))
                .hint("name the columns with --column NAME, once per file, in their order"))
        };
    }
    if column.is_empty() || column.len() > NAME_BYTES_MAX {
        return Err(ReportError::whole(format!("the name of a column must have 1 to {NAME_BYTES_MAX} bytes"))
            .hint("name the columns with --column NAME, once per file, in their order"));
    }
    if table.columns.len() == COLUMNS_MAX {
        return Err(ReportError::whole(format!("more than {COLUMNS_MAX} columns")));
    }
    table.columns.push(column.into());
    given.push(by_user);
    Ok(table.columns.len() - 1)
}

/// Adds the values of a row to the columns at `indices`.
fn add(table: &mut ImportedTable, indices: &[usize], row: ImportedRow) -> Result<(), ReportError> {
    let columns = table.columns.len();
    let index = table.rows.iter().position(|other| same(other, &row)).unwrap_or_else(|| {
        table.rows.push(ImportedRow { values: Vec::new(), samples: Vec::new(), ..row.clone() });
        table.rows.len() - 1
    });
    let joined = &mut table.rows[index];
    if joined.better != row.better {
        return Err(ReportError::whole(format!(
            "the files disagree about the better direction of {} of {}",
            row.metric, row.test
        )));
    }
    if joined.values.len() < columns {
        joined.values.resize(columns, None);
    }
    for (at, value) in indices.iter().zip(row.values) {
        if value.is_some() && joined.values[*at].is_some() {
            return Err(ReportError::whole(format!(
                "duplicate {} of {} in column '{}'",
                row.metric, row.test, table.columns[*at]
            ))
            .hint("name the columns with --column NAME, once per file, in their order"));
        }
        joined.values[*at] = joined.values[*at].or(value);
    }
    if !row.samples.is_empty() {
        if joined.samples.len() < columns {
            joined.samples.resize(columns, Vec::new());
        }
        for (at, samples) in indices.iter().zip(row.samples) {
            if !samples.is_empty() {
                joined.samples[*at] = samples;
            }
        }
    }
    Ok(())
}

/// Returns a note for each fact whose value differs between the reports that have it.
fn differing(facts: &[(String, String, String)]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, (key, first, _)) in facts.iter().enumerate() {
        if facts[..index].iter().any(|(other, ..)| other == key) {
            continue;
        }
        let all: Vec<&(String, String, String)> = facts.iter().filter(|(other, ..)| other == key).collect();
        if all.iter().any(|(_, value, _)| value != first) {
            let values: Vec<String> = all.iter().map(|(_, value, column)| format!("{column} {value}")).collect();
            notes.push(format!("{key} differs: {}", values.join(", ")));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::{row, single};
    use super::*;
    use crate::values::workload::Better;

    fn report(test: &str, value: f64, version: &str) -> ImportedReport {
        single(vec![row(test, "time", "s", Better::Lower, value)], vec![("version".into(), version.into())])
    }

    fn named(column: Option<&str>, file: &str, report: ImportedReport) -> NamedReport {
        NamedReport { column: column.map(Into::into), file: file.into(), report }
    }

    #[test]
    fn files_become_columns_and_different_facts_become_notes() {
        let reports = vec![named(None, "a", report("x", 1.0, "1")), named(None, "b", report("x", 2.0, "2"))];
        let table = join("t", reports).unwrap();
        assert_eq!(table.columns, ["a", "b"]);
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.rows[0].values, [Some(1.0), Some(2.0)]);
        assert_eq!(table.notes, ["version differs: a 1, b 2"]);
    }

    #[test]
    fn rows_missing_from_a_file_have_no_value() {
        let reports = vec![named(None, "a", report("x", 1.0, "1")), named(None, "b", report("y", 2.0, "1"))];
        let table = join("t", reports).unwrap();
        let values: Vec<&[Option<f64>]> = table.rows.iter().map(|row| row.values.as_slice()).collect();
        assert_eq!(values, [&[Some(1.0), None], &[None, Some(2.0)]]);
        assert!(table.notes.is_empty());
    }

    #[test]
    fn files_share_a_column_only_without_common_tests() {
        let board = Some("board");
        let both = vec![named(board, "a", report("x", 1.0, "1")), named(board, "b", report("y", 2.0, "1"))];
        let table = join("t", both).unwrap();
        assert_eq!((table.columns.as_slice(), table.rows.len()), (&["board".to_string()][..], 2));
        let twice = vec![named(board, "a", report("x", 1.0, "1")), named(board, "b", report("x", 2.0, "1"))];
        let error = join("t", twice).unwrap_err();
        assert_eq!(error.what, "duplicate time of x in column 'board'");
        assert!(error.hint.unwrap().contains("--column"));
    }

    #[test]
    fn files_with_the_same_name_return_an_error() {
        let same = vec![named(None, "a", report("x", 1.0, "1")), named(None, "a", report("y", 2.0, "1"))];
        assert_eq!(join("t", same).unwrap_err().what, "duplicate column 'a' of two files");
    }

    #[test]
    fn report_columns_are_prefixed_with_the_file_name() {
        let copies = |better| ImportedReport {
            columns: vec!["1 copy".into(), "2 copies".into()],
            rows: vec![ImportedRow {
                values: vec![Some(1.0), Some(2.0)],
                better,
                ..report("x", 1.0, "1").rows.remove(0)
            }],
            facts: Vec::new(),
            notes: vec!["careful".into()],
        };
        let one = join("t", vec![named(None, "a", copies(Better::Lower))]).unwrap();
        assert_eq!((one.columns, one.notes), (vec!["1 copy".into(), "2 copies".into()], vec!["careful".to_string()]));
        let two = vec![named(None, "a", copies(Better::Lower)), named(Some("B"), "b", copies(Better::Lower))];
        let two = join("t", two).unwrap();
        assert_eq!(two.columns, ["a, 1 copy", "a, 2 copies", "B, 1 copy", "B, 2 copies"]);
        assert_eq!(two.rows[0].values, [Some(1.0), Some(2.0), Some(1.0), Some(2.0)]);
        let disagree = vec![named(None, "a", copies(Better::Lower)), named(None, "b", copies(Better::Higher))];
        assert!(join("t", disagree).unwrap_err().what.contains("disagree"));
    }
}
