//! One way to ask a database, whichever it is: SQLite in a file or, with the feature `postgres`, a PostgreSQL server.
//! Every query of this crate is written once and goes through here: `?1` are its values, and it has only words that both
//! understand. Must not know what is asked.

use std::borrow::Cow;

use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};
use rusqlite::{ToSql, TransactionBehavior};

use crate::error::StoreErrorKind;
#[cfg(feature = "postgres")]
use crate::server::{self, PgConnection, PgValue};

/// An open database. Used from one thread at a time.
#[derive(Debug)]
pub(crate) enum Connection {
    File(rusqlite::Connection),
    #[cfg(feature = "postgres")]
    Server(Box<PgConnection>),
}

/// A value that goes into a query.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// Nothing, where a text may stand.
    Null,
    Whole(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

/// A row that was found, while it is looked at.
pub(crate) enum Row<'a> {
    File(&'a rusqlite::Row<'a>),
    #[cfg(feature = "postgres")]
    Server(&'a postgres::Row),
}

/// What a row's column can be read as.
pub(crate) trait Column: FromSql {
    /// Of what a server has; none when it is of another type.
    #[cfg(feature = "postgres")]
    fn of(cell: PgValue) -> Option<Self>;
}

/// A transaction that goes on: nothing of it is there unless it is committed.
pub(crate) enum Transaction<'a> {
    File(rusqlite::Transaction<'a>),
    #[cfg(feature = "postgres")]
    Server(server::Transaction<'a>),
}

impl Connection {
    /// SQLite's own, for what only a file has.
    #[cfg_attr(not(feature = "postgres"), allow(clippy::unnecessary_wraps))] // a server is none
    pub(crate) fn file(&self) -> Option<&rusqlite::Connection> {
        match self {
            Self::File(file) => Some(file),
            #[cfg(feature = "postgres")]
            Self::Server(_) => None,
        }
    }

    /// Runs a statement, and says how many rows it touched.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreErrorKind> {
        match self {
            Self::File(file) => Ok(file.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values))? as u64),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.execute(sql, values),
        }
    }

    /// Visits every row that a query finds, in its order.
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
            // All rows are here before the first is visited: the visitor may ask something itself.
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.query(sql, values)?.iter().try_for_each(|row| visit(&Row::Server(row))),
        }
    }

    /// The only row, or the first one; none when there is none.
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

    /// The row of a query that always finds one.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreErrorKind>,
    ) -> Result<T, StoreErrorKind> {
        self.first(sql, values, read)?
            .ok_or_else(|| StoreErrorKind::Unreadable("a row is missing that must be there".into()))
    }

    /// Every row that a query finds.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreErrorKind>,
    ) -> Result<Vec<T>, StoreErrorKind> {
        let mut found = Vec::new();
        self.each(sql, values, |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Adds rows to a table. Whoever makes the rows asks nothing meanwhile.
    pub(crate) fn insert<'v, const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        rows: impl IntoIterator<Item = [Value<'v>; N]>,
    ) -> Result<(), StoreErrorKind> {
        let places: Vec<String> = (1..=N).map(|place| format!("?{place}")).collect();
        let sql = format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), places.join(", "));
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

    /// The number of the next row of a table, for who alone writes: within [`Connection::begin`].
    pub(crate) fn next_number(&self, table: &str) -> Result<i64, StoreErrorKind> {
        self.one(&format!("SELECT coalesce(max(number), 0) + 1 FROM {table}"), &[], |row| row.get(0))
    }

    /// Begins to read one state of the database.
    pub(crate) fn hold(&self) -> Result<Transaction<'_>, StoreErrorKind> {
        Ok(match self {
            Self::File(file) => Transaction::File(file.unchecked_transaction()?),
            #[cfg(feature = "postgres")]
            Self::Server(server) => Transaction::Server(server.hold()?),
        })
    }

    /// Begins to write, as the only one who does: others wait until this is committed or dropped.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, StoreErrorKind> {
        Ok(match self {
            // Immediate: takes the write lock before anything is read, so that two programs queue up instead of
            // one of them failing half-way.
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

    /// Keeps something to this connection, until it is closed; false when another one has it. A file has one program that
    /// measures at a time anyway, so there everything is to be had.
    pub(crate) fn claim(&self, what: &str) -> Result<bool, StoreErrorKind> {
        if self.file().is_some() {
            return Ok(true);
        }
        self.one("SELECT pg_try_advisory_lock(hashtextextended(?1, 0))", &[what.into()], |row| row.get(0))
    }

    /// A number that changes when others have changed anything.
    pub(crate) fn version(&self) -> Result<i64, StoreErrorKind> {
        match self {
            Self::File(file) => Ok(file.pragma_query_value(None, "data_version", |row| row.get(0))?),
            // Which transactions are over: it changes with each that wrote, whoever's it was.
            #[cfg(feature = "postgres")]
            Self::Server(_) => {
                let sql = "SELECT hashtextextended(pg_current_snapshot()::text, 0)";
                self.one(sql, &[], |row| row.get(0))
            }
        }
    }
}

impl Transaction<'_> {
    /// All of it is stored when this returns.
    pub(crate) fn commit(self) -> Result<(), StoreErrorKind> {
        match self {
            Self::File(file) => Ok(file.commit()?),
            #[cfg(feature = "postgres")]
            Self::Server(server) => server.commit(),
        }
    }
}

impl Row<'_> {
    /// A column, the first one is 0.
    pub(crate) fn get<T: Column>(&self, index: usize) -> Result<T, StoreErrorKind> {
        match self {
            Self::File(row) => Ok(row.get(index)?),
            #[cfg(feature = "postgres")]
            Self::Server(row) => server::get(row, index),
        }
    }
}

macro_rules! whole_column {
    ($($number:ty),*) => {$(
        impl Column for $number {
            #[cfg(feature = "postgres")]
            fn of(cell: Cell) -> Option<Self> {
                if let Cell::Whole(number) = cell { number.try_into().ok() } else { None }
            }
        }
    )*};
}

whole_column!(i64, u32);

impl Column for bool {
    #[cfg(feature = "postgres")]
    fn of(cell: PgValue) -> Option<Self> {
        if let PgValue::Whole(number) = cell { Some(number != 0) } else { None }
    }
}

impl Column for f64 {
    #[cfg(feature = "postgres")]
    fn of(cell: PgValue) -> Option<Self> {
        if let PgValue::Real(number) = cell { Some(number) } else { None }
    }
}

impl Column for String {
    #[cfg(feature = "postgres")]
    fn of(cell: PgValue) -> Option<Self> {
        if let PgValue::Text(text) = cell { Some(text) } else { None }
    }
}

impl<T: Column> Column for Option<T> {
    #[cfg(feature = "postgres")]
    fn of(cell: PgValue) -> Option<Self> {
        if let PgValue::Null = cell { Some(None) } else { T::of(cell).map(Some) }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Whole(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
