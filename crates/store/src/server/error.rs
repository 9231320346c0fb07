//! Converts errors of the PostgreSQL client into store errors. Must not depend on the queries.

use std::error::Error;
use std::path::PathBuf;

use postgres::error::SqlState;

use crate::StoreError;

/// Converts an error of the server or of the connection to it.
pub(crate) fn explain(error: &postgres::Error, path: PathBuf) -> StoreError {
    let cause = cause(error);
    let Some(code) = error.code() else { return without_code(error, cause, path) };
    match code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::NotLetIn { path, cause }
        }
        &SqlState::INVALID_CATALOG_NAME => StoreError::NoDatabase { path, cause },
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::NotPermitted { path, cause },
        &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { path },
        &SqlState::LOCK_NOT_AVAILABLE => StoreError::Locked { path, by: vec!["another writer".into()] },
        &SqlState::DISK_FULL => StoreError::NoSpace { path },
        &SqlState::TOO_MANY_CONNECTIONS => StoreError::Unreachable { path, cause },
        code if is_end(code) => StoreError::Lost { path, cause },
        // The server is starting, recovering or shutting down.
        &SqlState::CANNOT_CONNECT_NOW => StoreError::Unreachable { path, cause },
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => StoreError::Damaged { path, cause },
        _ => StoreError::Refused { path, cause },
    }
}

/// Whether the server ended the connection: shutdown, crash or idle timeout.
fn is_end(code: &SqlState) -> bool {
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::CONNECTION_FAILURE,
        SqlState::CONNECTION_EXCEPTION,
    ]
    .contains(code)
}

/// The client distinguishes these kinds of errors only by their text.
fn without_code(error: &postgres::Error, cause: String, path: PathBuf) -> StoreError {
    let kind = error.to_string();
    if kind.starts_with("error connecting") {
        return StoreError::Unreachable { path, cause };
    }
    if kind.contains("TLS") {
        return StoreError::NoTls { path, cause };
    }
    if kind.contains("authentication") || kind.starts_with("invalid configuration") {
        return StoreError::NotLetIn { path, cause };
    }
    if error.is_closed() || error.source().is_some_and(<dyn Error>::is::<std::io::Error>) {
        return StoreError::Lost { path, cause };
    }
    StoreError::Refused { path, cause }
}

/// The server's message if there is one, otherwise the root cause, which is the most specific.
pub(crate) fn cause(error: &postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        return reported.message().into();
    }
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
