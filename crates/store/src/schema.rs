//! What the tables are and how an older file becomes a newer one. The text is SQLite's; a server gets the same tables from the
//! same text, and from the version on that was the newest when it was made.

use crate::error::StoreErrorKind;
use crate::sql::Connection;

/// In the file's header (bytes 68 to 71), so that we know our own files: "NFAR".
const APPLICATION_ID: u32 = 0x4e46_4152;

/// Entry n makes version n + 1 of version n. Entries that were released never change.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// The version that this program writes.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// What a server needs before them: a place for the version, and SQLite's functions.
#[cfg(feature = "postgres")]
const SERVER_BEFORE: &str = include_str!("schema/server-before.sql");
/// What a server needs after them.
#[cfg(feature = "postgres")]
const SERVER_AFTER: &str = include_str!("schema/server-after.sql");

/// The words of the migrations that PostgreSQL has others for.
#[cfg(feature = "postgres")]
const SERVER_WORDS: [(&str, &str); 5] = [
    (" INTEGER", " BIGINT"),
    (" REAL", " DOUBLE PRECISION"),
    (") STRICT, WITHOUT ROWID;", ");"),
    (") STRICT;", ");"),
    ("placement ->>", "placement::json ->>"),
];

/// What a file is before anything is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Empty,
    /// A results file of this version.
    Ours(u32),
    /// A database of somebody else. On a server everybody has a place of his own.
    Foreign,
}

/// Looks what a file is, or whether a server has results.
pub(crate) fn kind(connection: &Connection) -> Result<FileKind, StoreErrorKind> {
    match connection {
        Connection::File(file) => kind_of_file(file),
        #[cfg(feature = "postgres")]
        Connection::Server(_) => {
            let sql = "SELECT 1 FROM pg_tables WHERE schemaname = 'nearfar' AND tablename = 'version'";
            match connection.first(sql, &[], |_| Ok(()))? {
                Some(()) => {
                    connection.one("SELECT number FROM nearfar.version", &[], |row| row.get(0).map(FileKind::Ours))
                }
                None => Ok(FileKind::Empty),
            }
        }
    }
}

/// Looks what a file is.
pub(crate) fn kind_of_file(file: &rusqlite::Connection) -> Result<FileKind, StoreErrorKind> {
    let application: u32 = file.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = file.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let things: u32 = file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, things) {
        (APPLICATION_ID, version, _) => FileKind::Ours(version),
        (0, 0, 0) => FileKind::Empty,
        _ => FileKind::Foreign,
    })
}

/// Brings an empty or older file to today's version, in one transaction. Another program may have done so meanwhile.
pub(crate) fn migrate(connection: &Connection) -> Result<(), StoreErrorKind> {
    migrate_with(connection, MIGRATIONS)
}

fn migrate_with(connection: &Connection, migrations: &[&str]) -> Result<(), StoreErrorKind> {
    let transaction = connection.begin()?;
    let done = match kind(connection)? {
        FileKind::Ours(version) => version as usize,
        FileKind::Empty | FileKind::Foreign => 0,
    };
    if done == 0 {
        found(connection)?;
    }
    for migration in migrations.iter().skip(done) {
        step(connection, migration)?;
    }
    if done == 0 {
        guard(connection)?;
    }
    if done < migrations.len() {
        mark(connection, migrations.len() as u32)?;
    }
    transaction.commit()
}

/// What is needed before the first step. A server's place may have been made for somebody who may not make it himself.
#[cfg_attr(not(feature = "postgres"), allow(clippy::unnecessary_wraps))] // a server may fail
fn found(connection: &Connection) -> Result<(), StoreErrorKind> {
    match connection {
        Connection::File(_) => Ok(()),
        #[cfg(feature = "postgres")]
        Connection::Server(_) => {
            if connection.first("SELECT 1 FROM pg_namespace WHERE nspname = 'nearfar'", &[], |_| Ok(()))?.is_none() {
                connection.batch("CREATE SCHEMA nearfar")?;
            }
            connection.batch(SERVER_BEFORE)
        }
    }
}

fn step(connection: &Connection, migration: &str) -> Result<(), StoreErrorKind> {
    match connection {
        Connection::File(_) => connection.batch(migration),
        #[cfg(feature = "postgres")]
        Connection::Server(_) => {
            let text = |text: String, (ours, theirs): &(&str, &str)| text.replace(ours, theirs);
            connection.batch(&SERVER_WORDS.iter().fold(migration.to_string(), text))
        }
    }
}

/// What is to be there once the tables are.
#[cfg_attr(not(feature = "postgres"), allow(clippy::unnecessary_wraps))] // a server may fail
fn guard(connection: &Connection) -> Result<(), StoreErrorKind> {
    match connection {
        Connection::File(_) => Ok(()),
        #[cfg(feature = "postgres")]
        Connection::Server(_) => connection.batch(SERVER_AFTER),
    }
}

fn mark(connection: &Connection, version: u32) -> Result<(), StoreErrorKind> {
    match connection {
        Connection::File(file) => {
            file.pragma_update(None, "application_id", APPLICATION_ID)?;
            Ok(file.pragma_update(None, "user_version", version)?)
        }
        #[cfg(feature = "postgres")]
        Connection::Server(_) => connection.execute("UPDATE version SET number = ?1", &[version.into()]).map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Connection {
        Connection::File(rusqlite::Connection::open_in_memory().unwrap())
    }

    #[test]
    fn an_empty_file_becomes_ours() {
        let connection = memory();
        assert_eq!(kind(&connection).unwrap(), FileKind::Empty);
        migrate(&connection).unwrap();
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(VERSION));
        migrate(&connection).unwrap();
    }

    #[test]
    fn a_foreign_database_is_known() {
        for strange in ["CREATE TABLE t (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"] {
            let connection = memory();
            connection.batch(strange).unwrap();
            assert_eq!(kind(&connection).unwrap(), FileKind::Foreign, "{strange}");
        }
    }

    #[test]
    fn an_older_file_takes_only_the_steps_that_it_lacks() {
        let steps = ["CREATE TABLE a (x); INSERT INTO a VALUES (1)", "CREATE TABLE b AS SELECT x + 1 AS y FROM a"];
        let connection = memory();
        migrate_with(&connection, &steps[..1]).unwrap();
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(1));
        migrate_with(&connection, &steps).unwrap();
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(2));
        assert_eq!(connection.one("SELECT y FROM b", &[], |row| row.get::<i64>(0)).unwrap(), 2);
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let connection = memory();
        migrate_with(&connection, &["CREATE TABLE a (x)"]).unwrap();
        assert!(migrate_with(&connection, &["", "CREATE TABLE b (x)", "CREATE nonsense"]).is_err());
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(1));
        assert!(connection.all("SELECT * FROM b", &[], |_| Ok(())).is_err());
    }

    /// Released versions never change: this snapshot may gain things with a new migration, and lose none.
    #[test]
    fn the_schema_is_as_released() {
        let connection = memory();
        migrate(&connection).unwrap();
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL";
        let schema: Vec<String> = connection.all(sql, &[], |row| row.get(0)).unwrap();
        insta::assert_snapshot!(format!("-- version {VERSION}\n{};", schema.join(";\n\n")));
    }
}
