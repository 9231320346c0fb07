//! `nearfar show`: shows the cells or trials of a stored run, or lists all runs.

use std::process::ExitCode;

use model::analysis::compare::{ComparedRun, efficiencies, planned};
use model::analysis::finding::{RunFinding, TrialNames};
use model::analysis::gate::GateResult;
use model::analysis::live::LiveTrial;
use model::analysis::place::PlaceResult;
use model::analysis::size::SizeAnswer;
use model::values::record::{RunRecord, TrialRecord};
use report::table::Metrics;
use store::TrialColumns;

use crate::app::results_file::readable_runs;
use crate::app::stored_live::{Stored, stored};
use crate::cli::{GlobalArgs, ShowArgs, ShowFormat};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::existing_store;

pub fn run(args: &ShowArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let style = output::stdout_style();
    if args.runs {
        let (runs, live) = (readable_runs(&store)?, store.live_experiments().map_err(CliError::failure)?);
        let text = || {
            let experiments = || report::table::live_experiments(&live, &style);
            match (&runs[..], &live[..]) {
                (runs, []) => report::table::runs(runs, &style),
                ([], _) => experiments(),
                (runs, _) => format!("{}\n{}", report::table::runs(runs, &style), experiments()),
            }
        };
        return print_list(args, text, || report::json::runs(&runs, &live));
    }
    let record = match stored(&store, &args.run)? {
        Stored::Run(record) => *record,
        Stored::Live(_, trial) => return print_live(args, &trial),
    };
    if args.trials {
        let trials = store.trials(&record.id).map_err(CliError::failure)?;
        let text = || report::table::trials(&record, &trials, &style);
        return print_list(args, text, || report::json::trials(&record, &trials));
    }
    // Only the result of a race depends on more than one number per trial and metric.
    let trials = match record.plan.race {
        Some(_) => store.trials(&record.id).map_err(CliError::failure)?,
        None => Vec::new(),
    };
    let names = if args.format == ShowFormat::Json { TrialNames::Kept } else { TrialNames::LeftOut };
    let mut finding = store.finding(&record, TrialColumns::All, names).map_err(CliError::failure)?;
    if args.strict {
        if record.plan.race.is_some() {
            return Err(CliError::usage("--strict does not apply to a search, whose result depends on all its trials")
                .hint("nearfar show --trials lists them with their verdicts"));
        }
        finding.leave_out_suspect();
    }
    let metrics = if args.all_metrics { Metrics::All } else { Metrics::Main };
    let efficiency = efficiencies(ComparedRun { record: &record, finding: &finding });
    match args.format {
        ShowFormat::Markdown => {
            let table = report::table::run_markdown(&record, &finding, metrics);
            output::print(&(table + &report::table::efficiency_markdown(&efficiency)))?;
        }
        ShowFormat::Csv => output::print(&report::table::run_csv(&record, &finding))?,
        ShowFormat::Text => {
            let load = if args.cpu_load { report::table::cpu_load(&record, &finding, &style) } else { String::new() };
            let text = match Answer::of(&record, &trials, &finding) {
                Answer::Race(answer) => report::table::answer(&record, &answer, false, &style),
                Answer::Size(answer) => report::table::size(&answer, &style),
                Answer::Gate(answer) => report::gate::text(&record, &answer, &style),
                Answer::Cells => {
                    report::table::run(&record, &finding, metrics, &style)
                        + &report::table::efficiency(&efficiency, &style)
                }
            };
            output::print(&(text + &load))?;
        }
        ShowFormat::Json => output::print_json(&match Answer::of(&record, &trials, &finding) {
            Answer::Race(answer) => report::json::race(&record, &finding, &answer),
            Answer::Size(answer) => report::json::sized(&record, &finding, &answer),
            Answer::Gate(answer) => report::json::gated(&record, &finding, &answer),
            Answer::Cells => report::json::run(&record, &finding, &efficiency),
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_live(args: &ShowArgs, trial: &LiveTrial) -> CommandResult {
    if args.trials || args.strict || args.all_metrics || args.cpu_load {
        return Err(CliError::usage("an experiment on a running service has no trials")
            .hint("nearfar show --format json lists its periods"));
    }
    match args.format {
        ShowFormat::Text => output::print(&report::live_trial(trial, &output::stdout_style()))?,
        ShowFormat::Json => output::print_json(&report::json::live_trial(trial))?,
        ShowFormat::Markdown | ShowFormat::Csv => {
            return Err(CliError::usage(
                "show supports only --format text and json for an experiment on a running service",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The answer of a run: the best placement, the DRAM that a program needs, the verdict of a gate, or the measured cells.
enum Answer {
    Race(Box<PlaceResult>),
    Size(Box<SizeAnswer>),
    Gate(Box<GateResult>),
    Cells,
}

impl Answer {
    fn of(record: &RunRecord, trials: &[TrialRecord], finding: &RunFinding) -> Self {
        if let Some(answer) = PlaceResult::of(record, trials) {
            return Self::Race(Box::new(answer));
        }
        if let Some(answer) = GateResult::of(&record.plan, finding) {
            return Self::Gate(Box::new(answer));
        }
        let compared = planned(&[ComparedRun { record, finding }], &record.plan);
        compared
            .and_then(|comparison| SizeAnswer::of(&record.plan, finding, &comparison))
            .map_or(Self::Cells, |answer| Self::Size(Box::new(answer)))
    }
}

fn print_list(
    args: &ShowArgs,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> serde_json::Value,
) -> CommandResult {
    match args.format {
        ShowFormat::Text => output::print(&text())?,
        ShowFormat::Json => output::print_json(&json())?,
        ShowFormat::Markdown | ShowFormat::Csv => {
            let list = if args.runs { "--runs" } else { "--trials" };
            return Err(CliError::usage(format!("show {list} supports only --format text and json"))
                .hint("for CSV of all trials, use nearfar export"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
