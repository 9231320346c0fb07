//! `nearfar list`: lists workloads, experiments or policies.

use std::process::ExitCode;

use model::placements::placement::policy_infos;

use crate::app::experiment::BUILT_IN;
use crate::cli::{GlobalArgs, ListArgs, ListKind, TextOrJson};
use crate::error::{CliError, CommandResult};
use crate::output;

pub fn run(args: &ListArgs, _common: &GlobalArgs) -> CommandResult {
    let style = output::stdout_style();
    let (text, json) = match args.kind {
        ListKind::Workloads => {
            let specs = workloads::specs();
            (report::table::workloads(&specs, &style), report::json::workloads(&specs))
        }
        ListKind::Experiments => {
            let experiments = built_in()?;
            (report::table::experiments(&experiments, &style), report::json::experiments(&experiments))
        }
        ListKind::Policies => {
            let policies = policy_infos();
            (report::table::policies(&policies, &style), report::json::policies(&policies))
        }
    };
    match args.format {
        TextOrJson::Text => output::print(&text)?,
        TextOrJson::Json => output::print_json(&json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the name and the question of every built-in experiment.
fn built_in() -> Result<Vec<(String, String)>, CliError> {
    let specs = workloads::specs();
    let read = |(file, text): &(&str, &str)| {
        model::experiments::experiment::parse(text, file, &specs).map_err(CliError::failure)
    };
    BUILT_IN.iter().map(read).map(|experiment| experiment.map(|one| (one.name, one.question))).collect()
}
