//! What the tables are and how an older file becomes a newer one.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::Fault;

/// In the file's header (bytes 68 to 71), so that we know our own files: "NFAR".
const APPLICATION_ID: u32 = 0x4e46_4152;

/// Entry n makes version n + 1 of version n. Entries that were released never change.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// The version that this program writes.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// What a file is before anything is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing is in it.
    Empty,
    /// A results file of this version.
    Ours(u32),
    /// A database of somebody else.
    Foreign,
}

/// Looks what a file is.
pub(crate) fn kind(connection: &Connection) -> Result<Kind, Fault> {
    let application: u32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let things: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, things) {
        (APPLICATION_ID, version, _) => Kind::Ours(version),
        (0, 0, 0) => Kind::Empty,
        _ => Kind::Foreign,
    })
}

/// Brings an empty or older file to today's version, in one transaction. Another program may have done so meanwhile.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    migrate_with(connection, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, migrations: &[&str]) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = match kind(&transaction)? {
        Kind::Ours(version) => version as usize,
        Kind::Empty | Kind::Foreign => 0,
    };
    for migration in migrations.iter().skip(done) {
        transaction.execute_batch(migration)?;
    }
    if done < migrations.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", migrations.len() as u32)?;
    }
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    #[test]
    fn an_empty_file_becomes_ours() {
        let mut connection = memory();
        assert_eq!(kind(&connection).unwrap(), Kind::Empty);
        migrate(&mut connection).unwrap();
        assert_eq!(kind(&connection).unwrap(), Kind::Ours(VERSION));
        migrate(&mut connection).unwrap();
    }

    #[test]
    fn a_foreign_database_is_known() {
        for strange in ["CREATE TABLE t (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"] {
            let connection = memory();
            connection.execute_batch(strange).unwrap();
            assert_eq!(kind(&connection).unwrap(), Kind::Foreign, "{strange}");
        }
    }

    #[test]
    fn an_older_file_takes_only_the_steps_that_it_lacks() {
        let steps = ["CREATE TABLE a (x); INSERT INTO a VALUES (1)", "CREATE TABLE b AS SELECT x + 1 AS y FROM a"];
        let mut connection = memory();
        migrate_with(&mut connection, &steps[..1]).unwrap();
        assert_eq!(kind(&connection).unwrap(), Kind::Ours(1));
        migrate_with(&mut connection, &steps).unwrap();
        assert_eq!(kind(&connection).unwrap(), Kind::Ours(2));
        assert_eq!(connection.query_row("SELECT y FROM b", [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut connection = memory();
        migrate_with(&mut connection, &["CREATE TABLE a (x)"]).unwrap();
        assert!(migrate_with(&mut connection, &["", "CREATE TABLE b (x)", "CREATE nonsense"]).is_err());
        assert_eq!(kind(&connection).unwrap(), Kind::Ours(1));
        assert!(connection.prepare("SELECT * FROM b").is_err());
    }

    /// Released versions never change: this snapshot may gain things with a new migration, and lose none.
    #[test]
    fn the_schema_is_as_released() {
        let mut connection = memory();
        migrate(&mut connection).unwrap();
        let mut query = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
        let schema: Vec<String> = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        insta::assert_snapshot!(format!("-- version {VERSION}\n{};", schema.join(";\n\n")));
    }
}
