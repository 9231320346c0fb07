//! Placements that users keep under names.

use model::record::SavedPlacement;
use rusqlite::{OptionalExtension, params};

use crate::run::{json, parsed};
use crate::{Store, StoreError};

impl Store {
    /// Keeps a placement; another one of the same name is replaced.
    pub fn save_placement(&mut self, saved: &SavedPlacement) -> Result<(), StoreError> {
        self.write(|transaction| {
            let sql = "INSERT INTO saved_placement (name, content) VALUES (?1, ?2) \
                       ON CONFLICT (name) DO UPDATE SET content = excluded.content";
            transaction.execute(sql, params![saved.name, json(saved)])?;
            Ok(())
        })
    }

    /// The placement kept under this name.
    pub fn saved_placement(&self, name: &str) -> Result<SavedPlacement, StoreError> {
        self.read(|connection| {
            let mut query = connection.prepare("SELECT content FROM saved_placement WHERE name = ?1")?;
            let content: Option<String> = query.query_row([name], |row| row.get(0)).optional()?;
            if let Some(content) = content {
                return parsed(&content, &format!("placement {name}"));
            }
            let mut query = connection.prepare("SELECT name FROM saved_placement ORDER BY name")?;
            let known = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Err(StoreError::NoSuchPlacement { name: name.into(), known }.into())
        })
    }
}
