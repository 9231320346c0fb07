//! Stores and loads the placements that users save by name.

use model::values::record::SavedPlacement;

use crate::error::StoreErrorKind;
use crate::run::{json, parsed};
use crate::sql::Connection;
use crate::{Store, StoreError};

impl Store {
    /// Saves a placement; one of the same name is replaced.
    pub fn save_placement(&mut self, saved: &SavedPlacement) -> Result<(), StoreError> {
        self.write(|connection| {
            let row = [saved.name.as_str().into(), json(saved).into()];
            // INSERT, not upsert: a user who may only insert on a server may save a placement unless it replaces one.
            if content(connection, &saved.name)?.is_some() {
                connection.execute("UPDATE saved_placement SET content = ?2 WHERE name = ?1", &row)?;
                return Ok(());
            }
            connection.insert("saved_placement", ["name", "content"], [row])
        })
    }

    /// The placement saved under this name.
    pub fn saved_placement(&self, name: &str) -> Result<SavedPlacement, StoreError> {
        self.read(|connection| {
            if let Some(content) = content(connection, name)? {
                return parsed(&content, &format!("placement {name}"));
            }
            let known = connection.all("SELECT name FROM saved_placement ORDER BY name", &[], |row| row.get(0))?;
            Err(StoreError::NoSuchPlacement { name: name.into(), known }.into())
        })
    }
}

fn content(connection: &Connection, name: &str) -> Result<Option<String>, StoreErrorKind> {
    connection.first("SELECT content FROM saved_placement WHERE name = ?1", &[name.into()], |row| row.get(0))
}
