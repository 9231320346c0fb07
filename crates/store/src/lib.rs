//! The results file: runs, trials with their raw samples and evidence, imported tables, in one SQLite database.
//! All SQL of the workspace is here, also what is asked of exported files. Must not know how trials are run or what results mean.
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
//! - A file of a newer program, of another program or a damaged one is refused with words, and left as it is.
#![forbid(unsafe_code)]

mod copy;
mod error;
pub mod export;
pub mod import;
mod lock;
mod merge;
mod open;
pub mod parquet_folder;
mod run;
mod saved;
mod schema;
pub mod shared;
mod table;
mod trial;
mod watch;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use error::StoreError;
pub use merge::MergeReport;
pub use watch::{Extent, Progress};

use error::Fault;

/// An open results file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks through the whole file for damage: seconds for large files, so only when somebody asks.
    pub fn check(&self) -> Result<(), StoreError> {
        self.read(|connection| {
            let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if found == "ok" { Ok(()) } else { Err(Fault::Unreadable(found)) }
        })
    }

    /// Refuses to let the file grow beyond this, as a full disk would: for simulations of one.
    pub fn limit_size(&self, bytes: u64) -> Result<(), StoreError> {
        let limit = || {
            let page_bytes: u32 = self.connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
            Ok(self.connection.pragma_update(None, "max_page_count", (bytes / u64::from(page_bytes)) as i64)?)
        };
        limit().map_err(|fault: Fault| fault.explain(&self.path))
    }

    /// Runs `work` on one consistent state of the file.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let reading = || {
            let transaction = self.connection.unchecked_transaction()?;
            work(&transaction)
        };
        reading().map_err(|fault| fault.explain(&self.path))
    }

    /// Runs `work` as one transaction: all of it is stored when this returns, or nothing.
    fn write<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>) -> Result<T, StoreError> {
        let writing = |connection: &mut Connection| {
            // Immediate: takes the write lock before anything is read, so that two programs queue up instead of
            // one of them failing half-way.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        writing(&mut self.connection).map_err(|fault: Fault| fault.explain(&self.path))
    }
}
