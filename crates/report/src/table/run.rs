//! The cells of a run with medians and intervals, the skipped cells, and the validity of the trials.

use std::iter;

use model::analysis::finding::{CellFinding, RunFinding};
use model::values::plan::SkippedCell;
use model::values::record::RunRecord;
use model::values::workload::WorkloadSpec;

use super::columns::{Column, Format, ResultRow, columns, empty_grid};
use super::csv_text;
use crate::grid::{Grid, GridCell};
use crate::stamp;
use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// The metrics of each cell that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// The first metric of each workload; for requests to a disk also throughput and latency.
    Main,
    All,
}

/// For the terminal: the question, the cells, and the skipped cells with reasons.
pub fn run(record: &RunRecord, finding: &RunFinding, metrics: Metrics, style: &TextStyle) -> String {
    let mut out = heading(record, style);
    out += &headed_grid(record, finding, metrics).terminal(style);
    let invalid_trials = invalid_trials_grid(finding);
    if !invalid_trials.rows.is_empty() {
        out += &section("Trials that were disturbed or not verified", style);
        out += &invalid_trials.terminal(style);
    }
    let caveats = caveats_grid(finding);
    if !caveats.rows.is_empty() {
        out += &section("Limitations of these results", style);
        out += &caveats.terminal(style);
    }
    if !finding.skipped.is_empty() {
        out += &section("Skipped: not available on this machine", style);
        out += &skipped_grid(&finding.skipped).without_repeats(1).terminal(style);
    }
    out
}

/// The same cells as Markdown.
pub fn run_markdown(record: &RunRecord, finding: &RunFinding, metrics: Metrics) -> String {
    let mut out = stamp::markdown(&stamp::of_run(record)) + &run_grid(record, finding, metrics).markdown();
    if !finding.skipped.is_empty() {
        out += &format!("\nSkipped:\n\n{}", skipped_grid(&finding.skipped).markdown());
    }
    out
}

/// Every metric of every cell, unrounded, one per line.
pub fn run_csv(record: &RunRecord, finding: &RunFinding) -> String {
    let columns = columns(Format::Csv, finding.passes);
    let header = columns.iter().map(|column| column.id.to_string()).collect();
    let cells = finding.cells.iter();
    let rows = cells.flat_map(|cell| cell.metrics.iter().map(move |metric| ResultRow { record, cell, metric }));
    let fields = rows.map(|row| columns.iter().map(|column| column.csv_field(row)).collect());
    csv_text(&iter::once(header).chain(fields).collect::<Vec<_>>())
}

pub(crate) fn section(title: &str, style: &TextStyle) -> String {
    format!("\n{}\n", finished(&with_symbol(title, Tone::Strong), style))
}

pub(crate) fn heading(record: &RunRecord, style: &TextStyle) -> String {
    let plan = &record.plan;
    let mut lines = vec![with_symbol(&clean(&plan.experiment), Tone::Strong)];
    lines.extend((!plan.question.is_empty()).then(|| clean(&plan.question)));
    lines.push(with_symbol(&machine(record), Tone::Quiet));
    lines.extend(stamp::of_run(record).iter().map(|stamp| with_symbol(stamp, Tone::Warning)));
    let wrapped = lines.iter().flat_map(|line| wrapped(line, style.width, style.width));
    let text: Vec<String> = wrapped.map(|line| finished(&line, style)).collect();
    format!("{}\n\n", text.join("\n"))
}

/// `AMD Ryzen 5 2600: 1 package, …`.
pub(crate) fn machine(record: &RunRecord) -> String {
    let name = record.host.as_deref().or(record.machine.settings.get("cpu.model"));
    let summary = record.machine.topology.summary();
    clean(&name.map_or(summary.clone(), |name| format!("{name}: {summary}")))
}

/// One row per cell and metric, in the order of tests and their metrics.
pub(crate) fn run_grid(record: &RunRecord, finding: &RunFinding, metrics: Metrics) -> Grid {
    let columns = columns(Format::Table, finding.passes);
    let mut grid = empty_grid(&columns);
    grid.rows.extend(shown(record, finding, metrics).map(|row| cells(&columns, row)));
    grid
}

/// The same table for a terminal: headings contain what a test's rows have in common.
pub(crate) fn headed_grid(record: &RunRecord, finding: &RunFinding, metrics: Metrics) -> Grid {
    let columns = columns(Format::Terminal, finding.passes);
    let mut grid = empty_grid(&columns);
    for row in shown(record, finding, metrics) {
        let heading = row.heading();
        if grid.headings.last().is_none_or(|(_, last)| *last != heading) {
            grid.heading(&heading);
        }
        grid.rows.push(cells(&columns, row));
    }
    grid
}

fn cells(columns: &[&Column], row: ResultRow<'_>) -> Vec<GridCell> {
    columns.iter().map(|column| column.grid_cell(row)).collect()
}

/// The cells of a test stay together for each of its metrics.
fn shown<'a>(record: &'a RunRecord, finding: &'a RunFinding, metrics: Metrics) -> impl Iterator<Item = ResultRow<'a>> {
    finding.cells.chunk_by(|a, b| a.test == b.test).flat_map(move |cells| {
        let all = cells.iter().map(|cell| cell.metrics.len()).max().unwrap_or(0);
        let spec = cells.first().and_then(|cell| record.plan.spec(&cell.workload));
        let short = spec.map_or(1, WorkloadSpec::short_metrics);
        let count = if metrics == Metrics::All { all } else { all.min(short) };
        let row = move |cell: &'a CellFinding, rank| Some(ResultRow { record, cell, metric: cell.metrics.get(rank)? });
        (0..count).flat_map(move |rank| cells.iter().filter_map(move |cell| row(cell, rank)))
    })
}

/// The reasons of invalid and suspect trials, each once for the run with the range of its numbers.
pub(crate) fn invalid_trials_grid(finding: &RunFinding) -> Grid {
    let mut grid = Grid::new(&["trials", "reason", "tests", "placements"]);
    for group in finding.reason_groups() {
        let trials = format!("{} of {}", group.trials, group.of);
        let texts = [trials, group.reason.clone(), first_and_more(&group.tests), first_and_more(&group.placements)];
        grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
    }
    grid
}

/// `stream`, `stream, gemm`, `stream and 3 more`.
fn first_and_more<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [first, others @ ..] if others.len() > 1 => format!("{} and {} more", first.as_ref(), others.len()),
        names => names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", "),
    }
}

/// The limitations of the results, each once, with its tests.
pub(crate) fn caveats_grid(finding: &RunFinding) -> Grid {
    let mut grid = Grid::new(&["what", "tests"]);
    let mut about: Vec<(&str, Vec<&str>)> = Vec::new();
    for (caveat, test) in finding.cells.iter().flat_map(|cell| cell.caveats.iter().map(|caveat| (caveat, &*cell.test)))
    {
        match about.iter_mut().find(|(known, _)| known == caveat) {
            Some((_, tests)) if tests.contains(&test) => {}
            Some((_, tests)) => tests.push(test),
            None => about.push((caveat, vec![test])),
        }
    }
    for (caveat, tests) in about {
        let tests = first_and_more(&tests);
        grid.rows.push([caveat, &tests].map(GridCell::plain).to_vec());
    }
    grid
}

pub(crate) fn skipped_grid(skipped: &[SkippedCell]) -> Grid {
    let mut grid = Grid::new(&["test", "placement", "why"]);
    for skipped in skipped {
        let texts = [&skipped.test, &skipped.placement, &skipped.why];
        grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
    }
    grid
}
