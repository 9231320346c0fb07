//! `nearfar show`: shows the cells or trials of a stored run, or lists all runs.

use std::process::ExitCode;

use model::analysis::compare::{ComparedRun, planned};
use model::analysis::finding::summarise;
use model::analysis::place::PlaceResult;
use model::analysis::size::SizeAnswer;

use report::table::Metrics;

use crate::cli::{GlobalArgs, ShowArgs, TextOrJson};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::existing_store;

pub fn run(args: &ShowArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let style = output::stdout_style();
    if args.runs {
        let runs = store.runs().map_err(CliError::failure)?;
        return print(args.format, || report::table::runs(&runs, &style), || report::json::runs(&runs));
    }
    let record = store.run(&args.run).map_err(CliError::usage)?;
    let trials = store.trials(&record.id).map_err(CliError::failure)?;
    if args.trials {
        return print(
            args.format,
            || report::table::trials(&record, &trials, &style),
            || report::json::trials(&trials),
        );
    }
    let finding = summarise(&record.plan, &trials);
    let load = || if args.cpu_load { report::table::cpu_load(&record, &finding, &style) } else { String::new() };
    if let Some(answer) = PlaceResult::of(&record, &trials) {
        let text = || report::table::answer(&record, &answer, &style) + &load();
        return print(args.format, text, || report::json::race(&record, &finding, &answer));
    }
    let compared = planned(&[ComparedRun { record: &record, finding: &finding }], &record.plan);
    if let Some(answer) = compared.and_then(|comparison| SizeAnswer::of(&record.plan, &comparison)) {
        let text = || report::table::size(&answer, &style) + &load();
        return print(args.format, text, || report::json::sized(&record, &finding, &answer));
    }
    let metrics = if args.all_metrics { Metrics::All } else { Metrics::Main };
    print(
        args.format,
        || report::table::run(&record, &finding, metrics, &style) + &load(),
        || report::json::run(&record, &finding),
    )
}

fn print(format: TextOrJson, text: impl FnOnce() -> String, json: impl FnOnce() -> serde_json::Value) -> CommandResult {
    match format {
        TextOrJson::Text => output::print(&text())?,
        TextOrJson::Json => output::print_json(&json())?,
    }
    Ok(ExitCode::SUCCESS)
}
