//! Makes the tables, and brings files of older versions up to date.

use rusqlite::TransactionBehavior;

use crate::{Store, StoreError};

/// Step n brings a file from version n to n + 1.
const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];

/// Prepares a connection and its file.
pub fn prepare(store: &mut Store) -> Result<(), StoreError> {
    // A write-ahead log lets others read while a run writes. With synchronous=NORMAL a killed program loses nothing;
    // a power failure may lose the last trials, never the file (sqlite.org/pragma.html#pragma_synchronous).
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;";
    let version = version(store)?;
    let known = MIGRATIONS.len() as i64;
    if version > known {
        return Err(StoreError::newer(&store.path, version, known));
    }
    store.connection.execute_batch(pragmas).map_err(|error| store.said(&error))?;
    if version < known {
        migrate(store)?;
    }
    Ok(())
}

fn version(store: &Store) -> Result<i64, StoreError> {
    store.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(|error| store.said(&error))
}

/// All missing steps in one transaction: a crash in between leaves the old version whole.
fn migrate(store: &mut Store) -> Result<(), StoreError> {
    let path = store.path.clone();
    let said = |error: rusqlite::Error| StoreError::of(&path, &error);
    let transaction = store.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(said)?;
    // Read again: another process may have made the tables while we waited for the lock.
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(said)?;
    if version == 0 {
        refuse_strangers(&transaction, &path)?;
    }
    for step in &MIGRATIONS[version as usize..] {
        transaction.execute_batch(step).map_err(said)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64).map_err(said)?;
    transaction.commit().map_err(said)
}

/// A database of another program is not ours to write into.
fn refuse_strangers(connection: &rusqlite::Connection, path: &std::path::Path) -> Result<(), StoreError> {
    let count = "SELECT count(*) FROM sqlite_master";
    let tables: i64 = connection.query_row(count, [], |row| row.get(0)).map_err(|error| StoreError::of(path, &error))?;
    if tables == 0 {
        return Ok(());
    }
    Err(StoreError::File(format!(
        "{} is a database of another program\nhint: give another --store FILE",
        path.display()
    )))
}
