//! A results file for strangers: made anew from what `model::sharing::share` has left of a run or a table, so that no page of it has
//! ever held anything else. One file, nothing beside it, there whole or not at all.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::values::record::{ImportedTable, RunRecord, TrialRecord};

use crate::error::StoreErrorKind;
use crate::lock::with_suffix;
use crate::sql::Connection;
use crate::{Store, StoreError, run, table, trial};

/// What goes into the file.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A run with its trials.
    Run(&'a RunRecord, &'a [TrialRecord]),
    Table(&'a ImportedTable),
}

/// Writes a new results file that has this and nothing else. One that is there already is left as it is, and refused.
pub fn write(path: &Path, content: Content<'_>) -> Result<(), StoreError> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(StoreError::CannotOpen { path: path.into(), why: "there is such a file already".into() });
    }
    let partial = with_suffix(path, ".nearfar-partial");
    remove_all(&partial);
    let written = fill(&partial, content).and_then(|()| publish(&partial, path));
    if written.is_err() {
        remove_all(&partial);
    }
    written
}

fn fill(partial: &Path, content: Content<'_>) -> Result<(), StoreError> {
    let mut store = Store::open(partial)?;
    store.write(|connection| insert(connection, content))?;
    // Without a WAL it is one file; packed, it has no page that is not used.
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

/// A hard link fails where a file is there, which renaming would replace: somebody may have made one meanwhile.
fn publish(partial: &Path, path: &Path) -> Result<(), StoreError> {
    let refused = |error: std::io::Error| match error.kind() {
        ErrorKind::StorageFull => StoreError::NoSpace { path: path.into() },
        _ => StoreError::CannotOpen { path: path.into(), why: error.to_string() },
    };
    File::open(partial).and_then(|file| file.sync_all()).map_err(refused)?;
    match fs::hard_link(partial, path) {
        // Some file systems have no links.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => fs::rename(partial, path).map_err(refused)?,
        other => other.map_err(refused)?,
    }
    remove_all(partial);
    Ok(())
}

fn remove_all(partial: &Path) {
    let beside: [PathBuf; 3] = ["-wal", "-shm", "-journal"].map(|suffix| with_suffix(partial, suffix));
    for file in beside.iter().map(PathBuf::as_path).chain([partial]) {
        let _ = fs::remove_file(file); // may not be there
    }
}
