//! Figures of stacked bars next to the medians of the placements of a test: one row per placement, one bar per CPU or
//! memory node, whose full height is 100 percent. Decides layout only; does not know what the bars mean.

use std::collections::BTreeSet;

use askama::Template;
use model::analysis::finding::CellFinding;

use crate::number::significant;
use crate::style::{clean, shortened};
use crate::svg::pixels;

const WIDTH: f64 = 760.0;
const ROW_HEIGHT: f64 = 58.0;
const BAR_HEIGHT: f64 = 46.0;
const FOOT_HEIGHT: f64 = 44.0;
/// Position of the medians, to the left of the bars.
const VALUE_X: f64 = 190.0;
const BARS_X: f64 = 300.0;
/// Maximum width of a bar with the space after it; less if there are many.
const PITCH_MAX: f64 = 26.0;
/// Distance of the kinds in the legend.
const LEGEND_PITCH: f64 = 76.0;
/// Maximum number of characters of a name.
const LABEL_MAX: usize = 27;
/// Width of a number below a bar.
const NUMBER_WIDTH: f64 = 17.0;
/// With more bars, each would be thinner than a pixel on a phone.
pub(crate) const BARS_MAX: usize = 230;
pub(crate) const ROWS_MAX: usize = 40;

/// A bar: the number below it, and its percentages by kind.
pub(super) struct Bar {
    pub number: u32,
    pub shares: Vec<f64>,
}

/// The meaning of the bars of a figure.
pub(super) struct Bars {
    /// Completes the title: the load of each CPU.
    pub subject: &'static str,
    /// The kinds from the bottom of a bar to its top; also their CSS classes.
    pub kinds: &'static [&'static str],
    pub of: fn(&CellFinding) -> Vec<Bar>,
    /// Returns the alternative text for screen readers.
    pub description: fn(&[CellFinding]) -> String,
}

/// A figure, ready for its template.
#[derive(Template)]
#[template(path = "stacked.svg")]
pub(crate) struct StackedFigure {
    title: String,
    description: String,
    width: String,
    height: String,
    bottom: String,
    value_x: String,
    rows: Vec<StackedRow>,
    numbers: Vec<(String, String)>,
    legend: Vec<(String, &'static str)>,
}

struct StackedRow {
    title: String,
    label: String,
    value: String,
    middle: String,
    line_y: String,
    /// Frames of the bars: 100 percent.
    frames: String,
    kinds: Vec<(&'static str, String)>,
}

/// Draws the first cells of one test and their first bars, at most [`ROWS_MAX`] and [`BARS_MAX`]. `None` without bars.
pub(super) fn stacked(test: &str, cells: &[CellFinding], bars: &Bars) -> Option<StackedFigure> {
    let all: BTreeSet<u32> = cells.iter().flat_map(bars.of).map(|bar| bar.number).collect();
    let numbers: Vec<u32> = all.into_iter().take(BARS_MAX).collect();
    let metric = cells.first()?.metrics.first()?;
    if numbers.is_empty() {
        return None;
    }
    let pitch = ((WIDTH - BARS_X) / numbers.len() as f64).min(PITCH_MAX);
    let shown = &cells[..cells.len().min(ROWS_MAX)];
    let bottom = ROW_HEIGHT * shown.len() as f64;
    // Prevents overlapping numbers.
    let stride = (NUMBER_WIDTH / pitch).ceil() as usize;
    let labelled = numbers.iter().enumerate().step_by(stride);
    let kinds = bars.kinds.iter().enumerate();
    Some(StackedFigure {
        description: (bars.description)(shown),
        title: clean(&format!("{test}: {} in {}, and {}", metric.name, metric.unit, bars.subject)),
        width: pixels(WIDTH),
        height: pixels(bottom + FOOT_HEIGHT),
        bottom: pixels(bottom),
        value_x: pixels(VALUE_X),
        rows: shown.iter().enumerate().map(|(index, cell)| row(bars, cell, index, &numbers, pitch)).collect(),
        numbers: labelled.map(|(at, bar)| (pixels(BARS_X + (at as f64 + 0.4) * pitch), bar.to_string())).collect(),
        legend: kinds.map(|(at, kind)| (pixels(BARS_X + LEGEND_PITCH * at as f64), *kind)).collect(),
    })
}

fn row(bars: &Bars, cell: &CellFinding, index: usize, numbers: &[u32], pitch: f64) -> StackedRow {
    let top = ROW_HEIGHT * index as f64 + 6.0;
    let mut frames = String::new();
    let mut kinds: Vec<(&str, String)> = bars.kinds.iter().map(|kind| (*kind, String::new())).collect();
    for Bar { number, shares } in (bars.of)(cell) {
        let Ok(at) = numbers.binary_search(&number) else { continue };
        let (x, width) = (BARS_X + at as f64 * pitch, pitch * 0.8);
        frames += &bar(x, top, width, BAR_HEIGHT);
        let mut base = top + BAR_HEIGHT;
        for ((_, path), percent) in kinds.iter_mut().zip(shares) {
            let height = BAR_HEIGHT * percent / 100.0;
            base -= height;
            // A share that rounds to zero is not drawn.
            if height >= 0.05 {
                *path += &bar(x, base, width, height);
            }
        }
    }
    let metric = cell.metrics.first();
    let value = metric.and_then(|metric| Some(format!("{} {}", significant(metric.median?), metric.unit)));
    let value = clean(&value.unwrap_or_else(|| "no result".into()));
    let name = clean(&cell.placement);
    StackedRow {
        title: format!("{name}: {value}"),
        label: shortened(&name, LABEL_MAX),
        value,
        middle: pixels(top + BAR_HEIGHT / 2.0),
        line_y: pixels(top + BAR_HEIGHT + 4.0),
        frames,
        kinds,
    }
}

fn bar(x: f64, y: f64, width: f64, height: f64) -> String {
    format!("M{} {}h{}v{}h-{}z", pixels(x), pixels(y), pixels(width), pixels(height), pixels(width))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A cell without metrics.
    pub fn cell(placement: &str) -> CellFinding {
        CellFinding {
            workload: "io".into(),
            test: "io".into(),
            placement: placement.into(),
            threads: 1,
            ..CellFinding::default()
        }
    }

    #[test]
    fn kinds_are_stacked_and_empty_bars_have_only_a_frame() {
        let bars = Bars {
            subject: "",
            kinds: &["user", "system", "irq"],
            of: |_| vec![Bar { number: 0, shares: vec![50.0, 0.0, 25.0] }, Bar { number: 2, shares: vec![0.0; 3] }],
            description: |_| String::new(),
        };
        let row = row(&bars, &cell("one-core"), 0, &[0, 1, 2], 10.0);
        assert_eq!(row.frames, "M300 6h8v46h-8zM320 6h8v46h-8z", "bar 1 is missing");
        assert_eq!(row.kinds[0], ("user", "M300 29h8v23h-8z".into()));
        assert_eq!(row.kinds[2], ("irq", "M300 17.5h8v11.5h-8z".into()));
        assert!(row.kinds[1].1.is_empty());
    }
}
