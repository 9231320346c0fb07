//! The results file: runs, trials with their raw samples and evidence, imported tables, in one SQLite database; or the same on a
//! PostgreSQL server that many machines share (feature `postgres`). All SQL of the workspace is here, also what is asked of exported
//! files. Must not know how trials are run or what results mean.
//!
//! What is promised:
//!
//! - A trial with its samples, evidence and verdict is one transaction: it is there whole or not at all.
//! - `kill -9` of the program loses nothing that [`Store::add_trial`] has returned from. A power cut or a crash of the
//!   kernel may lose the last trials of a run that has not ended (what the kernel had not yet written back) and
//!   damages nothing: the file is in WAL mode with `synchronous=NORMAL`. `FULL` would flush the disk after each
//!   trial: 2 to 3 ms instead of 0.03 ms on the development machine, a fifth of what a trial may cost beside its command,
//!   on the disk that the next trial may measure. What is lost is measured again when the run goes on; a run that has
//!   ended is flushed.
//! - Nothing is counted twice: a trial's id is unique in its run, and so is its position.
//! - What a server has confirmed is as safe as the server makes it (`fsync`, `synchronous_commit`): by default it is on its disk.
//! - A file of a newer program, of another program or a damaged one is refused with words, and left as it is.
#![forbid(unsafe_code)]

mod address;
mod copy;
mod error;
pub mod export;
pub mod import;
mod lock;
mod merge;
mod open;
pub mod parquet_dir;
mod run;
mod saved_placement;
mod schema;
#[cfg(feature = "postgres")]
mod server;
pub mod shared;
mod sql;
mod table;
mod trial;
mod watch;

use std::path::{Path, PathBuf};

pub use address::{is_server, shown};
pub use error::StoreError;
pub use merge::MergeReport;
pub use watch::{Progress, StoreVersion};

use error::StoreErrorKind;
use sql::Connection;

/// An open results file, or results on a server.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Where the file is; of a server its address as it may be shown.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether results are on a server.
    pub fn is_on_server(&self) -> bool {
        self.connection.file().is_none()
    }

    /// Looks through the whole file for damage: seconds for large files, so only when somebody asks. A server looks
    /// after itself.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_on_server() {
            return Ok(());
        }
        self.read(|connection| {
            let found: String = connection.one("PRAGMA quick_check(1)", &[], |row| row.get(0))?;
            if found == "ok" { Ok(()) } else { Err(StoreErrorKind::Unreadable(found)) }
        })
    }

    /// Refuses to let the file grow beyond this, as a full disk would: for simulations of one.
    pub fn limit_size(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(file) = self.connection.file() else {
            let what = "a full disk is simulated for results files alone".into();
            return Err(StoreError::Refused { path: self.path.clone(), what });
        };
        let limit = || {
            let page_bytes: u32 = file.pragma_query_value(None, "page_size", |row| row.get(0))?;
            Ok(file.pragma_update(None, "max_page_count", (bytes / u64::from(page_bytes)) as i64)?)
        };
        limit().map_err(|fault: StoreErrorKind| fault.explain(&self.path))
    }

    /// Runs `work` on one consistent state of the file.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreErrorKind>) -> Result<T, StoreError> {
        let reading = || {
            let _held = self.connection.hold()?;
            work(&self.connection)
        };
        reading().map_err(|fault| fault.explain(&self.path))
    }

    /// Runs `work` as one transaction: all of it is stored when this returns, or nothing.
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
