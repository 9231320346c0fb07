//! Common interface to both databases: SQLite in a file or, with the feature `postgres`, a PostgreSQL server. Every
//! query of this crate is written once, with `?1` for its values and only SQL that both databases accept. Must not
//! depend on what the queries mean.

use rusqlite::TransactionBehavior;

use crate::error::StoreErrorKind;
#[cfg(feature = "postgres")]
use crate::server::{self, PgConnection};
use crate::sql_value::{Column, Value};

/// An open database. Not `Sync`: used from one thread at a time.
#[derive(Debug)]
pub(crate) enum Connection {
    File(rusqlite::Connection),
    #[cfg(feature = "postgres")]
    Server(Box<PgConnection>),
}

/// A row of a result, valid during the visit.
pub(crate) enum Row<'a> {
    File(&'a rusqlite::Row<'a>),
    #[cfg(feature = "postgres")]
    Server(&'a postgres::Row),
}

/// An open transaction; rolled back unless it is committed.
pub(crate) enum Transaction<'a> {
    File(rusqlite::Transaction<'a>),
    #[cfg(feature = "postgres")]
    Server(server::Transaction<'a>),
}

impl Connection {
    /// The SQLite connection, for operations that only a file has.
    #[cfg_attr(not(feature = "postgres"), allow(clippy::unnecessary_wraps))] // `None` for a server
    pub(crate) fn file(&self) -> Option<&rusqlite::Connection> {
        match self {
            Self::File(file) => Some(file),
            #[cfg(feature = "postgres")]
            Self::Server(_) => None,
        }
    }

    /// Runs a statement and returns the number of rows affected.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreErrorKind> {
        match self {
            Self::File(file) => Ok(file.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values))? as u64),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.execute(sql, values),
        }
    }

    /// Visits every row of a query in order.
    pub(crate) fn each(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut visit: impl FnMut(&Row<'_>) -> Result<(), StoreErrorKind>,
    ) -> Result<(), StoreErrorKind> {
        match self {
            Self::File(file) => {
                let mut query = file.prepare_cached(sql)?;
                let mut rows = query.query(rusqlite::params_from_iter(values))?;
                while let Some(row) = rows.next()? {
                    visit(&Row::File(row))?;
                }
                Ok(())
            }
            // All rows are fetched before the first is visited, so the visitor may run queries itself.
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.query(sql, values)?.iter().try_for_each(|row| visit(&Row::Server(row))),
        }
    }

    /// The first row of a query. `None` if it has no rows.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreErrorKind>,
    ) -> Result<Option<T>, StoreErrorKind> {
        match self {
            Self::File(file) => {
                let mut query = file.prepare_cached(sql)?;
                let mut rows = query.query(rusqlite::params_from_iter(values))?;
                rows.next()?.map(|row| read(&Row::File(row))).transpose()
            }
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.query(sql, values)?.first().map(|row| read(&Row::Server(row))).transpose(),
        }
    }

    /// The row of a query that always has one.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreErrorKind>,
    ) -> Result<T, StoreErrorKind> {
        self.first(sql, values, read)?.ok_or_else(|| StoreErrorKind::Unreadable("an expected row is missing".into()))
    }

    /// All rows of a query.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreErrorKind>,
    ) -> Result<Vec<T>, StoreErrorKind> {
        let mut rows = Vec::new();
        self.each(sql, values, |row| {
            rows.push(read(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Inserts rows into a table. `rows` must not run queries.
    pub(crate) fn insert<'v, const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        rows: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<(), StoreErrorKind> {
        let parameters: Vec<String> = (1..=N).map(|index| format!("?{index}")).collect();
        let sql = format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), parameters.join(", "));
        match self {
            Self::File(file) => {
                let mut statement = file.prepare_cached(&sql)?;
                for row in rows {
                    statement.execute(rusqlite::params_from_iter(&row))?;
                }
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.insert(&sql, table, columns, rows.into_iter()),
        }
    }

    /// The number of a table's next row. Valid only for the single writer, within [`Connection::begin`].
    pub(crate) fn next_number(&self, table: &str) -> Result<i64, StoreErrorKind> {
        self.one(&format!("SELECT coalesce(max(number), 0) + 1 FROM {table}"), &[], |row| row.get(0))
    }

    /// Begins a read-only transaction on one snapshot of the database.
    pub(crate) fn snapshot(&self) -> Result<Transaction<'_>, StoreErrorKind> {
        Ok(match self {
            Self::File(file) => Transaction::File(file.unchecked_transaction()?),
            #[cfg(feature = "postgres")]
            Self::Server(server) => Transaction::Server(server.snapshot()?),
        })
    }

    /// Begins a write transaction; other writers wait until it is committed or dropped.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, StoreErrorKind> {
        Ok(match self {
            // Immediate: takes the write lock before anything is read, so that two programs queue instead of one of
            // them failing half-way.
            Self::File(file) => {
                Transaction::File(rusqlite::Transaction::new_unchecked(file, TransactionBehavior::Immediate)?)
            }
            #[cfg(feature = "postgres")]
            Self::Server(server) => Transaction::Server(server.begin()?),
        })
    }

    /// Runs statements that have no values.
    pub(crate) fn batch(&self, sql: &str) -> Result<(), StoreErrorKind> {
        match self {
            Self::File(file) => Ok(file.execute_batch(sql)?),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.batch(sql),
        }
    }

    /// Reserves a name for this connection until it is closed. False if another connection has reserved it. Always true
    /// for a file, because only one program measures into a file at a time.
    pub(crate) fn claim(&self, name: &str) -> Result<bool, StoreErrorKind> {
        if self.file().is_some() {
            return Ok(true);
        }
        self.one("SELECT pg_try_advisory_lock(hashtextextended(?1, 0))", &[name.into()], |row| row.get(0))
    }

    /// A number that changes whenever another program has changed anything.
    pub(crate) fn version(&self) -> Result<i64, StoreErrorKind> {
        match self {
            Self::File(file) => Ok(file.pragma_query_value(None, "data_version", |row| row.get(0))?),
            // A hash of the set of finished transactions, which changes with every transaction that wrote.
            #[cfg(feature = "postgres")]
            Self::Server(_) => {
                let sql = "SELECT hashtextextended(pg_current_snapshot()::text, 0)";
                self.one(sql, &[], |row| row.get(0))
            }
        }
    }
}

impl Transaction<'_> {
    /// Commits the transaction: everything is stored when this returns.
    pub(crate) fn commit(self) -> Result<(), StoreErrorKind> {
        match self {
            Self::File(file) => Ok(file.commit()?),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.commit(),
        }
    }
}

impl Row<'_> {
    /// The value of a column, counted from 0.
    pub(crate) fn get<T: Column>(&self, index: usize) -> Result<T, StoreErrorKind> {
        match self {
            Self::File(row) => Ok(row.get(index)?),
            #[cfg(feature = "postgres")]
            Self::Server(row) => server::get(row, index),
        }
    }
}
