//! Lists of what there is: trials, runs, workloads, policies, placements.

use model::finding::metric_value;
use model::placement::{Lines, Offer, PolicyInfo};
use model::record::{Ending, RunRecord, TrialRecord};
use model::trial::{Grade, Role};
use model::workload::{ParameterKind, ParameterSpec, WorkloadSpec};

use super::run::better_word;
use crate::grid::{Grid, GridCell};
use crate::json::value;
use crate::look::{Look, Tone, clean, finished, marked, wrapped};
use crate::number::{date, significant};

/// What a policy makes of this machine, and how to apply it by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferLines<'a> {
    /// The placement, or why there is none.
    pub offer: &'a Offer,
    /// Lines to paste; none to leave them out.
    pub lines: Option<Lines>,
}

/// Every trial of a run in the order of the run, with its verdict.
pub fn trials(record: &RunRecord, trials: &[TrialRecord], look: &Look) -> String {
    let titles = ["trial", "id", "test", "placement", "repetition", "result", "took", "verdict", "reasons"];
    let mut grid = Grid::new(&titles).numeric(&["trial", "result", "took"]);
    for trial in trials {
        grid.rows.push(trial_row(record, trial));
    }
    grid.terminal(look)
}

fn trial_row(record: &RunRecord, trial: &TrialRecord) -> Vec<GridCell> {
    let cell = record.plan.cells.get(trial.trial.cell);
    let metric = record.plan.spec(&trial.trial.workload).and_then(|spec| spec.metrics.first());
    let result = metric.and_then(|metric| Some((metric_value(metric, &trial.outcome.samples)?, &metric.unit)));
    let result = result.map_or("none".into(), |(value, unit)| format!("{} {unit}", significant(value)));
    let (verdict, tone) = match trial.verdict.grade {
        Grade::Valid => ("valid", Tone::Plain),
        Grade::Suspect => ("suspect", Tone::Warning),
        Grade::Invalid => ("invalid", Tone::Bad),
    };
    vec![
        GridCell::plain(&trial.position.to_string()),
        GridCell::quiet(&trial.trial.id.0),
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
    }
}

/// The runs of a results file.
pub fn runs(records: &[RunRecord], look: &Look) -> String {
    let mut grid = Grid::new(&["run", "experiment", "machine", "begun", "cells", "ended"]).numeric(&["cells"]);
    for record in records {
        let machine = record.simulated.as_ref().map_or_else(
            || record.host.clone().or(record.machine.settings.get("cpu.model").map(str::to_string)),
            |simulated| Some(format!("simulated {simulated}")),
        );
        let tone = if record.simulated.is_some() { Tone::Warning } else { Tone::Plain };
        let (ended, unfinished) = ending(record.ended);
        grid.rows.push(vec![
            GridCell::plain(&record.id.0),
            GridCell::plain(&record.plan.experiment),
            GridCell::new(&machine.unwrap_or_else(|| record.machine.topology.summary()), tone),
            GridCell::plain(&date(record.started_unix_ms)),
            GridCell::plain(&record.plan.cells.len().to_string()),
            GridCell::new(ended, unfinished),
        ]);
    }
    grid.terminal(look)
}

pub(crate) fn ending(ended: Option<Ending>) -> (&'static str, Tone) {
    match ended {
        Some(Ending::Precise) => ("as precise as asked", Tone::Plain),
        Some(Ending::AllBlocks) => ("all repetitions", Tone::Plain),
        Some(Ending::Budget) => ("time was up", Tone::Plain),
        None => ("not finished", Tone::Warning),
    }
}

/// Every workload with its parameters and metrics.
pub fn workloads(specs: &[WorkloadSpec], look: &Look) -> String {
    specs.iter().map(|spec| workload(spec, look)).collect::<Vec<_>>().join("\n")
}

fn workload(spec: &WorkloadSpec, look: &Look) -> String {
    let mut out = format!("{}\n", finished(&marked(&clean(&spec.name), Tone::Strong), look));
    let threads = spec.threads_exactly.map(|threads| format!("It runs exactly {threads} threads."));
    for text in [&spec.summary, &spec.about].into_iter().chain(&threads).filter(|text| !text.is_empty()) {
        let lines = wrapped(&clean(text), look.width, look.width);
        out += &lines.iter().map(|line| format!("{}\n", finished(line, look))).collect::<String>();
    }
    if !spec.parameters.is_empty() {
        let mut grid = Grid::new(&["parameter", "default", "range", "what it is for"]);
        grid.rows = spec.parameters.iter().map(parameter_row).collect();
        out += &grid.terminal(look);
    }
    let mut grid = Grid::new(&["metric", "unit", "better"]);
    for metric in &spec.metrics {
        let texts = [metric.name.as_str(), metric.unit.as_str(), better_word(metric.better)];
        grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
    }
    out + &grid.terminal(look)
}

fn parameter_row(parameter: &ParameterSpec) -> Vec<GridCell> {
    let default = parameter.default.as_deref().unwrap_or("must be given");
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

/// The names of policies and what each makes.
pub fn policies(policies: &[PolicyInfo], look: &Look) -> String {
    let mut grid = Grid::new(&["policy", "what it makes"]);
    for policy in policies {
        grid.rows.push(vec![GridCell::plain(policy.name), GridCell::plain(policy.about)]);
    }
    grid.terminal(look)
}

/// What a machine offers, with reasons and lines; then what it does not offer.
pub fn placements(offers: &[OfferLines], look: &Look) -> String {
    let mut out = String::new();
    let mut lacking = Grid::new(&["not here", "why"]);
    for OfferLines { offer, lines } in offers {
        match &offer.placement {
            Err(why) => lacking.rows.push(vec![GridCell::plain(&offer.policy), GridCell::quiet(why)]),
            Ok(placement) => {
                let seats = if placement.is_seated() { placement.cpus().to_string() } else { "as the kernel likes".into() };
                out += &finished(&marked(&clean(&placement.name), Tone::Strong), look);
                let facts = format!("{} threads, cpus {seats}, memory {}", placement.threads, placement.memory);
                for text in [facts, clean(&placement.reason)] {
                    for line in wrapped(&text, look.width.saturating_sub(2), look.width.saturating_sub(2)) {
                        out += &format!("\n  {}", finished(&line, look));
                    }
                }
                out += "\n";
                out += &lines.as_ref().map_or(String::new(), |lines| pasted(lines, look));
                out += "\n";
            }
        }
    }
    if !lacking.rows.is_empty() {
        out += &lacking.terminal(look);
    }
    out
}

/// Each tool's line below its name; never wrapped, since it is to be pasted.
fn pasted(lines: &Lines, look: &Look) -> String {
    let lines = value(lines);
    let fields = lines.as_object().into_iter().flatten().filter_map(|(tool, line)| Some((tool, line.as_str()?)));
    let written = fields.map(|(tool, line)| {
        let name = finished(&marked(&tool.replace('_', " "), Tone::Quiet), look);
        let body: String = line.lines().map(|line| format!("      {}\n", clean(line))).collect();
        format!("    {name}:\n{body}")
    });
    written.collect()
}
