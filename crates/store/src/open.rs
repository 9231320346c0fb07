//! Opening a results file, or results on a server: making it, knowing what it is, refusing what it is not.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{ErrorCode, OpenFlags};

use crate::address::{is_server, shown};
use crate::error::StoreErrorKind;
use crate::lock::with_suffix;
use crate::schema::{self, FileKind, VERSION};
use crate::sql::Connection;
use crate::{Store, StoreError};

/// Another program's transaction takes milliseconds; one that takes longer than this waits for something itself.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Between two tries where SQLite does not wait by itself.
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// More than there are different queries, so that each is prepared once.
const STATEMENTS: usize = 64;

/// What may be done to what is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenMode {
    /// What is not there is made, what is older is brought up to date.
    Make,
    /// It must be there; what is older is brought up to date.
    Find,
    /// It must be there, and nothing is written.
    Read,
}

impl Store {
    /// Opens a results file to write, making it and its directories where they are missing; or results on a server, when it
    /// is an address (`postgres://…`), whose database must be there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_waiting(path, LOCK_WAIT)
    }

    /// As [`Store::open`], waiting so long for other programs, now and later.
    pub fn open_waiting(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        if is_server(path) {
            return Self::sign_in(path, OpenMode::Make);
        }
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(|error| refused(directory, &error))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let store = Self::connect(path, path, flags, wait)?;
        match store.connection.file().map(|file| file.is_readonly("main")) {
            Some(Ok(false)) => Ok(store),
            _ => Err(StoreError::ReadOnly { path: path.into() }),
        }
    }

    /// Opens a results file that must be there; one on a read-only disk can be read.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        Self::open_existing_waiting(path, LOCK_WAIT)
    }

    /// As [`Store::open_existing`], waiting so long for other programs, now and later.
    pub fn open_existing_waiting(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        if is_server(path) {
            return Self::sign_in(path, OpenMode::Find);
        }
        Self::open_present(path, OpenFlags::SQLITE_OPEN_READ_WRITE, wait)
    }

    /// Opens a results file that must be there, and writes nothing to it: one of an older version is refused.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        if is_server(path) {
            return Self::sign_in(path, OpenMode::Read);
        }
        Self::open_present(path, OpenFlags::SQLITE_OPEN_READ_ONLY, LOCK_WAIT)
    }

    fn open_present(path: &Path, flags: OpenFlags, wait: Duration) -> Result<Self, StoreError> {
        std::fs::metadata(path).map_err(|error| refused(path, &error))?;
        let first = Self::connect(path, path, flags, wait);
        match first {
            Err(StoreError::ReadOnly { .. } | StoreError::CannotOpen { .. }) => {
                Self::open_unwritable(path, wait, first)
            }
            _ => first,
        }
    }

    /// Without a place for the WAL's index, SQLite reads a file only when told that nobody changes it. That is wrong
    /// while there is a WAL with content: its trials would be missing without a word.
    fn open_unwritable(path: &Path, wait: Duration, first: Result<Self, StoreError>) -> Result<Self, StoreError> {
        let plain = Self::connect(path, path, OpenFlags::SQLITE_OPEN_READ_ONLY, wait);
        let has_wal = std::fs::metadata(with_suffix(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
        if plain.is_ok() || has_wal {
            return plain.or(first);
        }
        let Some(uri) = immutable_uri(path) else { return first };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Self::connect(Path::new(&uri), path, flags, wait).or(first)
    }

    fn connect(name: &Path, path: &Path, flags: OpenFlags, wait: Duration) -> Result<Self, StoreError> {
        let opening = || {
            // No mutex inside SQLite: a Store is used from one thread at a time, which the compiler checks.
            let file = rusqlite::Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            file.busy_timeout(wait)?;
            file.set_prepared_statement_cache_capacity(STATEMENTS);
            let is_current = prepare(&file, path, wait)?;
            let connection = Connection::File(file);
            if !is_current {
                schema::migrate(&connection)?;
            }
            Ok(connection)
        };
        let connection = opening().map_err(|fault: StoreErrorKind| fault.explain(path))?;
        Ok(Self { connection, path: path.into() })
    }

    #[cfg(feature = "postgres")]
    fn sign_in(address: &Path, wish: OpenMode) -> Result<Self, StoreError> {
        let path = shown(address);
        let address = crate::address::Address::parse(address)?;
        let opening = || {
            let connection = Connection::Server(Box::new(crate::server::PgConnection::connect(&address)?));
            prepare_server(&connection, wish, &path)?;
            Ok(connection)
        };
        let connection = opening().map_err(|fault: StoreErrorKind| fault.explain(&path))?;
        Ok(Self { connection, path })
    }

    #[cfg(not(feature = "postgres"))]
    fn sign_in(address: &Path, _: OpenMode) -> Result<Self, StoreError> {
        Err(StoreError::NoServers { path: shown(address) })
    }
}

/// Who may not bring older results up to date is told that they are older.
#[cfg(feature = "postgres")]
fn prepare_server(connection: &Connection, wish: OpenMode, path: &Path) -> Result<(), StoreErrorKind> {
    let path = || path.to_path_buf();
    let older = |found| StoreError::Older { path: path(), found, known: VERSION };
    match (schema::kind(connection)?, wish) {
        (FileKind::Ours(VERSION), _) => Ok(()),
        (FileKind::Ours(found), _) if found > VERSION => {
            Err(StoreError::Newer { path: path(), found, known: VERSION }.into())
        }
        (FileKind::Ours(found), OpenMode::Read) => Err(older(found).into()),
        (FileKind::Ours(found), _) => schema::migrate(connection).map_err(|fault| match fault.explain(&path()) {
            StoreError::NotPermitted { .. } => older(found).into(),
            error => error.into(),
        }),
        (_, OpenMode::Make) => schema::migrate(connection).map_err(|fault| match fault.explain(&path()) {
            StoreError::NotPermitted { what, .. } => StoreError::NotMade { path: path(), what }.into(),
            error => error.into(),
        }),
        (_, OpenMode::Find | OpenMode::Read) => Err(StoreError::Missing { path: path() }.into()),
    }
}

fn refused(path: &Path, error: &std::io::Error) -> StoreError {
    let path = path.into();
    match error.kind() {
        ErrorKind::NotFound => StoreError::Missing { path },
        ErrorKind::StorageFull => StoreError::NoSpace { path },
        ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path },
        _ => StoreError::CannotOpen { path, why: error.to_string() },
    }
}

/// A file name as SQLite wants it in a URI; none where it is not UTF-8.
fn immutable_uri(path: &Path) -> Option<String> {
    let path = path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    // A relative name needs no slashes, an absolute one brings its own.
    Some(format!("file:{path}?immutable=1"))
}

/// Looks first, so that a file that is not ours is left as it is. Says whether it is of today's version.
fn prepare(file: &rusqlite::Connection, path: &Path, wait: Duration) -> Result<bool, StoreErrorKind> {
    // In one transaction: another program may just be making the file, and half of what it made looks foreign.
    let found = schema::kind_of_file(&*file.unchecked_transaction()?)?;
    match found {
        FileKind::Foreign => return Err(StoreError::Foreign { path: path.into() }.into()),
        FileKind::Ours(found) if found > VERSION => {
            return Err(StoreError::Newer { path: path.into(), found, known: VERSION }.into());
        }
        FileKind::Ours(_) | FileKind::Empty => refuse_cut(file, path)?,
    }
    file.pragma_update(None, "foreign_keys", true)?;
    let writable = !file.is_readonly("main")?;
    if writable {
        set_durability(file, wait)?;
    }
    match found {
        FileKind::Ours(VERSION) => Ok(true),
        FileKind::Ours(found) if !writable => {
            Err(StoreError::Older { path: path.into(), found, known: VERSION }.into())
        }
        _ => Ok(false),
    }
}

/// SQLite notices when whole pages are missing, and takes the missing end of the last one for zeros, which may be
/// somebody's samples. With content in the WAL the end of the file is not yet what counts.
fn refuse_cut(open: &rusqlite::Connection, path: &Path) -> Result<(), StoreErrorKind> {
    let bytes = |file: &Path| std::fs::metadata(file).map_or(0, |file| file.len());
    let page_bytes: u32 = open.pragma_query_value(None, "page_size", |row| row.get(0))?;
    if bytes(path).is_multiple_of(u64::from(page_bytes)) || bytes(&with_suffix(path, "-wal")) > 0 {
        return Ok(());
    }
    Err(StoreErrorKind::Unreadable("its end is missing".into()))
}

/// The crate's documentation says what is promised. Where there is no WAL (some network file systems), NORMAL may
/// damage the file in a power cut, so FULL it is.
fn set_durability(file: &rusqlite::Connection, wait: Duration) -> Result<(), StoreErrorKind> {
    let mode = enter_wal(file, wait)?;
    let synchronous = if mode.eq_ignore_ascii_case("wal") { "NORMAL" } else { "FULL" };
    Ok(file.pragma_update(None, "synchronous", synchronous)?)
}

/// While another program enters WAL mode too, SQLite gives up at once instead of waiting.
fn enter_wal(file: &rusqlite::Connection, wait: Duration) -> Result<String, StoreErrorKind> {
    let deadline = Instant::now() + wait;
    loop {
        match file.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < deadline => {
                std::thread::sleep(LOCK_RETRY);
            }
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_is_as_promised() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("results.db")).unwrap();
        let pragma = |name: &str| {
            let file = store.connection.file().unwrap();
            file.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap()
        };
        assert_eq!(pragma("journal_mode"), "wal".to_string().into());
        assert_eq!(pragma("synchronous"), 1.into(), "NORMAL");
        assert_eq!(pragma("foreign_keys"), 1.into());
    }
}
