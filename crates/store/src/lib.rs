//! The results file: a SQLite database that runs, trials and tables are appended to. All SQL of the program is
//! in this crate. Must not know how trials are run or shown.
#![forbid(unsafe_code)]

mod error;
pub mod export;
pub mod import;
mod merge;
mod run;
mod schema;
mod table;
mod trial;

pub use error::StoreError;
pub use merge::MergeReport;
pub use run::RunSummary;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// Another process writes one trial in some milliseconds; if the file is still locked after this, somebody holds it.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// An open results file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens a results file, making it and its folder when they are not there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::no_folder(folder, &error))?;
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE, LOCK_WAIT)
    }

    /// Opens a results file that must be there.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::missing(path));
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, LOCK_WAIT)
    }

    fn connect(path: &Path, flags: OpenFlags, lock_wait: Duration) -> Result<Self, StoreError> {
        let said = |error: rusqlite::Error| StoreError::of(path, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(said)?;
        connection.busy_timeout(lock_wait).map_err(said)?;
        let mut store = Self { connection, path: path.to_path_buf() };
        schema::prepare(&mut store)?;
        Ok(store)
    }

    /// Names the file in an error of SQLite.
    fn said(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, error)
    }
}
