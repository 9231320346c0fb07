//! `nearfar fleet compare`: the machines of the results file side by side.

use std::process::ExitCode;

use model::analysis::survey::SurveyOptions;

use crate::cli::{FleetCompareArgs, GlobalArgs, SurveyFormat};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::target_machine::existing_store;
use crate::{reported, surveyed};

/// Shows who stands out, what changed, and which facts go with it.
pub fn run(args: &FleetCompareArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let wish = SurveyOptions {
        class: args.class.iter().map(|fact| fact.trim().to_string()).collect(),
        workload: args.workload.clone(),
        all_metrics: args.all_metrics,
        false_alarms_percent: args.false_alarms,
    };
    let survey = surveyed::of(&store, &args.runs, &wish)?;
    if survey.classes.is_empty() {
        return Err(CliError::usage("no run here measured the same on several machines")
            .hint("runs of place and of map --measure are not compared; nearfar run and nearfar fleet run are"));
    }
    match args.format {
        SurveyFormat::Text => output::print(&report::survey::text(&survey, &output::look()))?,
        SurveyFormat::Markdown => output::print(&report::survey::markdown(&survey))?,
        SurveyFormat::Json => output::print_json(&report::json::survey(&survey))?,
        SurveyFormat::Html => output::print(&reported::survey(&survey))?,
    }
    Ok(ExitCode::SUCCESS)
}
