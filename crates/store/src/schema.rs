//! The schema and its migrations. The SQL is written for SQLite; a server gets the same tables from the same text, and
//! new migrations from the version that was current when its tables were created.

use std::sync::OnceLock;

use crate::error::StoreErrorKind;
use crate::sql::{Connection, Row};

/// Identifies our files in the file header (bytes 68 to 71): "NFAR".
const APPLICATION_ID: u32 = 0x4e46_4152;

/// Entry n migrates version n to version n + 1. Released entries never change.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];

/// The schema version that this program writes.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Run on a server before the migrations: the version table and SQLite's functions.
#[cfg(feature = "postgres")]
const SERVER_BEFORE: &str = include_str!("schema/server-before.sql");
/// Run on a server after the migrations.
#[cfg(feature = "postgres")]
const SERVER_AFTER: &str = include_str!("schema/server-after.sql");

/// Replacements from SQLite's dialect to that of PostgreSQL.
#[cfg(feature = "postgres")]
const DIALECT: [(&str, &str); 5] = [
    (" INTEGER", " BIGINT"),
    (" REAL", " DOUBLE PRECISION"),
    (") STRICT, WITHOUT ROWID;", ");"),
    (") STRICT;", ");"),
    ("placement ->>", "placement::json ->>"),
];

/// The content of a file before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Empty,
    /// A results file of this version.
    Ours(u32),
    /// A database of another program. Not used for servers, where the schema `nearfar` is reserved for results.
    Foreign,
}

/// Determines what a file contains, or whether a server has results.
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

/// Determines what a file contains.
pub(crate) fn kind_of_file(file: &rusqlite::Connection) -> Result<FileKind, StoreErrorKind> {
    let application: u32 = file.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = file.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let objects: u32 = file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, objects) {
        (APPLICATION_ID, version, _) => FileKind::Ours(version),
        (0, 0, 0) => FileKind::Empty,
        _ => FileKind::Foreign,
    })
}

/// Whether the tables of a results file are those that this program created in that version, and no trigger changes them.
/// A file of unknown origin could have a view or a virtual table instead, whose queries never end.
pub(crate) fn has_own_tables(file: &rusqlite::Connection, version: u32) -> Result<bool, StoreErrorKind> {
    let triggers: u32 =
        file.query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'", [], |row| row.get(0))?;
    let mut find = file.prepare("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1")?;
    for table in expected_tables(version)? {
        let found: Vec<String> = find.query_map([&table.name], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if found.len() != 1 || tokens(&found[0]) != table.definition {
            return Ok(false);
        }
    }
    Ok(triggers == 0)
}

struct Table {
    name: String,
    /// As tokens.
    definition: Vec<String>,
}

/// Returns the tables of a version.
fn expected_tables(version: u32) -> Result<&'static [Table], StoreErrorKind> {
    // Creating them takes longer than the rest of opening a file.
    static TABLES: [OnceLock<Vec<Table>>; MIGRATIONS.len() + 1] = [const { OnceLock::new() }; MIGRATIONS.len() + 1];
    let version = MIGRATIONS.len().min(version as usize);
    if let Some(tables) = TABLES[version].get() {
        return Ok(tables);
    }
    let empty = Connection::File(rusqlite::Connection::open_in_memory()?);
    migrate_with(&empty, &MIGRATIONS[..version])?;
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let table = |row: &Row<'_>| Ok(Table { name: row.get(0)?, definition: tokens(&row.get::<String>(1)?) });
    let tables = empty.all(sql, &[], table)?;
    Ok(TABLES[version].get_or_init(|| tables))
}

/// The tokens of a definition. Where ALTER TABLE puts a column relative to spaces and comments depends on the version of
/// SQLite.
fn tokens(sql: &str) -> Vec<String> {
    let code = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let spaced = code.flat_map(|line| line.chars().chain(['\n'])).fold(String::new(), |mut text, c| {
        if c.is_ascii_punctuation() && c != '_' {
            text.extend([' ', c, ' ']);
        } else {
            text.push(c);
        }
        text
    });
    spaced.split_whitespace().map(String::from).collect()
}

/// Migrates an empty or older database to the current version, in one transaction. Does nothing if another program has
/// already done so.
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
        prepare_schema(connection)?;
    }
    for migration in migrations.iter().skip(done) {
        apply(connection, migration)?;
    }
    if done == 0 {
        add_triggers(connection)?;
    }
    if done < migrations.len() {
        set_version(connection, migrations.len() as u32)?;
    }
    transaction.commit()
}

/// Prepares a server for the first migration. An administrator may have created the schema for a user who may not
/// create it.
#[cfg_attr(not(feature = "postgres"), allow(clippy::unnecessary_wraps))] // a server may fail
fn prepare_schema(connection: &Connection) -> Result<(), StoreErrorKind> {
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

fn apply(connection: &Connection, migration: &str) -> Result<(), StoreErrorKind> {
    match connection {
        Connection::File(_) => connection.batch(migration),
        #[cfg(feature = "postgres")]
        Connection::Server(_) => {
            let replace = |text: String, (sqlite, postgres): &(&str, &str)| text.replace(sqlite, postgres);
            connection.batch(&DIALECT.iter().fold(migration.to_string(), replace))
        }
    }
}

/// Adds to a server what requires the tables.
#[cfg_attr(not(feature = "postgres"), allow(clippy::unnecessary_wraps))] // a server may fail
fn add_triggers(connection: &Connection) -> Result<(), StoreErrorKind> {
    match connection {
        Connection::File(_) => Ok(()),
        #[cfg(feature = "postgres")]
        Connection::Server(_) => connection.batch(SERVER_AFTER),
    }
}

fn set_version(connection: &Connection, version: u32) -> Result<(), StoreErrorKind> {
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
    fn empty_file_is_migrated_to_the_current_version() {
        let connection = memory();
        assert_eq!(kind(&connection).unwrap(), FileKind::Empty);
        migrate(&connection).unwrap();
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(VERSION));
        migrate(&connection).unwrap();
    }

    #[test]
    fn foreign_database_is_recognised() {
        for foreign in ["CREATE TABLE t (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"] {
            let connection = memory();
            connection.batch(foreign).unwrap();
            assert_eq!(kind(&connection).unwrap(), FileKind::Foreign, "{foreign}");
        }
    }

    #[test]
    fn older_file_gets_only_the_missing_migrations() {
        let steps = ["CREATE TABLE a (x); INSERT INTO a VALUES (1)", "CREATE TABLE b AS SELECT x + 1 AS y FROM a"];
        let connection = memory();
        migrate_with(&connection, &steps[..1]).unwrap();
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(1));
        migrate_with(&connection, &steps).unwrap();
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(2));
        assert_eq!(connection.one("SELECT y FROM b", &[], |row| row.get::<i64>(0)).unwrap(), 2);
    }

    #[test]
    fn failed_migration_leaves_the_file_unchanged() {
        let connection = memory();
        migrate_with(&connection, &["CREATE TABLE a (x)"]).unwrap();
        assert!(migrate_with(&connection, &["", "CREATE TABLE b (x)", "CREATE nonsense"]).is_err());
        assert_eq!(kind(&connection).unwrap(), FileKind::Ours(1));
        assert!(connection.all("SELECT * FROM b", &[], |_| Ok(())).is_err());
    }

    /// Released versions never change: a new migration may add lines and columns to this snapshot; none may disappear.
    #[test]
    fn schema_equals_the_released_one() {
        let connection = memory();
        migrate(&connection).unwrap();
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL";
        let schema: Vec<String> = connection.all(sql, &[], |row| row.get(0)).unwrap();
        insta::assert_snapshot!(format!("-- version {VERSION}\n{};", schema.join(";\n\n")));
    }
}
