//! Stores and loads the placements that users save by name.

use model::values::record::SavedPlacement;

use crate::error::StoreErrorKind;
use crate::run::{json, parsed};
use crate::sql::Connection;
use crate::{Store, StoreError, checksum};

impl Store {
    /// Saves a placement; one of the same name is replaced.
    pub fn save_placement(&mut self, saved: &SavedPlacement) -> Result<(), StoreError> {
        self.write(|connection| {
            let content = json(saved);
            let checksum = checksum::of_row(&[saved.name.as_str().into(), content.as_str().into()]);
            let row = [saved.name.as_str().into(), content.into(), checksum.into()];
            // INSERT, not upsert: a user who may only insert on a server may save a placement unless it replaces one.
            if stored(connection, &saved.name)?.is_some() {
                let sql = "UPDATE saved_placement SET content = ?2, checksum = ?3 WHERE name = ?1";
                return connection.execute(sql, &row).map(|_| ());
            }
            connection.insert("saved_placement", ["name", "content", "checksum"], [row])
        })
    }

    /// The placement saved under this name.
    pub fn saved_placement(&self, name: &str) -> Result<SavedPlacement, StoreError> {
        self.read(|connection| {
            if let Some((content, checksum)) = stored(connection, name)? {
                let described = format!("placement {name}");
                checksum::verify(checksum, &[name.into(), content.as_str().into()], &described)?;
                return parsed(&content, &described);
            }
            let known = connection.all("SELECT name FROM saved_placement ORDER BY name", &[], |row| row.get(0))?;
            Err(StoreError::NoSuchPlacement { name: name.into(), known }.into())
        })
    }
}

/// The content and the checksum of a saved placement.
fn stored(connection: &Connection, name: &str) -> Result<Option<(String, Option<i64>)>, StoreErrorKind> {
    let sql = "SELECT content, checksum FROM saved_placement WHERE name = ?1";
    connection.first(sql, &[name.into()], |row| Ok((row.get(0)?, row.get(1)?)))
}
