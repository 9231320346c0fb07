//! What can go wrong with a results file, in words that name it and the next step.

use std::fmt;
use std::path::Path;

use model::trial::TrialId;
use rusqlite::ErrorCode;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// This trial is stored already; storing it again would count it twice.
    AlreadyStored(TrialId),
    /// Nothing in the file has this name.
    NotFound(String),
    /// The file cannot be used, with the reason and a hint.
    File(String),
}

impl StoreError {
    pub(crate) fn missing(path: &Path) -> Self {
        Self::File(format!("there is no results file {}\nhint: nearfar run quick makes one", path.display()))
    }

    pub(crate) fn no_folder(folder: &Path, error: &std::io::Error) -> Self {
        Self::File(format!("cannot make the folder {}: {error}\nhint: give another --store FILE", folder.display()))
    }

    pub(crate) fn newer(path: &Path, schema: i64, known: i64) -> Self {
        Self::File(format!(
            "{} was written by a newer nearfar (schema {schema}, this program knows {known})\nhint: update nearfar, or give another --store FILE",
            path.display()
        ))
    }

    pub(crate) fn damaged(path: &Path, what: &str) -> Self {
        Self::File(format!(
            "{} is damaged: {what}\nhint: sqlite3 {} .recover saves what can be read",
            path.display(),
            path.display()
        ))
    }

    /// An error of SQLite on this file.
    pub(crate) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let file = path.display();
        let words = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                format!("no space left for {file}\nhint: make room and run the same command again; what was stored is kept")
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                format!("{file} is locked by another program\nhint: wait for it to end, or give another --store FILE")
            }
            Some(ErrorCode::NotADatabase) => {
                format!("{file} is not a results file\nhint: give another --store FILE")
            }
            Some(ErrorCode::DatabaseCorrupt) => return Self::damaged(path, &error.to_string()),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                format!("{file} may not be written: {error}\nhint: give another --store FILE")
            }
            Some(ErrorCode::CannotOpen) => format!("cannot open {file}: {error}\nhint: give another --store FILE"),
            _ => format!("{file}: {error}"),
        };
        Self::File(words)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyStored(id) => write!(f, "trial {id} is stored already"),
            Self::NotFound(what) | Self::File(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {}
