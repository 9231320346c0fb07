//! Opens a results file or results on a server: creates it, checks its version, migrates an older one.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use files::TempDir;
use rusqlite::{ErrorCode, OpenFlags};

use crate::address::{displayed, is_server};
use crate::error::StoreErrorKind;
use crate::limits::{self, Deadline};
use crate::lock::with_suffix;
use crate::schema::{self, FileKind, VERSION};
use crate::sql::Connection;
use crate::{FileIdentity, Store, StoreError};

/// Maximum wait for another program's lock. Its transactions take milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Interval between retries where SQLite does not wait itself.
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// Capacity of the statement cache. Larger than the number of different queries, so that each is prepared once.
const STATEMENTS: usize = 64;

/// For [`immutable_uri`].
const READ_ONLY_URI: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_URI);
/// Name of a copied file.
const COPY: &str = "results.db";
/// Attempts to copy a file that another program writes to.
const COPIES_MAX: u32 = 5;

/// The action on missing or older results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenMode {
    /// Create missing results and migrate older ones.
    Make,
    /// Fail if the results are missing; migrate older ones.
    Find,
    /// Fail if the results are missing or older; write nothing.
    Read,
}

impl Store {
    /// Opens a results file for writing and creates it and its directories if they are missing. If `path` is an address
    /// (`postgres://…`), opens the results on that server; its database must exist.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_waiting(path, LOCK_WAIT)
    }

    /// Like [`Store::open`], with the maximum time to wait for locks of other programs, now and later.
    pub fn open_waiting(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        if is_server(path) {
            return Self::sign_in(path, OpenMode::Make);
        }
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            files::create_dirs(directory).map_err(|error| refused(directory, &error))?;
        }
        // SQLite follows links, also those of other users.
        files::followed(path).map_err(|error| refused(path, &error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let store = Self::connect(path, path, flags, wait)?;
        match store.connection.file().map(|file| file.is_readonly("main")) {
            Some(Ok(false)) => Ok(store),
            _ => Err(StoreError::ReadOnly { path: path.into() }),
        }
    }

    /// Opens an existing results file, also one on a read-only disk.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        Self::open_existing_waiting(path, LOCK_WAIT)
    }

    /// Like [`Store::open_existing`], with the maximum time to wait for locks of other programs, now and later.
    pub fn open_existing_waiting(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        if is_server(path) {
            return Self::sign_in(path, OpenMode::Find);
        }
        Self::open_present(path, OpenFlags::SQLITE_OPEN_READ_WRITE, wait)
    }

    /// Opens an existing results file without writing to it; a file of an older version is an error.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        if is_server(path) {
            return Self::sign_in(path, OpenMode::Read);
        }
        Self::open_present(path, OpenFlags::SQLITE_OPEN_READ_ONLY, LOCK_WAIT)
    }

    /// Opens results to read them, without changing the file or its directory: a file of unknown origin, or one that
    /// another program is writing. An older version is migrated in a copy.
    pub fn open_unchanged(path: &Path) -> Result<Self, StoreError> {
        if is_server(path) {
            return Self::sign_in(path, OpenMode::Find);
        }
        let opened = match FileState::of(path).map_err(|error| refused(path, &error))? {
            FileState::Complete => match immutable_uri(path) {
                Some(uri) => Self::connect_limited(Path::new(&uri), path, READ_ONLY_URI),
                None => return Self::open_copy(path),
            },
            FileState::Shared => Self::connect_limited(path, path, OpenFlags::SQLITE_OPEN_READ_ONLY),
            FileState::Interrupted => return Self::open_copy(path),
        };
        match opened {
            Err(StoreError::Older { .. } | StoreError::ReadOnly { .. } | StoreError::CannotOpen { .. }) => {
                Self::open_copy(path)
            }
            opened => opened,
        }
    }

    /// Opens a copy, which can be migrated and whose interrupted transactions can be completed.
    fn open_copy(path: &Path) -> Result<Self, StoreError> {
        let copied = copy_complete(path).map_err(|error| refused(path, &error))?;
        let file = copied.path().join(COPY);
        let mut store = Self::connect_limited(&file, path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        store.copy = Some(copied);
        Ok(store)
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

    /// Without a place for the WAL's index, SQLite reads a file only as immutable. That is wrong if the WAL has
    /// content, because its trials would be missing.
    fn open_unwritable(path: &Path, wait: Duration, first: Result<Self, StoreError>) -> Result<Self, StoreError> {
        let plain = Self::connect(path, path, OpenFlags::SQLITE_OPEN_READ_ONLY, wait);
        let has_wal = std::fs::metadata(with_suffix(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
        if plain.is_ok() || has_wal {
            return plain.or(first);
        }
        let Some(uri) = immutable_uri(path) else { return first };
        Self::connect(Path::new(&uri), path, READ_ONLY_URI, wait).or(first)
    }

    fn connect(name: &Path, path: &Path, flags: OpenFlags, wait: Duration) -> Result<Self, StoreError> {
        Self::connect_with(name, path, flags, wait, |_| Ok(None))
    }

    /// Opens a file of unknown origin.
    fn connect_limited(name: &Path, path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        Self::connect_with(name, path, flags, LOCK_WAIT, |file| limits::set(file, path).map(Some))
    }

    fn connect_with(
        name: &Path,
        path: &Path,
        flags: OpenFlags,
        wait: Duration,
        limit: impl Fn(&mut rusqlite::Connection) -> rusqlite::Result<Option<Deadline>>,
    ) -> Result<Self, StoreError> {
        let opening = || {
            // No mutex inside SQLite: a Store is used from one thread at a time, which the compiler checks.
            let mut file = rusqlite::Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            // Before anything is read, the schema included.
            let deadline = limit(&mut file)?;
            // Before the schema is created, so that a removal since is noticed.
            let identity = FileIdentity::of(path);
            file.busy_timeout(wait)?;
            file.set_prepared_statement_cache_capacity(STATEMENTS);
            // The schema of a file of unknown origin must not call functions with side effects.
            file.pragma_update(None, "trusted_schema", false)?;
            let is_current = prepare(&file, path, wait)?;
            let connection = Connection::File(file);
            if !is_current {
                schema::migrate(&connection)?;
            }
            Ok((connection, identity, deadline))
        };
        let (connection, identity, deadline) = opening().map_err(|fault: StoreErrorKind| fault.explain(path))?;
        Ok(Self { connection, path: path.into(), copy: None, identity, deadline })
    }

    #[cfg(feature = "postgres")]
    fn sign_in(address: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        let path = displayed(address);
        let address = crate::address::Address::parse(address)?;
        let opening = || {
            let connection = Connection::Server(Box::new(crate::server::PgConnection::connect(&address)?));
            prepare_server(&connection, mode, &path)?;
            Ok(connection)
        };
        let connection = opening().map_err(|fault: StoreErrorKind| fault.explain(&path))?;
        Ok(Self { connection, path, copy: None, identity: None, deadline: None })
    }

    #[cfg(not(feature = "postgres"))]
    fn sign_in(address: &Path, _: OpenMode) -> Result<Self, StoreError> {
        Err(StoreError::NoServers { path: displayed(address) })
    }
}

/// If the user may not migrate older results, reports that they are older rather than the missing privilege.
#[cfg(feature = "postgres")]
fn prepare_server(connection: &Connection, mode: OpenMode, path: &Path) -> Result<(), StoreErrorKind> {
    let path = || path.to_path_buf();
    let older = |found| StoreError::Older { path: path(), found, known: VERSION };
    match (schema::kind(connection)?, mode) {
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
            StoreError::NotPermitted { cause, .. } => StoreError::NotMade { path: path(), cause }.into(),
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
        _ => StoreError::CannotOpen { path, cause: error.to_string() },
    }
}

/// The URI of an immutable file. `None` if its name is not UTF-8.
fn immutable_uri(path: &Path) -> Option<String> {
    let path = path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    // `file:` is followed directly by a relative name or by an absolute one with its slash.
    Some(format!("file:{path}?immutable=1"))
}

/// State of a file that is read without changing it.
enum FileState {
    /// No other program has it open, so nothing else is needed to read it.
    Complete,
    /// Other programs may have it open; their locks and their WAL are respected.
    Shared,
    /// The last program that wrote it was killed; SQLite must complete or undo its last transaction first.
    Interrupted,
}

impl FileState {
    fn of(path: &Path) -> std::io::Result<Self> {
        let mut header = [0; 20];
        let has_header = std::fs::File::open(path)?.read_exact(&mut header).is_ok();
        let length = |suffix: &str| std::fs::metadata(with_suffix(path, suffix)).map(|file| file.len());
        let has_content = |suffix: &str| length(suffix).is_ok_and(|length| length > 0);
        // Bytes 18 and 19 are 2 in WAL mode (https://www.sqlite.org/fileformat.html).
        let is_wal = has_header && header[18] == 2;
        Ok(match (is_wal, length("-shm").is_ok()) {
            (true, false) if has_content("-wal") => Self::Interrupted,
            (true, false) => Self::Complete,
            (false, _) if has_content("-journal") => Self::Interrupted,
            _ => Self::Shared,
        })
    }
}

/// Copies a file with its journals to a private directory. Fails if another program keeps writing to it.
fn copy_complete(path: &Path) -> std::io::Result<TempDir> {
    let dir = TempDir::new(&std::env::temp_dir(), "nearfar-copy-")?;
    let suffixes = ["", "-wal", "-journal"];
    let state = || {
        suffixes.map(|suffix| {
            std::fs::metadata(with_suffix(path, suffix)).map(|file| (file.len(), file.modified().ok())).ok()
        })
    };
    for _ in 0..COPIES_MAX {
        let before = state();
        for suffix in suffixes {
            let target = with_suffix(&dir.path().join(COPY), suffix);
            match std::fs::copy(with_suffix(path, suffix), &target) {
                Err(error) if error.kind() == ErrorKind::NotFound && !suffix.is_empty() => {
                    let _ = std::fs::remove_file(&target); // of the attempt before
                }
                other => other.map(|_| ())?,
            }
        }
        if before == state() {
            return Ok(dir);
        }
    }
    Err(std::io::Error::new(ErrorKind::ResourceBusy, "another program is writing to it"))
}

/// Checks the file before it changes anything, so that a foreign file is not modified. Returns whether the schema is
/// current.
fn prepare(file: &rusqlite::Connection, path: &Path, wait: Duration) -> Result<bool, StoreErrorKind> {
    // In one transaction: another program may be creating the file, and a half-created file looks foreign.
    let found = schema::kind_of_file(&*file.unchecked_transaction()?)?;
    match found {
        FileKind::Foreign => return Err(StoreError::Foreign { path: path.into() }.into()),
        FileKind::Ours(found) if found > VERSION => {
            return Err(StoreError::Newer { path: path.into(), found, known: VERSION }.into());
        }
        FileKind::Ours(found) if !schema::has_own_tables(file, found)? => {
            return Err(StoreError::Foreign { path: path.into() }.into());
        }
        FileKind::Ours(_) | FileKind::Empty => reject_truncated(file, path)?,
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

/// Rejects a truncated file. SQLite notices missing pages but reads the missing end of the last page as zeros, which
/// may replace samples. If the WAL has content, the end of the file is not yet final.
fn reject_truncated(open: &rusqlite::Connection, path: &Path) -> Result<(), StoreErrorKind> {
    let bytes = |file: &Path| std::fs::metadata(file).map_or(0, |file| file.len());
    let page_bytes: u32 = open.pragma_query_value(None, "page_size", |row| row.get(0))?;
    if bytes(path).is_multiple_of(u64::from(page_bytes)) || bytes(&with_suffix(path, "-wal")) > 0 {
        return Ok(());
    }
    Err(StoreErrorKind::Unreadable("its end is missing".into()))
}

/// Sets the durability that the crate's documentation promises. Without a WAL (some network file systems), `NORMAL` may
/// damage the file in a power failure, so `FULL` is used.
fn set_durability(file: &rusqlite::Connection, wait: Duration) -> Result<(), StoreErrorKind> {
    let mode = enter_wal(file, wait)?;
    let synchronous = if mode.eq_ignore_ascii_case("wal") { "NORMAL" } else { "FULL" };
    Ok(file.pragma_update(None, "synchronous", synchronous)?)
}

/// If another program enters WAL mode at the same time, SQLite fails at once instead of waiting, so this retries.
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
    fn new_file_has_the_promised_durability() {
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
