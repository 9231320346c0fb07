//! Copies a results file to one consistent snapshot, also while another program writes to it.

use std::path::Path;

use crate::error::StoreErrorKind;
use crate::{Store, StoreError};

impl Store {
    /// Writes a snapshot of everything stored to a new, compacted file without a WAL. Other programs need not wait;
    /// what they store meanwhile is not in the copy. A non-empty file at `path` is not modified and is an error.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let name = path
            .to_str()
            .ok_or_else(|| StoreError::CannotOpen { path: path.into(), cause: "its name is not UTF-8".into() })?;
        let Some(file) = self.connection.file() else {
            let cause = "only a results file can be copied; use 'nearfar export' for results on a server".into();
            return Err(StoreError::Refused { path: self.path.clone(), cause });
        };
        if let Some(deadline) = &self.deadline {
            deadline.restart();
        }
        let copied = file.execute("VACUUM INTO ?1", [name]);
        copied.map(|_| ()).map_err(|error| StoreErrorKind::from(error).explain(path))
    }
}
