//! Stores and loads imported tables by name.

use model::values::record::{ImportedRow, ImportedTable};
use serde::{Deserialize, Serialize};

use crate::error::StoreErrorKind;
use crate::run::{json, parsed};
use crate::sql::Connection;
use crate::{Store, StoreError, checksum};

/// The stored JSON of a table; its name is a column.
#[derive(Serialize, Deserialize)]
struct Content {
    columns: Vec<String>,
    rows: Vec<ImportedRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl Store {
    /// Stores an imported table. Returns false if it is already stored; a different table of the same name is an error.
    pub fn add_table(&mut self, table: &ImportedTable) -> Result<bool, StoreError> {
        self.write(|transaction| insert(transaction, table))
    }

    /// The imported table of this name.
    pub fn table(&self, name: &str) -> Result<ImportedTable, StoreError> {
        self.read(|connection| match load(connection, name)? {
            Some(table) => Ok(table),
            None => Err(StoreError::NoSuchTable { name: name.into(), known: names(connection)? }.into()),
        })
    }

    /// The names of all imported tables, in the order in which they were imported.
    pub fn tables(&self) -> Result<Vec<String>, StoreError> {
        self.read(names)
    }
}

/// Stores a table. Returns false if it is already stored.
pub(crate) fn insert(connection: &Connection, table: &ImportedTable) -> Result<bool, StoreErrorKind> {
    if let Some(stored) = load(connection, &table.name)? {
        return if stored == *table {
            Ok(false)
        } else {
            Err(StoreError::TableDiffers { name: table.name.clone() }.into())
        };
    }
    let ImportedTable { name, columns, rows, notes } = table.clone();
    let content = json(&Content { columns, rows, notes });
    let number = connection.next_number("imported")?;
    let checksum = checksum::of_row(&[name.as_str().into(), content.as_str().into()]);
    let row = [number.into(), name.into(), content.into(), checksum.into()];
    connection.insert("imported", ["number", "name", "content", "checksum"], [row])?;
    Ok(true)
}

fn load(connection: &Connection, name: &str) -> Result<Option<ImportedTable>, StoreErrorKind> {
    let sql = "SELECT content, checksum FROM imported WHERE name = ?1";
    let found: Option<(String, _)> = connection.first(sql, &[name.into()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((content, stored)) = found else { return Ok(None) };
    let described = format!("table {name}");
    checksum::verify(stored, &[name.into(), content.as_str().into()], &described)?;
    let Content { columns, rows, notes } = parsed(&content, &described)?;
    Ok(Some(ImportedTable { name: name.into(), columns, rows, notes }))
}

pub(crate) fn names(connection: &Connection) -> Result<Vec<String>, StoreErrorKind> {
    connection.all("SELECT name FROM imported ORDER BY number", &[], |row| row.get(0))
}
