//! Exports results for other programs: CSV with one row per sample, JSON with everything, hyperfine's JSON,
//! OpenMetrics, and with the feature `parquet`, Parquet.

mod columns;
mod csv;
mod families;
mod hyperfine;
mod json;
mod openmetrics;
#[cfg(feature = "parquet")]
mod parquet;

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use model::analysis::finding::TrialNames;
use model::hint::Hinted;
use model::values::record::RunId;

use crate::{Store, StoreError, TrialColumns};

pub use self::families::{MetricFamilies, label};
#[cfg(feature = "s3")]
pub use self::parquet::{Bucket, BucketError, UploadedRun, parquet_to_bucket};
#[cfg(feature = "parquet")]
pub use self::parquet::{ExportedRun, parquet, parquet_of};

/// An error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be loaded.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export cannot be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
    /// No cell of the run has a metric that is a time, and hyperfine's format has only times.
    #[error("run {0} has no metric that is a time, which hyperfine's format requires")]
    NoTimes(RunId),
    /// A file or directory of an export cannot be created or written.
    #[error("cannot write {}: {}", path.display(), cause(error))]
    Directory { path: PathBuf, error: io::Error },
    /// The object store cannot be reached, or it rejected a request.
    #[cfg(feature = "s3")]
    #[error(transparent)]
    Bucket(BucketError),
}

impl Hinted for ExportError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::NoTimes(_) => Some("export it as csv or json".into()),
            Self::Directory { error, .. } => explain(error.kind()).1.map(Into::into),
            #[cfg(feature = "s3")]
            Self::Bucket(error) => error.hint(),
            Self::Write(_) => None,
        }
    }
}

fn cause(error: &io::Error) -> String {
    explain(error.kind()).0.map_or_else(|| error.to_string(), Into::into)
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

/// Writes a run as CSV, one row per sample; a trial without samples has one row without a value.
/// docs/reference/csv.md lists the columns.
pub fn csv(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    csv::write(store, &store.run(&run.0)?, out)
}

/// Writes everything stored of a run, and its findings, as one JSON object:
/// `{"format":"nearfar-run","version":1,"run":{…},"trials":[…],"finding":{"cells":[…],"skipped":[…]}}`.
pub fn json(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    Ok(json::write(&store.run(&run.0)?, &store.trials(run)?, out)?)
}

/// Writes the cells that have a time as `hyperfine --export-json` does, for the programs that read that format. Times
/// are in seconds, one per trial that is not invalid; `command` is `TEST @ PLACEMENT`.
pub fn hyperfine(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    let record = store.run(&run.0)?;
    hyperfine::write(&record, &store.finding(&record, TrialColumns::WithoutEvidence, TrialNames::LeftOut)?, out)
}

/// Writes the medians and intervals of a run as metrics in the text format of OpenMetrics, which `node_exporter`'s
/// textfile collector also reads:
/// `nearfar_stream_copy_bytes_per_second{experiment="quick",test="stream",placement="kernel",…}`.
pub fn openmetrics(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), ExportError> {
    let record = store.run(&run.0)?;
    let finding = store.finding(&record, TrialColumns::WithoutEvidence, TrialNames::LeftOut)?;
    Ok(out.write_all(openmetrics::text(&record, &finding).as_bytes())?)
}
