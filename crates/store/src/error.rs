//! What can go wrong with a results file or a server, in words: what, on which one, and the next step.

use std::fmt;
use std::path::{Path, PathBuf};

use model::values::record::RunId;
use model::values::trial::TrialId;
use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::address::is_server;
use crate::lock;

/// What went wrong. Its text ends with a line `hint: …` where there is a next step.
#[derive(Debug)]
pub enum StoreError {
    /// There is no such file.
    Missing {
        path: PathBuf,
    },
    /// The file, or its directory, cannot be opened or made.
    CannotOpen {
        /// The file or the directory.
        path: PathBuf,
        why: String,
    },
    /// The file is not a SQLite database.
    NotADatabase {
        path: PathBuf,
    },
    /// The file is a database of another program.
    Foreign {
        path: PathBuf,
    },
    /// A newer version of this program wrote the file.
    Newer {
        path: PathBuf,
        found: u32,
        /// The newest that this program knows.
        known: u32,
    },
    /// An older version of this program wrote the file, which is only read and so not brought up to date.
    Older {
        path: PathBuf,
        found: u32,
        /// The one that this program reads.
        known: u32,
    },
    Damaged {
        path: PathBuf,
        what: String,
    },
    /// Another program holds the file.
    Locked {
        path: PathBuf,
        /// Who, where the kernel tells: `process 4711 (sqlite3)`.
        by: Vec<String>,
    },
    /// The disk is full. What was stored before is still there.
    NoSpace {
        path: PathBuf,
    },
    /// The file or its directory cannot be written.
    ReadOnly {
        path: PathBuf,
    },
    /// Anything else that SQLite refused.
    Refused {
        path: PathBuf,
        what: String,
    },
    /// An address of a server that makes no sense.
    BadAddress {
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// This program is built without the feature `postgres`.
    NoServers {
        path: PathBuf,
    },
    /// Nobody answers there, or it takes nobody now.
    Unreachable {
        path: PathBuf,
        what: String,
    },
    /// The connection is gone. What was confirmed before is stored; of what was just being stored nobody knows.
    Lost {
        path: PathBuf,
        what: String,
    },
    /// The server's certificate proves nothing, or it has none.
    NoTls {
        path: PathBuf,
        what: String,
    },
    /// The server does not let this user in.
    NotLetIn {
        path: PathBuf,
        what: String,
    },
    /// The server has no such database.
    NoDatabase {
        path: PathBuf,
        what: String,
    },
    /// This user of the server may not do that.
    NotPermitted {
        path: PathBuf,
        what: String,
    },
    /// The database has no results yet, and this user may not make their tables.
    NotMade {
        path: PathBuf,
        what: String,
    },
    /// The file has no run of this name, or none at all.
    NoSuchRun {
        path: PathBuf,
        name: String,
    },
    /// Several runs begin like this.
    AmbiguousRun {
        name: String,
        runs: Vec<RunId>,
    },
    /// There is no imported table of this name.
    NoSuchTable {
        name: String,
        known: Vec<String>,
    },
    /// No placement is kept under this name.
    NoSuchPlacement {
        name: String,
        known: Vec<String>,
    },
    /// A run of this id is there already.
    RunAlreadyStored {
        run: RunId,
    },
    /// This trial is there already, and was not stored again.
    AlreadyStored {
        run: RunId,
        trial: TrialId,
    },
    /// Another trial of the run has this position.
    PositionTaken {
        run: RunId,
        position: u32,
    },
    /// A table of this name with other content is there already.
    TableDiffers {
        name: String,
    },
    /// A sample is infinite or not a number, which no result may be.
    NotFinite {
        trial: TrialId,
        series: String,
    },
}

impl StoreError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Missing { path } if is_server(path) => {
                "'nearfar import FILE' or 'nearfar fleet collect' with this --store begins it"
            }
            Self::BadAddress { .. } => {
                "as in postgres://USER@HOST:5432/DATABASE?sslmode=verify-full (docs/guides/shared-store.md)"
            }
            Self::NoServers { .. } => "'cargo build --release --features postgres --bin nearfar' makes one that has",
            Self::Unreachable { .. } => {
                "look whether it runs and lets this machine in; then repeat the command: nothing is stored twice"
            }
            Self::Lost { .. } => {
                "what was stored before is kept; repeat the command when it is back: nothing is stored twice, a run goes on where it was"
            }
            Self::NoTls { .. } => {
                "sslrootcert=FILE in the address names the certificates to trust; sslmode=require encrypts without proof"
            }
            Self::NotLetIn { .. } => {
                "give user and password in the address, or the password in PGPASSWORD, which nobody sees"
            }
            Self::NoDatabase { .. } => "the server's administrator makes one: createdb NAME",
            Self::NotPermitted { .. } => "docs/guides/shared-store.md has what a writer and a reader must be granted",
            Self::NotMade { .. } => {
                "let somebody who may create in this database store something first, and grant (docs/guides/shared-store.md)"
            }
            Self::Older { path, .. } if is_server(path) => {
                "'nearfar show --runs' by the user who made them brings them up to date"
            }
            Self::Missing { .. } => "'nearfar run quick' makes one; name another file with --store",
            Self::NotADatabase { .. } | Self::Foreign { .. } => {
                "name another file with --store; this one is left as it is"
            }
            Self::Newer { .. } => {
                "use that version of nearfar, or another file with --store; this one is left as it is"
            }
            Self::Older { .. } => "'nearfar show' brings it up to date, where it may be written",
            Self::Damaged { .. } => {
                "copy the file and its -wal away first; sqlite3's '.recover' saves what is left; or use another file with --store"
            }
            Self::Locked { .. } => {
                "wait until it is done, or end it, and repeat the command; a run goes on where it was"
            }
            Self::NoSpace { .. } => {
                "what was stored before is kept; make room and repeat the command; a run goes on where it was"
            }
            Self::ReadOnly { .. } => "name a file in a directory that you may write with --store",
            Self::NoSuchRun { name, .. } if name == LATEST => "'nearfar run quick' makes one",
            Self::NoSuchRun { .. } => "'nearfar show --runs' lists them; 'latest' is the newest",
            Self::AmbiguousRun { .. } => "give more letters of its id",
            Self::NoSuchTable { known, .. } if known.is_empty() => "'nearfar import --format table FILE' imports one",
            Self::NoSuchPlacement { known, .. } if known.is_empty() => {
                "'nearfar place --save NAME -- COMMAND' keeps one"
            }
            Self::NoSuchTable { known, .. } | Self::NoSuchPlacement { known, .. } => {
                return Some(format!("there is {}", known.join(", ")));
            }
            Self::TableDiffers { .. } => "give this one another name: nearfar import --name NAME FILE",
            Self::CannotOpen { .. }
            | Self::Refused { .. }
            | Self::RunAlreadyStored { .. }
            | Self::AlreadyStored { .. }
            | Self::PositionTaken { .. }
            | Self::NotFinite { .. } => return None,
        };
        Some(hint.into())
    }

    fn what(&self) -> String {
        let of = |path: &Path| {
            let what = if is_server(path) { "results store" } else { "results file" };
            format!("{what} {}", path.display())
        };
        match self {
            Self::Missing { path } => format!("there is no {}", of(path)),
            Self::CannotOpen { path, why } => format!("cannot open {}: {why}", path.display()),
            Self::NotADatabase { path } => format!("{} is not a results file (not a SQLite database)", path.display()),
            Self::Foreign { path } => format!("{} is a database of another program", path.display()),
            Self::Newer { path, found, known } => {
                format!("{} was written by a newer nearfar (schema {found}, this program knows {known})", of(path))
            }
            Self::Older { path, found, known } => {
                format!("{} was written by an older nearfar (schema {found}, this program reads {known})", of(path))
            }
            Self::Damaged { path, what } => format!("{} is damaged: {what}", of(path)),
            Self::Locked { path, by } if by.is_empty() => format!("{} is locked by another program", of(path)),
            Self::Locked { path, by } => format!("{} is locked by {}", of(path), by.join(" and ")),
            Self::NoSpace { path } => format!("no space left on the disk of {}", of(path)),
            Self::ReadOnly { path } => {
                format!("{} cannot be written: the file or its directory is read-only", of(path))
            }
            Self::Refused { path, what } | Self::NotPermitted { path, what } => format!("{}: {what}", of(path)),
            Self::BadAddress { path, what } => format!("--store {}: {what}", path.display()),
            Self::NoServers { path } => {
                format!("--store {}: this build of nearfar has no PostgreSQL", path.display())
            }
            Self::Unreachable { path, what } => format!("cannot reach {}: {what}", of(path)),
            Self::Lost { path, what } => format!("lost the connection to {}: {what}", of(path)),
            Self::NoTls { path, what } => format!("no safe connection to {}: {what}", of(path)),
            Self::NotLetIn { path, what } | Self::NoDatabase { path, what } => format!("{}: {what}", path.display()),
            Self::NotMade { path, what } => {
                format!("there is no {} yet, and this user may not make it: {what}", of(path))
            }
            Self::NoSuchRun { path, name } if name == LATEST => format!("{} has no runs yet", of(path)),
            Self::NoSuchRun { path, name } => format!("{} has no run '{name}'", of(path)),
            Self::AmbiguousRun { name, runs } => {
                let ids: Vec<&str> = runs.iter().map(|run| run.0.as_str()).collect();
                format!("several runs begin with '{name}': {}", ids.join(", "))
            }
            Self::NoSuchTable { name, .. } => format!("there is no imported table '{name}'"),
            Self::NoSuchPlacement { name, .. } => format!("no placement is kept as '{name}'"),
            Self::RunAlreadyStored { run } => format!("run {run} is stored already"),
            Self::AlreadyStored { run, trial } => format!("trial {trial} of run {run} is stored already"),
            Self::PositionTaken { run, position } => format!("run {run} has another trial at position {position}"),
            Self::TableDiffers { name } => format!("there is another imported table '{name}' with other content"),
            Self::NotFinite { trial, series } => {
                format!("trial {trial} has a sample of {series} that is not a finite number")
            }
        }
    }
}

/// What people call the newest run.
pub(crate) const LATEST: &str = "latest";

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())?;
        self.hint().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for StoreError {}

/// What goes wrong inside, before the file's name is added.
#[derive(Debug)]
pub(crate) enum StoreErrorKind {
    Sql(rusqlite::Error),
    #[cfg(feature = "postgres")]
    Server(postgres::Error),
    /// What is stored makes no sense.
    Unreadable(String),
    Said(StoreError),
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
        Self::Said(error)
    }
}

impl StoreErrorKind {
    /// The fault of a file, in words.
    pub(crate) fn explain(self, path: &Path) -> StoreError {
        let path = path.to_path_buf();
        match self {
            Self::Said(error) => error,
            #[cfg(feature = "postgres")]
            Self::Server(error) => crate::server::refusal::explain(&error, path),
            Self::Unreadable(what) => StoreError::Damaged { path, what },
            Self::Sql(rusqlite::Error::SqliteFailure(failure, what)) => explain_failure(failure, what, path),
            // A column of another type than we wrote: somebody else was at the file.
            Self::Sql(
                error @ (rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::Utf8Error(..)),
            ) => StoreError::Damaged { path, what: error.to_string() },
            Self::Sql(error) => StoreError::Refused { path, what: error.to_string() },
        }
    }
}

fn explain_failure(failure: ffi::Error, what: Option<String>, path: PathBuf) -> StoreError {
    let what = what.unwrap_or_else(|| failure.to_string());
    match failure.code {
        ErrorCode::NotADatabase => StoreError::NotADatabase { path },
        ErrorCode::DatabaseCorrupt => StoreError::Damaged { path, what },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Locked { by: lock::lock_holders(&path), path }
        }
        ErrorCode::DiskFull => StoreError::NoSpace { path },
        // The shared index of the WAL is grown by writing zeros; that there is no room for them is the usual reason.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            StoreError::NoSpace { path }
        }
        // A page that the header promises is not there.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHORT_READ => {
            StoreError::Damaged { path, what: "it is shorter than it says".into() }
        }
        ErrorCode::ReadOnly => StoreError::ReadOnly { path },
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => StoreError::CannotOpen { path, why: what },
        _ => StoreError::Refused { path, what },
    }
}
