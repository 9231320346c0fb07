//! Exports a run as a Parquet file in a directory that is partitioned as in Hive: one row per sample, one file per run.
//! `schema` defines the columns, `path` the names, `atomic` writes files atomically, `bucket` writes to object stores.
//! Must not contain SQL.

mod atomic;
#[cfg(feature = "s3")]
mod bucket;
mod path;
mod schema;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::values::calendar::utc_date;
use model::values::machine_class::machine_class;
use model::values::record::{RunId, RunRecord, TrialRecord};
use model::values::trial::Evidence;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::ColumnPath;

#[cfg(feature = "s3")]
pub use self::bucket::{Bucket, BucketError, UploadedRun};
use super::ExportError;
use super::columns::{CellReader, RunRow, SampleRow, TrialRow};
use crate::{Store, StoreError, TrialColumns};

/// The version of the columns; a newer version has more columns after the last.
const SCHEMA_VERSION: &str = "2";
/// Rows that are kept in memory and written as one row group. Readers process one group per thread (`DuckDB`'s files
/// have 122 880 rows per group), and a row takes about 60 bytes: 8 MB. A trial is never split.
const GROUP_ROWS: usize = 131_072;
/// Cells passed to the writer at once.
const BATCH_CELLS: usize = 8_192;

/// A run that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRun {
    pub path: PathBuf,
    /// Number of rows: one per sample, and one per trial without samples.
    pub rows: usize,
}

/// Writes a run to `date=DAY/experiment=NAME/machine=CLASS/RUN.parquet` in a directory, which is created if it is
/// missing. The name depends only on the run and the content only on its stored trials, so a repeated export changes
/// nothing and an export of a resumed run replaces its file.
pub fn parquet(store: &Store, run: &RunId, dir: &Path) -> Result<ExportedRun, ExportError> {
    let record = store.run(&run.0)?;
    write(&record, dir, |visit| store.each_trial(run, TrialColumns::All, visit))
}

/// Writes a run that is not stored in a results file, in the same way. Used to synthesise large data sets.
pub fn parquet_of(
    record: &RunRecord,
    trials: impl Iterator<Item = TrialRecord>,
    dir: &Path,
) -> Result<ExportedRun, ExportError> {
    let mut trials = trials;
    write(record, dir, |visit| {
        let _ = trials.try_for_each(visit); // a visitor that breaks keeps its error
        Ok(())
    })
}

fn write(
    record: &RunRecord,
    dir: &Path,
    each: impl FnOnce(&mut Visit<'_>) -> Result<(), StoreError>,
) -> Result<ExportedRun, ExportError> {
    let run = ParquetRun::new(record);
    let path = dir.join(run.path());
    let rows = atomic::write(&path, |file| fill(each, &run, file))?;
    Ok(ExportedRun { path, rows })
}

/// Visits a trial; may end the visits.
type Visit<'a> = dyn FnMut(TrialRecord) -> ControlFlow<()> + 'a;

/// Writes a run as [`parquet()`] does, with the same name and the same bytes, to an object store.
#[cfg(feature = "s3")]
pub fn parquet_to_bucket(store: &Store, run: &RunId, bucket: &Bucket) -> Result<UploadedRun, ExportError> {
    let record = store.run(&run.0)?;
    let parquet_run = ParquetRun::new(&record);
    let name = parquet_run.path();
    let rows = bucket
        .write(&name, |upload| fill(|visit| store.each_trial(run, TrialColumns::All, visit), &parquet_run, upload))?;
    Ok(UploadedRun { url: bucket.url_of(&name), rows })
}

/// A run with its cells and the values that are in its path.
struct ParquetRun<'a> {
    record: &'a RunRecord,
    row: RunRow<'a>,
    /// The day on which the run began, in UTC.
    date: String,
    machine_class: String,
}

impl<'a> ParquetRun<'a> {
    fn new(record: &'a RunRecord) -> Self {
        Self {
            record,
            row: RunRow::new(record),
            date: utc_date(record.started_unix_ms),
            machine_class: machine_class(&record.machine, record.simulated.is_some()),
        }
    }

    fn path(&self) -> String {
        path::file(self.record, &self.machine_class, &self.date)
    }
}

/// An error without the name of the file, which the caller adds.
#[derive(Debug)]
enum ExportFault {
    Export(ExportError),
    File(std::io::Error),
}

impl From<ParquetError> for ExportFault {
    fn from(error: ParquetError) -> Self {
        match error {
            // Errors of the file system are wrapped.
            ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
                Ok(error) => Self::File(*error),
                Err(other) => Self::File(std::io::Error::other(other)),
            },
            other => Self::File(std::io::Error::other(other)),
        }
    }
}

fn fill<W: Write + Send>(
    each: impl FnOnce(&mut Visit<'_>) -> Result<(), StoreError>,
    run: &ParquetRun<'_>,
    out: W,
) -> Result<usize, ExportFault> {
    let mut writer = SerializedFileWriter::new(out, schema::schema(), Arc::new(properties(run)))?;
    let mut group = RowGroup::default();
    let mut written = 0;
    let mut fault = None;
    let loading = each(&mut |trial| {
        group.add(trial);
        if group.rows < GROUP_ROWS {
            return ControlFlow::Continue(());
        }
        written += group.rows;
        fault = std::mem::take(&mut group).write(&run.row, &mut writer).err();
        if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    fault.map_or(Ok(()), Err)?;
    loading.map_err(|error| ExportFault::Export(error.into()))?;
    written += group.rows;
    group.write(&run.row, &mut writer)?;
    writer.close()?;
    Ok(written)
}

fn properties(run: &ParquetRun<'_>) -> WriterProperties {
    let entry = |key: &str, value: &str| KeyValue::new(format!("nearfar.{key}"), value.to_string());
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        // Statistics per row group suffice: the rows of a run are similar, so statistics per page would add nothing.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Measured values are almost never equal.
        .set_column_dictionary_enabled(ColumnPath::from("value"), false)
        .set_key_value_metadata(Some(vec![
            entry("schema", SCHEMA_VERSION),
            entry("date", &run.date),
            entry("experiment", &run.record.plan.experiment),
            entry("machine", &run.machine_class),
        ]))
        .build()
}

/// Trials of one row group.
#[derive(Default)]
struct RowGroup {
    trials: Vec<TrialRecord>,
    rows: usize,
}

impl RowGroup {
    fn add(&mut self, mut trial: TrialRecord) {
        // No column uses it, and it is the larger part of most trials.
        trial.outcome.evidence = Evidence::default();
        self.rows += rows(&trial);
        self.trials.push(trial);
    }

    /// Writes column by column, which is the order of the format.
    fn write<W: Write + Send>(self, run: &RunRow<'_>, writer: &mut SerializedFileWriter<W>) -> Result<(), ExportFault> {
        if self.trials.is_empty() {
            return Ok(());
        }
        let trials: Vec<TrialRow<'_>> = self.trials.iter().map(|trial| TrialRow::new(run, trial)).collect();
        let mut group = writer.next_row_group()?;
        for column in schema::columns() {
            let mut out = group.next_column()?.expect("the schema has the same list of columns");
            match column.cell {
                CellReader::Text(cell) => {
                    put::<ByteArrayType>(&mut out, repeated(&trials, |trial| cell(trial).map(bytes)))?;
                }
                CellReader::Whole(cell) | CellReader::Time(cell) => {
                    put::<Int64Type>(&mut out, repeated(&trials, |trial| cell(trial).and_then(whole)))?;
                }
                CellReader::SampleText(cell) => {
                    put::<ByteArrayType>(&mut out, single(&trials, |sample| cell(sample).map(bytes)))?;
                }
                CellReader::SampleWhole(cell) => {
                    put::<Int64Type>(&mut out, single(&trials, |sample| whole(cell(sample))))?;
                }
                CellReader::SampleReal(cell) => {
                    put::<DoubleType>(&mut out, single(&trials, |sample| Some(cell(sample))))?;
                }
            }
            out.close()?;
        }
        group.close()?;
        Ok(())
    }
}

/// A trial without samples has one row, which states why there is none.
fn rows(trial: &TrialRecord) -> usize {
    trial.outcome.samples.len().max(1)
}

/// `None` beyond 63 bits, where no value is plausible.
fn whole(number: u64) -> Option<i64> {
    number.try_into().ok()
}

fn bytes(text: std::borrow::Cow<'_, str>) -> ByteArray {
    ByteArray::from(text.into_owned().into_bytes())
}

/// One cell per trial, repeated for each of its rows.
fn repeated<'a, T: 'a>(
    trials: &'a [TrialRow<'a>],
    cell: impl Fn(&'a TrialRow<'a>) -> Option<T> + 'a,
) -> impl Iterator<Item = (Option<T>, usize)> + 'a {
    trials.iter().map(move |trial| (cell(trial), rows(trial.record)))
}

/// One cell per sample, and a null per trial without samples.
fn single<'a, T: 'a>(
    trials: &'a [TrialRow<'a>],
    cell: impl Fn(&SampleRow<'a>) -> Option<T> + Copy + 'a,
) -> impl Iterator<Item = (Option<T>, usize)> + 'a {
    trials.iter().flat_map(move |trial| {
        let missing = trial.record.outcome.samples.is_empty().then_some((None, 1));
        trial.samples().map(move |sample| (cell(&sample), 1)).chain(missing)
    })
}

/// Writes the cells of a column: the non-null values, and a definition level for each row.
fn put<T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = (Option<T::T>, usize)>,
) -> Result<(), ParquetError> {
    let column = out.typed::<T>();
    let (mut values, mut present) = (Vec::with_capacity(BATCH_CELLS), Vec::with_capacity(BATCH_CELLS));
    for (cell, times) in cells {
        for _ in 0..times {
            present.push(i16::from(cell.is_some()));
            values.extend(cell.clone());
            if present.len() == BATCH_CELLS {
                column.write_batch(&values, Some(&present), None)?;
                values.clear();
                present.clear();
            }
        }
    }
    column.write_batch(&values, Some(&present), None)?;
    Ok(())
}
