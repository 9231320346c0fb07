//! Lists: trials, runs, workloads, policies, placements.

use model::analysis::finding::metric_value;
use model::analysis::live::{LiveEnd, LiveSummary};
use model::placements::placement::{CommandLines, PolicyInfo, PolicyResult};
use model::values::placement::Placement;
use model::values::plan::Plan;
use model::values::record::{EndReason, RunRecord, RunSummary, TrialRecord};
use model::values::trial::{Grade, Role};
use model::values::undo::Restored;
use model::values::units::{Nanos, thread_count};
use model::values::workload::{ParameterKind, ParameterSpec, WorkloadSpec};

use super::columns::better_word;
use super::run::skipped_grid;
use crate::grid::{CellKind, Grid, GridCell};
use crate::json::value;
use crate::number::{date, significant};
use crate::stamp;
use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// Minimum line width at which all columns of a list of trials are shown.
const ALL_WIDTH_MIN: usize = 110;

/// The result of a policy on this machine, with the commands to apply it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyLines<'a> {
    /// The placement, or why there is none.
    pub offer: &'a PolicyResult,
    /// The command lines; `None` to omit them.
    pub lines: Option<CommandLines>,
}

/// The result of restoring the settings that an interrupted run had changed.
pub fn restored(restored: &[Restored]) -> String {
    if restored.is_empty() {
        return "nothing to restore: no run left a setting changed".into();
    }
    restored.iter().map(|restored| clean(&restored.to_string())).collect::<Vec<_>>().join("\n")
}

/// Every trial of a run in the order of the run, with its verdict.
pub fn trials(record: &RunRecord, trials: &[TrialRecord], style: &TextStyle) -> String {
    let titles = ["trial", "id", "test", "placement", "repetition", "result", "took", "verdict", "reasons"];
    let mut grid = Grid::new(&titles).numbers(&["trial", "result", "took"]).holding(CellKind::Word, &["id"]);
    for trial in trials {
        grid.rows.push(trial_row(record, trial));
    }
    // On narrow lines the reasons get the space: the position identifies a trial too, and the JSON has all columns.
    let grid = if style.width < ALL_WIDTH_MIN { grid.without("id").without("took") } else { grid };
    stamp::terminal(&stamp::of_run(record), style) + &grid.terminal(style)
}

fn trial_row(record: &RunRecord, trial: &TrialRecord) -> Vec<GridCell> {
    let cell = record.plan.cells.get(trial.trial.cell);
    let metric = cell.and_then(|cell| record.plan.main_metric(cell));
    let result = metric.and_then(|metric| Some((metric_value(metric, &trial.outcome.samples)?, &metric.unit)));
    let result = result.map_or("none".into(), |(value, unit)| format!("{} {unit}", significant(value)));
    let (verdict, tone) = match trial.verdict.grade {
        Grade::Valid => ("valid", Tone::Plain),
        Grade::Suspect => ("suspect", Tone::Warning),
        Grade::Invalid => ("invalid", Tone::Bad),
    };
    vec![
        GridCell::plain(&trial.position.to_string()),
        GridCell::muted(&trial.trial.id.0),
        GridCell::plain(cell.map_or(&trial.trial.workload, |cell| &cell.test)),
        GridCell::plain(&trial.trial.placement.name),
        GridCell::plain(&repetition(trial)),
        GridCell::plain(&result),
        GridCell::plain(&trial.outcome.took.to_string()),
        GridCell::new(verdict, tone),
        GridCell::plain(&trial.verdict.reasons.join("; ")),
    ]
}

/// `3`, `3 again (1)`, `warm-up 0`.
fn repetition(trial: &TrialRecord) -> String {
    let trial = &trial.trial;
    let again = if trial.attempt > 0 { format!(" again ({})", trial.attempt) } else { String::new() };
    match trial.role {
        Role::Warmup => format!("warm-up {}{again}", trial.block),
        Role::Measured => format!("{}{again}", trial.block),
        Role::Confirm => format!("confirming {}{again}", trial.block),
    }
}

/// The runs of a results file.
pub fn runs(runs: &[RunSummary], style: &TextStyle) -> String {
    let titles = ["run", "experiment", "machine", "begun", "cells", "trials", "ended"];
    let mut grid = Grid::new(&titles).numbers(&["cells", "trials"]).holding(CellKind::Word, &["run"]);
    for run in runs {
        let tone = if run.stamp().is_empty() { Tone::Plain } else { Tone::Warning };
        let machine = stamp::machine(run);
        let (ended, unfinished) = ending(run.ended);
        grid.rows.push(vec![
            GridCell::plain(&run.id.0),
            GridCell::plain(&run.experiment),
            GridCell::new(&machine, tone),
            GridCell::plain(&date(run.started_unix_ms)),
            GridCell::plain(&run.cells.to_string()),
            GridCell::plain(&run.trials.to_string()),
            GridCell::new(ended, unfinished),
        ]);
    }
    grid.terminal(style)
}

/// The experiments on running services of a results file.
pub fn live_experiments(experiments: &[LiveSummary], style: &TextStyle) -> String {
    let titles = ["experiment", "service", "metric", "begun", "placements", "periods", "ended"];
    let mut grid = Grid::new(&titles).numbers(&["placements", "periods"]).holding(CellKind::Word, &["experiment"]);
    for live in experiments {
        let (ended, tone) = live_ending(live);
        grid.rows.push(vec![
            GridCell::plain(&live.id.0),
            GridCell::plain(&live.subject),
            GridCell::plain(&live.metric),
            GridCell::plain(&date(live.started_unix_ms)),
            GridCell::plain(&live.placements.to_string()),
            GridCell::plain(&live.periods.to_string()),
            GridCell::new(&ended, tone),
        ]);
    }
    grid.terminal(style)
}

/// Why an experiment on a running service ended.
pub(crate) fn live_ending(live: &LiveSummary) -> (String, Tone) {
    match &live.ended {
        None => ("not finished".into(), Tone::Warning),
        Some(LiveEnd { reason: None, .. }) => ("as planned".into(), Tone::Plain),
        Some(LiveEnd { reason: Some(reason), .. }) => (clean(reason), Tone::Warning),
    }
}

/// The plan of a run: its cells, number of trials and duration.
pub fn plan(plan: &Plan, trials: usize, time: Nanos, style: &TextStyle) -> String {
    let titles = ["placement", "threads", "cpus", "memory", "why"];
    let mut grid = Grid::new(&titles).numbers(&["threads"]);
    for cell in &plan.cells {
        if grid.headings.last().is_none_or(|(_, last)| *last != clean(&cell.test)) {
            grid.heading(&cell.test);
        }
        let Placement { name, reason, threads, memory, .. } = &cell.placement;
        // Lists of CPUs have no spaces and are therefore broken at commas.
        let cpus = cell.placement.cpus().to_string().replace(',', ", ");
        let cpus = if cpus.is_empty() { "any".into() } else { cpus };
        let texts = [name, &threads.to_string(), &cpus, &memory.to_string(), reason];
        grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
    }
    let head = format!("{}: {} cells, about {trials} trials in {time}", clean(&plan.experiment), plan.cells.len());
    let mut out = format!("{}\n\n{}", finished(&with_symbol(&head, Tone::Strong), style), grid.terminal(style));
    if !plan.skipped.is_empty() {
        out +=
            &format!("\n{}\n", finished(&with_symbol("Skipped: not available on this machine", Tone::Strong), style));
        out += &skipped_grid(&plan.skipped).without_repeats(1).terminal(style);
    }
    out
}

/// Experiments by name and question.
pub fn experiments(experiments: &[(String, String)], style: &TextStyle) -> String {
    let mut grid = Grid::new(&["experiment", "question"]);
    for (name, question) in experiments {
        grid.rows.push(vec![GridCell::plain(name), GridCell::plain(question)]);
    }
    grid.terminal(style)
}

pub(crate) fn ending(ended: Option<EndReason>) -> (&'static str, Tone) {
    match ended {
        Some(EndReason::Precise) => ("requested precision", Tone::Plain),
        Some(EndReason::AllBlocks) => ("all repetitions", Tone::Plain),
        Some(EndReason::Budget) => ("budget used up", Tone::Plain),
        Some(EndReason::Resolved) => ("resolved", Tone::Plain),
        Some(EndReason::NoReference) => ("no baseline", Tone::Warning),
        None => ("not finished", Tone::Warning),
    }
}

/// Every workload with its parameters and metrics.
pub fn workloads(specs: &[WorkloadSpec], style: &TextStyle) -> String {
    specs.iter().map(|spec| workload(spec, style)).collect::<Vec<_>>().join("\n")
}

fn workload(spec: &WorkloadSpec, style: &TextStyle) -> String {
    let mut out = format!("{}\n", finished(&with_symbol(&clean(&spec.name), Tone::Strong), style));
    let threads = spec.threads_exactly.map(|threads| format!("It runs exactly {threads} threads."));
    for text in [&spec.summary, &spec.about].into_iter().chain(&threads).filter(|text| !text.is_empty()) {
        let lines = wrapped(&clean(text), style.width, style.width);
        out += &lines.iter().map(|line| format!("{}\n", finished(line, style))).collect::<String>();
    }
    if !spec.parameters.is_empty() {
        let mut grid = Grid::new(&["parameter", "default", "range", "meaning"]);
        grid.rows = spec.parameters.iter().map(parameter_row).collect();
        out += &format!("\n{}\n", grid.terminal(style));
    }
    let mut grid = Grid::new(&["metric", "unit", "better"]);
    for metric in &spec.metrics {
        let texts = [metric.name.as_str(), metric.unit.as_str(), better_word(metric.better)];
        grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
    }
    out + &grid.terminal(style)
}

fn parameter_row(parameter: &ParameterSpec) -> Vec<GridCell> {
    let default = parameter.default.as_deref().unwrap_or("required");
    let smoke = parameter.smoke.as_ref().map_or(String::new(), |smoke| format!(" (smoke: {smoke})"));
    vec![
        GridCell::plain(&parameter.name),
        GridCell::plain(&format!("{default}{smoke}")),
        GridCell::plain(&range(&parameter.kind)),
        GridCell::plain(&parameter.about),
    ]
}

fn range(kind: &ParameterKind) -> String {
    match kind {
        ParameterKind::Integer { min, max } => format!("{min} to {max}"),
        ParameterKind::Size { min, max } => format!("size, {min} to {max}"),
        ParameterKind::Time { min, max } => format!("time, {min} to {max}"),
        ParameterKind::Switch => "true or false".into(),
        ParameterKind::Choice(words) => words.join(", "),
        ParameterKind::Text => "text".into(),
    }
}

/// The names of policies with their meanings.
pub fn policies(policies: &[PolicyInfo], style: &TextStyle) -> String {
    let mut grid = Grid::new(&["policy", "placements"]);
    for policy in policies {
        grid.rows.push(vec![GridCell::plain(policy.name), GridCell::plain(policy.about)]);
    }
    grid.terminal(style)
}

/// The placements of a machine with reasons and command lines, then those that are not available.
pub fn placements(offers: &[PolicyLines], style: &TextStyle) -> String {
    let mut out = String::new();
    let mut unavailable = Grid::new(&["not available", "reason"]);
    for PolicyLines { offer, lines } in offers {
        match &offer.placement {
            Err(why) => unavailable.rows.push(vec![GridCell::plain(&offer.policy), GridCell::muted(why)]),
            Ok(placement) => out += &offered(placement, offer.same_as.as_deref(), lines.as_ref(), style),
        }
    }
    if !unavailable.rows.is_empty() {
        out += &unavailable.terminal(style);
    }
    out
}

fn offered(placement: &Placement, same_as: Option<&str>, lines: Option<&CommandLines>, style: &TextStyle) -> String {
    let seats = if placement.is_pinned() { placement.cpus().to_string() } else { "not bound".into() };
    let threads = thread_count(placement.threads);
    let facts = format!("{threads}, cpus {seats}, memory {}", placement.memory);
    let same = same_as.map(|other| format!("same as {} on this machine", clean(other)));
    let mut out = finished(&with_symbol(&clean(&placement.name), Tone::Strong), style);
    let limit = style.width.saturating_sub(2);
    for text in [facts, clean(&placement.reason)].into_iter().chain(same) {
        for line in wrapped(&text, limit, limit) {
            out += &format!("\n  {}", finished(&line, style));
        }
    }
    format!("{out}\n{}\n", lines.map_or(String::new(), |lines| pasted(lines, style)))
}

/// The command line of each tool below its name; never wrapped, so that it can be copied.
pub(super) fn pasted(lines: &CommandLines, style: &TextStyle) -> String {
    let lines = value(lines);
    let fields = lines.as_object().into_iter().flatten().filter_map(|(tool, line)| Some((tool, line.as_str()?)));
    let written = fields.map(|(tool, line)| {
        let name = finished(&with_symbol(&tool.replace('_', " "), Tone::Quiet), style);
        let body: String = line.lines().map(|line| format!("      {}\n", clean(line))).collect();
        format!("    {name}:\n{body}")
    });
    written.collect()
}
