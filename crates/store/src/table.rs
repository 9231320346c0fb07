//! Imported tables.

use model::record::ImportedTable;
use rusqlite::{OptionalExtension, params};

use crate::run::{json, read_json};
use crate::{Store, StoreError};

impl Store {
    /// Stores a table; one of the same name is replaced, as a corrected file is imported again.
    pub fn add_table(&mut self, table: &ImportedTable) -> Result<(), StoreError> {
        let insert = "INSERT OR REPLACE INTO imported_table (name, content) VALUES (?1, ?2)";
        self.connection.execute(insert, params![table.name, json(table)]).map_err(|error| self.said(&error))?;
        Ok(())
    }

    /// The names of all tables, the latest imported last.
    pub fn tables(&self) -> Result<Vec<String>, StoreError> {
        let said = |error: rusqlite::Error| self.said(&error);
        let mut statement = self.connection.prepare("SELECT name FROM imported_table ORDER BY position").map_err(said)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(said)?;
        rows.collect::<Result<_, _>>().map_err(said)
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Result<ImportedTable, StoreError> {
        let query = "SELECT content FROM imported_table WHERE name = ?1";
        let content = self.connection.query_row(query, [name], |row| read_json(&row.get::<_, String>(0)?)).optional();
        let missing = || match self.tables() {
            Ok(names) if !names.is_empty() => {
                StoreError::NotFound(format!("there is no table '{name}'; there are {}", names.join(", ")))
            }
            _ => StoreError::NotFound(format!("there is no imported table '{name}'")),
        };
        content.map_err(|error| self.said(&error))?.ok_or_else(missing)
    }
}
