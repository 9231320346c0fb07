//! Exports results for other programs: CSV with one row per sample, JSON with everything, hyperfine's JSON,
//! OpenMetrics, and with the feature `parquet` Parquet.

mod columns;
mod csv;
mod hyperfine;
mod json;
mod openmetrics;
#[cfg(feature = "parquet")]
mod parquet;

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use model::values::record::{RunId, RunRecord, TrialRecord};

use crate::{Store, StoreError};

#[cfg(feature = "s3")]
pub use self::parquet::{Bucket, BucketError, UploadedRun, parquet_to_bucket};
#[cfg(feature = "parquet")]
pub use self::parquet::{ExportedRun, parquet, parquet_of};

/// An error of an export.
#[derive(Debug)]
pub enum ExportError {
    /// The run cannot be loaded.
    Store(StoreError),
    /// The export cannot be written.
    Write(io::Error),
    /// No cell of the run has a metric that is a time, and hyperfine's format has only times.
    NoTimes(RunId),
    /// A file or directory of an export cannot be created or written.
    Directory { path: PathBuf, error: io::Error },
    /// The object store cannot be reached, or it rejected a request.
    #[cfg(feature = "s3")]
    Bucket(BucketError),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write the export: {error}"),
            Self::NoTimes(run) => {
                write!(f, "run {run} has no metric that is a time, which hyperfine's format requires")?;
                write!(f, "\nhint: export it as csv or json")
            }
            Self::Directory { path, error } => {
                let (cause, hint) = explain(error.kind());
                match cause {
                    Some(cause) => write!(f, "cannot write {}: {cause}", path.display())?,
                    None => write!(f, "cannot write {}: {error}", path.display())?,
                }
                hint.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
            }
            #[cfg(feature = "s3")]
            Self::Bucket(error) => error.fmt(f),
        }
    }
}

/// The cause and the hint of common errors of a file system.
fn explain(kind: ErrorKind) -> (Option<&'static str>, Option<&'static str>) {
    let another = Some("name another directory with --output-dir");
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            let hint = "files written before are complete; free disk space and repeat the command";
            (Some("no space left on the disk"), Some(hint))
        }
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            (Some("a component of the path is a file, not a directory"), another)
        }
        ErrorKind::PermissionDenied => (Some("permission denied"), another),
        ErrorKind::ReadOnlyFilesystem => (Some("the file system is read-only"), another),
        ErrorKind::IsADirectory => (Some("a directory of this name exists"), another),
        _ => (None, None),
    }
}

impl std::error::Error for ExportError {}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Writes a run as CSV, one row per sample; a trial without samples has one row without a value.
/// docs/reference/csv.md lists the columns.
pub fn csv(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    let (record, trials) = load(store, run)?;
    Ok(csv::write(&record, &trials, out)?)
}

/// Writes everything stored of a run, and its findings, as one JSON object:
/// `{"format":"nearfar-run","version":1,"run":{…},"trials":[…],"finding":{"cells":[…],"skipped":[…]}}`.
pub fn json(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    let (record, trials) = load(store, run)?;
    Ok(json::write(&record, &trials, out)?)
}

/// Writes the cells that have a time as `hyperfine --export-json` does, for the programs that read that format. Times
/// are in seconds, one per trial that is not invalid; `command` is `TEST @ PLACEMENT`.
pub fn hyperfine(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    let (record, trials) = load(store, run)?;
    hyperfine::write(&record, &trials, out)
}

/// Writes the medians and intervals of a run as metrics in the text format of OpenMetrics, which `node_exporter`'s
/// textfile collector also reads:
/// `nearfar_stream_copy_bytes_per_second{experiment="quick",test="stream",placement="kernel",…}`.
pub fn openmetrics(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    let (record, trials) = load(store, run)?;
    Ok(out.write_all(openmetrics::text(&record, &trials).as_bytes())?)
}

fn load(store: &Store, run: &RunId) -> Result<(RunRecord, Vec<TrialRecord>), StoreError> {
    Ok((store.run(&run.0)?, store.trials(run)?))
}
