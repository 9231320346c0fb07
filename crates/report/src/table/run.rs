//! The cells of a run with medians and intervals, the skipped cells, and the validity of the trials.

use model::analysis::finding::{CellFinding, MetricFinding, RunFinding};
use model::values::plan::SkippedCell;
use model::values::record::{RunRecord, VerdictCounts};
use model::values::workload::Better;

use super::{csv_number, csv_text};
use crate::grid::{CellKind, Grid, GridCell, markdown_text};
use crate::number::{Scale, interval};
use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// The metrics of each cell that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// The first metric of each workload.
    Main,
    All,
}

/// For the terminal: the question, the cells, and the skipped cells with reasons.
pub fn run(record: &RunRecord, finding: &RunFinding, metrics: Metrics, style: &TextStyle) -> String {
    let mut out = heading(record, style);
    out += &headed_grid(finding, metrics).terminal(style);
    let invalid_trials = invalid_trials_grid(finding);
    if !invalid_trials.rows.is_empty() {
        out += &section("Trials that were disturbed or not verified", style);
        out += &invalid_trials.without_repeats(2).terminal(style);
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
    let stamp = simulated(record).map_or(String::new(), |stamp| format!("**{}**\n\n", markdown_text(&stamp)));
    let mut out = format!("{stamp}{}", run_grid(finding, metrics).markdown());
    if !finding.skipped.is_empty() {
        out += &format!("\nSkipped:\n\n{}", skipped_grid(&finding.skipped).markdown());
    }
    out
}

/// Every metric of every cell, unrounded, one per line.
pub fn run_csv(record: &RunRecord, finding: &RunFinding) -> String {
    let header = "run,simulated,test,workload,parameters,placement,threads,cpus,memory,metric,unit,better,median,ci_low,\
                  ci_high,best,mean,samples,valid,suspect,invalid";
    let mut rows: Vec<Vec<String>> = vec![header.split(',').map(str::to_string).collect()];
    for cell in &finding.cells {
        let parameters: Vec<String> = cell.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for metric in &cell.metrics {
            rows.push(vec![
                record.id.0.clone(),
                record.simulated.clone().unwrap_or_default(),
                cell.test.clone(),
                cell.workload.clone(),
                parameters.join(" "),
                cell.placement.clone(),
                cell.threads.to_string(),
                cell.cpus.clone(),
                cell.memory.clone(),
                metric.name.clone(),
                metric.unit.clone(),
                better_word(metric.better).into(),
                csv_number(metric.median),
                csv_number(metric.ci_low),
                csv_number(metric.ci_high),
                csv_number(metric.best),
                csv_number(metric.mean),
                metric.samples.len().to_string(),
                cell.verdicts.valid.to_string(),
                cell.verdicts.suspect.to_string(),
                cell.verdicts.invalid.to_string(),
            ]);
        }
    }
    csv_text(&rows)
}

pub(crate) fn better_word(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
}

pub(crate) fn section(title: &str, style: &TextStyle) -> String {
    format!("\n{}\n", finished(&with_symbol(title, Tone::Strong), style))
}

pub(crate) fn heading(record: &RunRecord, style: &TextStyle) -> String {
    let plan = &record.plan;
    let mut lines = vec![with_symbol(&clean(&plan.experiment), Tone::Strong)];
    lines.extend((!plan.question.is_empty()).then(|| clean(&plan.question)));
    lines.push(with_symbol(&machine(record), Tone::Quiet));
    lines.extend(simulated(record).map(|stamp| with_symbol(&stamp, Tone::Warning)));
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

/// The first line of all reports of a simulated run.
pub(crate) fn simulated(record: &RunRecord) -> Option<String> {
    let simulated = record.simulated.as_ref()?;
    Some(clean(&format!("SIMULATED on {simulated}: a model generated these values, no machine was measured")))
}

/// One row per cell and metric, in the order of tests and their metrics.
pub(crate) fn run_grid(finding: &RunFinding, metrics: Metrics) -> Grid {
    let passes = finding.passes;
    let titles = titles(&["test", "metric", "better", "placement", "threads"], passes, &["unit", "n", "trials"]);
    let mut grid = numbered(Grid::new(&titles));
    for (cell, metric) in shown(finding, metrics) {
        let [placement, threads, samples, trials] = row(cell, metric);
        let [test, name] = [&cell.test, &metric.name].map(|text| GridCell::plain(text));
        let [better, unit] = [better_word(metric.better), &metric.unit].map(GridCell::muted);
        let names = vec![test, name, better, placement, threads];
        grid.rows.push([names, figures(metric, passes), vec![unit, samples, trials]].concat());
    }
    grid
}

/// The same table for a terminal: headings contain what a test's rows have in common.
pub(crate) fn headed_grid(finding: &RunFinding, metrics: Metrics) -> Grid {
    let passes = finding.passes;
    let mut grid = numbered(Grid::new(&titles(&["placement", "threads"], passes, &["n", "trials"])));
    for (cell, metric) in shown(finding, metrics) {
        let better = better_word(metric.better);
        let heading = format!("{}: {} in {}, {better} is better", cell.test, metric.name, metric.unit);
        if grid.headings.last().is_none_or(|(_, last)| *last != clean(&heading)) {
            grid.heading(&heading);
        }
        let [placement, threads, samples, trials] = row(cell, metric);
        grid.rows.push([vec![placement, threads], figures(metric, passes), vec![samples, trials]].concat());
    }
    grid
}

/// The cells of a test stay together for each of its metrics.
fn shown(finding: &RunFinding, metrics: Metrics) -> impl Iterator<Item = (&CellFinding, &MetricFinding)> {
    finding.cells.chunk_by(|a, b| a.test == b.test).flat_map(move |cells| {
        let all = cells.iter().map(|cell| cell.metrics.len()).max().unwrap_or(0);
        let count = if metrics == Metrics::All { all } else { all.min(1) };
        (0..count).flat_map(move |rank| cells.iter().filter_map(move |cell| Some((cell, cell.metrics.get(rank)?))))
    })
}

/// The titles, including the columns of values: the median, its interval, and for passes the best and the mean.
fn titles<'t>(first: &[&'t str], passes: bool, last: &[&'t str]) -> Vec<&'t str> {
    let figures: &[&str] =
        if passes { &["median", "95 % interval", "best", "mean"] } else { &["median", "95 % interval"] };
    [first, figures, last].concat()
}

fn numbered(grid: Grid) -> Grid {
    grid.numbers(&["threads", "median", "best", "mean", "n"]).holding(CellKind::Word, &["95 % interval"])
}

fn figures(metric: &MetricFinding, passes: bool) -> Vec<GridCell> {
    let scale = metric.median.map(Scale::of);
    let written = |number: Option<f64>| number.zip(scale).map(|(number, scale)| scale.write(number));
    let middle = metric.median.unwrap_or(f64::NAN);
    let median = GridCell::plain(written(metric.median).as_deref().unwrap_or("no result"));
    let ends = scale.and_then(|scale| interval(metric.ci_low, metric.ci_high, scale));
    let ends = GridCell::plain(ends.as_deref().unwrap_or("too few trials"));
    let ends = ends.of_interval(metric.ci_low.zip(metric.ci_high), &metric.unit);
    let mut cells = vec![median.of(middle, Some(&metric.unit)), ends];
    if passes {
        let cell = |number: Option<f64>| {
            GridCell::plain(&written(number).unwrap_or_default()).of(number.unwrap_or(f64::NAN), Some(&metric.unit))
        };
        cells.extend([metric.best, metric.mean].map(cell));
    }
    cells
}

fn row(cell: &CellFinding, metric: &MetricFinding) -> [GridCell; 4] {
    let (words, tone) = verdict_words(cell.verdicts);
    [
        GridCell::plain(&cell.placement),
        GridCell::plain(&cell.threads.to_string()),
        GridCell::plain(&metric.samples.len().to_string()),
        GridCell::new(&words, tone),
    ]
}

/// `all valid`, `2 suspect`, `no trial yet`.
pub(crate) fn verdict_words(verdicts: VerdictCounts) -> (String, Tone) {
    let VerdictCounts { valid, suspect, invalid } = verdicts;
    match (valid, suspect, invalid) {
        (0, 0, 0) => ("no trial yet".into(), Tone::Warning),
        (_, 0, 0) => ("all valid".into(), Tone::Plain),
        (0, 0, _) => ("all invalid".into(), Tone::Bad),
        (_, _, 0) => (format!("{suspect} suspect"), Tone::Warning),
        (_, 0, _) => (format!("{invalid} invalid"), Tone::Bad),
        _ => (format!("{suspect} suspect, {invalid} invalid"), Tone::Bad),
    }
}

/// The reasons of invalid and suspect trials by cell.
pub(crate) fn invalid_trials_grid(finding: &RunFinding) -> Grid {
    let mut grid = Grid::new(&["test", "placement", "trials", "reason"]).numbers(&["trials"]);
    for cell in &finding.cells {
        for (reason, count) in &cell.reasons {
            let texts = [&cell.test, &cell.placement, &count.to_string(), reason];
            grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
        }
    }
    grid
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
        let tests = match tests.as_slice() {
            [first, others @ ..] if others.len() > 1 => format!("{first} and {} more", others.len()),
            tests => tests.join(", "),
        };
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
