//! Figures of stacked bars next to the medians of the placements of a test: one row per placement, one bar per CPU or
//! memory node, whose full height is 100 percent. Decides layout only; does not know what the bars mean.

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

/// Names and values of a figure.
pub(super) struct Content<'a> {
    pub title: String,
    /// Alternative text for screen readers.
    pub description: String,
    /// The kinds from the bottom of a bar to its top; also their CSS classes.
    pub kinds: &'static [&'static str],
    /// Numbers of the bars.
    pub bars: Vec<u32>,
    pub cells: &'a [CellFinding],
    /// Returns the percentages of a bar by kind; `None` if the cell does not have it.
    pub shares: &'a dyn Fn(&CellFinding, u32) -> Option<Vec<f64>>,
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

/// Draws the first rows and bars, at most [`ROWS_MAX`] and [`BARS_MAX`].
pub(super) fn stacked(content: &Content<'_>) -> StackedFigure {
    let bars = &content.bars[..content.bars.len().min(BARS_MAX)];
    let pitch = ((WIDTH - BARS_X) / bars.len() as f64).min(PITCH_MAX);
    let shown = &content.cells[..content.cells.len().min(ROWS_MAX)];
    let bottom = ROW_HEIGHT * shown.len() as f64;
    // Prevents overlapping numbers.
    let stride = (NUMBER_WIDTH / pitch).ceil() as usize;
    let numbers = bars.iter().enumerate().step_by(stride);
    let kinds = content.kinds.iter().enumerate();
    StackedFigure {
        description: content.description.clone(),
        title: clean(&content.title),
        width: pixels(WIDTH),
        height: pixels(bottom + FOOT_HEIGHT),
        bottom: pixels(bottom),
        value_x: pixels(VALUE_X),
        rows: shown.iter().enumerate().map(|(index, cell)| row(content, cell, index, pitch)).collect(),
        numbers: numbers.map(|(at, bar)| (pixels(BARS_X + (at as f64 + 0.4) * pitch), bar.to_string())).collect(),
        legend: kinds.map(|(at, kind)| (pixels(BARS_X + LEGEND_PITCH * at as f64), *kind)).collect(),
    }
}

fn row(content: &Content<'_>, cell: &CellFinding, index: usize, pitch: f64) -> StackedRow {
    let top = ROW_HEIGHT * index as f64 + 6.0;
    let mut frames = String::new();
    let mut kinds: Vec<(&str, String)> = content.kinds.iter().map(|kind| (*kind, String::new())).collect();
    for (at, number) in content.bars.iter().take(BARS_MAX).enumerate() {
        let Some(shares) = (content.shares)(cell, *number) else { continue };
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
            parameters: std::collections::BTreeMap::new(),
            placement: placement.into(),
            threads: 1,
            cpus: String::new(),
            memory: String::new(),
            reason: String::new(),
            metrics: Vec::new(),
            cpu_load: Vec::new(),
            node_pages: Vec::new(),
            verdicts: model::values::record::VerdictCounts::default(),
            reasons: Vec::new(),
            outside_means: false,
            caveats: Vec::new(),
        }
    }

    #[test]
    fn kinds_are_stacked_and_empty_bars_have_only_a_frame() {
        let shares = |_: &CellFinding, bar: u32| match bar {
            0 => Some(vec![50.0, 0.0, 25.0]),
            2 => Some(vec![0.0; 3]),
            _ => None,
        };
        let content = Content {
            title: String::new(),
            description: String::new(),
            kinds: &["user", "system", "irq"],
            bars: vec![0, 1, 2],
            cells: &[cell("one-core")],
            shares: &shares,
        };
        let row = row(&content, &content.cells[0], 0, 10.0);
        assert_eq!(row.frames, "M300 6h8v46h-8zM320 6h8v46h-8z", "bar 1 is missing");
        assert_eq!(row.kinds[0], ("user", "M300 29h8v23h-8z".into()));
        assert_eq!(row.kinds[2], ("irq", "M300 17.5h8v11.5h-8z".into()));
        assert!(row.kinds[1].1.is_empty());
    }
}
