//! A run as a Parquet file in a folder that is partitioned as Hive does it: one row per sample, one file per run. Must not
//! know SQL; the columns are in `columns`, the names in `place`, that a file is whole or not there at all in `whole`, and object
//! stores in `bucket`.

mod atomic;
#[cfg(feature = "s3")]
mod bucket;
mod columns;
mod path;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
use self::columns::{COLUMNS, CellReader, RunRow, SampleRow, TrialRow};
use super::ExportError;
use crate::{Store, StoreError};

/// The version of the columns; a newer one has more of them behind the last.
const SCHEMA_VERSION: &str = "2";
/// Rows that are held and written together. Readers work on this many at once on each of their threads (`DuckDB`'s own
/// files have 122 880), and ours are about 60 bytes each while they wait: 8 MB. A trial is never split.
const GROUP_ROWS: usize = 131_072;
/// So many cells are handed over at once.
const BATCH_CELLS: usize = 8_192;

/// A run that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRun {
    pub path: PathBuf,
    /// How many rows it has: one per sample, and one per trial without any.
    pub rows: usize,
}

/// Writes a run to `date=DAY/experiment=NAME/machine=CLASS/RUN.parquet` under a folder, which is made when it is not there.
/// The name follows from the run alone and the content from what is stored of it, so repeating it changes nothing, and a
/// run that has gone on replaces its file.
pub fn parquet(store: &Store, run: &RunId, folder: &Path) -> Result<ExportedRun, ExportError> {
    let record = store.run(&run.0)?;
    write(&record, folder, |visit| store.each_trial(run, visit))
}

/// Writes a run that no results file has, in the same way: one that was made up, to see what many of them are.
pub fn parquet_of(
    record: &RunRecord,
    trials: impl Iterator<Item = TrialRecord>,
    folder: &Path,
) -> Result<ExportedRun, ExportError> {
    let mut trials = trials;
    write(record, folder, |visit| {
        let _ = trials.try_for_each(visit); // who ends it early knows why
        Ok(())
    })
}

fn write(
    record: &RunRecord,
    folder: &Path,
    each: impl FnOnce(&mut Visit<'_>) -> Result<(), StoreError>,
) -> Result<ExportedRun, ExportError> {
    let of_run = RunRow::new(record);
    let path = folder.join(path::file(record, &of_run.machine_class, &of_run.date));
    let rows = atomic::write(&path, |file| fill(each, &of_run, file))?;
    Ok(ExportedRun { path, rows })
}

/// What is done with each trial; it may end the visits.
type Visit<'a> = dyn FnMut(TrialRecord) -> ControlFlow<()> + 'a;

/// Writes a run as [`parquet()`] does, under the same name with the same bytes, to an object store.
#[cfg(feature = "s3")]
pub fn parquet_to_bucket(store: &Store, run: &RunId, bucket: &Bucket) -> Result<UploadedRun, ExportError> {
    let record = store.run(&run.0)?;
    let of_run = RunRow::new(&record);
    let name = path::file(&record, &of_run.machine_class, &of_run.date);
    let rows = bucket.write(&name, |upload| fill(|visit| store.each_trial(run, visit), &of_run, upload))?;
    Ok(UploadedRun { url: bucket.url_of(&name), rows })
}

/// What went wrong inside, before the file's name is added.
#[derive(Debug)]
enum ExportFault {
    Said(ExportError),
    File(std::io::Error),
}

impl From<ParquetError> for ExportFault {
    fn from(error: ParquetError) -> Self {
        match error {
            // What the system said comes wrapped.
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
    of_run: &RunRow<'_>,
    out: W,
) -> Result<usize, ExportFault> {
    let mut writer = SerializedFileWriter::new(out, columns::schema(), Arc::new(properties(of_run)))?;
    let mut group = RowGroup::default();
    let mut written = 0;
    let mut trouble = None;
    let loading = each(&mut |trial| {
        group.add(trial);
        if group.rows < GROUP_ROWS {
            return ControlFlow::Continue(());
        }
        written += group.rows;
        trouble = std::mem::take(&mut group).write(of_run, &mut writer).err();
        if trouble.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    trouble.map_or(Ok(()), Err)?;
    loading.map_err(|error| ExportFault::Said(error.into()))?;
    written += group.rows;
    group.write(of_run, &mut writer)?;
    writer.close()?;
    Ok(written)
}

fn properties(of_run: &RunRow<'_>) -> WriterProperties {
    let about = |key: &str, value: &str| KeyValue::new(format!("nearfar.{key}"), value.to_string());
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        // Rows of one run are alike: what a whole group holds says enough, pages need not say it again.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Hardly two measured numbers are equal.
        .set_column_dictionary_enabled(ColumnPath::from("value"), false)
        .set_key_value_metadata(Some(vec![
            about("schema", SCHEMA_VERSION),
            about("date", &of_run.date),
            about("experiment", &of_run.record.plan.experiment),
            about("machine", &of_run.machine_class),
        ]))
        .build()
}

/// Trials that wait to be written together.
#[derive(Default)]
struct RowGroup {
    trials: Vec<TrialRecord>,
    rows: usize,
}

impl RowGroup {
    fn add(&mut self, mut trial: TrialRecord) {
        // No column has it, and it is the larger part of most trials.
        trial.outcome.evidence = Evidence::default();
        self.rows += rows(&trial);
        self.trials.push(trial);
    }

    /// Column by column, as the format lies in the file.
    fn write<W: Write + Send>(
        self,
        of_run: &RunRow<'_>,
        writer: &mut SerializedFileWriter<W>,
    ) -> Result<(), ExportFault> {
        if self.trials.is_empty() {
            return Ok(());
        }
        let trials: Vec<TrialRow<'_>> = self.trials.iter().map(|trial| TrialRow::new(of_run, trial)).collect();
        let mut group = writer.next_row_group()?;
        for column in &COLUMNS {
            let mut out = group.next_column()?.expect("the schema is made of the same list of columns");
            match column.cell {
                CellReader::Text(cell) => {
                    put::<ByteArrayType>(&mut out, repeated(&trials, |trial| cell(trial).map(bytes)))?;
                }
                CellReader::Whole(cell) | CellReader::Time(cell) => {
                    put::<Int64Type>(&mut out, repeated(&trials, cell))?
                }
                CellReader::SampleText(cell) => {
                    put::<ByteArrayType>(&mut out, single(&trials, |sample| cell(sample).map(bytes)))?;
                }
                CellReader::SampleWhole(cell) => {
                    put::<Int64Type>(&mut out, single(&trials, |sample| Some(cell(sample))))?
                }
                CellReader::SampleReal(cell) => {
                    put::<DoubleType>(&mut out, single(&trials, |sample| Some(cell(sample))))?
                }
            }
            out.close()?;
        }
        group.close()?;
        Ok(())
    }
}

/// A trial without samples has a row too: it says why there is none.
fn rows(trial: &TrialRecord) -> usize {
    trial.outcome.samples.len().max(1)
}

fn bytes(text: std::borrow::Cow<'_, str>) -> ByteArray {
    ByteArray::from(text.into_owned().into_bytes())
}

/// One cell of each trial, with the number of its rows.
fn repeated<'a, T: 'a>(
    trials: &'a [TrialRow<'a>],
    cell: impl Fn(&'a TrialRow<'a>) -> Option<T> + 'a,
) -> impl Iterator<Item = (Option<T>, usize)> + 'a {
    trials.iter().map(move |trial| (cell(trial), rows(trial.record)))
}

/// One cell of each sample, and an empty one of each trial that has none.
fn single<'a, T: 'a>(
    trials: &'a [TrialRow<'a>],
    cell: impl Fn(&SampleRow<'a>) -> Option<T> + Copy + 'a,
) -> impl Iterator<Item = (Option<T>, usize)> + 'a {
    trials.iter().flat_map(move |trial| {
        let none = trial.record.outcome.samples.is_empty().then_some((None, 1));
        trial.samples().map(move |sample| (cell(&sample), 1)).chain(none)
    })
}

/// Writes the cells of a column: the values that there are, and for each row whether there is one.
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
