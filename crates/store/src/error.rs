//! Errors of results files and servers: each names the failed operation, the file or server, and a hint if one exists.

use std::path::{Path, PathBuf};

use model::hint::Hinted;
use model::values::record::RunId;
use model::values::shell::quote_argv;
use model::values::trial::TrialId;
use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::address::is_server;
use crate::lock;

/// An error of a results file or a server.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file does not exist.
    #[error("{} does not exist", describe(path))]
    Missing { path: PathBuf },
    /// The file or its directory cannot be opened or created.
    #[error("cannot open {}: {cause}", path.display())]
    CannotOpen {
        /// The file or the directory.
        path: PathBuf,
        cause: String,
    },
    /// The file is not a SQLite database.
    #[error("{} is not a results file (not a SQLite database)", path.display())]
    NotADatabase { path: PathBuf },
    /// The file is a database of another program.
    #[error("{} is a database of another program", path.display())]
    Foreign { path: PathBuf },
    /// A newer version of this program wrote the file.
    #[error("{} was written by a newer nearfar (schema {found}, this program knows {known})", describe(path))]
    Newer {
        path: PathBuf,
        found: u32,
        /// The version that this program writes.
        known: u32,
    },
    /// An older version of this program wrote the file, and it cannot be migrated because it was opened read-only.
    #[error("{} was written by an older nearfar (schema {found}, this program reads {known})", describe(path))]
    Older {
        path: PathBuf,
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    #[error("{} is damaged: {cause}", describe(path))]
    Damaged { path: PathBuf, cause: String },
    /// Another program holds a lock on the file.
    #[error("{} is locked by {}", describe(path), holders(by))]
    Locked {
        path: PathBuf,
        /// The lock's holders, if the kernel reports them: `process 4711 (sqlite3)`.
        by: Vec<String>,
    },
    /// The disk is full. Earlier trials are still stored.
    #[error("no space left on the disk of {}", describe(path))]
    NoSpace { path: PathBuf },
    /// The file or its directory cannot be written.
    #[error("cannot write {}: the file or its directory is read-only", describe(path))]
    ReadOnly { path: PathBuf },
    /// Reading the file took longer than a file of its size can take.
    #[error("{} takes too long to read", describe(path))]
    TooSlow { path: PathBuf },
    /// Any other error of the database.
    #[error("{}: {cause}", describe(path))]
    Refused { path: PathBuf, cause: String },
    /// The address of a server is invalid.
    #[error("--store {}: {cause}", path.display())]
    BadAddress { path: PathBuf, cause: String },
    /// This program is built without the feature `postgres`.
    #[error("--store {}: this build of nearfar has no PostgreSQL support", path.display())]
    NoServers { path: PathBuf },
    /// The server does not answer, or it accepts no connection now.
    #[error("cannot connect to {}: {cause}", describe(path))]
    Unreachable { path: PathBuf, cause: String },
    /// The connection was lost. Confirmed trials are stored; whether the last transaction was stored is unknown.
    #[error("lost the connection to {}: {cause}", describe(path))]
    Lost { path: PathBuf, cause: String },
    /// The server has no certificate, or its certificate cannot be verified.
    #[error("cannot establish TLS with {}: {cause}", describe(path))]
    NoTls { path: PathBuf, cause: String },
    /// The server rejects the user or the password.
    #[error("{}: {cause}", path.display())]
    NotLetIn { path: PathBuf, cause: String },
    /// The database does not exist on the server.
    #[error("{}: {cause}", path.display())]
    NoDatabase { path: PathBuf, cause: String },
    /// The user lacks a privilege.
    #[error("{}: {cause}", describe(path))]
    NotPermitted { path: PathBuf, cause: String },
    /// The database has no results yet, and the user may not create their tables.
    #[error("{} does not exist, and this user may not create it: {cause}", describe(path))]
    NotMade { path: PathBuf, cause: String },
    /// The file has no run of this name, or no run at all.
    #[error("{}", no_such_run(path, name, tables))]
    NoSuchRun {
        path: PathBuf,
        name: String,
        /// The imported tables of a file without runs.
        tables: Vec<String>,
    },
    /// Several run ids begin with this name.
    #[error("several runs match '{name}': {}", ids(runs))]
    AmbiguousRun { name: String, runs: Vec<RunId> },
    /// No imported table has this name.
    #[error("no imported table '{name}'")]
    NoSuchTable { name: String, known: Vec<String> },
    /// No placement is saved under this name.
    #[error("no saved placement '{name}'")]
    NoSuchPlacement { name: String, known: Vec<String> },
    /// A run of this id is already stored.
    #[error("run {run} is already stored")]
    RunAlreadyStored { run: RunId },
    /// This trial is already stored; it was not stored again.
    #[error("trial {trial} of run {run} is already stored")]
    AlreadyStored { run: RunId, trial: TrialId },
    /// Another trial of the run has this position.
    #[error("run {run} has another trial at position {position}")]
    PositionTaken { run: RunId, position: u32 },
    /// A table of this name with other content is already stored.
    #[error("an imported table '{name}' with other content is already stored")]
    TableDiffers { name: String },
    /// A sample is infinite or not a number.
    #[error("trial {trial} has a sample of {series} that is not finite")]
    NotFinite { trial: TrialId, series: String },
}

impl Hinted for StoreError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Missing { path } if is_server(path) => {
                "'nearfar import FILE' or 'nearfar fleet collect' with this --store creates it"
            }
            Self::BadAddress { .. } => {
                "the form is postgres://USER@HOST:5432/DATABASE?sslmode=verify-full (docs/guides/shared-store.md)"
            }
            Self::NoServers { .. } => "build one with 'cargo build --release --features postgres --bin nearfar'",
            Self::Unreachable { .. } => {
                "check that the server runs and accepts connections from this machine; then repeat the command: nothing is stored twice"
            }
            Self::Lost { .. } => {
                "results stored before are kept; rerun the same command to resume when the server is available: nothing is stored twice"
            }
            Self::NoTls { .. } => {
                "sslrootcert=FILE in the address names the certificates to trust; sslmode=require encrypts without verification"
            }
            Self::NotLetIn { .. } => {
                "put user and password into the address, or the password into PGPASSWORD, where other users cannot see it"
            }
            Self::NoDatabase { .. } => "the server's administrator creates one with 'createdb NAME'",
            Self::NotPermitted { .. } => "docs/guides/shared-store.md lists the privileges of writers and readers",
            Self::NotMade { .. } => {
                "a user with the CREATE privilege must store results first and grant access (docs/guides/shared-store.md)"
            }
            Self::Older { path, .. } if is_server(path) => {
                "'nearfar show --runs', run by the user who created the tables, migrates them"
            }
            Self::Missing { .. } => "'nearfar run quick' creates one; name another file with --store",
            Self::NotADatabase { .. } | Self::Foreign { .. } => {
                "name another file with --store; this one was not modified"
            }
            Self::Newer { .. } => {
                "use that version of nearfar, or name another file with --store; this one was not modified"
            }
            Self::Older { .. } => "'nearfar show' migrates it if it is writable",
            Self::Damaged { .. } => {
                "copy the file and its -wal first; sqlite3's '.recover' recovers the readable part; or name another file with --store"
            }
            Self::TooSlow { .. } => {
                "the file is damaged, or was made to hang its readers; name another file with --store"
            }
            Self::Locked { .. } => "wait until that process ends, or end it; then rerun the same command to resume",
            Self::NoSpace { .. } => {
                "results stored before are kept; free disk space, then rerun the same command to resume"
            }
            Self::ReadOnly { .. } => "name a file in a writable directory with --store",
            Self::NoSuchRun { tables, .. } if let Some(newest) = tables.last() => {
                let newest = quote_argv(&[newest]);
                return Some(format!(
                    "to compare the columns of a table: nearfar compare --by column --table {newest} [--index unixbench]"
                ));
            }
            Self::NoSuchRun { name, .. } if name == LATEST => "'nearfar run quick' creates one",
            Self::NoSuchRun { .. } => "'nearfar show --runs' lists the runs; 'latest' is the newest",
            Self::AmbiguousRun { .. } => "type more characters of the id",
            Self::NoSuchTable { known, .. } if known.is_empty() => "'nearfar import --format table FILE' imports one",
            Self::NoSuchPlacement { known, .. } if known.is_empty() => {
                "'nearfar place --save NAME -- COMMAND' saves one"
            }
            Self::NoSuchTable { known, .. } | Self::NoSuchPlacement { known, .. } => {
                return Some(format!("available: {}", known.join(", ")));
            }
            Self::TableDiffers { .. } => "import this one under another name: nearfar import --name NAME FILE",
            Self::CannotOpen { .. }
            | Self::Refused { .. }
            | Self::RunAlreadyStored { .. }
            | Self::AlreadyStored { .. }
            | Self::PositionTaken { .. }
            | Self::NotFinite { .. } => return None,
        };
        Some(hint.into())
    }
}

/// The name of the newest run.
pub(crate) const LATEST: &str = "latest";

fn describe(path: &Path) -> String {
    let kind = if is_server(path) { "results store" } else { "results file" };
    format!("{kind} {}", path.display())
}

fn holders(by: &[String]) -> String {
    if by.is_empty() { "another program".into() } else { by.join(" and ") }
}

fn no_such_run(path: &Path, name: &str, tables: &[String]) -> String {
    match name {
        LATEST if !tables.is_empty() => {
            format!("{} has no runs yet, only imported tables: {}", describe(path), tables.join(", "))
        }
        LATEST => format!("{} has no runs yet", describe(path)),
        _ => format!("{} has no run '{name}'", describe(path)),
    }
}

fn ids(runs: &[RunId]) -> String {
    runs.iter().map(|run| run.0.as_str()).collect::<Vec<_>>().join(", ")
}

/// An error without the name of the file, which [`StoreErrorKind::explain`] adds.
#[derive(Debug)]
pub(crate) enum StoreErrorKind {
    Sql(rusqlite::Error),
    #[cfg(feature = "postgres")]
    Server(postgres::Error),
    /// The stored content is inconsistent.
    Unreadable(String),
    Store(StoreError),
}

impl From<rusqlite::Error> for StoreErrorKind {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

#[cfg(feature = "postgres")]
impl From<postgres::Error> for StoreErrorKind {
    fn from(error: postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<StoreError> for StoreErrorKind {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl StoreErrorKind {
    /// Returns the cause if the stored content is damaged, or else the error.
    pub(crate) fn damage(self) -> Result<String, Self> {
        let is_damage = matches!(&self, Self::Unreadable(_)) || matches!(&self, Self::Sql(error) if is_damage(error));
        if !is_damage {
            return Err(self);
        }
        Ok(match self.explain(Path::new("")) {
            StoreError::Damaged { cause, .. } => cause,
            error => error.to_string(),
        })
    }

    /// Converts to the public error by adding the path.
    pub(crate) fn explain(self, path: &Path) -> StoreError {
        let path = path.to_path_buf();
        match self {
            Self::Store(error) => error,
            #[cfg(feature = "postgres")]
            Self::Server(error) => crate::server::error::explain(&error, path),
            Self::Unreadable(cause) => StoreError::Damaged { path, cause },
            Self::Sql(rusqlite::Error::SqliteFailure(failure, message)) => explain_failure(failure, message, path),
            Self::Sql(error) if is_damage(&error) => StoreError::Damaged { path, cause: error.to_string() },
            Self::Sql(error) => StoreError::Refused { path, cause: error.to_string() },
        }
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            // The second code: a page that the header promises is missing.
            failure.code == ErrorCode::DatabaseCorrupt || failure.extended_code == ffi::SQLITE_IOERR_SHORT_READ
        }
        // A column has another type than this program writes.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::Utf8Error(..) => true,
        _ => false,
    }
}

fn is_unwritable(dir: &Path) -> bool {
    dir.is_dir() && !files::is_writable(dir)
}

fn explain_failure(failure: ffi::Error, message: Option<String>, path: PathBuf) -> StoreError {
    let cause = message.unwrap_or_else(|| failure.to_string());
    match failure.code {
        ErrorCode::OperationInterrupted => StoreError::TooSlow { path },
        ErrorCode::NotADatabase => StoreError::NotADatabase { path },
        ErrorCode::DatabaseCorrupt => StoreError::Damaged { path, cause },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Locked { by: lock::lock_holders(&path), path }
        }
        ErrorCode::DiskFull => StoreError::NoSpace { path },
        // The WAL's shared index grows by writing zeros, which usually fails because the disk is full.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            StoreError::NoSpace { path }
        }
        // A page that the header promises is missing.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHORT_READ => {
            StoreError::Damaged { path, cause: "the file is truncated".into() }
        }
        ErrorCode::ReadOnly => StoreError::ReadOnly { path },
        ErrorCode::CannotOpen if is_unwritable(files::dir_of(&path)) && !path.exists() => StoreError::ReadOnly { path },
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => StoreError::CannotOpen { path, cause },
        _ => StoreError::Refused { path, cause },
    }
}
