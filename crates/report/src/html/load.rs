//! Figures of CPU load: one row per placement with its median and one stacked bar per CPU. Decides layout only; every
//! value comes from the finding.

use std::collections::BTreeSet;

use askama::Template;
use model::analysis::finding::{CellFinding, CpuLoad};
use model::values::id_set::CpuId;

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
/// Maximum number of characters of a name.
const LABEL_MAX: usize = 27;
/// Width of a CPU number below a bar.
const NUMBER_WIDTH: f64 = 17.0;
/// With more bars, each would be thinner than a pixel on a phone.
pub(crate) const CPUS_MAX: usize = 230;
pub(crate) const ROWS_MAX: usize = 40;

/// The kinds of CPU time from the bottom of a bar to its top; also their CSS classes.
const KINDS: [&str; 6] = ["user", "system", "irq", "softirq", "iowait", "steal"];

/// A figure, ready for its template.
#[derive(Template)]
#[template(path = "loads.svg")]
pub(crate) struct LoadFigure {
    title: String,
    description: String,
    width: String,
    height: String,
    bottom: String,
    value_x: String,
    rows: Vec<LoadRow>,
    cpus: Vec<(String, String)>,
    legend: Vec<(String, &'static str)>,
}

struct LoadRow {
    title: String,
    label: String,
    value: String,
    middle: String,
    line_y: String,
    /// Frames of the bars: 100 percent.
    frames: String,
    kinds: Vec<(&'static str, String)>,
}

/// Draws the cells of one test. `None` if they have no load.
pub(crate) fn loads(test: &str, cells: &[CellFinding]) -> Option<LoadFigure> {
    let all: BTreeSet<CpuId> = cells.iter().flat_map(|cell| &cell.cpu_load).map(|load| load.cpu).collect();
    let cpus: Vec<CpuId> = all.into_iter().take(CPUS_MAX).collect();
    let metric = cells.first()?.metrics.first()?;
    if cpus.is_empty() {
        return None;
    }
    let pitch = ((WIDTH - BARS_X) / cpus.len() as f64).min(PITCH_MAX);
    let shown = &cells[..cells.len().min(ROWS_MAX)];
    let bottom = ROW_HEIGHT * shown.len() as f64;
    let title = clean(&format!("{test}: {} in {}, and the load of each CPU", metric.name, metric.unit));
    // Prevents overlapping numbers.
    let stride = (NUMBER_WIDTH / pitch).ceil() as usize;
    let numbers = cpus.iter().enumerate().step_by(stride);
    Some(LoadFigure {
        description: description(shown),
        title,
        width: pixels(WIDTH),
        height: pixels(bottom + FOOT_HEIGHT),
        bottom: pixels(bottom),
        value_x: pixels(VALUE_X),
        rows: shown.iter().enumerate().map(|(index, cell)| row(cell, index, &cpus, pitch)).collect(),
        cpus: numbers.map(|(at, cpu)| (pixels(BARS_X + (at as f64 + 0.4) * pitch), cpu.to_string())).collect(),
        legend: KINDS.iter().enumerate().map(|(at, kind)| (pixels(BARS_X + 70.0 * at as f64), *kind)).collect(),
    })
}

/// A description of the figure for screen readers: the load of each busy CPU.
fn description(cells: &[CellFinding]) -> String {
    let mut text = "Load of each CPU in percent of its time.".to_string();
    for cell in cells {
        let worked = cell.cpu_load.iter().filter(|load| load.busy() >= 0.5);
        let worked: Vec<String> = worked.map(|load| format!("CPU {} {:.0} %", load.cpu, load.busy())).collect();
        let worked = if worked.is_empty() { "all CPUs idle".into() } else { worked.join(", ") };
        text += &format!(" {}: {worked}.", clean(&cell.placement));
    }
    text
}

fn row(cell: &CellFinding, index: usize, cpus: &[CpuId], pitch: f64) -> LoadRow {
    let top = ROW_HEIGHT * index as f64 + 6.0;
    let (mut frames, mut kinds) = (String::new(), KINDS.map(|kind| (kind, String::new())));
    for (at, cpu) in cpus.iter().enumerate() {
        let Some(load) = cell.cpu_load.iter().find(|load| load.cpu == *cpu) else { continue };
        let (x, width) = (BARS_X + at as f64 * pitch, pitch * 0.8);
        frames += &bar(x, top, width, BAR_HEIGHT);
        let mut base = top + BAR_HEIGHT;
        for ((_, path), percent) in kinds.iter_mut().zip(shares(load)) {
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
    let label = shortened(&name, LABEL_MAX);
    LoadRow {
        title: format!("{name}: {value}"),
        label,
        value,
        middle: pixels(top + BAR_HEIGHT / 2.0),
        line_y: pixels(top + BAR_HEIGHT + 4.0),
        frames,
        kinds: kinds.into(),
    }
}

/// In the order of [`KINDS`]; the rest is idle.
fn shares(load: &CpuLoad) -> [f64; 6] {
    [load.user, load.system, load.irq, load.softirq, load.iowait, load.steal]
}

fn bar(x: f64, y: f64, width: f64, height: f64) -> String {
    format!("M{} {}h{}v{}h-{}z", pixels(x), pixels(y), pixels(width), pixels(height), pixels(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(cpu: u32, user: f64, irq: f64) -> CpuLoad {
        let idle = 100.0 - user - irq;
        CpuLoad { cpu: CpuId(cpu), user, system: 0.0, irq, softirq: 0.0, iowait: 0.0, idle, steal: 0.0 }
    }

    #[test]
    fn kinds_are_stacked_and_idle_cpus_have_only_a_frame() {
        let cell = CellFinding {
            workload: "io".into(),
            test: "io".into(),
            parameters: std::collections::BTreeMap::new(),
            placement: "one-core".into(),
            threads: 1,
            cpus: String::new(),
            memory: String::new(),
            reason: String::new(),
            metrics: Vec::new(),
            cpu_load: vec![load(0, 50.0, 25.0), load(2, 0.0, 0.0)],
            verdicts: model::values::record::VerdictCounts::default(),
            reasons: Vec::new(),
            outside_means: false,
            caveats: Vec::new(),
        };
        let row = row(&cell, 0, &[CpuId(0), CpuId(1), CpuId(2)], 10.0);
        assert_eq!(row.frames, "M300 6h8v46h-8zM320 6h8v46h-8z", "CPU 1 was not observed");
        assert_eq!(row.kinds[0], ("user", "M300 29h8v23h-8z".into()));
        assert_eq!(row.kinds[2], ("irq", "M300 17.5h8v11.5h-8z".into()));
        assert!(row.kinds[1].1.is_empty() && row.kinds[5].1.is_empty());
        assert_eq!(description(&[cell]), "Load of each CPU in percent of its time. one-core: CPU 0 75 %.");
    }
}
