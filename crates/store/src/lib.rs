//! Stores runs, trials with their raw samples and evidence, and imported tables: in one SQLite database (the results
//! file) or, with the feature `postgres`, on a PostgreSQL server that many machines share. Contains all SQL of the
//! workspace, including the queries over exported files. Must not depend on how trials are run or what results mean.
//!
//! # Invariants
//!
//! - A trial with its samples, evidence and verdict is one transaction.
//!   Test: `a_killed_writer_leaves_whole_trials_and_loses_none` (tests/store/kill.rs).
//! - Raw samples are stored; summaries are computed from them. The schema has no table of summaries.
//! - A trial's id and its position are unique in its run, so no trial is counted twice.
//! - `kill -9` loses no trial for which [`Store::add_trial`] has returned. A power failure or a kernel crash may lose
//!   the last trials of a run that has not ended (those not yet written back) but does not damage the file: it is in
//!   WAL mode with `synchronous=NORMAL`. `FULL` would flush the disk after each trial: 2 to 3 ms instead of 0.03 ms on
//!   the development machine, a fifth of the overhead allowed per trial, on the disk that the next trial may measure.
//!   Lost trials are measured again when the run is resumed. [`Store::end_run`] flushes the run.
//! - A server stores and returns the same as a file. With many concurrent writers, or if it crashes, each trial is
//!   stored once. A user with the writer role cannot change rows. A confirmed trial is as durable as the server's
//!   `fsync` and `synchronous_commit` make it: by default it is on the server's disk. Tests:
//!   `server_stores_and_reports_the_same_as_a_file` and others in tests/store/postgres; nearfar/tests/postgres.rs.
//! - A file of a newer version, of another program, or a damaged file is rejected with an error and not modified.
//!   Tests: tests/store/damage.rs.
//! - Damage that SQLite does not detect, such as flipped bits, never changes a figure: checksums of all rows are verified
//!   when they are read. A damaged trial is reported as invalid. Test: `flipped_bits_never_change_a_figure`
//!   (tests/store/damage.rs).
//! - A Parquet file is complete or absent, and a run is one file however often it is exported. Tests:
//!   `a_killed_export_leaves_whole_files_only_and_can_be_repeated` (tests/store/parquet/files.rs),
//!   `a_bucket_has_the_names_and_bytes_of_a_directory` (tests/store/parquet/bucket.rs).
//! - A comparison of exported files equals that of the results file, byte for byte.
//!   Test: `parquet_comparisons_equal_those_of_the_results_file` (nearfar/tests/parquet.rs).
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]
#![forbid(unsafe_code)]

mod address;
mod checksum;
mod copy;
mod error;
pub mod export;
pub mod import;
mod limits;
mod live;
mod load;
mod lock;
mod merge;
mod open;
pub mod parquet_dir;
mod repair;
mod run;
mod run_list;
mod saved_placement;
mod schema;
#[cfg(feature = "postgres")]
mod server;
pub mod shared;
mod sql;
mod sql_value;
mod table;
mod trial;
mod watch;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use address::{displayed, is_server};
pub use error::StoreError;
pub use live::LiveProgress;
pub use load::TrialColumns;
pub use merge::MergeReport;
pub use watch::{Progress, StoreVersion};

use error::StoreErrorKind;
use sql::Connection;

/// An open results file, or an open connection to a server with results.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// The directory of the open copy, if the file itself must not change. Removed after the connection is closed.
    copy: Option<files::TempDir>,
    /// The file that was opened. `None` for a server.
    identity: Option<FileIdentity>,
    /// The limit of an operation on a file of unknown origin.
    deadline: Option<limits::Deadline>,
}

/// A file and its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    path: PathBuf,
    inode: (u64, u64),
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let about = std::fs::metadata(path).ok()?;
        Some(Self { path: path.into(), inode: (about.dev(), about.ino()) })
    }

    /// Whether the path still leads to the same file.
    pub fn is_in_place(&self) -> bool {
        Self::of(&self.path).is_some_and(|now| now == *self)
    }
}

impl Store {
    /// The path of the file, or the address of the server without its password.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the results are on a server.
    pub fn is_on_server(&self) -> bool {
        self.connection.file().is_none()
    }

    /// Identifies the file that is open, to notice that it is removed or replaced. `None` for a server.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.identity.clone()
    }

    /// Checks the whole file for damage. Takes seconds for large files, so it runs only on request. Does nothing for a
    /// server.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_on_server() {
            return Ok(());
        }
        self.read(|connection| {
            let found: String = connection.one("PRAGMA quick_check(1)", &[], |row| row.get(0))?;
            if found == "ok" { Ok(()) } else { Err(StoreErrorKind::Unreadable(found)) }
        })
    }

    /// Limits the size of the file, to simulate a full disk.
    pub fn limit_size(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(file) = self.connection.file() else {
            let cause = "a full disk can be simulated for results files only".into();
            return Err(StoreError::Refused { path: self.path.clone(), cause });
        };
        let limit = || {
            let page_bytes: u32 = file.pragma_query_value(None, "page_size", |row| row.get(0))?;
            Ok(file.pragma_update(None, "max_page_count", (bytes / u64::from(page_bytes)) as i64)?)
        };
        limit().map_err(|fault: StoreErrorKind| fault.explain(&self.path))
    }

    /// Runs `work` on one consistent snapshot of the database.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreErrorKind>) -> Result<T, StoreError> {
        if let Some(deadline) = &self.deadline {
            deadline.restart();
        }
        let reading = || {
            let _snapshot = self.connection.snapshot()?;
            work(&self.connection)
        };
        reading().map_err(|fault| fault.explain(&self.path))
    }

    /// Runs `work` in one transaction: all of it is stored when this returns, or nothing.
    fn write<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T, StoreErrorKind>) -> Result<T, StoreError> {
        let writing = || {
            let transaction = self.connection.begin()?;
            let done = work(&self.connection)?;
            transaction.commit()?;
            Ok(done)
        };
        writing().map_err(|fault: StoreErrorKind| fault.explain(&self.path))
    }
}
