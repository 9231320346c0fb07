//! Common parts of the pictures of a measured map: the width of the sheet, and labels.

use model::placements::measured_map::MeasuredValue;

use crate::number::significant;
use crate::style;

/// Space for the labels of rows.
pub(super) const LEFT: f64 = 150.0;
/// Maximum width of all cells; with more columns, cells become narrower.
pub(super) const CELLS_WIDTH: f64 = 720.0;
pub(super) const WIDTH: f64 = LEFT + CELLS_WIDTH + 10.0;

/// Shortens a list of CPUs to the space next to the cells; the table has the full list.
pub(super) fn shortened(name: &str) -> String {
    const CHARACTERS: usize = 24;
    style::shortened(name, CHARACTERS)
}

pub(super) fn caption(words: &str, value: Option<&MeasuredValue>) -> String {
    let Some(value) = value else { return format!("{words}: not measured") };
    let low_high = value.ci_low.zip(value.ci_high);
    let interval =
        low_high.map_or(String::new(), |(low, high)| format!(" ({} to {})", significant(low), significant(high)));
    format!("{words}: {} {}{interval}", significant(value.median), value.unit)
}

/// The label of a tick without trailing zeros.
pub(super) fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
