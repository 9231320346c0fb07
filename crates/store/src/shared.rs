//! Writes a results file to share: created from the output of `model::sharing::share`, so that none of its pages has
//! ever contained anything else. The file is complete or absent, with no other files next to it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use files::TempDir;
use model::values::record::{ImportedTable, RunRecord, TrialRecord};

use crate::error::StoreErrorKind;
use crate::sql::Connection;
use crate::{Store, StoreError, run, table, trial};

/// The content of the file.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A run and its trials.
    Run(&'a RunRecord, &'a [TrialRecord]),
    Table(&'a ImportedTable),
}

/// Writes a new results file with this content only. An existing file is not modified and is an error.
pub fn write(path: &Path, content: Content<'_>) -> Result<(), StoreError> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(StoreError::CannotOpen { path: path.into(), cause: "the file already exists".into() });
    }
    let dir = TempDir::new(files::dir_of(path), ".nearfar-share-").map_err(|error| refused(path, &error))?;
    let partial = dir.path().join("results.db");
    fill(&partial, content)?;
    publish(&partial, path)
}

fn fill(partial: &Path, content: Content<'_>) -> Result<(), StoreError> {
    let mut store = Store::open(partial)?;
    store.write(|connection| insert(connection, content))?;
    // Without a WAL it is a single file; VACUUM removes unused pages.
    let finish = store.connection.batch("PRAGMA journal_mode = DELETE; VACUUM");
    finish.map_err(|fault| fault.explain(partial))
}

fn insert(connection: &Connection, content: Content<'_>) -> Result<(), StoreErrorKind> {
    match content {
        Content::Run(record, trials) => {
            run::insert(connection, record)?;
            let number = run::number(connection, &record.id)?.expect("the run was stored above");
            trial::insert(connection, number, &trials.iter().collect::<Vec<_>>())
        }
        Content::Table(content) => table::insert(connection, content).map(|_| ()),
    }
}

/// A hard link fails if the file exists, whereas renaming would replace a file that another process has created
/// meanwhile.
fn publish(partial: &Path, path: &Path) -> Result<(), StoreError> {
    let refused = |error: std::io::Error| refused(path, &error);
    File::open(partial).and_then(|file| file.sync_all()).map_err(refused)?;
    match fs::hard_link(partial, path) {
        // Some file systems have no hard links.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => fs::rename(partial, path).map_err(refused)?,
        other => other.map_err(refused)?,
    }
    files::sync_dir_of(path).map_err(refused)
}

fn refused(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull => StoreError::NoSpace { path: path.into() },
        _ => StoreError::CannotOpen { path: path.into(), cause: error.to_string() },
    }
}
