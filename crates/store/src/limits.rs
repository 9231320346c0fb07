//! Limits for files of unknown origin: a file cannot make SQLite compute for ever or use much memory.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

/// Maximum size of a text or a row. The largest texts are captures, a few MiB for a thousand CPUs.
const LENGTH_MAX: i32 = 64 << 20;
/// Limits of SQL, the schema's included. The queries of this crate need less than a tenth.
const SQL_LIMITS: [(Limit, i32); 6] = [
    (Limit::SQLITE_LIMIT_LENGTH, LENGTH_MAX),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 50),
    (Limit::SQLITE_LIMIT_COLUMN, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 10),
    (Limit::SQLITE_LIMIT_VDBE_OP, 10_000),
];
/// Instructions of SQLite between two checks of the deadline: a millisecond.
const CHECK_INTERVAL: i32 = 100_000;
/// Time for one operation: a part that no small file needs, and one for each MiB, a hundred times of what it takes.
const TIME: Duration = Duration::from_secs(10);
const TIME_PER_MIB: Duration = Duration::from_secs(2);

/// The time at which the current operation ends with an error.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    end: Arc<Mutex<Instant>>,
    time: Duration,
}

impl Deadline {
    fn new(time: Duration) -> Self {
        Self { end: Arc::new(Mutex::new(Instant::now() + time)), time }
    }

    /// Begins an operation.
    pub(crate) fn restart(&self) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + self.time;
    }

    fn is_over(&self) -> bool {
        Instant::now() > *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limits a connection before the file is read.
pub(crate) fn set(connection: &mut rusqlite::Connection, path: &Path) -> rusqlite::Result<Deadline> {
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    set_with(connection, TIME + TIME_PER_MIB * (bytes >> 20) as u32)
}

fn set_with(connection: &mut rusqlite::Connection, time: Duration) -> rusqlite::Result<Deadline> {
    for (limit, value) in SQL_LIMITS {
        connection.set_limit(limit, value)?;
    }
    for config in [DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER] {
        connection.set_db_config(config, false)?;
    }
    let deadline = Deadline::new(time);
    let checked = deadline.clone();
    connection.progress_handler(CHECK_INTERVAL, Some(move || checked.is_over()))?;
    Ok(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";

    fn connection() -> rusqlite::Connection {
        rusqlite::Connection::open_in_memory().unwrap()
    }

    #[test]
    fn endless_query_ends_at_the_deadline() {
        let mut connection = connection();
        let deadline = set_with(&mut connection, Duration::from_millis(50)).unwrap();
        for _ in 0..2 {
            deadline.restart();
            let begin = Instant::now();
            let error = connection.query_row(ENDLESS, [], |_| Ok(())).unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted));
            assert!(begin.elapsed() >= Duration::from_millis(50) && begin.elapsed() < Duration::from_secs(20));
        }
        deadline.restart();
        assert_eq!(connection.query_row("SELECT 1", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    }

    #[test]
    fn views_and_deep_expressions_are_refused() {
        let mut connection = connection();
        connection.execute_batch("CREATE VIEW v AS SELECT 1").unwrap();
        set_with(&mut connection, TIME).unwrap();
        let error = |sql: &str| connection.query_row(sql, [], |_| Ok(())).unwrap_err().to_string();
        assert!(error("SELECT * FROM v").contains("access to view"), "{}", error("SELECT * FROM v"));
        let deep = format!("SELECT {}1{}", "(1 + ".repeat(60), ")".repeat(60));
        assert!(error(&deep).contains("too large"), "{}", error(&deep));
        assert!(error("SELECT length(zeroblob(100000000))").contains("too big"));
    }
}
