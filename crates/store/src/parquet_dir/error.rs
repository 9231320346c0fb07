//! Why nothing came out of a folder of Parquet files, in words with the next step.

use std::fmt;
use std::io;
use std::path::PathBuf;

use model::values::record::RunId;

use super::RUNS_MAX;

/// Why nothing came out of it.
#[derive(Debug)]
pub enum FolderError {
    /// There is no program that could read it.
    NoProgram { program: PathBuf, error: io::Error },
    /// There is no such folder.
    Missing { folder: PathBuf },
    /// There is no Parquet file below it.
    Empty { folder: PathBuf },
    /// A file below it is not one of ours.
    Foreign { file: PathBuf },
    /// A file below it is of a nearfar that did not write what is needed to compare.
    Older { file: PathBuf },
    /// `DuckDB` failed.
    Failed { program: PathBuf, what: String },
    /// There is no run of this name.
    NoSuchRun { folder: PathBuf, name: String },
    /// Several runs begin like this.
    AmbiguousRun { name: String },
    /// More runs than are compared at once.
    TooMany { runs: usize },
    /// What is in a file makes no sense.
    Unreadable {
        run: RunId,
        /// What is wrong with it.
        what: String,
    },
}

impl FolderError {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoProgram { .. } => {
                "DuckDB's command-line program is needed ('pip install duckdb-cli' brings one); NEARFAR_DUCKDB says where it is"
            }
            Self::Missing { .. } | Self::Empty { .. } => {
                "'nearfar export --format parquet --to FOLDER --all' makes one"
            }
            Self::Foreign { .. } => "name a folder that holds nothing else",
            Self::Older { .. } => "export its run again: 'nearfar export --format parquet --to FOLDER --all'",
            Self::NoSuchRun { .. } => "'latest' is the newest; the files are called as the runs are",
            Self::AmbiguousRun { .. } => "give more letters of its id",
            Self::TooMany { .. } => {
                "name runs, or a folder with fewer of them, such as FOLDER/date=2026-11-22; docs/guides/parquet.md has questions for all of them in SQL"
            }
            Self::Failed { .. } | Self::Unreadable { .. } => return None,
        })
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram { program, error } => write!(f, "cannot start {}: {error}", program.display())?,
            Self::Missing { folder } => write!(f, "there is no folder {}", folder.display())?,
            Self::Empty { folder } => write!(f, "there is no Parquet file below {}", folder.display())?,
            Self::Foreign { file } => write!(f, "{} is not a file that nearfar exported", file.display())?,
            Self::Older { file } => {
                write!(f, "{} was exported by an older nearfar, without what a comparison needs", file.display())?;
            }
            Self::Failed { program, what } => write!(f, "{} failed: {what}", program.display())?,
            Self::NoSuchRun { folder, name } => write!(f, "{} has no run '{name}'", folder.display())?,
            Self::AmbiguousRun { name } => write!(f, "several runs begin with '{name}'")?,
            Self::TooMany { runs } => write!(f, "{runs} runs are more than are compared at once ({RUNS_MAX})")?,
            Self::Unreadable { run, what } => write!(f, "run {run} cannot be read from its Parquet file: {what}")?,
        }
        self.hint().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for FolderError {}
