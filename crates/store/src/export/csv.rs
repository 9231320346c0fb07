//! Exports a run as CSV in long form: one row per sample, with all columns of its trial and run.

use std::io::{self, Write};
use std::ops::ControlFlow;

use model::values::csv_text::without_formula;
use model::values::record::{RunRecord, TrialRecord};

use super::ExportError;
use super::columns::{COLUMNS, CellReader, Column, Formats, RunRow, SampleRow, TrialRow};
use crate::{Store, TrialColumns};

/// Writes the trials one by one, so that they are never all in memory.
pub(super) fn write(store: &Store, record: &RunRecord, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns().map(|column| column.name)).map_err(write_error)?;
    let run = RunRow::new(record);
    let mut written = Ok(());
    store.each_trial(&record.id, TrialColumns::All, |trial| {
        written = write_trial(&run, &trial, &mut csv);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written.map_err(write_error)?;
    Ok(csv.flush()?)
}

fn write_trial(run: &RunRow<'_>, trial: &TrialRecord, csv: &mut csv::Writer<&mut dyn Write>) -> csv::Result<()> {
    let row = TrialRow::new(run, trial);
    let mut fields: Vec<String> = columns().map(|column| trial_field(column.cell, &row)).collect();
    for sample in row.samples() {
        for (field, column) in fields.iter_mut().zip(columns()) {
            if let Some(value) = sample_field(column.cell, &sample) {
                *field = value;
            }
        }
        csv.write_record(&fields)?;
    }
    if trial.outcome.samples.is_empty() {
        csv.write_record(&fields)?;
    }
    Ok(())
}

/// Keeps the kind of an I/O error, because a closed pipe is not an error (`| head`).
fn write_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| column.formats != Formats::Parquet)
}

/// The field of a trial. Empty for null and for columns of samples.
fn trial_field(cell: CellReader, trial: &TrialRow<'_>) -> String {
    match cell {
        CellReader::Text(cell) => without_formula(&cell(trial).unwrap_or_default()).into_owned(),
        CellReader::Whole(cell) | CellReader::Time(cell) => {
            cell(trial).map_or(String::new(), |number| number.to_string())
        }
        CellReader::SampleText(_) | CellReader::SampleWhole(_) | CellReader::SampleReal(_) => String::new(),
    }
}

/// The field of a sample. `None` for columns of trials, whose fields all samples of a trial share.
fn sample_field(cell: CellReader, sample: &SampleRow<'_>) -> Option<String> {
    match cell {
        CellReader::SampleText(cell) => Some(without_formula(&cell(sample).unwrap_or_default()).into_owned()),
        CellReader::SampleWhole(cell) => Some(cell(sample).to_string()),
        CellReader::SampleReal(cell) => Some(cell(sample).to_string()),
        CellReader::Text(_) | CellReader::Whole(_) | CellReader::Time(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_page_lists_every_column() {
        let page = include_str!("../../../../docs/reference/csv.md");
        let documented: Vec<&str> = page
            .lines()
            .skip_while(|line| !line.starts_with("## CSV of samples"))
            .find(|line| line.starts_with("run,"))
            .map_or(Vec::new(), |line| line.split(',').collect());
        assert_eq!(documented, columns().map(|column| column.name).collect::<Vec<_>>());
    }
}
