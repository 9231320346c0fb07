//! A copy of the whole file as it is at one moment, also while somebody else writes to it.

use std::path::Path;

use crate::error::StoreErrorKind;
use crate::{Store, StoreError};

impl Store {
    /// Writes all that is stored now to a new file: one file, packed, nothing beside it. What others store meanwhile is not in it, and
    /// they need not wait. A file that is there and has anything in it is left as it is, and refused.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let name = path
            .to_str()
            .ok_or_else(|| StoreError::CannotOpen { path: path.into(), why: "its name is not UTF-8".into() })?;
        let Some(file) = self.connection.file() else {
            let what = "a copy is made of a results file alone; 'nearfar export' writes what a server has".into();
            return Err(StoreError::Refused { path: self.path.clone(), what });
        };
        let copied = file.execute("VACUUM INTO ?1", [name]);
        copied.map(|_| ()).map_err(|error| StoreErrorKind::from(error).explain(path))
    }
}
