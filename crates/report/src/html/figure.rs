//! A figure of a page.

use super::table::HtmlTable;

/// A figure with its caption and its data as a table.
pub(crate) struct FigurePart {
    pub(crate) svg: String,
    pub(crate) caption: String,
    pub(crate) table: HtmlTable,
}
