//! Throughput and load side by side: one row per placement with its median and one stacked bar per cpu. Decides pixels
//! only; every number comes from the finding.

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
/// Names of placements and medians stand left of the bars.
const VALUE_X: f64 = 190.0;
const BARS_X: f64 = 300.0;
/// A bar and the space after it; narrower when there are many.
const PITCH_MAX: f64 = 26.0;
/// So many characters of a name have room.
const LABEL_MAX: usize = 27;
/// The number of a cpu needs so much below its bar.
const NUMBER_WIDTH: f64 = 17.0;
/// More bars would be thinner than a pixel on a phone.
pub(crate) const CPUS_MAX: usize = 230;
pub(crate) const ROWS_MAX: usize = 40;

/// Kinds of work from the bottom of a bar to its top, by the class that colours them.
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
    /// The whole of each bar: 100 percent.
    frames: String,
    kinds: Vec<(&'static str, String)>,
}

/// Draws the cells of one test; none when no load is known of them.
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
    let title = clean(&format!("{test}: {} in {}, and what each cpu did", metric.name, metric.unit));
    // So that numbers do not run into each other.
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

/// What the eye sees, for those who do not see it: how busy which cpus were.
fn description(cells: &[CellFinding]) -> String {
    let mut text = "Load of each cpu in percent of its time.".to_string();
    for cell in cells {
        let worked = cell.cpu_load.iter().filter(|load| load.busy() >= 0.5);
        let worked: Vec<String> = worked.map(|load| format!("cpu {} {:.0} %", load.cpu, load.busy())).collect();
        let worked = if worked.is_empty() { "all cpus idle".into() } else { worked.join(", ") };
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
            // What rounds to nothing is nothing to see.
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

/// In the order of [`KINDS`]; what is left is idle.
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
    fn kinds_stand_on_each_other_and_idle_cpus_have_a_frame_alone() {
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
            verdicts: model::analysis::finding::VerdictCounts::default(),
            reasons: Vec::new(),
            caveats: Vec::new(),
        };
        let row = row(&cell, 0, &[CpuId(0), CpuId(1), CpuId(2)], 10.0);
        assert_eq!(row.frames, "M300 6h8v46h-8zM320 6h8v46h-8z", "cpu 1 was not looked at");
        assert_eq!(row.kinds[0], ("user", "M300 29h8v23h-8z".into()));
        assert_eq!(row.kinds[2], ("irq", "M300 17.5h8v11.5h-8z".into()));
        assert!(row.kinds[1].1.is_empty() && row.kinds[5].1.is_empty());
        assert_eq!(description(&[cell]), "Load of each cpu in percent of its time. one-core: cpu 0 75 %.");
    }
}
