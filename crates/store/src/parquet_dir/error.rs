//! Errors of directories with exported Parquet files.

use std::io;
use std::path::PathBuf;

use model::hint::Hinted;
use model::values::record::RunId;

use super::RUNS_MAX;

/// An error of a directory with exported Parquet files.
#[derive(Debug, thiserror::Error)]
pub enum ParquetDirError {
    /// DuckDB cannot be started.
    #[error("cannot start {}: {error}", program.display())]
    NoProgram { program: PathBuf, error: io::Error },
    /// The directory does not exist.
    #[error("directory {} does not exist", dir.display())]
    Missing { dir: PathBuf },
    /// The directory tree contains no Parquet file.
    #[error("no Parquet file below {}", dir.display())]
    Empty { dir: PathBuf },
    /// A file in the tree was not exported by this program.
    #[error("{} was not exported by nearfar", file.display())]
    Foreign { file: PathBuf },
    /// A file in the tree was exported by an older version without the columns that a comparison needs.
    #[error("{} was exported by an older nearfar, without columns that a comparison needs", file.display())]
    Older { file: PathBuf },
    /// DuckDB failed.
    #[error("{} failed: {cause}", program.display())]
    Failed { program: PathBuf, cause: String },
    /// No run has this name.
    #[error("{} has no run '{name}'", dir.display())]
    NoSuchRun { dir: PathBuf, name: String },
    /// Several run ids begin with this name.
    #[error("several runs match '{name}'")]
    AmbiguousRun { name: String },
    /// More runs than can be compared at once.
    #[error("cannot compare {runs} runs at once: the maximum is {RUNS_MAX}")]
    TooMany { runs: usize },
    /// The content of a file is inconsistent.
    #[error("cannot read run {run} from its Parquet file: {cause}")]
    Unreadable { run: RunId, cause: String },
}

impl Hinted for ParquetDirError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoProgram { .. } => {
                "install DuckDB's command-line program ('pip install duckdb-cli') or set NEARFAR_DUCKDB to its path"
            }
            Self::Missing { .. } | Self::Empty { .. } => {
                "'nearfar export --format parquet --output-dir DIR --all' creates one"
            }
            Self::Foreign { .. } => "name a directory that contains only exported files",
            Self::Older { .. } => "export its run again: 'nearfar export --format parquet --output-dir DIR --all'",
            Self::NoSuchRun { .. } => "'latest' is the newest; files are named after their runs",
            Self::AmbiguousRun { .. } => "type more characters of the id",
            Self::TooMany { .. } => {
                "name runs, or a directory with fewer runs such as DIR/date=2026-11-22; docs/guides/parquet.md shows SQL queries over all runs"
            }
            Self::Failed { .. } | Self::Unreadable { .. } => return None,
        };
        Some(hint.into())
    }
}
