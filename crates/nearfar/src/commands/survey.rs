//! `nearfar fleet compare`: compares the machines in the results file.

use std::process::ExitCode;

use model::analysis::survey::SurveyOptions;
use model::values::calendar::parse_date_or_age;

use crate::app::report::survey_html;
use crate::app::survey;
use crate::cli::{FleetCompareArgs, GlobalArgs, SurveyFormat};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::existing_store;

/// Shows outliers, changes, and the facts associated with them.
pub fn run(args: &FleetCompareArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let options = SurveyOptions {
        class: args.class.iter().map(|fact| fact.trim().to_string()).collect(),
        workload: args.workload.clone(),
        all_metrics: args.all_metrics,
        false_alarms_percent: args.false_alarms,
        since_unix_ms: args.since.as_deref().map(since).transpose()?,
    };
    let survey = survey::of(&store, &args.runs, &options, args.strict)?;
    if survey.classes.is_empty() {
        return Err(CliError::usage("no test was measured on several machines")
            .hint("only runs of nearfar run and nearfar fleet run are compared"));
    }
    match args.format {
        SurveyFormat::Text => output::print(&report::survey::text(&survey, &output::stdout_style()))?,
        SurveyFormat::Markdown => output::print(&report::survey::markdown(&survey))?,
        SurveyFormat::Json => output::print_json(&report::json::survey(&survey))?,
        SurveyFormat::Html => output::print(&survey_html(survey))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn since(text: &str) -> Result<u64, CliError> {
    let now = crate::app::target_machine::now_unix_ms();
    parse_date_or_age(text, now).map_err(|error| CliError::usage(format!("invalid value for --since: {error}")))
}
