//! A server's refusals in our words. Must not know what was asked.

use std::error::Error;
use std::path::PathBuf;

use postgres::error::SqlState;

use crate::StoreError;

/// What a server, or the way to it, said.
pub(crate) fn explain(error: &postgres::Error, path: PathBuf) -> StoreError {
    let what = cause(error);
    let Some(code) = error.code() else { return without_code(error, what, path) };
    match code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::NotLetIn { path, what }
        }
        &SqlState::INVALID_CATALOG_NAME => StoreError::NoDatabase { path, what },
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::NotPermitted { path, what },
        &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { path },
        &SqlState::LOCK_NOT_AVAILABLE => StoreError::Locked { path, by: vec!["another program that writes".into()] },
        &SqlState::DISK_FULL => StoreError::NoSpace { path },
        &SqlState::TOO_MANY_CONNECTIONS => StoreError::Unreachable { path, what },
        code if is_end(code) => StoreError::Lost { path, what },
        // Not yet, or not any more: it starts, it recovers.
        &SqlState::CANNOT_CONNECT_NOW => StoreError::Unreachable { path, what },
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => StoreError::Damaged { path, what },
        _ => StoreError::Refused { path, what },
    }
}

/// The server ends the connection: it is shut down, it crashed, it throws out who stands still.
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

/// The client tells its kinds of errors apart in words alone.
fn without_code(error: &postgres::Error, what: String, path: PathBuf) -> StoreError {
    let kind = error.to_string();
    if kind.starts_with("error connecting") {
        return StoreError::Unreachable { path, what };
    }
    if kind.contains("TLS") {
        return StoreError::NoTls { path, what };
    }
    if kind.contains("authentication") || kind.starts_with("invalid configuration") {
        return StoreError::NotLetIn { path, what };
    }
    if error.is_closed() || error.source().is_some_and(<dyn Error>::is::<std::io::Error>) {
        return StoreError::Lost { path, what };
    }
    StoreError::Refused { path, what }
}

/// The first cause, which says the most; the server's own words where it had any.
pub(crate) fn cause(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().into();
    }
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
