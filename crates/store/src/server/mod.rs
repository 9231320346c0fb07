//! PostgreSQL connection behind `sql`: prepared statements, bulk inserts and the encoding of texts. Must not depend on
//! what the queries mean.

pub(crate) mod error;
mod tls;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use postgres::binary_copy::BinaryCopyInWriter;
use postgres::types::{FromSql, ToSql, Type};
use postgres::{Client, Config, Statement};

use crate::StoreError;
use crate::address::Address;
use crate::error::StoreErrorKind;
use crate::sql_value::{Column, PgValue, Value};

/// Timeout of connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Time after which unacknowledged data, or an unanswered keepalive, ends the connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Session settings. A writer blocks the others, so the server ends a connection that is idle in a transaction, or
/// whose machine is gone, after minutes; a merge of a million samples takes seconds. Numbers are transferred to the
/// last bit and texts unchanged.
const SESSION: &str = "SET search_path TO nearfar; SET lock_timeout TO '2min'; \
                       SET idle_in_transaction_session_timeout TO '10min'; SET tcp_keepalives_idle TO 60; \
                       SET tcp_keepalives_interval TO 10; SET tcp_keepalives_count TO 6; SET client_encoding TO 'UTF8'";
/// Takes the lock of writers, one per database: "NFAR".
const WRITERS: &str = "SELECT pg_advisory_xact_lock(1313227090)";
/// Escape character: texts of PostgreSQL cannot contain NUL, but output of programs can. It is the first private-use
/// character, and precedes the code of the escaped character.
const ESCAPE: char = '\u{e000}';

pub(crate) struct PgConnection {
    client: RefCell<Client>,
    statements: RefCell<HashMap<String, Statement>>,
}

impl std::fmt::Debug for PgConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// An open transaction; rolled back on drop unless committed.
pub(crate) struct Transaction<'a>(Option<&'a PgConnection>);

impl PgConnection {
    pub(crate) fn connect(address: &Address) -> Result<Self, StoreErrorKind> {
        let Address { url, password, tls, displayed } = address;
        let invalid = |cause: String| StoreError::BadAddress { path: displayed.clone(), cause };
        let mut config: Config = url.parse().map_err(|error: postgres::Error| invalid(error::cause(&error)))?;
        if let Some(password) = password.as_ref().filter(|_| config.get_password().is_none()) {
            config.password(password);
        }
        if config.get_hosts().is_empty() {
            return Err(invalid("the address names no server".into()).into());
        }
        config.application_name("nearfar").connect_timeout(CONNECT).tcp_user_timeout(IDLE_TIMEOUT);
        config.keepalives_idle(IDLE_TIMEOUT).ssl_mode(tls.mode());
        let connector = tls::connector(tls).map_err(invalid)?;
        let mut client = config.connect(connector)?;
        client.batch_execute(SESSION)?;
        Ok(Self { client: client.into(), statements: RefCell::default() })
    }

    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, StoreErrorKind> {
        let statement = self.statement(sql)?;
        let values: Vec<Value<'_>> = values.iter().map(escaped).collect();
        Ok(self.client.borrow_mut().execute(&statement, &parameters(&values))?)
    }

    pub(crate) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<postgres::Row>, StoreErrorKind> {
        let statement = self.statement(sql)?;
        let values: Vec<Value<'_>> = values.iter().map(escaped).collect();
        Ok(self.client.borrow_mut().query(&statement, &parameters(&values))?)
    }

    /// Inserts a single row with the statement and more rows with COPY, which avoids one network round trip per row.
    pub(crate) fn insert<'v, const N: usize>(
        &self,
        sql: &str,
        table: &str,
        columns: [&str; N],
        mut rows: impl Iterator<Item = [Value<'v>; N]>,
    ) -> Result<(), StoreErrorKind> {
        let Some(first) = rows.next() else { return Ok(()) };
        let Some(second) = rows.next() else { return self.execute(sql, &first).map(|_| ()) };
        let types = first.each_ref().map(kind);
        let copy = self.statement(&format!("COPY {table} ({}) FROM STDIN (FORMAT binary)", columns.join(", ")))?;
        let mut client = self.client.borrow_mut();
        let mut writer = BinaryCopyInWriter::new(client.copy_in(&copy)?, &types);
        for row in [first, second].into_iter().chain(rows) {
            let row = row.each_ref().map(escaped);
            writer.write(&parameters(&row))?;
        }
        writer.finish()?;
        Ok(())
    }

    pub(crate) fn batch(&self, sql: &str) -> Result<(), StoreErrorKind> {
        Ok(self.client.borrow_mut().batch_execute(sql)?)
    }

    /// Begins a transaction that reads from one snapshot.
    pub(crate) fn snapshot(&self) -> Result<Transaction<'_>, StoreErrorKind> {
        self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        Ok(Transaction(Some(self)))
    }

    /// Begins a write transaction. READ COMMITTED, so that every statement after the lock sees everything committed
    /// before; a snapshot would date from before the lock.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, StoreErrorKind> {
        self.batch("BEGIN ISOLATION LEVEL READ COMMITTED")?;
        let transaction = Transaction(Some(self));
        self.batch(WRITERS)?;
        Ok(transaction)
    }

    /// Returns the prepared statement, preparing it on first use.
    fn statement(&self, sql: &str) -> Result<Statement, StoreErrorKind> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.borrow_mut().prepare(&sql.replace('?', "$"))?;
        self.statements.borrow_mut().insert(sql.into(), statement.clone());
        Ok(statement)
    }
}

impl Transaction<'_> {
    pub(crate) fn commit(mut self) -> Result<(), StoreErrorKind> {
        self.0.take().map_or(Ok(()), |server| server.batch("COMMIT"))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.0 {
            let _ = server.batch("ROLLBACK"); // a lost connection has no transaction
        }
    }
}

/// Reads a column of a row.
pub(crate) fn get<T: Column>(row: &postgres::Row, index: usize) -> Result<T, StoreErrorKind> {
    let value: PgValue = row.try_get(index)?;
    T::from_value(value)
        .ok_or_else(|| StoreErrorKind::Unreadable(format!("column {index} of a row has an unexpected type")))
}

fn parameters<'a>(values: &'a [Value<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    let parameter = |value: &'a Value<'a>| -> &'a (dyn ToSql + Sync) {
        match value {
            Value::Null => &None::<&str>,
            Value::NullReal => &None::<f64>,
            Value::Whole(number) => number,
            Value::Real(number) => number,
            Value::Text(text) => text,
        }
    };
    values.iter().map(parameter).collect()
}

fn kind(value: &Value<'_>) -> Type {
    match value {
        Value::Null | Value::Text(_) => Type::TEXT,
        Value::Whole(_) => Type::INT8,
        Value::Real(_) | Value::NullReal => Type::FLOAT8,
    }
}

impl<'a> FromSql<'a> for PgValue {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::BOOL => Self::Whole(bool::from_sql(kind, raw)?.into()),
            Type::INT4 => Self::Whole(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Self::Whole(i64::from_sql(kind, raw)?),
            Type::FLOAT8 => Self::Real(f64::from_sql(kind, raw)?),
            _ => Self::Text(unescaped(<&str>::from_sql(kind, raw)?)),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        [Type::BOOL, Type::INT4, Type::INT8, Type::FLOAT8, Type::TEXT].contains(kind)
    }
}

fn escaped<'a>(value: &'a Value<'_>) -> Value<'a> {
    match value {
        Value::Null => Value::Null,
        Value::NullReal => Value::NullReal,
        Value::Whole(number) => Value::Whole(*number),
        Value::Real(number) => Value::Real(*number),
        Value::Text(text) if text.contains(['\0', ESCAPE]) => {
            let marked = text.replace(ESCAPE, "\u{e000}1").replace('\0', "\u{e000}0");
            Value::Text(marked.into())
        }
        Value::Text(text) => Value::Text(Cow::Borrowed(text)),
    }
}

fn unescaped(text: &str) -> String {
    if !text.contains(ESCAPE) {
        return text.into();
    }
    text.replace("\u{e000}0", "\0").replace("\u{e000}1", "\u{e000}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_escaping_for_postgres() {
        for text in ["", "a", "\0", "a\0\0b", "\u{e000}", "\u{e000}0", "\u{e000}1\0", "\0\u{e000}\u{e000}10"] {
            let value = Value::from(text);
            let Value::Text(sent) = escaped(&value) else { panic!("a text stays a text") };
            assert!(!sent.contains('\0'), "{text:?}");
            assert_eq!(unescaped(&sent), text);
        }
    }
}
