//! A measured map as SVG: heat maps of the matrices, curves of latency by size and of loaded latency. The colour scale is
//! that of all heat maps of a report (blue is better, orange is worse), and every cell shows its value, so colour is not
//! required to read it. Decides layout only.

use askama::Template as _;
use model::placements::measured_map::{Bandwidth, MeasuredMap, MeasuredValue};
use model::values::stamp::Stamp;
use model::values::workload::Better;

use super::sheet::{CELLS_WIDTH, LEFT, WIDTH, caption, shortened};
use super::{curve, loaded};
use crate::figure_style::Theme;
use crate::number::significant;
use crate::stamp;
use crate::svg::{Svg, SvgRect, pixels};

const HEADING: f64 = 24.0;
const STAMP_BASELINE: f64 = 15.0;
const COLUMN_LABELS: f64 = 18.0;
const ROW_HEIGHT: f64 = 24.0;
const COLUMN_WIDTH: f64 = 64.0;
/// Narrower cells do not fit their value, which is then shown on hovering only.
const NUMBER_WIDTH: f64 = 40.0;
const GAP: f64 = 22.0;
const LEGEND_WIDTH: f64 = 210.0;
/// Opacity of the middle, which would look unmeasured without colour, and of the extremes, on which text stays readable.
const OPACITY: (f64, f64) = (0.08, 0.4);

/// Minimum half-width of the colour scale, relative to its middle. Full colours for smaller differences would suggest that
/// they matter: maps of the same idle machine differ by a few percent from run to run.
const HALF_SCALE_MIN: f64 = 0.05;

/// A matrix of values.
struct Matrix<'a> {
    title: String,
    rows: Vec<String>,
    columns: Vec<String>,
    cells: Vec<Vec<Option<&'a MeasuredValue>>>,
    better: Better,
}

/// Draws the map; `stamp` is that of the run that measured it.
pub fn svg(map: &MeasuredMap, stamp: Stamp, theme: Theme) -> String {
    let stamp = stamp::prefix(stamp);
    let mut picture = Svg {
        theme,
        title: format!("{stamp}Measured map"),
        description:
            "Heat maps of latency from core to core and from CPUs to memory nodes, and of bandwidth; orange is \
         slower and blue is faster than the middle of a matrix, and the cell shows the number. Below them latency by \
         working-set size on logarithmic axes with labelled caches, and latency by the load of other cores."
                .into(),
        width: pixels(WIDTH),
        ..Svg::default()
    };
    let bandwidth = |mix: &'static str| {
        let title = format!("CPUs to memory, {mix} in MB/s");
        memory(map, title, Better::Higher, &move |path| {
            Some(&path.bandwidth.iter().find(|one| is_ordinary(one, mix))?.rate)
        })
    };
    let bandwidths = ["read", "write", "copy", "triad"].map(bandwidth);
    let mut y = 0.0;
    if !stamp.is_empty() {
        picture.label("h", 0.0, STAMP_BASELINE, &format!("{stamp}measured map"));
        y = HEADING;
    }
    picture.heat_legend(WIDTH - LEGEND_WIDTH, y + STAMP_BASELINE);
    y = picture.heats(&[cores(map), latencies(map)], y + HEADING);
    y = picture.heats(&bandwidths, y);
    y = curve::draw(&mut picture, &map.sizes, &map.steps, y) + GAP;
    y = loaded::draw(&mut picture, &map.loaded, y);
    picture.height = pixels(y);
    picture.render().expect("the template renders")
}

/// The CPUs that were measured. Other pairs are equivalent to a measured one, or were not requested.
fn cores(map: &MeasuredMap) -> Matrix<'_> {
    let mut cpus: Vec<_> = map.core_to_core.iter().flat_map(|pair| [pair.a, pair.b]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let between = |a, b| map.core_to_core.iter().find(|pair| (pair.a, pair.b) == (a, b) || (pair.b, pair.a) == (a, b));
    let row =
        |a: &model::values::id_set::CpuId| cpus.iter().map(|b| between(*a, *b).map(|pair| &pair.latency)).collect();
    Matrix {
        title: "Core to core, ns one way, with loads and stores".into(),
        rows: cpus.iter().map(|cpu| format!("cpu {cpu}")).collect(),
        columns: cpus.iter().map(ToString::to_string).collect(),
        cells: cpus.iter().map(row).collect(),
        better: Better::Lower,
    }
}

fn latencies(map: &MeasuredMap) -> Matrix<'_> {
    memory(map, "CPUs to memory, ns per load".into(), Better::Lower, &|path| path.latency.as_ref())
}

fn is_ordinary(bandwidth: &Bandwidth, mix: &str) -> bool {
    bandwidth.mix == mix && !bandwidth.non_temporal
}

type Chosen<'c> = &'c dyn for<'m> Fn(&'m model::placements::measured_map::MemoryPath) -> Option<&'m MeasuredValue>;

fn memory<'a>(map: &'a MeasuredMap, title: String, better: Better, value: Chosen<'_>) -> Matrix<'a> {
    let mut groups: Vec<_> = map.memory.iter().map(|path| &path.cpus).collect();
    groups.dedup();
    let mut nodes: Vec<_> = map.memory.iter().map(|path| path.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let at = |cpus, node| map.memory.iter().find(|path| &path.cpus == cpus && path.node == node);
    let cells = groups.iter().map(|cpus| nodes.iter().map(|node| at(*cpus, *node).and_then(value)).collect()).collect();
    Matrix {
        title,
        rows: groups.iter().map(|cpus| format!("cpus {cpus}")).collect(),
        columns: nodes.iter().map(|node| format!("node {node}")).collect(),
        cells,
        better,
    }
}

impl Svg {
    /// Draws the matrices that have values, two next to each other if both are narrow, and returns the bottom.
    fn heats(&mut self, matrices: &[Matrix<'_>], top: f64) -> f64 {
        let full = matrices.iter().filter(|matrix| !matrix.cells.iter().flatten().all(Option::is_none));
        let (mut y, mut left_top_pending) = (top, None);
        for matrix in full {
            let narrow = LEFT + column_width(matrix) * matrix.columns.len() as f64 <= WIDTH / 2.0;
            if let Some(left_top) = left_top_pending.take().filter(|_| narrow) {
                y = self.heat(matrix, (WIDTH / 2.0, left_top)).max(y - GAP) + GAP;
            } else {
                left_top_pending = narrow.then_some(y);
                y = self.heat(matrix, (0.0, y)) + GAP;
            }
        }
        y
    }

    /// Draws a matrix and returns its bottom.
    fn heat(&mut self, matrix: &Matrix<'_>, (left, top): (f64, f64)) -> f64 {
        let width = column_width(matrix);
        self.label("h", left + 4.0, top + 16.0, &matrix.title);
        let left = left + LEFT;
        let first = top + HEADING + COLUMN_LABELS;
        let numbered = width >= NUMBER_WIDTH;
        for (column, text) in matrix.columns.iter().enumerate() {
            // Prevents overlapping numbers in many narrow columns.
            if width >= 18.0 || column % 8 == 0 {
                self.label("c q", left + width * (column as f64 + 0.5), first - 5.0, text);
            }
        }
        let scale = HeatScale::of(matrix);
        let row_height = if matrix.rows.len() > 32 { width.max(6.0) } else { ROW_HEIGHT };
        for (row, name) in matrix.rows.iter().enumerate() {
            let y = first + row_height * row as f64;
            if row_height > 12.0 || row % 8 == 0 {
                self.label("e q", left - 6.0, y + row_height / 2.0 + 4.0, &shortened(name));
            }
            for (column, value) in matrix.cells[row].iter().enumerate() {
                let x = left + width * column as f64;
                let words = format!("{name} to {}", matrix.columns[column]);
                let heat = value.map(|value| scale.heat(value.median, matrix.better));
                if let (Some(value), true) = (value, numbered) {
                    let (x, y) = (x + width / 2.0, y + row_height / 2.0 + 4.0);
                    self.label("c", x, y, &significant(value.median));
                }
                self.cell(x, y, (width, row_height), heat, caption(&words, *value));
            }
        }
        first + row_height * matrix.rows.len() as f64
    }

    fn cell(&mut self, x: f64, y: f64, (width, height): (f64, f64), heat: Option<f64>, title: String) {
        let class = match heat {
            None => "none",
            Some(heat) if heat > 0.0 => "heat worse",
            Some(_) => "heat",
        };
        let heat = heat.map(f64::abs);
        let [x, y, width, height] = [x, y, width, height].map(pixels);
        self.boxes.push(SvgRect { class, x, y, width, height, heat, title });
    }
}

fn column_width(matrix: &Matrix<'_>) -> f64 {
    COLUMN_WIDTH.min(CELLS_WIDTH / matrix.columns.len().max(1) as f64)
}

/// The values between which a matrix is coloured.
struct HeatScale {
    middle: f64,
    half: f64,
}

impl HeatScale {
    /// Spans the values, but at least what their intervals and [`HALF_SCALE_MIN`] leave open.
    fn of(matrix: &Matrix<'_>) -> Self {
        let values = || matrix.cells.iter().flatten().flatten();
        let (low, high) = values()
            .map(|value| value.median)
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let middle = f64::midpoint(low, high);
        let half_interval = |value: &&MeasuredValue| Some((value.ci_high? - value.ci_low?) / 2.0);
        let unresolved = values().filter_map(half_interval).fold(HALF_SCALE_MIN * middle.abs(), f64::max);
        Self { middle, half: ((high - low) / 2.0).max(unresolved) }
    }

    /// The opacity of a cell, positive if the value is worse than the middle.
    fn heat(&self, value: f64, better: Better) -> f64 {
        let above = if self.half > 0.0 { (value - self.middle) / self.half } else { 0.0 };
        let worse = if better == Better::Lower { above } else { -above };
        (OPACITY.0 + worse.abs() * (OPACITY.1 - OPACITY.0)).copysign(worse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(median: f64, half: Option<f64>) -> MeasuredValue {
        let (ci_low, ci_high) = (half.map(|half| median - half), half.map(|half| median + half));
        MeasuredValue { unit: "ns".into(), median, ci_low, ci_high, samples: vec![median; 3], suspect: 0 }
    }

    /// The opacities of the smallest and the largest of two values.
    fn heats(values: &[MeasuredValue; 2], better: Better) -> [f64; 2] {
        let matrix = Matrix {
            title: String::new(),
            rows: vec!["a".into()],
            columns: vec!["b".into(), "c".into()],
            cells: vec![values.iter().map(Some).collect()],
            better,
        };
        let scale = HeatScale::of(&matrix);
        values.each_ref().map(|value| scale.heat(value.median, better))
    }

    #[test]
    fn unresolved_differences_have_pale_colours() {
        let full = |heat: f64| (heat.abs() - OPACITY.1).abs() < 1e-9;
        let pale = |heat: f64| heat.abs() < f64::midpoint(OPACITY.0, OPACITY.1);
        let wide = heats(&[value(50.0, Some(1.0)), value(100.0, Some(1.0))], Better::Lower);
        assert!(wide.iter().all(|heat| full(*heat)) && wide[0] < 0.0 && wide[1] > 0.0, "{wide:?}");
        let rate = heats(&[value(50.0, None), value(100.0, None)], Better::Higher);
        assert!(rate[0] > 0.0 && rate[1] < 0.0, "{rate:?}");
        let equal = heats(&[value(100.0, None), value(101.0, None)], Better::Lower);
        assert!(equal.iter().all(|heat| pale(*heat)), "{equal:?}");
        let noisy = heats(&[value(50.0, Some(80.0)), value(100.0, Some(80.0))], Better::Lower);
        assert!(noisy.iter().all(|heat| pale(*heat)), "{noisy:?}");
    }
}
