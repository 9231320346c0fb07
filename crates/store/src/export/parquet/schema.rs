//! The schema of a Parquet file, which follows from the columns.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{Type, TypePtr};

use crate::export::columns::{COLUMNS, CellReader, Column, Formats};

/// The columns of a Parquet file in its order.
pub(super) fn columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| column.formats != Formats::Csv)
}

/// The schema of the columns. All are nullable, as is usual in files of other programs.
pub(super) fn schema() -> TypePtr {
    let fields = columns().map(|column| Arc::new(field(column))).collect();
    Arc::new(Type::group_type_builder("nearfar").with_fields(fields).build().expect("column names are unique"))
}

fn field(column: &Column) -> Type {
    let (physical, logical) = match column.cell {
        CellReader::Text(_) | CellReader::SampleText(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        CellReader::Whole(_) | CellReader::SampleWhole(_) => (Physical::INT64, None),
        CellReader::Time(_) => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        CellReader::SampleReal(_) => (Physical::DOUBLE, None),
    };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
        .expect("the logical types match the physical types")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference page has a row `| name | type | meaning |` for each column, in the same order.
    #[test]
    fn reference_page_lists_every_column() {
        let guide = include_str!("../../../../../docs/reference/parquet-columns.md");
        let documented: Vec<(&str, &str)> = guide
            .lines()
            .skip_while(|line| !line.starts_with("| column | type |"))
            .filter_map(|line| {
                let mut cells = line.strip_prefix("| `")?.split('|');
                Some((cells.next()?.trim().trim_end_matches('`'), cells.next()?.trim()))
            })
            .collect();
        let columns: Vec<(&str, &str)> = columns()
            .map(|column| {
                let kind = match column.cell {
                    CellReader::Text(_) | CellReader::SampleText(_) => "text",
                    CellReader::Whole(_) | CellReader::SampleWhole(_) => "int64",
                    CellReader::Time(_) => "timestamp",
                    CellReader::SampleReal(_) => "double",
                };
                (column.name, kind)
            })
            .collect();
        assert_eq!(documented, columns);
    }
}
