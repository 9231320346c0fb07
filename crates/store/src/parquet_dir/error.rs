//! Errors of directories with exported Parquet files.

use std::fmt;
use std::io;
use std::path::PathBuf;

use model::values::record::RunId;

use super::RUNS_MAX;

/// An error of a directory with exported Parquet files. Its text ends with a line `hint: …` if there is one.
#[derive(Debug)]
pub enum FolderError {
    /// DuckDB cannot be started.
    NoProgram { program: PathBuf, error: io::Error },
    /// The directory does not exist.
    Missing { dir: PathBuf },
    /// The directory tree contains no Parquet file.
    Empty { dir: PathBuf },
    /// A file in the tree was not exported by this program.
    Foreign { file: PathBuf },
    /// A file in the tree was exported by an older version without the columns that a comparison needs.
    Older { file: PathBuf },
    /// DuckDB failed.
    Failed { program: PathBuf, cause: String },
    /// No run has this name.
    NoSuchRun { dir: PathBuf, name: String },
    /// Several run ids begin with this name.
    AmbiguousRun { name: String },
    /// More runs than can be compared at once.
    TooMany { runs: usize },
    /// The content of a file is inconsistent.
    Unreadable { run: RunId, cause: String },
}

impl FolderError {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
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
        })
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram { program, error } => write!(f, "cannot start {}: {error}", program.display())?,
            Self::Missing { dir } => write!(f, "directory {} does not exist", dir.display())?,
            Self::Empty { dir } => write!(f, "no Parquet file below {}", dir.display())?,
            Self::Foreign { file } => write!(f, "{} was not exported by nearfar", file.display())?,
            Self::Older { file } => {
                write!(
                    f,
                    "{} was exported by an older nearfar, without columns that a comparison needs",
                    file.display()
                )?;
            }
            Self::Failed { program, cause } => write!(f, "{} failed: {cause}", program.display())?,
            Self::NoSuchRun { dir, name } => write!(f, "{} has no run '{name}'", dir.display())?,
            Self::AmbiguousRun { name } => write!(f, "several runs match '{name}'")?,
            Self::TooMany { runs } => write!(f, "cannot compare {runs} runs at once: the maximum is {RUNS_MAX}")?,
            Self::Unreadable { run, cause } => write!(f, "cannot read run {run} from its Parquet file: {cause}")?,
        }
        self.hint().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for FolderError {}
